#include "wherry_test.h"

#include "base/duration.h"
#include "base/env.h"

WHERRY_TEST(durations_are_read_with_their_units)
{
	static const struct {
		const char *text;
		int64_t us;
	} rows[] = {
		{"0", 0},
		{"0s", 0},
		{"1us", 1},
		{"250ms", 250000},
		{"30s", 30 * WH_SECOND},
		{"1.5s", 1500000},
		{"0.000001s", 1},
		{"15m", 900 * WH_SECOND},
		{"1h30m", 5400 * WH_SECOND},
		{"7d", 604800 * WH_SECOND},
		{"1w", 604800 * WH_SECOND},
		{"1d2h3m4s5ms6us", 93784005006},
		{"3650d", 315360000 * WH_SECOND},
		{"120.000000d", 10368000 * WH_SECOND},
		{"922337203685477579us", 922337203685477579},
		{"9223372036854775807us", INT64_MAX},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int64_t us = -1;

		WHERRY_PASS(wh_duration_parse(rows[i].text, &us, &err));
		assert_true(us == rows[i].us);
	}
}

WHERRY_TEST(other_durations_are_refused_and_nothing_changes)
{
	static const char *const rows[] = {
		"",
		"5",
		"s",
		"-1s",
		"+1s",
		" 1s",
		"1s ",
		"1 s",
		"1.s",
		".5s",
		"1,5s",
		"1S",
		"1sec",
		"1h30",
		"00",
		"1y",
		"1e3s",
		"0x1s",
		"1s-",
		"99999999999999999999us",
		"99999999999999999d",
		"9000000w9000000w",
		"0.0000001s",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t us = 77;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID, wh_duration_parse(rows[i], &us, &err));
		assert_int_equal(us, 77);
	}
	assert_non_null(strstr(err.message, "250ms")); /* says how to write one */
}

WHERRY_TEST(sizes_are_read_with_their_units)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} rows[] = {
		{"0", 0},         {"512B", 512},       {"64KB", 65536},
		{"8MB", 8388608}, {"4GB", 4294967296}, {"1.5KB", 1536},
		{"0.5B", 0},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int64_t bytes = -1;

		WHERRY_PASS(wh_size_parse(rows[i].text, &bytes, &err));
		assert_true(bytes == rows[i].bytes);
	}
}

WHERRY_TEST(a_duration_out_of_range_is_called_that)
{
	static const char *const rows[] = {"99999999999999999999us", "999999999d",
					   "9000000w9000000w"};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t us;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID, wh_duration_parse(rows[i], &us, &err));
		assert_non_null(strstr(err.message, "out of range"));
	}
	WHERRY_PASS(wh_duration_parse("100000000d", &us, &err));
}

WHERRY_TEST(other_sizes_are_refused_and_nothing_changes)
{
	static const char *const rows[] = {
		"",    "5",    "5kb",           "5K", "1MB1KB",
		"-1B", "1 MB", "99999999999GB", "B",  "1TB",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t bytes = 77;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID, wh_size_parse(rows[i], &bytes, &err));
		assert_int_equal(bytes, 77);
	}
}

WHERRY_TEST(durations_are_printed_for_people)
{
	static const struct {
		int64_t us;
		const char *text;
	} rows[] = {
		{0, "0s"},
		{999, "999us"},
		{1000, "1ms"},
		{1500, "1.5ms"},
		{1234, "1.23ms"},
		{9996, "10ms"},
		{12340, "12.3ms"},
		{100500, "101ms"},
		{999499, "999ms"},
		{999500, "1s"},
		{999999, "1s"},
		{1500000, "1.5s"},
		{59940000, "59.9s"},
		{59949999, "59.9s"},
		{59950000, "1m 0s"},
		{59999999, "1m 0s"},
		{60 * WH_SECOND, "1m 0s"},
		{3599 * WH_SECOND, "59m 59s"},
		{11520 * WH_SECOND, "3h 12m"},
		{86399 * WH_SECOND, "23h 59m"},
		{604800 * WH_SECOND, "7d 0h"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[32];

		wh_duration_print(rows[i].us, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

WHERRY_TEST(a_printed_duration_fits_its_room)
{
	char text[8] = "xxxxxxx";

	wh_duration_print(INT64_MAX, text, 4);
	assert_int_equal(strlen(text), 3);
	assert_int_equal(text[4], 'x');
}

WHERRY_TEST(deadlines_saturate)
{
	assert_int_equal(wh_later(2, 3), 5);
	assert_int_equal(wh_since(2, 5), -3);
	assert_true(wh_since(INT64_MAX, INT64_MIN) == INT64_MAX);
	assert_true(wh_since(INT64_MIN, 1) == -INT64_MAX);
	assert_true(wh_since(INT64_MIN + 1, 1) == -INT64_MAX);
	assert_true(wh_later(WH_NEVER, 1) == WH_NEVER);
	assert_true(wh_later(1, WH_NEVER) == WH_NEVER);
	assert_true(wh_later(WH_NEVER, WH_NEVER) == WH_NEVER);
	assert_true(wh_later(WH_NEVER - 1, 1) == WH_NEVER);
	assert_true(wh_later(WH_NEVER - 2, 1) == WH_NEVER - 1);
}

WHERRY_TEST_MAIN
