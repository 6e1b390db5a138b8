/*
 * Runs one relay on its thread.  A relay that ends with an error is opened again after a
 * delay, which grows with each failure.  Other relays are not affected.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/url.h"
#include "daemon/advice.h"
#include "daemon/daemon.h"
#include "relay/relay.h"

struct wh_pipeline {
	wh_plan_relay plan;
	wh_line_log *log;
	int bell;
	wh_turn turn; /* Its brief is NULL: it runs until it is stopped. */
	pthread_t thread;
	pthread_mutex_t lock; /* Guards the members below. */
	pthread_cond_t wake;
	bool stop;
	wherry_relay *relay; /* NULL: not open. */
	wh_pipeline_view view;
	wherry_relay_stats before; /* Counters of the earlier runs. */
	int64_t n_settled;         /* Messages that were settled before the last step. */
};

/* After running this long, a relay begins with the shortest delay again. */
static const int64_t well_us = 60 * WH_SECOND;

/* A brief relay ends when it was idle for this long. */
static const int64_t rest_us = WH_SECOND;

/* Does the relay's section set log.level?  Otherwise the daemon's level applies, which a
 * reload may change while the relay runs. */
static bool has_level(const wh_pipeline *p)
{
	return wh_config_is_set(p->plan.config, WH_LOG_LEVEL);
}

static void log_record(void *ctx, const wherry_log_record *record)
{
	const wh_pipeline *p = ctx;
	wherry_log_record copy = *record;

	/* A brief relay begins and ends many times a minute. */
	if (p->turn.brief && record->level == WHERRY_LOG_INFO)
		copy.level = WHERRY_LOG_DEBUG;
	if (has_level(p) || wh_line_wanted(p->log, copy.level))
		wh_line_record(p->log, p->plan.name, &copy);
}

/* Add the counters of earlier runs.  Members that are a state, not a counter, stay those
 * of this run. */
static void add_stats(wherry_relay_stats *sum, const wherry_relay_stats *before)
{
	sum->delivered += before->delivered;
	sum->retried += before->retried;
	sum->dead += before->dead;
	sum->stale += before->stale;
	sum->latency_us += before->latency_us;
	for (int i = 0; i < WHERRY_LATENCY_CLASSES; i++)
		sum->latency[i] += before->latency[i];
	for (int i = 0; i < WHERRY_CODE_COUNT; i++)
		sum->errors[i] += before->errors[i];
}

/* Take over the report that the relay also writes to its lease, but without delay. */
static void note_state(wh_pipeline_view *view, const wherry_relay *relay)
{
	const char *state = wh_report_state(relay);

	view->said = relay->report;
	view->elsewhere = relay->elsewhere;
	if (view->state && strcmp(view->state, state) == 0)
		return;
	view->state = state;
	view->state_us = wh_monotonic(&wh_env_system);
}

/* Since when is it idle? */
static void note_idle(wh_pipeline *p, const wherry_relay *relay)
{
	int64_t now = wh_monotonic(&wh_env_system), n = p->view.stats.delivered;

	n += p->view.stats.retried + p->view.stats.dead;
	if (!wh_relay_is_idle(relay, now))
		p->view.idle_us = WH_NEVER;
	else if (p->view.idle_us == WH_NEVER || n != p->n_settled)
		p->view.idle_us = now;
	p->n_settled = n;
}

/* Has a brief relay been idle for long enough? */
static bool may_rest(const wh_pipeline *p)
{
	return p->turn.brief && p->view.idle_us != WH_NEVER &&
	       (atomic_load(p->turn.crowded) ||
		wh_monotonic(&wh_env_system) - p->view.idle_us >= rest_us);
}

static void note_step(wh_pipeline *p, wherry_relay *relay)
{
	wherry_relay_stats stats;

	wherry_relay_get_stats(relay, &stats, sizeof(wherry_relay_stats));
	(void)pthread_mutex_lock(&p->lock);
	add_stats(&stats, &p->before);
	p->view.stats = stats;
	p->view.n_numbers = wh_relay_numbers(relay, p->view.numbers);
	p->view.step_us = WH_NEVER;
	p->view.trouble_us = relay->trouble_us;
	if (relay->trouble_us != WH_NEVER)
		(void)snprintf(p->view.why, sizeof(p->view.why), "%s", relay->trouble);
	note_state(&p->view, relay);
	note_idle(p, relay);
	(void)pthread_mutex_unlock(&p->lock);
}

