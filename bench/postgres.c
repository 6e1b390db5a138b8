/*
 * The floor on PostgreSQL: the least that a C program with libpq must do for the same rows,
 * in the same tables with the same indexes, as safe.  Everything is prepared once, rows come
 * in binary, and nothing is checked, fenced, ordered, retried or copied.
 */
#include "bench.h"

#include <endian.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "cli/bench.h"

enum { GIVE_UP_US = 30000000 };

static _Noreturn void libpq_die(PGconn *conn)
{
	bench_die("libpq: %s", PQerrorMessage(conn));
}

void bench_libpq_check(PGconn *conn, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		libpq_die(conn);
	PQclear(res);
}

void bench_libpq_run(PGconn *conn, const char *sql)
{
	bench_libpq_check(conn, PQexec(conn, sql));
}

void bench_libpq_prepare(PGconn *conn, const char *name, const char *sql)
{
	bench_libpq_check(conn, PQprepare(conn, name, sql, 0, NULL));
}

PGconn *bench_libpq_open(const char *url)
{
	PGconn *conn = PQconnectdb(url);

	if (PQstatus(conn) != CONNECTION_OK)
		libpq_die(conn);
	return conn;
}

static double number(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	double n = PQntuples(res) == 1 ? strtod(PQgetvalue(res, 0, 0), NULL) : -1;

	PQclear(res);
	return n;
}

static PGconn *libpq_open(const bench_job *job)
{
	PGconn *conn = bench_libpq_open(job->url);

	bench_libpq_run(conn, job->full ? "SET synchronous_commit = on"
					: "SET synchronous_commit = off");
	return conn;
}

/* ---- drain ---- */

typedef struct batch {
	int64_t last;
	int n;
	size_t bytes; /* fetched */
} batch;

static bool read_batch(PGconn *conn, batch *b)
{
	uint64_t after = htobe64((uint64_t)b->last);
	const char *values[] = {(const char *)&after};
	static const int lengths[] = {8}, formats[] = {1};
	PGresult *res = PQexecPrepared(conn, "read", 1, values, lengths, formats, 1);

	b->n = PQntuples(res);
	for (int i = 0; i < b->n; i++) {
		uint64_t id;

		memcpy(&id, PQgetvalue(res, i, 0), sizeof(id));
		b->last = (int64_t)be64toh(id);
		for (int j = 1; j < PQnfields(res); j++)
			b->bytes += (size_t)PQgetlength(res, i, j);
	}
	bench_libpq_check(conn, res);
	return b->n > 0;
}

static void write_batch(PGconn *conn, const batch *b)
{
	char last[24];
	const char *values[] = {last};

	(void)snprintf(last, sizeof(last), "%" PRId64, b->last);
	bench_libpq_check(conn, PQexecPrepared(conn, "write", 1, values, NULL, NULL, 1));
}

void bench_libpq_drain(const bench_job *job, double *out)
{
	static batch b;
	int64_t began = bench_now(), done = 0;
	PGconn *conn = libpq_open(job);

	bench_libpq_prepare(
		conn, "read",
		"SELECT id, created_at, message_id, topic, aggregate_type, aggregate_id, "
		"partition_key, headers, trace_id, payload FROM outbox WHERE id > $1 "
		"ORDER BY id LIMIT 1000");
	bench_libpq_prepare(conn, "write",
			    "UPDATE outbox_progress SET high = $1::bigint "
			    "WHERE subscription = 'relay'");
	while (read_batch(conn, &b)) {
		if (job->between)
			job->between(job->ctx, b.n);
		write_batch(conn, &b);
		done += b.n;
	}
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	bench_must_be_all(job, b.bytes ? done : 0);
	PQfinish(conn);
}

/* ---- what a drain costs the server ---- */

#define WAL "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"

/* A reader's snapshot, and a writer that has taken an id: neither ends. */
static void crowd(const bench_job *job)
{
	bench_libpq_run(libpq_open(job),
			"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM "
			"outbox WHERE id < 10");
	bench_libpq_run(libpq_open(job),
			"BEGIN; INSERT INTO outbox(topic, payload) VALUES ('t', '{}')");
}

void bench_watch_drain(const bench_job *job, double *out)
{
	PGconn *watch = libpq_open(job);
	double wal;

	if (job->crowded)
		crowd(job);
	wal = number(watch, WAL);
	if (job->bare)
		bench_libpq_drain(job, out);
	else
		bench_wherry_drain(job, out);
	out[2] = (number(watch, WAL) - wal) / (double)job->messages;
}

/* ---- producers ---- */

#define COLUMNS "(topic, partition_key, payload)"
#define BARE                                                                             \
	"CREATE TABLE bare (LIKE outbox INCLUDING DEFAULTS INCLUDING IDENTITY "          \
	"INCLUDING CONSTRAINTS); ALTER TABLE bare ADD PRIMARY KEY (id)"

static void insert_one(PGconn *conn, const bench_load *load, int64_t i)
{
	wherry_message msg = bench_load_get(load, i);
	const char *values[] = {msg.topic, msg.key, msg.body};
	const int lengths[] = {0, 0, (int)msg.body_len};
	static const int formats[] = {0, 0, 1};

	bench_libpq_check(conn,
			  PQexecPrepared(conn, "insert", 3, values, lengths, formats, 1));
}

enum { RELAYS_MOST = 10 };

