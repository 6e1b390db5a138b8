/*
 * The parts of reading the table around the reads: sweeps, the lease, acknowledgements,
 * deadlines.
 */
#include "relay/engine/reader.h"

#include <stdlib.h>

#include "relay/hold/noted.h"

enum { CHECK_US = 200000 };

wh_reader *wh_reader_of(const wherry_relay *r)
{
	return r->state;
}

/* ---- the state ---- */

void wh_reader_init(wh_reader *t)
{
	*t = (wh_reader){
		.mask = UINT64_MAX, .look_by_us = WH_NEVER, .open_look_us = WH_NEVER};
}

static wherry_code make(wherry_relay *r, wherry_error *err)
{
	r->state = malloc(sizeof(wh_reader));
	if (!r->state)
		return wh_oom(err);
	wh_reader_init(r->state);
	return WHERRY_OK;
}

void wh_reader_free(wherry_relay *r)
{
	free(r->state);
}

/* After a reconnect: the server may have lost acknowledgements, or may be
 * another server now. */
void wh_reader_resume(wherry_relay *r, int64_t now)
{
	wh_reader *t = wh_reader_of(r);

	t->more = true;
	if (r->store->stmt.ack_mark)
		wh_reader_sweep(r, now);
}

void wh_reader_forget(wherry_relay *r)
{
	wh_reader *t = wh_reader_of(r);

	t->gaps.n = 0;
	t->highest = t->oldest = 0;
	t->more = false;
}

/* ---- sweeps ---- */

void wh_reader_sweep(wherry_relay *r, int64_t now)
{
	wh_reader *t = wh_reader_of(r);

	t->cursor = INT64_MIN;
	t->sweeping = true;
	t->swept_clean = true;
	t->more = true;
	t->sweep_at_us = wh_later(now, r->set.sweep_us);
}

void wh_reader_read_again(wherry_relay *r, int64_t now)
{
	wh_reader_forget(r);
	wh_reader_sweep(r, now);
}

bool wh_reader_is_idle(const wherry_relay *r)
{
	wh_reader *t = wh_reader_of(r);

	return !t->more && r->window.n == 0 && r->keys.n_held == 0 &&
	       r->keys.n_parked == 0;
}

bool wh_reader_is_partial(const wherry_relay *r)
{
	return wh_reader_of(r)->mask != UINT64_MAX;
}

/* ---- the lease ---- */

void wh_reader_begin(wherry_relay *r, int64_t now)
{
	wh_reader_sweep(r, now);
}

wherry_code wh_reader_suspects(wherry_relay *r, int64_t *out_upto, wherry_error *err)
{
	*out_upto = r->lease.last_open;
	return r->lease.suspects ? wh_store_last_open(r->store, out_upto, err)
				 : WHERRY_OK;
}

/* Are the messages that the last relay had in flight delivered or dead?  They are among
 * the first two windows that were delivered, or among all rows that were open then. */
bool wh_reader_no_suspects_left(const wherry_relay *r)
{
	const wh_reader *t = wh_reader_of(r);

	if (r->stats.delivered - r->delivered_before >= 2 * r->set.window)
		return true;
	return !t->sweeping && !t->more &&
	       wh_window_lowest(&r->window) > r->suspects_upto;
}

bool wh_reader_is_unsuspected(const wherry_relay *r, const wh_entry *e)
{
	return !wh_reader_of(r)->sweeping && e->msg.id > r->suspects_upto;
}

/* A renewal returns the lowest and highest pending id.  A pending row below the cursor
 * may be unknown. */
wherry_code wh_reader_renewed(wherry_relay *r, int64_t now, int64_t version,
			      wherry_error *err)
{
	const wherry_lease *lease = &r->lease;
	wh_reader *t = wh_reader_of(r);
	bool missed = lease->first_open && lease->first_open <= t->cursor &&
		      wh_reader_is_idle(r) && now >= t->reread_at_us;

	(void)err;
	/* The cursor of a table that was empty is before all ids, also before "none". */
	if (lease->first_open && lease->last_open > t->cursor && !t->fed)
		t->more = true;
	if (missed || lease->control_version != version)
		wh_reader_sweep(r, now);
	return WHERRY_OK;
}

void wh_reader_changed(wherry_relay *r, int64_t now)
{
	wh_noted_look(r, now);
	wh_reader_sweep(r, now);
}

/* ---- rows in memory ---- */

void wh_reader_admitted(wherry_relay *r, wh_entry *e)
{
	(void)e;
	r->lease_unverified = true;
}

void wh_reader_left(wherry_relay *r, const wh_entry *e)
{
	wh_reader_of(r)->replaced |= e->replaced;
}

void wh_reader_row_lost(wherry_relay *r)
{
	wh_reader_of(r)->replaced = true;
}

/* Plan when to read the table again, later and later, so that messages whose rows cannot
 * be acknowledged are not delivered again all the time. */
static void plan_reread(wh_reader *t, const wh_env *env, int64_t now)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, WH_SECOND, 60 * WH_SECOND,
					   false, 0};
	enum { AT_ONCE = 3 };

	if (now - t->reread_at_us > 60 * WH_SECOND)
		t->n_rereads = 0;
	t->reread_at_us = now;
	if (++t->n_rereads > AT_ONCE)
		t->reread_at_us = wh_later(
			now, wh_backoff_delay(&backoff, t->n_rereads - AT_ONCE, env));
	/* No other sweep may read the whole table before that. */
	if (t->sweep_at_us < t->reread_at_us)
		t->sweep_at_us = t->reread_at_us;
	if (t->open_look_us < t->reread_at_us)
		t->open_look_us = t->reread_at_us;
}

