#include "cli/commands.h"

#include "cli/target.h"
#include "daemon/plan.h"

enum { TEXT_MAX = 16 * 1024 * 1024 };

static wh_exit print(wh_buf *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wh_buf_check(text, &err);

	if (code == WHERRY_OK)
		wh_print_buf(text, "");
	wh_buf_clear(text);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static wh_exit run(wh_args *args)
{
	const char *path = wh_plan_file(wh_operand(args, 0));
	wh_buf text = WH_BUF_INIT(WH_OUTPUT_MOST), problems = WH_BUF_INIT(TEXT_MAX);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan plan;
	wherry_code code;

	if (wh_arg_on(args, "sample")) {
		wh_plan_sample(&text);
		return print(&text);
	}
	code = wh_plan_read(path, &plan, &problems, &err);
	if (problems.len)
		(void)fputs(wh_buf_str(&problems), stderr);
	wh_buf_clear(&problems);
	if (code != WHERRY_OK)
		return wh_report(&err);
	wh_plan_print(&plan, &text);
	wh_plan_clear(&plan);
	return print(&text);
}

static const wh_option options[] = {
	{"sample", NULL, "Print a file with every setting and what it means.", NULL, 0},
	{0},
};

const wh_command wh_cmd_config = {
	.name = "config",
	.operands = "[FILE]",
	.synopsis = "[FILE] [--sample]",
	.brief = "Print what a file for `wherry run` comes to",
	.help = "FILE is " WH_PLAN_FILE
		" in this folder or in /etc/wherry unless named. Every setting of every relay and "
		"entry of cron is printed, those at their defaults behind a #; secrets are masked, or stand "
		"as ${env:NAME} and ${file:PATH} where the file has them so.\n"
		"\n"
		"Examples:\n"
		"  wherry config --sample > wherry.yaml\n"
		"  wherry config /etc/wherry/wherry.yaml\n",
	.options = options,
	.plain = true,
	.run = run,
};
