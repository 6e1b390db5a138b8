/*
 * Reading: ahead of the cursor, from the beginning (a sweep), and again what was held.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "relay/relay.h"

enum { LOOK_US = 100000, OPEN_LOOK_US = 5000000 };

/* One read in progress. */
typedef struct reading {
	wherry_relay *r;
	int64_t now;
	int64_t rows;  /* met */
	int64_t fresh; /* of them, behind the cursor as it was */
	int64_t after; /* that */
	bool full;     /* ended for want of room */
	bool ahead;    /* rows behind the cursor move it */
	int64_t last;  /* id met; where the next page of dead ones begins */
} reading;

/* Beside a stream holes are those of one sweep: what is committed in them while it goes on
 * comes before what it meets behind them. */
static void forget_holes(wherry_relay *r)
{
	if (!r->streaming)
		return;
	r->passed = r->cursor;
	r->gaps.n = 0;
}

void wh_read_sweep(wherry_relay *r, int64_t now)
{
	r->cursor = INT64_MIN;
	r->sweeping = true;
	r->touched = wh_streaming_knows(r);
	r->swept_clean = true;
	r->more = true;
	r->sweep_at_us = wh_later(now, r->set.sweep_us);
	r->strict.gap_before = 0;
	forget_holes(r);
}

/* Ids restart: the gaps of before say nothing about the rows that come now. */
static void sweep_replaced(wherry_relay *r, int64_t now)
{
	r->replaced = false;
	r->gaps.n = 0;
	r->passed = r->oldest = 0;
	wh_streaming_forget(r);
	wh_read_sweep(r, now);
}

bool wh_read_idle(const wherry_relay *r)
{
	return !r->more && r->window.n == 0 && r->keys.n_held == 0 &&
	       r->keys.n_parked == 0;
}

static bool is_same(const wh_entry *e, const wh_open_row *row)
{
	const char *name = e->msg.message_id ? e->msg.message_id : "";
	size_t len = strlen(name);

	if (!row->message_id.ptr) /* The row was read without its texts. */
		return true;
	/* of a name with a NUL inside only the beginning is kept */
	return len == row->message_id.len ||
			       (len < row->message_id.len && !row->message_id.ptr[len])
		       ? memcmp(name, row->message_id.ptr, len) == 0
		       : false;
}

static void drop_unsent(wherry_relay *r, wh_entry *e)
{
	wh_key *key = e->key;

	if (e->stage == WH_READY)
		wh_list_remove(&r->window.ready, e);
	else
		wh_key_remove(key, e);
	if (!key) {
		wh_entry_gone(r, e);
		return;
	}
	key->active -= e->stage == WH_READY;
	key->owned++; /* the key must outlive what follows */
	wh_entry_gone(r, e);
	key->owned--;
	wh_key_advance(r, key);
	wh_keys_drop(&r->keys, key);
}

bool wh_read_knows(wherry_relay *r, const wh_open_row *row, bool *out_later)
{
	wh_entry *e = wh_window_find(&r->window, row->id);

	*out_later = false;
	if (!e || is_same(e, row))
		return e != NULL;
	if (e->stage == WH_READY || e->stage == WH_WAITING) {
		drop_unsent(r, e);
		return false;
	}
	e->replaced = *out_later = true;
	return true;
}

/* Text under which an unordered message waits for its retry: no ordering key begins so. */
static void lone_key_text(wherry_relay *r, int64_t id)
{
	wh_buf_reset(&r->key_text);
	wh_buf_printf(&r->key_text, "#%" PRId64, id);
}

/* Where a row is among all: by its id; of rows that came by the log, as they came. */
static int64_t place_of(wherry_relay *r, int64_t id)
{
	int64_t order;

	if (!r->set.stream)
		return id;
	if (!wh_places_of(&r->places, id, &order))
		order = r->order += WH_PLACE_STEP;
	return order;
}

