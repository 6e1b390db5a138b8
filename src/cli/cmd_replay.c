#include "cli/again.h"
#include "cli/commands.h"

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
	.help = "For consumers that lost what they were sent. A message keeps its id "
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
