/*
 * On SQL Server: a database that is emptied for each side, and the floor, which is the least that a
 * C program with ODBC must do for the same rows.  Statements are prepared once, numbers and texts
 * come into buffers that are bound once, and nothing is checked, fenced, ordered or retried.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "db/odbc/odbc.h"

#ifndef BENCH_MSSQL
#define BENCH_MSSQL "tests/mssql"
#endif

enum {
	AT_ONCE = 1000,
	COLUMNS = 10,
	TEXT = 600, /* bytes of a column, at most */
	NVARCHAR = 4000,
	LIST = AT_ONCE * (BENCH_BODY + 3) + 3 /* characters */
};

/* A connection as Wherry makes it, with statements of its own. */
typedef struct session {
	wherry_db *db;
	SQLHDBC dbc;
	SQLHSTMT put, get, ack;
	int64_t after, most; /* parameters of get */
	SQLWCHAR list[LIST]; /* JSON, the parameter of put and ack */
	SQLLEN list_bytes;
	size_t n_list;
	int64_t number; /* the first column of a row */
	char columns[COLUMNS][TEXT];
	SQLLEN lengths[COLUMNS];
	int n;        /* rows that came at once */
	int64_t last; /* the greatest number */
	size_t bytes; /* of other columns */
} session;

static wherry_code fail(SQLSMALLINT kind, SQLHANDLE handle, wherry_error *err)
{
	SQLCHAR state[6] = "", text[400] = "";
	SQLINTEGER native = 0;

	(void)SQLGetDiagRec(kind, handle, 1, state, &native, text, sizeof(text), NULL);
	return wh_fail(err, WHERRY_IO, "ODBC: %s %s", (const char *)state,
		       (const char *)text);
}

static wherry_code check(SQLHSTMT stmt, SQLRETURN rc, wherry_error *err)
{
	return SQL_SUCCEEDED(rc) || rc == SQL_NO_DATA ? WHERRY_OK
						      : fail(SQL_HANDLE_STMT, stmt, err);
}

static wherry_code run(session *s, const char *sql, wherry_error *err)
{
	return wh_db_script(s->db, sql, err);
}

static wherry_code open_session(const bench_job *job, session **out, wherry_error *err)
{
	session *s = calloc(1, sizeof(*s));
	wherry_code code = s ? wherry_db_open(job->url, NULL, &s->db, err) : wh_oom(err);

	*out = s;
	if (code == WHERRY_OK)
		s->dbc = ((odbc_db *)s->db)->dbc;
	return code;
}

static void close_session(session *s)
{
	SQLHSTMT stmts[] = {s ? s->put : NULL, s ? s->get : NULL, s ? s->ack : NULL};

	for (size_t i = 0; i < sizeof(stmts) / sizeof(*stmts); i++)
		if (stmts[i])
			(void)SQLFreeHandle(SQL_HANDLE_STMT, stmts[i]);
	if (s)
		wherry_db_close(s->db);
	free(s);
}

/* ---- statements ---- */

static wherry_code prepare(session *s, const char *sql, SQLHSTMT *out, wherry_error *err)
{
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, out)))
		return fail(SQL_HANDLE_DBC, s->dbc, err);
	return check(*out, SQLPrepare(*out, (SQLCHAR *)wh_odbc_in(sql), SQL_NTS), err);
}

/* A statement with the list as its parameter. */
static wherry_code run_list(session *s, SQLHSTMT stmt, wherry_error *err)
{
	bool is_long = s->n_list > NVARCHAR;
	SQLRETURN rc;
	wherry_code code;

	s->list_bytes = (SQLLEN)(s->n_list * sizeof(*s->list));
	rc = SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_WCHAR,
			      is_long ? SQL_WLONGVARCHAR : SQL_WVARCHAR,
			      is_long ? s->n_list : NVARCHAR, 0, s->list, s->list_bytes,
			      &s->list_bytes);
	code = check(stmt, rc, err);
	if (code == WHERRY_OK)
		code = check(stmt, SQLExecute(stmt), err);
	(void)SQLFreeStmt(stmt, SQL_CLOSE);
	return code;
}