/* Behind a message of its key: what an operator wants again comes before those with higher
 * ids, as it did. */
static int64_t place_behind(wherry_relay *r, const wh_key *key, int64_t id)
{
	int64_t before = 0, at = 0, other, order;

	if (!r->set.stream || wh_places_of(&r->places, id, &order))
		return place_of(r, id);
	for (size_t i = key->noted.first; !r->taking && i < key->noted.end; i++) {
		at = key->noted.ids[i];
		if (!wh_places_at(&r->places, at, &other) || other > id)
			break;
		before = at;
		at = 0;
	}
	return at - before > 1 ? before + (at - before) / 2 : place_of(r, id);
}

/* The first of a held key need not wait any more: an operator retried it. */
static void let_go(reading *w, wh_key *key, const wh_open_row *row)
{
	if (key->fsm.state == WH_KEY_HELD && key->due_us != WH_NEVER &&
	    row->state == WHERRY_PENDING && wh_ids_count(&key->noted) &&
	    key->noted.ids[key->noted.first] == place_of(w->r, row->id))
		wh_key_set_due(&w->r->keys, key, w->now);
}

/* A row that an earlier message of its key holds back is only noted. */
static bool held_back(reading *w, const wh_open_row *row)
{
	wherry_relay *r = w->r;
	bool lone = !r->set.ordered || !r->key_text.len;
	wh_key *key;

	if (lone && (!r->sweeping || !r->keys.n_held))
		return false;
	if (lone)
		lone_key_text(r, row->id);
	key = wh_keys_find(&r->keys, (wh_view){r->key_text.ptr, r->key_text.len});
	if (lone)
		wh_buf_reset(&r->key_text);
	if (!key || key->fsm.state == WH_KEY_FREE)
		return false;
	if (key->fsm.state != WH_KEY_PARKED)
		wh_noted_add(r, key, row->id, place_behind(r, key, row->id));
	let_go(w, key, row);
	return true;
}

/* A row that may only be tried later holds its key until then. */
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
	wh_noted_add(r, key, row->id, place_of(r, row->id));
	return WHERRY_OK;
}

wherry_code wh_read_take_in(wherry_relay *r, const wh_open_row *row, wherry_error *err)
{
	const char *poison = wh_flaw_of(r, row);
	wh_view body = wh_outbox_body(row);
	wh_open_row trimmed = *row;
	wh_key *key = NULL;
	wh_entry *e;

	if (poison)
		wh_flaw_trim(r, &trimmed);
	else if (r->box->layout.json && !wh_json_valid(body.ptr, body.len))
		poison = "its payload is no JSON";

	if (r->set.ordered && r->key_text.len) {
		key = wh_keys_get(&r->keys, (wh_view){r->key_text.ptr, r->key_text.len});
		if (!key)
			return wh_oom(err);
	}
	e = wh_window_add(&r->window, &trimmed);
	if (!e) {
		if (key)
			wh_keys_drop(&r->keys, key);
		return wh_oom(err);
	}
	if (!r->taking)
		r->unfenced = !r->set.competing;
	e->order = place_of(r, row->id);
	e->version = r->version;
	e->tx = r->taking;
	wh_streaming_taken(r, e->tx);
	e->key = key;
	if (key)
		key->owned++;
	if (!poison && row->state == WHERRY_PROCESSING &&
	    row->attempts >= r->set.attempts)
		poison = "its relay ended each time it was tried, also alone";
	if (poison)
		e->poison = wh_window_copy(&r->window, e, poison);
	if (poison && !e->poison)
		e->poison =
			"the row cannot be handled, and there was no memory to say why";
	wh_entry_admit(r, e);
	return WHERRY_OK;
}

/* Messages over the window that do not keep others from being read.  Where nothing is written
 * to rows, refused ones and those behind them stay in memory. */
