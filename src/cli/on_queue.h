/*
 * Commands for outboxes whose URL names a queue.  Each does the same task for the queue,
 * and its output has the same layout as for an outbox.
 */
#ifndef WH_CLI_ON_QUEUE_H
#define WH_CLI_ON_QUEUE_H

#include "cli/doctor.h"
#include "cli/queue_session.h"

/* Does the URL name a queue, as sqlite:shop.db#jobs can?  Opens the database to see. */
bool wh_is_on_queue(const wh_args *args);

/* Open the queue that the first operand names.  Returns like wh_queue_session_open(). */
wh_exit wh_on_queue_open(wh_queue_session *s, const wh_args *args);

/* An option that has no meaning for a queue, and why. */
typedef struct wh_without {
	const char *option, *why;
} wh_without;

/* Refuse these options; the list ends with NULL.  False: one of them was given, and it
 * printed why it is refused. */
bool wh_on_queue_allows(const wh_args *args, const wh_without *refused);

/* The topic under which a message is relayed: the queue's name if the message was not
 * published. */
const char *wh_queue_topic(const wh_queue_session *s, const wherry_queue_message *msg);

/* Append why a message is in its state. */
void wh_put_queue_why(wh_buf *why, const wh_queue_session *s,
		      const wherry_queue_message *msg, int64_t now_us);

/* Has the message's lease expired? */
bool wh_is_lease_over(const wherry_queue_message *msg, int64_t now_us);

/* Print the status of a queue once.  session: a wh_queue_session. */
wh_exit wh_on_queue_status(const wh_args *args, void *session);

wh_exit wh_on_queue_list(const wh_args *args);
wh_exit wh_on_queue_show(const wh_args *args);
wh_exit wh_on_queue_retry(const wh_args *args);
wh_exit wh_on_queue_discard(const wh_args *args);

/* Print how many messages of an outbox or a queue were discarded. */
void wh_print_discarded(const wh_args *args, int64_t n);

/* Add findings about the queue, or about one of its messages; see doctor.h. */
void wh_on_queue_check(wh_doctor *d);
wherry_code wh_on_queue_message(wh_doctor *d, const char *ident, wherry_error *err);

#endif
