#include "wherry_test.h"

#include "store/marks.h"

static int64_t hold(wh_marks *set, const char *token, const char *message_id,
		    const char *mark, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_marks_add(set, token, wh_view_of(message_id), wh_view_of(mark),
				 &id, &err));
	return id;
}

static void is_held(const wh_marks *set, const char *token, int64_t id,
		    const char *message_id, const char *mark)
{
	wh_view got_id, got_mark;

	assert_true(wh_marks_find(set, token, id, &got_id, &got_mark));
	assert_true(wh_view_eq(got_id, wh_view_of(message_id)));
	assert_true(wh_view_eq(got_mark, wh_view_of(mark)));
}

static void is_not_held(const wh_marks *set, const char *token, int64_t id)
{
	wh_view message_id, mark;

	assert_false(wh_marks_find(set, token, id, &message_id, &mark));
}

WHERRY_TEST(each_token_holds_its_own)
{
	wh_marks set = {0};

	is_not_held(&set, "a", 1);
	assert_int_equal(hold(&set, "a", "one", "t1", 1), 1);
	assert_int_equal(hold(&set, "b", "one", "t2", 1), 1);
	is_held(&set, "a", 1, "one", "t1");
	is_held(&set, "b", 1, "one", "t2");
	wh_marks_drop(&set, "a", 1);
	wh_marks_drop(&set, "a", 1);
	is_not_held(&set, "a", 1);
	is_held(&set, "b", 1, "one", "t2");
	assert_int_equal(set.n, 1);
	wh_marks_clear(&set);
	is_not_held(&set, "b", 1);
}

WHERRY_TEST(a_message_that_is_claimed_again_replaces_its_mark)
{
	wh_marks set = {0};

	assert_int_equal(hold(&set, "a", "one", "t1", 7), 7);
	assert_int_equal(hold(&set, "a", "one", "t2", 7), 7);
	is_held(&set, "a", 7, "one", "t2");
	assert_int_equal(set.n, 1);
	wh_marks_clear(&set);
}

WHERRY_TEST(another_message_of_the_same_number_gets_one_of_its_own)
{
	wh_marks set = {0};
	int64_t other, third;

	assert_int_equal(hold(&set, "a", "one", "t1", 7), 7);
	other = hold(&set, "a", "two", "t2", 7);
	third = hold(&set, "a", "", "t3", 7);
	assert_true(other != 7 && third != 7 && other != third);
	is_held(&set, "a", 7, "one", "t1");
	is_held(&set, "a", other, "two", "t2");
	is_held(&set, "a", third, "", "t3");
	wh_marks_clear(&set);
}

WHERRY_TEST(many_are_held)
{
	wh_marks set = {0};
	char text[24];

	for (int64_t i = -3000; i < 3000; i++) {
		(void)snprintf(text, sizeof(text), "%lld", (long long)i);
		assert_int_equal(hold(&set, "a", text, text, i * 1000003), i * 1000003);
	}
	assert_int_equal(set.n, 6000);
	for (int64_t i = -3000; i < 3000; i += 2)
		wh_marks_drop(&set, "a", i * 1000003);
	assert_int_equal(set.n, 3000);
	for (int64_t i = -3000; i < 3000; i++) {
		(void)snprintf(text, sizeof(text), "%lld", (long long)i);
		if (i % 2)
			is_held(&set, "a", i * 1000003, text, text);
		else
			is_not_held(&set, "a", i * 1000003);
	}
	wh_marks_clear(&set);
}

WHERRY_TEST_MAIN
