/*
 * Registers the handlers of topics, and makes the pool a destination.
 */
#include "publish/handlers/handlers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "config/settings.h"
#include "publish/parts.h"

static wh_handlers *of(wherry_publisher *pub)
{
	return (wh_handlers *)pub;
}

/* ---- open and close ---- */

static wherry_code allocate(wh_handlers *pool, const char *url,
			    const wherry_config *config, wherry_error *err)
{
	if (url && !(pool->url = strdup(url)))
		return wh_oom(err);
	pool->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (pool->event < 0)
		return wh_fail_errno(err, errno, "no descriptor left for handlers");
	return wh_config_copy(config, &pool->config, err);
}

static void make_locks(wh_handlers *pool)
{
	pthread_condattr_t attr;

	(void)pthread_mutex_init(&pool->lock, NULL);
	(void)pthread_cond_init(&pool->work, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&pool->ended, &attr);
	(void)pthread_cond_init(&pool->turn, &attr);
	(void)pthread_condattr_destroy(&attr);
}

wherry_code wh_handlers_open(const char *url, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	wherry_code code = wh_config_check(config, err);
	wh_handlers *pool;

	if (code != WHERRY_OK)
		return code;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return wh_oom(err);
	pool->base.driver = &wh_publisher_handlers;
	pool->env = env;
	pool->event = -1;
	make_locks(pool);
	pool->threads = (size_t)wh_config_int(config, WH_HANDLERS_THREADS);
	pool->close_us = wh_config_int(config, WH_RELAY_STOP_TIMEOUT);
	pool->limit_us = wh_config_int(config, WH_HANDLERS_TIMEOUT);
	if (!pool->limit_us)
		pool->limit_us = wh_delivery_limit(config);
	wh_duration_print(pool->limit_us, pool->limit, sizeof(pool->limit));
	code = allocate(pool, url, config, err);
	if (code == WHERRY_OK)
		*out = &pool->base;
	else
		wh_handlers_free(pool);
	return code;
}

wherry_code wherry_handlers_open(const char *url, const wherry_config *config,
				 wherry_publisher **out, wherry_error *err)
{
	wh_error_clear(err);
	if (!out)
		return wh_fail(err, WHERRY_INVALID, "nowhere to put the handlers");
	return wh_handlers_open(url, config, &wh_env_system, out, err);
}

void wh_handlers_free(wh_handlers *pool)
{
	for (size_t i = 0; i < pool->n_list; i++)
		free(pool->list[i]);
	free(pool->list);
	free(pool->others);
	for (wh_middleware *m = pool->outermost, *next; m; m = next) {
		next = m->next;
		free(m);
	}
	if (pool->event >= 0)
		(void)close(pool->event);
	wherry_config_free(pool->config);
	(void)pthread_mutex_destroy(&pool->lock);
	(void)pthread_cond_destroy(&pool->work);
	(void)pthread_cond_destroy(&pool->ended);
	(void)pthread_cond_destroy(&pool->turn);
	free(pool->url);
	free(pool);
}

static void free_calls(wh_flights *list)
{
	wherry_call *call;

	while ((call = (wherry_call *)wh_flights_pop(list)))
		free(call);
}

static void handlers_drop(wherry_publisher *pub)
{
	wh_handlers *pool = of(pub);

	(void)pthread_mutex_lock(&pool->lock);
	free_calls(&pool->queue);
	free_calls(&pool->over);
	for (wherry_call *call = wh_calls_first(&pool->running); call;
	     call = wh_calls_next(call))
		wh_pool_stray(call);
	(void)pthread_mutex_unlock(&pool->lock);
}

static void handlers_close(wherry_publisher *pub)
{
	wh_handlers *pool = of(pub);
	int64_t by_us = wh_later(wh_monotonic(&wh_env_system), pool->close_us);
	struct timespec by = {by_us / WH_SECOND, by_us % WH_SECOND * 1000};
	int rc = 0;
	bool last;

	handlers_drop(pub);
	(void)pthread_mutex_lock(&pool->lock);
	pool->closing = true;
	(void)pthread_cond_broadcast(&pool->work);
	while (pool->n_live && rc == 0)
		rc = pthread_cond_timedwait(&pool->ended, &pool->lock, &by);
	last = !pool->n_live;
	pool->abandoned = !last; /* The last thread that ends frees the pool. */
	(void)pthread_mutex_unlock(&pool->lock);
	if (last)
		wh_handlers_free(pool);
}

/* ---- registering ---- */

