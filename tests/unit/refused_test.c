#include "wherry_test.h"

#include "relay/refused.h"

WHERRY_TEST(an_id_is_found_until_it_is_removed)
{
	wh_refused set = {0};
	int64_t since_us = 0;

	assert_int_equal(wh_refused_find(&set, 7), -1);
	assert_int_equal(wh_refused_first(&set, 7, &since_us), -1);
	wh_refused_remove(&set, 7);
	wh_refused_add(&set, 7, 0, 100);
	wh_refused_add(&set, -7, 3, 200);
	wh_refused_add(&set, 7, 5, 300);
	assert_int_equal(set.n, 2);
	assert_int_equal(wh_refused_find(&set, 7), 5);
	assert_int_equal(wh_refused_find(&set, -7), 3);
	assert_int_equal(wh_refused_first(&set, 7, &since_us), 0);
	assert_int_equal(since_us, 100);
	wh_refused_remove(&set, 7);
	assert_int_equal(wh_refused_first(&set, 7, &since_us), -1);
	assert_int_equal(wh_refused_find(&set, 7), -1);
	assert_int_equal(wh_refused_find(&set, -7), 3);
	wh_refused_clear(&set);
	assert_int_equal(wh_refused_find(&set, -7), -1);
}

/* Beside a plain array of the same ids. */
WHERRY_TEST(ids_that_share_a_place_stay_apart)
{
	enum { IDS = 2000, STEPS = 100000 };
	static int64_t at[IDS];
	wh_refused set = {0};
	uint64_t dice = 1;
	size_t n = 0;

	memset(at, 0, sizeof(at));
	for (int step = 0; step < STEPS; step++) {
		size_t i = (dice >> 33) % IDS;

		dice = dice * 6364136223846793005u + 1442695040888963407u;
		if (dice >> 63) {
			wh_refused_add(&set, (int64_t)i, step, 0);
			at[i] = step + 1;
		} else {
			wh_refused_remove(&set, (int64_t)i);
			at[i] = 0;
		}
	}
	for (size_t i = 0; i < IDS; i++) {
		assert_int_equal(wh_refused_find(&set, (int64_t)i), at[i] - 1);
		n += at[i] != 0;
	}
	assert_int_equal(set.n, n);
	wh_refused_clear(&set);
}

WHERRY_TEST(a_full_table_starts_over)
{
	wh_refused set = {0};

	for (int64_t id = 0; id < 600000; id++)
		wh_refused_add(&set, id, 1, 0);
	assert_true(set.n < 600000 && set.n > 0);
	assert_int_equal(wh_refused_find(&set, 599999), 1);
	assert_int_equal(wh_refused_find(&set, 0), -1);
	wh_refused_clear(&set);
}

WHERRY_TEST_MAIN
