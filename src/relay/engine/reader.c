/*
 * The parts of reading the table around the reads: sweeps, the lease, deadlines.
 */
#include "relay/engine/reader.h"

#include "relay/hold/noted.h"

wh_reader *wh_reader_of(const wherry_relay *r)
{
	return r->state;
}

/* ---- the state ---- */

void wh_reader_init(wh_reader *t)
{
	*t = (wh_reader){.mask = UINT64_MAX, .look_by_us = WH_NEVER};
}

void wh_reader_forget(wherry_relay *r)
{
	wh_reader *t = wh_reader_of(r);

	t->highest = 0;
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

bool wh_reader_is_unsuspected(const wherry_relay *r, const wh_entry *e)
{
	return !wh_reader_of(r)->sweeping && e->msg.id > r->suspects_upto;
}

void wh_reader_changed(wherry_relay *r, int64_t now)
{
	wh_noted_look(r, now);
	wh_reader_sweep(r, now);
}

/* ---- rows in memory ---- */

void wh_reader_left(wherry_relay *r, const wh_entry *e)
{
	wh_reader_of(r)->replaced |= e->replaced;
}

void wh_reader_row_lost(wherry_relay *r)
{
	wh_reader_of(r)->replaced = true;
}

/* ---- until empty ---- */

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

/* ---- when to step again ---- */

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
		at = now;
	return at;
}

int64_t wh_reader_deadline(const wherry_relay *r, int64_t now)
{
	if (r->stats.paused || (r->engine->yields && r->engine->yields(r)))
		return WH_NEVER;
	return read_deadline(r, now);
}
