#include "relay/hooks.h"

#include <stdio.h>
#include <sys/eventfd.h>

#include "base/sized.h"
#include "log/failing.h"
#include "relay/dead_letters.h"
#include "relay/engine/engine.h"
#include "store/purge.h"

enum { LOG_LINE_MAX = 64 * 1024 };

static const int64_t idle_purge_us = 3600 * WH_SECOND;
static const int64_t for_ever_us = 3650LL * 86400 * WH_SECOND;

/* ---- the database in trouble ---- */

/* A database call failed with an error that may pass: wait before the next call. */
static void db_trouble(wherry_relay *r, int64_t now, wherry_code code,
		       const wherry_error *why)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, 10000, 2 * WH_SECOND, false,
					   0};

	wh_hook_error(r, code, why->message);
	if (wh_db_replaced(r->db, false))
		wh_relay_replaced(r, now, why->message);
	r->db_failures++;
	if (r->trouble_us == WH_NEVER)
		r->trouble_us = now;
	(void)snprintf(r->trouble, sizeof(r->trouble), "%.*s",
		       (int)sizeof(r->trouble) - 1, why->message);
	r->db_retry_at_us =
		wh_later(now, wh_backoff_delay(&backoff, r->db_failures, &r->env));
	if (r->db_failures == 1 || r->db_failures % 10 == 0)
		wh_relay_say(r, WHERRY_LOG_WARN, "database-trouble",
			     wh_log_text("code", wherry_code_name(code)),
			     wh_log_int("failures", r->db_failures),
			     wh_log_text("why", why->message));
	if (wherry_code_remedy(code) == WHERRY_REMEDY_REOPEN && r->from)
		r->reopen_db = true;
}

/*
 * The result of a part of a step.  Only this file decides what an error means.  A lost
 * lease ends leading, an error that may pass is waited out, and any other error ends the
 * run.
 */
typedef enum wh_outcome {
	WH_GO_ON,
	WH_WAIT,       /* The database failed: ask nothing of it before db_retry_at_us. */
	WH_LEASE_LOST, /* Nothing of this lease may be read, submitted or written. */
	WH_FATAL       /* A person must remove the cause: the step returns the error. */
} wh_outcome;

/* An expression of the owner of the table fails for a row.  The next step passes over it. */
static bool passes_over(wherry_relay *r, wherry_code code, const wherry_error *why)
{
	int64_t n = 0;

	return r->store && wh_db_about_row(r->db, code, why) &&
	       wh_failing_find(r->store, &n, NULL) == WHERRY_OK && n > 0;
}

static wh_outcome outcome_of(wherry_relay *r, int64_t now, wherry_code code,
			     wherry_error *why)
{
	if (code == WHERRY_STALE) {
		if (r->fsm.state == WH_LEADING || r->fsm.state == WH_DRAINING)
			wh_lease_lost(r, now, why->message);
		return WH_LEASE_LOST;
	}
	if (code == WHERRY_OK)
		return WH_GO_ON;
	/* A session that became read only: the URL may name another server that is not. */
	if (code == WHERRY_READONLY && r->from)
		code = WHERRY_CLOSED;
	if (passes_over(r, code, why)) {
		r->db_retry_at_us = now;
		return WH_WAIT;
	}
	if (wherry_code_remedy(code) == WHERRY_REMEDY_FIX) {
		why->code = code;
		return WH_FATAL;
	}
	if (wh_db_locked_out(r->db, code, why))
		wh_settle_locked_out(r, now);
	db_trouble(r, now, code, why);
	return WH_WAIT;
}

/* ---- the step ---- */

static bool purges(const wherry_relay *r)
{
	return r->engine->writes_rows &&
	       (r->set.retention_us ||
		(r->store && (r->store->stmt.expire_rows || r->store->segmented ||
			      r->store->layout.purges_soon)));
}

/* Rows of one purge.  Rows that an owner waits for are found in an index in which entries of earlier ones may
 * be before them. */
static int64_t purge_rows(const wherry_relay *r)
{
	return r->store->layout.purges_soon ? 10000 : 1000;
}

