#include "base/date.h"
#include "schedule/schedule.h"

/*
 * Finds the next time of a schedule.  Local times are seconds since 1970-01-01T00:00:00
 * as the zone's clock shows them.  Within a span of the zone, local time is UTC plus a
 * constant, so the schedule is searched one span at a time.
 */

#define NEVER INT64_MAX

enum { HOURS = 24, MINUTES = 60, MINUTE = 60 /* seconds */ };

static const uint64_t every_hour = (UINT64_C(1) << HOURS) - 1;

/* ---- local times ---- */

/* The schedule's first time of day at or after from_s, seconds after midnight.
 * -1: there is none. */
static int32_t time_in_day(const wherry_schedule *s, int32_t from_s)
{
	if (s->kind == WH_SCHEDULE_DAILY) {
		for (size_t i = 0; i < s->n_times; i++)
			if (s->times_s[i] >= from_s)
				return s->times_s[i];
		return -1;
	}
	for (int32_t at = (from_s + MINUTE - 1) / MINUTE; at < HOURS * MINUTES;) {
		if (!(s->tab.hours >> (at / MINUTES) & 1))
			at = (at / MINUTES + 1) * MINUTES;
		else if (!(s->tab.minutes >> (at % MINUTES) & 1))
			at++;
		else
			return at * MINUTE;
	}
	return -1;
}

/* The schedule's first local time at or after `from` and before `end`; NEVER: none. */
static int64_t next_local(const wherry_schedule *s, int64_t from, int64_t end)
{
	int64_t day = wh_floor_div(from, WH_DAY);
	int32_t of_day = (int32_t)(from - day * WH_DAY), at;

	for (; day * WH_DAY < end; day++, of_day = 0) {
		wh_date date = wh_date_of(day);

		if (s->kind == WH_SCHEDULE_CRONTAB) {
			if (!(s->tab.months >> date.month & 1)) {
				day += wh_date_month_days(date.year, date.month) -
				       date.day;
				continue;
			}
			if (!wh_crontab_has_day(&s->tab, date.month, date.day,
						wh_date_weekday(day)))
				continue;
		}
		at = time_in_day(s, of_day);
		if (at >= 0)
			return day * WH_DAY + at < end ? day * WH_DAY + at : NEVER;
	}
	return NEVER;
}

/* ---- one span ---- */

/* Does the schedule name every hour?  Then times that the clock skips are left out, and
 * times that it repeats occur twice. */
static bool is_interval(const wherry_schedule *s)
{
	return s->kind == WH_SCHEDULE_CRONTAB && s->tab.hours == every_hour;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The schedule's first time in a span, at or after `from`, Unix time in seconds.
 * NEVER: there is none. */
static int64_t next_in_span(const wherry_schedule *s, const wh_span *span, int64_t from)
{
	int64_t end = span->end > WH_TIME_LAST ? WH_TIME_LAST + 1 : span->end;
	int64_t begin = from + span->offset_s, regular, skipped = NEVER;

	/* The clock was set back: leave out the times that it shows a second time. */
	if (!is_interval(s) && span->offset_s < span->before_s)
		begin = later(begin, span->start + span->before_s);
	regular = next_local(s, begin, end + span->offset_s);
	if (regular != NEVER)
		regular -= span->offset_s;
	/* The clock was set forward when the span began: add the times that it
	 * skipped. */
	if (!is_interval(s) && span->offset_s > span->before_s)
		skipped = next_local(s, later(from, span->start) + span->before_s,
				     span->start + span->offset_s);
	if (skipped != NEVER)
		skipped -= span->before_s;
	return regular < skipped ? regular : skipped;
}

/* ---- the next time ---- */

static int64_t next_second(const wherry_schedule *s, int64_t after_s)
{
	int64_t best = NEVER;

	for (int64_t from = after_s + 1; from <= WH_TIME_LAST;) {
		wh_span span = wh_zone_span(s->zone, from);
		int64_t found = next_in_span(s, &span, from);

		if (found < best)
			best = found;
		if (best < span.end)
			return best;
		from = span.end;
	}
	return best;
}

wherry_code wherry_schedule_next(const wherry_schedule *schedule, int64_t after_us,
				 int64_t *out_us, wherry_error *err)
{
	int64_t ms = wh_floor_div(after_us, 1000), next_us = NEVER;

	wh_error_clear(err);
	if (!schedule || !out_us)
		return wh_fail(err, WHERRY_INVALID, "next needs a schedule and out_us");
	if (after_us < WH_TIME_FIRST * 1000000 || after_us > WH_TIME_LAST * 1000000)
		return wh_fail(
			err, WHERRY_INVALID,
			"the time after which to look must be in the years 1 to 9999");
	if (schedule->kind == WH_SCHEDULE_PERIOD) {
		int64_t period = schedule->period_ms;

		next_us = (wh_floor_div(ms, period) + 1) * period * 1000;
	} else {
		int64_t next_s = next_second(schedule, wh_floor_div(ms, 1000));

		if (next_s != NEVER)
			next_us = next_s * 1000000;
	}
	if (next_us > WH_TIME_LAST * 1000000)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "'%.80s' has no time before the year 10000",
			       schedule->text);
	*out_us = next_us;
	return WHERRY_OK;
}