static void begin_step(wh_pipeline *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->view.step_us = wh_monotonic(&wh_env_system);
	(void)pthread_mutex_unlock(&p->lock);
}

/* Step until the relay is stopped, or ends with an error. */
static wherry_code step_on(wh_pipeline *p, wherry_relay *relay, wherry_error *err)
{
	bool finished = false;

	while (!finished) {
		int64_t wake_us = 0;
		wherry_code code;

		begin_step(p);
		code = wherry_relay_step(relay, &wake_us, &finished, err);
		note_step(p, relay);
		if (code != WHERRY_OK)
			return code;
		if (may_rest(p))
			wherry_relay_stop(relay);
		if (!finished)
			wherry_relay_wait(relay, wake_us);
	}
	return WHERRY_OK;
}

/* Let other threads stop the relay.  False: it was already asked to stop. */
static bool show(wh_pipeline *p, wherry_relay *relay)
{
	bool stop;

	(void)pthread_mutex_lock(&p->lock);
	stop = p->stop;
	p->relay = relay;
	p->view.health = WH_RUNNING;
	p->view.why[0] = 0;
	(void)pthread_mutex_unlock(&p->lock);
	return !stop;
}

static void hide(wh_pipeline *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->relay = NULL;
	p->before = p->view.stats;
	p->view.stats.in_flight = p->view.stats.window = 0;
	p->view.stats.held_keys = p->view.stats.parked_keys = 0;
	p->view.stats.epoch = p->view.stats.suspects = 0;
	p->view.stats.paused = p->view.stats.down = false;
	p->view.state = "";
	p->view.step_us = p->view.trouble_us = p->view.idle_us = WH_NEVER;
	p->view.elsewhere = false;
	p->view.state_us = wh_monotonic(&wh_env_system);
	(void)pthread_mutex_unlock(&p->lock);
}

static wherry_code run_once(wh_pipeline *p, bool *out_opened, wherry_error *err)
{
	wherry_relay *relay = NULL;
	wherry_code code = wh_relay_open(p->plan.from.value, p->plan.to.value,
					 p->plan.config, p->turn.brief, &relay, err);

	*out_opened = code == WHERRY_OK;
	if (code != WHERRY_OK)
		return code;
	wherry_relay_log(relay, log_record, p);
	if (!has_level(p))
		relay->set.log_level = WHERRY_LOG_DEBUG; /* log_record() filters. */
	if (show(p, relay))
		code = step_on(p, relay, err);
	hide(p);
	wherry_relay_close(relay);
	return code;
}

/* Pause.  True: the relay was asked to stop. */
static bool pause_for(wh_pipeline *p, int64_t us)
{
	struct timespec until;
	bool stop;
	int64_t at_us = wh_later(wh_monotonic(&wh_env_system), us);

	until.tv_sec = at_us / WH_SECOND;
	until.tv_nsec = at_us % WH_SECOND * 1000;
	(void)pthread_mutex_lock(&p->lock);
	while (!p->stop &&
	       pthread_cond_clockwait(&p->wake, &p->lock, CLOCK_MONOTONIC, &until) == 0)
		;
	stop = p->stop;
	(void)pthread_mutex_unlock(&p->lock);
	return stop;
}

static void note_failure(wh_pipeline *p, wherry_code code, bool opened,
			 const wherry_error *err)
{
	(void)pthread_mutex_lock(&p->lock);
	p->view.health = WH_FAILING;
	p->view.restarts++;
	/* An open relay counts its errors itself. */
	if (code >= 0 && code < WHERRY_CODE_COUNT && !opened)
		p->view.stats.errors[code] = ++p->before.errors[code];
	(void)snprintf(p->view.why, sizeof(p->view.why), "%s", err->message);
	(void)pthread_mutex_unlock(&p->lock);
}

int64_t wh_again_in_us(wherry_code code, int failures)
{
	wh_backoff backoff = {WH_EXPONENTIAL, 200000, 30 * WH_SECOND, false, 0};

	if (wherry_code_remedy(code) == WHERRY_REMEDY_REOPEN)
		backoff.cap_us = 2 * WH_SECOND;
	return wh_backoff_delay(&backoff, failures, &wh_env_system);
}