/* The columns behind the number are texts, or bytes. */
static wherry_code prepare_get(session *s, const char *sql, int columns, bool bytes,
			       wherry_error *err)
{
	wherry_code code = prepare(s, sql, &s->get, err);

	if (code != WHERRY_OK)
		return code;
	(void)SQLBindParameter(s->get, 1, SQL_PARAM_INPUT, SQL_C_SBIGINT, SQL_BIGINT, 19,
			       0, &s->most, 0, NULL);
	(void)SQLBindParameter(s->get, 2, SQL_PARAM_INPUT, SQL_C_SBIGINT, SQL_BIGINT, 19,
			       0, &s->after, 0, NULL);
	code = check(s->get,
		     SQLBindCol(s->get, 1, SQL_C_SBIGINT, &s->number, sizeof(s->number),
				&s->lengths[0]),
		     err);
	for (int i = 1; code == WHERRY_OK && i < columns; i++)
		code = check(
			s->get,
			SQLBindCol(s->get, (SQLUSMALLINT)(i + 1),
				   bytes && i == columns - 1 ? SQL_C_BINARY : SQL_C_CHAR,
				   s->columns[i], TEXT, &s->lengths[i]),
			err);
	return code;
}

static void begin_list(session *s)
{
	s->n_list = 0;
	s->list[s->n_list++] = '[';
}

static void add_to_list(session *s, const char *text)
{
	if (s->n_list > 1)
		s->list[s->n_list++] = ',';
	while (*text)
		s->list[s->n_list++] = (SQLWCHAR)*text++;
}

static void end_list(session *s)
{
	s->list[s->n_list++] = ']';
}

/* Read rows behind s->after, and list their numbers. */
static wherry_code get(session *s, int columns, wherry_error *err)
{
	wherry_code code = check(s->get, SQLExecute(s->get), err);
	char number[24];
	SQLRETURN rc = SQL_NO_DATA;

	s->n = 0;
	begin_list(s);
	while (code == WHERRY_OK && SQL_SUCCEEDED(rc = SQLFetch(s->get))) {
		(void)snprintf(number, sizeof(number), "%" PRId64, s->number);
		add_to_list(s, number);
		s->last = s->number > s->last ? s->number : s->last;
		for (int i = 1; i < columns; i++)
			s->bytes += s->lengths[i] > 0 ? (size_t)s->lengths[i] : 0;
		s->n++;
	}
	end_list(s);
	if (code == WHERRY_OK && rc != SQL_NO_DATA)
		code = fail(SQL_HANDLE_STMT, s->get, err);
	(void)SQLFreeStmt(s->get, SQL_CLOSE);
	s->after = s->last;
	return code;
}

/* ---- an outbox: rows behind an id, and the id of the last one is written ---- */

wherry_code bench_odbc_drain(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err)
{
	int64_t began = wh_monotonic(&wh_env_system), done = 0;
	session *s = NULL;
	wherry_code code = open_session(job, &s, err);

	if (code == WHERRY_OK)
		code = prepare_get(
			s,
			"SELECT TOP (?) id, created_at, message_id, topic, aggregate_type, "
			"aggregate_id, partition_key, headers, trace_id, payload FROM outbox "
			"WHERE id > ? ORDER BY id",
			COLUMNS, true, err);
	if (code == WHERRY_OK)
		code = prepare(s,
			       "UPDATE outbox_progress SET high = (SELECT "
			       "MAX(CAST(value AS BIGINT)) FROM OPENJSON(?))",
			       &s->ack, err);
	if (code == WHERRY_OK)
		s->most = job->batch;
	while (code == WHERRY_OK) {
		code = get(s, COLUMNS, err);
		if (code != WHERRY_OK || !s->n)
			break;
		code = run_list(s, s->ack, err);
		done += s->n;
	}
	if (code == WHERRY_OK && (done != job->messages || !s->bytes))
		code = wh_fail(err, WHERRY_INVALID, "ODBC: %" PRId64 " of %" PRId64, done,
			       job->messages);
	out[0] = bench_rate(job->messages, began);
	close_session(s);
	return code;
}

/* An outbox with so many messages, 1,000 by a statement: a statement for each would take longer than
 * all that is measured. */
wherry_code bench_odbc_backlog(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	session *s = NULL;
	wherry_code code = open_session(job, &s, err);

	(void)out;
	if (code == WHERRY_OK)
		code = bench_init(s->db, "outbox", false, err);
	if (code == WHERRY_OK)
		code = prepare(
			s,
			"INSERT INTO outbox(topic, partition_key, payload) SELECT "
			"N'quakes', CONCAT(N'key-', value), CAST(REPLICATE('earth ', "
			"33) AS VARBINARY(MAX)) FROM OPENJSON(?)",
			&s->put, err);
	for (int64_t i = 0; code == WHERRY_OK && i < job->messages;) {
		char number[24];

		begin_list(s);
		for (int n = 0; n < AT_ONCE && i < job->messages; n++, i++) {
			(void)snprintf(number, sizeof(number), "%" PRId64,
				       job->keys ? i % job->keys : i);
			add_to_list(s, number);
		}
		end_list(s);
		code = run_list(s, s->put, err);
	}
	close_session(s);
	return code;
}

