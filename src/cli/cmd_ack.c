#include "cli/commands.h"

#include "cli/on_delayed.h"
#include "cli/on_queue.h"

static const wh_option ack_options[] = {
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind ack_kinds[WH_KINDS] = {
	[WH_OF_QUEUE] = {.run = wh_on_queue_ack},
	[WH_OF_DELAYED] = {.run = wh_on_delayed_ack},
};

const wh_command wh_cmd_ack = {
	.name = "ack",
	.operands = "URL#NAME TOKEN [ID...]",
	.synopsis = "URL#NAME TOKEN ID...|URL#TABLE/QUEUE TOKEN... [--json]",
	.brief = "Acknowledge messages that were received or polled",
	.help = "They are deleted. Token and ids are those that `wherry receive --lease` "
		"printed; a token of `wherry poll` needs no id. It fails if a lease ended and "
		"another receiver has the message.\n"
		"\n"
		"It prints how many were acknowledged, and how many were not. Superseded: a newer offer "
		"replaced the message of a delayed queue, and stays there. Lease lost: another "
		"receiver has it, or it was settled or discarded.\n"
		"\n"
		"Examples:\n"
		"  wherry ack sqlite:shop.db#jobs 0198-token 7\n"
		"  wherry ack sqlite:shop.db#delayed/mail 7.1764000000000.0198-token\n",
	.options = ack_options,
	.kinds = ack_kinds,
};

static const wh_option nack_options[] = {
	{"in", "DURATION", "Nobody gets them earlier, such as 5s. (default now)", NULL,
	 0},
	{"error", "TEXT", "Why; kept with the messages.", NULL, 0},
	{"not-counted", NULL, "Do not count the attempt.", NULL, 0},
	{"dead", NULL, "Give them up: they become dead.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_without no_uncounted[] = {
	{"not-counted", "a poll of a delayed queue always counts"}, {NULL, NULL}};

static const wh_for_kind nack_kinds[WH_KINDS] = {
	[WH_OF_QUEUE] = {.run = wh_on_queue_nack},
	[WH_OF_DELAYED] = {.run = wh_on_delayed_nack, .without = no_uncounted},
};

const wh_command wh_cmd_nack = {
	.name = "nack",
	.operands = "URL#NAME TOKEN [ID...]",
	.synopsis = "URL#NAME TOKEN ID...|URL#TABLE/QUEUE TOKEN... [--in DURATION] "
		    "[--error TEXT] [--not-counted] [--dead] [--json]",
	.brief = "Give back messages that were received or polled",
	.help = "Others can get them again at once, or after a delay. It prints how many were "
		"returned (dead with --dead), superseded or lost, as `wherry ack` does.\n"
		"\n"
		"Examples:\n"
		"  wherry nack sqlite:shop.db#jobs 0198-token 7 --in 30s\n"
		"  wherry nack sqlite:shop.db#jobs 0198-token 7 --dead --error 'no such job'\n"
		"  wherry nack sqlite:shop.db#delayed/mail 7.1764000000000.0198-token --in 30s\n",
	.options = nack_options,
	.kinds = nack_kinds,
};
