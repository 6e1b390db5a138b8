#include "cli/commands.h"

#include "cli/on_queue.h"

/* In the order of the help: as they are met in use. */
static const wh_command *const words[] = {
	&wh_queue_cancel_word,      &wh_queue_subscribe_word,
	&wh_queue_unsubscribe_word, &wh_queue_subscriptions_word,
	&wh_queue_publish_word,     NULL,
};

const wh_command wh_cmd_queue = {
	.name = "queue",
	.operands = "",
	.synopsis = "COMMAND URL#NAME ...",
	.brief = "Let queues get what is published to topics",
	.help = "A queue is a table. Programs send and receive with plain SQL, with the C "
		"library or with the commands send, receive, ack and nack, all on the same "
		"queue. `wherry help queue COMMAND` explains a command.\n"
		"\n"
		"Examples:\n"
		"  wherry create --kind queue sqlite:shop.db#jobs\n"
		"  wherry send sqlite:shop.db#jobs '{\"job\":1}'\n"
		"  wherry receive sqlite:shop.db#jobs\n",
	.plain = true,
	.words = words,
};
