/*
 * JSON is checked although there is no memory.
 */
#include "fault.h"

#include "base/json.h"

WHERRY_TEST(lack_of_memory_makes_no_json_invalid)
{
	static const char text[] = "{\"order\": [7, {\"state\": \"paid\"}]}";
	const fault_plan none = {.kind = FAULT_MEMORY, .at = 1, .n = FAULT_ALL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int column = 0;

	fault_arm(none);
	code = wh_json_check(text, strlen(text), &column, &err);
	fault_disarm();
	WHERRY_PASS(code);
}

WHERRY_TEST(text_that_is_not_json_is_refused_without_memory)
{
	const fault_plan none = {.kind = FAULT_MEMORY, .at = 1, .n = FAULT_ALL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int column = 0;

	fault_arm(none);
	code = wh_json_check("{order", 6, &column, &err);
	fault_disarm();
	WHERRY_FAILS(WHERRY_INVALID, code);
}

int main(void)
{
	fault_set_up();
	return wherry_run_tests(NULL, NULL);
}
