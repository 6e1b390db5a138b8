/*
 * Wherry's sides, through its public API.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "cli/bench.h"
#include "db/driver.h"
#include "outbox/outbox.h"

enum { SETTLE_US = 2000000, PROBES_LEAST = 20 };

typedef struct session {
	wherry_config *config;
	wherry_db *db;
	wherry_outbox *outbox;
	const char *url;
} session;

static wherry_code set_batch(const bench_job *job, session *s, wherry_error *err)
{
	char batch[24], window[24];
	wherry_code code;

	(void)snprintf(batch, sizeof(batch), "%d", job->batch);
	(void)snprintf(window, sizeof(window), "%d", 4 * job->batch);
	code = wherry_config_set(s->config, "relay.batch", batch, err);
	if (code == WHERRY_OK)
		code = wherry_config_set(s->config, "relay.window", window, err);
	return code;
}

static wherry_code set(const bench_job *job, session *s, wherry_error *err)
{
	wherry_code code = wherry_config_new(&s->config, err);

	s->url = job->url;
	if (code == WHERRY_OK)
		code = wherry_config_set(s->config, "db.synchronous",
					 job->full ? "full" : "normal", err);
	if (code == WHERRY_OK && job->wal)
		code = wherry_config_set(s->config, "relay.source", "wal", err);
	if (code == WHERRY_OK && job->batch)
		code = set_batch(job, s, err);
	if (code == WHERRY_OK && job->to)
		code = wherry_config_set(s->config, "webhook.connections",
					 BENCH_CONNECTIONS_TEXT, err);
	return code;
}

static wherry_code open_outbox(session *s, wherry_error *err)
{
	wherry_code code = wherry_db_open(s->url, s->config, &s->db, err);

	return code == WHERRY_OK ? wherry_outbox_open(s->db, "outbox", &s->outbox, err)
				 : code;
}

static void close_session(session *s)
{
	wherry_outbox_close(s->outbox);
	wherry_db_close(s->db);
	wherry_config_free(s->config);
}

/* ---- enqueue ---- */

static wherry_code enqueue(wherry_outbox *outbox, const bench_load *load,
			   int64_t messages, int64_t per_transaction, wherry_error *err)
{
	wherry_message *msgs = calloc((size_t)per_transaction, sizeof(*msgs));
	wherry_code code = msgs ? WHERRY_OK : wh_oom(err);

	for (int64_t done = 0; code == WHERRY_OK && done < messages;) {
		size_t n = 0;

		for (; n < (size_t)per_transaction && done < messages; n++, done++)
			msgs[n] = bench_load_get(load, done);
		code = n == 1 ? wherry_outbox_enqueue(outbox, msgs,
						      WHERRY_OWN_TRANSACTION, NULL, err)
			      : wherry_outbox_enqueue_many(outbox, msgs, n,
							   WHERRY_OWN_TRANSACTION, NULL,
							   err);
	}
	free(msgs);
	return code;
}

wherry_code bench_init(wherry_db *db, const char *table, bool stream, wherry_error *err)
{
	bool chooses = strcmp(db->driver->scheme, "sqlite") != 0;
	wh_make how = {.layout = stream ? "debezium" : NULL,
		       .payload = chooses && !stream ? "bytea" : NULL};

	return wh_outbox_make(db, &how, table, err);
}

wherry_code bench_wherry_enqueue(const bench_job *job, double out[BENCH_VALUES],
				 wherry_error *err)
{
	session s = {.config = NULL};
	bench_load *load = NULL;
	int64_t began = 0;
	wherry_code code = set(job, &s, err);

	if (code == WHERRY_OK)
		code = bench_load_open(job, &load, err);
	if (code == WHERRY_OK)
		code = open_outbox(&s, err);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = enqueue(s.outbox, load, job->messages, job->per_transaction, err);
	out[0] = bench_rate(job->messages, began);
	close_session(&s);
	bench_load_close(load);
	return code;
}

