/*
 * A message to send to a queue, or to publish.
 */
#ifndef WH_CLI_OUTGOING_H
#define WH_CLI_OUTGOING_H

#include "cli/cli.h"

/* A message to send, from options and the operand with this number.  Clear it even if wh_outgoing_read()
 * fails. */
typedef struct wh_outgoing {
	wherry_queue_message msg;
	char *headers;
	wh_buf body;
} wh_outgoing;

wh_exit wh_outgoing_read(wh_outgoing *out, const wh_args *args, size_t body);
void wh_outgoing_clear(wh_outgoing *out);

/* The options of a message to send. */
/* clang-format off */
#define WH_SEND_OPTIONS \
	WH_BODY_OPTION, \
	{"header", "NAME=VALUE", "A header.", NULL, WH_REPEAT}, \
	{"id", "ID", "The message id; without it, one is made.", NULL, 0}, \
	{"correlation-id", "ID", "Which conversation it belongs to.", NULL, 0}, \
	{"reply-to", "ADDRESS", "Where an answer is expected.", NULL, 0}, \
	{"in", "DURATION", "Deliver it after this time, such as 5s.", NULL, 0}, \
	{"expires", "DURATION", "Delete it if nobody has received it within this time after it is due.", NULL, 0}
/* clang-format on */

#endif
