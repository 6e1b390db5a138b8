/*
 * Commands for outboxes where the URL names a queue: each does the same task by the functions of
 * queues, in the layout of its output for an outbox.
 */
#ifndef WH_CLI_ON_QUEUE_H
#define WH_CLI_ON_QUEUE_H

#include "cli/doctor.h"
#include "cli/queue_session.h"

/* Does the first operand name a queue: "queue+sqlite:shop.db?queue=jobs"? */
bool wh_is_on_queue(const wh_args *args);

/* The queue of that URL; as wh_queue_session_open(). */
wh_exit wh_on_queue_open(wh_queue_session *s, const wh_args *args);

/* An option that means nothing for a queue, and why. */
typedef struct wh_without {
	const char *option, *why;
} wh_without;

/* False: one of these options was given, and it said why that is refused.  Ended by NULL. */
bool wh_on_queue_allows(const wh_args *args, const wh_without *refused);

/* The topic that a message is relayed under: the queue's name if it was not published. */
const char *wh_queue_topic(const wh_queue_session *s, const wherry_queue_message *msg);

/* Append why a message is where it is. */
void wh_put_queue_why(wh_buf *why, const wh_queue_session *s,
		      const wherry_queue_message *msg, int64_t now_us);

/* Is its lease over although nobody settled it? */
bool wh_is_lease_over(const wherry_queue_message *msg, int64_t now_us);

/* Print the status of the queue that session is, once. */
wh_exit wh_on_queue_status(const wh_args *args, void *session);

wh_exit wh_on_queue_list(const wh_args *args);
wh_exit wh_on_queue_show(const wh_args *args);
wh_exit wh_on_queue_retry(const wh_args *args);
wh_exit wh_on_queue_discard(const wh_args *args);

/* Print how many messages were discarded, of an outbox or a queue. */
void wh_print_discarded(const wh_args *args, int64_t n);

/* The findings about a queue and about one message of it; see doctor.h. */
void wh_on_queue_check(wh_doctor *d);
wherry_code wh_on_queue_message(wh_doctor *d, const char *ident, wherry_error *err);

#endif
