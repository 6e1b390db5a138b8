/*
 * Calls the application's hook on a separate thread.  So a hook that is slow, or never
 * returns, does not keep the relay from renewing its lease.
 *
 * Events wait in a bounded queue.  When the queue is full, events are lost.  The next
 * event that is queued reports how many.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"
#include "relay/hooks.h"

enum { WAITING_MOST = 4096 };

typedef struct waiting {
	struct waiting *next;
	wherry_event event;
	char text[];
} waiting;

struct wh_hooks {
	const wh_env *env;
	wherry_hook_fn fn;
	void *ctx;
	unsigned kinds;
	pthread_t thread;
	pthread_mutex_t lock; /* Protects all members below. */
	pthread_cond_t more, ended;
	waiting *head, *tail;
	size_t n;
	int64_t lost; /* Events lost since the last one that was queued. */
	bool closing, over, abandoned;
};

/* ---- the thread ---- */

static void tell(const wh_hooks *h, waiting *list)
{
	for (waiting *w = list, *next; w; w = next) {
		next = w->next;
		h->fn(h->ctx, &w->event);
		free(w);
	}
}

static void free_all(wh_hooks *h)
{
	for (waiting *w = h->head, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	(void)pthread_mutex_destroy(&h->lock);
	(void)pthread_cond_destroy(&h->more);
	(void)pthread_cond_destroy(&h->ended);
	free(h);
}

static void *run(void *arg)
{
	wh_hooks *h = arg;
	bool abandoned;

	(void)pthread_mutex_lock(&h->lock);
	while (!h->abandoned && (h->head || !h->closing)) {
		waiting *list = h->head;

		if (!list) {
			(void)pthread_cond_wait(&h->more, &h->lock);
			continue;
		}
		h->head = h->tail = NULL;
		h->n = 0;
		(void)pthread_mutex_unlock(&h->lock);
		tell(h, list);
		(void)pthread_mutex_lock(&h->lock);
	}
	h->over = true;
	abandoned = h->abandoned;
	(void)pthread_cond_signal(&h->ended);
	(void)pthread_mutex_unlock(&h->lock);
	if (abandoned)
		free_all(h);
	return NULL;
}

static bool start(wh_hooks *h)
{
	pthread_condattr_t clock;
	bool started;

	(void)pthread_mutex_init(&h->lock, NULL);
	(void)pthread_cond_init(&h->more, NULL);
	(void)pthread_condattr_init(&clock);
	(void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&h->ended, &clock);
	(void)pthread_condattr_destroy(&clock);
	(void)pthread_mutex_lock(&h->lock); /* Until h->thread is set. */
	started = wh_thread_start(&h->thread, WH_DETACHED, run, h);
	(void)pthread_mutex_unlock(&h->lock);
	return started;
}

wherry_code wherry_relay_hook(wherry_relay *relay, unsigned kinds, wherry_hook_fn hook,
			      void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wh_hooks *h;

	if (!relay || !hook)
		return wh_fail(err, WHERRY_INVALID,
			       "a hook needs a relay and a function");
	if (relay->hooks)
		return wh_fail(err, WHERRY_INVALID,
			       "the relay has a hook: let one function do both");
	h = calloc(1, sizeof(*h));
	if (!h)
		return wh_oom(err);
	h->env = &relay->env;
	h->fn = hook;
	h->ctx = ctx;
	h->kinds = kinds ? kinds : ~0u;
	if (!start(h)) {
		free_all(h);
		return wh_fail(err, WHERRY_BUSY, "no thread can be started for the hook");
	}
	relay->hooks = h;
	return WHERRY_OK;
}

bool wh_hooks_inside(const wherry_relay *r)
{
	return r->hooks && pthread_equal(pthread_self(), r->hooks->thread);
}

void wh_hooks_close(wh_hooks *h, int64_t wait_us)
{
	int64_t by_us = wh_later(wh_monotonic(&wh_env_system), wait_us);
	struct timespec by = {by_us / WH_SECOND, by_us % WH_SECOND * 1000};
	bool over;
	int rc = 0;

	if (!h)
		return;
	(void)pthread_mutex_lock(&h->lock);
	h->closing = true;
	(void)pthread_cond_signal(&h->more);
	while (!h->over && rc == 0)
		rc = pthread_cond_timedwait(&h->ended, &h->lock, &by);
	over = h->over;
	h->abandoned = !over; /* The thread frees everything when the hook returns. */
	(void)pthread_mutex_unlock(&h->lock);
	if (over)
		free_all(h);
}

/* ---- events ---- */

static const char *put(char **to, const char *text)
{
	size_t len = text ? strlen(text) + 1 : 0;
	char *at = *to;

	if (!text)
		return NULL;
	*to += len;
	return memcpy(at, text, len);
}

static size_t room_for(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static waiting *copy(const wherry_event *event)
{
	waiting *w =
		malloc(sizeof(*w) + room_for(event->message_id) + room_for(event->topic) +
		       room_for(event->key) + room_for(event->text));
	char *to;

	if (!w)
		return NULL;
	w->next = NULL;
	w->event = *event;
	to = w->text;
	w->event.message_id = put(&to, event->message_id);
	w->event.topic = put(&to, event->topic);
	w->event.key = put(&to, event->key);
	w->event.text = put(&to, event->text);
	return w;
}

static void add(wh_hooks *h, wherry_event event)
{
	waiting *w;

	if (!h || !(h->kinds & 1u << event.kind))
		return;
	event.size = sizeof(event);
	event.at_us = wh_now(h->env);
	w = copy(&event);
	(void)pthread_mutex_lock(&h->lock);
	if (!w || h->n == WAITING_MOST) {
		h->lost++;
		free(w);
	} else {
		w->event.lost = h->lost;
		h->lost = 0;
		if (h->tail)
			h->tail->next = w;
		else
			h->head = w;
		h->tail = w;
		h->n++;
	}
	(void)pthread_cond_signal(&h->more);
	(void)pthread_mutex_unlock(&h->lock);
}

void wh_hook_claimed(wherry_relay *r, int64_t n)
{
	if (n)
		add(r->hooks, (wherry_event){.kind = WHERRY_ON_CLAIMED, .n = n});
}

void wh_hook_settled(wherry_relay *r, wherry_event_kind kind, const wh_entry *e)
{
	const wherry_message *msg = &e->msg;
	bool failed = kind != WHERRY_ON_DELIVERED;

	if (!r->hooks)
		return;
	add(r->hooks, (wherry_event){
			      .kind = kind,
			      .id = msg->id,
			      .message_id = msg->message_id,
			      .topic = msg->topic,
			      .key = msg->key && *msg->key ? msg->key : msg->aggregate_id,
			      .attempts = msg->attempts + (failed && !e->poison),
			      .retry_in_us = kind == WHERRY_ON_FAILED ? e->delay_us : 0,
			      .text = failed && e->error ? e->error : "",
		      });
}

void wh_hook_error(wherry_relay *r, wherry_code code, const char *text)
{
	if ((unsigned)code < WHERRY_CODE_COUNT)
		r->stats.errors[code]++;
	if (r->hooks)
		add(r->hooks,
		    (wherry_event){
			    .kind = WHERRY_ON_ERROR,
			    .code = code,
			    .text = text && *text ? text : wherry_code_text(code),
		    });
}

void wh_hook_database_works(wherry_relay *r)
{
	if (r->db_failures)
		wh_relay_say(r, WHERRY_LOG_INFO, "database-works",
			     wh_log_int("failures", r->db_failures));
	r->db_failures = 0;
}
