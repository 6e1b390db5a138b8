/*
 * Runs one entry of cron on its thread.  It connects, makes the due ticks and sleeps
 * until the next one.  It sleeps 30 seconds at most, since the database's clock decides
 * and may be changed.
 *
 * Several daemons may run the same entry.  Each tick is made by one of them, in the transaction
 * that remembers it (src/cron/fire.c).
 */
#include "daemon/ticker.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/url.h"
#include "daemon/advice.h"
#include "daemon/tick_writer.h"
#include "db/driver.h"
#include "publish/parts.h"

static const int64_t longest_sleep_us = 30 * WH_SECOND;

struct wh_ticker {
	wh_plan_cron plan;
	wh_line_log *log;
	int bell;
	pthread_t thread;

	/* Used by the thread only. */
	wh_tick_writer writer;
	/* Its schedule was made the active one.  That happens once, after the start. */
	bool took;
	int old_log; /* See wh_db_options.old_log. */

	pthread_mutex_t lock; /* Guards the members below. */
	pthread_cond_t wake;
	bool stop;
	wherry_db *db; /* NULL: not connected. */
	wh_ticker_view view;
};

/* ---- the connection ---- */

static void drop_log(wh_ticker *t)
{
	if (t->old_log > 0)
		(void)close(t->old_log);
	t->old_log = 0;
}

/* Let other threads interrupt the connection.  False: the entry was asked to stop. */
static bool show(wh_ticker *t, wherry_db *db)
{
	bool stop;

	(void)pthread_mutex_lock(&t->lock);
	t->db = db;
	stop = t->stop;
	(void)pthread_mutex_unlock(&t->lock);
	return !stop;
}

static void disconnect(wh_ticker *t)
{
	wherry_db *db = t->db; /* Changed by this thread only. */

	wh_tick_writer_close(&t->writer);
	(void)show(t, NULL);
	wherry_db_close(db);
}

static wherry_code connect_to(wh_ticker *t, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(t->plan.config, &wh_env_system);
	wherry_db *db = NULL;
	wherry_code code;

	options.create = false;
	options.must_write = true;
	options.old_log = t->old_log;
	code = wh_db_open(t->plan.database.value, &options, &db, err);
	if (code != WHERRY_OK)
		return code;
	drop_log(t);
	if (!show(t, db))
		return wh_fail(err, WHERRY_INTERRUPTED, "stopped while it connected");
	return wh_tick_writer_open(&t->writer, &t->plan, db, err);
}

/* ---- making ticks ---- */

static void log_ticks(const wh_ticker *t, int64_t n)
{
	char at[WH_TIME_LEN];

	wh_time_print(t->writer.last_us, at);
	wh_line(t->log, WHERRY_LOG_INFO, NULL, "tick", wh_log_text("cron", t->plan.name),
		wh_log_text("at", at), wh_log_int("n", n));
}

static void log_replaced(const wh_ticker *t, const char *by)
{
	wh_line(t->log, WHERRY_LOG_WARN, NULL, "replaced",
		wh_log_text("cron", t->plan.name), wh_log_text("at", t->plan.at.value),
		wh_log_text("hash", t->writer.hash), wh_log_text("by", by),
		wh_log_note(
			"another daemon started this entry with another schedule, and "
			"writes its messages: give both the same file, and reload this "
			"one to take the entry back"));
}

static void log_resumed(const wh_ticker *t)
{
	wh_line(t->log, WHERRY_LOG_WARN, NULL, "resumed",
		wh_log_text("cron", t->plan.name), wh_log_text("at", t->plan.at.value),
		wh_log_text("hash", t->writer.hash),
		wh_log_note(
			"no daemon makes the ticks of the schedule that replaced this "
			"one any more"));
}

