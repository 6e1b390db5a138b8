/*
 * From COMMIT returning in one process to the publisher taking the message in another.
 *
 * The time of the commit cannot be in the body, which is written before it; so the
 * producer notes it in shared memory, under the number that is in the body.
 */
#include "cli/bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/env.h"
#include "db/driver.h"

enum { WARM_UP = 20 }; /* the first ones wait for the relay to start */

typedef struct latency {
	wh_bench *bench;
	wherry_relay *relay;
} latency;

/* Used by the handler of SIGCHLD, which has no argument for it. */
static latency *running;

static wherry_code produce(wh_bench *b, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	wherry_code code = wh_bench_open(b, &db, &outbox, err);
	int64_t due;

	while (!atomic_load(&b->shared->ready))
		wh_sleep(&wh_env_system, 1000);
	due = wh_monotonic(&wh_env_system);
	for (int64_t i = 0; code == WHERRY_OK && i < b->probes; i++) {
		int64_t now = wh_monotonic(&wh_env_system);
		wh_bench_message m = {0};

		due += WH_SECOND / (b->rate ? b->rate : WH_BENCH_RATE);
		if (now < due)
			wh_sleep(&wh_env_system, due - now);
		wh_bench_fill(&m, i);
		code = wherry_outbox_enqueue(outbox, &m.message, WHERRY_OWN_TRANSACTION,
					     NULL, err);
		atomic_store(&b->shared->committed_us[i], wh_monotonic(&wh_env_system));
		atomic_store(&b->shared->sent, i + 1);
	}
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	return code;
}

/* Numbers come in order, each once: the bodies are {"number":17,"text":... */
bool wh_bench_arrived(wh_bench *b, const char *body)
{
	int64_t number = wh_bench_digits(body + strlen("{\"number\":"));

	if (number >= b->probes)
		return true;
	atomic_store(&b->shared->arrived_us[number], wh_monotonic(&wh_env_system));
	atomic_store(&b->shared->arrived, number + 1);
	return number + 1 == b->probes;
}

static wherry_verdict take(void *ctx, const wherry_message *msg, char *reason,
			   size_t reason_cap)
{
	latency *l = ctx;

	(void)reason;
	(void)reason_cap;
	if (wh_bench_arrived(l->bench, msg->body))
		wherry_relay_stop(l->relay);
	return WHERRY_DELIVERED;
}

/* Stop the relay if the producer has ended before it sent all messages. */
static void on_child(int number)
{
	(void)number;
	if (running->relay &&
	    atomic_load(&running->bench->shared->sent) < running->bench->probes)
		wherry_relay_stop(running->relay);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void evaluate(const wh_bench *b)
{
	wh_bench_shared *shared = b->shared;
	size_t first = b->probes > 2 * (int64_t)WARM_UP ? WARM_UP : 0, n = 0;
	double ms[WH_BENCH_PROBES] = {0};

	for (size_t i = first; i < (size_t)b->probes; i++) {
		int64_t us = atomic_load(&shared->arrived_us[i]) -
			     atomic_load(&shared->committed_us[i]);

		/* The relay may get a message before COMMIT returns to the producer. */
		ms[n++] = us > 0 ? (double)us / 1e3 : 0;
	}
	qsort(ms, n, sizeof(*ms), compare);
	shared->p50_ms = ms[n / 2];
	shared->p99_ms = ms[n * 99 / 100];
}

static wherry_code check(const latency *l, wherry_error *err)
{
	if (*l->bench->shared->failure)
		return wh_fail(err, WHERRY_IO, "the producer: %s",
			       l->bench->shared->failure);
	if (atomic_load(&l->bench->shared->arrived) < l->bench->probes)
		return wh_fail(err, WHERRY_IO, "the producer ended too soon");
	evaluate(l->bench);
	return WHERRY_OK;
}

static wherry_code relay(latency *l, wherry_error *err)
{
	wherry_publisher *publisher = NULL;
	wherry_db *db = NULL;
	wherry_code code =
		wherry_publisher_open("memory:", l->bench->config, &publisher, err);

	if (code == WHERRY_OK)
		code = wh_db_open_own(l->bench->url, l->bench->config, &db, err);
	if (code == WHERRY_OK)
		code = wherry_relay_open_on(db, publisher, l->bench->config, &l->relay,
					    err);
	if (code == WHERRY_OK) {
		wherry_memory_answer(publisher, take, l);
		atomic_store(&l->bench->shared->ready, true);
		code = wherry_relay_run(l->relay, 0, NULL, err);
	}
	wherry_relay_close(l->relay);
	l->relay = NULL;
	wherry_db_close(db);
	wherry_publisher_close(publisher);
	return code;
}

wherry_code wh_bench_latency(wh_bench *b, wherry_error *err)
{
	struct sigaction action = {.sa_handler = on_child,
				   .sa_flags = SA_NOCLDSTOP | SA_RESTART};
	latency l = {.bench = b};
	wherry_code code;
	int pid;

	running = &l;
	(void)sigaction(SIGCHLD, &action, NULL);
	/* Before anything is opened: SQLite's notes on locks must not cross a fork. */
	pid = wh_bench_start(b, produce);
	if (pid < 0)
		return wh_fail(err, WHERRY_BUSY,
			       "cannot start a process for the producer");
	code = b->consume ? b->consume(b, err) : relay(&l, err);
	if (code != WHERRY_OK)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)signal(SIGCHLD, SIG_DFL);
	return code == WHERRY_OK ? check(&l, err) : code;
}