/* ---- queues and delayed queues ---- */

typedef struct floor_sql {
	const char *create, *put, *take, *lease, *ack;
	int taken, leased; /* columns */
} floor_sql;

#define LOCKS "WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)"
#define FIRST_OF_QUEUE                                                                   \
	"FROM hand AS h JOIN (SELECT TOP (?) id FROM hand " LOCKS                        \
	" WHERE state = 0 AND id > ? ORDER BY id) AS c ON c.id = h.id"
#define ACK                                                                              \
	"DELETE h FROM hand AS h JOIN OPENJSON(?) WITH (id BIGINT '$') AS j "            \
	"ON j.id = h.id WHERE h.token = 't'"

static const floor_sql queue_sql = {
	"CREATE TABLE hand(id BIGINT IDENTITY PRIMARY KEY, message_id UNIQUEIDENTIFIER "
	"NOT NULL DEFAULT NEWID(), headers NVARCHAR(MAX) NOT NULL DEFAULT '{}', body "
	"NVARCHAR(MAX) NOT NULL, state TINYINT NOT NULL DEFAULT 0, attempts INT NOT NULL "
	"DEFAULT 0, available_at DATETIME2(3), token NVARCHAR(36), created_at "
	"DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME()); "
	"CREATE INDEX hand_ready ON hand(id) WHERE state = 0; "
	"CREATE INDEX hand_timed ON hand(available_at) WHERE state = 1",
	"INSERT INTO hand(body) SELECT value FROM OPENJSON(?)",
	"DELETE h OUTPUT deleted.id, deleted.message_id, deleted.headers, deleted.body, "
	"deleted.created_at " FIRST_OF_QUEUE,
	"UPDATE h SET state = 1, token = N't', attempts = h.attempts + 1, available_at = "
	"DATEADD(SECOND, 30, SYSUTCDATETIME()) OUTPUT inserted.id, inserted.message_id, "
	"inserted.headers, inserted.body, inserted.attempts, inserted.created_at " FIRST_OF_QUEUE,
	ACK,
	5,
	6,
};

static const floor_sql delayed_sql = {
	"CREATE TABLE hand(id BIGINT IDENTITY PRIMARY KEY, \"key\" NVARCHAR(200) NOT NULL "
	"UNIQUE, body NVARCHAR(MAX) NOT NULL, due BIGINT NOT NULL DEFAULT 0, token "
	"NVARCHAR(36), attempts INT NOT NULL DEFAULT 0); "
	"CREATE INDEX hand_due ON hand(due, id)",
	"SET NOCOUNT ON; DECLARE @m TABLE(k NVARCHAR(200) PRIMARY KEY, b NVARCHAR(MAX)); "
	"INSERT INTO @m SELECT LEFT(value, 12), value FROM OPENJSON(?); "
	"UPDATE h SET body = m.b, due = 0, token = NULL FROM hand AS h JOIN @m AS m ON "
	"m.k = h.\"key\"; "
	"INSERT INTO hand(\"key\", body) SELECT k, b FROM @m AS m WHERE NOT EXISTS "
	"(SELECT 1 FROM hand AS h WHERE h.\"key\" = m.k)",
	NULL,
	"UPDATE h SET token = N't', attempts = h.attempts + 1, due = 9000000000000000 "
	"OUTPUT inserted.id, inserted.\"key\", inserted.body, inserted.attempts "
	"FROM hand AS h JOIN (SELECT TOP (?) id FROM hand " LOCKS
	" WHERE due <= 1 AND (due > 0 OR id > ?) ORDER BY due, id) AS c ON c.id = h.id",
	ACK,
	0,
	4,
};

static wherry_code put(session *s, int64_t first, int64_t n, wherry_error *err)
{
	char text[BENCH_BODY + 3], body[BENCH_BODY + 1];

	begin_list(s);
	for (int64_t i = 0; i < n; i++) {
		bench_write_body(first + i, body);
		(void)snprintf(text, sizeof(text), "\"%s\"", body);
		add_to_list(s, text);
	}
	end_list(s);
	return run_list(s, s->put, err);
}