static size_t beside_window(const wherry_relay *r)
{
	return r->set.keep && r->keys.n_refused ? WH_REFUSED_MOST : r->n_failed_probes;
}

size_t wh_relay_entries_most(const wherry_relay *r)
{
	return (size_t)r->set.window +
	       (r->set.keep ? WH_REFUSED_MOST : WH_FAILED_PROBES_MOST);
}

bool wh_read_has_room(const wherry_relay *r)
{
	return r->window.n < (size_t)r->set.window + beside_window(r) &&
	       r->window.bytes < (size_t)r->set.window_bytes;
}

bool wh_read_keys_left(const wherry_relay *r)
{
	return r->keys.n_held <
	       (size_t)r->set.held_keys + r->n_failed_probes + r->keys.n_refused;
}

/* Rows of keys that are held may be read again, but not others, which might be held too. */
static bool may_read_on(const wherry_relay *r)
{
	return wh_read_has_room(r) && wh_read_keys_left(r);
}

/* Must what is passed over be remembered?  Not where reading waits for it, or it comes by
 * the log. */
static bool late_ids_matter(const wherry_relay *r)
{
	return r->db->driver->late_commits && !r->set.strict &&
	       (!wh_streaming_on(r) || (r->sweeping && !r->touched));
}

static void move_cursor(wherry_relay *r, int64_t id)
{
	r->cursor = id;
	if (id <= r->passed)
		return;
	if (late_ids_matter(r) && wh_partitions_partial(r))
		wh_gaps_pass(&r->gaps, r->passed + 1, id);
	else if (late_ids_matter(r))
		wh_gaps_add(&r->gaps, r->passed + 1, id - 1);
	r->passed = id;
}

/* It is not in memory. */
static wherry_code meet_new(reading *w, const wh_open_row *row, wherry_error *err)
{
	wherry_relay *r = w->r;
	wherry_code code;

	wh_flaw_key(r, row);
	code = wh_buf_check(&r->key_text, err);
	if (code != WHERRY_OK || held_back(w, row))
		return code;
	r->swept_clean = false;
	return row->due_in_us > 0 && row->state == WHERRY_FAILED
		       ? hold_back(w, row, err)
		       : wh_read_take_in(r, row, err);
}

wherry_code wh_read_meet(wherry_relay *r, int64_t now, const wh_open_row *row,
			 wherry_error *err)
{
	reading w = {.r = r, .now = now};
	bool later;

	return wh_read_knows(r, row, &later) ? WHERRY_OK : meet_new(&w, row, err);
}

static wherry_code meet(void *ctx, const wh_open_row *row, wherry_error *err)
{
	reading *w = ctx;
	wherry_relay *r = w->r;
	wherry_code code = WHERRY_OK;
	bool later;

	if (!may_read_on(r)) {
		w->full = true;
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	}
	if (wh_strict_stops(r, w->now, row->id)) {
		w->full = true;
		return wh_fail(err, WHERRY_INTERRUPTED, "lower ids may follow");
	}
	w->rows++;
	w->fresh += row->id > w->after;
	if (!wh_read_knows(r, row, &later))
		code = meet_new(w, row, err);
	if (code != WHERRY_OK)
		return code;
	if (w->ahead && row->id > r->cursor)
		move_cursor(r, row->id);
	else if (!wh_partitions_partial(r))
		wh_gaps_fill(&r->gaps, row->id);
	return WHERRY_OK;
}

/* Ending a read early for want of room is no failure. */
static wherry_code finish(reading *w, wherry_code code)
{
	wh_window_end(&w->r->window);
	return w->full && code == WHERRY_INTERRUPTED ? WHERRY_OK : code;
}

static void note_horizon(wherry_relay *r, const wh_horizon *now)
{
	wh_gaps_date(&r->gaps, r->running, now->next);
	r->oldest = now->oldest;
	r->running = now->running;
	if (now->held)
		r->unfenced = false;
}