static void *run(void *ctx)
{
	const uint64_t one = 1;
	wh_pipeline *p = ctx;
	int failures = 0;
	bool stop = false;

	while (!stop) {
		wherry_error err = WHERRY_ERROR_INIT;
		int64_t began_us = wh_monotonic(&wh_env_system), wait_us;
		bool opened;
		wherry_code code = run_once(p, &opened, &err);

		if (code == WHERRY_OK)
			break;
		if (wh_monotonic(&wh_env_system) - began_us > well_us)
			failures = 0;
		wait_us = wh_again_in_us(code, ++failures);
		wh_advise(p->plan.from.value, WHERRY_KIND_OUTBOX, &err);
		note_failure(p, code, opened, &err);
		if (p->turn.brief) /* The thread of its pattern says so, and starts it again. */
			break;
		wh_line(p->log, WHERRY_LOG_ERROR, p->plan.name, "failed",
			wh_log_text("code", wherry_code_name(code)),
			wh_log_us("again_in", wait_us), wh_log_text("why", err.message));
		stop = pause_for(p, wait_us);
	}
	(void)pthread_mutex_lock(&p->lock);
	p->view.health = WH_ENDED;
	(void)pthread_mutex_unlock(&p->lock);
	wh_line(p->log, p->turn.brief ? WHERRY_LOG_DEBUG : WHERRY_LOG_INFO, p->plan.name,
		"ended");
	/* The eventfd counts, so this never waits. */
	(void)!write(p->bell, &one, sizeof(one));
	return NULL;
}

static wherry_code name_owner(wh_plan_relay *relay, wherry_error *err)
{
	char host[64] = "", owner[128];

	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(owner, sizeof(owner), "%s@%.40s:%d", relay->name, host,
		       (int)getpid());
	return wherry_config_set(relay->config, "relay.name", owner, err);
}

wherry_code wh_pipeline_start(wh_plan_relay *relay, wh_line_log *log, int bell,
			      const wh_turn *turn, wh_pipeline **out, wherry_error *err)
{
	wh_pipeline *p = calloc(1, sizeof(*p));
	wherry_code code = p ? name_owner(relay, err) : wh_oom(err);
	int failed;

	if (code != WHERRY_OK) {
		free(p);
		return code;
	}
	p->plan = *relay;
	p->log = log;
	p->bell = bell;
	if (turn)
		p->turn = *turn;
	p->view.step_us = p->view.trouble_us = p->view.idle_us = WH_NEVER;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->wake, NULL);
	failed = pthread_create(&p->thread, NULL, run, p);
	if (failed) {
		(void)pthread_cond_destroy(&p->wake);
		(void)pthread_mutex_destroy(&p->lock);
		free(p);
		return wh_fail_errno(err, failed, "cannot start a thread for relay '%s'",
				     relay->name);
	}
	*relay = (wh_plan_relay){.name = NULL};
	*out = p;
	return WHERRY_OK;
}

const wh_plan_relay *wh_pipeline_plan(const wh_pipeline *p)
{
	return &p->plan;
}

void wh_pipeline_look(wh_pipeline *p, wh_pipeline_view *out)
{
	(void)pthread_mutex_lock(&p->lock);
	*out = p->view;
	(void)pthread_mutex_unlock(&p->lock);
}

/* True if that time is a while ago. */
static bool is_late(int64_t since_us, int64_t now)
{
	return since_us != WH_NEVER && now - since_us > WH_LATE_US;
}

bool wh_pipeline_in_trouble(const wh_pipeline_view *view, int64_t now)
{
	return is_late(view->trouble_us, now) || is_late(view->step_us, now);
}

bool wh_pipeline_ready(const wh_pipeline_view *view)
{
	return view->health == WH_RUNNING && !view->stats.down &&
	       !wh_pipeline_in_trouble(view, wh_monotonic(&wh_env_system));
}

void wh_pipeline_stop(wh_pipeline *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->stop = true;
	if (p->relay)
		wherry_relay_stop(p->relay);
	(void)pthread_cond_broadcast(&p->wake);
	(void)pthread_mutex_unlock(&p->lock);
}

bool wh_pipeline_ended(wh_pipeline *p)
{
	bool ended;

	(void)pthread_mutex_lock(&p->lock);
	ended = p->view.health == WH_ENDED;
	(void)pthread_mutex_unlock(&p->lock);
	return ended;
}

void wh_pipeline_free(wh_pipeline *p)
{
	if (!p)
		return;
	wh_pipeline_stop(p);
	(void)pthread_join(p->thread, NULL);
	(void)pthread_cond_destroy(&p->wake);
	(void)pthread_mutex_destroy(&p->lock);
	wh_plan_relay_clear(&p->plan);
	free(p);
}
