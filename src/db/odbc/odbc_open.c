/*
 * Opening, borrowing and closing connections.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/odbc.h>

#include "config/secret.h"
#include "db/odbc/odbc.h"

enum { CONNECTION_STRING_MOST = 4096, LOGIN_S = 10 };

static const odbc_dialect dialects[] = {
	{.driver = &wh_odbc_postgres,
	 .dbms = "PostgreSQL",
	 .set_up =
		 "SET TimeZone = 'UTC'; SET client_min_messages = warning; "
		 "SET standard_conforming_strings = on; SET quote_all_identifiers = off; "
		 "SET default_transaction_isolation = 'read committed'; "
		 "SET enable_seqscan = off; SET enable_bitmapscan = off; "
		 "SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off",
	 .timeout = "SET lock_timeout = ",
	 .sync = "SET synchronous_commit = on",
	 .no_sync = "SET synchronous_commit = off",
	 .begin = "BEGIN",
	 .commit = "COMMIT",
	 .rollback = "ROLLBACK",
	 .savepoint = "SAVEPOINT wherry",
	 .release = "RELEASE SAVEPOINT wherry",
	 .undo = "ROLLBACK TO SAVEPOINT wherry"},
	{.driver = &wh_db_mssql,
	 .dbms = "Microsoft SQL Server",
	 .tsql = true,
	 .answer_s = 30,
	 .set_up = "SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; SET ANSI_PADDING ON; "
		   "SET ANSI_WARNINGS ON; SET ARITHABORT ON; "
		   "SET CONCAT_NULL_YIELDS_NULL ON; SET NUMERIC_ROUNDABORT OFF; "
		   "SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; "
		   "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
	 .timeout = "SET LOCK_TIMEOUT ",
	 .begin = "BEGIN TRANSACTION",
	 .commit = "COMMIT TRANSACTION",
	 .rollback = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION",
	 /* On a connection that commits by hand, a query begins the transaction. */
	 .savepoint = "IF @@TRANCOUNT = 0 SELECT TOP (1) 1 FROM sys.schemas; "
		      "SAVE TRANSACTION wherry%d",
	 .undo = "ROLLBACK TRANSACTION wherry%d"},
};

/* FreeTDS's SQLCancel() frees the statement's diagnostics without a lock, while the running
 * thread may write them.  In a test, memory was freed twice. */
static bool is_freetds(odbc_db *s)
{
	SQLCHAR name[64] = "";
	SQLSMALLINT len = 0;

	return SQL_SUCCEEDED(
		       SQLGetInfo(s->dbc, SQL_DRIVER_NAME, name, sizeof(name), &len)) &&
	       strstr((const char *)name, "tds");
}

static wherry_code find_dialect(odbc_db *s, wherry_error *err)
{
	SQLCHAR dbms[64] = "";
	SQLSMALLINT len = 0;

	if (!SQL_SUCCEEDED(SQLGetInfo(s->dbc, SQL_DBMS_NAME, dbms, sizeof(dbms), &len)))
		return wh_odbc_fail(s, SQL_HANDLE_DBC, s->dbc, err);
	for (size_t i = 0; i < sizeof(dialects) / sizeof(*dialects); i++) {
		if (strncmp((const char *)dbms, dialects[i].dbms,
			    strlen(dialects[i].dbms)) != 0)
			continue;
		s->dialect = &dialects[i];
		s->base.driver = s->dialect->driver;
		s->tsql = s->dialect->tsql;
		s->freetds = is_freetds(s);
		return WHERRY_OK;
	}
	return wh_fail(
		err, WHERRY_UNSUPPORTED,
		"%s: this is %.40s; only SQL Server and PostgreSQL are known behind "
		"ODBC",
		s->name, (const char *)dbms);
}

static wherry_code set_up_postgres(odbc_db *s, const wh_db_options *options,
				   wherry_error *err)
{
	const odbc_dialect *d = s->dialect;
	wherry_code code =
		wh_odbc_exec(s, options->full_sync ? d->sync : d->no_sync, err);

	if (code != WHERRY_OK || options->app_sql)
		return code;
	code = wh_odbc_ask(s, "SELECT pg_catalog.current_schemas(false)::pg_catalog.text",
			   NULL, 0, &s->schemas, err);
	return code == WHERRY_OK ? wh_odbc_exec(s,
						"SET search_path = pg_catalog, pg_temp; "
						"SET row_security = off",
						err)
				 : code;
}

