/*
 * The floor of queues and delayed queues: the statements that a program writes by hand for a
 * table of its own, prepared, with no more indexes than they need.  Messages that are received
 * were sent before the clock starts.
 */
#include "bench.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

enum { AT_ONCE_MOST = 1000, NUMBER = 12 };

void bench_write_body(int64_t number, char out[BENCH_BODY + 1])
{
	(void)snprintf(out, BENCH_BODY + 1, "%0*" PRId64 "%*s", NUMBER, number,
		       BENCH_BODY - NUMBER, "earth");
}

typedef struct floor_sql {
	const char *create;
	const char *put;          /* $1: a body; PostgreSQL: an array of them */
	const char *take, *lease; /* $1: the number before the first; $2: how many */
	const char *ack;          /* $1: the numbers */
} floor_sql;

static const floor_sql queue_postgres = {
	"CREATE TABLE hand(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, message_id "
	"text NOT NULL DEFAULT gen_random_uuid()::text, headers json NOT NULL DEFAULT "
	"'{}', body text NOT NULL, state smallint NOT NULL DEFAULT 0, attempts integer "
	"NOT NULL DEFAULT 0, available_at timestamptz, token text, created_at "
	"timestamptz NOT NULL DEFAULT now()); "
	"CREATE INDEX ON hand(id) WHERE state = 0; "
	"CREATE INDEX ON hand(available_at) WHERE state = 1",
	"INSERT INTO hand(body) SELECT unnest($1::text[]) RETURNING id",
	"DELETE FROM hand WHERE id = ANY(ARRAY(SELECT id FROM hand WHERE state = 0 AND "
	"id > $1::bigint ORDER BY id LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) "
	"RETURNING id, message_id, headers, body, created_at",
	"UPDATE hand SET state = 1, token = 't', attempts = attempts + 1, available_at = "
	"now() + interval '30 s' WHERE id = ANY(ARRAY(SELECT id FROM hand WHERE state = "
	"0 AND id > $1::bigint ORDER BY id LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) "
	"RETURNING id, message_id, headers, body, attempts, created_at",
	"DELETE FROM hand WHERE id = ANY($1::bigint[]) AND token = 't'",
};

static const floor_sql delayed_postgres = {
	"CREATE TABLE hand(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text "
	"NOT NULL UNIQUE, body text NOT NULL, due bigint NOT NULL DEFAULT 0, token text, "
	"attempts integer NOT NULL DEFAULT 0); CREATE INDEX ON hand(due, id)",
	"INSERT INTO hand(key, body) SELECT left(b, 12), b FROM unnest($1::text[]) AS b "
	"ON CONFLICT (key) DO UPDATE SET body = excluded.body, due = excluded.due, token "
	"= NULL RETURNING id",
	NULL,
	"UPDATE hand SET token = 't', attempts = attempts + 1, due = 9e15 WHERE id = "
	"ANY(ARRAY(SELECT id FROM hand WHERE (due, id) > (0, $1::bigint) AND due <= 1 "
	"ORDER BY due, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) "
	"RETURNING id, key, body, attempts",
	"DELETE FROM hand WHERE id = ANY($1::bigint[]) AND token = 't'",
};

static const floor_sql queue_sqlite = {
	"CREATE TABLE hand(id INTEGER PRIMARY KEY, message_id TEXT NOT NULL DEFAULT "
	"(hex(randomblob(16))), headers TEXT NOT NULL DEFAULT '{}', body NOT NULL, state "
	"INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, available_at "
	"INTEGER, token TEXT, created_at INTEGER NOT NULL DEFAULT 1); "
	"CREATE INDEX hand_ready ON hand(id) WHERE state = 0; "
	"CREATE INDEX hand_timed ON hand(available_at) WHERE state = 1",
	"INSERT INTO hand(body) VALUES (?1)",
	"DELETE FROM hand WHERE id IN (SELECT id FROM hand WHERE state = 0 AND id > ?1 "
	"ORDER BY id LIMIT ?2) RETURNING id, message_id, headers, body, created_at",
	"UPDATE hand SET state = 1, token = 't', attempts = attempts + 1, available_at = "
	"9000000000000 WHERE id IN (SELECT id FROM hand WHERE state = 0 AND id > ?1 "
	"ORDER BY id LIMIT ?2) RETURNING id, message_id, headers, body, attempts",
	"DELETE FROM hand WHERE id IN (SELECT value FROM json_each(?1)) AND token = 't'",
};

