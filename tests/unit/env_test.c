#include "wherry_test.h"

#include "base/env.h"

WHERRY_TEST(the_systems_clocks_run_forward)
{
	int64_t before = wh_monotonic(&wh_env_system);

	wh_sleep(&wh_env_system, 2000);
	assert_true(wh_monotonic(&wh_env_system) - before >= 2000);
	assert_true(wh_now(&wh_env_system) > 1700000000 * WH_SECOND);
}

WHERRY_TEST(random_numbers_differ)
{
	assert_true(wh_random(&wh_env_system) != wh_random(&wh_env_system));
}

WHERRY_TEST_MAIN
