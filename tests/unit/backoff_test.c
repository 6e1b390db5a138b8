#include "wherry_test.h"

#include "base/backoff.h"

static uint64_t draw;

static uint64_t drawn(void *ctx)
{
	return draw;
}

static const wh_env env = {.random = drawn};

WHERRY_TEST(a_fixed_delay_stays)
{
	wh_backoff b = {WH_FIXED, 200, 1000, false, 0};

	assert_int_equal(wh_backoff_delay(&b, 1, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 50, &env), 200);
}

WHERRY_TEST(a_linear_delay_grows_evenly_up_to_the_cap)
{
	wh_backoff b = {WH_LINEAR, 200, 1000, false, 0};

	assert_int_equal(wh_backoff_delay(&b, 1, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 2, &env), 400);
	assert_int_equal(wh_backoff_delay(&b, 5, &env), 1000);
	assert_int_equal(wh_backoff_delay(&b, 6, &env), 1000);
	assert_int_equal(wh_backoff_delay(&b, INT32_MAX, &env), 1000);
}

WHERRY_TEST(an_exponential_delay_doubles_up_to_the_cap)
{
	wh_backoff b = {WH_EXPONENTIAL, 200, 1000, false, 0};

	assert_int_equal(wh_backoff_delay(&b, 1, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 2, &env), 400);
	assert_int_equal(wh_backoff_delay(&b, 3, &env), 800);
	assert_int_equal(wh_backoff_delay(&b, 4, &env), 1000);
	assert_int_equal(wh_backoff_delay(&b, 1000, &env), 1000);
}

WHERRY_TEST(nothing_overflows_at_the_limits)
{
	wh_backoff b = {WH_EXPONENTIAL, INT64_MAX, INT64_MAX, false, 0};

	assert_true(wh_backoff_delay(&b, 1000, &env) == INT64_MAX);
	b.base_us = 1;
	assert_true(wh_backoff_delay(&b, 1000, &env) == INT64_MAX);
	b.strategy = WH_LINEAR;
	b.base_us = INT64_MAX / 2;
	assert_true(wh_backoff_delay(&b, 1000, &env) == INT64_MAX);
	b.jitter = true;
	draw = UINT64_MAX;
	assert_true(wh_backoff_delay(&b, 1000, &env) >= 0);
}

WHERRY_TEST(attempts_below_one_count_as_one)
{
	wh_backoff b = {WH_LINEAR, 200, 1000, false, 0};

	assert_int_equal(wh_backoff_delay(&b, 0, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, -5, &env), 200);
}

WHERRY_TEST(a_base_above_the_cap_is_the_cap)
{
	wh_backoff b = {WH_FIXED, 2000, 1000, false, 0};

	assert_int_equal(wh_backoff_delay(&b, 1, &env), 1000);
	b.strategy = WH_EXPONENTIAL;
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 1000);
}

WHERRY_TEST(jitter_draws_from_zero_to_the_delay)
{
	wh_backoff b = {WH_FIXED, 1000, 1000, true, 0};
	bool least = false, most = false;

	for (draw = 0; draw < 3000; draw++) {
		int64_t delay = wh_backoff_delay(&b, 1, &env);

		assert_true(delay >= 0 && delay <= 1000);
		least |= delay == 0;
		most |= delay == 1000;
	}
	assert_true(least && most);
}

WHERRY_TEST(immediate_retries_come_before_the_strategy)
{
	wh_backoff b = {WH_EXPONENTIAL, 200, 1000, false, 3};

	assert_int_equal(wh_backoff_delay(&b, 0, &env), 0);
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 0);
	assert_int_equal(wh_backoff_delay(&b, 3, &env), 0);
	assert_int_equal(wh_backoff_delay(&b, 4, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 5, &env), 400);
	assert_int_equal(wh_backoff_delay(&b, 50, &env), 1000);
	b.strategy = WH_LINEAR;
	assert_int_equal(wh_backoff_delay(&b, 6, &env), 600);
	b.jitter = true;
	assert_int_equal(wh_backoff_delay(&b, 3, NULL), 0);
}

WHERRY_TEST(no_delay_needs_no_randomness)
{
	wh_backoff b = {WH_EXPONENTIAL, 0, 1000, true, 0};

	assert_int_equal(wh_backoff_delay(&b, 9, NULL), 0);
}

WHERRY_TEST_MAIN