/* The index of a topic in the list, or the index at which to insert it. */
static size_t place_of(const wh_handlers *pool, const char *topic, bool *out_there)
{
	size_t low = 0, high = pool->n_list;

	*out_there = false;
	while (low < high && !*out_there) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(pool->list[middle]->topic, topic);

		*out_there = order == 0;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return high;
}

wh_handler *wh_handlers_find(const wh_handlers *pool, const char *topic)
{
	bool there;
	size_t i = place_of(pool, topic, &there);

	return there ? pool->list[i] : pool->others;
}

static void remove_at(wh_handlers *pool, size_t i)
{
	free(pool->list[i]);
	pool->n_list--;
	memmove(pool->list + i, pool->list + i + 1,
		(pool->n_list - i) * sizeof(wh_handler *));
}

void wh_handlers_spent(wh_handlers *pool, const wherry_call *call)
{
	bool there;
	size_t i = place_of(pool, call->message.topic, &there);

	if (there)
		remove_at(pool, i);
}

static bool reserve(wh_handlers *pool)
{
	size_t cap = pool->cap_list ? pool->cap_list * 2 : 16;
	wh_handler **grown;

	if (pool->n_list < pool->cap_list)
		return true;
	grown = realloc(pool->list, cap * sizeof(wh_handler *));
	if (!grown)
		return false;
	pool->list = grown;
	pool->cap_list = cap;
	return true;
}

/* Add a handler; on success the pool owns it.  Call it with the lock held. */
static wherry_code add(wh_handlers *pool, wh_handler *h, wherry_error *err)
{
	bool there;
	size_t i = place_of(pool, h->topic, &there);

	if (there)
		return wh_fail(err, WHERRY_INVALID,
			       "topic '%.120s' has a handler: remove that one first with "
			       "wherry_handlers_off(), or let one function do both",
			       h->topic);
	if (!reserve(pool))
		return wh_oom(err);
	memmove(pool->list + i + 1, pool->list + i,
		(pool->n_list - i) * sizeof(wh_handler *));
	pool->list[i] = h;
	pool->n_list++;
	h->serial = ++pool->serials;
	return WHERRY_OK;
}

static wherry_code check_pool(const wherry_publisher *pub, bool given, wherry_error *err)
{
	if (!pub || pub->driver != &wh_publisher_handlers)
		return wh_fail(
			err, WHERRY_INVALID,
			"functions are registered with what wherry_handlers_open() "
			"gave");
	return given ? WHERRY_OK : wh_fail(err, WHERRY_INVALID, "no function to call");
}

static wh_handler *make_handler(const char *topic, wherry_handler_fn fn, void *ctx)
{
	size_t len = strlen(topic) + 1;
	wh_handler *h = calloc(1, sizeof(*h) + len);

	if (!h)
		return NULL;
	h->fn = fn;
	h->ctx = ctx;
	memcpy(h->topic, topic, len);
	return h;
}

static wherry_code register_one(wherry_publisher *pub, const char *topic,
				wherry_handler_fn fn, void *ctx, bool once,
				wherry_error *err)
{
	wherry_code code = check_pool(pub, fn != NULL, err);
	wh_handler *h;

	if (code != WHERRY_OK)
		return code;
	if (!topic || !*topic)
		return wh_fail(
			err, WHERRY_INVALID,
			"a handler is for a topic: see wherry_handlers_others() for "
			"one that takes the rest");
	h = make_handler(topic, fn, ctx);
	if (!h)
		return wh_oom(err);
	h->once = once;
	(void)pthread_mutex_lock(&of(pub)->lock);
	code = add(of(pub), h, err);
	(void)pthread_mutex_unlock(&of(pub)->lock);
	if (code != WHERRY_OK)
		free(h);
	return code;
}

wherry_code wherry_handlers_on(wherry_publisher *handlers, const char *topic,
			       wherry_handler_fn handle, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	return register_one(handlers, topic, handle, ctx, false, err);
}

wherry_code wherry_handlers_once(wherry_publisher *handlers, const char *topic,
				 wherry_handler_fn handle, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	return register_one(handlers, topic, handle, ctx, true, err);
}

wherry_code wherry_handlers_others(wherry_publisher *handlers, wherry_handler_fn handle,
				   void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check_pool(handlers, handle != NULL, err);
	wh_handler *h;
	bool there;

	if (code != WHERRY_OK)
		return code;
	h = make_handler("", handle, ctx);
	if (!h)
		return wh_oom(err);
	(void)pthread_mutex_lock(&of(handlers)->lock);
	there = of(handlers)->others != NULL;
	if (!there)
		of(handlers)->others = h;
	(void)pthread_mutex_unlock(&of(handlers)->lock);
	if (!there)
		return WHERRY_OK;
	free(h);
	return wh_fail(
		err, WHERRY_INVALID,
		"the topics without a handler have one already: remove it first with "
		"wherry_handlers_off(handlers, NULL, …)");
}

