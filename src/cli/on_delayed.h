/*
 * status, pause, resume and doctor where the URL names a delayed queue:
 * "delayed+sqlite:shop.db?delayed=mail".
 */
#ifndef WH_CLI_ON_DELAYED_H
#define WH_CLI_ON_DELAYED_H

#include "cli/doctor.h"
#include "relay/source.h"

/* The delayed queue of the URL. */
typedef struct wh_on_delayed {
	wherry_db *db;
	wh_source source;   /* source.delayed is the queue */
	char url[200];      /* of its database, without its password */
	const char *target; /* names the queue behind "wherry COMMAND"; borrowed */
	char *words;        /* names it behind "wherry delayed COMMAND" */
} wh_on_delayed;

/* Does the first operand name a delayed queue? */
bool wh_is_on_delayed(const wh_args *args);

/* On another status than WH_EXIT_DONE it said why, and nothing is open. */
wh_exit wh_on_delayed_open(wh_on_delayed *s, const wh_args *args);
void wh_on_delayed_close(wh_on_delayed *s);

/* Print the status of the delayed queue that session is, once. */
wh_exit wh_on_delayed_status(const wh_args *args, void *session);

/* The findings about a delayed queue, and about the message of one key; see doctor.h. */
void wh_on_delayed_check(wh_doctor *d);
wherry_code wh_on_delayed_message(wh_doctor *d, const char *key, wherry_error *err);

#endif
