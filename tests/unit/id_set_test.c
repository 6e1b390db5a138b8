#include "wherry_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/id_set.h"
#include "base/uuid.h"

enum { MANY = 200000 };

static wherry_error err;

static wh_view name_of(int i, char buf[64])
{
	/* UUIDs of one millisecond, and other texts. */
	if (i % 2)
		wh_uuid7(1700000000000, (uint64_t)i & 0xfff, (uint64_t)i >> 1, buf);
	else
		(void)snprintf(buf, 64, "order-%d-paid", i);
	return wh_view_of(buf);
}

static void add(wh_id_set *set, const char *id, int64_t number, bool marked)
{
	WHERRY_PASS(wh_id_set_add(set, wh_view_of(id), number, marked, &err));
}

WHERRY_TEST(each_id_is_found_with_its_number_and_no_other)
{
	wh_id_set set = WH_ID_SET_INIT(0);
	char buf[64];

	for (int i = 0; i < MANY; i++)
		WHERRY_PASS(wh_id_set_add(&set, name_of(i, buf), i, i % 3 == 0, &err));
	wh_id_set_sort(&set);
	for (int i = 0; i < 2 * MANY; i++) {
		wh_id_entry *entry = NULL;
		size_t n = wh_id_set_find(&set, name_of(i, buf), &entry);

		assert_int_equal(n, i < MANY);
		if (!n)
			continue;
		assert_int_equal(wh_id_number(entry), i);
		assert_int_equal(wh_id_marked(entry), i % 3 == 0);
		assert_int_equal(wh_id_seen(entry), 0);
	}
	wh_id_set_clear(&set);
}

WHERRY_TEST(sightings_are_counted_to_a_limit)
{
	wh_id_set set = WH_ID_SET_INIT(0);
	wh_id_entry *entry;

	add(&set, "a", 1, true);
	add(&set, "b", WH_ID_NUMBER_MOST, false);
	wh_id_set_sort(&set);
	assert_false(wh_id_set_see(&set, wh_view_of("c")));
	for (int i = 1; i < 6; i++) {
		assert_true(wh_id_set_see(&set, wh_view_of("b")));
		assert_int_equal(wh_id_set_find(&set, wh_view_of("b"), &entry), 1);
		assert_int_equal(wh_id_seen(entry), i < 3 ? i : 3);
	}
	assert_int_equal(wh_id_number(entry), WH_ID_NUMBER_MOST);
	assert_false(wh_id_marked(entry));
	assert_int_equal(wh_id_set_find(&set, wh_view_of("a"), &entry), 1);
	assert_int_equal(wh_id_seen(entry), 0);
	wh_id_set_clear(&set);
}

WHERRY_TEST(messages_with_one_id_stand_together_in_their_order)
{
	wh_id_set set = WH_ID_SET_INIT(0);
	wh_id_entry *entry = NULL;

	for (int i = 30; i > 0; i--)
		add(&set, i % 3 ? "other" : "same", i, i % 2);
	wh_id_set_sort(&set);
	assert_int_equal(wh_id_set_find(&set, wh_view_of("same"), &entry), 10);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(wh_id_number(&entry[i]), 3 * (i + 1));
		assert_int_equal(wh_id_marked(&entry[i]), (i + 1) % 2);
	}
	assert_true(wh_id_set_see(&set, wh_view_of("same")));
	for (int i = 0; i < 10; i++)
		assert_int_equal(wh_id_seen(&entry[i]), 1);
	wh_id_set_clear(&set);
}

WHERRY_TEST(texts_that_look_alike_are_different_ids)
{
	static const char *const alike[] = {
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
		"017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
		"017f22e279b07cc398c4dc0c0c07398f",
		"017f22e-279b0-7cc3-98c4-dc0c0c07398f",
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398",
		"",
	};
	enum { N = sizeof(alike) / sizeof(*alike) };
	wh_id_set set = WH_ID_SET_INIT(0);
	wh_id_entry *entry;

	for (int i = 0; i < N; i++)
		add(&set, alike[i], i, false);
	wh_id_set_sort(&set);
	for (int i = 0; i < N; i++) {
		assert_int_equal(wh_id_set_find(&set, wh_view_of(alike[i]), &entry), 1);
		assert_int_equal(wh_id_number(entry), i);
	}
	wh_id_set_clear(&set);
}

WHERRY_TEST(a_full_set_and_a_number_that_does_not_fit_are_refused)
{
	wh_id_set set = WH_ID_SET_INIT(2);

	add(&set, "a", 1, false);
	WHERRY_FAILS(WHERRY_TOOBIG, wh_id_set_add(&set, wh_view_of("b"),
						  WH_ID_NUMBER_MOST + 1, false, &err));
	WHERRY_FAILS(WHERRY_TOOBIG,
		     wh_id_set_add(&set, wh_view_of("b"), -1, false, &err));
	add(&set, "b", 2, false);
	WHERRY_FAILS(WHERRY_TOOBIG, wh_id_set_add(&set, wh_view_of("c"), 3, false, &err));
	assert_string_equal(err.message, "there are more than 2 messages");
	assert_int_equal(set.n, 2);
	wh_id_set_clear(&set);
}

WHERRY_TEST(an_empty_set_has_nothing)
{
	wh_id_set set = WH_ID_SET_INIT(0);

	wh_id_set_sort(&set);
	assert_int_equal(wh_id_set_find(&set, wh_view_of("a"), NULL), 0);
	assert_false(wh_id_set_see(&set, wh_view_of("a")));
	wh_id_set_clear(&set);
}

WHERRY_TEST_MAIN
