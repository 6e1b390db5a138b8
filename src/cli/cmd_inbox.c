#include "cli/commands.h"

/* ---- forget ---- */

static wh_exit do_forget(const wh_args *args, wh_session *s)
{
	const char *id = wh_arg(args, "message");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;

	if (!wh_confirm(
		    args, s->db, &status,
		    "forget message '%s', so that it is handled again if it is delivered again",
		    id))
		return status;
	if (wherry_inbox_forget(s->inbox, wh_arg(args, "consumer"), id, &err) !=
	    WHERRY_OK)
		return wh_report(&err);
	wh_print_deleted(args, (const wh_count[]){{"forgotten", 1}, {NULL, 0}},
			 "message '%s' is new again", id);
	wh_audit(args, s->table, 1);
	return WH_EXIT_DONE;
}

static wh_exit run_forget(wh_args *args)
{
	wh_session s;
	wh_exit status = wh_session_open(&s, args, WH_OF_INBOX);

	if (status == WH_EXIT_DONE)
		status = do_forget(args, &s);
	wh_session_close(&s);
	return status;
}

static const wh_option forget_options[] = {
	{"message", "ID", "The message id.", NULL, WH_REQUIRED},
	{"consumer", "NAME", "Who accepted it.", NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_command forget = {
	.name = "inbox forget",
	.operands = "URL[#NAME]",
	.synopsis =
		"URL[#NAME] --message ID [--consumer NAME] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Make a message new again",
	.help = "The consumer handles it once more when it is delivered again.\n"
		"\n"
		"Examples:\n"
		"  wherry inbox forget sqlite:shop.db --message order-7\n",
	.options = forget_options,
	.plain = true,
	.run = run_forget,
};

static const wh_command *const words[] = {
	&forget,
	NULL,
};

const wh_command wh_cmd_inbox = {
	.name = "inbox",
	.operands = "",
	.synopsis = "COMMAND URL[#NAME] ...",
	.brief = "Keep the ids of messages that a consumer has handled",
	.help = "A consumer accepts a message's id in the transaction of its writes, and leaves "
		"out the writes of an id that it has seen: so each message takes effect exactly "
		"once.\n"
		"\n"
		"Examples:\n"
		"  wherry create --kind inbox sqlite:shop.db\n"
		"  wherry purge sqlite:shop.db#inbox --older-than 30d --yes\n",
	.plain = true,
	.words = words,
};
