#include "cli/commands.h"

#include "cli/delayed_session.h"

/* In the order of the help: as they are met in use. */
static const wh_command *const words[] = {
	&wh_delayed_create,    &wh_delayed_offer_word,      &wh_delayed_poll_word,
	&wh_delayed_ack_word,  &wh_delayed_nack_word,       &wh_delayed_read_word,
	&wh_delayed_list_word, &wh_delayed_count_word,      &wh_delayed_dead_word,
	&wh_delayed_drop_word, &wh_delayed_drop_table_word, NULL,
};

const wh_command wh_cmd_delayed = {
	.name = "delayed",
	.operands = "",
	.synopsis = "COMMAND URL#TABLE/QUEUE ...",
	.brief = "Keep messages until their time, in delayed queues",
	.help = "A delayed queue has one message for each key. Programs offer and poll with "
		"the C library or with these commands. `wherry help delayed COMMAND` explains "
		"a command.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed create sqlite:shop.db\n"
		"  wherry delayed offer sqlite:shop.db#delayed/mail --key order-7 --body remind --in 5s\n"
		"  wherry delayed poll sqlite:shop.db#delayed/mail --wait 10s\n",
	.plain = true,
	.words = words,
};
