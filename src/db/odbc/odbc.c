/*
 * Databases behind ODBC: the connection string says which driver is loaded, and the driver says
 * which database it is, whose dialect is spoken from then on.
 *
 * Nothing wakes a relay: it looks for rows more and more rarely, four times a second in the end.
 * All times are UTC.  The whole result of a statement is in memory at once.
 */
#include "db/odbc/odbc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LOOK_US = 1000, LAST_LOOK_US = 250000, CONNECTION_STRING_MOST = 4096 };

/* ---- closing ---- */

static void odbc_close(wherry_db *db)
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

static void odbc_interrupt(wherry_db *db)
{
	odbc_db *s = (odbc_db *)db;

	(void)pthread_mutex_lock(&s->lock);
	if (s->running) {
		s->interrupted = true;
		(void)SQLCancel(s->running);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* ---- one value ---- */

static wherry_code take_text(void *ctx, const wh_row *row, wherry_error *err)
{
	char **out = ctx;
	const char *text = wh_row_text(row, 0);

	if (!text)
		return WHERRY_OK;
	free(*out);
	*out = strdup(text);
	return *out ? WHERRY_OK : wh_oom(err);
}

/* The first column of the last row as text, to be freed; NULL where there is none. */
static wherry_code ask(odbc_db *s, const char *sql, const wh_param *params, size_t n,
		       char **out, wherry_error *err)
{
	wh_sql one = {.n = 1};
	wh_stmt stmt;
	wherry_code code = wh_stmt_make(s->base.driver->scheme, "ask", sql, &stmt, err);

	if (code != WHERRY_OK)
		return code;
	one.stmts = &stmt;
	code = wh_odbc_run(&s->base, &stmt, params, n, take_text, out, NULL, err);
	wh_odbc_forget(&s->base, &one);
	wh_stmt_clear(&stmt);
	return code;
}

static wherry_code postgres_schema_of(wherry_db *db, const char *table, bool own,
				      char *out, size_t cap, wherry_error *err)
{
	static const char sql[] =
		"SELECT s.name FROM pg_catalog.unnest(coalesce(:schemas::pg_catalog.text[], "
		"pg_catalog.current_schemas(false)::pg_catalog.text[])) "
		"WITH ORDINALITY AS s(name, nth) JOIN pg_catalog.pg_namespace AS n "
		"ON n.nspname OPERATOR(pg_catalog.=) s.name::pg_catalog.name "
		"LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace "
		"OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) "
		":table::pg_catalog.name WHERE pg_catalog.left(s.name, 3) "
		"OPERATOR(pg_catalog.<>) 'pg_' ORDER BY c.oid IS NULL OR :own::bigint "
		"OPERATOR(pg_catalog.=) 1 AND (pg_catalog.current_setting('is_superuser') "
		"OPERATOR(pg_catalog.=) 'on' OR NOT pg_catalog.pg_has_role(c.relowner, "
		"'USAGE')), s.nth LIMIT 1";
	odbc_db *s = (odbc_db *)db;
	const wh_param params[] = {
		WH_TEXT_PARAM("schemas", wh_view_of(s->schemas)),
		WH_TEXT_PARAM("table", wh_view_of(table)),
		WH_INT_PARAM("own", own),
	};
	char *found = NULL;
	wherry_code code = ask(s, sql, params, 3, &found, err);

	if (code == WHERRY_OK)
		(void)snprintf(out, cap, "%s", found ? found : "");
	free(found);
	return code;
}

/* ---- transactions ---- */

/* PostgreSQL begins a transaction that cannot write, and says so when it does. */
static wherry_code check_writable(odbc_db *s, wherry_error *err)
{
	char *read_only = NULL;
	wherry_code code =
		ask(s, "SELECT pg_catalog.current_setting('transaction_read_only')", NULL,
		    0, &read_only, err);

	if (code == WHERRY_OK && read_only && strcmp(read_only, "on") == 0)
		code = wh_fail(err, WHERRY_READONLY,
			       "%s: it cannot be written, being a standby or set to read "
			       "only: name the primary",
			       s->name);
	free(read_only);
	return code;
}

static void odbc_rollback(wherry_db *db)
{
	odbc_db *s = (odbc_db *)db;

	if (s->savepoints) {
		if (wh_odbc_exec(s, s->dialect->undo, NULL) == WHERRY_OK &&
		    s->dialect->release)
			(void)wh_odbc_exec(s, s->dialect->release, NULL);
		s->savepoints--;
		return;
	}
	if (s->open)
		(void)wh_odbc_exec(s, s->dialect->rollback, NULL);
	s->open = false;
}

static wherry_code odbc_begin(wherry_db *db, bool quiet, wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;
	wherry_code code;

	(void)quiet; /* nothing wakes anybody */
	code = wh_odbc_exec(s, s->open ? s->dialect->savepoint : s->dialect->begin, err);
	if (code != WHERRY_OK)
		return code;
	s->savepoints = s->open ? s->savepoints + 1 : 0;
	if (!s->open)
		code = check_writable(s, err);
	s->open = true;
	if (code != WHERRY_OK)
		odbc_rollback(db);
	return code;
}

static wherry_code odbc_commit(wherry_db *db, wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;
	bool lost = s->lost;
	wherry_code code;

	if (s->savepoints) {
		code = s->dialect->release ? wh_odbc_exec(s, s->dialect->release, err)
					   : WHERRY_OK;
		s->savepoints -= code == WHERRY_OK;
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

static bool odbc_is_open(wherry_db *db)
{
	return ((odbc_db *)db)->open;
}

/* ---- statements ---- */

static wherry_code odbc_script(wherry_db *db, const char *sql, wherry_error *err)
{
	return wh_odbc_exec((odbc_db *)db, sql, err);
}

static int64_t odbc_last_id(wherry_db *db)
{
	return ((odbc_db *)db)->last_id;
}

/* ---- looking for commits ---- */

static wherry_code odbc_watch(wherry_db *db, const wh_watch *whose, wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;

	(void)whose;
	(void)err;
	s->watch.on = true;
	s->watch.step_us = FIRST_LOOK_US;
	return WHERRY_OK;
}

static int odbc_fd(wherry_db *db)
{
	(void)db;
	return -1;
}

/* Nobody knows; so it says yes each time that it is to look. */
static bool odbc_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	odbc_db *s = (odbc_db *)db;

	*out_next_us = WH_NEVER;
	if (!s->watch.on)
		return false;
	if (look->found != s->watch.found) {
		s->watch.found = look->found;
		s->watch.step_us = FIRST_LOOK_US;
	}
	if (look->now_us < s->watch.check_us) {
		*out_next_us = s->watch.check_us;
		return false;
	}
	s->watch.check_us = look->now_us + s->watch.step_us;
	s->watch.step_us *= 2;
	if (s->watch.step_us > LAST_LOOK_US)
		s->watch.step_us = LAST_LOOK_US;
	*out_next_us = s->watch.check_us;
	return true;
}

/* ---- the databases ---- */

static wherry_code odbc_open(const char *rest, const wh_db_options *options,
			     wherry_db **out, wherry_error *err);

#define ODBC_DRIVER                                                                      \
	.row = &wh_odbc_rows,                                                            \
	.transaction = {.begin = odbc_begin,                                             \
			.commit = odbc_commit,                                           \
			.rollback = odbc_rollback,                                       \
			.is_open = odbc_is_open},                                        \
	.commits = {.watch = odbc_watch, .fd = odbc_fd, .changed = odbc_changed}
#define ODBC_STATEMENT                                                                   \
	.run = wh_odbc_run, .script = odbc_script, .forget = wh_odbc_forget,             \
	.about_row = wh_odbc_about_row
#define ODBC_CONNECTION                                                                  \
	.open = odbc_open, .close = odbc_close, .interrupt = odbc_interrupt

static const wh_db_driver on_postgres = {
	.scheme = "postgres",
	.late_commits = true,
	.failure_spreads = true,
	.connection = {ODBC_CONNECTION, .schema_of = postgres_schema_of},
	.statement = {ODBC_STATEMENT, .last_id = odbc_last_id},
	ODBC_DRIVER,
};

const wh_db_driver wh_db_odbc = {
	.scheme = "odbc",
	.connection = {ODBC_CONNECTION},
	.statement = {ODBC_STATEMENT, .last_id = odbc_last_id},
	ODBC_DRIVER,
};

static const odbc_dialect dialects[] = {
	{.driver = &on_postgres,
	 .dbms = "PostgreSQL",
	 .set_up = "SET TimeZone = 'UTC'; SET client_min_messages = warning; "
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
};

/* ---- opening ---- */

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
		return WHERRY_OK;
	}
	return wh_fail(err, WHERRY_UNSUPPORTED,
		       "%s: this is %.40s; only PostgreSQL is known behind ODBC", s->name,
		       (const char *)dbms);
}

static wherry_code set_up(odbc_db *s, const wh_db_options *options, wherry_error *err)
{
	const odbc_dialect *d = s->dialect;
	char timeout[64];
	wherry_code code;

	(void)snprintf(timeout, sizeof(timeout), "%s%lld", d->timeout,
		       (long long)(options->busy_timeout_us / 1000));
	code = wh_odbc_exec(s, timeout, err);
	if (code == WHERRY_OK)
		code = wh_odbc_exec(s, d->set_up, err);
	if (code == WHERRY_OK)
		code = wh_odbc_exec(s, options->full_sync ? d->sync : d->no_sync, err);
	if (code != WHERRY_OK || options->app_sql)
		return code;
	code = ask(s, "SELECT pg_catalog.current_schemas(false)::pg_catalog.text", NULL,
		   0, &s->schemas, err);
	return code == WHERRY_OK
		       ? wh_odbc_exec(s, "SET search_path = pg_catalog, pg_temp", err)
		       : code;
}

/* The data source or the server, and no secret: for messages. */
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

static wherry_code connect(odbc_db *s, const char *rest, wherry_error *err)
{
	SQLCHAR full[CONNECTION_STRING_MOST];
	SQLSMALLINT len = 0;

	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &s->env)))
		return wh_oom(err);
	(void)SQLSetEnvAttr(s->env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3,
			    0); /* NOLINT(*-int-to-ptr) */
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, s->env, &s->dbc)))
		return wh_odbc_fail(s, SQL_HANDLE_ENV, s->env, err);
	if (!SQL_SUCCEEDED(SQLDriverConnect(s->dbc, NULL, wh_odbc_in(rest), SQL_NTS, full,
					    sizeof(full), &len, SQL_DRIVER_NOPROMPT)))
		return wh_odbc_fail(s, SQL_HANDLE_DBC, s->dbc, err);
	return WHERRY_OK;
}

static wherry_code odbc_open(const char *rest, const wh_db_options *options,
			     wherry_db **out, wherry_error *err)
{
	odbc_db *s;
	wherry_code code;

	if (!*rest)
		return wh_fail(err, WHERRY_INVALID,
			       "odbc: needs a connection string, as in "
			       "'odbc:DSN=shop' or 'odbc:Driver=PostgreSQL ANSI;"
			       "Server=db1;Database=shop;Uid=shop'");
	s = calloc(1, sizeof(*s));
	if (!s)
		return wh_oom(err);
	if (pthread_mutex_init(&s->lock, NULL) != 0) {
		free(s);
		return wh_fail(err, WHERRY_BUSY, "no lock can be made");
	}
	s->base.driver = &wh_db_odbc;
	s->base.env = options->env;
	name_it(s, rest);
	code = connect(s, rest, err);
	if (code == WHERRY_OK)
		code = find_dialect(s, err);
	if (code == WHERRY_OK)
		code = set_up(s, options, err);
	if (code != WHERRY_OK) {
		odbc_close(&s->base);
		return code;
	}
	*out = &s->base;
	return WHERRY_OK;
}
