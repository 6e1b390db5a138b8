#include "relay/hooks.h"

#include <sys/eventfd.h>

#include "relay/dead_letters.h"

enum { PURGE_ROWS = 1000, LOG_LINE_MAX = 64 * 1024 };

static const int64_t idle_purge_us = 3600 * WH_SECOND;

/* ---- the database in trouble ---- */

wherry_code wh_relay_db_trouble(wherry_relay *r, int64_t now, wherry_code code,
				wherry_error *err)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, 10000, 5 * WH_SECOND, false};
	wherry_remedy remedy = wherry_code_remedy(code);

	if (remedy == WHERRY_REMEDY_FIX)
		return code;
	wh_hook_error(r, code, err ? err->message : NULL);
	if (wh_db_replaced(r->db, false))
		wh_relay_replaced(r, now, err ? err->message : "");
	r->db_failures++;
	r->db_retry_at_us =
		wh_later(now, wh_backoff_delay(&backoff, r->db_failures, &r->env));
	if (r->db_failures == 1 || r->db_failures % 10 == 0)
		wh_relay_say(r, WHERRY_LOG_WARN, "database-trouble",
			     wh_log_text("code", wherry_code_name(code)),
			     wh_log_int("failures", r->db_failures),
			     wh_log_text("why", err ? err->message : ""));
	if (remedy == WHERRY_REMEDY_REOPEN && r->from)
		r->reopen_db = true;
	return WHERRY_OK;
}

/* ---- the step ---- */

static bool purges(const wherry_relay *r)
{
	if (r->set.keep)
		return false;
	return r->set.retention_us || r->set.archive_retention_us;
}

/* One batch of the outbox, and one of its archive; *out_n: the larger. */
static wherry_code purge(wherry_relay *r, int64_t *out_n, wherry_error *err)
{
	const wh_relay_settings *s = &r->set;
	int64_t done = 0, archived = 0;
	wherry_code code = WHERRY_OK;

	if (s->retention_us && s->archive_expired)
		code = wherry_outbox_archive(r->box, s->retention_us, PURGE_ROWS,
					     PURGE_ROWS, &done, err);
	else if (s->retention_us)
		code = wherry_outbox_purge(r->box, s->retention_us, PURGE_ROWS,
					   PURGE_ROWS, &done, err);
	if (code == WHERRY_OK && s->archive_retention_us)
		code = wherry_outbox_purge_archive(r->box, s->archive_retention_us,
						   PURGE_ROWS, PURGE_ROWS, &archived,
						   err);
	*out_n = done > archived ? done : archived;
	return code;
}

static wherry_code purge_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t n = 0;
	wherry_code code;

	if (now < r->purge_at_us || !purges(r))
		return WHERRY_OK;
	code = purge(r, &n, err);
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	if (n == PURGE_ROWS)
		r->purge_at_us = wh_later(now, 5000);
	else if (n || !r->purge_idle)
		r->purge_at_us = wh_later(now, r->set.purge_every_us);
	else
		r->purge_at_us = wh_later(now, idle_purge_us);
	r->purge_idle = n == 0;
	return WHERRY_OK;
}

/* Asked to stop, or done: begin to finish what is in hand. */
static void stop_step(wherry_relay *r, int64_t now)
{
	if (now >= r->give_up_us && !atomic_load(&r->stop))
		wh_until_empty_finish(r, WHERRY_TIMEDOUT);
	if (!atomic_load(&r->stop))
		return;
	(void)eventfd_read(r->stop_fd, &(eventfd_t){0}); /* seen */
	if (r->fsm.state == WH_STANDBY) {
		wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "asked to stop");
	} else if (r->fsm.state == WH_LEADING) {
		r->stop_by_us = wh_later(now, r->set.stop_timeout_us);
		wh_fsm_move(&r->fsm, WH_DRAINING, &r->env, "asked to stop");
		if (r->pub)
			wh_publisher_cancel(r->pub);
	}
}

