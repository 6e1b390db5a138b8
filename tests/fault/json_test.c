/*
 * JSON is checked although there is no memory.
 */
#include "fault.h"

#include "base/json.h"

static void lack_of_memory_makes_no_json_invalid(void **state)
{
	static const char text[] = "{\"order\": [7, {\"state\": \"paid\"}]}";
	const fault_plan none = {.kind = FAULT_MEMORY, .at = 1, .n = FAULT_ALL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int column = 0;

	(void)state;
	fault_arm(none);
	code = wh_json_check(text, strlen(text), &column, &err);
	fault_disarm();
	WHERRY_PASS(code);
}

static void text_that_is_not_json_is_refused_without_memory(void **state)
{
	const fault_plan none = {.kind = FAULT_MEMORY, .at = 1, .n = FAULT_ALL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int column = 0;

	(void)state;
	fault_arm(none);
	code = wh_json_check("{order", 6, &column, &err);
	fault_disarm();
	WHERRY_FAILS(WHERRY_INVALID, code);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lack_of_memory_makes_no_json_invalid),
		cmocka_unit_test(text_that_is_not_json_is_refused_without_memory),
	};

	fault_set_up();
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