static void note_turn(wh_ticker *t, const wh_cron_turn *turn)
{
	int64_t now_us = wh_monotonic(&wh_env_system);
	bool replaced = turn->active[0] != 0, before;

	(void)pthread_mutex_lock(&t->lock);
	before = t->view.replaced;
	t->view.health = WH_RUNNING;
	t->view.replaced = replaced;
	t->view.stepped_us = now_us;
	t->view.next_us = wh_later(now_us, turn->next_us);
	t->view.n_ticks += turn->n;
	if (turn->n)
		t->view.ticked_us = now_us;
	t->view.why[0] = 0;
	if (replaced)
		(void)snprintf(
			t->view.why, sizeof(t->view.why),
			"another daemon writes its messages by the schedule %s, and "
			"this one's is %s: give both the same file, or reload this "
			"one to take the entry back",
			turn->active, t->writer.hash);
	(void)pthread_mutex_unlock(&t->lock);
	if (turn->n)
		log_ticks(t, turn->n);
	if (replaced && !before)
		log_replaced(t, turn->active);
	if (before && !replaced)
		log_resumed(t);
}

/* Connect if needed, and make the due ticks.  *out_wait_us: how long to sleep then. */
static wherry_code step(wh_ticker *t, int64_t *out_wait_us, wherry_error *err)
{
	wh_cron_turn turn;
	wherry_code code = WHERRY_OK;

	if (t->db && wh_db_replaced(t->db, true)) {
		wh_db_keep_log(t->db, &t->old_log);
		disconnect(t);
	}
	if (!t->db)
		code = connect_to(t, err);
	if (code == WHERRY_OK)
		code = wh_tick_writer_fire(&t->writer, !t->took, &turn, err);
	if (code != WHERRY_OK)
		return code;
	t->took = true;
	note_turn(t, &turn);
	*out_wait_us = turn.next_us < longest_sleep_us ? turn.next_us : longest_sleep_us;
	return WHERRY_OK;
}

/* ---- the thread ---- */

/* Sleep.  True: the entry was asked to stop. */
static bool sleep_for(wh_ticker *t, int64_t us)
{
	int64_t at_us = wh_later(wh_monotonic(&wh_env_system), us);
	struct timespec until = {at_us / WH_SECOND, at_us % WH_SECOND * 1000};
	bool stop;

	(void)pthread_mutex_lock(&t->lock);
	while (us > 0 && !t->stop &&
	       pthread_cond_clockwait(&t->wake, &t->lock, CLOCK_MONOTONIC, &until) == 0)
		;
	stop = t->stop;
	(void)pthread_mutex_unlock(&t->lock);
	return stop;
}

/* Record a failure.  False: the entry was asked to stop, so do not log it. */
static bool note_failure(wh_ticker *t, wherry_code code, const wherry_error *err)
{
	bool stop;

	(void)pthread_mutex_lock(&t->lock);
	stop = t->stop;
	t->view.health = WH_FAILING;
	t->view.stepped_us = wh_monotonic(&wh_env_system);
	t->view.restarts++;
	if (code >= 0 && code < WHERRY_CODE_COUNT)
		t->view.errors[code]++;
	(void)snprintf(t->view.why, sizeof(t->view.why), "%s", err->message);
	(void)pthread_mutex_unlock(&t->lock);
	return !stop;
}

static void *run(void *ctx)
{
	const uint64_t one = 1;
	wh_ticker *t = ctx;
	int failures = 0;
	int64_t wait_us = 0;

	while (!sleep_for(t, wait_us)) {
		wherry_error err = WHERRY_ERROR_INIT;
		wherry_code code = step(t, &wait_us, &err);

		if (code == WHERRY_OK) {
			failures = 0;
			continue;
		}
		disconnect(t);
		wh_advise(t->plan.database.value, WHERRY_KIND_CRON, &err);
		wait_us = wh_again_in_us(code, ++failures);
		if (note_failure(t, code, &err))
			wh_line(t->log, WHERRY_LOG_ERROR, NULL, "failed",
				wh_log_text("cron", t->plan.name),
				wh_log_text("code", wherry_code_name(code)),
				wh_log_us("again_in", wait_us),
				wh_log_text("why", err.message));
	}
	disconnect(t);
	drop_log(t);
	(void)pthread_mutex_lock(&t->lock);
	t->view.health = WH_ENDED;
	(void)pthread_mutex_unlock(&t->lock);
	wh_line(t->log, WHERRY_LOG_INFO, NULL, "ended",
		wh_log_text("cron", t->plan.name));
	/* The eventfd counts, so this never waits. */
	(void)!write(t->bell, &one, sizeof(one));
	return NULL;
}

