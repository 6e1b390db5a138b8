#include "cli/commands.h"
#include "store/store.h"

/* Pause or resume the relays of the table. */
static wh_exit change(const wh_args *args, const wh_session *s, bool paused)
{
	static const char *const models[WH_KINDS] = {
		[WH_OF_OUTBOX] = "outbox",
		[WH_OF_QUEUE] = "queue",
		[WH_OF_DELAYED] = "delayed queue",
	};
	const char *name = s->delayed  ? s->store->topic
			   : s->outbox ? s->store->display_name
				       : s->table;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	if (s->outbox)
		code = paused ? wherry_outbox_pause(s->outbox, &err)
			      : wherry_outbox_resume(s->outbox, &err);
	else if (s->queue)
		code = paused ? wherry_queue_pause(s->queue, &err)
			      : wherry_queue_resume(s->queue, &err);
	else
		code = paused ? wherry_delayed_pause(s->delayed, &err)
			      : wherry_delayed_resume(s->delayed, &err);
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"paused\":%s}\n", paused ? "true" : "false");
	else if (paused)
		(void)printf("%s '%s' is paused; what is in flight is still finished\n",
			     models[s->kind], name);
	else
		(void)printf("%s '%s' is resumed\n", models[s->kind], name);
	wh_audit(args, s->delayed ? s->table : name, 0);
	return WH_EXIT_DONE;
}

static wh_exit pause_table(const wh_args *args, wh_session *s)
{
	return change(args, s, true);
}

static wh_exit resume_table(const wh_args *args, wh_session *s)
{
	return change(args, s, false);
}

static const wh_for_kind pausing[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = pause_table},
	[WH_OF_QUEUE] = {.run = pause_table},
	[WH_OF_DELAYED] = {.run = pause_table},
};

static const wh_for_kind resuming[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = resume_table},
	[WH_OF_QUEUE] = {.run = resume_table},
	[WH_OF_DELAYED] = {.run = resume_table},
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