/*
 * Where lower ids may yet be committed: what is passed over now belongs to a transaction
 * that runs before `next`; and a read that began after all such were over has met their
 * rows.  So the oldest that ran is asked for before a read, the next one after it.
 */
static wherry_code note_transactions(wherry_relay *r, wherry_error *err)
{
	wh_horizon now;
	wherry_code code = wh_outbox_horizon(r->box, &r->lease, r->gaps.n > 0, &now, err);

	if (code != WHERRY_OK)
		return code;
	note_horizon(r, &now);
	return WHERRY_OK;
}

/*
 * What is read of a share: so many rows of each slot that together they are about a batch,
 * and what may have been committed late, but for what is in memory.
 */
static wh_slots_read share_of(wherry_relay *r, int64_t limit)
{
	enum { SPARE = 8 };
	wh_share *s = &r->partitions;
	int64_t least = 2 * limit / (wh_slots_count(s->slots.mine) + 1) + SPARE;
	wh_slots_read share = {.mask = s->slots.mine, .late = r->cursor};

	if (s->each < least)
		s->each = least;
	if (s->each > limit)
		s->each = limit;
	share.each = s->each;
	if (!r->gaps.n || r->gaps.ranges[0].first > r->cursor)
		return share;
	share.late = r->gaps.ranges[0].first - 1;
	share.known = r->back_ids; /* nobody else's at the moment */
	share.n_known = wh_window_ids(&r->window, share.late, r->cursor, r->back_ids);
	return share;
}

/* Where few slots have much, more is read of each. */
static void note_share(wherry_relay *r, const reading *w, int64_t limit)
{
	wh_share *s = &r->partitions;

	if (w->fresh >= limit)
		s->each -= s->each / 8;
	else if (w->fresh >= s->each && w->fresh < limit / 2)
		s->each *= 2;
}

/* Where lower ids may yet be committed a read and what surrounds it are one round trip. */
static wherry_code read_turn(reading *w, int64_t limit, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_read_from from = {.after = r->cursor,
			     .limit = limit,
			     .holes = r->gaps.ranges,
			     .n_holes = r->gaps.n,
			     .all_open = r->sweeping,
			     .touched = r->sweeping && r->touched};
	wh_slots_read share;
	int64_t oldest = r->oldest;
	bool asked = r->gaps.n > 0;
	wh_horizon horizon = {.next = 0};
	wh_ride ride;
	bool rides = wh_settle_ride(r, w->now, &ride);
	wherry_code code;

	if (wh_partitions_partial(r)) {
		share = share_of(r, limit);
		from.slots = &share;
	}
	wh_meanwhile_begin(r);
	r->reading = !r->unfenced;
	code = wh_outbox_turn(r->box, &r->lease, rides ? &ride.ack : NULL, &from, meet, w,
			      asked, &horizon, err);
	wh_meanwhile_end(r);
	r->advanced |= r->reading; /* what was new need not wait any more */
	r->reading = false;
	if (rides)
		wh_settle_rode(r, &ride, w->now);
	code = finish(w, code);
	if (code != WHERRY_OK)
		return code;
	if (!w->full && (from.slots || w->rows < limit))
		wh_gaps_expire(&r->gaps, oldest);
	if (w->full || (r->gaps.n && !asked))
		return note_transactions(r, err);
	note_horizon(r, &horizon);
	return WHERRY_OK;
}

static wherry_code read_plainly(reading *w, int64_t limit, wherry_error *err)
{
	wherry_relay *r = w->r;

	return finish(
		w, wh_outbox_read(r->box, r->sweeping, r->cursor, limit, meet, w, err));
}

/* What is read and finds no room has come for nothing: of large bodies fewer are asked for,
 * then twice as many each time. */
static void note_fit(wherry_relay *r, const reading *w)
{
	if (w->full && r->window.bytes >= (size_t)r->set.window_bytes)
		r->fits = w->rows ? w->rows : 1;
	else if (r->fits)
		r->fits = r->fits < r->set.batch ? 2 * r->fits : 0;
}