wherry_code wherry_handlers_off(wherry_publisher *handlers, const char *topic,
				wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check_pool(handlers, true, err);
	wh_handlers *pool = of(handlers);
	bool there;
	size_t i;

	if (code != WHERRY_OK)
		return code;
	(void)pthread_mutex_lock(&pool->lock);
	if (topic) {
		i = place_of(pool, topic, &there);
		if (there)
			remove_at(pool, i);
	} else {
		there = pool->others != NULL;
		free(pool->others);
		pool->others = NULL;
	}
	(void)pthread_cond_broadcast(&pool->work);
	(void)pthread_mutex_unlock(&pool->lock);
	if (there)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_NOTFOUND, "no handler for %s%.120s%s",
		       topic ? "topic '" : "the other topics", topic ? topic : "",
		       topic ? "'" : "");
}

wherry_code wherry_handlers_use(wherry_publisher *handlers, wherry_middleware_fn around,
				void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check_pool(handlers, around != NULL, err);
	wh_handlers *pool = of(handlers);
	wh_middleware *m;

	if (code != WHERRY_OK)
		return code;
	m = calloc(1, sizeof(*m));
	if (!m)
		return wh_oom(err);
	m->fn = around;
	m->ctx = ctx;
	(void)pthread_mutex_lock(&pool->lock);
	/* Running calls read `next` only as far as their n_middleware. */
	if (pool->innermost)
		pool->innermost->next = m;
	else
		pool->outermost = m;
	pool->innermost = m;
	pool->n_middleware++;
	(void)pthread_mutex_unlock(&pool->lock);
	return WHERRY_OK;
}

/* Fail if this is not a valid value of handlers.threads. */
static wherry_code check_threads(int32_t threads, wherry_error *err)
{
	wherry_config *config = NULL;
	wherry_code code = wherry_config_new(&config, err);
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)threads);
	if (code == WHERRY_OK)
		code = wherry_config_set(config, "handlers.threads", text, err);
	wherry_config_free(config);
	return code;
}

wherry_code wherry_handlers_set_threads(wherry_publisher *handlers, int32_t threads,
					wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check_pool(handlers, true, err);
	wh_handlers *pool = of(handlers);

	if (code == WHERRY_OK)
		code = check_threads(threads, err);
	if (code != WHERRY_OK)
		return code;
	(void)pthread_mutex_lock(&pool->lock);
	pool->threads = (size_t)threads;
	(void)wh_pool_staff(pool);
	(void)pthread_cond_broadcast(&pool->work); /* Threads that are too many end. */
	(void)pthread_mutex_unlock(&pool->lock);
	return WHERRY_OK;
}

size_t wherry_handlers_running(wherry_publisher *handlers)
{
	wh_handlers *pool = of(handlers);
	size_t n;

	if (check_pool(handlers, true, NULL) != WHERRY_OK)
		return 0;
	(void)pthread_mutex_lock(&pool->lock);
	n = pool->running.n;
	(void)pthread_mutex_unlock(&pool->lock);
	return n;
}

/* ---- submitting ---- */

static void handlers_grant(wherry_publisher *pub, const wh_grant *grant)
{
	(void)pthread_mutex_lock(&of(pub)->lock);
	of(pub)->grant = *grant;
	(void)pthread_mutex_unlock(&of(pub)->lock);
}

static wherry_code handlers_submit(wherry_publisher *pub,
				   const wherry_message *const *msgs, size_t n,
				   size_t *out_taken, wherry_error *err)
{
	wh_handlers *pool = of(pub);
	int64_t now_us = wh_monotonic(pool->env);
	bool staffed, busy;
	size_t i;

	(void)pthread_mutex_lock(&pool->lock);
	busy = pool->running.n > pool->n_stray || pool->over.n;
	for (i = 0;
	     i < n && pool->queue.n + pool->running.n + pool->over.n < WH_CALLS_MOST;
	     i++) {
		wherry_call *call = wh_call_make(pool, msgs[i]);

		if (!call)
			break;
		call->grant = pool->grant;
		call->limit_us = now_us;
		wh_flights_append(&pool->queue, &call->flight);
	}
	staffed = wh_pool_staff(pool);
	busy = busy || pool->queue.n;
	if (!staffed) { /* No call has begun. */
		free_calls(&pool->queue);
		i = 0;
	}
	(void)pthread_mutex_unlock(&pool->lock);
	*out_taken = i;
	if (!staffed)
		return wh_fail(err, WHERRY_BUSY, "no thread can be started for handlers");
	return busy ? WHERRY_OK : wh_oom(err);
}

