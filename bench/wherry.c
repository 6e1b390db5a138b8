/*
 * Wherry's sides, through its public API.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <wherry/wherry.h>

#include "cli/bench.h"
#include "db/driver.h"
#include "outbox/outbox.h"

enum { SETTLE_US = 2000000, PROBES_LEAST = 20 };

void bench_set(wherry_config *config, const char *name, const char *value)
{
	bench_must(wherry_config_set(config, name, value, &bench_error));
}

wherry_config *bench_config(const bench_job *job)
{
	wherry_config *config = NULL;
	char number[24];

	bench_must(wherry_config_new(&config, &bench_error));
	bench_set(config, "db.synchronous", job->full ? "full" : "normal");
	if (job->wal)
		bench_set(config, "relay.source", "wal");
	if (job->batch) {
		(void)snprintf(number, sizeof(number), "%d", job->batch);
		bench_set(config, "relay.batch", number);
		(void)snprintf(number, sizeof(number), "%d", 4 * job->batch);
		bench_set(config, "relay.window", number);
	}
	if (job->to)
		bench_set(config, "webhook.connections", BENCH_CONNECTIONS_TEXT);
	return config;
}

wherry_db *bench_open(const bench_job *job, const wherry_config *config)
{
	wherry_db *db = NULL;

	bench_must(wherry_db_open(job->url, config, &db, &bench_error));
	return db;
}

/* ---- enqueue ---- */

static void enqueue(wherry_db *db, const bench_load *load, const bench_job *job)
{
	wherry_message *msgs = bench_alloc((size_t)job->per_transaction, sizeof(*msgs));
	wherry_outbox *outbox = NULL;

	bench_must(wherry_outbox_open(db, "outbox", &outbox, &bench_error));
	for (int64_t done = 0; done < job->messages;) {
		size_t n = 0;

		for (; n < (size_t)job->per_transaction && done < job->messages;
		     n++, done++)
			msgs[n] = bench_load_get(load, done);
		bench_must(n == 1 ? wherry_outbox_enqueue(outbox, msgs,
							  WHERRY_OWN_TRANSACTION, NULL,
							  &bench_error)
				  : wherry_outbox_enqueue_many(outbox, msgs, n,
							       WHERRY_OWN_TRANSACTION,
							       NULL, &bench_error));
	}
	wherry_outbox_close(outbox);
	free(msgs);
}

wherry_code bench_init(wherry_db *db, const char *table, bool stream, wherry_error *err)
{
	bool chooses = strcmp(db->driver->scheme, "sqlite") != 0;
	wh_make how = {.layout = stream ? "debezium" : NULL,
		       .payload = chooses && !stream ? "bytea" : NULL};

	return wh_outbox_make(db, &how, table, err);
}

void bench_wherry_enqueue(const bench_job *job, double *out)
{
	bench_load *load = bench_load_open(job);
	wherry_db *db = bench_open(job, bench_config(job));
	int64_t began = bench_now();

	enqueue(db, load, job);
	out[0] = bench_rate(job->messages, began);
}

void bench_make_backlog(const bench_job *job, double *out)
{
	bench_load *load = bench_load_open(job);
	wherry_config *config = bench_config(job);
	wherry_db *db;

	bench_set(config, "db.create", "on");
	db = bench_open(job, config);
	bench_must(bench_init(db, "outbox", job->stream, &bench_error));
	enqueue(db, load, job);
	wherry_db_close(db); /* which leaves one file: the log is written back */
}

/* ---- drain ---- */

int64_t bench_relay(wherry_relay *relay)
{
	wherry_relay_stats stats = {0};

	bench_must(wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, &bench_error));
	wherry_relay_get_stats(relay, &stats, sizeof(wherry_relay_stats));
	return stats.delivered;
}

void bench_wherry_drain(const bench_job *job, double *out)
{
	int64_t began = bench_now(), delivered;
	wherry_relay *relay = NULL;

	bench_must(wherry_relay_open(job->url, job->to ? job->to : "null:",
				     bench_config(job), &relay, &bench_error));
	delivered = bench_relay(relay);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	bench_must_be_all(job, delivered);
	wherry_relay_close(relay); /* before a server that it posts to */
}

/* ---- latency ---- */

void bench_latency(const bench_job *job,
		   wherry_code (*raw_take)(wh_bench *b, wherry_error *err), double *out)
{
	wh_bench b = {.consume = raw_take,
		      .messages = job->messages,
		      .rate = job->rate,
		      .url = job->url,
		      .config = bench_config(job)};

	b.probes = job->messages < PROBES_LEAST      ? PROBES_LEAST
		   : job->messages > WH_BENCH_PROBES ? WH_BENCH_PROBES
						     : job->messages;
	b.shared = mmap(NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bench_must(b.shared == MAP_FAILED ? wh_oom(&bench_error)
					  : wh_bench_latency(&b, &bench_error));
	out[0] = b.shared->p50_ms;
	out[1] = b.shared->p99_ms;
}

void bench_wherry_latency(const bench_job *job, double *out)
{
	bench_latency(job, NULL, out);
}

/* ---- idle ---- */

static void step_until(wherry_relay *relay, int64_t until_us)
{
	bool finished = false;

	while (wherry_relay_clock(relay) < until_us) {
		int64_t wake_us = 0;

		bench_must(wherry_relay_step(relay, &wake_us, &finished, &bench_error));
		wherry_relay_wait(relay, wake_us < until_us ? wake_us : until_us);
	}
}

/* A relay that has delivered its backlog, and then waits. */
void bench_wherry_idle(const bench_job *job, double *out)
{
	wherry_config *config = bench_config(job);
	wherry_relay *relay = NULL;
	int64_t statements;
	clock_t cpu;

	bench_watch_statements();
	/* The purge after the last delivery comes before we count. */
	bench_set(config, "relay.purge_every", "500ms");
	bench_must(wherry_relay_open(job->url, "null:", config, &relay, &bench_error));
	step_until(relay, wherry_relay_clock(relay) + SETTLE_US);
	statements = bench_statements();
	cpu = clock();
	step_until(relay, wherry_relay_clock(relay) + job->seconds * 1000000);
	out[0] = (double)(bench_statements() - statements) * 10 / (double)job->seconds;
	out[1] = (double)(clock() - cpu) * 100 / (double)CLOCKS_PER_SEC /
		 (double)job->seconds;
}
