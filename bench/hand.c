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
	sqlite3_stmt *put, *get, *ack;
	int64_t last;                     /* number that was received last */
	int n;                            /* received at once */
	char list[AT_ONCE_MOST * 21 + 3]; /* their numbers, as an array */
} hand;

static void check(const hand *h, bool ok)
{
	if (!ok)
		bench_die("by hand: %s", sqlite3_errmsg(h->file));
}

static void exec(const hand *h, const char *sql)
{
	if (h->conn)
		bench_libpq_run(h->conn, sql);
	else
		check(h, sqlite3_exec(h->file, sql, NULL, NULL, NULL) == SQLITE_OK);
}

static sqlite3_stmt *prepare(const hand *h, const char *name, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	if (h->conn)
		bench_libpq_prepare(h->conn, name, sql);
	else
		check(h, sqlite3_prepare_v2(h->file, sql, -1, &stmt, NULL) == SQLITE_OK);
	return stmt;
}

static void hand_open(const bench_job *job, hand *h)
{
	bool postgres = strncmp(job->url, "postgres:", 9) == 0;
	const floor_sql *sql = job->delayed
				       ? postgres ? &delayed_postgres : &delayed_sqlite
			       : postgres ? &queue_postgres
					  : &queue_sqlite;

	if (postgres) {
		h->conn = bench_libpq_open(job->url);
	} else {
		check(h,
		      sqlite3_open(job->url + strlen("sqlite:"), &h->file) == SQLITE_OK);
		exec(h, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
	}
	exec(h, sql->create);
	h->put = prepare(h, "put", sql->put);
	if (job->queue != BENCH_SEND)
		h->get = prepare(h, "get",
				 job->queue == BENCH_LEASE ? sql->lease : sql->take);
	h->ack = prepare(h, "ack", sql->ack);
}

static void put_array(const hand *h, int64_t first, int64_t n)
{
	static char text[AT_ONCE_MOST * (BENCH_BODY + 3) + 3];
	char body[BENCH_BODY + 1];
	const char *values[] = {text};
	size_t len = 0;

	for (int64_t i = 0; i < n; i++) {
		bench_write_body(first + i, body);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%c\"%s\"",
					i ? ',' : '{', body);
	}
	(void)snprintf(text + len, sizeof(text) - len, "}");
	bench_libpq_check(h->conn,
			  PQexecPrepared(h->conn, "put", 1, values, NULL, NULL, 1));
}

static void put_each(const hand *h, int64_t first, int64_t n)
{
	char body[BENCH_BODY + 1];

	exec(h, "BEGIN IMMEDIATE");
	for (int64_t i = 0; i < n; i++) {
		bench_write_body(first + i, body);
		(void)sqlite3_bind_text(h->put, 1, body, BENCH_BODY, SQLITE_STATIC);
		check(h, sqlite3_step(h->put) == SQLITE_DONE);
		(void)sqlite3_reset(h->put);
	}
	exec(h, "COMMIT");
}

static void add_number(hand *h, const char *number, int64_t *last)
{
	int64_t n = strtoll(number, NULL, 10);

	*last = n > *last ? n : *last; /* they come in any order */
	(void)snprintf(h->list + strlen(h->list), 24, "%c%s",
		       h->n++    ? ','
		       : h->conn ? '{'
				 : '[',
		       number);
}

static void get_postgres(hand *h, int64_t most, int64_t *last)
{
	char after[24], limit[24];
	const char *values[] = {after, limit};
	PGresult *res;

	(void)snprintf(after, sizeof(after), "%" PRId64, h->last);
	(void)snprintf(limit, sizeof(limit), "%" PRId64, most);
	res = PQexecPrepared(h->conn, "get", 2, values, NULL, NULL, 0);
	for (int i = 0; i < PQntuples(res); i++)
		add_number(h, PQgetvalue(res, i, 0), last);
	bench_libpq_check(h->conn, res);
}

static void get_sqlite(hand *h, int64_t most, int64_t *last)
{
	int rc;

	(void)sqlite3_bind_int64(h->get, 1, h->last);
	(void)sqlite3_bind_int64(h->get, 2, most);
	while ((rc = sqlite3_step(h->get)) == SQLITE_ROW)
		add_number(h, (const char *)sqlite3_column_text(h->get, 0), last);
	(void)sqlite3_reset(h->get);
	check(h, rc == SQLITE_DONE);
}

static void hand_ack(const hand *h)
{
	const char *values[] = {h->list};

	if (h->conn) {
		bench_libpq_check(h->conn, PQexecPrepared(h->conn, "ack", 1, values, NULL,
							  NULL, 1));
		return;
	}
	(void)sqlite3_bind_text(h->ack, 1, h->list, -1, SQLITE_STATIC);
	check(h, sqlite3_step(h->ack) == SQLITE_DONE);
	(void)sqlite3_reset(h->ack);
}

static void hand_get(hand *h, const bench_job *job)
{
	bool lease = job->queue == BENCH_LEASE;
	int64_t last = h->last;
	size_t len;

	h->n = 0;
	*h->list = 0;
	if (!lease)
		exec(h, "BEGIN");
	if (h->conn)
		get_postgres(h, job->per_transaction, &last);
	else
		get_sqlite(h, job->per_transaction, &last);
	h->last = last;
	len = strlen(h->list);
	(void)snprintf(h->list + len, sizeof(h->list) - len, h->conn ? "}" : "]");
	if (!lease)
		exec(h, "COMMIT");
	else if (h->n)
		hand_ack(h);
}

void bench_hand_queue(const bench_job *job, double *out)
{
	static hand h;
	bool sends = job->queue == BENCH_SEND;
	int64_t step = sends ? job->per_transaction : AT_ONCE_MOST, got = 0, began;

	hand_open(job, &h);
	began = bench_now();
	for (int64_t i = 0; i < job->messages; i += step)
		(h.conn ? put_array : put_each)(
			&h, i, i + step < job->messages ? step : job->messages - i);
	if (!sends) {
		began = bench_now();
		do {
			hand_get(&h, job);
			got += h.n;
		} while (h.n);
		bench_must_be_all(job, got);
	}
	*out = bench_rate(job->messages, began);
}
