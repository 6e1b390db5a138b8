/*
 * The delayed queue that a command works on.
 */
#ifndef WH_CLI_DELAYED_SESSION_H
#define WH_CLI_DELAYED_SESSION_H

#include "cli/cli.h"

/* The delayed queue that the URL names. */
typedef struct wh_delayed_session {
	wh_place at;
	wherry_delayed *delayed;
	const char *queue; /* Its name. */
} wh_delayed_session;

/* Open the delayed queue that the URL names, call work, and close the queue. */
typedef wh_exit (*wh_delayed_work)(const wh_args *args, wh_delayed_session *s);
wh_exit wh_with_delayed(const wh_args *args, wh_delayed_work work);

/* Like wh_with_delayed(), for a command that works on all queues of the table: s->queue
 * is NULL. */
wh_exit wh_with_delayed_table(const wh_args *args, wh_delayed_work work);

/* The name of the table, or the default one. */
const char *wh_delayed_table(const wh_args *args);

#endif
