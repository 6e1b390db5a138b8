#include "wherry_test.h"

#include <time.h>

#include "base/date.h"

WHERRY_TEST(every_day_of_800_years_is_that_of_the_c_library)
{
	for (int64_t day = -146097; day < 146097; day++) {
		time_t second = day * WH_DAY;
		wh_date date = wh_date_of(day);
		struct tm tm;

		assert_non_null(gmtime_r(&second, &tm));
		assert_int_equal(date.year, tm.tm_year + 1900);
		assert_int_equal(date.month, tm.tm_mon + 1);
		assert_int_equal(date.day, tm.tm_mday);
		assert_int_equal(wh_date_weekday(day), tm.tm_wday);
		assert_true(wh_date_days(date) == day);
		assert_true(date.day <= wh_date_month_days(date.year, date.month));
	}
}

WHERRY_TEST(times_are_read_and_printed)
{
	static const struct {
		const char *text;
		int64_t us;
	} rows[] = {
		{"1970-01-01T00:00:00Z", 0},
		{"1970-01-01T01:00Z", 3600000000},
		{"1970-01-01 01:00:00+01:00", 0},
		{"1969-12-31T23:59:59.999999Z", -1},
		{"2026-03-29T02:30:00.5-03:30", 1774764000500000},
		{"2024-02-29T00:00:00.1234567899Z", 1709164800123456},
		{"0001-01-01T00:00:00Z", WH_TIME_FIRST * 1000000},
		{"9999-12-31T23:59:59Z", WH_TIME_LAST * 1000000},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	char text[WH_LOCAL_TIME_LEN];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int64_t us = -7, again = -7;

		WHERRY_PASS(wh_time_parse(rows[i].text, &us, &err));
		assert_true(us == rows[i].us);
		wh_local_time_print(us, -12600, text);
		if (us > WH_TIME_FIRST * 1000000 + 12600000000) {
			WHERRY_PASS(wh_time_parse(text, &again, &err));
			assert_true(again / 1000 == wh_floor_div(us, 1000));
		}
	}
	wh_local_time_print(1774764000500000, 7200, text);
	assert_string_equal(text, "2026-03-29T08:00:00.500+02:00");
	wh_local_time_print(-1000000, 0, text);
	assert_string_equal(text, "1969-12-31T23:59:59Z");
	wh_local_time_print(0, -1234, text);
	assert_string_equal(text, "1969-12-31T23:39:26-00:20:34");
}

WHERRY_TEST(other_times_are_refused_and_nothing_changes)
{
	static const char *const rows[] = {
		"",
		"now",
		"2026-03-29",
		"2026-03-29T02:30:00",
		"2026-03-29T02:30:00z",
		"2026-03-29T2:30:00Z",
		"2026-3-29T02:30:00Z",
		"2026-02-29T02:30:00Z",
		"2026-00-10T02:30:00Z",
		"2026-13-10T02:30:00Z",
		"2026-04-31T02:30:00Z",
		"2026-04-30T24:00:00Z",
		"2026-04-30T23:60:00Z",
		"2026-04-30T23:59:60Z",
		"2026-04-30T23:59:59.Z",
		"2026-04-30T23:59:59Z ",
		"2026-04-30T23:59:59+24:00",
		"2026-04-30T23:59:59+1:00",
		"0000-12-31T23:59:59Z",
		"0001-01-01T00:00:00+01:00",
		"9999-12-31T23:59:59-01:00",
		"12026-04-30T23:59:59Z",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t us = 77;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID, wh_time_parse(rows[i], &us, &err));
		assert_true(us == 77);
	}
}

WHERRY_TEST_MAIN
