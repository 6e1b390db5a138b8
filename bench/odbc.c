/*
 * On SQL Server: a database that is emptied for each side, and the floor, which is the least that a
 * C program with ODBC must do for the same rows.  Statements are prepared once, numbers and texts
 * come into buffers that are bound once, and nothing is checked, fenced, ordered or retried.
 */
#include "bench.h"

#include <inttypes.h>

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

static _Noreturn void die(SQLSMALLINT kind, SQLHANDLE handle)
{
	SQLCHAR state[6] = "", text[400] = "";
	SQLINTEGER native = 0;

	(void)SQLGetDiagRec(kind, handle, 1, state, &native, text, sizeof(text), NULL);
	bench_die("ODBC: %s %s", (const char *)state, (const char *)text);
}

static void check(SQLHSTMT stmt, SQLRETURN rc)
{
	if (!SQL_SUCCEEDED(rc) && rc != SQL_NO_DATA)
		die(SQL_HANDLE_STMT, stmt);
}

static void run(session *s, const char *sql)
{
	bench_must(wh_db_script(s->db, sql, &bench_error));
}

static session *open_session(const bench_job *job)
{
	static session s;

	s.db = bench_open(job, NULL);
	s.dbc = ((odbc_db *)s.db)->dbc;
	return &s;
}

/* ---- statements ---- */

static SQLHSTMT prepare(session *s, const char *sql)
{
	SQLHSTMT stmt = NULL;

	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, &stmt)))
		die(SQL_HANDLE_DBC, s->dbc);
	check(stmt, SQLPrepare(stmt, (SQLCHAR *)wh_odbc_in(sql), SQL_NTS));
	return stmt;
}

/* A statement with the list as its parameter. */
static void run_list(session *s, SQLHSTMT stmt)
{
	bool is_long = s->n_list > NVARCHAR;

	s->list_bytes = (SQLLEN)(s->n_list * sizeof(*s->list));
	check(stmt, SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_WCHAR,
				     is_long ? SQL_WLONGVARCHAR : SQL_WVARCHAR,
				     is_long ? s->n_list : NVARCHAR, 0, s->list,
				     s->list_bytes, &s->list_bytes));
	check(stmt, SQLExecute(stmt));
	(void)SQLFreeStmt(stmt, SQL_CLOSE);
}