wherry_code bench_make_backlog(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	session s = {.config = NULL};
	bench_load *load = NULL;
	wherry_code code = set(job, &s, err);

	(void)out;
	if (code == WHERRY_OK)
		code = wherry_config_set(s.config, "db.create", "on", err);
	if (code == WHERRY_OK)
		code = bench_load_open(job, &load, err);
	if (code == WHERRY_OK)
		code = wherry_db_open(s.url, s.config, &s.db, err);
	if (code == WHERRY_OK)
		code = bench_init(s.db, "outbox", job->stream, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_open(s.db, "outbox", &s.outbox, err);
	if (code == WHERRY_OK && job->messages)
		code = enqueue(s.outbox, load, job->messages, job->per_transaction, err);
	close_session(&s); /* which leaves one file: the log is written back */
	bench_load_close(load);
	return code;
}

/* ---- drain ---- */

static wherry_code check_drained(wherry_relay *relay, const bench_job *job,
				 wherry_error *err)
{
	wherry_relay_stats stats;

	wherry_relay_get_stats(relay, &stats, sizeof(wherry_relay_stats));
	if (stats.delivered == job->messages)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID, "%" PRId64 " of %" PRId64 " were delivered",
		       stats.delivered, job->messages);
}

wherry_code bench_wherry_drain(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	int64_t began = wh_monotonic(&wh_env_system);
	session s = {.config = NULL};
	wherry_relay *relay = NULL;
	wherry_code code = set(job, &s, err);

	if (code == WHERRY_OK)
		code = wherry_relay_open(s.url, job->to ? job->to : "null:", s.config,
					 &relay, err);
	if (code == WHERRY_OK)
		code = wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, err);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	if (code == WHERRY_OK)
		code = check_drained(relay, job, err);
	wherry_relay_close(relay);
	close_session(&s);
	return code;
}

/* ---- latency ---- */

wherry_code bench_latency(const bench_job *job,
			  wherry_code (*raw_take)(wh_bench *b, wherry_error *err),
			  double out[BENCH_VALUES], wherry_error *err)
{
	session s = {.config = NULL};
	wh_bench b = {.consume = raw_take, .messages = job->messages, .rate = job->rate};
	wherry_code code = set(job, &s, err);

	b.url = s.url;
	b.config = s.config;
	b.probes = job->messages < PROBES_LEAST      ? PROBES_LEAST
		   : job->messages > WH_BENCH_PROBES ? WH_BENCH_PROBES
						     : job->messages;
	b.shared = mmap(NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b.shared == MAP_FAILED)
		code = wh_oom(err);
	else if (code == WHERRY_OK)
		code = wh_bench_latency(&b, err);
	if (code == WHERRY_OK) {
		out[0] = b.shared->p50_ms;
		out[1] = b.shared->p99_ms;
	}
	close_session(&s);
	return code;
}

wherry_code bench_wherry_latency(const bench_job *job, double out[BENCH_VALUES],
				 wherry_error *err)
{
	return bench_latency(job, NULL, out, err);
}

/* ---- idle ---- */

static wherry_code step_until(wherry_relay *relay, int64_t until_us, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	bool finished = false;

	while (code == WHERRY_OK && wherry_relay_clock(relay) < until_us) {
		int64_t wake_us = 0;

		code = wherry_relay_step(relay, &wake_us, &finished, err);
		if (code == WHERRY_OK)
			wherry_relay_wait(relay, wake_us < until_us ? wake_us : until_us);
	}
	return code;
}

/* A relay that has delivered its backlog, and then waits. */
wherry_code bench_wherry_idle(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	session s = {.config = NULL};
	wherry_relay *relay = NULL;
	int64_t now, statements = 0;
	clock_t cpu = 0;
	wherry_code code = set(job, &s, err);

	bench_watch_statements();
	if (code ==
	    WHERRY_OK) /* the purge after the last delivery comes before we count */
		code = wherry_config_set(s.config, "relay.purge_every", "500ms", err);
	if (code == WHERRY_OK)
		code = wherry_relay_open(s.url, "null:", s.config, &relay, err);
	if (code == WHERRY_OK) {
		now = wherry_relay_clock(relay);
		code = step_until(relay, now + SETTLE_US, err);
		statements = bench_statements();
		cpu = clock();
	}
	if (code == WHERRY_OK) {
		now = wherry_relay_clock(relay);
		code = step_until(relay, now + job->seconds * WH_SECOND, err);
		out[0] = (double)(bench_statements() - statements) * 10 /
			 (double)job->seconds;
		out[1] = (double)(clock() - cpu) * 100 / (double)CLOCKS_PER_SEC /
			 (double)job->seconds;
	}
	wherry_relay_close(relay);
	close_session(&s);
	return code;
}
