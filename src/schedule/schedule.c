#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/duration.h"
#include "base/text.h"

enum { MS = 1000 /* microseconds */ };

static const char every[] = "@every ";

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* ---- a period ---- */

static wherry_code parse_period(wherry_schedule *s, const char *text, wherry_error *err)
{
	const int64_t most_us = INT64_C(36525) * WH_DAY * 1000 * MS; /* a century */
	int64_t us;
	wherry_code code;

	while (is_blank(*text))
		text++;
	code = wh_duration_parse(text, &us, err);
	if (code != WHERRY_OK)
		return code;
	if (us < MS || us % MS || us > most_us)
		return wh_fail(
			err, WHERRY_INVALID,
			"the period '%.40s' must be a whole number of milliseconds, from "
			"1ms to 36525d",
			text);
	s->kind = WH_SCHEDULE_PERIOD;
	s->period_ms = us / MS;
	return WHERRY_OK;
}

/* ---- times of day ---- */

static bool two_digits(const char *text, int below, int *out)
{
	if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
		return false;
	*out = (text[0] - '0') * 10 + (text[1] - '0');
	return *out < below;
}

/* Parse HH:MM or HH:MM:SS, and move *text behind it. */
static bool take_time(const char **text, int32_t *out_s)
{
	const char *s = *text;
	int hour, minute, second = 0;

	if (!two_digits(s, 24, &hour) || s[2] != ':' || !two_digits(s + 3, 60, &minute))
		return false;
	s += 5;
	if (*s == ':') {
		if (!two_digits(s + 1, 60, &second))
			return false;
		s += 3;
	}
	if (*s && *s != ',' && !is_blank(*s))
		return false;
	*out_s = hour * 3600 + minute * 60 + second;
	*text = s;
	return true;
}

/* Insert a time in ascending order; false: the schedule has it already. */
static bool insert_time(wherry_schedule *s, int32_t time_s)
{
	size_t i = s->n_times;

	s->given_s[s->n_times] = time_s;
	for (; i && s->times_s[i - 1] >= time_s; i--) {
		if (s->times_s[i - 1] == time_s)
			return false;
		s->times_s[i] = s->times_s[i - 1];
	}
	s->times_s[i] = time_s;
	s->n_times++;
	return true;
}

static wherry_code parse_daily(wherry_schedule *s, const char *text, wherry_error *err)
{
	int32_t time_s;

	s->kind = WH_SCHEDULE_DAILY;
	for (const char *at = text;;) {
		const char *word;

		while (is_blank(*at))
			at++;
		word = at;
		if (!take_time(&at, &time_s))
			return wh_fail(
				err, WHERRY_INVALID,
				"'%.20s' is not a time of day: write times from 00:00 to "
				"23:59:59 with commas between them",
				word);
		if (s->n_times == WH_SCHEDULE_TIMES_MAX)
			return wh_fail(
				err, WHERRY_INVALID,
				"a schedule has at most %d times of day: write a crontab "
				"expression",
				WH_SCHEDULE_TIMES_MAX);
		if (!insert_time(s, time_s))
			return wh_fail(err, WHERRY_INVALID,
				       "%.5s stands twice in '%.80s'", word, text);
		while (is_blank(*at))
			at++;
		if (!*at)
			return WHERRY_OK;
		if (wh_is_letter(*at))
			return wh_fail(
				err, WHERRY_INVALID,
				"'%.40s' stands behind a time of day: write the time zone "
				"apart from the schedule, such as --zone Europe/Berlin or "
				"zone: Europe/Berlin",
				at);
		if (*at++ != ',')
			return wh_fail(
				err, WHERRY_INVALID,
				"write a comma between the times of day in '%.80s'",
				text);
	}
}

/* ---- parsing ---- */

static wherry_code parse_text(wherry_schedule *s, wherry_error *err)
{
	const char *text = s->text;

	while (is_blank(*text))
		text++;
	if (!*text)
		return wh_fail(
			err, WHERRY_INVALID,
			"the schedule is empty: write a crontab expression such as "
			"'0 4 * * *', times of day such as '12:00, 18:00' or "
			"'@every 15m'");
	if (strncmp(text, every, sizeof(every) - 1) == 0)
		return parse_period(s, text + sizeof(every) - 1, err);
	if (strchr(text, ':'))
		return parse_daily(s, text, err);
	s->kind = WH_SCHEDULE_CRONTAB;
	return wh_crontab_parse(text, &s->tab, err);
}

wherry_code wherry_schedule_parse(const char *text, const char *zone,
				  wherry_schedule **out, wherry_error *err)
{
	wherry_schedule *s;
	wherry_code code;

	wh_error_clear(err);
	if (!text || !out)
		return wh_fail(err, WHERRY_INVALID, "a schedule needs a text and out");
	if (strlen(text) > WH_SCHEDULE_TEXT_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "the schedule has %zu bytes, and may have %d",
			       strlen(text), WH_SCHEDULE_TEXT_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return wh_oom(err);
	(void)memcpy(s->text, text, strlen(text));
	code = parse_text(s, err);
	if (code == WHERRY_OK && s->kind == WH_SCHEDULE_PERIOD && zone)
		code = wh_fail(
			err, WHERRY_INVALID,
			"'%.40s' is a period, which is the same in every time zone: "
			"leave out the zone %.64s",
			s->text, zone);
	if (code == WHERRY_OK && s->kind != WH_SCHEDULE_PERIOD)
		code = wh_zone_load(zone, &s->zone, err);
	if (code == WHERRY_OK)
		*out = s;
	else
		wherry_schedule_free(s);
	return code;
}

void wherry_schedule_free(wherry_schedule *schedule)
{
	if (!schedule)
		return;
	wh_zone_free(schedule->zone);
	free(schedule);
}

int32_t wh_schedule_offset(const wherry_schedule *schedule, int64_t at_us)
{
	return schedule->zone ? wh_zone_span(schedule->zone, wh_floor_div(at_us, 1000000))
					.offset_s
			      : 0;
}