static wherry_code drain_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool late = now >= r->stop_by_us;
	wherry_code code;

	if (r->set.competing)
		wh_claim_let_go(r);
	if ((r->window.in_flight.n || wh_dead_letters_busy(r)) && !late)
		return wh_streaming_alive(r, now, err);
	code = wh_suspect_step(r, now, err);
	if (code == WHERRY_OK && !r->untried_id)
		code = wh_settle_flush(r, now, NULL, err);
	if (code != WHERRY_OK || r->fsm.state != WH_DRAINING || r->untried_id)
		return code;
	if (r->window.settled.n && !late)
		return WHERRY_OK; /* the database is in trouble */
	if (r->window.in_flight.n || r->window.settled.n || wh_dead_letters_busy(r)) {
		wh_relay_say(r, WHERRY_LOG_WARN, "stop-timeout",
			     wh_log_int("in_flight", (int64_t)r->window.in_flight.n),
			     wh_log_int("unwritten", (int64_t)r->window.settled.n),
			     wh_log_note("these messages will be delivered again"));
		wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "stop time-out");
		return WHERRY_OK;
	}
	code = wh_streaming_finish(r, now, err);
	if (code != WHERRY_OK || r->fsm.state != WH_DRAINING || r->db_retry_at_us > now)
		return code;
	return wh_lease_give_back(r, now, err);
}

/* Will what is to be acknowledged travel with the next read, at once? */
static bool rides(const wherry_relay *r, int64_t now)
{
	return r->db->driver->late_commits && !r->set.competing && wh_read_next(r, now) &&
	       wh_settle_rides(r, now);
}

static wherry_code read_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	if (r->set.competing)
		return wh_claim_step(r, now, err);
	return r->set.keep ? wh_unmarked_step(r, now, err) : wh_read_step(r, now, err);
}

/* The database has work at once: what is ready is submitted meanwhile. */
static bool submits_later(const wherry_relay *r, int64_t now)
{
	return r->window.ready.n && !r->set.competing && wh_meanwhile_submits(r) &&
	       (now >= r->flush_at_us || (!r->streaming && wh_read_next(r, now)));
}

static wherry_code lead_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t before = r->window.added;
	wherry_code code;

	if (r->partitions.yielding)
		return wh_partitions_yield(r, now, err);
	code = read_step(r, now, err);

	if (code == WHERRY_OK && r->streaming && r->fsm.state == WH_LEADING)
		code = wh_streaming_step(r, now, err);
	wh_hook_claimed(r, r->window.added - before);
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	now = wh_monotonic(&r->env);
	code = wh_suspect_step(r, now, err);
	if (code != WHERRY_OK || r->untried_id)
		return code;
	if (!submits_later(r, now)) {
		code = wh_dispatch_step(r, now, err);
		if (code != WHERRY_OK || r->fsm.state != WH_LEADING)
			return code;
		wh_collect_step(r, now);
	}
	if (now >= r->flush_at_us && !rides(r, now))
		code = wh_settle_flush(r, now, NULL, err);
	if (code == WHERRY_OK && r->fsm.state == WH_LEADING && r->streaming)
		code = wh_streaming_settled(r, now, err);
	if (code == WHERRY_OK && r->fsm.state == WH_LEADING)
		code = purge_step(r, now, err);
	return code;
}

/* Everything that may touch the database. */
static wherry_code db_steps(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (r->reopen_db)
		code = wh_relay_reopen(r, now, err);
	if (code == WHERRY_OK && r->box)
		code = wh_until_empty_begin(r, now, err);
	/* To forget what came from a file that is gone needs no database. */
	if (code == WHERRY_OK && ((r->fsm.state == WH_LOST && r->awaits_file) ||
				  (r->box && r->db_retry_at_us <= now)))
		code = wh_lease_step(r, now, err);
	if (code == WHERRY_OK && r->fsm.state == WH_LEADING && r->db_retry_at_us <= now)
		code = lead_step(r, now, err);
	if (code == WHERRY_OK && r->fsm.state == WH_DRAINING && r->db_retry_at_us <= now)
		code = drain_step(r, now, err);
	if (code == WHERRY_OK && r->box && r->db_retry_at_us <= now)
		code = wh_until_empty_step(r, now, err);
	return code;
}

/* ---- when to step again ---- */

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* While reading and submitting are allowed. */
static int64_t work_deadline(const wherry_relay *r, int64_t now)
{
	int64_t at = WH_NEVER, next;

	if (r->set.competing)
		at = wh_claim_deadline(r, now);
	else if (r->keys.first_due > now || wh_noted_has_room(r))
		at = r->keys.first_due;
	if (!r->set.competing && !r->sweeping &&
	    (r->keys.n_held || r->keys.n_parked || r->window.n))
		at = sooner(at, r->sweep_at_us);
	if (!r->set.competing && r->more && wh_read_worth_it(r))
		at = now;
	if (r->strict.gap_before)
		at = sooner(at, r->strict.look_us);
	if (r->replaced && !r->sweeping && !r->set.competing)
		at = sooner(at, r->again_at_us);
	if (!r->window.ready.n)
		return at;
	if (!wh_dispatch_alone(r) && r->throttled_until_us > now)
		return sooner(at, r->throttled_until_us);
	if (!wh_dispatch_alone(r))
		return r->advanced ? now : at;
	if (r->probes_left)
		return r->advanced ? now : at;
	if (r->window.in_flight.n)
		return at;
	next = r->down ? r->probe_at_us : now;
	return sooner(at, next > r->throttled_until_us ? next : r->throttled_until_us);
}

