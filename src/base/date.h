/*
 * Dates of the Gregorian calendar, and times in the format of RFC 3339, without time
 * zones.
 */
#ifndef WH_BASE_DATE_H
#define WH_BASE_DATE_H

#include <stdint.h>

#include "base/error.h"

/* Seconds of a day; bytes of a printed time. */
enum { WH_DAY = 86400, WH_LOCAL_TIME_LEN = 80 };

/* The first and last time that can be parsed and printed, in seconds of Unix time: the
 * years 1 to 9999. */
#define WH_TIME_FIRST INT64_C(-62135596800)
#define WH_TIME_LAST INT64_C(253402300799)

typedef struct wh_date {
	int year;
	int month; /* 1 to 12 */
	int day;   /* 1 to 31 */
} wh_date;

/* Convert a date to days since 1970-01-01, and back. */
int64_t wh_date_days(wh_date date);
wh_date wh_date_of(int64_t days);

int wh_date_weekday(int64_t days); /* 0 (Sunday) to 6. */
int wh_date_month_days(int year, int month);

/* Quotient and remainder, where the remainder is never negative.  `by` must be
 * positive. */
int64_t wh_floor_div(int64_t n, int64_t by);
int64_t wh_floor_mod(int64_t n, int64_t by);

/*
 * Parse a time such as 2026-03-29T02:30:00Z or 2026-03-29 04:30:00.5+02:00.  The offset
 * is required; seconds and their fraction are optional.
 *
 * @param out_us  Receives Unix time in microseconds; further digits are cut off.
 * @return WHERRY_OK; WHERRY_INVALID: not such a time, or the year is not 1 to 9999.
 */
wherry_code wh_time_parse(const char *text, int64_t *out_us, wherry_error *err);

/* Print a time from WH_TIME_FIRST to WH_TIME_LAST with an offset of offset_s from UTC:
 * 2026-03-29T04:30:00+02:00.  Prints milliseconds if there are any, and an offset of 0 as
 * Z. */
void wh_local_time_print(int64_t us, int32_t offset_s, char out[WH_LOCAL_TIME_LEN]);

#endif
