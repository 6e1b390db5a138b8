/*
 * PostgreSQL through libpq.
 *
 * Own connections use prepared statements, READ COMMITTED, a lock_timeout, and plans that
 * use indexes however old the statistics are.  Borrowed ones use unnamed statements and
 * savepoints, and no setting is changed but client_encoding, for the time of a call on a database
 * that is not in UTF-8.  Behind a pooler, statements are unnamed, and
 * each transaction makes these settings for itself.
 *
 * In READ COMMITTED each statement sees what was committed when it began.  An UPDATE that
 * waited for a row then reads its newest version.  The .sql files say how fences and
 * leases depend on that.
 */
#include "db/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/postgres.h>

/* ---- opening and closing ---- */

static void postgres_close(wherry_db *db)
{
	postgres_db *s = (postgres_db *)db;

	wh_postgres_unwatch(s);
	wh_postgres_clear(s);
	wh_postgres_forget_types(s);
	PQfreeCancel(s->cancel);
	if (!s->borrowed)
		PQfinish(s->conn);
	wh_postgres_text_close(&s->text);
	wh_postgres_text_close(&s->text_of_calls);
	free(s->schemas);
	free(s);
}

wherry_code wherry_postgres_borrow(PGconn *conn, wherry_db **out, wherry_error *err)
{
	wh_error_clear(err);
	const char *encoding;
	postgres_db *s;

	if (!conn || !out)
		return wh_fail(err, WHERRY_INVALID, "no PostgreSQL connection to borrow");
	if (PQstatus(conn) != CONNECTION_OK)
		return wh_fail(err, WHERRY_CLOSED, "the connection to borrow is closed");
	if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the connection is in pipeline mode: leave it first");
	encoding = PQparameterStatus(conn, "client_encoding");
	if (!encoding || strcmp(encoding, "UTF8") != 0)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the connection's client_encoding is %.40s: Wherry needs "
			       "UTF8",
			       encoding ? encoding : "not known");
	s = calloc(1, sizeof(*s));
	if (!s)
		return wh_oom(err);
	s->base.driver = &wh_db_postgres;
	s->base.env = &wh_env_system;
	s->base.shared = true;
	s->conn = conn;
	s->borrowed = true;
	(void)wh_postgres_text_open(&s->text_of_calls, conn);
	(void)snprintf(s->begin, sizeof(s->begin), "BEGIN");
	s->no_sync = "";
	s->cancel = PQgetCancel(conn);
	(void)snprintf(s->name, sizeof(s->name), "%.100s", PQdb(conn));
	*out = &s->base;
	return WHERRY_OK;
}

PGconn *wherry_postgres_handle(wherry_db *db)
{
	return db && db->driver == &wh_db_postgres ? ((postgres_db *)db)->conn : NULL;
}

/* ---- transactions ---- */

/* Servers from version 14 on report by themselves whether they are read-only. */
static bool is_on(const postgres_db *s, const char *parameter)
{
	const char *value = PQparameterStatus(s->conn, parameter);

	return value && strcmp(value, "on") == 0;
}

static wherry_code postgres_begin(wherry_db *db, bool quiet, wherry_error *err)
{
	postgres_db *s = (postgres_db *)db;
	bool inside = wh_postgres_is_open(s);
	wherry_code code;

	/* A pooler may report old values. */
	if (!s->pooled &&
	    (is_on(s, "in_hot_standby") || is_on(s, "default_transaction_read_only")))
		return wh_postgres_fail_as(s, "25006", err);
	code = inside ? wh_postgres_exec(s, "SAVEPOINT wherry", err)
		      : wh_postgres_begin(s, err);
	if (code == WHERRY_OK)
		s->savepoints = inside ? s->savepoints + 1 : 0;
	if (code == WHERRY_OK && !inside)
		s->quiet = quiet;
	return code;
}

