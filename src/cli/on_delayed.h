/*
 * Commands for a delayed queue: sqlite:shop.db#delayed/mail.
 */
#ifndef WH_CLI_ON_DELAYED_H
#define WH_CLI_ON_DELAYED_H

#include "cli/doctor.h"

/* Print the status of a delayed queue once. */
wh_exit wh_on_delayed_status(const wh_args *args, wh_session *s);

wh_exit wh_on_delayed_list(const wh_args *args, wh_session *s);
wh_exit wh_on_delayed_show(const wh_args *args, wh_session *s); /* By its key. */
wh_exit wh_on_delayed_retry(const wh_args *args, wh_session *s);
wh_exit wh_on_delayed_discard(const wh_args *args, wh_session *s);
wh_exit wh_on_delayed_drop(const wh_args *args,
			   wh_session *s); /* The table with all its queues. */
wh_exit wh_on_delayed_ack(const wh_args *args, wh_session *s);
wh_exit wh_on_delayed_nack(const wh_args *args, wh_session *s);

/* Append why a message is where it is, behind its name: "is due in 3s". */
void wh_put_delayed_why(wh_buf *text, const wherry_delayed_message *msg, int64_t now_us);

/* Add findings about the delayed queue, or about the message of a key; see doctor.h. */
void wh_on_delayed_check(wh_doctor *d);
wherry_code wh_on_delayed_message(wh_doctor *d, const char *key, wherry_error *err);

#endif
