/*
 * Notes the ids of rows that wait behind a failed message, and reads them again when the
 * key is due.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "relay/engine/reader.h"
#include "relay/hold/noted.h"

void wh_noted_add(wherry_relay *r, wh_key *key, int64_t id)
{
	(void)wh_key_note(&r->keys, key, id, r->set.noted_most);
}

/* ---- keys whose wait is over ---- */

bool wh_noted_has_room(const wherry_relay *r)
{
	size_t half = r->set.window > 1 ? (size_t)r->set.window / 2 : 1;

	return wh_intake_has_room_again(r) &&
	       (!r->destination.down ||
		r->window.n < half + r->destination.n_failed_probes);
}

/* All noted rows of the key are read: free the key.  If not all of its ids could be
 * noted, read all exceptions again. */
static void end_draining(wherry_relay *r, wh_key *key)
{
	bool overflowed = key->overflow_from != 0;

	wh_key_free(&r->keys, key);
	wh_keys_drop(&r->keys, key);
	if (overflowed) /* The cursor does not show which ids were read: read all. */
		wh_reader_sweep(r, wh_monotonic(&r->env));
}

typedef struct redo {
	wherry_relay *r;
	int64_t now;
	wh_key *key;
	/* Reading ended early: no room, the key is held again, or a claimed row. */
	bool full;
	int64_t last; /* Id of the last row met. */
} redo;

/* Does a row with this key text wait under this key?  A message without a key waits under
 * "#" and a number. */
static bool is_of(const wherry_relay *r, const wh_key *key, const wh_buf *text)
{
	bool lone = !r->set.ordered || !text->len;

	if (key->bytes[0] == '#' || lone)
		return (key->bytes[0] == '#') == lone;
	return wh_view_eq((wh_view){key->bytes, key->len},
			  (wh_view){text->ptr, text->len});
}

static wherry_code meet_again(void *ctx, const wh_open_row *row, wherry_error *err)
{
	redo *d = ctx;
	wherry_relay *r = d->r;
	wh_reader *t = wh_reader_of(r);
	wherry_code code;
	bool later;

	if (!wh_noted_has_room(r) || d->key->fsm.state != WH_KEY_DRAINING) {
		d->full = true;
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	}
	if (!wh_intake_knows(r, row, &later)) {
		code = wh_row_key(r, row, err);
		if (code != WHERRY_OK)
			return code;
		if (!is_of(r, d->key,
			   &r->key_text)) { /* Another message has this id now. */
			d->last = row->id;
			return wh_reader_meet(r, d->now, row, err);
		}
		if (d->key->bytes[0] == '#')
			wh_buf_reset(&r->key_text);
		t->swept_clean = false;
		if (row->due_in_us > 0 && row->state == WHERRY_FAILED)
			wh_key_hold(&r->keys, d->key, wh_later(d->now, row->due_in_us));
		else if ((code = wh_intake_add(r, row, err)) != WHERRY_OK)
			return code;
	}
	d->last = row->id;
	return WHERRY_OK;
}

/* Remove the ids up to `last` from the list: their messages are in memory, or no
 * longer open. */
static void forget_noted(wherry_relay *r, wh_key *key, int64_t last)
{
	while (wh_ids_count(&key->noted) && key->noted.ids[key->noted.first] <= last) {
		key->noted.first++;
		r->keys.n_noted--;
	}
}

/* How many of the first n noted ids may be read: not those from the first one on that no statement sees yet, or
 * later messages of the key would be delivered before it. */
static wherry_code count_seen(wherry_relay *r, const wh_key *key, size_t *inout_n,
			      wherry_error *err)
{
	const int64_t *ids = key->noted.ids + key->noted.first;
	size_t n_unseen = *inout_n, n = 0;
	wherry_code code;

	if (!r->engine->unseen)
		return WHERRY_OK;
	memcpy(r->batch_ids, ids, n_unseen * sizeof(*ids));
	code = r->engine->unseen(r, r->batch_ids, &n_unseen, err);
	if (code != WHERRY_OK || !n_unseen)
		return code;
	while (ids[n] != r->batch_ids[0])
		n++;
	*inout_n = n;
	return WHERRY_OK;
}

