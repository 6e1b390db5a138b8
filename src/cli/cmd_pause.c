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
	wh_audit(args, name, 0);
	return WH_EXIT_DONE;
}

static wh_exit change_queue(const wh_args *args, bool paused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_session s;
	wh_exit status = wh_queue_session_open(&s, args);
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

static wh_exit change_outbox(const wh_args *args, bool paused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_session s;
	wh_exit status;

	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = paused ? wherry_outbox_pause(s.outbox, &err)
		      : wherry_outbox_resume(s.outbox, &err);
	status = tell(args, "outbox", s.table, paused, code, &err);
	wh_session_close(&s);
	return status;
}

#define CHANGE(kind)                                                                     \
	static wh_exit pause_##kind(wh_args *args)                                       \
	{                                                                                \
		return change_##kind(args, true);                                        \
	}                                                                                \
	static wh_exit resume_##kind(wh_args *args)                                      \
	{                                                                                \
		return change_##kind(args, false);                                       \
	}

CHANGE(outbox)
CHANGE(queue)
CHANGE(delayed)

static const wh_for_kind pausing[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = pause_outbox},
	[WH_OF_QUEUE] = {.run = pause_queue},
	[WH_OF_DELAYED] = {.run = pause_delayed},
};

static const wh_for_kind resuming[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = resume_outbox},
	[WH_OF_QUEUE] = {.run = resume_queue},
	[WH_OF_DELAYED] = {.run = resume_delayed},
};

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
	.kinds = pausing,
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
	.kinds = resuming,
};