static wherry_code set_up(odbc_db *s, const wh_db_options *options, wherry_error *err)
{
	const odbc_dialect *d = s->dialect;
	long long wait_ms = options->busy_timeout_us / 1000;
	char timeout[64];
	wherry_code code;

	if (options->look_us)
		s->watch.most_us = options->look_us;
	if (d->answer_s)
		s->timeout_s = (long)(d->answer_s + (wait_ms + 999) / 1000);
	(void)snprintf(timeout, sizeof(timeout), "%s%lld", d->timeout, wait_ms);
	code = wh_odbc_exec(s, timeout, err);
	if (code == WHERRY_OK)
		code = wh_odbc_exec(s, d->set_up, err);
	return code == WHERRY_OK && !s->tsql ? set_up_postgres(s, options, err) : code;
}

/* Set the name for messages: the data source or the server, and no secret. */
static void name_it(odbc_db *s, const char *rest)
{
	static const char *const keys[] = {"DSN=", "Database=", "Server=", "Driver="};

	(void)snprintf(s->name, sizeof(s->name), "odbc");
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const char *at = strcasestr(rest, keys[i]);

		if (!at || (at != rest && at[-1] != ';'))
			continue;
		at += strlen(keys[i]);
		(void)snprintf(s->name, sizeof(s->name), "odbc %.*s",
			       (int)strcspn(at, ";"), at);
		return;
	}
}

/* ---- connecting ---- */

static wherry_code make_handles(odbc_db *s, wherry_error *err)
{
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &s->env)))
		return wh_oom(err);
	(void)SQLSetEnvAttr(s->env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3,
			    0); /* NOLINT(*-int-to-ptr) */
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, s->env, &s->dbc)))
		return wh_odbc_fail(s, SQL_HANDLE_ENV, s->env, err);
	return WHERRY_OK;
}

static wherry_code connect_narrow(odbc_db *s, const char *text, wherry_error *err)
{
	SQLCHAR full[CONNECTION_STRING_MOST];
	SQLSMALLINT len = 0;
	SQLRETURN rc = SQLDriverConnect(s->dbc, NULL, wh_odbc_in(text), SQL_NTS, full,
					sizeof(full), &len, SQL_DRIVER_NOPROMPT);

	explicit_bzero(full, sizeof(full));
	return SQL_SUCCEEDED(rc) ? WHERRY_OK
				 : wh_odbc_fail(s, SQL_HANDLE_DBC, s->dbc, err);
}

static wherry_code connect_wide(odbc_db *s, const char *text, wherry_error *err)
{
	SQLWCHAR full[CONNECTION_STRING_MOST], *wide = NULL;
	wh_arena arena = WH_ARENA_INIT;
	SQLSMALLINT len = 0;
	size_t n = 0;
	SQLRETURN rc;
	wherry_code code = wh_odbc_widen(&arena, wh_view_of(text), &wide, &n, err);

	if (code == WHERRY_OK) {
		rc = SQLDriverConnectW(s->dbc, NULL, wide, (SQLSMALLINT)n, full,
				       CONNECTION_STRING_MOST, &len, SQL_DRIVER_NOPROMPT);
		explicit_bzero(wide, n * sizeof(*wide));
		explicit_bzero(full, sizeof(full));
		if (!SQL_SUCCEEDED(rc))
			code = wh_odbc_fail(s, SQL_HANDLE_DBC, s->dbc, err);
	}
	wh_arena_clear(&arena);
	return code;
}

/* The best installed ODBC driver for SQL Server; NULL: none. */
static const char *installed_driver(SQLHENV env)
{
	static const char *const known[] = {"ODBC Driver 18 for SQL Server",
					    "ODBC Driver 17 for SQL Server", "FreeTDS"};
	size_t n = sizeof(known) / sizeof(*known), best = n;
	SQLCHAR name[128], rest[512];
	SQLSMALLINT name_len, rest_len;
	SQLUSMALLINT where = SQL_FETCH_FIRST;

	while (SQL_SUCCEEDED(SQLDrivers(env, where, name, sizeof(name), &name_len, rest,
					sizeof(rest), &rest_len))) {
		for (size_t i = 0; i < best; i++)
			if (strcmp((const char *)name, known[i]) == 0)
				best = i;
		where = SQL_FETCH_NEXT;
	}
	return best < n ? known[best] : NULL;
}

static wherry_code connect_mssql(odbc_db *s, const char *rest, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(CONNECTION_STRING_MOST);
	wherry_code code = wh_odbc_mssql_string(rest, installed_driver(s->env), &text,
						s->name, sizeof(s->name), err);

	s->tsql = true;
	if (code == WHERRY_OK) {
		(void)SQLSetConnectAttr(s->dbc, SQL_ATTR_LOGIN_TIMEOUT,
					(SQLPOINTER)LOGIN_S, /* NOLINT(*-int-to-ptr) */
					0);
		code = connect_wide(s, wh_buf_str(&text), err);
	}
	wh_secret_clear(&text);
	return code;
}

