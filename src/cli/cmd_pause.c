#include "cli/commands.h"

typedef wherry_code (*change_fn)(wherry_outbox *box, wherry_error *err);

static wh_exit change(const wh_args *args, change_fn fn, bool paused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_session s;
	wh_exit status = wh_session_open(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	if (fn(s.box, &err) != WHERRY_OK)
		status = wh_report(&err);
	else if (wh_arg_on(args, "json"))
		(void)printf("{\"paused\":%s}\n", paused ? "true" : "false");
	else if (paused)
		(void)printf(
			"outbox '%s' is paused; what is in flight is still finished\n",
			s.table);
	else
		(void)printf("outbox '%s' is resumed\n", s.table);
	if (status == WH_EXIT_DONE)
		wh_audit(args->command->name, wh_operand(args, 0), s.table, 0);
	wh_session_close(&s);
	return status;
}

static wh_exit run_pause(wh_args *args)
{
	return change(args, wherry_outbox_pause, true);
}

static wh_exit run_resume(wh_args *args)
{
	return change(args, wherry_outbox_resume, false);
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_pause = {
	.name = "pause",
	.operands = "URL",
	.synopsis = "URL [--json]",
	.brief = "Let relays deliver nothing until resume",
	.help = "It is written in the database: every relay heeds it, also one that "
		"starts later. Producers go on.\n"
		"\n"
		"Examples:\n"
		"  wherry pause sqlite:shop.db\n",
	.options = options,
	.run = run_pause,
};

const wh_command wh_cmd_resume = {
	.name = "resume",
	.operands = "URL",
	.synopsis = "URL [--json]",
	.brief = "Take back pause",
	.help = "Examples:\n"
		"  wherry resume sqlite:shop.db\n",
	.options = options,
	.run = run_resume,
};
