/*
 * status, pause, resume and doctor where the URL names a delayed queue:
 * sqlite:shop.db#delayed/mail.
 */
#ifndef WH_CLI_ON_DELAYED_H
#define WH_CLI_ON_DELAYED_H

#include "cli/doctor.h"
#include "relay/source.h"

/* The delayed queue of the URL. */
typedef struct wh_on_delayed {
	wherry_db *db;
	wh_source source;   /* source.delayed is the queue. */
	char url[200];      /* The database, without its password. */
	const char *target; /* Names the queue behind "wherry COMMAND"; borrowed. */
} wh_on_delayed;

/* Does the first operand name a delayed queue? */
bool wh_is_on_delayed(const wh_args *args);

/* Open the delayed queue.  If the status is not WH_EXIT_DONE, it printed why, and nothing
 * is open. */
wh_exit wh_on_delayed_open(wh_on_delayed *s, const wh_args *args);
void wh_on_delayed_close(wh_on_delayed *s);

/* Print the status of a delayed queue once.  session: a wh_on_delayed. */
wh_exit wh_on_delayed_status(const wh_args *args, void *session);

/* Add findings about the delayed queue, or about the message of a key; see doctor.h. */
void wh_on_delayed_check(wh_doctor *d);
wherry_code wh_on_delayed_message(wh_doctor *d, const char *key, wherry_error *err);

#endif
