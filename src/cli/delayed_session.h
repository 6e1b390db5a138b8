/*
 * Shared by the commands "wherry delayed …".
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

/* The name of a message's state, such as "leased". */
const char *wh_delayed_state_name(const wherry_delayed_message *msg);

/* Append a message as a JSON object, which is a line. */
void wh_put_delayed_message(wh_buf *buf, const wherry_delayed_message *msg);

/* Print how many messages were changed, and how. */
wh_exit wh_delayed_changed(const wh_args *args, const wh_delayed_session *s, int64_t n,
			   const char *what);

/* The name of the table, or the default one. */
const char *wh_delayed_table(const wh_args *args);

extern const wh_command wh_delayed_create, wh_delayed_offer_word, wh_delayed_poll_word,
	wh_delayed_ack_word, wh_delayed_nack_word, wh_delayed_read_word,
	wh_delayed_drop_word, wh_delayed_list_word, wh_delayed_count_word,
	wh_delayed_dead_word, wh_delayed_drop_table_word;

#endif