/* Called when n rows were missing: they were deleted, other messages have their ids, or
 * the database ignores the update. */
void wh_reader_missed(wherry_relay *r, int64_t n, int64_t now)
{
	wh_reader *t = wh_reader_of(r);

	plan_reread(t, &r->env, now);
	t->missed = true;
	if (!t->replaced)
		wh_relay_say(
			r, WHERRY_LOG_WARN, "rows-missing", wh_log_int("n", n),
			wh_log_note("delivered rows could not be acknowledged: they "
				    "were deleted or replaced meanwhile, or a trigger "
				    "or a policy ignores the update; the table is "
				    "read again"));
	t->replaced = true;
}

/* ---- until empty ---- */

/* Does the relay know, without asking the database, that a message is open? */
static bool knows_of_open(const wherry_relay *r)
{
	return r->fsm.state == WH_LEADING &&
	       (wh_reader_of(r)->cursor < r->target_id ||
		wh_window_lowest(&r->window) <= r->target_id);
}

/* All was delivered, and messages are open.  Something keeps this relay from acknowledging them
 * if that happens again and again. */
static wherry_code check_ignored(wherry_relay *r, wherry_error *err)
{
	enum { IGNORED_MOST = 3 };
	wh_reader *t = wh_reader_of(r);

	t->n_ignored = t->missed ? t->n_ignored + 1 : 0;
	t->missed = false;
	if (t->n_ignored < IGNORED_MOST)
		return WHERRY_OK;
	(void)wh_fail(
		err, WHERRY_INVALID,
		"messages were delivered again and again and are still open: a trigger, a "
		"rule or a policy of the table ignores acknowledgements");
	return wh_repair(err, WHERRY_INVALID, WHERRY_REPAIR_DOCTOR, WHERRY_KIND_OUTBOX,
			 r->store->name.ptr);
}

void wh_reader_end_if_empty(wherry_relay *r, bool open, bool quiet, int64_t now)
{
	wh_reader *t = wh_reader_of(r);

	if (!open)
		wh_until_empty_finish(r, r->stats.dead ? WHERRY_DEATHS : WHERRY_EMPTY);
	else if (r->fsm.state != WH_LEADING || !quiet)
		return;
	else if (r->keys.n_parked && t->swept_clean)
		wh_until_empty_finish(r, WHERRY_PARKED);
	else if (!r->stats.paused)
		wh_reader_sweep(r, now);
}

wherry_code wh_reader_until_empty(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	bool quiet = !t->more && !t->sweeping && !r->window.n && !r->keys.n_held;
	bool open = true;
	wherry_code code;

	if ((r->fsm.state == WH_STANDBY || !quiet || wh_reader_is_partial(r)) &&
	    now < r->empty_check_us)
		return WHERRY_OK; /* New messages may keep the relay busy for ever. */
	r->empty_check_us = wh_later(now, CHECK_US);
	if (!quiet && knows_of_open(r))
		return WHERRY_OK;
	code = wh_store_open_upto(r->store, r->target_id, &open, err);
	if (code != WHERRY_OK)
		return code;
	wh_reader_end_if_empty(r, open, quiet, now);
	if (atomic_load(&r->stop) || r->fsm.state != WH_LEADING || !quiet)
		return WHERRY_OK;
	return check_ignored(r, err);
}

/* ---- when to step again ---- */

static int64_t look_deadline(const wherry_relay *r)
{
	wh_reader *t = wh_reader_of(r);

	return wh_reader_is_idle(r) && !t->fed && !r->stats.paused ? t->open_look_us
								   : WH_NEVER;
}

static int64_t read_deadline(const wherry_relay *r, int64_t now)
{
	const wh_reader *t = wh_reader_of(r);
	int64_t at = WH_NEVER;

	if (r->keys.first_due > now || wh_noted_has_room(r))
		at = r->keys.first_due;
	if (!t->sweeping && (r->keys.n_held || r->keys.n_parked || r->window.n))
		at = wh_sooner(at, t->sweep_at_us);
	if (t->more && wh_reader_is_worth_it(r))
		at = now;
	if (t->replaced && !t->sweeping)
		at = wh_sooner(at, t->reread_at_us);
	return at;
}

int64_t wh_reader_deadline(const wherry_relay *r, int64_t now)
{
	if (r->stats.paused || (r->engine->yields && r->engine->yields(r)))
		return look_deadline(r);
	return wh_sooner(look_deadline(r), read_deadline(r, now));
}

static wherry_code take(wherry_relay *r, wherry_error *err)
{
	const wh_relay_settings *s = &r->set;

	return wh_store_lease_as(r->store, r->engine->id, s->redeliver, s->name,
				 s->lease_us, s->window, &r->lease, err);
}

const wh_engine_driver wh_engine_exclusive = {
	.id = WH_EXCLUSIVE,
	WH_READER_FUNCTIONS,
	.make = make,
	.free = wh_reader_free,
	.resume = wh_reader_resume,
	.take = take,
	.begin = wh_reader_begin,
	.renewed = wh_reader_renewed,
	.admitted = wh_reader_admitted,
	.left = wh_reader_left,
	.fetch = wh_reader_fetch,
	.submits_while_reading = true,
	.deadline = wh_reader_deadline,
};