/* Delete a batch of messages that expired before they were delivered. */
static wherry_code expire(wherry_relay *r, int64_t *out_n, wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("token", ((wh_view){NULL, 0})),
		WH_INT_PARAM("limit", purge_rows(r)),
	};

	return wh_db_run(r->store->db, r->store->stmt.expire_rows, params, 2, NULL, NULL,
			 out_n, err);
}

/* Purge one batch of the table. */
static wherry_code purge(wherry_relay *r, int64_t *out_n, wherry_error *err)
{
	int64_t age_us = r->set.retention_us;

	if (r->store->stmt.expire_rows)
		return expire(r, out_n, err);
	return wh_store_purge(r->store, r->store->stmt.purge,
			      age_us ? age_us : for_ever_us, purge_rows(r), purge_rows(r),
			      &r->purge_after, out_n, err);
}

/* The owner's table may have changed: messages are delivered all the same. */
static bool is_owners_fault(wherry_relay *r, int64_t now, wherry_code code,
			    const wherry_error *err)
{
	if (code == WHERRY_OK || wherry_code_remedy(code) != WHERRY_REMEDY_FIX ||
	    (!r->store->layout.purges_soon && !r->store->segmented))
		return false;
	if (r->store->segmented)
		wh_relay_say(
			r, WHERRY_LOG_ERROR, "not-purged",
			wh_log_note(
				"old messages are not deleted, and no segments are made: "
				"ask the doctor"),
			wh_log_text("why", err->message));
	else
		wh_relay_say(
			r, WHERRY_LOG_ERROR, "not-marked",
			wh_log_note("delivered rows of the table are not marked as done: "
				    "adopt the table again"),
			wh_log_text("why", err->message));
	r->purge_at_us = wh_later(now, r->set.purge_every_us);
	return true;
}

/* A purge that deleted n messages may have left some that are old enough. */
static bool is_full(const wherry_relay *r, int64_t n)
{
	return n >= purge_rows(r) || r->purge_after;
}

static wherry_code purge_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t n = 0;
	wherry_code code;

	if (now < r->purge_at_us || !purges(r))
		return WHERRY_OK;
	code = purge(r, &n, err);
	if (is_owners_fault(r, now, code, err))
		return WHERRY_OK;
	if (code != WHERRY_OK)
		return code;
	if (is_full(r, n))
		r->purge_at_us = wh_later(now, 5000);
	else if (n || !r->purge_idle || r->store->stmt.expire_rows)
		r->purge_at_us = wh_later(now, wh_purge_every_us(r));
	else
		r->purge_at_us =
			wh_later(now, r->store->layout.purges_soon ? r->set.purge_every_us
								   : idle_purge_us);
	r->purge_idle = n == 0;
	return WHERRY_OK;
}

/* Before the relay stops: the owner of the table waits for it. */
static wherry_code purge_the_rest(wherry_relay *r, wherry_error *err)
{
	int64_t n = purge_rows(r);
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && is_full(r, n) && r->store->layout.purges_soon &&
	       wh_monotonic(&r->env) < r->stop_by_us)
		code = purge(r, &n, err);
	return is_owners_fault(r, wh_monotonic(&r->env), code, err) ? WHERRY_OK : code;
}

/* If the relay was asked to stop, or has nothing left to do, begin to drain. */
static void stop_step(wherry_relay *r, int64_t now)
{
	if (now >= r->give_up_us && !atomic_load(&r->stop))
		wh_until_empty_finish(r, WHERRY_TIMEDOUT);
	if (!atomic_load(&r->stop))
		return;
	(void)eventfd_read(r->stop_fd, &(eventfd_t){0}); /* Reset the wake-up. */
	if (r->fsm.state == WH_STANDBY) {
		wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "asked to stop");
	} else if (r->fsm.state == WH_LEADING) {
		r->stop_by_us = wh_later(now, r->set.stop_timeout_us);
		wh_fsm_move(&r->fsm, WH_DRAINING, &r->env, "asked to stop");
		/* Write to the lease that the relay stops: if it is killed while messages
		 * are in flight, they do not become suspects. */
		if (r->window.in_flight.n || wh_dead_letters_busy(r))
			r->renew_at_us = now;
		if (r->pub)
			wh_publisher_cancel(r->pub);
	}
}

