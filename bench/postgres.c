/*
 * The floor on PostgreSQL: the least that a C program with libpq must do for the same rows,
 * in the same tables with the same indexes, as safe.  Everything is prepared once, rows come
 * in binary, and nothing is checked, fenced, ordered, retried or copied.
 */
#include "bench.h"

#include <endian.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "cli/bench.h"

enum { AT_ONCE = 1000, GIVE_UP_US = 30000000, INT8 = 20 };

static wherry_code libpq_fail(PGconn *conn, wherry_error *err)
{
	return wh_fail(err, WHERRY_IO, "libpq: %s", PQerrorMessage(conn));
}

wherry_code bench_libpq_check(PGconn *conn, PGresult *res, wherry_error *err)
{
	ExecStatusType status = PQresultStatus(res);
	wherry_code code = WHERRY_OK;

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		code = libpq_fail(conn, err);
	PQclear(res);
	return code;
}

static wherry_code run(PGconn *conn, const char *sql, wherry_error *err)
{
	return bench_libpq_check(conn, PQexec(conn, sql), err);
}

static wherry_code prepare(PGconn *conn, const char *name, const char *sql,
			   wherry_error *err)
{
	return bench_libpq_check(conn, PQprepare(conn, name, sql, 0, NULL), err);
}

static double number(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	double n = PQntuples(res) == 1 ? strtod(PQgetvalue(res, 0, 0), NULL) : -1;

	PQclear(res);
	return n;
}

static wherry_code libpq_open(const bench_job *job, PGconn **out, wherry_error *err)
{
	PGconn *conn = PQconnectdb(job->url);

	*out = conn;
	if (PQstatus(conn) != CONNECTION_OK)
		return libpq_fail(conn, err);
	return run(conn,
		   job->full ? "SET synchronous_commit = on"
			     : "SET synchronous_commit = off",
		   err);
}

/* ---- drain ---- */

typedef struct batch {
	int64_t last;
	int n;
	size_t bytes; /* fetched */
} batch;

static wherry_code read_batch(PGconn *conn, batch *b, wherry_error *err)
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
	return bench_libpq_check(conn, res, err);
}

static wherry_code write_batch(PGconn *conn, const batch *b, wherry_error *err)
{
	char last[24];
	const char *values[] = {last};

	(void)snprintf(last, sizeof(last), "%" PRId64, b->last);
	return bench_libpq_check(
		conn, PQexecPrepared(conn, "write", 1, values, NULL, NULL, 1), err);
}

static wherry_code drain(PGconn *conn, const bench_job *job, wherry_error *err)
{
	static batch b;
	int64_t done = 0;
	wherry_code code = prepare(
		conn, "read",
		"SELECT id, created_at, message_id, topic, aggregate_type, aggregate_id, "
		"partition_key, headers, trace_id, payload FROM outbox WHERE id > $1 "
		"ORDER BY id LIMIT 1000",
		err);

	if (code == WHERRY_OK)
		code = prepare(conn, "write",
			       "UPDATE outbox_progress SET high = $1::bigint "
			       "WHERE subscription = 'relay'",
			       err);
	while (code == WHERRY_OK) {
		code = read_batch(conn, &b, err);
		if (code != WHERRY_OK || !b.n)
			break;
		if (job->between)
			code = job->between(job->ctx, b.n, err);
		if (code == WHERRY_OK)
			code = write_batch(conn, &b, err);
		done += b.n;
	}
	if (code == WHERRY_OK && (done != job->messages || !b.bytes))
		code = wh_fail(err, WHERRY_INVALID, "libpq: %" PRId64 " of %" PRId64,
			       done, job->messages);
	return code;
}

wherry_code bench_libpq_drain(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	int64_t began = wh_monotonic(&wh_env_system);
	PGconn *conn;
	wherry_code code = libpq_open(job, &conn, err);

	if (code == WHERRY_OK)
		code = drain(conn, job, err);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	PQfinish(conn);
	return code;
}

/* ---- what a drain costs the server ---- */

#define WAL "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"

/* A reader's snapshot, and a writer that has taken an id: neither ends. */
static wherry_code crowd(const bench_job *job, PGconn *others[2], wherry_error *err)
{
	wherry_code code = libpq_open(job, &others[0], err);

	if (code == WHERRY_OK)
		code = libpq_open(job, &others[1], err);
	if (code == WHERRY_OK)
		code = run(others[0],
			   "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM "
			   "outbox WHERE id < 10",
			   err);
	if (code == WHERRY_OK)
		code = run(others[1],
			   "BEGIN; INSERT INTO outbox(topic, payload) VALUES ('t', '{}')",
			   err);
	return code;
}

