/*
 * Rights of database roles on the tables of a model.
 */
#ifndef WH_STORE_GRANTS_H
#define WH_STORE_GRANTS_H

#include "store/store.h"

/*
 * Each grant is "ROLE=KIND", with a kind of the model.  The SQL of each kind is a statement of the
 * model's file grants.DIALECT.sql; its statement "clear" revokes what a role had before.
 *
 * INVALID: there is no such kind, or the database or layout has no roles.
 */
wherry_code wh_store_grant_check(const wh_model *model, const char *scheme,
				 const char *const *grants, size_t n, wherry_error *err);

/*
 * Before anything is made: the same, and whether the database has the roles and the layout takes
 * grants.
 *
 * @param layout  That was asked for; NULL: none was.
 * @return WHERRY_OK; WHERRY_INVALID; WHERRY_NOTFOUND: there is no such role; what a read can fail
 *         with.
 */
wherry_code wh_store_grant_ready(wherry_db *db, const wh_model *model, const char *layout,
				 const char *const *grants, size_t n, wherry_error *err);

/* Append the SQL. */
wherry_code wh_store_grant_sql(const wh_store *store, const char *scheme,
			       const char *const *grants, size_t n, wh_buf *to,
			       wherry_error *err);

/* Run it, in a transaction. */
wherry_code wh_store_grant(wh_store *store, const char *const *grants, size_t n,
			   wherry_error *err);

#endif