void wh_odbc_close(wherry_db *db)
{
	odbc_db *s = (odbc_db *)db;

	wh_odbc_clear(s);
	if (!s->borrowed) {
		if (s->dbc) {
			(void)SQLDisconnect(s->dbc);
			(void)SQLFreeHandle(SQL_HANDLE_DBC, s->dbc);
		}
		if (s->env)
			(void)SQLFreeHandle(SQL_HANDLE_ENV, s->env);
	}
	(void)pthread_mutex_destroy(&s->lock);
	free(s->schemas);
	free(s);
}

static wherry_code make(const wh_env *env, odbc_db **out, wherry_error *err)
{
	odbc_db *s = calloc(1, sizeof(*s));

	if (!s)
		return wh_oom(err);
	if (pthread_mutex_init(&s->lock, NULL) != 0) {
		free(s);
		return wh_fail(err, WHERRY_BUSY, "no lock can be made");
	}
	s->watch.most_us = ODBC_LOOK_US;
	s->base.driver = &wh_db_odbc;
	s->base.env = env;
	*out = s;
	return WHERRY_OK;
}

/* Set up a connection after connecting.  Takes the result of connecting, and returns its
 * error. */
static wherry_code finish(odbc_db *s, const wh_db_options *options, wherry_code code,
			  wherry_db **out, wherry_error *err)
{
	if (code == WHERRY_OK)
		code = find_dialect(s, err);
	if (code == WHERRY_OK)
		code = set_up(s, options, err);
	if (code == WHERRY_OK)
		*out = &s->base;
	else
		wh_odbc_close(&s->base);
	return code;
}

wherry_code wh_odbc_open(const char *rest, const wh_db_options *options, wherry_db **out,
			 wherry_error *err)
{
	odbc_db *s = NULL;
	wherry_code code;

	if (!*rest)
		return wh_fail(err, WHERRY_INVALID,
			       "odbc: needs a connection string, as in "
			       "'odbc:DSN=shop' or 'odbc:Driver=PostgreSQL ANSI;"
			       "Server=db1;Database=shop;Uid=shop'");
	code = make(options->env, &s, err);
	if (code != WHERRY_OK)
		return code;
	name_it(s, rest);
	code = make_handles(s, err);
	if (code == WHERRY_OK)
		code = connect_narrow(s, rest, err);
	return finish(s, options, code, out, err);
}

wherry_code wh_odbc_open_mssql(const char *rest, const wh_db_options *options,
			       wherry_db **out, wherry_error *err)
{
	odbc_db *s = NULL;
	wherry_code code = make(options->env, &s, err);

	if (code != WHERRY_OK)
		return code;
	(void)snprintf(s->name, sizeof(s->name), "mssql");
	code = make_handles(s, err);
	if (code == WHERRY_OK)
		code = connect_mssql(s, rest, err);
	return finish(s, options, code, out, err);
}

/* Check a URL as if Microsoft's driver were installed. */
wherry_code wh_odbc_mssql_check(const char *rest, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(CONNECTION_STRING_MOST);
	char name[160];
	wherry_code code = wh_odbc_mssql_string(rest, "ODBC Driver 18 for SQL Server",
						&text, name, sizeof(name), err);

	wh_secret_clear(&text);
	return code;
}

wherry_code wherry_odbc_borrow(void *dbc, wherry_db **out, wherry_error *err)
{
	SQLUINTEGER dead = SQL_CD_TRUE;
	odbc_db *s = NULL;
	wherry_code code;

	wh_error_clear(err);
	if (!dbc || !out)
		return wh_fail(err, WHERRY_INVALID, "no connection to borrow");
	code = make(&wh_env_system, &s, err);
	if (code != WHERRY_OK)
		return code;
	s->borrowed = s->base.shared = true;
	s->dbc = dbc;
	(void)snprintf(s->name, sizeof(s->name), "odbc");
	if (SQL_SUCCEEDED(SQLGetConnectAttr(dbc, SQL_ATTR_CONNECTION_DEAD, &dead,
					    sizeof(dead), NULL)) &&
	    dead == SQL_CD_TRUE)
		code = wh_fail(err, WHERRY_CLOSED, "odbc: the connection is lost");
	if (code == WHERRY_OK)
		code = find_dialect(s, err);
	if (code == WHERRY_OK && !s->tsql)
		code = wh_fail(err, WHERRY_UNSUPPORTED,
			       "odbc: only connections to SQL Server can be borrowed; of "
			       "PostgreSQL take those of libpq");
	if (code == WHERRY_OK)
		*out = &s->base;
	else
		wh_odbc_close(&s->base);
	return code;
}
