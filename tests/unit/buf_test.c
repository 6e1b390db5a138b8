#include "wherry_test.h"

#include "base/buf.h"

WHERRY_TEST(views_are_equal_byte_for_byte)
{
	assert_true(wh_view_eq(wh_view_of("abc"), wh_view_of("abc")));
	assert_false(wh_view_eq(wh_view_of("abc"), wh_view_of("abd")));
	assert_false(wh_view_eq(wh_view_of("abc"), wh_view_of("ab")));
	assert_true(wh_view_eq((wh_view){"a\0b", 3}, (wh_view){"a\0b", 3}));
	assert_false(wh_view_eq((wh_view){"a\0b", 3}, (wh_view){"a\0c", 3}));
}

WHERRY_TEST(an_absent_view_equals_only_another)
{
	assert_true(wh_view_eq(wh_view_of(NULL), wh_view_of(NULL)));
	assert_false(wh_view_eq(wh_view_of(NULL), wh_view_of("")));
	assert_false(wh_view_eq(wh_view_of(""), wh_view_of(NULL)));
	assert_true(wh_view_eq(wh_view_of(""), wh_view_of("")));
}

WHERRY_TEST(an_empty_buffer_reads_as_empty_text)
{
	wh_buf buf = WH_BUF_INIT(10);
	wherry_error err = WHERRY_ERROR_INIT;

	assert_string_equal(wh_buf_str(&buf), "");
	WHERRY_PASS(wh_buf_check(&buf, &err));
	wh_buf_cut(&buf, 3);
	wh_buf_reset(&buf);
	assert_string_equal(wh_buf_str(&buf), "");
	wh_buf_clear(&buf);
}

WHERRY_TEST(a_buffer_grows_up_to_its_ceiling_and_not_beyond)
{
	wh_buf buf = WH_BUF_INIT(1000);
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < 1000; i++)
		wh_buf_putc(&buf, 'x');
	WHERRY_PASS(wh_buf_check(&buf, &err));
	assert_int_equal(buf.len, 1000);
	assert_int_equal(strlen(wh_buf_str(&buf)), 1000);

	wh_buf_put(&buf, "", 0);
	WHERRY_PASS(wh_buf_check(&buf, &err));
	wh_buf_putc(&buf, 'y');
	WHERRY_FAILS(WHERRY_TOOBIG, wh_buf_check(&buf, &err));
	assert_non_null(strstr(err.message, "1000 bytes"));
	assert_int_equal(buf.len, 1000);
	wh_buf_clear(&buf);
}

WHERRY_TEST(a_failure_sticks_until_reset)
{
	wh_buf buf = WH_BUF_INIT(4);
	wherry_error err = WHERRY_ERROR_INIT;

	wh_buf_puts(&buf, "abc");
	wh_buf_puts(&buf, "de");
	wh_buf_putc(&buf, 'f'); /* would fit, but comes after a loss */
	assert_string_equal(wh_buf_str(&buf), "abc");
	WHERRY_FAILS(WHERRY_TOOBIG, wh_buf_check(&buf, &err));
	wh_buf_reset(&buf);
	WHERRY_PASS(wh_buf_check(&buf, &err));
	wh_buf_puts(&buf, "wxyz");
	WHERRY_PASS(wh_buf_check(&buf, &err));
	assert_string_equal(wh_buf_str(&buf), "wxyz");
	wh_buf_clear(&buf);
}

WHERRY_TEST(a_length_that_would_overflow_is_too_big)
{
	wh_buf buf = WH_BUF_INIT(SIZE_MAX / 2);
	wherry_error err = WHERRY_ERROR_INIT;

	wh_buf_puts(&buf, "abc");
	wh_buf_put(&buf, "", SIZE_MAX - 1);
	WHERRY_FAILS(WHERRY_TOOBIG, wh_buf_check(&buf, &err));
	assert_string_equal(wh_buf_str(&buf), "abc");
	wh_buf_clear(&buf);
}