/* Read the rows of the first n noted ids. */
static wherry_code read_noted(redo *d, size_t n, wherry_error *err)
{
	wherry_relay *r = d->r;

	memcpy(r->batch_ids, d->key->noted.ids + d->key->noted.first,
	       n * sizeof(*r->batch_ids));
	return wh_store_read_ids(r->store, r->batch_ids, n, meet_again, d, err);
}

/* Read a batch of the rows that wait behind a failed message of the key.  out_at: when to read on. */
static wherry_code drain_key(wherry_relay *r, int64_t now, wh_key *key, int64_t *out_at,
			     wherry_error *err)
{
	redo d = {.r = r, .now = now, .key = key};
	size_t n = wh_ids_count(&key->noted), most = (size_t)r->set.batch;
	int64_t upto;
	wherry_code code;

	if (n > most)
		n = most;
	code = count_seen(r, key, &n, err);
	if (code != WHERRY_OK)
		return code;
	*out_at = n ? now : wh_later(now, WH_UNSEEN_US);
	if (!n)
		return WHERRY_OK;
	upto = key->noted.ids[key->noted.first + n - 1];
	code = wh_window_begin_again(&r->window, err);
	if (code != WHERRY_OK)
		return code;
	code = read_noted(&d, n, err);
	wh_window_end(&r->window);
	if (d.full && code == WHERRY_INTERRUPTED)
		code = WHERRY_OK;
	if (code != WHERRY_OK)
		return code;
	if (!d.full && key->fsm.state == WH_KEY_DRAINING)
		forget_noted(r, key, upto);
	else if (key->fsm.state == WH_KEY_HELD)
		/* The last row read holds the key again. */
		forget_noted(r, key, d.last - 1);
	else
		forget_noted(r, key, d.last);
	return WHERRY_OK;
}

wherry_code wh_noted_due(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t first_due = WH_NEVER;
	wherry_code code = WHERRY_OK;
	bool drained = false; /* One key, however soon the next renewal is. */

	r->keys.first_due = WH_NEVER; /* Rows that are met may hold keys, too. */
	for (wh_key *key = r->keys.held, *next; key && code == WHERRY_OK; key = next) {
		int64_t at = now;

		next = key->held_next;
		if (key->fsm.state == WH_KEY_HELD && key->due_us <= now && !key->active) {
			key->broken = false;
			wh_key_drain(&r->keys, key);
		}
		if (key->fsm.state == WH_KEY_DRAINING && wh_ids_count(&key->noted)) {
			if (!wh_noted_has_room(r) ||
			    (drained && wh_monotonic(&r->env) >= r->renew_at_us)) {
				first_due = now;
				continue;
			}
			drained = true;
			code = drain_key(r, now, key, &at, err);
		}
		if (key->fsm.state == WH_KEY_HELD && key->active)
			continue; /* Wait until nothing of the key is in flight. */
		if (key->fsm.state == WH_KEY_HELD && key->due_us < first_due)
			first_due = key->due_us;
		else if (key->fsm.state == WH_KEY_DRAINING && wh_ids_count(&key->noted))
			first_due = wh_sooner(first_due, at);
		else if (key->fsm.state == WH_KEY_DRAINING)
			end_draining(r, key);
	}
	if (code != WHERRY_OK)
		first_due = now; /* Not all keys were visited. */
	if (first_due < r->keys.first_due)
		r->keys.first_due = first_due;
	return code;
}

/* A message that is not due holds its key again. */
void wh_noted_look(wherry_relay *r, int64_t now)
{
	enum { MOST = 1000 };

	if (r->keys.n_held > MOST)
		return;
	for (wh_key *key = r->keys.held; key; key = key->held_next)
		if (key->fsm.state == WH_KEY_HELD && key->due_us != WH_NEVER)
			wh_key_set_due(&r->keys, key, now);
}

