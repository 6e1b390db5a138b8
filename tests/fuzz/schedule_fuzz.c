/* Schedules: what is refused changes nothing; the next time is later, is the next one for every
 * instant before it, and is a time that the fields name. */
#include "fuzz.h"

#include "base/date.h"
#include "schedule/schedule.h"

static const char *const zones[] = {NULL, "Europe/Berlin", "Australia/Lord_Howe",
				    "Africa/Cairo", "Pacific/Apia"};

enum { N_ZONES = sizeof(zones) / sizeof(*zones), N_TIMES = 4 };

/* The local time of an instant that was not moved by a change of the clock. */
static void check_fields(const wherry_schedule *s, int64_t us)
{
	wh_span span = wh_zone_span(s->zone, us / 1000000);
	int64_t local = us / 1000000 + span.offset_s;
	int64_t day = wh_floor_div(local, WH_DAY), minute = (local - day * WH_DAY) / 60;
	wh_date date = wh_date_of(day);

	CHECK(us % 1000000 == 0);
	if (s->kind != WH_SCHEDULE_CRONTAB || us / 1000000 < span.start + 2 * WH_DAY)
		return;
	CHECK(local % 60 == 0);
	CHECK(s->tab.hours >> minute / 60 & 1 && s->tab.minutes >> minute % 60 & 1);
	CHECK(wh_crontab_has_day(&s->tab, date.month, date.day, wh_date_weekday(day)));
}

static void check_times(const wherry_schedule *s, int64_t at_us)
{
	for (int i = 0; i < N_TIMES; i++) {
		int64_t next_us = -7, same_us = -7;
		wherry_code code = wherry_schedule_next(s, at_us, &next_us, NULL);

		if (code != WHERRY_OK) {
			CHECK(code == WHERRY_NOTFOUND && next_us == -7);
			return;
		}
		CHECK(next_us > at_us && next_us <= WH_TIME_LAST * 1000000);
		CHECK(wherry_schedule_next(s, at_us + (next_us - at_us) / 2, &same_us,
					   NULL) == WHERRY_OK);
		CHECK(same_us == next_us);
		CHECK(wherry_schedule_next(s, next_us - 1, &same_us, NULL) == WHERRY_OK);
		CHECK(same_us == next_us);
		if (s->zone)
			check_fields(s, next_us);
		at_us = next_us;
	}
}

/* The first byte picks a zone, the next four the instant; the rest is the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wherry_schedule untouched, *s = &untouched;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t at_s = 0;
	wherry_code code;
	char *text;

	if (len < 5)
		return 0;
	for (int i = 1; i < 5; i++)
		at_s = at_s << 8 | data[i];
	text = fuzz_text(data + 5, len - 5);
	code = wherry_schedule_parse(text, zones[data[0] % N_ZONES], &s, &err);
	if (code == WHERRY_OK) {
		check_times(s, at_s * 1000000);
		wherry_schedule_free(s);
	} else {
		CHECK(code == WHERRY_INVALID && s == &untouched);
		CHECK(err.code == code && *err.message);
		CHECK(!strpbrk(err.message, "\n\r\033"));
	}
	free(text);
	return 0;
}
