/*
 * The threads that run handlers.
 *
 * A function that is over its time cannot be stopped.  It keeps its thread and its key
 * until it returns, and another thread takes its place.  There are at most twice as many
 * threads as configured; if functions block all of them, messages fail instead of waiting
 * for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "publish/handlers/handlers.h"

/* ---- which call is next ---- */

static bool same_place(const wherry_call *a, const wherry_call *b)
{
	if (strcmp(a->grant.outbox, b->grant.outbox) != 0)
		return false;
	if (a->message.id == b->message.id)
		return true;
	return a->grant.ordered && a->key_hash && a->key_hash == b->key_hash;
}

/* Must this call wait for a running call?  by_stray: consider only STRAY calls, which may
 * never return. */
bool wh_pool_blocked(const wh_handlers *pool, const wherry_call *call, bool by_stray)
{
	const wh_handler *h = wh_handlers_find(pool, call->message.topic);

	for (const wherry_call *other = wh_calls_first(&pool->running); other;
	     other = wh_calls_next(other)) {
		if (by_stray && other->phase != WH_CALL_STRAY)
			continue;
		if (same_place(call, other))
			return true;
		if (h && h->once && h->busy && other->serial == h->serial)
			return true;
	}
	return by_stray && pool->n_live - pool->n_leaving == pool->n_stray;
}

static wherry_call *pick(wh_handlers *pool)
{
	wherry_call *call = wh_calls_first(&pool->queue);

	while (call && wh_pool_blocked(pool, call, false))
		call = wh_calls_next(call);
	return call;
}

/* ---- how a call ends ---- */

static void tell(wh_handlers *pool)
{
	(void)eventfd_write(pool->event, 1); /* It never overflows: reading resets it. */
}

void wh_pool_conclude(wherry_call *call, wherry_verdict verdict, const char *why)
{
	wh_handlers *pool = call->pool;

	call->flight.verdict = verdict;
	if (why)
		wherry_call_reason(call, why);
	wh_flights_append(&pool->over, &call->flight);
	if (pool->over.n == 1)
		tell(pool);
}

static void interrupt(const wherry_call *call)
{
	if (call->step && call->worker->connection)
		call->step->interrupt(call->worker->connection);
}

void wh_pool_stray(wherry_call *call)
{
	wh_handlers *pool = call->pool;

	call->flight.message = NULL;
	atomic_store(&call->cancelled, true);
	if (call->phase != WH_CALL_STRAY)
		pool->n_stray++;
	call->phase = WH_CALL_STRAY;
	if (!call->ending)
		interrupt(call);
}

/* If the call's handler runs once and is still registered: unregister it after a success,
 * else let it run again. */
static void end_once(wherry_call *call)
{
	wh_handler *h = wh_handlers_find(call->pool, call->message.topic);

	if (!call->serial || !h || h->serial != call->serial)
		return;
	if (call->succeeded)
		wh_handlers_spent(call->pool, call);
	else
		h->busy = false;
}

/* The handler returned.  Returns the call if it is STRAY, for the caller to free. */
static wherry_call *end(wherry_call *call)
{
	wh_handlers *pool = call->pool;

	wh_flights_remove(&pool->running, &call->flight);
	end_once(call);
	/* Calls may have waited for this one. */
	if (pool->n_idle && pool->queue.n)
		(void)pthread_cond_broadcast(&pool->work);
	if (call->phase == WH_CALL_STRAY) {
		pool->n_stray--;
		return call;
	}
	if (call->stopping && call->flight.verdict == WHERRY_RETRY)
		call->flight.verdict = WHERRY_THROTTLED; /* Not the message's fault. */
	wh_pool_conclude(call, call->flight.verdict, NULL);
	return NULL;
}

static void begin(wh_worker *w, wherry_call *call)
{
	wh_handlers *pool = w->pool;
	wh_handler *h = wh_handlers_find(pool, call->message.topic);

	wh_flights_remove(&pool->queue, &call->flight);
	wh_flights_append(&pool->running, &call->flight);
	call->phase = WH_CALL_RUNNING;
	call->limit_us = wh_later(wh_monotonic(pool->env), pool->limit_us);
	call->worker = w;
	call->fn = h ? h->fn : NULL;
	call->ctx = h ? h->ctx : NULL;
	call->serial = h && h->once ? h->serial : 0;
	if (call->serial)
		h->busy = true;
	call->outermost = pool->outermost;
	call->n_middleware = pool->n_middleware;
}

/* ---- threads ---- */

/* Is this thread not needed any more?  It replaced a thread whose function has returned
 * since, or the application wants fewer threads.  Threads that are leaving are not
 * counted, or two would leave instead of one. */
static bool is_spare(const wh_handlers *pool)
{
	return pool->n_live - pool->n_leaving - pool->n_stray > pool->threads;
}

static void work(wh_worker *w)
{
	wh_handlers *pool = w->pool;

	while (!pool->closing && !is_spare(pool)) {
		wherry_call *call = pick(pool), *unwanted;

		if (!call) {
			pool->n_idle++;
			(void)pthread_cond_wait(&pool->work, &pool->lock);
			pool->n_idle--;
			continue;
		}
		begin(w, call);
		(void)pthread_mutex_unlock(&pool->lock);
		wh_call_run(call);
		(void)pthread_mutex_lock(&pool->lock);
		unwanted = end(call);
		free(unwanted);
	}
}

static void *run(void *arg)
{
	wh_worker *w = arg;
	wh_handlers *pool = w->pool;
	bool last;

	(void)pthread_mutex_lock(&pool->lock);
	work(w);
	pool->n_leaving++;
	(void)pthread_mutex_unlock(&pool->lock);
	if (w->connection)
		w->connection_of->close(w->connection);
	free(w);
	(void)pthread_mutex_lock(&pool->lock);
	pool->n_live--;
	pool->n_leaving--;
	last = pool->abandoned && !pool->n_live;
	(void)pthread_cond_broadcast(&pool->ended);
	(void)pthread_mutex_unlock(&pool->lock);
	if (last)
		wh_handlers_free(pool);
	return NULL;
}

/* Start a thread.  It blocks signals, which are for the application's threads. */
static bool start(wh_handlers *pool)
{
	wh_worker *w = calloc(1, sizeof(*w));
	pthread_t thread;

	if (!w)
		return false;
	w->pool = pool;
	if (!wh_thread_start(&thread, WH_DETACHED, run, w)) {
		free(w);
		return false;
	}
	pool->n_live++;
	return true;
}

bool wh_pool_staff(wh_handlers *pool)
{
	size_t stray = pool->n_stray < pool->threads ? pool->n_stray : pool->threads;
	size_t wanted = pool->queue.n > pool->n_idle ? pool->queue.n - pool->n_idle : 0;

	while (wanted-- && pool->n_live - pool->n_leaving < pool->threads + stray)
		if (!start(pool))
			break;
	if (pool->n_idle && pool->queue.n)
		(void)pthread_cond_broadcast(&pool->work);
	return pool->n_live > pool->n_leaving;
}