static void stop_now(wherry_relay *r)
{
	r->stop_timed_out = true;
	wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "stop time-out");
}

/* The stop time-out is over: stop, although results of messages are not written. */
static void give_up_draining(wherry_relay *r)
{
	wh_relay_say(r, WHERRY_LOG_WARN, "stop-timeout",
		     wh_log_int("in_flight", (int64_t)r->window.in_flight.n),
		     wh_log_int("unwritten", (int64_t)r->window.settled.n),
		     wh_log_note("these messages will be delivered again"));
	stop_now(r);
}

static wherry_code drain_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	const wh_engine_driver *engine = r->engine;
	bool late = now >= r->stop_by_us;
	wherry_code code;

	if (engine->release_unsubmitted)
		engine->release_unsubmitted(r);
	if ((r->window.in_flight.n || wh_dead_letters_busy(r)) && !late)
		return engine->keep_alive ? engine->keep_alive(r, now, err) : WHERRY_OK;
	code = wh_suspect_step(r, err);
	if (code == WHERRY_OK)
		code = wh_settle_flush(r, now, NULL, err);
	if (code != WHERRY_OK)
		return code;
	if (r->window.settled.n && !late)
		return WHERRY_OK;
	if (r->window.in_flight.n || r->window.settled.n || wh_dead_letters_busy(r)) {
		if (engine->give_up)
			code = engine->give_up(r, now, err);
		give_up_draining(r);
		return code;
	}
	if (engine->finish)
		code = engine->finish(r, now, err);
	if (code == WHERRY_OK)
		code = purge_the_rest(r, err);
	return code == WHERRY_OK ? wh_lease_give_back(r, now, err) : code;
}

/* Will the database get work in this step?  Then ready messages are submitted
 * while it works. */
static bool submits_later(const wherry_relay *r, int64_t now)
{
	return r->window.ready.n && !r->engine->claims_rows && wh_meanwhile_submits(r) &&
	       now >= r->flush_at_us;
}

static wherry_code fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t before = r->window.added;
	wherry_code code = r->engine->fetch(r, now, err);

	wh_hook_claimed(r, r->window.added - before);
	return code;
}

/* Submit messages, collect receipts, and write results that are due. */
static wherry_code deliver(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = wh_suspect_step(r, err);

	if (code == WHERRY_OK && !submits_later(r, now)) {
		code = wh_dispatch_step(r, now, err);
		if (code == WHERRY_OK)
			wh_collect_step(r, now);
	}
	if (code == WHERRY_OK && now >= r->flush_at_us)
		code = wh_settle_flush(r, now, NULL, err);
	return code;
}

static wherry_code lead_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = fetch(r, now, err);

	if (code != WHERRY_OK || r->fsm.state != WH_LEADING || wh_relay_yields(r))
		return code;
	now = wh_monotonic(&r->env);
	code = deliver(r, now, err);
	if (code == WHERRY_OK && r->engine->progress)
		code = r->engine->progress(r, now, err);
	return code == WHERRY_OK ? purge_step(r, now, err) : code;
}

static wherry_code work_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	if (r->fsm.state == WH_LEADING)
		return lead_step(r, now, err);
	return r->fsm.state == WH_DRAINING ? drain_step(r, now, err) : WHERRY_OK;
}

/* The parts of a step that may use the database.  The first one that fails is
 * the last. */
static wh_outcome db_steps(wherry_relay *r, int64_t now, wherry_error *err)
{
	typedef wherry_code (*part)(wherry_relay *, int64_t, wherry_error *);
	static const part parts[] = {wh_until_empty_begin, wh_lease_step, work_step,
				     wh_until_empty_step};
	wh_outcome out = WH_GO_ON;

	if (r->reopen_db)
		out = outcome_of(r, now, wh_relay_reopen(r, now, err), err);
	/* Forgetting what came from a deleted file needs no database. */
	if (out != WH_GO_ON && r->fsm.state == WH_LOST && r->awaits_file)
		(void)wh_lease_step(r, now, err);
	for (size_t i = 0; out == WH_GO_ON && i < sizeof(parts) / sizeof(*parts); i++)
		out = outcome_of(r, now, parts[i](r, now, err), err);
	if (out == WH_GO_ON)
		r->trouble_us = WH_NEVER;
	return out;
}

