/*
 * Commands for a queue.  The output has the same layout as for an outbox.
 */
#ifndef WH_CLI_ON_QUEUE_H
#define WH_CLI_ON_QUEUE_H

#include "cli/doctor.h"
#include "cli/queue_session.h"

/* Append why a message is in its state. */
void wh_put_queue_why(wh_buf *why, const wh_queue_session *s,
		      const wherry_queue_message *msg, int64_t now_us);

/* Has the message's lease expired? */
bool wh_is_lease_over(const wherry_queue_message *msg, int64_t now_us);

/* Print the status of a queue once.  session: a wh_queue_session. */
wh_exit wh_on_queue_status(const wh_args *args, void *session);

wh_exit wh_on_queue_list(wh_args *args);
wh_exit wh_on_queue_show(wh_args *args);
wh_exit wh_on_queue_retry(wh_args *args);
wh_exit wh_on_queue_discard(wh_args *args);
wh_exit wh_on_queue_drop(wh_args *args);
wh_exit wh_on_queue_ack(wh_args *args);
wh_exit wh_on_queue_nack(wh_args *args);

/* Print the SQL that repairs the tables of the queue. */
wh_exit wh_on_queue_repairs(const wh_queue_session *s);

/* Add findings about the queue, or about one of its messages; see doctor.h. */
void wh_on_queue_check(wh_doctor *d);
wherry_code wh_on_queue_message(wh_doctor *d, const char *ident, wherry_error *err);

#endif