static wherry_code read_ahead(wherry_relay *r, int64_t now, int64_t limit,
			      wherry_error *err)
{
	reading w = {.r = r, .now = now, .ahead = true, .after = r->cursor};
	bool partial = wh_partitions_partial(r);
	wherry_code code = WHERRY_OK;

	if (partial && !r->partitions.slots.mine) {
		r->more = r->sweeping = false;
		return code;
	}
	code = wh_window_begin(&r->window, err);

	if (code == WHERRY_OK)
		code = r->db->driver->late_commits ? read_turn(&w, limit, err)
						   : read_plainly(&w, limit, err);
	if (code != WHERRY_OK)
		return code;
	note_fit(r, &w);
	r->more = w.full || (partial ? w.fresh >= r->partitions.each : w.rows == limit);
	if (partial)
		note_share(r, &w, limit);
	if (!r->more && r->sweeping) {
		r->sweeping = false;
		r->more =
			true; /* rows may have come in behind the three ranges it merged */
	}
	if (!r->sweeping && wh_streaming_on(r)) {
		r->more = false; /* they come by the log */
		forget_holes(r);
		return wh_streaming_swept(r, now, err);
	}
	return WHERRY_OK;
}

/* ---- the step ---- */

int64_t wh_read_room(const wherry_relay *r)
{
	return r->set.window + (int64_t)beside_window(r) - (int64_t)r->window.n;
}

/* Rather few large reads than many small ones. */
bool wh_read_worth_it(const wherry_relay *r)
{
	int64_t least = r->set.window / 4;

	if (least > r->set.turn)
		least = r->set.turn;
	return may_read_on(r) && wh_read_room(r) >= least && !r->strict.gap_before;
}

bool wh_read_next(const wherry_relay *r, int64_t now)
{
	return r->more && wh_read_worth_it(r) && !r->stats.paused &&
	       now < r->sweep_at_us && now < r->keys.first_due;
}

static void tell_full(wherry_relay *r)
{
	bool full = !wh_read_keys_left(r);

	if (full && !r->full_logged)
		wh_relay_say(r, WHERRY_LOG_WARN, "slot-full",
			     wh_log_int("held_keys", (int64_t)r->keys.n_held),
			     wh_log_note("reading stops until fewer keys wait; see "
					 "relay.held_keys"));
	r->full_logged = full;
}

void wh_read_notice(wherry_relay *r, int64_t version)
{
	if (version != r->control_version)
		wh_relay_say(r, WHERRY_LOG_INFO, "operator-change",
			     wh_log_int("control_version", version));
}

/* A commit may have been an operator's, above all one that brought nothing to read. */
wherry_code wh_read_control(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool paused = r->stats.paused;
	int64_t nudge = r->control_version;
	wh_slots slots = r->partitions.slots;
	wherry_code code = r->partitions.on
				   ? wh_slots_control(r->box, &r->lease, &paused, &nudge,
						      &slots, err)
				   : wh_outbox_control(r->box, &paused, &nudge, err);

	if (code != WHERRY_OK)
		return code;
	if (slots.n_others != r->partitions.slots.n_others ||
	    slots.others != r->partitions.slots.others)
		r->renew_at_us = now; /* which looks at it closely */
	r->look_by_us = WH_NEVER;
	if (paused != r->stats.paused)
		wh_relay_say(r, WHERRY_LOG_INFO, paused ? "paused" : "resumed");
	r->stats.paused = r->lease.paused = paused;
	wh_read_notice(r, nudge);
	if (nudge != r->control_version && !r->set.competing && !r->set.keep) {
		wh_noted_look(r, now);
		wh_read_sweep(r, now);
	}
	r->control_version = nudge;
	return WHERRY_OK;
}

