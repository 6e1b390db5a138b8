/*
 * The tables of a database, each with what is counted in it: for `wherry tables` and `wherry top`.
 */
#ifndef WH_CLI_LISTED_H
#define WH_CLI_LISTED_H

#include "cli/cli.h"

/* A table of Wherry. */
typedef struct wh_listed {
	const char *name, *kind;
	char layout[24];
	/* Messages that are not delivered, those that could be now, and dead ones; of a table of
	 * delayed queues all, also dead ones; of an inbox its ids; of a table of schedules those
	 * that are installed; -1: not known. */
	int64_t messages, ready, dead;
	int64_t oldest_ready_us; /* Age of the first ready message; 0: none; -1: not known. */
	char relay[100]; /* The relay that holds the lease; "": none, or not known. */
	/* Messages that this relay has delivered under the lease with this epoch. */
	int64_t delivered, epoch;
	bool paused;
} wh_listed;

/* Given to be printed; what it points to is borrowed for the call. */
typedef void (*wh_listed_fn)(void *ctx, const wh_listed *table);

/* Read each table of the database.  One that cannot be read hides no other: it is reported, and the
 * result is not WH_EXIT_DONE. */
wh_exit wh_list_tables(wherry_db *db, wh_listed_fn visit, void *ctx);

#endif
