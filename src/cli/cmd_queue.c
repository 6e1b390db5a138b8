#include "cli/commands.h"

#include "cli/queue_session.h"

/* In the order of the help: as they are met in use. */
static const wh_command *const words[] = {
	&wh_queue_create,
	&wh_queue_send_word,
	&wh_queue_cancel_word,
	&wh_queue_receive_word,
	&wh_queue_ack_word,
	&wh_queue_nack_word,
	&wh_queue_list_word,
	&wh_queue_length_word,
	&wh_queue_peek_word,
	&wh_queue_errors_word,
	&wh_queue_retry_word,
	&wh_queue_purge_word,
	&wh_queue_inspect_word,
	&wh_queue_subscribe_word,
	&wh_queue_unsubscribe_word,
	&wh_queue_subscriptions_word,
	&wh_queue_publish_word,
	&wh_queue_drop,
	NULL,
};

const wh_command wh_cmd_queue = {
	.name = "queue",
	.operands = "",
	.synopsis = "COMMAND URL#NAME ...",
	.brief = "Send to queues in the database, and receive from them",
	.help = "A queue is a table. Programs send and receive with plain SQL, with the C "
		"library or with these commands, all on the same queue. `wherry help queue "
		"COMMAND` explains a command.\n"
		"\n"
		"Examples:\n"
		"  wherry queue create sqlite:shop.db#jobs\n"
		"  wherry queue send sqlite:shop.db#jobs '{\"job\":1}'\n"
		"  wherry queue receive sqlite:shop.db#jobs\n",
	.plain = true,
	.words = words,
};
