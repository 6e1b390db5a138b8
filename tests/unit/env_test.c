#include "wherry_test.h"

#include "base/env.h"

static void the_systems_clocks_run_forward(void **state)
{
	int64_t before = wh_monotonic(&wh_env_system);

	(void)state;
	wh_sleep(&wh_env_system, 2000);
	assert_true(wh_monotonic(&wh_env_system) - before >= 2000);
	assert_true(wh_now(&wh_env_system) > 1700000000 * WH_SECOND);
}

static void random_numbers_differ(void **state)
{
	(void)state;
	assert_true(wh_random(&wh_env_system) != wh_random(&wh_env_system));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_systems_clocks_run_forward),
		cmocka_unit_test(random_numbers_differ),
	};

	return cmocka_run_group_tests_name("env", tests, NULL, NULL);
}