/* The i-th relay beside.  The first is the outbox's own; each other has a new subscription. */
static pid_t start_relay(const bench_job *job, int i)
{
	pid_t pid = bench_fork();
	wherry_config *config;
	wherry_relay *relay = NULL;
	char name[24], url[400];

	if (pid != 0)
		return pid;
	(void)snprintf(name, sizeof(name), "other-%d", i);
	(void)snprintf(url, sizeof(url), i ? "%s#outbox/%s" : "%s", job->url, name);
	if (i)
		bench_must(wherry_subscription_create(bench_open(job, NULL), "outbox",
						      name, NULL, &bench_error));
	config = bench_config(&(bench_job){.full = true});
	/* The first purge comes soon, so that none is counted later. */
	bench_set(config, "relay.purge_every", "500ms");
	bench_must(wherry_relay_open(url, "null:", config, &relay, &bench_error));
	bench_must(wherry_relay_run(relay, 0, NULL, &bench_error));
	_exit(1);
}

/* Write one message at a time until each relay has one of them behind it. */
static void wake_all(PGconn *conn, const bench_job *job, const bench_load *load)
{
	int64_t give_up = bench_now() + GIVE_UP_US;

	for (int i = 0; job->relays; i++) {
		insert_one(conn, load, i % job->messages);
		if (i >= 200 && number(conn, "SELECT count(*) FROM outbox_progress "
					     "WHERE high > 0") >= job->relays)
			break;
		if (bench_now() > give_up)
			bench_die("a relay did not begin in time");
	}
}

/* Relays read meanwhile; they are awake when the clock starts. */
void bench_libpq_enqueue(const bench_job *job, double *out)
{
	pid_t relays[RELAYS_MOST] = {0};
	bench_load *load = bench_load_open(job);
	bool several = job->per_transaction > 1;
	PGconn *conn = libpq_open(job);
	int64_t began;

	for (int i = 0; i < job->relays; i++)
		relays[i] = start_relay(job, i);
	if (job->asleep)
		bench_libpq_run(conn, "ALTER TABLE outbox DISABLE TRIGGER USER");
	bench_libpq_prepare(conn, "insert",
			    "INSERT INTO outbox" COLUMNS " VALUES ($1, $2, $3)");
	wake_all(conn, job, load);
	began = bench_now();
	for (int64_t i = 0; i < job->messages; i++) {
		if (several && i % job->per_transaction == 0)
			bench_libpq_run(conn, i ? "COMMIT; BEGIN" : "BEGIN");
		insert_one(conn, load, i);
	}
	if (several)
		bench_libpq_run(conn, "COMMIT");
	out[0] = bench_rate(job->messages, began);
	for (int i = 0; i < job->relays; i++)
		bench_kill(relays[i]);
}

/* Many rows by one statement: what indexes and triggers cost, and nothing else. */
void bench_libpq_fill(const bench_job *job, double *out)
{
	char sql[300];
	int64_t began;
	PGconn *conn = libpq_open(job);

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO %s" COLUMNS " SELECT 'quakes', 'key-' || i %% 1000, "
		       "convert_to(repeat('earth ', 33), 'UTF8') "
		       "FROM generate_series(1, 1000) AS i",
		       job->bare ? "bare" : "outbox");
	if (job->bare)
		bench_libpq_run(conn, BARE);
	bench_libpq_prepare(conn, "fill", sql);
	began = bench_now();
	for (int64_t i = 0; i < job->messages; i += 1000)
		bench_libpq_check(conn,
				  PQexecPrepared(conn, "fill", 0, NULL, NULL, NULL, 1));
	out[0] = bench_rate(job->messages, began);
}

/* ---- latency: look without a pause ---- */

static wherry_code spin(wh_bench *b, wherry_error *err)
{
	const bench_job job = {.url = b->url, .full = true};
	int64_t give_up = bench_now() + GIVE_UP_US;
	char after[24] = "0";
	bool all = false;
	PGconn *conn = libpq_open(&job);

	bench_libpq_prepare(conn, "look",
			    "SELECT id, convert_from(payload, 'UTF8') FROM outbox "
			    "WHERE id > $1 ORDER BY id LIMIT 100");
	atomic_store(&b->shared->ready, true);
	while (!all && !*b->shared->failure) {
		const char *values[] = {after};
		PGresult *res = PQexecPrepared(conn, "look", 1, values, NULL, NULL, 0);

		for (int i = 0; i < PQntuples(res); i++) {
			all = wh_bench_arrived(b, PQgetvalue(res, i, 1));
			(void)snprintf(after, sizeof(after), "%s", PQgetvalue(res, i, 0));
		}
		bench_libpq_check(conn, res);
		if (bench_now() > give_up)
			bench_die("libpq: nothing came in time");
	}
	return WHERRY_OK;
}

void bench_libpq_latency(const bench_job *job, double *out)
{
	bench_latency(job, spin, out);
}

/* ---- idle: the server counts ---- */

#define TRANSACTIONS                                                                     \
	"SELECT xact_commit + xact_rollback FROM pg_stat_database "                      \
	"WHERE datname = current_database()"

/* A relay in a process of its own, asleep; what it asks is a transaction each time.  The
 * server tells of those ten seconds late at most; the question itself is one, too. */
void bench_watch_idle(const bench_job *job, double *out)
{
	enum { SETTLE_US = 25000000 }; /* what it did at first is counted late */
	pid_t relay = start_relay(job, 0);
	PGconn *watch = libpq_open(job);
	double before;

	wh_sleep(&wh_env_system, SETTLE_US);
	before = number(watch, TRANSACTIONS);
	wh_sleep(&wh_env_system, job->seconds * WH_SECOND);
	/* One of these is the first question's own. */
	out[0] = (number(watch, TRANSACTIONS) - before - 1) * 60 / (double)job->seconds;
	bench_kill(relay);
}
