/*
 * Reads the table: ahead of the cursor, or from the beginning (a sweep).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "relay/engine/engine.h"
#include "relay/engine/reader.h"
#include "relay/hold/noted.h"

enum { LOOK_US = 100000, OPEN_LOOK_US = 5000000 };

/* One read in progress. */
typedef struct reading {
	wherry_relay *r;
	int64_t now;
	int64_t rows;  /* Rows met. */
	int64_t fresh; /* Rows met with ids above `after`. */
	int64_t after; /* The cursor before the read. */
	bool full;     /* Reading ended early: no room, or a claimed row. */
	bool ahead;    /* Rows with ids above the cursor move it. */
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

/* May a pending row appear below ids that were read? */
static bool rows_come_late(const wherry_relay *r)
{
	return r->db->driver->late_commits && r->outbox->own.sweep;
}

static void move_cursor(wherry_relay *r, int64_t id)
{
	wh_reader *t = wh_reader_of(r);

	t->cursor = id;
	if (id <= t->highest)
		return;
	if (rows_come_late(r) && wh_reader_is_partial(r))
		wh_gaps_pass(&t->gaps, t->highest + 1, id);
	else if (rows_come_late(r))
		wh_gaps_add(&t->gaps, t->highest + 1, id - 1);
	t->highest = id;
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
	w->fresh += row->id > w->after;
	if (!(t->comes_later && t->comes_later(r, row, w->now)) &&
	    !wh_intake_knows(r, row, &later))
		code = meet_new(w, row, err);
	if (code != WHERRY_OK)
		return code;
	if (w->ahead && row->id > t->cursor)
		move_cursor(r, row->id);
	else if (!wh_reader_is_partial(r))
		wh_gaps_fill(&t->gaps, row->id);
	return WHERRY_OK;
}

/* Close the batch of a read.  A read that `meet` ended early has not failed. */
static wherry_code finish(reading *w, wherry_code code)
{
	wh_window_end(&w->r->window);
	return w->full && code == WHERRY_INTERRUPTED ? WHERRY_OK : code;
}

static void note_horizon(wherry_relay *r, const wh_horizon *now)
{
	wh_reader *t = wh_reader_of(r);

	wh_gaps_date(&t->gaps, t->running, now->next);
	t->oldest = now->oldest;
	t->running = now->running;
	if (now->held)
		r->lease_unverified = false;
}

/*
 * If lower ids may still be committed: an id that was passed over now belongs to a
 * transaction below `next`.  A read that began after all those transactions had ended has
 * met their rows.  So the relay asks for the oldest running transaction before a read,
 * and for the next one after the read.
 */
static wherry_code note_transactions(wherry_relay *r, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	wh_horizon now;
	wherry_code code =
		wh_outbox_horizon(r->outbox, &r->lease, t->gaps.n > 0, &now, err);

	if (code != WHERRY_OK)
		return code;
	note_horizon(r, &now);
	return WHERRY_OK;
}

/*
 * Return what to read of the relay's partitions: of each as many rows as make about twice
 * a batch together, and rows that may have been committed late, except those in memory.
 */
static wh_partitions_read partitions_to_read(wherry_relay *r, int64_t limit)
{
	wh_reader *t = wh_reader_of(r);
	enum { SPARE = 8 };
	int64_t least = 2 * limit / (wh_partitions_count(t->mask) + 1) + SPARE;
	wh_partitions_read partitions = {.mask = t->mask, .late = t->cursor};

	if (t->each < least)
		t->each = least;
	if (t->each > limit)
		t->each = limit;
	partitions.each = t->each;
	if (!t->gaps.n || t->gaps.ranges[0].first > t->cursor)
		return partitions;
	partitions.late = t->gaps.ranges[0].first - 1;
	partitions.known = r->scratch.back_ids; /* Nothing else uses it now. */
	partitions.n_known = wh_window_ids(&r->window, partitions.late, t->cursor,
					   r->scratch.back_ids);
	return partitions;
}

/* If a few partitions have most of the rows, read more rows of each the next time. */
static void note_partitions(wherry_relay *r, const reading *w, int64_t limit)
{
	wh_reader *t = wh_reader_of(r);

	if (w->fresh >= limit)
		t->each -= t->each / 8;
	else if (w->fresh >= t->each && w->fresh < limit / 2)
		t->each *= 2;
}

/* If lower ids may still be committed: send an acknowledgement, a read and the question
 * for running transactions in one round trip. */
static wherry_code ack_and_read(reading *w, int64_t limit, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_reader *t = wh_reader_of(r);
	wh_read_from from = {.after = t->cursor,
			     .limit = limit,
			     .gaps = t->gaps.ranges,
			     .n_gaps = t->gaps.n,
			     .all_open = t->sweeping};
	wh_partitions_read partitions;
	int64_t oldest = t->oldest;
	bool asked = t->gaps.n > 0;
	wh_horizon horizon = {.next = 0};
	wh_read_ack ack;
	bool acks = wh_settle_with_read(r, w->now, &ack);
	wherry_code code;

	if (wh_reader_is_partial(r)) {
		partitions = partitions_to_read(r, limit);
		from.partitions = &partitions;
	}
	wh_meanwhile_begin(r);
	r->reading = !r->lease_unverified;
	code = wh_outbox_ack_and_read(r->outbox, &r->lease, acks ? &ack.ack : NULL, &from,
				      meet, w, asked, &horizon, err);
	wh_meanwhile_end(r);
	r->advanced |= r->reading; /* Messages of this read may be submitted now. */
	r->reading = false;
	if (acks)
		wh_settle_after_read(r, &ack, w->now);
	code = finish(w, code);
	if (code != WHERRY_OK)
		return code;
	if (!w->full && (from.partitions || w->rows < limit))
		wh_gaps_expire(&t->gaps, oldest);
	if (w->full || (t->gaps.n && !asked))
		return note_transactions(r, err);
	note_horizon(r, &horizon);
	return WHERRY_OK;
}

static wherry_code read_plainly(reading *w, int64_t limit, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_reader *t = wh_reader_of(r);

	return finish(w, wh_outbox_read_share(r->outbox, t->mask, t->sweeping, t->cursor,
					      limit, meet, w, err));
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
	reading w = {.r = r, .now = now, .ahead = true, .after = t->cursor};
	/* Then each partition is read on its own. */
	bool partial = wh_reader_is_partial(r) && rows_come_late(r);
	wherry_code code = WHERRY_OK;

	if (!t->mask) {
		t->more = t->sweeping = false;
		return code;
	}
	code = wh_window_begin(&r->window, err);

	if (code == WHERRY_OK)
		code = rows_come_late(r) ? ack_and_read(&w, limit, err)
					 : read_plainly(&w, limit, err);
	if (code != WHERRY_OK)
		return code;
	note_fit(r, &w);
	t->more = w.full || (partial ? w.fresh >= t->each : w.rows == limit);
	if (partial)
		note_partitions(r, &w, limit);
	if (!t->more && t->sweeping) {
		t->sweeping = false;
		/* Rows may have come after the ranges of open states that a
		 * sweep merges. */
		t->more = true;
	}
	if (!t->sweeping && t->fed) {
		t->more = false; /* New rows come otherwise. */
	}
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

bool wh_reader_reads_next(const wherry_relay *r, int64_t now)
{
	wh_reader *t = wh_reader_of(r);

	return t->more && wh_reader_is_worth_it(r) && !r->stats.paused &&
	       now < t->sweep_at_us && now < r->keys.first_due;
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

	if (limit > wh_intake_room(r) && (new || !t->sweeping))
		limit = wh_intake_room(r);
	if (t->fits && limit > 2 * t->fits)
		limit = 2 * t->fits;

	if (from_start && r->set.park)
		code = wh_noted_parked(r, now, err);
	if (code == WHERRY_OK)
		code = read_ahead(r, now, limit, err);
	return code;
}

/*
 * Look for open rows that reading ahead does not meet: rows inserted below the cursor,
 * for example after a row with far too high an id, or inserted as processing or failed.
 * The relay looks at most every few seconds, after other connections have committed, when
 * nothing else is left to do (a_row_inserted_below_the_cursor_is_delivered).
 */
static wherry_code look_for_open(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	bool any = wh_reader_is_partial(r);
	wherry_code code = WHERRY_OK;

	if (now < t->open_look_us || !wh_reader_is_idle(r) || t->fed)
		return WHERRY_OK;
	t->open_look_us = WH_NEVER;
	t->open_looked_us = now;
	if (!any)
		code = wh_store_open_upto(r->store, INT64_MAX, &any, err);
	if (code == WHERRY_OK && any)
		wh_reader_sweep(r, now);
	return code;
}

/* Plan when to look for open rows: soon, but some time after the last look. */
static void plan_look(wherry_relay *r, int64_t now)
{
	wh_reader *t = wh_reader_of(r);
	int64_t next = wh_later(t->open_looked_us,
				wh_reader_is_partial(r) ? r->set.sweep_us : OPEN_LOOK_US);

	if (next < t->reread_at_us)
		/* Some rows cannot be acknowledged; see plan_reread(). */
		next = t->reread_at_us;
	if (t->open_look_us == WH_NEVER)
		t->open_look_us = next > now ? next : wh_later(now, LOOK_US);
}

static wherry_code look_for_operator(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = wh_operator_look(r, now, err);

	if (code == WHERRY_OK)
		wh_reader_of(r)->look_by_us = WH_NEVER;
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
	if (t->replaced && !t->sweeping && now >= t->reread_at_us) {
		t->replaced = false;
		wh_reader_read_again(r, now);
	}
}

wherry_code wh_reader_fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	wherry_code code = WHERRY_OK;
	bool woken = wh_relay_woken(r, now);
	int64_t found = r->store->rows_read;
	size_t before = r->window.n;

	r->version = wh_db_version(r->db);
	if (woken && !t->fed)
		t->more = true;
	t->news |= woken;
	if (woken && t->look_by_us == WH_NEVER)
		t->look_by_us = wh_later(now, LOOK_US);
	if (woken)
		plan_look(r, now);
	tell_full(r);
	if (r->stats.paused)
		return woken ? look_for_operator(r, now, err) : WHERRY_OK;
	sweep_if_due(r, now);
	if (now >= r->keys.first_due)
		code = wh_noted_due(r, now, err);
	if (code == WHERRY_OK && t->more && wh_reader_is_worth_it(r))
		code = read_more(r, now, err);
	if (code == WHERRY_OK && t->look_by_us != WH_NEVER &&
	    ((r->window.n == before && r->store->rows_read == found) ||
	     now >= t->look_by_us))
		code = look_for_operator(r, now, err);
	if (code == WHERRY_OK)
		code = look_for_open(r, now, err);
	return code;
}
