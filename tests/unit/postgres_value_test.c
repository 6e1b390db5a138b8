/*
 * Values of the log, in binary and as text.
 */
#include "wherry_test.h"

#include "db/postgres/postgres_value.h"

static wh_postgres_value text(uint32_t type, const char *data)
{
	return (wh_postgres_value){wh_view_of(data), type, false};
}

static wh_postgres_value binary(uint32_t type, const void *data, size_t len)
{
	return (wh_postgres_value){{data, len}, type, true};
}

WHERRY_TEST(a_time_is_the_same_in_either_form)
{
	static const struct {
		const char *text;
		int64_t ms;
	} times[] = {
		{"2000-01-01 00:00:00+00", 946684800000},
		{"1970-01-01 00:00:00+00", 0},
		{"2024-02-29 23:59:59.999999+00", 1709251199999},
		{"2026-11-21 15:22:07.12+00", 1795274527120},
		{"1969-12-31 23:59:59.5+00", -500},
		{"2000-01-01 00:00:00.5+15", 946684800500},
		{"1900-03-01 00:00:00+00", -2203891200000},
	};

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		wh_postgres_value as_text = text(WH_PG_TIMESTAMPTZ, times[i].text);
		int64_t us = (times[i].ms - 946684800000) * 1000;
		unsigned char bytes[8];

		for (int b = 0; b < 8; b++)
			bytes[b] = (unsigned char)((uint64_t)us >> (56 - 8 * b));
		wh_postgres_value as_bytes = binary(WH_PG_TIMESTAMPTZ, bytes, 8);

		assert_int_equal(wh_postgres_value_int(&as_text), times[i].ms);
		assert_int_equal(wh_postgres_value_int(&as_bytes), times[i].ms);
	}
}

WHERRY_TEST(what_is_no_time_is_none)
{
	static const char *const texts[] = {
		"", "infinity", "2026-11-21", "2026-11-21 15:22", "0044-03-15 BC", "-5"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		wh_postgres_value v = text(WH_PG_TIMESTAMPTZ, texts[i]);

		assert_int_equal(wh_postgres_value_int(&v), 0);
	}
}

WHERRY_TEST(a_number_is_the_same_in_either_form)
{
	wh_postgres_value v = text(WH_PG_INT8, "-9223372036854775807");

	assert_int_equal(wh_postgres_value_int(&v), -INT64_MAX);
	v = binary(WH_PG_INT8, "\x80\0\0\0\0\0\0\1", 8);
	assert_int_equal(wh_postgres_value_int(&v), -INT64_MAX);
	v = binary(WH_PG_INT2, "\xff\xfe", 2);
	assert_int_equal(wh_postgres_value_int(&v), -2);
	v = binary(WH_PG_INT4, "\0\1\0\0", 4);
	assert_int_equal(wh_postgres_value_int(&v), 65536);
	v = (wh_postgres_value){0};
	assert_int_equal(wh_postgres_value_int(&v), 0);
}

WHERRY_TEST(bytes_are_the_same_in_either_form)
{
	static const unsigned char raw[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55,
					      0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
					      0xcc, 0xdd, 0xee, 0xff};
	const struct {
		wh_postgres_value value;
		const char *want;
		size_t len;
	} cases[] = {
		{text(WH_PG_BYTEA, "\\x0011ff"), "\0\x11\xff", 3},
		{text(WH_PG_BYTEA, "\\x"), "", 0},
		{binary(WH_PG_BYTEA, "\0\x11\xff", 3), "\0\x11\xff", 3},
		{text(WH_PG_JSONB, "{}"), "{}", 2},
		{binary(WH_PG_JSONB, "\1{}", 3), "{}", 2},
		{binary(WH_PG_JSON, "{}", 2), "{}", 2},
		{binary(WH_PG_UUID, raw, 16), "00112233-4455-6677-8899-aabbccddeeff", 36},
		{binary(WH_PG_INT8, "\0\0\0\0\0\0\0\x2a", 8), "42", 2},
		{text(WH_PG_TEXT, "x"), "x", 1},
	};
	wh_arena copies = WH_ARENA_INIT;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool failed = false;
		wh_view got = wh_postgres_value_bytes(&cases[i].value, &copies, &failed);

		assert_false(failed);
		assert_int_equal(got.len, cases[i].len);
		assert_memory_equal(got.ptr, cases[i].want, got.len);
	}
	wh_arena_clear(&copies);
}

WHERRY_TEST_MAIN