static int64_t lead_deadline(const wherry_relay *r, int64_t now)
{
	int64_t at = sooner(r->renew_at_us, r->flush_at_us);

	at = sooner(at, r->check_us);
	at = sooner(at, wh_streaming_deadline(r, now));
	if (!r->set.competing && !r->set.keep)
		at = sooner(at, wh_read_deadline(r));
	if (purges(r))
		at = sooner(at, r->purge_at_us);
	return r->stats.paused || r->partitions.yielding
		       ? at
		       : sooner(at, work_deadline(r, now));
}

static int64_t deadline(const wherry_relay *r, int64_t now)
{
	int64_t at = r->give_up_us;

	if (r->fsm.state == WH_LEADING)
		at = sooner(at, lead_deadline(r, now));
	else if (r->fsm.state == WH_DRAINING)
		at = sooner(at, sooner(r->stop_by_us, r->renew_at_us));
	else if (r->fsm.state == WH_STANDBY)
		at = sooner(at, sooner(r->renew_at_us, r->check_us));
	if (r->fsm.state == WH_LOST)
		at = sooner(at, r->window.in_flight.n ? WH_NEVER : now);
	if (r->target & WHERRY_UNTIL_EMPTY &&
	    (r->fsm.state == WH_STANDBY || r->set.competing || wh_partitions_partial(r)))
		at = sooner(at, r->empty_check_us);
	if (r->db_retry_at_us > now && at < r->db_retry_at_us)
		at = r->db_retry_at_us;
	if (r->pub && (r->window.in_flight.n || r->window.ready.n))
		at = sooner(at, wh_publisher_deadline(r->pub));
	return sooner(at, wh_dead_letters_deadline(r));
}

/* A standby looks when someone commits: the holder may have given the lease back. */
static void standby_wake(wherry_relay *r, int64_t now)
{
	if (!r->db || r->reopen_db)
		return;
	r->db->calm = r->fsm.state == WH_STANDBY || wh_streaming_on(r);
	if (r->fsm.state != WH_STANDBY)
		return;
	if (wh_db_changed(r->db, now, &r->check_us) && r->renew_at_us > now + 50000)
		r->renew_at_us = now + 50000; /* not at each commit of a busy outbox */
}

wherry_code wherry_relay_step(wherry_relay *r, int64_t *out_wake_us, bool *out_finished,
			      wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	int64_t now;

	if (!r || !out_wake_us || !out_finished)
		return wh_fail(err, WHERRY_INVALID, "no relay to step");
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
		code = db_steps(r, now, err);
	else if (r->fsm.state == WH_LEADING)
		wh_collect_step(r, now);
	wh_dead_letters_step(r, now);
	if (code != WHERRY_OK) {
		wh_hook_error(r, code, err ? err->message : NULL);
		return code;
	}
	if (now >= r->stop_by_us && r->fsm.state == WH_DRAINING &&
	    r->db_retry_at_us > now)
		wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "stop time-out");
	stop_step(r, now);
	r->finished = r->fsm.state == WH_STOPPED;
	*out_finished = r->finished;
	*out_wake_us = r->fsm.state == WH_DRAINING && !r->window.in_flight.n &&
				       !wh_dead_letters_busy(r) &&
				       r->db_retry_at_us <= now
			       ? now
			       : deadline(r, now);
	return WHERRY_OK;
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

/* A record of this relay, its connection or its publisher, perhaps on a thread of theirs. */
static void pass_on(void *ctx, const wherry_log_record *record)
{
	const wherry_relay *r = ctx;
	wherry_log_record whole = *record;
	wh_buf line = WH_BUF_INIT(LOG_LINE_MAX);

	if (record->level > r->set.log_level)
		return;
	wh_log_fields(&line, record);
	whole.line = wh_buf_str(&line);
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

void wherry_relay_get_stats(const wherry_relay *relay, wherry_relay_stats *out)
{
	*out = relay->stats;
	out->in_flight = (int64_t)relay->window.in_flight.n;
	out->window = (int64_t)relay->window.n;
	out->held_keys = (int64_t)relay->keys.n_held;
	out->parked_keys = (int64_t)relay->keys.n_parked;
	out->suspects = relay->lease.suspects;
	out->down = relay->down;
}
