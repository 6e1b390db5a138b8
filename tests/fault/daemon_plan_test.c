/*
 * Lack of memory while wherry.yaml is read: the file is refused, or read whole.  No entry or
 * setting is left out in silence.
 */
#include "fault.h"

#include "daemon/plan.h"

static const char the_file[] =
	"http: {listen: '127.0.0.1:0', token: '${env:TOKEN}', hosts: example.org}\n"
	"relays:\n"
	"- {name: orders, from: 'sqlite:shop.db', to: 'stdout:', batch: 7}\n"
	"cron:\n"
	"- {name: report, database: 'sqlite:shop.db', at: '@daily', outbox: {topic: reports, "
	"body: '{}', headers: {a: b}}}\n";

static wherry_temp the_temp;

/* Read the file.  *out is what the plan comes to, as `wherry config` prints it; "" if the
 * file is refused.  The caller frees it. */
static wherry_code read_file(char **out, wherry_error *err)
{
	wh_buf problems = WH_BUF_INIT(65536), text = WH_BUF_INIT(65536);
	wh_plan plan;
	wherry_code code = wh_plan_read(the_temp.path, &plan, &problems, err);

	fault_disarm();
	if (code == WHERRY_OK) {
		wh_plan_print(&plan, &text);
		wh_plan_clear(&plan);
	} else if (code == WHERRY_INVALID) {
		if (!strstr(wh_buf_str(&problems), "out of memory"))
			fail_msg("failed %s: %s", fault_where(), wh_buf_str(&problems));
	}
	*out = strdup(wh_buf_str(&text));
	assert_non_null(*out);
	wh_buf_clear(&text);
	wh_buf_clear(&problems);
	return code;
}

WHERRY_TEST(a_file_is_read_whole_or_refused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *whole, *text;
	bool over = false;

	WHERRY_PASS(read_file(&whole, &err));
	for (int at = 1; !over; at++) {
		const fault_plan plan = {.kind = FAULT_OWN_MEMORY, .at = at, .n = 1};

		fault_arm(plan);
		if (read_file(&text, &err) == WHERRY_OK)
			assert_string_equal(text, whole);
		free(text);
		over = !fault_hit();
	}
	free(whole);
}

static int write_file(void **state)
{
	FILE *file;

	file = fopen(wherry_temp_make(&the_temp, "wherry.yaml"), "we");
	if (!file || setenv("TOKEN", "sixteen characters", 1) != 0)
		return -1;
	return fputs(the_file, file) < 0 || fclose(file) != 0 ? -1 : 0;
}

static int remove_file(void **state)
{
	wherry_temp_clear(&the_temp);
	return 0;
}

int main(void)
{
	fault_set_up();
	return wherry_run_tests(write_file, remove_file);
}
