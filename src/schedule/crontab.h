/*
 * Crontab expressions: minute, hour, day of month, month, day of week.
 */
#ifndef WH_SCHEDULE_CRONTAB_H
#define WH_SCHEDULE_CRONTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The values that each field names: bit n is set for the value n. */
typedef struct wh_crontab {
	uint64_t minutes;  /* 0 to 59 */
	uint64_t hours;    /* 0 to 23 */
	uint64_t days;     /* 1 to 31 */
	uint64_t months;   /* 1 to 12 */
	uint64_t weekdays; /* 0 to 6, Sunday is 0 */
	/* A day must match both fields if one of them begins with *, else it must match one. */
	bool both_days;
} wh_crontab;

/*
 * Parse an expression such as "30 4 1,15 * MON-FRI" or a word such as "@daily".
 *
 * @return WHERRY_OK; WHERRY_INVALID: the expression is malformed, or it names no day of
 *         any year.  err says what to write, and *out is unchanged.
 */
wherry_code wh_crontab_parse(const char *text, wh_crontab *out, wherry_error *err);

/* Does the expression name this day?  weekday: 0 to 6, Sunday is 0. */
bool wh_crontab_has_day(const wh_crontab *tab, int month, int day, int weekday);

#endif