/* The columns behind the number are texts, or bytes. */
static void prepare_get(session *s, const char *sql, int columns, bool bytes)
{
	s->get = prepare(s, sql);
	(void)SQLBindParameter(s->get, 1, SQL_PARAM_INPUT, SQL_C_SBIGINT, SQL_BIGINT, 19,
			       0, &s->most, 0, NULL);
	(void)SQLBindParameter(s->get, 2, SQL_PARAM_INPUT, SQL_C_SBIGINT, SQL_BIGINT, 19,
			       0, &s->after, 0, NULL);
	check(s->get, SQLBindCol(s->get, 1, SQL_C_SBIGINT, &s->number, sizeof(s->number),
				 &s->lengths[0]));
	for (int i = 1; i < columns; i++)
		check(s->get,
		      SQLBindCol(s->get, (SQLUSMALLINT)(i + 1),
				 bytes && i == columns - 1 ? SQL_C_BINARY : SQL_C_CHAR,
				 s->columns[i], TEXT, &s->lengths[i]));
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
static void get(session *s, int columns)
{
	char number[24];
	SQLRETURN rc;

	check(s->get, SQLExecute(s->get));
	s->n = 0;
	begin_list(s);
	while (SQL_SUCCEEDED(rc = SQLFetch(s->get))) {
		(void)snprintf(number, sizeof(number), "%" PRId64, s->number);
		add_to_list(s, number);
		s->last = s->number > s->last ? s->number : s->last;
		for (int i = 1; i < columns; i++)
			s->bytes += s->lengths[i] > 0 ? (size_t)s->lengths[i] : 0;
		s->n++;
	}
	end_list(s);
	check(s->get, rc);
	(void)SQLFreeStmt(s->get, SQL_CLOSE);
	s->after = s->last;
}

/* ---- an outbox: rows behind an id, and the id of the last one is written ---- */

void bench_odbc_drain(const bench_job *job, double *out)
{
	int64_t began = bench_now(), done = 0;
	session *s = open_session(job);

	prepare_get(s,
		    "SELECT TOP (?) id, created_at, message_id, topic, aggregate_type, "
		    "aggregate_id, partition_key, headers, trace_id, payload FROM outbox "
		    "WHERE id > ? ORDER BY id",
		    COLUMNS, true);
	s->ack = prepare(s, "UPDATE outbox_progress SET high = (SELECT "
			    "MAX(CAST(value AS BIGINT)) FROM OPENJSON(?))");
	s->most = job->batch;
	while (get(s, COLUMNS), s->n) {
		run_list(s, s->ack);
		done += s->n;
	}
	out[0] = bench_rate(job->messages, began);
	bench_must_be_all(job, s->bytes ? done : 0);
}

/* An outbox with so many messages, 1,000 by a statement: a statement for each would take longer than
 * all that is measured. */
void bench_odbc_backlog(const bench_job *job, double *out)
{
	session *s = open_session(job);
	char number[24];

	bench_must(bench_init(s->db, "outbox", false, &bench_error));
	s->put = prepare(s, "INSERT INTO outbox(topic, partition_key, payload) SELECT "
			    "N'quakes', CONCAT(N'key-', value), CAST(REPLICATE('earth ', "
			    "33) AS VARBINARY(MAX)) FROM OPENJSON(?)");
	for (int64_t i = 0; i < job->messages;) {
		begin_list(s);
		for (int n = 0; n < AT_ONCE && i < job->messages; n++, i++) {
			(void)snprintf(number, sizeof(number), "%" PRId64,
				       job->keys ? i % job->keys : i);
			add_to_list(s, number);
		}
		end_list(s);
		run_list(s, s->put);
	}
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

static void put(session *s, int64_t first, int64_t n)
{
	char text[BENCH_BODY + 3], body[BENCH_BODY + 1];

	begin_list(s);
	for (int64_t i = 0; i < n; i++) {
		bench_write_body(first + i, body);
		(void)snprintf(text, sizeof(text), "\"%s\"", body);
		add_to_list(s, text);
	}
	end_list(s);
	run_list(s, s->put);
}

static void receive_all(session *s, const bench_job *job, int columns)
{
	bool lease = job->queue == BENCH_LEASE;
	int64_t got = 0;

	s->most = job->per_transaction;
	do {
		if (!lease)
			run(s, "BEGIN TRANSACTION");
		get(s, columns);
		got += s->n;
		if (!lease)
			run(s, "COMMIT TRANSACTION");
		else if (s->n)
			run_list(s, s->ack);
	} while (s->n);
	bench_must_be_all(job, got);
}

void bench_odbc_queue(const bench_job *job, double *out)
{
	const floor_sql *sql = job->delayed ? &delayed_sql : &queue_sql;
	bool sends = job->queue == BENCH_SEND, lease = job->queue == BENCH_LEASE;
	int columns = lease ? sql->leased : sql->taken;
	int64_t began, step = sends ? job->per_transaction : AT_ONCE;
	session *s = open_session(job);

	run(s, sql->create);
	s->put = prepare(s, sql->put);
	if (!sends)
		prepare_get(s, lease ? sql->lease : sql->take, columns, false);
	if (lease)
		s->ack = prepare(s, sql->ack);
	began = bench_now();
	for (int64_t i = 0; i < job->messages; i += step)
		put(s, i, i + step < job->messages ? step : job->messages - i);
	if (!sends) {
		began = bench_now();
		receive_all(s, job, columns);
	}
	out[0] = bench_rate(job->messages, began);
}

/* ---- the database ---- */

static wherry_code count_tables(void *ctx, const wh_row *row, wherry_error *err)
{
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