/* ---- collecting ---- */

static void time_out(wherry_call *call, wh_receipt *out)
{
	char why[64];

	(void)snprintf(why, sizeof(why), "timed out after %s", call->pool->limit);
	wh_receipt_fill(out, call->flight.message, WHERRY_UNKNOWN, why);
	wh_pool_stray(call);
}

/* Time out calls that wait for a function that may never return. */
static void time_out_queued(wh_handlers *pool, int64_t now_us)
{
	for (wherry_call *call = wh_calls_first(&pool->queue), *next; call; call = next) {
		next = wh_calls_next(call);
		if (now_us < wh_later(call->limit_us, pool->limit_us) ||
		    !wh_pool_blocked(pool, call, true))
			continue;
		wh_flights_remove(&pool->queue, &call->flight);
		call->flight.own = true;
		wh_pool_conclude(call, WHERRY_RETRY,
				 "waited for an earlier call that is over its time");
	}
}

static size_t keep_limits(wh_handlers *pool, wh_receipt *out, size_t cap)
{
	int64_t now_us = wh_monotonic(pool->env);
	size_t n = 0;

	for (wherry_call *call = wh_calls_first(&pool->running); call && n < cap;
	     call = wh_calls_next(call))
		if (call->phase == WH_CALL_RUNNING && !call->ending &&
		    now_us >= call->limit_us)
			time_out(call, &out[n++]);
	if (n)
		(void)wh_pool_staff(pool); /* Replace threads that are stuck. */
	if (pool->n_stray)
		time_out_queued(pool, now_us);
	return n;
}

static wherry_code handlers_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				    size_t *out_n, wherry_error *err)
{
	wh_handlers *pool = of(pub);
	wh_flights reported = {NULL, NULL, 0};
	size_t n;

	(void)err;
	(void)eventfd_read(pool->event, &(eventfd_t){0});
	(void)pthread_mutex_lock(&pool->lock);
	n = keep_limits(pool, out, cap);
	while (n < cap && pool->over.n) {
		wh_flight *f = wh_flights_pop(&pool->over);

		wh_flight_receipt(f, &out[n++]);
		wh_flights_append(&reported, f);
	}
	if (pool->over.n)
		(void)eventfd_write(pool->event, 1);
	(void)pthread_mutex_unlock(&pool->lock);
	free_calls(&reported);
	*out_n = n;
	return WHERRY_OK;
}

/* Calls that have not begun come back.  Running calls see wherry_call_cancelled(), and
 * may finish. */
static void handlers_cancel(wherry_publisher *pub)
{
	wh_handlers *pool = of(pub);
	wherry_call *call;

	(void)pthread_mutex_lock(&pool->lock);
	while ((call = (wherry_call *)wh_flights_pop(&pool->queue)))
		wh_pool_conclude(call, WHERRY_THROTTLED, "not begun: the relay stops");
	for (call = wh_calls_first(&pool->running); call; call = wh_calls_next(call)) {
		call->stopping = true;
		atomic_store(&call->cancelled, true);
	}
	(void)pthread_mutex_unlock(&pool->lock);
}

static int handlers_fd(wherry_publisher *pub, short *out_events)
{
	*out_events = POLLIN;
	return of(pub)->event;
}

static int64_t handlers_deadline(wherry_publisher *pub)
{
	wh_handlers *pool = of(pub);
	int64_t at = WH_NEVER;

	(void)pthread_mutex_lock(&pool->lock);
	for (const wherry_call *call = wh_calls_first(&pool->running); call;
	     call = wh_calls_next(call))
		if (call->phase == WH_CALL_RUNNING && !call->ending &&
		    call->limit_us < at)
			at = call->limit_us;
	for (const wherry_call *call = wh_calls_first(&pool->queue);
	     pool->n_stray && call; call = wh_calls_next(call)) {
		int64_t by_us = wh_later(call->limit_us, pool->limit_us);

		if (by_us < at && wh_pool_blocked(pool, call, true))
			at = by_us;
	}
	if (pool->over.n)
		at = 0;
	(void)pthread_mutex_unlock(&pool->lock);
	return at;
}

const wh_publisher_driver wh_publisher_handlers = {
	.scheme = "handlers",
	.caps = WH_PUB_ACKS, /* The relay submits one message of a key at a time. */
	.close = handlers_close,
	.submit = handlers_submit,
	.collect = handlers_collect,
	.drop = handlers_drop,
	.cancel = handlers_cancel,
	.grant = handlers_grant,
	.fd = handlers_fd,
	.deadline = handlers_deadline,
};
