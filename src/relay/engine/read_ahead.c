/*
 * Reads the exceptions of a log from the beginning: a sweep.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "relay/engine/engine.h"
#include "relay/engine/reader.h"
#include "relay/hold/noted.h"

enum { LOOK_US = 100000 };

/* One read in progress. */
typedef struct reading {
	wherry_relay *r;
	int64_t now;
	int64_t rows; /* Rows met. */
	bool full;    /* Reading ended early: no room, or a claimed row. */
} reading;

/* Write the key under which a message without a key waits for its retry.  No ordering key
 * begins with "#". */
static void lone_key_text(wherry_relay *r, int64_t id)
{
	wh_buf_reset(&r->key_text);
	wh_buf_printf(&r->key_text, "#%" PRId64, id);
}

/* If an operator retried the first noted message of a held key, the key is due now. */
static void let_go(reading *w, wh_key *key, const wh_open_row *row)
{
	if (key->fsm.state == WH_KEY_HELD && key->due_us != WH_NEVER &&
	    row->state == WHERRY_PENDING && wh_ids_count(&key->noted) &&
	    key->noted.ids[key->noted.first] == row->id)
		wh_key_set_due(&w->r->keys, key, w->now);
}

/* If the key of this row is held, draining or parked, do not take the row in: note its
 * id, unless the key is parked.  False: the key is free. */
static bool held_back(reading *w, const wh_open_row *row)
{
	wherry_relay *r = w->r;
	wh_reader *t = wh_reader_of(r);
	bool lone = !r->set.ordered || !r->key_text.len;
	wh_key *key;

	if (lone && (!t->sweeping || !r->keys.n_held))
		return false;
	if (lone)
		lone_key_text(r, row->id);
	key = wh_keys_find(&r->keys, (wh_view){r->key_text.ptr, r->key_text.len});
	if (lone)
		wh_buf_reset(&r->key_text);
	if (!key || key->fsm.state == WH_KEY_FREE)
		return false;
	if (key->fsm.state != WH_KEY_PARKED)
		wh_noted_add(r, key, row->id);
	if (r->engine->noted)
		r->engine->noted(r, row->id, t->taking);
	let_go(w, key, row);
	return true;
}

/* A failed row that is not due yet holds its key until it is due. */
static wherry_code hold_back(reading *w, const wh_open_row *row, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_key *key;

	if (!r->set.ordered || !r->key_text.len)
		lone_key_text(r, row->id);
	key = wh_keys_get(&r->keys, (wh_view){r->key_text.ptr, r->key_text.len});
	if (!key)
		return wh_oom(err);
	if (key->fsm.state == WH_KEY_FREE || key->fsm.state == WH_KEY_DRAINING)
		wh_key_hold(&r->keys, key, wh_later(w->now, row->due_in_us));
	wh_noted_add(r, key, row->id);
	return WHERRY_OK;
}

/* May more rows be read?  There must be room, and one more key may become held. */
static bool may_read_on(const wherry_relay *r)
{
	return wh_intake_has_room(r) && wh_intake_keys_left(r);
}

/* Take in a row that is not in memory, or note it behind its key. */
static wherry_code meet_new(reading *w, const wh_open_row *row, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_reader *t = wh_reader_of(r);
	wherry_code code;

	code = wh_row_key(r, row, err);
	if (code != WHERRY_OK || held_back(w, row))
		return code;
	t->swept_clean = false;
	return row->due_in_us > 0 && row->state == WHERRY_FAILED
		       ? hold_back(w, row, err)
		       : wh_intake_add(r, row, err);
}

wherry_code wh_reader_meet(wherry_relay *r, int64_t now, const wh_open_row *row,
			   wherry_error *err)
{
	reading w = {.r = r, .now = now};
	bool later;

	return wh_intake_knows(r, row, &later) ? WHERRY_OK : meet_new(&w, row, err);
}

static wherry_code meet(void *ctx, const wh_open_row *row, wherry_error *err)
{
	reading *w = ctx;
	wherry_relay *r = w->r;
	wh_reader *t = wh_reader_of(r);
	wherry_code code = WHERRY_OK;
	bool later;

	if (!may_read_on(r)) {
		w->full = true;
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	}
	w->rows++;
	if (!(t->comes_later && t->comes_later(r, row, w->now)) &&
	    !wh_intake_knows(r, row, &later))
		code = meet_new(w, row, err);
	if (code != WHERRY_OK)
		return code;
	if (row->id > t->cursor)
		t->cursor = row->id;
	if (row->id > t->highest)
		t->highest = row->id;
	return WHERRY_OK;
}

