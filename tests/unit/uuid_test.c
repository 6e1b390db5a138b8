#include "wherry_test.h"

#include "base/uuid.h"

WHERRY_TEST(the_example_of_the_rfc_comes_out)
{
	char text[WH_UUID_LEN + 1];

	/* RFC 9562, A.6: 2022-02-22 14:22:22 -05:00 */
	wh_uuid7(0x017f22e279b0, 0xcc3, 0x18c4dc0c0c07398f, text);
	assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

WHERRY_TEST(version_and_variant_hold_whatever_the_random_bits)
{
	char text[WH_UUID_LEN + 1];

	wh_uuid7(0, 0, 0, text);
	assert_string_equal(text, "00000000-0000-7000-8000-000000000000");
	wh_uuid7(0xffffffffffff, UINT64_MAX, UINT64_MAX, text);
	assert_string_equal(text, "ffffffff-ffff-7fff-bfff-ffffffffffff");
}

WHERRY_TEST(later_ones_sort_later)
{
	char early[WH_UUID_LEN + 1], late[WH_UUID_LEN + 1];

	for (int64_t ms = 1; ms < 0x0fffffffffff; ms *= 7) {
		wh_uuid7(ms, UINT64_MAX, UINT64_MAX, early);
		wh_uuid7(ms + 1, 0, 0, late);
		assert_true(strcmp(early, late) < 0);
		assert_int_equal(strlen(late), WH_UUID_LEN);
	}
}

WHERRY_TEST(those_of_one_moment_differ)
{
	char one[WH_UUID_LEN + 1], other[WH_UUID_LEN + 1], at[WH_UUID_LEN + 1];
	int64_t now_us = wh_now(&wh_env_system);

	wh_uuid7(now_us / 1000, 0, 0, at);
	wh_uuid7_now(&wh_env_system, one);
	wh_uuid7_now(&wh_env_system, other);
	assert_string_not_equal(one, other);
	assert_int_equal(strlen(one), WH_UUID_LEN);
	assert_true(strcmp(one, at) >= 0); /* not before it was asked for */
}

static uint64_t count_random(void *ctx)
{
	int *asked = ctx;

	(*asked)++;
	return 42;
}

WHERRY_TEST(one_of_several_takes_random_bits_and_all_differ)
{
	char made[4][WH_UUID_LEN + 1];
	wh_env env = wh_env_system;
	uint64_t random = 0;
	int asked = 0;

	env.random = count_random;
	env.ctx = &asked;
	for (int i = 0; i < 4; i++)
		wh_uuid7_next(&env, &random, made[i]);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(made[i], made[j]);
	assert_int_equal(asked, 1);
}

WHERRY_TEST_MAIN
