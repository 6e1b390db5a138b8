/*
 * The floor: the least that a C program with sqlite3 must do for the same rows, in the
 * same tables with the same indexes, as safe, in batches as large.  Everything is prepared
 * once, and nothing is checked, fenced, ordered, retried or copied.
 */
#include "bench.h"

#include <sqlite3.h>
#include <string.h>
#include <time.h>

#include "base/env.h"
#include "base/uuid.h"
#include "cli/bench.h"

enum { POLL_US = 1000000, GIVE_UP_US = 30000000 };

typedef struct raw {
	sqlite3 *db;
	sqlite3_stmt *begin, *commit, *read, *write;
} raw;

static void check(const raw *r, bool ok)
{
	if (!ok)
		bench_die("raw: %s", sqlite3_errmsg(r->db));
}

static sqlite3_stmt *prepare(const raw *r, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	check(r, sqlite3_prepare_v3(r->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt,
				    NULL) == SQLITE_OK);
	return stmt;
}

/* A relay of a log writes where it is, and nothing to rows. */
#define WRITE "UPDATE outbox_progress SET high = ?1 WHERE subscription = 'relay'"

/* With that statement to write. */
static raw raw_open(const bench_job *job, const char *write)
{
	const char *set = job->full
				  ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
				  : "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL";
	raw r = {.db = NULL};

	check(&r, sqlite3_open_v2(job->url + strlen("sqlite:"), &r.db,
				  SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
				  NULL) == SQLITE_OK &&
			  sqlite3_busy_timeout(r.db, 5000) == SQLITE_OK &&
			  sqlite3_exec(r.db, set, NULL, NULL, NULL) == SQLITE_OK);
	r.begin = prepare(&r, "BEGIN IMMEDIATE");
	r.commit = prepare(&r, "COMMIT");
	r.read = prepare(&r, "SELECT id, created_at, message_id, topic, aggregate_type, "
			     "aggregate_id, partition_key, headers, trace_id, payload "
			     "FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2");
	r.write = prepare(&r, write);
	return r;
}

/* Run a statement that gives no rows. */
static void run(const raw *r, sqlite3_stmt *stmt)
{
	check(r, sqlite3_step(stmt) == SQLITE_DONE && sqlite3_reset(stmt) == SQLITE_OK);
}

/* ---- drain ---- */

enum { FIRST_TEXT = 2, COLUMNS = 10 };

typedef struct batch {
	int64_t ids[BENCH_BATCH];
	int n;
	size_t bytes; /* fetched, so that it is not optimised away */
} batch;

/* Every column of the next rows: what a destination would be handed.  False: there are none. */
static bool read_batch(raw *r, batch *b)
{
	int64_t after = b->n ? b->ids[b->n - 1] : 0, sum = 0;
	int rc;

	b->n = 0;
	(void)sqlite3_bind_int64(r->read, 1, after);
	(void)sqlite3_bind_int64(r->read, 2, BENCH_BATCH);
	while ((rc = sqlite3_step(r->read)) == SQLITE_ROW) {
		b->ids[b->n++] = sqlite3_column_int64(r->read, 0);
		for (int i = 1; i < FIRST_TEXT; i++)
			sum += sqlite3_column_int64(r->read, i);
		for (int i = FIRST_TEXT; i < COLUMNS; i++) {
			const unsigned char *text = sqlite3_column_text(r->read, i);

			if (text)
				b->bytes += (size_t)sqlite3_column_bytes(r->read, i) +
					    (text[0] == 'x');
		}
	}
	b->bytes += (size_t)sum;
	check(r, sqlite3_reset(r->read) == SQLITE_OK && rc == SQLITE_DONE);
	return b->n > 0;
}

static void write_place(raw *r, int64_t id)
{
	(void)sqlite3_bind_int64(r->write, 1, id);
	run(r, r->write);
}

void bench_raw_drain(const bench_job *job, double *out)
{
	int64_t began = bench_now(), done = 0;
	static batch b;
	raw r = raw_open(job, WRITE);
	bench_pool *pool = job->handle ? bench_pool_open(job->work_us) : NULL;

	while (read_batch(&r, &b)) {
		if (pool)
			bench_pool_handle(pool, b.n);
		write_place(&r, b.ids[b.n - 1]);
		done += b.n;
	}
	out[0] = bench_rate(done, began);
	out[1] = bench_memory_mb();
	bench_must_be_all(job, b.bytes ? done : 0);
}

/* ---- a row for each message, and its acknowledgement, in one transaction ---- */

