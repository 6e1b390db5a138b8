/*
 * The marks of claims, with each allocation failing in turn: a mark is held, or nothing is.
 */
#include "fault.h"

#include "store/marks.h"

static wherry_code add(wh_marks *set, int64_t id, wherry_error *err)
{
	return wh_marks_add(set, "token", wh_view_of("message"), wh_view_of("mark"), &id,
			    err);
}

/* It is the first one, or needs more room than there is. */
WHERRY_TEST(without_memory_nothing_is_marked)
{
	static const int64_t held[] = {0, 256};

	for (size_t i = 0; i < sizeof(held) / sizeof(*held); i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		wh_marks set = {0};
		int failures = 0;
		bool hit = true;

		for (int64_t id = 1; id <= held[i]; id++)
			WHERRY_PASS(add(&set, id, &err));
		while (hit) {
			wherry_code code;

			fault_arm((fault_plan){
				.kind = FAULT_OWN_MEMORY, .at = failures + 1, .n = 1});
			code = add(&set, 1000, &err);
			hit = fault_hit();
			fault_disarm();
			assert_int_equal(code, hit ? WHERRY_NOMEM : WHERRY_OK);
			assert_int_equal(set.n, held[i] + !hit);
			failures += hit;
		}
		assert_int_equal(failures, 2);
		wh_marks_clear(&set);
	}
}

int main(void)
{
	fault_set_up();
	return wherry_run_tests(NULL, NULL);
}
