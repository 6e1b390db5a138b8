#include "wherry_test.h"

#include "base/text.h"

WHERRY_TEST(utf8_is_recognized_up_to_its_limits)
{
	static const struct {
		const char *text;
		size_t len;
	} good[] =
		{
			{"a", 1},
			{"\0", 1},
			{"\x7f", 1},
			{"\xc2\x80", 2},
			{"\xdf\xbf", 2},
			{"\xe0\xa0\x80", 3},
			{"\xed\x9f\xbf", 3},
			{"\xee\x80\x80", 3},
			{"\xef\xbf\xbf", 3},
			{"\xf0\x90\x80\x80", 4},
			{"\xf4\x8f\xbf\xbf", 4},
		},
	  bad[] = {
		  {"\x80", 1},
		  {"\xc1\xbf", 2},
		  {"\xc2", 1},
		  {"\xc2\x20", 2},
		  {"\xe0\x9f\xbf", 3},
		  {"\xed\xa0\x80", 3},
		  {"\xe2\x82", 2},
		  {"\xe2\x82\x20", 3},
		  {"\xf0\x8f\xbf\xbf", 4},
		  {"\xf4\x90\x80\x80", 4},
		  {"\xf5\x80\x80\x80", 4},
		  {"\xff", 1},
		  {"", 0},
	  };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(wh_utf8_len(good[i].text, good[i].len), good[i].len);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(wh_utf8_len(bad[i].text, bad[i].len), 0);
}

WHERRY_TEST(text_is_valid_if_each_character_is)
{
	assert_true(wh_utf8_valid("", 0));
	assert_true(wh_utf8_valid("gr\xc3\xbc\xc3\x9f", 6));
	assert_false(wh_utf8_valid("gr\xc3\xbc\xc3", 5));
	assert_false(wh_utf8_valid("a\xff z", 4));
}

/* The check goes in larger strides where it can. */
WHERRY_TEST(a_bad_byte_is_found_wherever_it_is)
{
	char text[40];

	for (size_t len = 1; len <= sizeof(text); len++) {
		for (size_t at = 0; at < len; at++) {
			memset(text, 'a', sizeof(text));
			text[at] = (char)0xff;
			assert_false(wh_utf8_valid(text, len));
			assert_true(wh_utf8_valid(text, at));
			if (at + 1 == len)
				continue;
			text[at] = (char)0xc3; /* a character over any two bytes */
			assert_false(wh_utf8_valid(text, len));
			text[at + 1] = (char)0xbc;
			assert_true(wh_utf8_valid(text, len));
			assert_false(wh_utf8_valid(text, at + 1));
		}
	}
}

WHERRY_TEST(a_cut_never_splits_a_character)
{
	static const char text[] =
		"a\xe2\x82\xac\xf0\x9f\x9a\xa3z"; /* 1 + 3 + 4 + 1 bytes */
	static const size_t wanted[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9, 9};

	for (size_t most = 0; most < sizeof(wanted) / sizeof(*wanted); most++)
		assert_int_equal(wh_utf8_cut(text, 9, most), wanted[most]);
	assert_int_equal(wh_utf8_cut("", 0, 5), 0);
}

WHERRY_TEST(identifiers_are_letters_digits_and_underscores)
{
	static const char longest[] = "a23456789012345678901234567890123456789012345678";
	static const char longer[] = "a234567890123456789012345678901234567890123456789";

	assert_true(wh_ident_valid("outbox"));
	assert_true(wh_ident_valid("_"));
	assert_true(wh_ident_valid("Orders_2"));
	assert_int_equal(sizeof(longest) - 1, WH_IDENT_MAX);
	assert_true(wh_ident_valid(longest));
	assert_false(wh_ident_valid(longer));
	assert_false(wh_ident_valid(""));
	assert_false(wh_ident_valid("2orders"));
	assert_false(wh_ident_valid("my table"));
	assert_false(wh_ident_valid("a-b"));
	assert_false(wh_ident_valid("a\"; drop table b; --"));
	assert_false(wh_ident_valid("gr\xc3\xbc\xc3\x9f"));
}

WHERRY_TEST(integers_are_parsed_whole_and_in_range)
{
	static const char *const bad[] = {
		"",
		"-",
		"+1",
		" 1",
		"1 ",
		"1.5",
		"0x10",
		"12a",
		"--1",
		"- 1",
		"9223372036854775808",
		"-9223372036854775809",
		"99999999999999999999",
	};
	int64_t value = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_false(wh_parse_int(bad[i], &value));
		assert_int_equal(value, 77);
	}
	assert_true(wh_parse_int("9223372036854775807", &value));
	assert_true(value == INT64_MAX);
	assert_true(wh_parse_int("-9223372036854775808", &value));
	assert_true(value == INT64_MIN);
	assert_true(wh_parse_int("0", &value));
	assert_true(value == 0);
	assert_true(wh_parse_int("007", &value));
	assert_true(value == 7);
}

static const char *const words[] = {"enqueue", "relay", "status", "purge", NULL};

static const char *word_at(const void *ctx, size_t i)
{
	const char *const *list = ctx;

	return list[i];
}

WHERRY_TEST(the_nearest_word_is_suggested)
{
	assert_string_equal(wh_nearest("relya", word_at, words), "relay"); /* swapped */
	assert_string_equal(wh_nearest("stat", word_at, words), "status");
	assert_string_equal(wh_nearest("enqeue", word_at, words), "enqueue");
	assert_string_equal(wh_nearest("purgee", word_at, words), "purge");
	assert_string_equal(wh_nearest("relay", word_at, words), "relay");
}

WHERRY_TEST(a_word_near_none_gets_no_suggestion)
{
	char endless[300];

	assert_null(wh_nearest("xylophone", word_at, words));
	assert_null(wh_nearest("", word_at, words));
	memset(endless, 'r', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = 0;
	assert_null(wh_nearest(endless, word_at, words));
}

WHERRY_TEST(known_words_of_any_length_are_passed_over)
{
	char known[65];
	const char *list[] = {known, "relay", NULL};

	memset(known, 'r', sizeof(known) - 1);
	known[sizeof(known) - 1] = 0;
	assert_string_equal(wh_nearest("rely", word_at, list), "relay");
	known[63] = 0; /* the longest that is compared */
	assert_string_equal(wh_nearest(known, word_at, list), known);
}

WHERRY_TEST_MAIN
