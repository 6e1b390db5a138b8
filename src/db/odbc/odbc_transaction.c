/*
 * Transactions and savepoints.  On a borrowed connection Wherry uses savepoints in the
 * application's transaction.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/odbc/odbc.h"

/* PostgreSQL begins a transaction that cannot write, and reports it only at the first
 * write.  Check it here. */
static wherry_code check_writable(odbc_db *s, wherry_error *err)
{
	char *read_only = NULL;
	wherry_code code = wh_odbc_ask(
		s, "SELECT pg_catalog.current_setting('transaction_read_only')", NULL, 0,
		&read_only, err);

	if (code == WHERRY_OK && read_only && strcmp(read_only, "on") == 0)
		code = wh_fail(err, WHERRY_READONLY,
			       "%s: it cannot be written, being a standby or set to read "
			       "only: name the primary",
			       s->name);
	free(read_only);
	return code;
}

/* Run one of the dialect's texts, with %d replaced by the number of a savepoint. */
static wherry_code run_text(odbc_db *s, const char *text, int number, wherry_error *err)
{
	const char *mark = strstr(text, "%d");
	char sql[200];

	if (!mark)
		return wh_odbc_exec(s, text, err);
	(void)snprintf(sql, sizeof(sql), "%.*s%d%s", (int)(mark - text), text, number,
		       mark + 2);
	return wh_odbc_exec(s, sql, err);
}

/* Has the application a transaction open on the connection that it lent? */
static bool lender_is_inside(odbc_db *s)
{
	SQLUINTEGER on = SQL_AUTOCOMMIT_ON;
	char *count = NULL;
	bool inside;

	if (!s->borrowed)
		return false;
	if (SQL_SUCCEEDED(SQLGetConnectAttr(s->dbc, SQL_ATTR_AUTOCOMMIT, &on, sizeof(on),
					    NULL)) &&
	    on == SQL_AUTOCOMMIT_OFF)
		return true;
	inside = wh_odbc_ask(s, "SELECT @@TRANCOUNT", NULL, 0, &count, NULL) ==
			 WHERRY_OK &&
		 count && strcmp(count, "0") != 0;
	free(count);
	return inside;
}

void wh_odbc_rollback(wherry_db *db)
{
	odbc_db *s = (odbc_db *)db;

	if (s->savepoints) {
		s->savepoints--;
		if (!s->spoiled &&
		    run_text(s, s->dialect->undo, s->savepoints, NULL) == WHERRY_OK &&
		    s->dialect->release)
			(void)run_text(s, s->dialect->release, s->savepoints, NULL);
		/* The transaction is the application's. */
		if (s->borrowed && !s->savepoints)
			s->open = s->spoiled = false;
		return;
	}
	if (s->open)
		(void)wh_odbc_exec(s, s->dialect->rollback, NULL);
	s->open = s->spoiled = false;
}

wherry_code wh_odbc_begin(wherry_db *db, bool quiet, wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;
	bool inside = s->open || lender_is_inside(s);
	wherry_code code = wh_odbc_check_usable(s, err);

	(void)quiet; /* Nothing wakes relays anyway. */
	if (code == WHERRY_OK)
		code = run_text(s, inside ? s->dialect->savepoint : s->dialect->begin,
				s->savepoints, err);
	if (code != WHERRY_OK)
		return code;
	s->savepoints = inside ? s->savepoints + 1 : 0;
	if (!inside && !s->tsql)
		code = check_writable(s, err);
	s->open = true;
	if (code != WHERRY_OK)
		wh_odbc_rollback(db);
	return code;
}

wherry_code wh_odbc_commit(wherry_db *db, wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;
	bool lost = s->lost;
	wherry_code code = wh_odbc_check_usable(s, err);

	if (code != WHERRY_OK)
		return code;
	if (s->savepoints) {
		code = s->dialect->release
			       ? run_text(s, s->dialect->release, s->savepoints - 1, err)
			       : WHERRY_OK;
		s->savepoints -= code == WHERRY_OK;
		if (s->borrowed && !s->savepoints)
			s->open = false;
		return code;
	}
	code = wh_odbc_exec(s, s->dialect->commit, err);
	if (code == WHERRY_OK)
		s->open = false;
	else if (s->lost && !lost)
		code = wh_fail(err, WHERRY_INDOUBT,
			       "%s: the connection was lost while it committed: look "
			       "whether it did",
			       s->name);
	return code;
}

bool wh_odbc_is_open(wherry_db *db)
{
	odbc_db *s = (odbc_db *)db;

	return s->open || lender_is_inside(s);
}
