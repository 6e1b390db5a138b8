/*
 * PostgreSQL through libpq.  On connections of our own: prepared statements, READ
 * COMMITTED, a lock_timeout, and plans that use the indexes however old the statistics
 * are.  On borrowed ones: unnamed statements and savepoints, and no setting is changed.
 * Behind a pooler: unnamed statements, in transactions that set all that for themselves.
 *
 * In READ COMMITTED each statement sees what was committed when it began, and an UPDATE
 * that waited for a row looks at it again: what a fence and a lease rest on is said with
 * the statements, in the .sql files.
 */
#include "db/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/postgres.h>

/* clang-format off */
static const struct {
	const char *state; /* five characters, or the two of a class */
	wherry_code code;
	const char *text;  /* instead of the server's; NULL: that */
} code_of[] = {
	{"40", WHERRY_CONFLICT, NULL},
	{"40003", WHERRY_INDOUBT, NULL},
	{"25P02", WHERRY_CONFLICT, "a statement before this one failed, and the transaction "
	                           "with it: roll it back and begin again"},
	{"26000", WHERRY_CONFLICT, "a prepared statement is gone (does a pooler change the "
	                           "session under a transaction?): begin again"},
	{"55P03", WHERRY_BUSY, "another transaction holds what this one needs, for longer "
	                       "than db.busy_timeout"},
	{"55006", WHERRY_BUSY, NULL},
	{"53", WHERRY_BUSY, NULL},
	{"53300", WHERRY_BUSY, "the server has no free connection: raise max_connections, or "
	                       "have fewer clients"},
	{"53100", WHERRY_FULL, "the server's disk is full: nothing was written; make room and "
	                       "try again"},
	{"53200", WHERRY_NOMEM, "the server is out of memory"},
	{"57014", WHERRY_INTERRUPTED, NULL},
	{"57P01", WHERRY_CLOSED, NULL},
	{"57P02", WHERRY_CLOSED, NULL},
	{"57P03", WHERRY_CLOSED, NULL},
	{"57P05", WHERRY_CLOSED, NULL},
	{"25P03", WHERRY_CLOSED, NULL},
	{"08", WHERRY_CLOSED, NULL},
	{"23505", WHERRY_DUPLICATE, NULL},
	{"42P01", WHERRY_NOTFOUND, NULL},
	{"42703", WHERRY_NOTFOUND, NULL},
	{"42883", WHERRY_NOTFOUND, NULL},
	{"3F000", WHERRY_NOTFOUND, NULL},
	{"3D000", WHERRY_NOTFOUND, NULL},
	{"42501", WHERRY_DENIED, NULL},
	{"28", WHERRY_DENIED, NULL},
	{"25006", WHERRY_READONLY, "it cannot be written, being a standby or set to read only: "
	                           "name the primary, as with ?target_session_attrs=read-write"},
	{"54", WHERRY_TOOBIG, NULL},
	{"58", WHERRY_IO, NULL},
	{"XX001", WHERRY_CORRUPT, NULL},
	{"XX002", WHERRY_CORRUPT, NULL},
	{"0A", WHERRY_UNSUPPORTED, NULL},
};
/* clang-format on */

/* The longest entry that state begins with. */
static wherry_code code_for(const char *state, const char **out_text)
{
	wherry_code code = WHERRY_INVALID;
	size_t best = 0;

	for (size_t i = 0; i < sizeof(code_of) / sizeof(*code_of); i++) {
		size_t len = strlen(code_of[i].state);

		if (len <= best || strncmp(state, code_of[i].state, len) != 0)
			continue;
		best = len;
		code = code_of[i].code;
		if (code_of[i].text)
			*out_text = code_of[i].text;
	}
	return code;
}

static wherry_code tell(const postgres_db *s, wherry_code code, const char *state,
			const char *text, const char *hint, wherry_error *err)
{
	code = wh_fail(err, code, "%s: %.*s%s", s->name, (int)strcspn(text, "\n"), text,
		       hint);
	if (err)
		(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "%.5s", state);
	return code;
}

