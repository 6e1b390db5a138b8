/*
 * Functions that handle messages: Wherry's, and a pool of threads such as a program has that
 * reads the rows itself.
 */
#include "bench.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <wherry/sqlite.h>
#include <wherry/wherry.h>

#include "base/env.h"

/* ---- raw ---- */

/* What the threads take their places in the batch from. */
struct bench_pool {
	pthread_t threads[BENCH_THREADS];
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	int64_t work_us;
	int n, next, left; /* of the batch */
	bool over;
	int64_t handled;
};

static void handle_raw(bench_pool *p)
{
	p->next++;
	(void)pthread_mutex_unlock(&p->lock);
	if (p->work_us)
		wh_sleep(&wh_env_system, p->work_us);
	(void)pthread_mutex_lock(&p->lock);
	p->handled++;
	if (--p->left == 0)
		(void)pthread_cond_signal(&p->done);
}

static void *run_raw(void *arg)
{
	bench_pool *p = arg;

	(void)pthread_mutex_lock(&p->lock);
	while (!p->over) {
		if (p->next < p->n)
			handle_raw(p);
		else
			(void)pthread_cond_wait(&p->work, &p->lock);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return NULL;
}

bench_pool *bench_pool_open(int64_t work_us)
{
	bench_pool *p = bench_alloc(1, sizeof(*p));

	p->work_us = work_us;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->work, NULL);
	(void)pthread_cond_init(&p->done, NULL);
	for (int i = 0; i < BENCH_THREADS; i++)
		if (pthread_create(&p->threads[i], NULL, run_raw, p) != 0)
			abort(); /* a bench: nothing to measure */
	return p;
}

void bench_pool_handle(bench_pool *p, int n)
{
	(void)pthread_mutex_lock(&p->lock);
	p->n = p->left = n;
	p->next = 0;
	(void)pthread_cond_broadcast(&p->work);
	while (p->left)
		(void)pthread_cond_wait(&p->done, &p->lock);
	(void)pthread_mutex_unlock(&p->lock);
}

/* ---- Wherry ---- */

typedef struct handling {
	int64_t work_us;
	bool step;
	_Atomic int64_t handled;
} handling;

static wherry_verdict write_row(wherry_call *call)
{
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3_stmt *insert = NULL;
	wherry_db *db = NULL;
	bool ok = false;

	if (wherry_call_begin(call, &db, &err) == WHERRY_OK &&
	    sqlite3_prepare_v2(wherry_sqlite_handle(db),
			       "INSERT INTO handled VALUES (?1)", -1, &insert,
			       NULL) == SQLITE_OK) {
		(void)sqlite3_bind_int64(insert, 1, wherry_call_message(call)->id);
		ok = sqlite3_step(insert) == SQLITE_DONE;
	}
	(void)sqlite3_finalize(insert);
	return ok ? WHERRY_DELIVERED : WHERRY_RETRY;
}

static wherry_verdict handle(void *ctx, wherry_call *call)
{
	handling *h = ctx;

	if (h->work_us)
		wh_sleep(&wh_env_system, h->work_us);
	atomic_fetch_add(&h->handled, 1);
	return h->step ? write_row(call) : WHERRY_DELIVERED;
}

void bench_wherry_handle(const bench_job *job, double *out)
{
	int64_t began = bench_now();
	handling h = {.work_us = job->work_us, .step = job->step};
	wherry_config *config = bench_config(job);
	wherry_db *db = bench_open(job, config);
	wherry_publisher *handlers = NULL;
	wherry_relay *relay = NULL;

	if (h.step && sqlite3_exec(wherry_sqlite_handle(db), BENCH_HANDLED, NULL, NULL,
				   NULL) != SQLITE_OK)
		bench_die("no table to write to");
	bench_must(wherry_handlers_open(job->url, config, &handlers, &bench_error));
	bench_must(wherry_handlers_others(handlers, handle, &h, &bench_error));
	bench_must(wherry_relay_open_on(db, handlers, config, &relay, &bench_error));
	(void)bench_relay(relay);
	wherry_relay_close(relay);
	wherry_publisher_close(handlers);
	wherry_db_close(db);
	out[0] = bench_rate(job->messages, began);
	bench_must_be_all(job, atomic_load(&h.handled));
}
