/*
 * Runs the relays of the outboxes of many schemas, on one thread and a few connections.
 *
 * Most outboxes rest: no relay runs for them, nobody has their lease, and they are an item of a
 * list.  This thread's connection listens to the writers of all of them, and holds their locks of
 * sleepers (postgres_watch.c), so that writers notify it.  If an outbox has work, a brief relay
 * runs for it (pipeline.c), with a connection and a thread, until it was idle for a while.
 *
 *     RESTING  nobody relays the outbox; due_us says when to look at it
 *        │ ▲
 *   work │ │ nothing is left
 *        ▼ │
 *     WANTED   it waits in the queue, since `connections` relays run
 *        │ ▲
 *   turn │ │ others wait, and its time is over
 *        ▼ │
 *     AWAKE    its relay runs
 *
 * If several processes have the same outboxes, the lease decides: an outbox that another process
 * relays is looked at from time to time.
 */
#include "daemon/match_set.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/backoff.h"

enum {
	HEARD_MOST = 256,
	YIELD_US = WH_SECOND, /* So long the process with the lock goes first. */
	HURRY_US = 20000,     /* Between two looks at relays while other outboxes wait. */
	CALM_US = 1000,       /* Between two looks at changes of files. */
	LIST_SOON_US = 20000, /* From a new file until the list is read: more may come. */
	SHOW_US = 2 * WH_SECOND
};

/* ---- the connection ---- */

static void connect_again(wh_matches *m, int64_t now)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!wh_match_check(m, wh_match_open(&m->plan, &m->db, &err), &err, now))
		return;
	if (wh_match_exact(m->db) && wh_match_fd(m->db) < 0)
		wh_match_say(
			m, WHERRY_LOG_WARN, "pooler",
			wh_log_note(
				"a connection pooler keeps writers from waking the "
				"relays: all outboxes are looked at once a second; give "
				"it a direct connection"));
	if (!wh_match_check(m, wh_match_listen_to(m, m->all, m->n, true, &err), &err,
			    now))
		return;
	for (size_t i = 0; i < m->n; i++)
		if (m->all[i]->stage == WH_RESTING)
			wh_match_rest(m->all[i], now);
	m->list_us = now;
}

/* Its writers notified. */
static void alert(wh_matches *m, wh_match *o, bool rows, int64_t now)
{
	o->alerted = true;
	if (wh_match_stirs(m->db)) {
		m->heard = true;
		wh_match_stir(o, now);
	} else if (!wh_match_exact(m->db)) {
		o->due_us = wh_sooner(o->due_us, o->calm_at_us);
	} else {
		o->control |= !rows;
		o->foreign &= rows;
		o->due_us = o->row.lock != WH_LOCK_OTHER || !rows
				    ? now
				    : wh_sooner(o->due_us, now + YIELD_US);
	}
}

static void hear(wh_matches *m, int64_t now)
{
	wh_heard heard[HEARD_MOST];
	size_t n;

	while (m->db && (n = wh_match_heard(m->db, heard, HEARD_MOST)))
		for (size_t i = 0; i < n; i++) {
			wh_match *o = wh_match_find(m, heard[i].key);

			if (!heard[i].key) {
				wh_match_disconnect(m, "the connection is lost", now);
				return;
			}
			if (heard[i].key == WH_MATCH_LIST)
				m->list_us = wh_sooner(m->list_us, now + LIST_SOON_US);
			if (o && o->stage == WH_RESTING)
				alert(m, o, heard[i].rows, now);
		}
}

/* ---- the loop ---- */

static void tell_failed(wh_matches *m, wh_match *o, int64_t now)
{
	if (!*o->why || o->told || now < o->tell_us)
		return;
	o->told = true;
	wh_match_say(m, WHERRY_LOG_ERROR, "failed",
		     wh_log_text(m->db ? wh_match_what(m->db) : "schema", o->row.schema),
		     wh_log_text("why", o->why));
}

/* Write what other threads read. */
static void show(wh_matches *m, int64_t now)
{
	wh_matches_view view = {.looked_us = now};

	view.awake = (int64_t)m->n_awake;
	view.waiting = (int64_t)m->n_waiting;
	view.sum.stats = m->ended;
	view.sum.restarts = m->restarts;
	view.sum.health = m->db ? WH_RUNNING : WH_FAILING;
	view.sum.state = "";
	view.sum.step_us = view.sum.trouble_us = WH_NEVER;
	for (size_t i = 0; i < m->n; i++) {
		wh_match *o = m->all[i];
		wh_pipeline_view one;

		tell_failed(m, o, now);
		view.outboxes += !o->none_us;
		if (*o->why) {
			view.failing++;
			(void)snprintf(view.failed, sizeof(view.failed), "%s",
				       o->row.schema);
		}
		if (o->stage != WH_AWAKE)
			continue;
		wh_pipeline_look(o->pipeline, &one);
		wh_match_add_stats(&view.sum.stats, &one.stats);
		if (one.health == WH_RUNNING && one.step_us != WH_NEVER &&
		    now - one.step_us >= WH_STUCK_US)
			(void)snprintf(view.stuck, sizeof(view.stuck), "%s/%.120s",
				       m->plan.name, o->row.schema);
	}
	(void)pthread_mutex_lock(&m->lock);
	memcpy(view.sum.why, m->view.sum.why, sizeof(view.sum.why));
	m->view = view;
	(void)pthread_mutex_unlock(&m->lock);
}

