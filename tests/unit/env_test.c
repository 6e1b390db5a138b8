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

static void keep(void *ctx, int level, const char *part, const char *line)
{
	(void)level;
	(void)part;
	(void)snprintf(ctx, 600, "%s", line);
}

static void a_log_line_is_cut_at_its_room(void **state)
{
	char text[1000], line[600] = "";
	wh_env env = {.log = keep, .log_ctx = line};

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	wh_log(&env, WH_LOG_INFO, "test", "%s", text);
	assert_int_equal(strlen(line), 511);
	wh_log(&env, WH_LOG_INFO, "test", "n=%d", 5);
	assert_string_equal(line, "n=5");
	wh_log(&wh_env_system, WH_LOG_INFO, "test", "goes nowhere");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_systems_clocks_run_forward),
		cmocka_unit_test(random_numbers_differ),
		cmocka_unit_test(a_log_line_is_cut_at_its_room),
	};

	return cmocka_run_group_tests_name("env", tests, NULL, NULL);
}
