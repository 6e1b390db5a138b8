#include "wherry_test.h"

#include "base/backoff.h"

static uint64_t draw;

static uint64_t drawn(void *ctx)
{
	(void)ctx;
	return draw;
}

static const wh_env env = {.random = drawn};

static void a_fixed_delay_stays(void **state)
{
	wh_backoff b = {WH_FIXED, 200, 1000, false, 0};

	(void)state;
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 50, &env), 200);
}

static void a_linear_delay_grows_evenly_up_to_the_cap(void **state)
{
	wh_backoff b = {WH_LINEAR, 200, 1000, false, 0};

	(void)state;
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 2, &env), 400);
	assert_int_equal(wh_backoff_delay(&b, 5, &env), 1000);
	assert_int_equal(wh_backoff_delay(&b, 6, &env), 1000);
	assert_int_equal(wh_backoff_delay(&b, INT32_MAX, &env), 1000);
}

static void an_exponential_delay_doubles_up_to_the_cap(void **state)
{
	wh_backoff b = {WH_EXPONENTIAL, 200, 1000, false, 0};

	(void)state;
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, 2, &env), 400);
	assert_int_equal(wh_backoff_delay(&b, 3, &env), 800);
	assert_int_equal(wh_backoff_delay(&b, 4, &env), 1000);
	assert_int_equal(wh_backoff_delay(&b, 1000, &env), 1000);
}

static void nothing_overflows_at_the_limits(void **state)
{
	wh_backoff b = {WH_EXPONENTIAL, INT64_MAX, INT64_MAX, false, 0};

	(void)state;
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

static void attempts_below_one_count_as_one(void **state)
{
	wh_backoff b = {WH_LINEAR, 200, 1000, false, 0};

	(void)state;
	assert_int_equal(wh_backoff_delay(&b, 0, &env), 200);
	assert_int_equal(wh_backoff_delay(&b, -5, &env), 200);
}

static void a_base_above_the_cap_is_the_cap(void **state)
{
	wh_backoff b = {WH_FIXED, 2000, 1000, false, 0};

	(void)state;
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 1000);
	b.strategy = WH_EXPONENTIAL;
	assert_int_equal(wh_backoff_delay(&b, 1, &env), 1000);
}

static void jitter_draws_from_zero_to_the_delay(void **state)
{
	wh_backoff b = {WH_FIXED, 1000, 1000, true, 0};
	bool least = false, most = false;

	(void)state;
	for (draw = 0; draw < 3000; draw++) {
		int64_t delay = wh_backoff_delay(&b, 1, &env);

		assert_true(delay >= 0 && delay <= 1000);
		least |= delay == 0;
		most |= delay == 1000;
	}
	assert_true(least && most);
}

static void immediate_retries_come_before_the_strategy(void **state)
{
	wh_backoff b = {WH_EXPONENTIAL, 200, 1000, false, 3};

	(void)state;
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

static void no_delay_needs_no_randomness(void **state)
{
	wh_backoff b = {WH_EXPONENTIAL, 0, 1000, true, 0};

	(void)state;
	assert_int_equal(wh_backoff_delay(&b, 9, NULL), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fixed_delay_stays),
		cmocka_unit_test(a_linear_delay_grows_evenly_up_to_the_cap),
		cmocka_unit_test(an_exponential_delay_doubles_up_to_the_cap),
		cmocka_unit_test(nothing_overflows_at_the_limits),
		cmocka_unit_test(attempts_below_one_count_as_one),
		cmocka_unit_test(a_base_above_the_cap_is_the_cap),
		cmocka_unit_test(jitter_draws_from_zero_to_the_delay),
		cmocka_unit_test(immediate_retries_come_before_the_strategy),
		cmocka_unit_test(no_delay_needs_no_randomness),
	};

	return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