static wherry_code put_all(session *s, int64_t messages, int64_t step, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int64_t i = 0; code == WHERRY_OK && i < messages; i += step)
		code = put(s, i, i + step < messages ? step : messages - i, err);
	return code;
}

static wherry_code receive_all(session *s, const bench_job *job, int columns,
			       wherry_error *err)
{
	bool lease = job->queue == BENCH_LEASE;
	int64_t got = 0;
	wherry_code code;

	s->most = job->per_transaction;
	do {
		code = lease ? WHERRY_OK : run(s, "BEGIN TRANSACTION", err);
		if (code == WHERRY_OK)
			code = get(s, columns, err);
		got += s->n;
		if (code == WHERRY_OK && !lease)
			code = run(s, "COMMIT TRANSACTION", err);
		else if (code == WHERRY_OK && s->n)
			code = run_list(s, s->ack, err);
	} while (code == WHERRY_OK && s->n);
	if (code == WHERRY_OK && got != job->messages)
		code = wh_fail(err, WHERRY_INVALID, "by hand: %" PRId64, got);
	return code;
}

wherry_code bench_odbc_queue(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err)
{
	const floor_sql *sql = job->delayed ? &delayed_sql : &queue_sql;
	bool sends = job->queue == BENCH_SEND, lease = job->queue == BENCH_LEASE;
	int columns = lease ? sql->leased : sql->taken;
	int64_t began;
	session *s = NULL;
	wherry_code code = open_session(job, &s, err);

	if (code == WHERRY_OK)
		code = run(s, sql->create, err);
	if (code == WHERRY_OK)
		code = prepare(s, sql->put, &s->put, err);
	if (code == WHERRY_OK && !sends)
		code = prepare_get(s, lease ? sql->lease : sql->take, columns, false,
				   err);
	if (code == WHERRY_OK && lease)
		code = prepare(s, sql->ack, &s->ack, err);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = put_all(s, job->messages, sends ? job->per_transaction : AT_ONCE,
			       err);
	if (code == WHERRY_OK && !sends) {
		began = wh_monotonic(&wh_env_system);
		code = receive_all(s, job, columns, err);
	}
	out[0] = bench_rate(job->messages, began);
	close_session(s);
	return code;
}

/* ---- the database ---- */

static wherry_code count_tables(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(int64_t *)ctx = wh_row_int(row, 0);
	return WHERRY_OK;
}

/* What a bench drops must be its own. */
wherry_code bench_odbc_claim(const char *url, wherry_error *err)
{
	wherry_db *db = NULL;
	int64_t n = 0;
	wh_stmt stmt;
	wherry_code code = wherry_db_open(url, NULL, &db, err);

	if (code == WHERRY_OK)
		code = wh_stmt_make("bench", "tables", "SELECT COUNT(*) FROM sys.tables",
				    &stmt, err);
	if (code == WHERRY_OK) {
		wh_sql all = {.stmts = &stmt, .n = 1};

		code = wh_db_run(db, &stmt, NULL, 0, count_tables, &n, NULL, err);
		wh_db_forget(db, &all);
		wh_stmt_clear(&stmt);
	}
	wherry_db_close(db);
	if (code == WHERRY_OK && n)
		code = wh_fail(
			err, WHERRY_INVALID,
			"the database has %" PRId64
			" tables, and the bench drops all of them: name an empty one",
			n);
	return code;
}

static wherry_code run_script(wherry_db *db, const char *path, wherry_error *err)
{
	char sql[4096];
	FILE *file = fopen(path, "re");
	size_t n;

	if (!file)
		return wh_fail(err, WHERRY_IO, "cannot read %s", path);
	n = fread(sql, 1, sizeof(sql) - 1, file);
	(void)fclose(file);
	sql[n] = 0;
	return wh_db_script(db, sql, err);
}

wherry_code bench_odbc_clear(const char *url, wherry_error *err)
{
	wherry_db *db = NULL;
	wherry_code code = wherry_db_open(url, NULL, &db, err);

	if (code == WHERRY_OK)
		code = run_script(db, BENCH_MSSQL "/drop.sql", err);
	if (code == WHERRY_OK) /* what SQL Server has and Babelfish lacks */
		code = run_script(db, BENCH_MSSQL "/babelfish.sql", err);
	wherry_db_close(db);
	return code;
}