static void announce(const wh_plan_cron *entry, wh_line_log *log)
{
	const char *place = entry->to == WH_TO_OUTBOX
				    ? wh_plan_cron_field(entry, WH_TICK_TABLE)
				    : entry->field[WH_TICK_NAME].value;
	char database[200], to[300], hash[WHERRY_HASH_LEN + 1] = "";

	wh_url_show(entry->database.value, database, sizeof(database));
	(void)snprintf(to, sizeof(to), "%s %.250s", wh_tick_to_name(entry->to), place);
	(void)!wherry_schedule_hash(entry->schedule, hash, NULL);
	wh_line(log, WHERRY_LOG_INFO, NULL, "start", wh_log_text("cron", entry->name),
		wh_log_text("at", entry->at.value),
		wh_log_text("zone", entry->zone.value ? entry->zone.value : "UTC"),
		wh_log_text("hash", hash), wh_log_text("database", database),
		wh_log_text("to", to));
}

static void release(wh_ticker *t)
{
	(void)pthread_cond_destroy(&t->wake);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

wherry_code wh_ticker_start(wh_plan_cron *entry, wh_line_log *log, int bell,
			    wh_ticker **out, wherry_error *err)
{
	wh_ticker *t = calloc(1, sizeof(*t));
	int failed;

	if (!t)
		return wh_oom(err);
	announce(entry, log);
	t->plan = *entry;
	t->log = log;
	t->bell = bell;
	t->view.stepped_us = wh_monotonic(&wh_env_system);
	t->view.next_us = WH_NEVER;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->wake, NULL);
	failed = pthread_create(&t->thread, NULL, run, t);
	if (failed) {
		release(t);
		return wh_fail_errno(err, failed, "cannot start a thread for cron '%s'",
				     entry->name);
	}
	*entry = (wh_plan_cron){.name = NULL};
	*out = t;
	return WHERRY_OK;
}

/* ---- for other threads ---- */

const wh_plan_cron *wh_ticker_plan(const wh_ticker *t)
{
	return &t->plan;
}

void wh_ticker_look(wh_ticker *t, wh_ticker_view *out)
{
	(void)pthread_mutex_lock(&t->lock);
	*out = t->view;
	(void)pthread_mutex_unlock(&t->lock);
}

bool wh_ticker_ready(const wh_ticker_view *view)
{
	return view->health == WH_RUNNING && !view->replaced;
}

void wh_ticker_stop(wh_ticker *t)
{
	(void)pthread_mutex_lock(&t->lock);
	t->stop = true;
	if (t->db)
		wherry_db_interrupt(t->db);
	(void)pthread_cond_broadcast(&t->wake);
	(void)pthread_mutex_unlock(&t->lock);
}

bool wh_ticker_ended(wh_ticker *t)
{
	bool ended;

	(void)pthread_mutex_lock(&t->lock);
	ended = t->view.health == WH_ENDED;
	(void)pthread_mutex_unlock(&t->lock);
	return ended;
}

void wh_ticker_free(wh_ticker *t)
{
	if (!t)
		return;
	wh_ticker_stop(t);
	(void)pthread_join(t->thread, NULL);
	wh_plan_cron_clear(&t->plan);
	release(t);
}