static wherry_code postgres_commit(wherry_db *db, wherry_error *err)
{
	postgres_db *s = (postgres_db *)db;
	wherry_code code = wh_postgres_check_free(s, err);

	if (code != WHERRY_OK)
		return code;
	if (s->savepoints) {
		code = wh_postgres_exec(s, "RELEASE SAVEPOINT wherry", err);
		s->savepoints -= code == WHERRY_OK;
		return code;
	}
	code = wh_postgres_end(s, err);
	if (code == WHERRY_OK)
		wh_postgres_committed(s);
	wh_postgres_heard(s);
	return code;
}

static void postgres_rollback(wherry_db *db)
{
	postgres_db *s = (postgres_db *)db;

	if (wh_postgres_is_open(s))
		PQclear(wh_postgres_query(s, s->savepoints
						     ? "ROLLBACK TO SAVEPOINT wherry; "
						       "RELEASE SAVEPOINT wherry"
						     : "ROLLBACK"));
	if (s->savepoints)
		s->savepoints--;
}

static bool postgres_in_transaction(wherry_db *db)
{
	return wh_postgres_is_open((postgres_db *)db);
}

/* ---- the rest ---- */

static int64_t postgres_last_id(wherry_db *db)
{
	return ((postgres_db *)db)->last_id;
}

static wherry_code postgres_script(wherry_db *db, const char *sql, wherry_error *err)
{
	postgres_db *s = (postgres_db *)db;
	bool begun = !s->visiting && wh_postgres_text_begin(s);
	wherry_code code = wh_postgres_exec(s, sql, err);

	wh_postgres_text_end(s, begun);
	return code;
}

/* Cancel the running call.  Do nothing if no call runs, since the request could end the
 * next one.  A short race remains; it causes a transient error. */
static void postgres_interrupt(wherry_db *db)
{
	postgres_db *s = (postgres_db *)db;
	char why[256];

	if (!atomic_load(&s->running) || !s->cancel)
		return;
	atomic_store(&s->interrupted, true);
	(void)PQcancel(s->cancel, why, sizeof(why));
}

static int64_t postgres_session(wherry_db *db)
{
	return PQbackendPID(((postgres_db *)db)->conn);
}

static bool postgres_keeps_session(wherry_db *db)
{
	const postgres_db *s = (const postgres_db *)db;

	return !s->borrowed && !s->pooled && wh_postgres_has(db, WH_DB_SIGNALS);
}

static void postgres_limit(wherry_db *db, int64_t until_us)
{
	((postgres_db *)db)->give_up_us = until_us;
}

const wh_db_driver wh_db_postgres = {
	.scheme = "postgres",
	.alias = "postgresql",
	/* Many transactions take ids at once, before they commit. */
	.late_commits = true,
	.meanwhile = true,
	.failure_spreads = true,
	.row = &wh_postgres_rows,
	.connection = {.check = wh_postgres_check,
		       .open = wh_postgres_open,
		       .close = postgres_close,
		       .interrupt = postgres_interrupt,
		       .limit = postgres_limit,
		       .session = postgres_session,
		       .keeps_session = postgres_keeps_session,
		       .has = wh_postgres_has,
		       .schema_of = wh_postgres_schema_of},
	.transaction = {.begin = postgres_begin,
			.commit = postgres_commit,
			.rollback = postgres_rollback,
			.is_open = postgres_in_transaction},
	.statement = {.run = wh_postgres_run,
		      .script = postgres_script,
		      .last_id = postgres_last_id,
		      .forget = wh_postgres_forget,
		      .about_row = wh_postgres_about_row,
		      .locked_out = wh_postgres_locked_out,
		      .code_of = wh_postgres_code_of},
	.commits = {.watch = wh_postgres_watch,
		    .fd = wh_postgres_fd,
		    .changed = wh_postgres_changed,
		    .listen = wh_postgres_listen,
		    .heard = wh_postgres_heard_of},
	.stream = wh_postgres_stream,
};
