/*
 * Rights of database roles on the tables of a model.
 */
#ifndef WH_STORE_GRANTS_H
#define WH_STORE_GRANTS_H

#include "store/store.h"

/*
 * Check grants, each "ROLE=KIND" with a kind of the model.  The SQL of each kind is a
 * statement of the model's file grants.DIALECT.sql; its statement "clear" revokes what a
 * role had before.
 *
 * @return WHERRY_OK; WHERRY_INVALID: a grant has another form or kind, or the database
 *         has no roles.
 */
wherry_code wh_store_grant_check(const wh_model *model, const char *scheme,
				 const char *const *grants, size_t n, wherry_error *err);

/*
 * Check grants before any table is created: as wh_store_grant_check(), and the layout
 * takes grants, and the database has the roles.
 *
 * @param layout  The requested layout; NULL: none was requested.
 * @return WHERRY_OK; WHERRY_INVALID; WHERRY_NOTFOUND: a role does not exist; any error of
 *         a read.
 */
wherry_code wh_store_grant_ready(wherry_db *db, const wh_model *model, const char *layout,
				 const char *const *grants, size_t n, wherry_error *err);

/* Append the SQL of the grants. */
wherry_code wh_store_grant_sql(const wh_store *store, const char *scheme,
			       const char *const *grants, size_t n, wh_buf *to,
			       wherry_error *err);

/* Run the SQL of the grants, in a transaction. */
wherry_code wh_store_grant(wh_store *store, const char *const *grants, size_t n,
			   wherry_error *err);

/* The same on the subscription that the store is opened for, and on no other: statements "subscription-KIND". */
wherry_code wh_store_grant_topic(wh_store *store, const char *const *grants, size_t n,
				 wherry_error *err);

#endif