/* "permission denied for table outbox": who has to be granted what. */
static wherry_code denied(const postgres_db *s, const char *state, const char *text,
			  wherry_error *err)
{
	static const char *const kinds[][2] = {
		{"table ", "SELECT, INSERT, UPDATE, DELETE ON"},
		{"sequence ", "USAGE ON SEQUENCE"},
		{"schema ", "USAGE, CREATE ON SCHEMA"},
		{"database ", "CONNECT ON DATABASE"},
	};
	static const char start[] = "permission denied for ";
	const char *what =
		strncmp(text, start, strlen(start)) == 0 ? text + strlen(start) : "";
	char hint[160] = ": ask its owner for the right, with GRANT";

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strncmp(what, kinds[i][0], strlen(kinds[i][0])) == 0)
			(void)snprintf(hint, sizeof(hint),
				       ": its owner grants what is missing of: GRANT %s "
				       "%.40s TO %.30s",
				       kinds[i][1], what + strlen(kinds[i][0]),
				       PQuser(s->conn));
	return tell(s, WHERRY_DENIED, state, text, hint, err);
}

/* The message is in the server's language, the name of the function is not. */
bool wh_postgres_outdated(const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *function = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	if (!state || strcmp(state, "0A000") != 0)
		return false;
	return (function && strcmp(function, "RevalidateCachedQuery") == 0) ||
	       (text && strstr(text, "cached plan"));
}

/* The innermost function of "PL/pgSQL function shop.audit() line 3 at SQL statement", or of
 * "SQL function "audit" statement 1".  False: there is none. */
static bool function_in(const char *context, char *out, size_t cap)
{
	static const char word[] = "function ";
	const char *at = context ? strstr(context, word) : NULL;
	size_t len;

	if (!at)
		return false;
	at += strlen(word);
	if (*at == '"') {
		len = strcspn(++at, "\"\n");
		(void)snprintf(out, cap, "%.*s()", (int)len, at);
		return len > 0;
	}
	len = strcspn(at, ")\n");
	(void)snprintf(out, cap, "%.*s)", (int)len, at);
	return at[len] == ')';
}

/* A function on the outbox, such as a trigger's, names something without its schema. */
static void path_hint(const postgres_db *s, const PGresult *res, const char *state,
		      char *hint, size_t cap)
{
	static const char *const missing[] = {"42P01", "42883", "42704", "42703"};
	char function[64];

	if (!s->fixed || !function_in(PQresultErrorField(res, PG_DIAG_CONTEXT), function,
				      sizeof(function)))
		return;
	for (size_t i = 0; i < sizeof(missing) / sizeof(*missing); i++)
		if (strcmp(state, missing[i]) == 0)
			(void)snprintf(hint, cap,
				       ", in %s, which runs without your search path: "
				       "ALTER FUNCTION %s SET search_path FROM CURRENT",
				       function, function);
}

wherry_code wh_postgres_fail(postgres_db *s, const PGresult *res, wherry_error *err)
{
	const char *state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
	const char *text = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	/* A write that fails leaves the status as it was; a result of libpq's own tells. */
	bool gone = PQstatus(s->conn) == CONNECTION_BAD || (res && !state);
	char hint[256] = "";
	wherry_code code;

	if (!state && gone && *s->notice)
		text = s->notice; /* why it was ended while nothing was asked */
	if (!text || !*text)
		text = PQerrorMessage(s->conn);
	if (!*text)
		text = "no answer";
	if (!state)
		return tell(s, gone ? WHERRY_CLOSED : WHERRY_IO, "", text, "", err);
	code = code_for(state, &text);
	if (res && wh_postgres_outdated(res)) {
		code = WHERRY_CONFLICT;
		text = "a table was altered after this statement was prepared: roll the "
		       "transaction back and begin again";
	}
	if (code == WHERRY_INTERRUPTED && !atomic_load(&s->interrupted))
		code = WHERRY_TIMEOUT; /* statement_timeout, or an administrator */
	if (gone)
		code = WHERRY_CLOSED;
	if (code == WHERRY_DENIED)
		return denied(s, state, text, err);
	if (strcmp(state, "3F000") == 0)
		return tell(s, code, state, text, ": make it with CREATE SCHEMA", err);
	if (res)
		path_hint(s, res, state, hint, sizeof(hint));
	return tell(s, code, state, text, hint, err);
}

