/*
 * The rule at the end of a zone's file, in the form of the variable TZ of POSIX: when daylight
 * saving time begins and ends in each year after the last change that the file lists.
 */
#ifndef WH_SCHEDULE_POSIX_RULE_H
#define WH_SCHEDULE_POSIX_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum wh_rule_kind {
	WH_RULE_WEEKDAY, /* M10.5.0: the last Sunday of October */
	WH_RULE_NO_LEAP, /* J60: the first of March, in every year */
	WH_RULE_YEAR_DAY /* 59: the sixtieth day of the year */
} wh_rule_kind;

typedef struct wh_rule_day {
	wh_rule_kind kind;
	/* Of WH_RULE_WEEKDAY: 1 to 12; 1 to 5, where 5 is the last week. */
	int month, week;
	/* In the order of the kinds: 0 to 6, Sunday is 0; 1 to 365; 0 to 365. */
	int day;
	int32_t at_s; /* Seconds after local midnight, -167 to 167 hours. */
} wh_rule_day;

typedef struct wh_posix_rule {
	bool saves;         /* Does the zone have daylight saving time? */
	int32_t standard_s; /* Offset from UTC in standard time, seconds. */
	int32_t saving_s;   /* Offset from UTC in daylight saving time, seconds. */
	wh_rule_day begins; /* When daylight saving time begins, in standard time. */
	wh_rule_day ends;   /* When it ends, in daylight saving time. */
} wh_posix_rule;

/* Parse a rule.  False: it is malformed, and *out is unchanged. */
bool wh_posix_rule_parse(const char *text, size_t len, wh_posix_rule *out);

/* When daylight saving time begins and ends in a year, Unix time in seconds. */
int64_t wh_posix_rule_begin(const wh_posix_rule *rule, int year);
int64_t wh_posix_rule_end(const wh_posix_rule *rule, int year);

#endif