/* ---- parked keys ---- */

typedef struct parking {
	wherry_relay *r;
	int64_t rows; /* Rows met. */
	int64_t last; /* Last id met: the next page begins there. */
} parking;

static wherry_code meet_dead(void *ctx, const wh_open_row *row, wherry_error *err)
{
	parking *w = ctx;
	wherry_relay *r = w->r;
	wherry_code code = wh_row_key(r, row, err);
	wh_key *key;

	w->rows++;
	w->last = row->id;
	if (code != WHERRY_OK || !r->key_text.len)
		return code;
	key = wh_keys_get(&r->keys, (wh_view){r->key_text.ptr, r->key_text.len});
	if (!key)
		return wh_oom(err);
	if (key->fsm.state == WH_KEY_FREE && !key->owned)
		wh_key_park(&r->keys, key);
	return WHERRY_OK;
}

/* Parked keys are read again before each sweep, since an operator may have
 * retried dead messages. */
wherry_code wh_noted_parked(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	enum { SOON_US = 100000 };
	uint64_t mask = wh_reader_of(r)->mask;
	parking w = {.r = r, .last = INT64_MIN};
	wherry_code code;

	for (wh_key *key = r->keys.held, *next; key; key = next) {
		next = key->held_next;
		if (key->fsm.state != WH_KEY_PARKED)
			continue;
		if (key->owned) { /* Wait until its messages have left memory. */
			t->sweep_at_us = wh_later(now, SOON_US);
			continue;
		}
		wh_key_free(&r->keys, key);
		wh_keys_drop(&r->keys, key);
	}
	do {
		w.rows = 0;
		code = wh_outbox_dead_keys(r->outbox, mask, w.last, r->set.batch,
					   meet_dead, &w, err);
	} while (code == WHERRY_OK && w.rows == r->set.batch);
	return code;
}

/* ---- the functions of the hold ---- */

/* The row is read again when its key is released.  After a retry, a sweep reads all rows
 * of a parked key. */
static void leave(wherry_relay *r, wh_entry *e)
{
	if (e->key->fsm.state != WH_KEY_PARKED)
		wh_noted_add(r, e->key, e->msg.id);
	if (r->engine->noted)
		r->engine->noted(r, e->msg.id, e->tx);
	wh_entry_gone(r, e);
}

/* Make a key for a message without a key to wait under.  No ordering key begins
 * with "#". */
static wh_key *lone_key(wherry_relay *r, const wh_entry *e)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "#%" PRId64, e->msg.id);

	return wh_keys_get(&r->keys, (wh_view){text, (size_t)n});
}

static void failure_written(wherry_relay *r, wh_entry *e, int64_t now)
{
	int64_t due = wh_failure_due(e, now);
	wh_key *key = e->key;

	if (!key) {
		key = lone_key(r, e);
		if (!key) {
			wh_reader_of(r)->sweep_at_us = now; /* A sweep finds the row. */
			return;
		}
		if (key->fsm.state != WH_KEY_FREE)
			return;
		wh_key_hold(&r->keys, key, due);
	}
	wh_key_set_refused(&r->keys, key, e->not_counted);
	wh_noted_add(r, key, e->msg.id);
	wh_key_set_due(&r->keys, key, due);
}

static void death_written(wherry_relay *r, wh_entry *e, int64_t now)
{
	if (e->key && r->set.park)
		wh_key_park(&r->keys, e->key);
	else if (e->key)
		wh_key_set_due(&r->keys, e->key, now);
}

const wh_hold wh_hold_noted = {
	.failed = wh_settle_held,
	.failed_again = wh_settle_put,
	.leave = leave,
	.failure_written = failure_written,
	.death_written = death_written,
	.beside_window = wh_failed_probes,
	.beside_window_most = WH_FAILED_PROBES_MOST,
	.bytes_beside = wh_bytes_again,
};
