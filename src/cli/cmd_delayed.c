#include "cli/commands.h"

#include "cli/delayed_session.h"

static const wh_command *const words[] = {&wh_delayed_create, NULL};

const wh_command wh_cmd_delayed = {
	.name = "delayed",
	.operands = "",
	.synopsis = "COMMAND URL[#TABLE] ...",
	.brief = "Create tables for delayed queues, which keep messages until their time",
	.help = "A delayed queue has one message for each key. Programs offer and poll with "
		"the C library or with the commands offer, poll, ack and nack. `wherry help delayed "
		"COMMAND` explains a command.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed create sqlite:shop.db\n"
		"  wherry offer sqlite:shop.db#delayed/mail --key order-7 --body remind --in 5s\n"
		"  wherry poll sqlite:shop.db#delayed/mail --wait 10s\n",
	.plain = true,
	.words = words,
};
