/*
 * Which tables are there: versions of schemas, columns, owners and indexes.
 */
#ifndef WH_STORE_VERSIONS_H
#define WH_STORE_VERSIONS_H

#include "store/store.h"

/* The version that the tables of the loaded layout have; TOONEW: this program may not use it. */
wherry_code wh_store_version(wh_store *store, wh_version *out, wherry_error *err);

/* How a table compares with a list of columns, "a,b,!c": !c must not be there. */
typedef struct wh_columns {
	const char *list;
	unsigned has; /* bits, in the order of the list */
	bool any;     /* there is a table */
} wh_columns;

wherry_code wh_store_columns(wh_store *store, const char *table, const char *list,
			     wh_columns *out, wherry_error *err);

/* The first column that is missing, or should be: its name, or NULL. */
const char *wh_store_mismatch(const wh_columns *found, int *out_len);

/* Refuse a table of that name that is something else, also beside it. */
wherry_code wh_store_check_foreign(wh_store *store, wherry_error *err);

/* Refuse tables and functions of other roles: a trigger runs with the rights of the role that
 * writes to the table. */
wherry_code wh_store_check_owners(wh_store *store, wherry_error *err);

/* A table without one of its indexes is brought up to date from the first version on. */
wherry_code wh_store_check_indexes(wh_store *store, wh_version *v, wherry_error *err);

#endif