/* ---- when to step again ---- */

/* When to submit ready messages. */
static int64_t dispatch_deadline(const wherry_relay *r, int64_t now)
{
	int64_t next;

	if (!r->window.ready.n)
		return WH_NEVER;
	if (!wh_dispatch_alone(r) && r->destination.throttled_until_us > now)
		return r->destination.throttled_until_us;
	if (!wh_dispatch_alone(r) || r->destination.probes_left)
		return r->advanced ? now : WH_NEVER;
	if (r->window.in_flight.n)
		return WH_NEVER;
	next = r->destination.down ? r->destination.probe_at_us : now;
	return next > r->destination.throttled_until_us
		       ? next
		       : r->destination.throttled_until_us;
}

static int64_t lead_deadline(const wherry_relay *r, int64_t now)
{
	int64_t at = wh_sooner(r->renew_at_us, r->flush_at_us);

	at = wh_sooner(at, wh_sooner(r->check_us, r->sessions_at_us));
	at = wh_sooner(at, r->engine->deadline(r, now));
	if (purges(r))
		at = wh_sooner(at, r->purge_at_us);
	if (r->stats.paused || wh_relay_yields(r))
		return at;
	return wh_sooner(at, dispatch_deadline(r, now));
}

static bool is_partial(const wherry_relay *r)
{
	return r->engine->is_partial && r->engine->is_partial(r);
}

static int64_t deadline(const wherry_relay *r, int64_t now)
{
	int64_t at = r->give_up_us;

	if (r->fsm.state == WH_LEADING)
		at = wh_sooner(at, lead_deadline(r, now));
	else if (r->fsm.state == WH_DRAINING)
		at = wh_sooner(at, wh_sooner(r->stop_by_us, r->renew_at_us));
	else if (r->fsm.state == WH_STANDBY)
		at = wh_sooner(at, wh_sooner(r->leader_look_us,
					     wh_sooner(r->renew_at_us, r->check_us)));
	if (r->fsm.state == WH_LOST)
		at = wh_sooner(at, r->window.in_flight.n ? WH_NEVER : now);
	if (r->target & WHERRY_UNTIL_EMPTY &&
	    (r->fsm.state == WH_STANDBY || is_partial(r)))
		at = wh_sooner(at, r->empty_check_us);
	if (r->db_retry_at_us > now && at < r->db_retry_at_us)
		at = r->db_retry_at_us;
	if (r->pub && (r->window.in_flight.n || r->window.ready.n))
		at = wh_sooner(at, wh_publisher_deadline(r->pub));
	return wh_sooner(at, wh_dead_letters_deadline(r));
}

bool wh_relay_woken(wherry_relay *r, int64_t now)
{
	wh_look look = {.now_us = now, .rows_read = r->store->rows_read};

	look.operators_only =
		r->fsm.state == WH_STANDBY || (r->engine->is_fed && r->engine->is_fed(r));
	return wh_db_changed(r->db, &look, &r->check_us);
}

/* A standby tries to take the lease soon after a commit: the leader may have
 * given it back. */
static void standby_wake(wherry_relay *r, int64_t now)
{
	if (!r->db || r->reopen_db || r->fsm.state != WH_STANDBY)
		return;
	if (wh_relay_woken(r, now) && r->renew_at_us > now + 50000)
		/* At most 20 times a second on a busy outbox. */
		r->renew_at_us = now + 50000;
}

/* Copy the statistics for other threads. */
static void show_stats(wherry_relay *r)
{
	wherry_relay_stats stats = r->stats;

	stats.in_flight = (int64_t)r->window.in_flight.n;
	stats.window = (int64_t)r->window.n;
	stats.held_keys = (int64_t)r->keys.n_held;
	stats.parked_keys = (int64_t)r->keys.n_parked;
	stats.suspects = r->lease.suspects;
	stats.down = r->destination.down || r->destination.stuck;
	(void)pthread_mutex_lock(&r->shown.lock);
	r->shown.stats = stats;
	(void)pthread_mutex_unlock(&r->shown.lock);
}

