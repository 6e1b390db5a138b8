#include "cli/commands.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"

/* Print that the table is paused or resumed, or why it is not. */
static wh_exit tell(const wh_args *args, const char *model, const char *name, bool paused,
		    wherry_code code, const wherry_error *err)
{
	if (code != WHERRY_OK)
		return wh_report(err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"paused\":%s}\n", paused ? "true" : "false");
	else if (paused)
		(void)printf("%s '%s' is paused; what is in flight is still finished\n",
			     model, name);
	else
		(void)printf("%s '%s' is resumed\n", model, name);
	wh_audit(args->command->name, wh_operand(args, 0), name, 0);
	return WH_EXIT_DONE;
}

static wh_exit change_queue(const wh_args *args, bool paused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_session s;
	wh_exit status = wh_on_queue_open(&s, args);
	wherry_code code;

	if (status != WH_EXIT_DONE)
		return status;
	code = paused ? wherry_queue_pause(s.queue, &err)
		      : wherry_queue_resume(s.queue, &err);
	status = tell(args, "queue", s.at.name, paused, code, &err);
	wh_queue_session_close(&s);
	return status;
}

static wh_exit change_delayed(const wh_args *args, bool paused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_on_delayed s;
	wh_exit status = wh_on_delayed_open(&s, args);
	wherry_code code;

	if (status != WH_EXIT_DONE)
		return status;
	code = paused ? wherry_delayed_pause(s.source.delayed, &err)
		      : wherry_delayed_resume(s.source.delayed, &err);
	status = tell(args, "delayed queue", s.source.store->topic, paused, code, &err);
	wh_on_delayed_close(&s);
	return status;
}

static wh_exit change(const wh_args *args, bool paused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_session s;
	wh_exit status;

	if (wh_is_on_queue(args))
		return change_queue(args, paused);
	if (wh_is_on_delayed(args))
		return change_delayed(args, paused);
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = paused ? wherry_outbox_pause(s.box, &err)
		      : wherry_outbox_resume(s.box, &err);
	status = tell(args, "outbox", s.table, paused, code, &err);
	wh_session_close(&s);
	return status;
}

static wh_exit run_pause(wh_args *args)
{
	return change(args, true);
}

static wh_exit run_resume(wh_args *args)
{
	return change(args, false);
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
		"starts later. Producers go on, and so do workers that receive from a "
		"queue, and consumers that poll a delayed queue.\n"
		"\n"
		"Examples:\n"
		"  wherry pause sqlite:shop.db\n"
		"  wherry pause sqlite:shop.db#jobs\n"
		"  wherry pause sqlite:shop.db#delayed/mail\n",
	.options = options,
	.run = run_pause,
};

const wh_command wh_cmd_resume = {
	.name = "resume",
	.operands = "URL",
	.synopsis = "URL [--json]",
	.brief = "Take back pause, and try a destination that is down at once",
	.help = "If the destination of a relay is down, the relay tries it at once, and does "
		"not wait for its next probe. This also works if nothing is paused.\n"
		"\n"
		"Examples:\n"
		"  wherry resume sqlite:shop.db\n",
	.options = options,
	.run = run_resume,
};