/* Classes 22 and 23, data and constraints, and 54, the server's own limits. */
static bool about_row(const wherry_error *err)
{
	static const char *const classes[] = {"22", "23", "54"};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strncmp(err->sqlstate, classes[i], 2) == 0)
			return true;
	return false;
}

/* "connection to server at …: FATAL:  28P01: password …": verbose messages have it. */
static const char *state_in(const char *message)
{
	for (const char *p = message; (p = strstr(p, ":  ")); p++)
		if (strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 &&
		    p[8] == ':')
			return p + 3;
	return NULL;
}

wherry_code wh_postgres_refused(postgres_db *s, wherry_error *err)
{
	const char *message = PQerrorMessage(s->conn), *state = state_in(message);
	const char *text = state ? state + 7 : message, *hint = "";
	wherry_code code = WHERRY_CLOSED;

	if (state)
		code = code_for(state, &text);
	else if (strstr(message, "no password supplied"))
		code = WHERRY_DENIED;
	if (code == WHERRY_DENIED)
		hint = ": check user and password (PGPASSWORD, ~/.pgpass) and the "
		       "server's pg_hba.conf";
	else if (code == WHERRY_CLOSED && !state)
		hint = " (is the server running, and the host right?)";
	else if (code == WHERRY_NOTFOUND)
		hint = ": create it with createdb";
	return tell(s, code, state ? state : "", text, hint, err);
}

/* ---- opening and closing ---- */

static void postgres_close(wherry_db *db)
{
	postgres_db *s = (postgres_db *)db;

	wh_postgres_unwatch(s);
	wh_postgres_clear(s);
	PQfreeCancel(s->cancel);
	if (!s->borrowed)
		PQfinish(s->conn);
	free(s->schemas);
	free(s);
}