static wherry_code step(wherry_relay *r, int64_t *out_wake_us, bool *out_finished,
			wherry_error *err)
{
	wherry_error ours = WHERRY_ERROR_INIT, *why = err ? err : &ours;
	wh_outcome out = WH_GO_ON;
	int64_t now;

	if (wh_hooks_inside(r))
		return wh_fail(err, WHERRY_INVALID, "a hook may not step its relay");
	if (r->db && r->db->shared && wherry_db_in_transaction(r->db))
		return wh_fail(
			err, WHERRY_INVALID,
			"a transaction is open on the relay's connection: step after its "
			"commit");
	now = wh_monotonic(&r->env);
	stop_step(r, now);
	if (r->fsm.state != WH_LEADING)
		wh_collect_step(r, now);
	standby_wake(r, now);
	if (now >= r->db_retry_at_us && r->fsm.state != WH_STOPPED)
		out = db_steps(r, now, why);
	else if (r->fsm.state == WH_LEADING)
		wh_collect_step(r, now);
	wh_dead_letters_step(r, now);
	if (out == WH_FATAL) {
		wh_hook_error(r, why->code, why->message);
		return why->code;
	}
	if (now >= r->stop_by_us && r->fsm.state == WH_DRAINING &&
	    r->db_retry_at_us > now)
		stop_now(r);
	stop_step(r, now);
	*out_finished = r->fsm.state == WH_STOPPED;
	*out_wake_us = r->fsm.state == WH_DRAINING && !r->window.in_flight.n &&
				       !wh_dead_letters_busy(r) &&
				       r->db_retry_at_us <= now
			       ? now
			       : deadline(r, now);
	return WHERRY_OK;
}

wherry_code wherry_relay_step(wherry_relay *r, int64_t *out_wake_us, bool *out_finished,
			      wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code;

	if (!r || !out_wake_us || !out_finished)
		return wh_fail(err, WHERRY_INVALID, "no relay to step");
	code = step(r, out_wake_us, out_finished, err);
	if (!wh_hooks_inside(r)) /* Else another thread is in a step. */
		show_stats(r);
	if (code == WHERRY_OK)
		wh_error_clear(err); /* The step waits this error out. */
	return code;
}

void wherry_relay_target(wherry_relay *relay, unsigned flags)
{
	relay->target = flags;
}

wherry_outcome wherry_relay_outcome(const wherry_relay *relay)
{
	return relay->outcome;
}

int64_t wherry_relay_clock(const wherry_relay *relay)
{
	return wh_monotonic(&relay->env);
}

/* Filter a log record and pass it to the application.  It may come from the publisher, on
 * another thread. */
static void pass_on(void *ctx, const wherry_log_record *record)
{
	const wherry_relay *r = ctx;
	wherry_log_record whole = *record;
	wh_buf line = WH_BUF_INIT(LOG_LINE_MAX);
	char textless[WH_LOG_BARE];

	if (record->level > r->set.log_level)
		return;
	wh_log_fields(&line, record);
	wh_log_bare(record, textless);
	whole.line = line.failed ? textless : wh_buf_str(&line);
	r->log(r->log_ctx, &whole);
	wh_buf_clear(&line);
}

void wherry_relay_log(wherry_relay *relay, wherry_log_fn log, void *ctx)
{
	relay->log = log;
	relay->log_ctx = ctx;
	relay->env.log = log ? pass_on : NULL;
	relay->env.log_ctx = relay;
}

void wherry_relay_get_stats(wherry_relay *relay, wherry_relay_stats *out, size_t size)
{
	wherry_relay_stats stats;

	(void)pthread_mutex_lock(&relay->shown.lock);
	stats = relay->shown.stats;
	(void)pthread_mutex_unlock(&relay->shown.lock);
	wh_sized_write(out, size, &stats, sizeof(stats));
}
