/*
 * The struct of a schedule; see wherry/schedule.h.
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
	WH_SCHEDULE_DAILY, /* Times of day. */
	WH_SCHEDULE_PERIOD
} wh_schedule_kind;

struct wherry_schedule {
	wh_schedule_kind kind;
	wh_zone *zone;     /* NULL: the schedule is a period. */
	wh_crontab tab;    /* Of WH_SCHEDULE_CRONTAB. */
	int64_t period_ms; /* Of WH_SCHEDULE_PERIOD, milliseconds. */
	/* Of WH_SCHEDULE_DAILY: times in seconds after midnight, times_s ascending and
	 * given_s in the order of the text. */
	int32_t times_s[WH_SCHEDULE_TIMES_MAX];
	int32_t given_s[WH_SCHEDULE_TIMES_MAX];
	size_t n_times;
	char text[WH_SCHEDULE_TEXT_MAX + 1]; /* The schedule as the caller wrote it. */
};

/* The schedule's offset from UTC at an instant (Unix microseconds), in seconds; 0 for a
 * period. */
int32_t wh_schedule_offset(const wherry_schedule *schedule, int64_t at_us);

#endif
