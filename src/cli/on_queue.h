/*
 * Commands for a queue.  The output has the same layout as for an outbox.
 */
#ifndef WH_CLI_ON_QUEUE_H
#define WH_CLI_ON_QUEUE_H

#include "cli/doctor.h"

/* Append why a message is in its state. */
void wh_put_queue_why(wh_buf *why, const wh_session *s, const wherry_queue_message *msg,
		      int64_t now_us);

/* Has the message's lease expired? */
bool wh_is_lease_over(const wherry_queue_message *msg, int64_t now_us);

/* Print the status of a queue once. */
wh_exit wh_on_queue_status(const wh_args *args, wh_session *s);

wh_exit wh_on_queue_list(const wh_args *args, wh_session *s);
wh_exit wh_on_queue_show(const wh_args *args, wh_session *s);
wh_exit wh_on_queue_retry(const wh_args *args, wh_session *s);
wh_exit wh_on_queue_discard(const wh_args *args, wh_session *s);
wh_exit wh_on_queue_drop(const wh_args *args, wh_session *s);
wh_exit wh_on_queue_ack(const wh_args *args, wh_session *s);
wh_exit wh_on_queue_nack(const wh_args *args, wh_session *s);

/* Print the SQL that repairs the tables of the queue. */
wh_exit wh_on_queue_repairs(const wh_session *s);

/* Add findings about the queue, or about one of its messages; see doctor.h. */
void wh_on_queue_check(wh_doctor *d);
wherry_code wh_on_queue_message(wh_doctor *d, const char *ident, wherry_error *err);

extern const wh_command wh_queue_cancel_word, wh_queue_publish_word,
	wh_queue_subscribe_word, wh_queue_unsubscribe_word, wh_queue_subscriptions_word;

#endif
