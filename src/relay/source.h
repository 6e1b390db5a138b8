/*
 * The table whose messages a relay delivers, of whichever model.
 */
#ifndef WH_RELAY_SOURCE_H
#define WH_RELAY_SOURCE_H

#include <wherry/config.h>

#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"

/* An open table; all NULL: none. */
typedef struct wh_source {
	wh_store *store;    /* What every model has. */
	wherry_outbox *box; /* One of these owns the store; the others are NULL. */
	wherry_queue *queue;
	wherry_delayed *delayed;
} wh_source;

/*
 * Open a table.
 *
 * @param model  "outbox", "queue" or "delayed queue", as wh_model has it.
 * @param name   As it is called there; of a delayed queue "QUEUE|TYPE|TABLE", where the last
 *               parts may be missing.
 * @return As wherry_outbox_open(); on failure *out is not changed.
 */
wherry_code wh_source_open(wherry_db *db, const char *model, const char *name,
			   wh_source *out, wherry_error *err);

/* The table that these settings name, relay.delayed or relay.queue or else outbox.table, and its
 * model. */
const char *wh_source_named(const wherry_config *config, const char **out_model);

/* Open that table. */
wherry_code wh_source_open_set(wherry_db *db, const wherry_config *config, wh_source *out,
			       wherry_error *err);

/*
 * Split the URL that a relay reads from into that of the database, *out_url, which is the
 * caller's to free, and the setting relay.queue or relay.delayed, if it names one.
 *
 * @return As wh_url_split(), or as wherry_config_set().
 */
wherry_code wh_source_take_url(const char *from, wherry_config *config, char **out_url,
			       wherry_error *err);

/* What waits in it, as wh_outbox_backlog() says. */
wherry_code wh_source_backlog(const wh_source *source, wh_backlog *out,
			      wherry_error *err);

/* Nothing is open afterwards. */
void wh_source_close(wh_source *source);

#endif