static int64_t next_due(wh_matches *m, int64_t now)
{
	int64_t at = m->db ? wh_sooner(m->list_us, now + SHOW_US)
			   : wh_sooner(m->connect_us, now + SHOW_US);

	at = wh_sooner(at, wh_match_close_unused(m, now));
	if (m->db && wh_match_hear_us(m->db))
		at = wh_sooner(at, now + wh_match_hear_us(m->db));
	for (size_t i = 0; m->db && i < m->n; i++)
		if (m->all[i]->stage == WH_RESTING)
			at = wh_sooner(at, m->all[i]->due_us);
	if (m->n_waiting)
		at = wh_sooner(at, now + HURRY_US);
	return m->look_from ? now : at;
}

static void wait_for(const wh_matches *m, int64_t until_us)
{
	struct pollfd fds[] = {{.fd = m->wake, .events = POLLIN},
			       {.fd = m->db ? wh_match_fd(m->db) : -1, .events = POLLIN}};
	int64_t left_us = until_us - wh_monotonic(&wh_env_system);
	struct timespec left = {left_us / WH_SECOND, left_us % WH_SECOND * 1000};
	uint64_t count;

	if (left_us > 0 && m->heard) /* Writers may write without a pause. */
		(void)ppoll(fds, 1, &(struct timespec){0, CALM_US * 1000L}, NULL);
	else if (left_us > 0)
		(void)ppoll(fds, 2, &left, NULL);
	(void)!read(m->wake, &count, sizeof(count));
}

static void turn(wh_matches *m)
{
	int64_t now = wh_monotonic(&wh_env_system);

	wh_match_take_ended(m, now);
	if (!m->db && now >= m->connect_us)
		connect_again(m, now);
	m->heard = false;
	hear(m, now);
	if (m->db && now >= m->list_us)
		wh_match_list_again(m, now);
	if (m->db)
		wh_match_settle(m, now);
	wh_match_start_relays(m, now);
	if (m->n_waiting)
		wh_match_hurry(m, now);
	show(m, now);
	wait_for(m, next_due(m, now));
}

static void end(wh_matches *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->all[i]->stage == WH_AWAKE)
			wh_pipeline_stop(m->all[i]->pipeline);
	while (m->n_awake) {
		int64_t now = wh_monotonic(&wh_env_system);

		wh_match_take_ended(m, now);
		show(m, now);
		if (m->n_awake)
			wait_for(m, now + HURRY_US);
	}
	wh_match_close(m->db);
	m->db = NULL;
	wh_match_free_slots(m);
}

static void *run(void *ctx)
{
	const uint64_t one = 1;
	wh_matches *m = ctx;

	while (!atomic_load(&m->stop))
		turn(m);
	end(m);
	wh_match_say(m, WHERRY_LOG_INFO, "ended");
	(void)pthread_mutex_lock(&m->lock);
	m->has_ended = true;
	m->view.sum.health = WH_ENDED;
	(void)pthread_mutex_unlock(&m->lock);
	(void)!write(m->bell, &one, sizeof(one));
	return NULL;
}

/* ---- for other threads ---- */

wherry_code wh_match_start(wh_plan_relay *relay, wh_daemon *d, int bell, wh_matches **out,
			   wherry_error *err)
{
	wh_matches *m = calloc(1, sizeof(*m));
	int failed;

	if (!m)
		return wh_oom(err);
	m->plan = *relay;
	m->daemon = d;
	m->bell = bell;
	m->last = &m->first;
	m->view.looked_us = wh_monotonic(&wh_env_system);
	m->view.sum.state = "";
	(void)pthread_mutex_init(&m->lock, NULL);
	if (wh_match_make_slots(m, err) != WHERRY_OK) {
		(void)pthread_mutex_destroy(&m->lock);
		free(m);
		return WHERRY_NOMEM;
	}
	m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	failed = m->wake < 0 ? EMFILE : pthread_create(&m->thread, NULL, run, m);
	if (failed) {
		if (m->wake >= 0)
			(void)close(m->wake);
		(void)pthread_mutex_destroy(&m->lock);
		wh_match_free_slots(m);
		free(m);
		return wh_fail_errno(err, failed, "cannot start a thread for relay '%s'",
				     relay->name);
	}
	*relay = (wh_plan_relay){.name = NULL};
	*out = m;
	return WHERRY_OK;
}

const wh_plan_relay *wh_matches_plan(const wh_matches *m)
{
	return &m->plan;
}

void wh_matches_look(wh_matches *m, wh_matches_view *out)
{
	(void)pthread_mutex_lock(&m->lock);
	*out = m->view;
	(void)pthread_mutex_unlock(&m->lock);
}

void wh_match_limit(wh_matches *m, size_t most)
{
	atomic_store(&m->most, most);
}

void wh_match_stop(wh_matches *m)
{
	const uint64_t one = 1;

	atomic_store(&m->stop, true);
	(void)!write(m->wake, &one, sizeof(one));
}

bool wh_match_ended(wh_matches *m)
{
	bool ended;

	(void)pthread_mutex_lock(&m->lock);
	ended = m->has_ended;
	(void)pthread_mutex_unlock(&m->lock);
	return ended;
}

void wh_match_free(wh_matches *m)
{
	wh_match_stop(m);
	(void)pthread_join(m->thread, NULL);
	for (size_t i = 0; i < m->n; i++)
		free(m->all[i]);
	free(m->all);
	(void)close(m->wake);
	(void)pthread_mutex_destroy(&m->lock);
	wh_plan_relay_clear(&m->plan);
	free(m);
}
