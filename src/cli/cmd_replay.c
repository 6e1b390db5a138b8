#include "cli/again.h"
#include "cli/commands.h"
#include "outbox/outbox.h"

/* The rows of a log do not say what was delivered, so only a position can be moved back. */
static wh_exit refuse_log(const wh_args *args, const wh_session *s)
{
	const char *id = wh_operand(args, 1);
	wh_buf hint = WH_BUF_INIT(64 * 1024);
	wh_exit status;

	wh_buf_printf(&hint, "wherry seek%s %s", s->target, id ? id : "start");
	status = wh_complain(
		wh_buf_str(&hint),
		"outbox '%s' has the layout %s, whose messages cannot be replayed one by "
		"one; everything from an id or a time on can be delivered again",
		s->table, s->store->layout.name);
	wh_buf_clear(&hint);
	return status;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	static const wh_again replay = {
		.change = wherry_outbox_replay,
		.wanted = "done",
		.did = "replayed",
		.says = "pending once more",
	};
	wherry_filter filter;

	if (!wh_again_filter(args, &filter))
		return WH_EXIT_USAGE;
	if (s->outbox->own.seek)
		return refuse_log(args, s);
	return wh_again_run(args, s, &replay, &filter);
}

static const wh_option options[] = {
	{"key", "KEY", "Those of this key, or this aggregate id where there is no key.",
	 NULL, 0},
	{"topic", "TOPIC", "Those of this topic.", NULL, 0},
	{"since", "AGE", "Those delivered at most so long ago, such as 1h.", NULL, 0},
	{"all", NULL, "Every one that is still there, also in the archive.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run},
	[WH_OF_QUEUE] = {.why = "delivered messages are deleted and cannot be replayed"},
	[WH_OF_DELAYED] =
		{.why = "delivered messages are deleted and cannot be replayed"},
};

const wh_command wh_cmd_replay = {
	.name = "replay",
	.operands = "URL [ID]",
	.synopsis = "URL ID|--all|[--key KEY] [--topic TOPIC] [--since AGE] [--json]",
	.brief = "Deliver done messages once more",
	.help = "For an outbox of the layout native; of a log use `wherry seek`.\n"
		"\n"
		"For consumers that lost what they were sent. A message keeps its id "
		"and gets the next generation, by which consumers can tell it from a "
		"duplicate. Messages of the archive come back from there; others are still there "
		"within outbox.retention.\n"
		"\n"
		"Examples:\n"
		"  wherry replay sqlite:shop.db --since 1h --topic orders\n"
		"  wherry replay sqlite:shop.db --key customer-7\n",
	.options = options,
	.kinds = kinds,
};