wherry_code bench_watch_drain(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	PGconn *watch = NULL, *others[2] = {NULL, NULL};
	wherry_code code = libpq_open(job, &watch, err);
	double wal = 0;

	if (code == WHERRY_OK && job->crowded)
		code = crowd(job, others, err);
	if (code == WHERRY_OK)
		wal = number(watch, WAL);
	if (code == WHERRY_OK)
		code = job->bare ? bench_libpq_drain(job, out, err)
				 : bench_wherry_drain(job, out, err);
	out[2] = (number(watch, WAL) - wal) / (double)job->messages;
	for (int i = 0; i < 2; i++)
		PQfinish(others[i]);
	PQfinish(watch);
	return code;
}

/* ---- producers ---- */

#define COLUMNS "(topic, partition_key, payload)"
#define BARE                                                                             \
	"CREATE TABLE bare (LIKE outbox INCLUDING DEFAULTS INCLUDING IDENTITY "          \
	"INCLUDING CONSTRAINTS); ALTER TABLE bare ADD PRIMARY KEY (id)"

static wherry_code insert_one(PGconn *conn, const wherry_message *msg, wherry_error *err)
{
	const char *values[] = {msg->topic, msg->key, msg->body};
	const int lengths[] = {0, 0, (int)msg->body_len};
	static const int formats[] = {0, 0, 1};

	return bench_libpq_check(
		conn, PQexecPrepared(conn, "insert", 3, values, lengths, formats, 1),
		err);
}

static wherry_code insert_all(PGconn *conn, const bench_job *job, const bench_load *load,
			      wherry_error *err)
{
	bool several = job->per_transaction > 1;
	wherry_code code = WHERRY_OK;

	for (int64_t i = 0; code == WHERRY_OK && i < job->messages; i++) {
		wherry_message msg = bench_load_get(load, i);

		if (several && i % job->per_transaction == 0)
			code = run(conn, i ? "COMMIT; BEGIN" : "BEGIN", err);
		if (code == WHERRY_OK)
			code = insert_one(conn, &msg, err);
	}
	return code == WHERRY_OK && several ? run(conn, "COMMIT", err) : code;
}

enum { RELAYS_MOST = 10 };

/* The i-th relay beside.  The first is the outbox's own; each other has a new subscription. */
static pid_t start_relay(const bench_job *job, int i)
{
	pid_t pid = fork();
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;
	wherry_db *db = NULL;
	char name[24], url[400];

	if (pid != 0)
		return pid;
	(void)snprintf(name, sizeof(name), "other-%d", i);
	(void)snprintf(url, sizeof(url), i ? "%s#outbox/%s" : "%s", job->url, name);
	/* The first purge comes soon, so that none is counted later. */
	if ((i &&
	     (wherry_db_open(job->url, NULL, &db, &err) != WHERRY_OK ||
	      wherry_subscription_create(db, "outbox", name, NULL, &err) != WHERRY_OK)) ||
	    wherry_config_new(&config, &err) != WHERRY_OK ||
	    wherry_config_set(config, "relay.purge_every", "500ms", &err) != WHERRY_OK ||
	    wherry_relay_open(url, "null:", config, &relay, &err) != WHERRY_OK ||
	    wherry_relay_run(relay, 0, NULL, &err) != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	_exit(1);
}

static void stop_relays(const pid_t *relays, int n)
{
	for (int i = 0; i < n; i++) {
		(void)kill(relays[i], SIGKILL);
		(void)waitpid(relays[i], NULL, 0);
	}
}

/* Write one message at a time until each relay has one of them behind it. */
static wherry_code wake_all(PGconn *conn, const bench_job *job, const bench_load *load,
			    wherry_error *err)
{
	int64_t give_up = wh_monotonic(&wh_env_system) + GIVE_UP_US;
	wherry_code code = WHERRY_OK;

	for (int i = 0; code == WHERRY_OK && job->relays; i++) {
		wherry_message msg = bench_load_get(load, i % job->messages);

		code = insert_one(conn, &msg, err);
		if (i >= 200 && number(conn, "SELECT count(*) FROM outbox_progress "
					     "WHERE high > 0") >= job->relays)
			break;
		if (wh_monotonic(&wh_env_system) > give_up)
			return wh_fail(err, WHERRY_IO, "a relay did not begin in time");
	}
	return code;
}

/* Relays read meanwhile; they are awake when the clock starts. */
wherry_code bench_libpq_enqueue(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err)
{
	pid_t relays[RELAYS_MOST];
	bench_load *load = NULL;
	int64_t began;
	PGconn *conn;
	wherry_code code = libpq_open(job, &conn, err);

	for (int i = 0; i < job->relays; i++)
		relays[i] = start_relay(job, i);
	if (code == WHERRY_OK)
		code = bench_load_open(job, &load, err);
	if (code == WHERRY_OK && job->asleep)
		code = run(conn, "ALTER TABLE outbox DISABLE TRIGGER USER", err);
	if (code == WHERRY_OK)
		code = prepare(conn, "insert",
			       "INSERT INTO outbox" COLUMNS " VALUES ($1, $2, $3)", err);
	if (code == WHERRY_OK)
		code = wake_all(conn, job, load, err);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = insert_all(conn, job, load, err);
	out[0] = bench_rate(job->messages, began);
	stop_relays(relays, job->relays);
	PQfinish(conn);
	bench_load_close(load);
	return code;
}

/* Many rows by one statement: what indexes and triggers cost, and nothing else. */
wherry_code bench_libpq_fill(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err)
{
	char sql[300];
	int64_t began;
	PGconn *conn;
	wherry_code code = libpq_open(job, &conn, err);

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO %s" COLUMNS " SELECT 'quakes', 'key-' || i %% 1000, "
		       "convert_to(repeat('earth ', 33), 'UTF8') "
		       "FROM generate_series(1, 1000) AS i",
		       job->bare ? "bare" : "outbox");
	if (code == WHERRY_OK && job->bare)
		code = run(conn, BARE, err);
	if (code == WHERRY_OK)
		code = prepare(conn, "fill", sql, err);
	began = wh_monotonic(&wh_env_system);
	for (int64_t i = 0; code == WHERRY_OK && i < job->messages; i += 1000)
		code = bench_libpq_check(
			conn, PQexecPrepared(conn, "fill", 0, NULL, NULL, NULL, 1), err);
	out[0] = bench_rate(job->messages, began);
	PQfinish(conn);
	return code;
}

