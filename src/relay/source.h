/*
 * The table whose messages a relay delivers: an outbox, a queue or a delayed queue.
 */
#ifndef WH_RELAY_SOURCE_H
#define WH_RELAY_SOURCE_H

#include <wherry/config.h>
#include <wherry/relay.h>

#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"

/* An open table; all NULL: none. */
typedef struct wh_source {
	wh_store *store;       /* The store, which every model has. */
	wherry_outbox *outbox; /* One of these owns the store; the others are NULL. */
	wherry_queue *queue;
	wherry_delayed *delayed;
} wh_source;

/*
 * Open a table.
 *
 * @param model  "outbox", "queue" or "delayed queue", the name of its wh_model.
 * @param name   The table's name; of a delayed queue as for wh_table_name_read().
 * @return As wherry_outbox_open(); on failure *out is not changed.
 */
wherry_code wh_source_open(wherry_db *db, const char *model, const char *name,
			   wh_source *out, wherry_error *err);

/* Open the table that the setting relay.table names: a delayed queue, or the outbox or
 * else the queue of that name. */
wherry_code wh_source_open_set(wherry_db *db, const wherry_config *config, wh_source *out,
			       wherry_error *err);

/*
 * Split the URL that a relay reads from: *out_url receives the database's URL, which the
 * caller frees.  If the URL names a table, set relay.table.
 *
 * @return As wh_table_name_read(), or as wherry_config_set().
 */
wherry_code wh_source_take_url(const char *from, wherry_config *config, char **out_url,
			       wherry_error *err);

/* Count the messages of the table that are not delivered, as wh_outbox_backlog() does. */
wherry_code wh_source_backlog(const wh_source *source, wh_backlog *out,
			      wherry_error *err);

/* Close the table, and set all members to NULL. */
void wh_source_close(wh_source *source);

/* Can the messages that the relay delivers be listed and retried?  Where rows do not say
 * what became of them, dead messages are in the table wherry_dead. */
bool wh_relay_lists(const wherry_relay *relay);

#endif
