/*
 * Creating the tables of a model, bringing them up to date, and removing them.
 */
#ifndef WH_STORE_MAKING_H
#define WH_STORE_MAKING_H

#include "store/store.h"

/* What making tables changed. */
typedef struct wh_made {
	int from, to;  /* Versions of the schema; from 0: there was none. */
	bool repaired; /* Something of this version was missing. */
} wh_made;

/* NOTFOUND where the search path names no schema to make tables in.  The store is loaded. */
wherry_code wh_store_can_make(const wh_store *store, const char *table,
			      wherry_error *err);

/* Wait until nobody else migrates, and refuse tables of other roles.  In a transaction. */
wherry_code wh_store_begin_making(wh_store *store, wherry_error *err);

/* Run the migrations that are missing, after wh_store_begin_making() in the same transaction. */
wherry_code wh_store_migrate(wh_store *store, wh_made *out, wherry_error *err);

/* The version that the tables have, as far as migrations are concerned: 0 if one of the tables or
 * indexes is not there. */
wherry_code wh_store_migrated(wh_store *store, int *out_version, wherry_error *err);

/* Append the SQL of the migrations after a version; or of all. */
void wh_store_later_sql(const wh_store *store, const char *table, int version,
			wh_buf *to);
void wh_store_migrations_sql(const wh_store *store, const char *table, wh_buf *to);

/*
 * Remove the table with all its rows, then, if it was the last one, the tables that it shares.
 *
 * @return WHERRY_OK; WHERRY_UNSUPPORTED: its layout is another program's.
 *
 * Transaction: its own.
 */
wherry_code wh_store_drop(wh_store *store, wherry_error *err);

#endif
