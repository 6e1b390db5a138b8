/*
 * Dates of the Gregorian calendar and times in the form of RFC 3339, without time zones.
 */
#ifndef WH_BASE_DATE_H
#define WH_BASE_DATE_H

#include <stdint.h>

#include "base/error.h"

enum { WH_DAY = 86400, WH_LOCAL_TIME_LEN = 80 }; /* seconds; bytes of a printed time */

/* The years 1 to 9999 as Unix time in seconds: the times that can be read and printed. */
#define WH_TIME_FIRST INT64_C(-62135596800)
#define WH_TIME_LAST INT64_C(253402300799)

typedef struct wh_date {
	int year;
	int month; /* 1 to 12 */
	int day;   /* 1 to 31 */
} wh_date;

/* Days since 1970-01-01. */
int64_t wh_date_days(wh_date date);
wh_date wh_date_of(int64_t days);

int wh_date_weekday(int64_t days); /* 0 to 6, Sunday is 0 */
int wh_date_month_days(int year, int month);

/* Quotient and remainder where the remainder is never negative; by > 0. */
int64_t wh_floor_div(int64_t n, int64_t by);
int64_t wh_floor_mod(int64_t n, int64_t by);

/*
 * Read a time such as 2026-03-29T02:30:00Z or 2026-03-29 04:30:00.5+02:00: its offset is required,
 * seconds and their fraction are not.
 *
 * @param out_us  Receives Unix time, microseconds; what is smaller is cut off.
 * @return WHERRY_OK; WHERRY_INVALID: not such a time, or of a year that is not 1 to 9999.
 */
wherry_code wh_time_parse(const char *text, int64_t *out_us, wherry_error *err);

/* Print a time between WH_TIME_FIRST and WH_TIME_LAST as a clock shows it that is offset_s ahead
 * of UTC: 2026-03-29T04:30:00+02:00, with milliseconds if there are any.  An offset of 0 is
 * printed as Z. */
void wh_local_time_print(int64_t us, int32_t offset_s, char out[WH_LOCAL_TIME_LEN]);

#endif
