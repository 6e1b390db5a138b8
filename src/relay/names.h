/*
 * The names of the tables of a database, and which of them a name could mean that was not
 * found.
 */
#ifndef WH_RELAY_NAMES_H
#define WH_RELAY_NAMES_H

#include <wherry/db.h>

typedef struct wh_names {
	char **all;
	size_t n;
} wh_names;

/* Read the names of tables that may be queues; none if a SQLite database has no tables of
 * Wherry.  Clear *out even on failure. */
wherry_code wh_names_of_queues(wherry_db *db, wh_names *out, wherry_error *err);

/* The same of tables that may be outboxes, delayed queues, inboxes or schedules. */
wherry_code wh_names_of_others(wherry_db *db, wh_names *out, wherry_error *err);
void wh_names_clear(wh_names *names);

/*
 * A table was not found.  Append to the message the name that is nearest, or which names
 * there are.
 *
 * @param name   The name that was not found.
 * @param kinds  Of the tables that it could mean: WHERRY_KIND_*, without schedules.
 * @param err    Of the failure; NULL: nothing is done.
 */
void wh_suggest(wherry_db *db, const char *name, unsigned kinds, wherry_error *err);

#endif
