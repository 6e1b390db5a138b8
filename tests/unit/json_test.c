#include "wherry_test.h"

#include "base/json.h"

static bool valid(const char *text)
{
	return wh_json_valid(text, strlen(text));
}

WHERRY_TEST(any_single_value_is_json)
{
	assert_true(valid("{}"));
	assert_true(valid(" [1, 2] "));
	assert_true(valid("\"x\""));
	assert_true(valid("null"));
	assert_true(valid("1"));
	assert_true(valid("123456789012345678901234567890")); /* beyond 64 bits */
	assert_true(valid("{\"a\":\"\\u0000\"}"));
}

WHERRY_TEST(other_bytes_are_no_json)
{
	assert_false(valid(""));
	assert_false(valid("{"));
	assert_false(valid("{} {}"));
	assert_false(valid("{'a':1}"));
	assert_false(valid("\"\xff\""));
	assert_false(valid("nul"));
	assert_false(wh_json_valid("1\0", 2));
	assert_false(wh_json_valid("{}\0 or anything", 14));
}

/* Strings are read eight bytes at a time: wherever among them one stands. */
WHERRY_TEST(each_byte_of_a_string_is_looked_at)
{
	enum { LEN = 20 };
	char text[LEN + 2];

	for (int byte = 0; byte < 256; byte++) {
		bool plain = byte >= ' ' && byte < 0x80 && byte != '"' && byte != '\\';

		for (int at = 1; at <= LEN; at++) {
			memset(text, byte == '~' ? ' ' : '~', sizeof(text));
			text[0] = text[LEN + 1] = '"';
			text[at] = (char)byte;
			assert_int_equal(wh_json_valid(text, sizeof(text)), plain);
		}
	}
}

/* A reader that keeps numbers as doubles would lose them. */
WHERRY_TEST(numbers_beyond_a_double_are_refused)
{
	enum { DIGITS = 309 };
	char text[DIGITS + 3] = "";

	assert_true(valid("1e308"));
	assert_true(valid("-1.797693134862315e308"));
	assert_false(valid("1.8e308"));
	assert_false(valid("1e309"));
	assert_false(valid("-10e308"));
	assert_true(valid("0.1e309"));
	assert_true(valid("0e999"));
	memset(text, '0', DIGITS);
	text[0] = '1';
	assert_true(valid(text));
	text[0] = '2';
	assert_false(valid(text));
	text[DIGITS - 1] = '.';
	text[DIGITS] = '5';
	assert_true(valid(text));
	text[DIGITS - 1] = '0';
	text[DIGITS] = '.';
	text[DIGITS + 1] = '5';
	assert_false(valid(text));
}

WHERRY_TEST(endless_nesting_is_refused)
{
	enum { DEPTH = 100000 };
	char *deep = malloc(DEPTH);

	assert_non_null(deep);
	memset(deep, '[', DEPTH);
	assert_false(wh_json_valid(deep, DEPTH));
	free(deep);
}

WHERRY_TEST(checking_says_where_it_failed)
{
	static const struct {
		const char *text;
		size_t len;
		int column;
	} rows[] = {
		{"", 0, 1},      {"{\"a\": x}", 8, 7},
		{"{} x", 4, 4},  {"{\"\xc3\xa4\"}", 6, 5},
		{"{}\0x", 4, 3},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int column = 0;

	WHERRY_PASS(wh_json_check("7", 1, &column, &err));
	assert_int_equal(column, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wh_json_check(rows[i].text, rows[i].len, &column, &err));
		assert_int_equal(column, rows[i].column);
	}
	assert_non_null(strstr(err.message, "NUL"));
}

WHERRY_TEST(headers_are_an_object_of_strings)
{
	static const char *const good[] = {"{}", "{ }", "{\"a\":\"b\"}",
					   "{\"a\":null,\"b\":\"\"}"};
	static const char *const bad[] = {
		"",
		"[]",
		"null",
		"\"a\"",
		"{\"a\":1}",
		"{\"a\":true}",
		"{\"a\":{}}",
		"{\"a\":\"b\"",
		"{\"a\":[]}",
		"{}x",
		"{\"a\":\"\\u0000\"}", /* no header can hold NUL */
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		WHERRY_PASS(wh_json_headers(good[i], strlen(good[i]), &err));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     wh_json_headers(bad[i], strlen(bad[i]), &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_json_headers("{\"who\":5}", 9, &err));
	assert_non_null(strstr(err.message, "'who'"));
}

WHERRY_TEST(pointers_are_checked)
{
	assert_true(wh_json_pointer_valid(""));
	assert_true(wh_json_pointer_valid("/"));
	assert_true(wh_json_pointer_valid("/a/b~0~1"));
	assert_false(wh_json_pointer_valid("a"));
	assert_false(wh_json_pointer_valid("/a~"));
	assert_false(wh_json_pointer_valid("/a~2"));
}

WHERRY_TEST_MAIN
