/*
 * Creating the tables of a model, bringing them up to date, and removing them.
 */
#ifndef WH_STORE_MAKING_H
#define WH_STORE_MAKING_H

#include "store/store.h"

/* Changes made to the tables. */
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

/* Refuse to make a table that is there with another type of bodies, which it keeps. */
wherry_code wh_store_check_payload(wh_store *store, wherry_error *err);

/* A table to make. */
typedef struct wh_making {
	const wh_model *model;
	const char *layout;  /* NULL: that of the table that is there, else native */
	const char *name;    /* of the table */
	const char *payload; /* type of bodies; NULL: json, where there is a choice */
	void *own;           /* struct of pointers for the model's own statements */
} wh_making;

/* Make a table, or bring it up to date.  Transaction: its own. */
wherry_code wh_store_create(wherry_db *db, const wh_making *what, wherry_error *err);

/* The SQL that makes it.  *out is the caller's to free. */
wherry_code wh_store_create_sql(const char *scheme, const wh_making *what, char **out,
				wherry_error *err);

/* Append the SQL of the migrations after a version; 0: of all. */
void wh_store_later_sql(const wh_store *store, const char *table, int version,
			wh_buf *to);

/* UNSUPPORTED: the layout is another program's. */
wherry_code wh_store_can_drop(const wh_store *store, wherry_error *err);

/*
 * Remove the table with all its rows, then, if it was the last one, the tables that it shares.
 *
 * @return WHERRY_OK; UNSUPPORTED as of wh_store_can_drop().
 *
 * Transaction: its own.
 */
wherry_code wh_store_drop(wh_store *store, wherry_error *err);

#endif