/* Close the batch of a read.  A read that `meet` ended early has not failed. */
static wherry_code finish(reading *w, wherry_code code)
{
	wh_window_end(&w->r->window);
	return w->full && code == WHERRY_INTERRUPTED ? WHERRY_OK : code;
}

/* If bodies are large, many rows of a batch find no room and were read for nothing.  So
 * ask for fewer rows, and then for twice as many each time. */
static void note_fit(wherry_relay *r, const reading *w)
{
	wh_reader *t = wh_reader_of(r);

	if (w->full &&
	    r->window.bytes - r->window.bytes_again >= (size_t)r->set.window_bytes)
		t->fits = w->rows ? w->rows : 1;
	else if (t->fits)
		t->fits = t->fits < r->set.batch ? 2 * t->fits : 0;
}

static wherry_code read_ahead(wherry_relay *r, int64_t now, int64_t limit,
			      wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	reading w = {.r = r, .now = now};
	wherry_code code = WHERRY_OK;

	if (!t->mask) {
		t->more = t->sweeping = false;
		return code;
	}
	code = wh_window_begin(&r->window, err);

	if (code == WHERRY_OK)
		code = finish(&w, wh_outbox_read(r->outbox, t->mask, t->cursor, limit,
						 meet, &w, err));
	if (code != WHERRY_OK)
		return code;
	note_fit(r, &w);
	t->more = t->sweeping = t->sweeping && (w.full || w.rows == limit);
	return WHERRY_OK;
}

/* ---- the step ---- */

bool wh_reader_is_worth_it(const wherry_relay *r)
{
	int64_t least = r->set.window / 4;

	if (least > r->set.round_trip)
		least = r->set.round_trip;
	return may_read_on(r) && wh_intake_room(r) >= least;
}

static void tell_full(wherry_relay *r)
{
	wh_reader *t = wh_reader_of(r);
	bool full = !wh_intake_keys_left(r);

	if (full && !t->full_logged)
		wh_relay_say(r, WHERRY_LOG_WARN, "held-full",
			     wh_log_int("held_keys", (int64_t)r->keys.n_held),
			     wh_log_note("reading stops until fewer keys wait; see "
					 "relay.held_keys"));
	t->full_logged = full;
}

static wherry_code read_more(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	bool from_start = t->sweeping && t->cursor == INT64_MIN;
	int64_t limit = r->set.round_trip;
	bool new = t->cursor >= t->highest; /* A sweep also meets rows in memory. */
	wherry_code code = WHERRY_OK;

	if (limit > wh_intake_room(r) && new)
		limit = wh_intake_room(r);
	if (t->fits && limit > 2 * t->fits)
		limit = 2 * t->fits;

	if (from_start && r->set.park)
		code = wh_noted_parked(r, now, err);
	if (code == WHERRY_OK)
		code = read_ahead(r, now, limit, err);
	return code;
}

wherry_code wh_reader_look_for_operator(wherry_relay *r, int64_t now, bool found,
					wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	wherry_code code;

	if (t->look_by_us == WH_NEVER || (found && now < t->look_by_us))
		return WHERRY_OK;
	code = wh_operator_look(r, now, err);
	if (code == WHERRY_OK)
		t->look_by_us = WH_NEVER;
	return code;
}

/* Start a sweep if one is due. */
static void sweep_if_due(wherry_relay *r, int64_t now)
{
	wh_reader *t = wh_reader_of(r);

	if (now >= t->sweep_at_us && !t->sweeping) {
		if (r->keys.n_held || r->keys.n_parked || r->window.n || t->more)
			wh_reader_sweep(r, now);
		else
			t->sweep_at_us = wh_later(now, r->set.sweep_us);
	}
	if (t->replaced && !t->sweeping) {
		t->replaced = false;
		wh_reader_read_again(r, now);
	}
}

wherry_code wh_reader_fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	wherry_code code = WHERRY_OK;
	bool woken = wh_relay_woken(r, now);

	r->version = wh_db_version(r->db);
	t->news |= woken;
	if (woken && t->look_by_us == WH_NEVER)
		t->look_by_us = wh_later(now, LOOK_US);
	tell_full(r);
	if (r->stats.paused)
		return WHERRY_OK;
	sweep_if_due(r, now);
	if (now >= r->keys.first_due)
		code = wh_noted_due(r, now, err);
	if (code == WHERRY_OK && t->more && wh_reader_is_worth_it(r))
		code = read_more(r, now, err);
	return code;
}