WHERRY_TEST(printf_appends_and_respects_the_ceiling)
{
	wh_buf buf = WH_BUF_INIT(8);
	wherry_error err = WHERRY_ERROR_INIT;

	wh_buf_printf(&buf, "%d-%s", 12, "ab");
	assert_string_equal(wh_buf_str(&buf), "12-ab");
	wh_buf_printf(&buf, "%s", "cde");
	assert_string_equal(wh_buf_str(&buf), "12-abcde");
	WHERRY_PASS(wh_buf_check(&buf, &err));
	wh_buf_printf(&buf, "%d", 1);
	WHERRY_FAILS(WHERRY_TOOBIG, wh_buf_check(&buf, &err));
	assert_string_equal(wh_buf_str(&buf), "12-abcde");
	wh_buf_clear(&buf);
}

WHERRY_TEST(cut_drops_from_the_front)
{
	wh_buf buf = WH_BUF_INIT(100);

	wh_buf_puts(&buf, "one two");
	wh_buf_cut(&buf, 4);
	assert_string_equal(wh_buf_str(&buf), "two");
	assert_int_equal(buf.len, 3);
	wh_buf_cut(&buf, 0);
	assert_string_equal(wh_buf_str(&buf), "two");
	wh_buf_cut(&buf, 99);
	assert_string_equal(wh_buf_str(&buf), "");
	assert_int_equal(buf.len, 0);
	wh_buf_clear(&buf);
}

WHERRY_TEST(taking_gives_the_bytes_and_empties_the_buffer)
{
	wh_buf buf = WH_BUF_INIT(4);
	char *text;

	text = wh_buf_take(&buf);
	assert_string_equal(text, "");
	free(text);
	wh_buf_puts(&buf, "abcd");
	text = wh_buf_take(&buf);
	assert_string_equal(text, "abcd");
	free(text);
	assert_int_equal(buf.len, 0);

	wh_buf_puts(&buf, "abcde");
	assert_null(wh_buf_take(&buf));
	wh_buf_puts(&buf, "ok"); /* usable again */
	assert_string_equal(wh_buf_str(&buf), "ok");
	wh_buf_clear(&buf);
}

static void json_of(const char *text, size_t len, const char *wanted)
{
	wh_buf buf = WH_BUF_INIT(1000);

	wh_buf_json(&buf, text, len);
	assert_string_equal(wh_buf_str(&buf), wanted);
	wh_buf_clear(&buf);
}

WHERRY_TEST(json_strings_are_escaped)
{
	json_of("", 0, "\"\"");
	json_of("plain", 5, "\"plain\"");
	json_of("a\"b\\c\n\r\t/", 9, "\"a\\\"b\\\\c\\n\\r\\t/\"");
	json_of("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\"");
	json_of("\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa3", 9,
		"\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa3\"");
}

WHERRY_TEST(json_strings_replace_what_is_no_utf8)
{
	json_of("a\xff"
		"b",
		3,
		"\"a\xef\xbf\xbd"
		"b\"");
	json_of("\xc3", 1, "\"\xef\xbf\xbd\"");
	json_of("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

WHERRY_TEST(base64_is_that_of_rfc_4648)
{
	static const char *const rows[][2] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		wh_buf buf = WH_BUF_INIT(100);

		wh_buf_base64(&buf, rows[i][0], strlen(rows[i][0]));
		assert_string_equal(wh_buf_str(&buf), rows[i][1]);
		wh_buf_clear(&buf);
	}
}

WHERRY_TEST(base64_takes_any_byte)
{
	wh_buf buf = WH_BUF_INIT(100);

	wh_buf_base64(&buf, "\xff\xfe\x00\xfb", 4);
	assert_string_equal(wh_buf_str(&buf), "//4A+w==");
	wh_buf_clear(&buf);
}

WHERRY_TEST(numbers_are_written_as_printf_does)
{
	const int64_t numbers[] = {0,         7,        -7, 10, 99, 100, -1234567890123,
				   INT64_MAX, INT64_MIN};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		wh_buf buf = WH_BUF_INIT(100);
		char wanted[32];

		(void)snprintf(wanted, sizeof(wanted), "%lld", (long long)numbers[i]);
		wh_buf_int(&buf, numbers[i]);
		assert_string_equal(wh_buf_str(&buf), wanted);
		wh_buf_clear(&buf);
	}
}

WHERRY_TEST_MAIN