/* ---- latency: look without a pause ---- */

static wherry_code spin(wh_bench *b, wherry_error *err)
{
	const bench_job job = {.url = b->url, .full = true};
	int64_t give_up = wh_monotonic(&wh_env_system) + GIVE_UP_US;
	char after[24] = "0";
	bool all = false;
	PGconn *conn;
	wherry_code code = libpq_open(&job, &conn, err);

	if (code == WHERRY_OK)
		code = prepare(conn, "look",
			       "SELECT id, convert_from(payload, 'UTF8') FROM outbox "
			       "WHERE id > $1 ORDER BY id LIMIT 100",
			       err);
	atomic_store(&b->shared->ready, true);
	while (code == WHERRY_OK && !all && !*b->shared->failure) {
		const char *values[] = {after};
		PGresult *res = PQexecPrepared(conn, "look", 1, values, NULL, NULL, 0);

		for (int i = 0; i < PQntuples(res); i++) {
			all = wh_bench_arrived(b, PQgetvalue(res, i, 1));
			(void)snprintf(after, sizeof(after), "%s", PQgetvalue(res, i, 0));
		}
		code = bench_libpq_check(conn, res, err);
		if (wh_monotonic(&wh_env_system) > give_up)
			code = wh_fail(err, WHERRY_IO, "libpq: nothing came in time");
	}
	PQfinish(conn);
	return code;
}

wherry_code bench_libpq_latency(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err)
{
	return bench_latency(job, spin, out, err);
}

/* ---- idle: the server counts ---- */

#define TRANSACTIONS                                                                     \
	"SELECT xact_commit + xact_rollback FROM pg_stat_database "                      \
	"WHERE datname = current_database()"

/* A relay in a process of its own, asleep; what it asks is a transaction each time.  The
 * server tells of those ten seconds late at most; the question itself is one, too. */
wherry_code bench_watch_idle(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err)
{
	enum { SETTLE_US = 25000000 }; /* what it did at first is counted late */
	pid_t relay = start_relay(job, 0);
	double before = 0, after = 0;
	PGconn *watch;
	wherry_code code = libpq_open(job, &watch, err);

	wh_sleep(&wh_env_system, SETTLE_US);
	if (code == WHERRY_OK)
		before = number(watch, TRANSACTIONS);
	wh_sleep(&wh_env_system, job->seconds * WH_SECOND);
	if (code == WHERRY_OK)
		after = number(watch, TRANSACTIONS);
	/* One of these is the first question's own. */
	out[0] = (after - before - 1) * 60 / (double)job->seconds;
	stop_relays(&relay, 1);
	PQfinish(watch);
	return code;
}