static const floor_sql delayed_sqlite = {
	"CREATE TABLE hand(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body NOT "
	"NULL, due INTEGER NOT NULL DEFAULT 0, token TEXT, attempts INTEGER NOT NULL "
	"DEFAULT 0); CREATE INDEX hand_due ON hand(due, id)",
	"INSERT INTO hand(key, body) VALUES (substr(?1, 1, 12), ?1) ON CONFLICT (key) DO "
	"UPDATE SET body = excluded.body, due = excluded.due, token = NULL",
	NULL,
	"UPDATE hand SET token = 't', attempts = attempts + 1, due = 9e15 WHERE id IN "
	"(SELECT id FROM hand WHERE (due, id) > (0, ?1) AND due <= 1 ORDER BY due, id "
	"LIMIT ?2) RETURNING id, key, body, attempts",
	"DELETE FROM hand WHERE id IN (SELECT value FROM json_each(?1)) AND token = 't'",
};

/* One connection with these statements prepared; one of conn and file is NULL. */
typedef struct hand {
	PGconn *conn;
	sqlite3 *file;
	sqlite3_stmt *put, *take, *lease, *ack;
	int64_t last;                     /* number that was received last */
	int n;                            /* received at once */
	char list[AT_ONCE_MOST * 21 + 3]; /* their numbers, as an array */
} hand;

static wherry_code fail(hand *h, wherry_error *err)
{
	return wh_fail(err, WHERRY_IO, "by hand: %s",
		       h->conn ? PQerrorMessage(h->conn) : sqlite3_errmsg(h->file));
}

static wherry_code check(hand *h, PGresult *res, wherry_error *err)
{
	ExecStatusType status = PQresultStatus(res);
	bool ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
	wherry_code code = ok ? WHERRY_OK : fail(h, err);

	PQclear(res);
	return code;
}

static wherry_code exec(hand *h, const char *sql, wherry_error *err)
{
	if (h->conn)
		return check(h, PQexec(h->conn, sql), err);
	return sqlite3_exec(h->file, sql, NULL, NULL, NULL) == SQLITE_OK ? WHERRY_OK
									 : fail(h, err);
}

static wherry_code prepare(hand *h, const char *name, const char *sql, sqlite3_stmt **out,
			   wherry_error *err)
{
	if (!sql)
		return WHERRY_OK;
	if (h->conn)
		return check(h, PQprepare(h->conn, name, sql, 0, NULL), err);
	return sqlite3_prepare_v2(h->file, sql, -1, out, NULL) == SQLITE_OK
		       ? WHERRY_OK
		       : fail(h, err);
}

static wherry_code hand_open(const bench_job *job, const floor_sql *sql, hand *h,
			     wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (strncmp(job->url, "postgres:", 9) == 0) {
		h->conn = PQconnectdb(job->url);
		if (PQstatus(h->conn) != CONNECTION_OK)
			return fail(h, err);
	} else if (sqlite3_open(job->url + strlen("sqlite:"), &h->file) != SQLITE_OK) {
		return fail(h, err);
	} else {
		code = exec(h, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", err);
	}
	if (code == WHERRY_OK)
		code = exec(h, sql->create, err);
	if (code == WHERRY_OK)
		code = prepare(h, "put", sql->put, &h->put, err);
	if (code == WHERRY_OK)
		code = prepare(h, "take", sql->take, &h->take, err);
	if (code == WHERRY_OK)
		code = prepare(h, "lease", sql->lease, &h->lease, err);
	return code == WHERRY_OK ? prepare(h, "ack", sql->ack, &h->ack, err) : code;
}

static void hand_close(hand *h)
{
	(void)sqlite3_finalize(h->put);
	(void)sqlite3_finalize(h->take);
	(void)sqlite3_finalize(h->lease);
	(void)sqlite3_finalize(h->ack);
	(void)sqlite3_close(h->file);
	PQfinish(h->conn);
}

static wherry_code put_array(hand *h, int64_t first, int64_t n, wherry_error *err)
{
	size_t cap = (size_t)n * (BENCH_BODY + 3) + 3;
	char *text = malloc(cap), body[BENCH_BODY + 1];
	const char *values[] = {text};
	size_t len = 0;
	wherry_code code;

	if (!text)
		return wh_oom(err);
	for (int64_t i = 0; i < n; i++) {
		bench_write_body(first + i, body);
		len += (size_t)snprintf(text + len, cap - len, "%c\"%s\"", i ? ',' : '{',
					body);
	}
	(void)snprintf(text + len, cap - len, "}");
	code = check(h, PQexecPrepared(h->conn, "put", 1, values, NULL, NULL, 1), err);
	free(text);
	return code;
}

static wherry_code put_each(hand *h, int64_t first, int64_t n, wherry_error *err)
{
	wherry_code code = exec(h, "BEGIN IMMEDIATE", err);
	char body[BENCH_BODY + 1];

	for (int64_t i = 0; code == WHERRY_OK && i < n; i++) {
		bench_write_body(first + i, body);
		(void)sqlite3_bind_text(h->put, 1, body, BENCH_BODY, SQLITE_STATIC);
		if (sqlite3_step(h->put) != SQLITE_DONE)
			code = fail(h, err);
		(void)sqlite3_reset(h->put);
	}
	return code == WHERRY_OK ? exec(h, "COMMIT", err) : code;
}

static void note_number(hand *h, const char *number)
{
	h->last = strtoll(number, NULL, 10);
	(void)snprintf(h->list + strlen(h->list), 24, "%c%s",
		       h->n++    ? ','
		       : h->conn ? '{'
				 : '[',
		       number);
}

static wherry_code get_postgres(hand *h, bool lease, int64_t most, wherry_error *err)
{
	char after[24], limit[24];
	const char *values[] = {after, limit};
	PGresult *res;
	int64_t last = h->last;

	(void)snprintf(after, sizeof(after), "%" PRId64, h->last);
	(void)snprintf(limit, sizeof(limit), "%" PRId64, most);
	res = PQexecPrepared(h->conn, lease ? "lease" : "take", 2, values, NULL, NULL, 0);
	for (int i = 0; i < PQntuples(res); i++) {
		note_number(h, PQgetvalue(res, i, 0));
		last = last > h->last ? last : h->last; /* they come in any order */
	}
	h->last = last;
	return check(h, res, err);
}

static wherry_code get_sqlite(hand *h, bool lease, int64_t most, wherry_error *err)
{
	sqlite3_stmt *stmt = lease ? h->lease : h->take;
	int64_t last = h->last;
	int rc;

	(void)sqlite3_bind_int64(stmt, 1, h->last);
	(void)sqlite3_bind_int64(stmt, 2, most);
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		note_number(h, (const char *)sqlite3_column_text(stmt, 0));
		last = last > h->last ? last : h->last;
	}
	h->last = last;
	(void)sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? WHERRY_OK : fail(h, err);
}