void bench_raw_step(const bench_job *job, double *out)
{
	int64_t began = bench_now(), done = 0;
	static batch b;
	raw r = raw_open(job, WRITE);
	sqlite3_stmt *insert;

	check(&r, sqlite3_exec(r.db, BENCH_HANDLED, NULL, NULL, NULL) == SQLITE_OK);
	insert = prepare(&r, "INSERT INTO handled VALUES (?1)");
	while (read_batch(&r, &b)) {
		for (int i = 0; i < b.n; i++, done++) {
			(void)sqlite3_bind_int64(insert, 1, b.ids[i]);
			run(&r, r.begin);
			run(&r, insert);
			write_place(&r, b.ids[i]);
			run(&r, r.commit);
		}
	}
	out[0] = bench_rate(done, began);
}

/* ---- enqueue ---- */

/* Cheap and good enough: ids need to be scattered as Wherry's are. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void insert(raw *r, const wherry_message *msg, uint64_t *random)
{
	char id[WH_UUID_LEN + 1];
	uint64_t high = next_random(random);

	wh_uuid7(wh_now(&wh_env_system) / 1000, high, next_random(random), id);
	(void)sqlite3_bind_text(r->write, 1, id, WH_UUID_LEN, SQLITE_STATIC);
	(void)sqlite3_bind_text(r->write, 2, msg->topic, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(r->write, 3, msg->key, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(r->write, 4, msg->body, (int)msg->body_len,
				SQLITE_STATIC);
	run(r, r->write);
}

/* One message alone needs no BEGIN: the statement is its own transaction. */
static void insert_some(raw *r, const bench_load *load, int64_t first, int64_t n,
			uint64_t *random)
{
	if (n > 1)
		run(r, r->begin);
	for (int64_t i = first; i < first + n; i++) {
		wherry_message msg = bench_load_get(load, i);

		insert(r, &msg, random);
	}
	if (n > 1)
		run(r, r->commit);
}

void bench_raw_enqueue(const bench_job *job, double *out)
{
	uint64_t random = wh_random(&wh_env_system) | 1;
	bench_load *load = bench_load_open(job);
	raw r = raw_open(job,
			 "INSERT INTO outbox(message_id, topic, partition_key, payload) "
			 "VALUES (?, ?, ?, ?)");
	int64_t began = bench_now(), n;

	for (int64_t i = 0; i < job->messages; i += n) {
		n = job->messages - i;
		if (n > job->per_transaction)
			n = job->per_transaction;
		insert_some(&r, load, i, n, &random);
	}
	out[0] = bench_rate(job->messages, began);
}

/* ---- latency: look without a pause whether anything was committed ---- */

static void take_rows(raw *r, wh_bench *b, int64_t *after, bool *all)
{
	(void)sqlite3_bind_int64(r->read, 1, *after);
	(void)sqlite3_bind_int64(r->read, 2, BENCH_BATCH);
	while (sqlite3_step(r->read) == SQLITE_ROW) {
		*after = sqlite3_column_int64(r->read, 0);
		*all = wh_bench_arrived(
			b, (const char *)sqlite3_column_text(r->read, COLUMNS - 1));
	}
	check(r, sqlite3_reset(r->read) == SQLITE_OK);
}

static wherry_code spin(wh_bench *b, wherry_error *err)
{
	const bench_job job = {.url = b->url, .full = true};
	int64_t seen = -1, version, after = 0, give_up = bench_now() + GIVE_UP_US;
	bool all = false;
	raw r = raw_open(&job, "PRAGMA data_version");

	atomic_store(&b->shared->ready, true);
	while (!all && !*b->shared->failure) {
		check(&r, sqlite3_step(r.write) == SQLITE_ROW);
		version = sqlite3_column_int64(r.write, 0);
		(void)sqlite3_reset(r.write);
		if (bench_now() > give_up)
			bench_die("raw: nothing came in time");
		if (version != seen)
			take_rows(&r, b, &after, &all);
		seen = version;
	}
	return WHERRY_OK;
}

void bench_raw_latency(const bench_job *job, double *out)
{
	bench_latency(job, spin, out);
}

/* ---- idle: a program that looks once a second ---- */

void bench_raw_idle(const bench_job *job, double *out)
{
	int64_t statements;
	static batch b;
	raw r;
	clock_t cpu;

	bench_watch_statements();
	r = raw_open(job, WRITE);
	while (read_batch(&r, &b)) /* the backlog goes unheeded: it is read once */
		;
	b.ids[0] = INT64_MAX - 1;
	statements = bench_statements();
	cpu = clock();
	for (int64_t i = 0; i < job->seconds; i++) {
		wh_sleep(&wh_env_system, POLL_US);
		b.n = 1;
		(void)read_batch(&r, &b);
	}
	out[0] = (double)(bench_statements() - statements) * 10 / (double)job->seconds;
	out[1] = (double)(clock() - cpu) * 100 / (double)CLOCKS_PER_SEC /
		 (double)job->seconds;
}
