/*
 * What a schedule is made of; see wherry/schedule.h.
 */
#ifndef WH_SCHEDULE_SCHEDULE_H
#define WH_SCHEDULE_SCHEDULE_H

#include <stddef.h>

#include <wherry/schedule.h>

#include "schedule/crontab.h"
#include "schedule/zone.h"

enum { WH_SCHEDULE_TEXT_MAX = 256, WH_SCHEDULE_TIMES_MAX = 48 };

typedef enum wh_schedule_kind {
	WH_SCHEDULE_CRONTAB,
	WH_SCHEDULE_DAILY, /* times of day */
	WH_SCHEDULE_PERIOD
} wh_schedule_kind;

struct wherry_schedule {
	wh_schedule_kind kind;
	wh_zone *zone;     /* NULL: a period */
	wh_crontab tab;    /* of WH_SCHEDULE_CRONTAB */
	int64_t period_ms; /* of WH_SCHEDULE_PERIOD */
	/* Of WH_SCHEDULE_DAILY: seconds after midnight, ascending, and as the text has them. */
	int32_t times_s[WH_SCHEDULE_TIMES_MAX];
	int32_t given_s[WH_SCHEDULE_TIMES_MAX];
	size_t n_times;
	char text[WH_SCHEDULE_TEXT_MAX + 1]; /* as it was given */
};

/* The offset from UTC at an instant of local time, seconds; 0 for a period. */
int32_t wh_schedule_offset(const wherry_schedule *schedule, int64_t at_us);

#endif