static wherry_code hand_ack(hand *h, wherry_error *err)
{
	const char *values[] = {h->list};
	int rc;

	if (h->conn)
		return check(h, PQexecPrepared(h->conn, "ack", 1, values, NULL, NULL, 1),
			     err);
	(void)sqlite3_bind_text(h->ack, 1, h->list, -1, SQLITE_STATIC);
	rc = sqlite3_step(h->ack);
	(void)sqlite3_reset(h->ack);
	return rc == SQLITE_DONE ? WHERRY_OK : fail(h, err);
}

static wherry_code hand_get(hand *h, const bench_job *job, int64_t most,
			    wherry_error *err)
{
	bool lease = job->queue == BENCH_LEASE;
	wherry_code code = lease ? WHERRY_OK : exec(h, "BEGIN", err);
	size_t len;

	h->n = 0;
	*h->list = 0;
	if (code == WHERRY_OK)
		code = h->conn ? get_postgres(h, lease, most, err)
			       : get_sqlite(h, lease, most, err);
	if (code != WHERRY_OK)
		return code;
	len = strlen(h->list);
	(void)snprintf(h->list + len, sizeof(h->list) - len, h->conn ? "}" : "]");
	if (!lease)
		return exec(h, "COMMIT", err);
	return h->n ? hand_ack(h, err) : WHERRY_OK;
}

static wherry_code hand_put(hand *h, int64_t first, int64_t n, wherry_error *err)
{
	return h->conn ? put_array(h, first, n, err) : put_each(h, first, n, err);
}

static wherry_code hand_all(hand *h, const bench_job *job, double *out, wherry_error *err)
{
	int64_t step = job->queue == BENCH_SEND ? job->per_transaction : AT_ONCE_MOST;
	int64_t began = wh_monotonic(&wh_env_system), got = 0;
	wherry_code code = WHERRY_OK;

	for (int64_t i = 0; code == WHERRY_OK && i < job->messages; i += step)
		code = hand_put(h, i, i + step < job->messages ? step : job->messages - i,
				err);
	if (job->queue != BENCH_SEND) {
		began = wh_monotonic(&wh_env_system);
		do {
			code = hand_get(h, job, job->per_transaction, err);
			got += h->n;
		} while (code == WHERRY_OK && h->n);
		if (code == WHERRY_OK && got != job->messages)
			code = wh_fail(err, WHERRY_INVALID, "by hand: %" PRId64, got);
	}
	*out = bench_rate(job->messages, began);
	return code;
}

wherry_code bench_hand_queue(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err)
{
	bool postgres = strncmp(job->url, "postgres:", 9) == 0;
	const floor_sql *sql = job->delayed
				       ? postgres ? &delayed_postgres : &delayed_sqlite
			       : postgres ? &queue_postgres
					  : &queue_sqlite;
	hand *h = calloc(1, sizeof(*h));
	wherry_code code = h ? hand_open(job, sql, h, err) : wh_oom(err);

	if (code == WHERRY_OK)
		code = hand_all(h, job, out, err);
	if (h)
		hand_close(h);
	free(h);
	return code;
}
