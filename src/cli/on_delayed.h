/*
 * Commands for a delayed queue: sqlite:shop.db#delayed/mail.
 */
#ifndef WH_CLI_ON_DELAYED_H
#define WH_CLI_ON_DELAYED_H

#include "cli/doctor.h"
#include "relay/source.h"

/* The delayed queue of the URL. */
typedef struct wh_on_delayed {
	wherry_db *db;
	wh_source source;   /* source.delayed is the queue. */
	const char *name;   /* TABLE/QUEUE, as the URL names it; borrowed. */
	char url[200];      /* The database, without its password. */
	const char *target; /* Names the queue behind "wherry COMMAND"; borrowed. */
} wh_on_delayed;

/* Open the delayed queue.  If the status is not WH_EXIT_DONE, it printed why, and nothing
 * is open. */
wh_exit wh_on_delayed_open(wh_on_delayed *s, const wh_args *args);
void wh_on_delayed_close(wh_on_delayed *s);

/* Print the status of a delayed queue once.  session: a wh_on_delayed. */
wh_exit wh_on_delayed_status(const wh_args *args, void *session);

wh_exit wh_on_delayed_list(wh_args *args);
wh_exit wh_on_delayed_show(wh_args *args); /* By its key. */
wh_exit wh_on_delayed_retry(wh_args *args);
wh_exit wh_on_delayed_discard(wh_args *args);
wh_exit wh_on_delayed_drop(wh_args *args); /* The table with all its queues. */
wh_exit wh_on_delayed_ack(wh_args *args);
wh_exit wh_on_delayed_nack(wh_args *args);

/* Append why a message is where it is, behind its name: "is due in 3s". */
void wh_put_delayed_why(wh_buf *text, const wherry_delayed_message *msg, int64_t now_us);

/* Add findings about the delayed queue, or about the message of a key; see doctor.h. */
void wh_on_delayed_check(wh_doctor *d);
wherry_code wh_on_delayed_message(wh_doctor *d, const char *key, wherry_error *err);

#endif