wherry_code wherry_postgres_borrow(PGconn *conn, wherry_db **out, wherry_error *err)
{
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
	(void)snprintf(s->begin, sizeof(s->begin), "BEGIN");
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

static wherry_code check_result(postgres_db *s, PGresult *res, wherry_error *err)
{
	ExecStatusType status = PQresultStatus(res);
	wherry_code code = WHERRY_OK;

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		code = wh_postgres_fail(s, res, err);
	PQclear(res);
	return code;
}

wherry_code wh_postgres_check_free(const postgres_db *s, wherry_error *err)
{
	if (s->visiting)
		return wh_fail(err, WHERRY_INVALID,
			       "a statement's rows are being visited on this connection: "
			       "use another one");
	return WHERRY_OK;
}

wherry_code wh_postgres_exec(postgres_db *s, const char *sql, wherry_error *err)
{
	wherry_code code = wh_postgres_check_free(s, err);

	if (code == WHERRY_OK)
		code = check_result(s, wh_postgres_query(s, sql), err);
	wh_postgres_heard(s);
	return code;
}

static bool is_open(const postgres_db *s)
{
	PGTransactionStatusType status = PQtransactionStatus(s->conn);

	return status == PQTRANS_INTRANS || status == PQTRANS_INERROR ||
	       status == PQTRANS_ACTIVE;
}

/* Servers from 14 on tell, without being asked, whether they can be written. */
static bool is_on(const postgres_db *s, const char *parameter)
{
	const char *value = PQparameterStatus(s->conn, parameter);

	return value && strcmp(value, "on") == 0;
}

/* One that cannot be set up is not left open. */
wherry_code wh_postgres_begin(postgres_db *s, bool quietly, wherry_error *err)
{
	static const char quiet[] = "; SET LOCAL wherry.quiet = 'on'";
	char sql[sizeof(s->begin) + sizeof(quiet)];
	wherry_code code;

	(void)snprintf(sql, sizeof(sql), "%s%s", s->begin, quietly ? quiet : "");
	code = wh_postgres_exec(s, sql, err);
	if (code != WHERRY_OK && is_open(s))
		PQclear(wh_postgres_query(s, "ROLLBACK"));
	return code;
}

static wherry_code postgres_begin(wherry_db *db, bool quiet, wherry_error *err)
{
	postgres_db *s = (postgres_db *)db;
	bool inside = is_open(s);
	const char *text = "";
	wherry_code code;

	if (!s->pooled && /* a pooler tells what once was */
	    (is_on(s, "in_hot_standby") || is_on(s, "default_transaction_read_only"))) {
		code = code_for("25006", &text);
		return tell(s, code, "25006", text, "", err);
	}
	code = inside ? wh_postgres_exec(s, "SAVEPOINT wherry", err)
		      : wh_postgres_begin(s, quiet, err);
	if (code == WHERRY_OK)
		s->savepoints = inside ? s->savepoints + 1 : 0;
	if (code == WHERRY_OK && !inside)
		s->quiet = quiet;
	return code;
}

/* A transaction in which something failed answers a COMMIT with a ROLLBACK.  Where there
 * is no answer, nobody knows. */
wherry_code wh_postgres_end(postgres_db *s, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	PGresult *res;

	if (PQstatus(s->conn) == CONNECTION_BAD || !is_open(s))
		return wh_fail(err, WHERRY_CLOSED,
			       "%s: the connection was lost before the commit", s->name);
	res = wh_postgres_query(s, "COMMIT");
	if (PQresultStatus(res) == PGRES_COMMAND_OK) {
		if (strcmp(PQcmdStatus(res), "COMMIT") != 0)
			code = wh_fail(
				err, WHERRY_CONFLICT,
				"%s: a statement of the transaction had failed: it "
				"was rolled back",
				s->name);
	} else {
		code = wh_postgres_fail(s, res, err);
		if (code == WHERRY_CLOSED)
			code = tell(s, WHERRY_INDOUBT, "",
				    "the connection was lost while it committed: look "
				    "whether it did",
				    "", err);
	}
	PQclear(res);
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

	if (is_open(s))
		PQclear(wh_postgres_query(s, s->savepoints
						     ? "ROLLBACK TO SAVEPOINT wherry; "
						       "RELEASE SAVEPOINT wherry"
						     : "ROLLBACK"));
	if (s->savepoints)
		s->savepoints--;
}

static bool postgres_in_transaction(wherry_db *db)
{
	return is_open((postgres_db *)db);
}

/* ---- the rest ---- */

static int64_t postgres_last_id(wherry_db *db)
{
	return ((postgres_db *)db)->last_id;
}

static wherry_code postgres_script(wherry_db *db, const char *sql, wherry_error *err)
{
	return wh_postgres_exec((postgres_db *)db, sql, err);
}

/* A request that comes when the call is over could end the next one: so only while one
 * runs; what is left of that race costs a transient error. */
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

static void postgres_limit(wherry_db *db, int64_t until_us)
{
	((postgres_db *)db)->give_up_us = until_us;
}

const wh_db_driver wh_db_postgres = {
	.scheme = "postgres",
	.alias = "postgresql",
	.late_commits = true, /* ids are taken before the commit, by many at once */
	.meanwhile = true,
	.failure_spreads = true,
	.row = &wh_postgres_rows,
	.connection = {.check = wh_postgres_check,
		       .open = wh_postgres_open,
		       .close = postgres_close,
		       .interrupt = postgres_interrupt,
		       .limit = postgres_limit,
		       .session = postgres_session,
		       .schema_of = wh_postgres_schema_of},
	.transaction = {.begin = postgres_begin,
			.commit = postgres_commit,
			.rollback = postgres_rollback,
			.is_open = postgres_in_transaction},
	.statement = {.run = wh_postgres_run,
		      .run_all = wh_postgres_run_all,
		      .script = postgres_script,
		      .last_id = postgres_last_id,
		      .forget = wh_postgres_forget,
		      .about_row = about_row},
	.commits = {.watch = wh_postgres_watch,
		    .fd = wh_postgres_fd,
		    .changed = wh_postgres_changed},
	.stream = wh_postgres_stream,
};
