/*
 * Checking existing tables: versions of schemas, columns, owners and indexes.
 */
#ifndef WH_STORE_VERSIONS_H
#define WH_STORE_VERSIONS_H

#include "store/store.h"

/* Read the version of the tables of the loaded layout.  TOONEW: this program is too old
 * for it. */
wherry_code wh_store_version(wh_store *store, wh_version *out, wherry_error *err);

/* How a table compares with a list of columns, such as "a,b,!c": it must not have !c. */
typedef struct wh_columns {
	const char *list;
	unsigned has; /* A bit for each column of the list that the table has. */
	bool any;     /* The table exists. */
} wh_columns;

wherry_code wh_store_columns(wh_store *store, const char *table, const char *list,
			     wh_columns *out, wherry_error *err);

/* Refuse an existing table of this name, or of its archive's name, that has other
 * columns. */
wherry_code wh_store_check_foreign(wh_store *store, wherry_error *err);

/* Refuse tables and functions that belong to other roles: a trigger runs with the rights
 * of the role that writes to the table. */
wherry_code wh_store_check_owners(wh_store *store, wherry_error *err);

/* Set the version to 0 if an index is missing, so that all migrations run again. */
wherry_code wh_store_check_indexes(wh_store *store, wh_version *v, wherry_error *err);

#endif
