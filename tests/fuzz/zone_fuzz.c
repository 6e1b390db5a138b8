/* Files of time zones: each instant is in one span, spans follow each other, and schedules in such
 * a zone find later times. */
#include "fuzz.h"

#include "base/date.h"
#include "schedule/schedule.h"

static void check_span(const wh_zone *zone, int64_t at_s)
{
	wh_span span = wh_zone_span(zone, at_s);

	CHECK(span.start <= at_s && at_s < span.end);
	CHECK(span.offset_s >= WH_OFFSET_LEAST && span.offset_s <= WH_OFFSET_MOST);
	CHECK(span.before_s >= WH_OFFSET_LEAST && span.before_s <= WH_OFFSET_MOST);
	CHECK(span.start != INT64_MIN || span.before_s == span.offset_s);
	if (span.end <= WH_TIME_LAST)
		CHECK(wh_zone_span(zone, span.end).start == span.end);
	if (span.start > WH_TIME_FIRST)
		CHECK(wh_zone_span(zone, span.start).offset_s == span.offset_s);
}

static void check_schedule(wh_zone *zone, const char *text, int64_t at_us)
{
	wherry_schedule *s = NULL;

	CHECK(wherry_schedule_parse(text, NULL, &s, NULL) == WHERRY_OK);
	wh_zone_free(s->zone);
	s->zone = zone;
	for (int i = 0; i < 5; i++) {
		int64_t next_us = at_us;

		if (wherry_schedule_next(s, at_us, &next_us, NULL) != WHERRY_OK)
			break;
		CHECK(next_us > at_us);
		at_us = next_us;
	}
	s->zone = NULL;
	wherry_schedule_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_zone *zone = NULL;
	wherry_code code = wh_zone_read("fuzz", data, len, &zone, &err);
	uint32_t any = 0;

	if (code != WHERRY_OK) {
		CHECK(!zone && *err.message);
		CHECK(code == WHERRY_CORRUPT || code == WHERRY_INVALID);
		return 0;
	}
	for (size_t i = 0; i < len; i++)
		any = any * 31 + data[i];
	check_span(zone, any);
	check_span(zone, -(int64_t)any * 15);
	check_span(zone, (int64_t)any * 59);
	check_span(zone, WH_TIME_FIRST);
	check_span(zone, WH_TIME_LAST);
	check_schedule(zone, "*/7 * * * *", (int64_t)any * 1000000);
	check_schedule(zone, "30 2 * * *", (int64_t)any * 1000000);
	check_schedule(zone, "0 0 29 2 MON", (int64_t)any * 1000000);
	wh_zone_free(zone);
	return 0;
}
