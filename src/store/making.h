/*
 * Creating, migrating and dropping the tables of a model.
 */
#ifndef WH_STORE_MAKING_H
#define WH_STORE_MAKING_H

#include "store/store.h"

/* Changes made to the tables. */
typedef struct wh_made {
	/* Schema versions before and after; from is 0 if there was no table. */
	int from, to;
	/* A part of the existing version was missing and was created again. */
	bool repaired;
} wh_made;

/* Return NOTFOUND if the search path names no existing schema to create tables in.  Call
 * it after wh_store_load(). */
wherry_code wh_store_can_make(const wh_store *store, const char *table,
			      wherry_error *err);

/* Wait for the lock for migrations, then refuse tables that belong to other roles.  Call
 * it in a transaction. */
wherry_code wh_store_begin_making(wh_store *store, wherry_error *err);

/* Run the missing migrations.  Call it after wh_store_begin_making(), in the same
 * transaction. */
wherry_code wh_store_migrate(wh_store *store, wh_made *out, wherry_error *err);

/* Read the version from which migrations continue: 0 if one of the tables or indexes is
 * missing. */
wherry_code wh_store_migrated(wh_store *store, int *out_version, wherry_error *err);

/* Refuse a requested type of bodies that differs from the existing table's type. */
wherry_code wh_store_check_payload(wh_store *store, wherry_error *err);

/* Options for creating a table. */
typedef struct wh_making {
	const wh_model *model;
	const char *layout; /* NULL: the layout of the existing table, or of a new one. */
	const char *name;   /* Name of the table. */
	/* Type of bodies; NULL: json, in layouts that have a choice. */
	const char *payload;
	void *own; /* Receives the model's own statements: its struct of pointers. */
} wh_making;

/* Create a table, or migrate it.  Transaction: its own. */
wherry_code wh_store_create(wherry_db *db, const wh_making *what, wherry_error *err);

/* Write the SQL that creates a table.  The caller frees *out. */
wherry_code wh_store_create_sql(const char *scheme, const wh_making *what, char **out,
				wherry_error *err);

/* Append the SQL of the migrations after this version; 0: of all. */
void wh_store_later_sql(const wh_store *store, const char *table, int version,
			wh_buf *to);

/* Return UNSUPPORTED if the table belongs to another program. */
wherry_code wh_store_can_drop(const wh_store *store, wherry_error *err);

/*
 * Drop the table with all its rows.  If it was the last one, also drop the tables that
 * Wherry's tables share.
 *
 * @return WHERRY_OK; WHERRY_UNSUPPORTED: the table belongs to another program.
 *
 * Transaction: its own.
 */
wherry_code wh_store_drop(wh_store *store, wherry_error *err);

#endif
