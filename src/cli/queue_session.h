/*
 * The queue that a command works on.
 */
#ifndef WH_CLI_QUEUE_SESSION_H
#define WH_CLI_QUEUE_SESSION_H

#include "cli/cli.h"

/* The queue that the URL names. */
typedef struct wh_queue_session {
	wh_place at;
	wherry_queue *queue;
	char url[200]; /* The database, without its password. */
} wh_queue_session;

/* Open the queue.  If the status is not WH_EXIT_DONE, it printed why, and the session is
 * closed. */
wh_exit wh_queue_session_open(wh_queue_session *s, const wh_args *args);
void wh_queue_session_close(wh_queue_session *s);

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

extern const wh_command wh_queue_cancel_word, wh_queue_publish_word,
	wh_queue_subscribe_word, wh_queue_unsubscribe_word, wh_queue_subscriptions_word;

#endif
