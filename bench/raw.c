/*
 * The floor: the least that a C program with sqlite3 must do for the same rows, in the
 * same tables with the same indexes, as safe, in batches as large.  Everything is prepared
 * once, and nothing is checked, fenced, ordered, retried or copied.
 */
#include "bench.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
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

static wherry_code raw_fail(const raw *r, wherry_error *err)
{
	return wh_fail(err, WHERRY_IO, "raw: %s", sqlite3_errmsg(r->db));
}

static sqlite3_stmt *prepare(raw *r, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	(void)sqlite3_prepare_v3(r->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
	return stmt;
}

/* A relay of a log writes where it is, and nothing to rows. */
#define WRITE "UPDATE outbox_progress SET high = ?1 WHERE subscription = 'relay'"

static wherry_code raw_open(const bench_job *job, raw *r, wherry_error *err)
{
	const char *set = job->full
				  ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
				  : "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL";

	if (sqlite3_open_v2(job->url + strlen("sqlite:"), &r->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK ||
	    sqlite3_busy_timeout(r->db, 5000) != SQLITE_OK ||
	    sqlite3_exec(r->db, set, NULL, NULL, NULL) != SQLITE_OK)
		return raw_fail(r, err);
	r->begin = prepare(r, "BEGIN IMMEDIATE");
	r->commit = prepare(r, "COMMIT");
	r->read = prepare(r, "SELECT id, created_at, message_id, topic, aggregate_type, "
			     "aggregate_id, partition_key, headers, trace_id, payload "
			     "FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2");
	return r->begin && r->commit && r->read ? WHERRY_OK : raw_fail(r, err);
}

static void raw_close(raw *r)
{
	(void)sqlite3_finalize(r->begin);
	(void)sqlite3_finalize(r->commit);
	(void)sqlite3_finalize(r->read);
	(void)sqlite3_finalize(r->write);
	(void)sqlite3_close(r->db);
}

/* Run a statement that gives no rows. */
static bool run(sqlite3_stmt *stmt)
{
	return sqlite3_step(stmt) == SQLITE_DONE && sqlite3_reset(stmt) == SQLITE_OK;
}

/* ---- drain ---- */

enum { FIRST_TEXT = 2, COLUMNS = 10 };

typedef struct batch {
	int64_t ids[BENCH_BATCH];
	int n;
	size_t bytes; /* fetched, so that it is not optimised away */
} batch;

/* Every column of the next rows: what a destination would be handed. */
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
	return sqlite3_reset(r->read) == SQLITE_OK && rc == SQLITE_DONE;
}

static bool write_place(raw *r, int64_t id)
{
	(void)sqlite3_bind_int64(r->write, 1, id);
	return run(r->write);
}

wherry_code bench_raw_drain(const bench_job *job, double out[BENCH_VALUES],
			    wherry_error *err)
{
	int64_t began = wh_monotonic(&wh_env_system), done = 0;
	static batch b;
	bench_pool *pool = NULL;
	raw r = {.db = NULL};
	bool ok = true;
	wherry_code code = raw_open(job, &r, err);

	if (code == WHERRY_OK && !(r.write = prepare(&r, WRITE)))
		code = raw_fail(&r, err);
	if (code == WHERRY_OK && job->handle && !(pool = bench_pool_open(job->work_us)))
		code = wh_oom(err);
	while (code == WHERRY_OK && ok) {
		ok = read_batch(&r, &b);
		if (!ok || !b.n)
			break;
		if (pool)
			bench_pool_handle(pool, b.n);
		ok = write_place(&r, b.ids[b.n - 1]);
		done += b.n;
	}
	out[0] = bench_rate(done, began);
	out[1] = bench_memory_mb();
	if (!ok)
		code = raw_fail(&r, err);
	if (code == WHERRY_OK && (done != job->messages || !b.bytes))
		code = wh_fail(err, WHERRY_INVALID, "raw: %" PRId64 " of %" PRId64, done,
			       job->messages);
	bench_pool_close(pool);
	raw_close(&r);
	return code;
}

/* ---- a row for each message, and its acknowledgement, in one transaction ---- */

static bool step_batch(raw *r, sqlite3_stmt *insert, const batch *b)
{
	for (int i = 0; i < b->n; i++) {
		(void)sqlite3_bind_int64(insert, 1, b->ids[i]);
		if (!run(r->begin) || !run(insert) || !write_place(r, b->ids[i]) ||
		    !run(r->commit))
			return false;
	}
	return true;
}

wherry_code bench_raw_step(const bench_job *job, double out[BENCH_VALUES],
			   wherry_error *err)
{
	int64_t began = wh_monotonic(&wh_env_system), done = 0;
	sqlite3_stmt *insert = NULL;
	static batch b;
	raw r = {.db = NULL};
	bool ok = true;
	wherry_code code = raw_open(job, &r, err);

	if (code == WHERRY_OK &&
	    (sqlite3_exec(r.db, BENCH_HANDLED, NULL, NULL, NULL) != SQLITE_OK ||
	     !(r.write = prepare(&r, WRITE)) ||
	     !(insert = prepare(&r, "INSERT INTO handled VALUES (?1)"))))
		code = raw_fail(&r, err);
	while (code == WHERRY_OK && ok) {
		ok = read_batch(&r, &b);
		if (!ok || !b.n)
			break;
		ok = step_batch(&r, insert, &b);
		done += b.n;
	}
	out[0] = bench_rate(done, began);
	if (!ok)
		code = raw_fail(&r, err);
	(void)sqlite3_finalize(insert);
	raw_close(&r);
	return code;
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

static bool insert(raw *r, const wherry_message *msg, uint64_t *random)
{
	char id[WH_UUID_LEN + 1];
	uint64_t high = next_random(random);

	wh_uuid7(wh_now(&wh_env_system) / 1000, high, next_random(random), id);
	(void)sqlite3_bind_text(r->write, 1, id, WH_UUID_LEN, SQLITE_STATIC);
	(void)sqlite3_bind_text(r->write, 2, msg->topic, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(r->write, 3, msg->key, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(r->write, 4, msg->body, (int)msg->body_len,
				SQLITE_STATIC);
	return run(r->write);
}

/* One message alone needs no BEGIN: the statement is its own transaction. */
static bool insert_some(raw *r, const bench_load *load, int64_t first, int64_t n,
			uint64_t *random)
{
	if (n > 1 && !run(r->begin))
		return false;
	for (int64_t i = first; i < first + n; i++) {
		wherry_message msg = bench_load_get(load, i);

		if (!insert(r, &msg, random))
			return false;
	}
	return n == 1 || run(r->commit);
}

wherry_code bench_raw_enqueue(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	uint64_t random = wh_random(&wh_env_system) | 1;
	bench_load *load = NULL;
	raw r = {.db = NULL};
	int64_t began, n;
	bool ok = true;
	wherry_code code = raw_open(job, &r, err);

	if (code == WHERRY_OK)
		code = bench_load_open(job, &load, err);
	if (code == WHERRY_OK &&
	    !(r.write = prepare(&r, "INSERT INTO outbox(message_id, topic, "
				    "partition_key, payload) VALUES (?, ?, ?, ?)")))
		code = raw_fail(&r, err);
	began = wh_monotonic(&wh_env_system);
	for (int64_t i = 0; code == WHERRY_OK && ok && i < job->messages; i += n) {
		n = job->messages - i;
		if (n > job->per_transaction)
			n = job->per_transaction;
		ok = insert_some(&r, load, i, n, &random);
	}
	out[0] = bench_rate(job->messages, began);
	if (!ok)
		code = raw_fail(&r, err);
	raw_close(&r);
	bench_load_close(load);
	return code;
}

/* ---- latency: look without a pause whether anything was committed ---- */

static bool take_rows(raw *r, wh_bench *b, int64_t *after, bool *all)
{
	(void)sqlite3_bind_int64(r->read, 1, *after);
	(void)sqlite3_bind_int64(r->read, 2, BENCH_BATCH);
	while (sqlite3_step(r->read) == SQLITE_ROW) {
		*after = sqlite3_column_int64(r->read, 0);
		*all = wh_bench_arrived(
			b, (const char *)sqlite3_column_text(r->read, COLUMNS - 1));
	}
	return sqlite3_reset(r->read) == SQLITE_OK;
}

static wherry_code spin(wh_bench *b, wherry_error *err)
{
	const bench_job job = {.url = b->url, .full = true};
	int64_t seen = -1, version = 0, after = 0,
		give_up = wh_monotonic(&wh_env_system) + GIVE_UP_US;
	bool all = false, ok = true;
	raw r = {.db = NULL};
	wherry_code code = raw_open(&job, &r, err);

	if (code == WHERRY_OK && !(r.write = prepare(&r, "PRAGMA data_version")))
		code = raw_fail(&r, err);
	atomic_store(&b->shared->ready, true);
	while (code == WHERRY_OK && ok && !all && !*b->shared->failure) {
		ok = sqlite3_step(r.write) == SQLITE_ROW;
		version = sqlite3_column_int64(r.write, 0);
		(void)sqlite3_reset(r.write);
		if (wh_monotonic(&wh_env_system) > give_up)
			code = wh_fail(err, WHERRY_IO, "raw: nothing came in time");
		if (!ok || version == seen)
			continue;
		seen = version;
		ok = take_rows(&r, b, &after, &all);
	}
	if (!ok)
		code = raw_fail(&r, err);
	raw_close(&r);
	return code;
}

wherry_code bench_raw_latency(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	return bench_latency(job, spin, out, err);
}

/* ---- idle: a program that looks once a second ---- */

wherry_code bench_raw_idle(const bench_job *job, double out[BENCH_VALUES],
			   wherry_error *err)
{
	int64_t statements;
	static batch b;
	raw r = {.db = NULL};
	clock_t cpu;
	bool ok = true;
	wherry_code code;

	bench_watch_statements();
	code = raw_open(job, &r, err);
	while (code == WHERRY_OK && ok) { /* the backlog goes unheeded: it is read once */
		ok = read_batch(&r, &b);
		if (!b.n)
			break;
	}
	b.n = 1;
	b.ids[0] = INT64_MAX - 1;
	statements = bench_statements();
	cpu = clock();
	for (int64_t i = 0; code == WHERRY_OK && ok && i < job->seconds; i++) {
		wh_sleep(&wh_env_system, POLL_US);
		ok = read_batch(&r, &b);
		b.n = 1;
	}
	out[0] = (double)(bench_statements() - statements) * 10 / (double)job->seconds;
	out[1] = (double)(clock() - cpu) * 100 / (double)CLOCKS_PER_SEC /
		 (double)job->seconds;
	if (!ok)
		code = raw_fail(&r, err);
	raw_close(&r);
	return code;
}