static wherry_code read_more(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool from_start = r->sweeping && r->cursor == INT64_MIN;
	int64_t limit = r->set.turn;
	bool new = r->cursor >= r->passed; /* a sweep meets many that are known */
	wherry_code code = WHERRY_OK;

	if (limit > wh_read_room(r) && (new || !r->sweeping))
		limit = wh_read_room(r);
	if (r->fits && limit > 2 * r->fits)
		limit = 2 * r->fits;

	if (from_start && r->set.park)
		code = wh_noted_parked(r, now, err);
	if (code == WHERRY_OK)
		code = read_ahead(r, now, limit, err);
	return code;
}

/*
 * Rows that reading ahead does not meet: inserted below the cursor, as with an id far above
 * all others before, or as processing or failed.  Looked for at most every few seconds, after
 * others have committed, when nothing else is left to do
 * (a_row_inserted_below_the_cursor_is_delivered).
 */
static wherry_code look_for_open(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool any = wh_partitions_partial(r);
	wherry_code code = WHERRY_OK;

	if (now < r->open_look_us || !wh_read_idle(r) || wh_streaming_on(r))
		return WHERRY_OK;
	r->open_look_us = WH_NEVER;
	r->open_looked_us = now;
	if (!any)
		code = wh_outbox_open_upto(r->box, INT64_MAX, &any, err);
	if (code == WHERRY_OK && any)
		wh_read_sweep(r, now);
	return code;
}

/* Soon, and some time after the last look. */
static void plan_look(wherry_relay *r, int64_t now)
{
	int64_t next =
		wh_later(r->open_looked_us,
			 wh_partitions_partial(r) ? r->set.sweep_us : OPEN_LOOK_US);

	if (next < r->again_at_us)
		next = r->again_at_us; /* rows cannot be acknowledged: see settle.c */
	if (r->open_look_us == WH_NEVER)
		r->open_look_us = next > now ? next : wh_later(now, LOOK_US);
}

int64_t wh_read_deadline(const wherry_relay *r)
{
	return wh_read_idle(r) && !wh_streaming_on(r) && !r->stats.paused
		       ? r->open_look_us
		       : WH_NEVER;
}

/* Start a sweep if one is due. */
static void sweep_if_due(wherry_relay *r, int64_t now)
{
	if (now >= r->sweep_at_us && !r->sweeping) {
		if (r->keys.n_held || r->keys.n_parked || r->window.n || r->more)
			wh_read_sweep(r, now);
		else
			r->sweep_at_us = wh_later(now, r->set.sweep_us);
	}
	if (r->replaced && !r->sweeping && now >= r->again_at_us)
		sweep_replaced(r, now);
}

wherry_code wh_read_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	bool woken = wh_db_changed(r->db, now, &r->check_us);
	int64_t found = r->db->found;
	size_t before = r->window.n;

	r->version = wh_db_version(r->db);
	if (woken && !wh_streaming_on(r))
		r->more = true;
	if (woken && r->look_by_us == WH_NEVER)
		r->look_by_us = wh_later(now, LOOK_US);
	if (woken)
		plan_look(r, now);
	tell_full(r);
	if (r->stats.paused)
		return woken ? wh_read_control(r, now, err) : WHERRY_OK;
	sweep_if_due(r, now);
	if (now >= r->keys.first_due)
		code = wh_noted_due(r, now, err);
	if (code == WHERRY_OK && r->strict.gap_before &&
	    (woken || now >= r->strict.look_us))
		code = wh_strict_look(r, now, err);
	if (code == WHERRY_OK && r->more && wh_read_worth_it(r))
		code = read_more(r, now, err);
	if (code == WHERRY_OK && r->look_by_us != WH_NEVER &&
	    ((r->window.n == before && r->db->found == found) || now >= r->look_by_us))
		code = wh_read_control(r, now, err);
	if (code == WHERRY_OK)
		code = look_for_open(r, now, err);
	return code;
}
