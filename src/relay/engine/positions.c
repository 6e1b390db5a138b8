/*
 * The engine log: a position says which messages were read, and nothing is written to rows.
 *
 * The cursor (log/cursor.c) brings new rows.  The table of exceptions has the messages that the position has passed before they were
 * delivered: those that failed, wait behind a failed one of their key, or are dead.  The
 * sweeps of the reader read that table.
 *
 * Each *look* of the cursor has a number, which its messages in memory have as wh_entry.tx; 0: the
 * message is an exception.  When no message of the first look is open, the position moves behind
 * it.  If messages stay open for a second after another one of their look was settled, they become
 * exceptions.  So after a crash no more than about a window is delivered again, and what was
 * delivered does not look pending for long.
 */
#include "relay/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "relay/engine/feed.h"
#include "relay/hold/noted.h"

enum { PASS_US = 1000000, CHECK_US = 200000 };

/* ---- the state ---- */

static wherry_code make(wherry_relay *r, wherry_error *err)
{
	wh_log *f = calloc(1, sizeof(*f));

	if (!f)
		return wh_oom(err);
	r->state = f;
	wh_reader_init(&f->reader);
	f->base = 1;
	f->held_most = wh_relay_entries_most(r) + (size_t)r->set.round_trip;
	f->held = calloc(f->held_most, sizeof(*f->held));
	return f->held ? wh_feed_make(r, err) : wh_oom(err);
}

static wherry_code make_share(wherry_relay *r, wherry_error *err)
{
	wherry_code code = make(r, err);

	if (code != WHERRY_OK)
		return code;
	wh_reader_of(r)->mask = 0;
	wh_reader_of(r)->shares.quiet = true;
	return WHERRY_OK;
}

static void forget_looks(wh_log *f)
{
	for (size_t i = 0; i < f->n; i++)
		wh_position_clear(&f->looks[f->first + i].to);
	f->base += f->n;
	f->first = f->n = 0;
}

static void forget(wherry_relay *r)
{
	wh_log *f = wh_log_of(r);

	forget_looks(f);
	wh_position_clear(&f->read);
	wh_position_clear(&f->done);
	wh_position_clear(&f->written);
	wh_position_clear(&f->writing);
	f->begun = f->moved = f->waits = false;
	f->since = 0;
	f->n_held = f->n_known = 0;
	wh_feed_forget(r);
	wh_reader_forget(r);
}

static void free_state(wherry_relay *r)
{
	wh_log *f = wh_log_of(r);

	forget(r);
	wh_feed_free(r);
	wh_cursor_close(f->cursor);
	free(f->looks);
	free(f->held);
	free(f->known);
	free(f);
}

static wherry_code attach(wherry_relay *r, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code;

	wh_cursor_close(f->cursor);
	f->cursor = NULL;
	code = wh_cursor_open_layout(r->db, &r->store->sql, &f->cursor, err);
	if (code != WHERRY_OK)
		return code;
	wh_store_limits(r->store, f->cursor->limits);
	f->cursor->limits[2] = WH_INT_PARAM("mask", -1);
	f->cursor->limits[3] = WH_INT_PARAM("mixed", 0);
	f->cursor->n_limits = WH_LOG_LIMITS;
	return wh_feed_attach(r, err);
}

static void detach(wherry_relay *r, int64_t now)
{
	(void)now;
	wh_feed_detach(r);
	wh_cursor_close(wh_log_of(r)->cursor);
	wh_log_of(r)->cursor = NULL;
}

static void resume(wherry_relay *r, int64_t now)
{
	wh_log *f = wh_log_of(r);

	f->reopened = f->begun;
	f->reader.news = true;
	wh_reader_sweep(r, now);
}

/* ---- looks ---- */

static wh_log_part *look_of(const wh_log *f, uint64_t number)
{
	if (number < f->base || number - f->base >= f->n)
		return NULL;
	return &f->looks[f->first + (number - f->base)];
}

static void admitted(wherry_relay *r, wh_entry *e)
{
	wh_log *f = wh_log_of(r);
	wh_log_part *of_row = look_of(f, f->reader.taking);

	r->lease_unverified |= !f->feeding || wh_feed_verifies(r);
	e->tx = f->reader.taking;
	if (of_row)
		of_row->open++;
}

static void left(wherry_relay *r, const wh_entry *e)
{
	wh_log_part *of_row = look_of(wh_log_of(r), e->tx);

	wh_reader_left(r, e);
	wh_log_of(r)->waits = false;
	wh_log_of(r)->marked |= e->written;
	if (!of_row)
		return;
	of_row->open--;
	if (!of_row->left_us)
		of_row->left_us = wh_monotonic(&r->env);
}

/* The message is an exception now. */
static void set_exception(wherry_relay *r, wh_entry *e)
{
	wh_log_part *of_row = look_of(wh_log_of(r), e->tx);

	if (of_row)
		of_row->open--;
	e->tx = 0;
}

static void noted(wherry_relay *r, int64_t id, uint64_t tx)
{
	wh_log *f = wh_log_of(r);

	wh_feed_noted(r, id);
	if (tx && f->n_held < f->held_most)
		f->held[f->n_held++] = id;
	else if (tx)
		f->short_of_memory = true;
}

/* ---- writing the position ---- */

/* Move the position behind the looks that have no open messages. */
static void advance(wh_log *f)
{
	while (f->n && !f->looks[f->first].open) {
		wh_log_part *l = &f->looks[f->first];

		if (!l->loose) {
			wh_position_clear(&f->done);
			f->done = l->to;
			l->to = WH_POSITION_START;
			f->moved = true;
		}
		f->since -= l->rows;
		f->first++;
		f->base++;
		f->n--;
	}
	if (!f->n)
		f->first = 0;
}

/* Make the open messages of the first look exceptions.  False: not all of them, since there is
 * no room to note them before others are written. */
static bool pass_first(wherry_relay *r)
{
	wh_log *f = wh_log_of(r);

	for (size_t i = 0; i < r->window.n_buckets; i++) {
		for (wh_entry *e = r->window.buckets[i]; e; e = e->bucket_next) {
			if (e->tx != f->base || f->n_held == f->held_most)
				continue;
			f->held[f->n_held++] = e->msg.id;
			set_exception(r, e);
		}
	}
	return !f->n || !f->looks[f->first].open;
}

static wherry_code write_now(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	const wh_progress what = {f->moved ? &f->done : NULL, f->held, f->n_held,
				  f->marked && (f->moved || !f->n)};
	wherry_code code = WHERRY_OK;

	if (f->short_of_memory) {
		wh_lease_lost(r, now, "there was no memory for the messages that wait");
		f->short_of_memory = false;
		return WHERRY_STALE;
	}
	wh_position_clear(&f->writing);
	if (f->moved)
		code = wh_position_copy(&f->writing, &f->done, err);
	if (code == WHERRY_OK)
		code = wh_progress_write(r->store, &r->lease, &f->share, &what, err);
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "the position was refused");
	if (code != WHERRY_OK)
		return code;
	f->n_held = 0;
	f->marked = f->marked && f->n;
	wh_feed_verified(r, now);
	if (!f->moved)
		return WHERRY_OK;
	wh_position_clear(&f->written);
	f->written = f->writing;
	f->writing = WH_POSITION_START;
	f->moved = false;
	return WHERRY_OK;
}

static bool is_to_write(const wh_log *f)
{
	return f->moved || f->n_held || (f->marked && !f->n);
}

/* When to pass the first look although messages of it are open. */
static int64_t pass_at(const wherry_relay *r)
{
	const wh_log *f = wh_log_of(r);
	const wh_log_part *l = f->n ? &f->looks[f->first] : NULL;

	if (!l || !l->open)
		return WH_NEVER;
	if (f->since >= 2 * r->set.window)
		return 0;
	if (!l->left_us)
		return WH_NEVER;
	return r->fsm.state == WH_DRAINING ? l->left_us : wh_later(l->left_us, PASS_US);
}

static wherry_code progress(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);

	advance(f);
	while (now >= pass_at(r) && pass_first(r))
		advance(f);
	return is_to_write(f) ? write_now(r, now, err) : WHERRY_OK;
}

/* Looks up to the last one of which a message has left memory, or up to the one whose position is behind
 * what came by the WAL. */
static size_t begun_looks(const wh_log *f)
{
	size_t n = 0, to;

	for (size_t i = 0; i < f->n; i++)
		if (f->looks[f->first + i].open < f->looks[f->first + i].rows)
			n = i + 1;
	for (to = n; to && to < f->n && f->looks[f->first + to - 1].loose;)
		to++;
	return to && f->looks[f->first + to - 1].loose ? n : to;
}

/* Messages that were taken in and not submitted become exceptions, unless all of their look
 * were not: so a clean end delivers none again. */
static wherry_code finish(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	size_t begun = begun_looks(f);
	wherry_code code = WHERRY_OK;

	if (!f->begun)
		return WHERRY_OK;
	for (size_t i = 0; code == WHERRY_OK && i < begun; i++) {
		if (f->n_held)
			code = write_now(r, now, err);
		if (code == WHERRY_OK && pass_first(r))
			advance(f);
	}
	if (code == WHERRY_OK && is_to_write(f))
		code = write_now(r, now, err);
	return code == WHERRY_OK ? wh_feed_finish(r, err) : code;
}

/* ---- reading ---- */

/* Take in what came by the WAL. */
static wherry_code feed(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code;

	f->feeding = true;
	code = wh_feed_step(r, now, err);
	f->feeding = false;
	return code == WHERRY_OK && f->n_held ? write_now(r, now, err) : code;
}

static wherry_code fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	int64_t before = r->store->rows_read;
	wherry_code code = WHERRY_OK;

	if (wh_shares_yields(r))
		return wh_shares_yield(r, now, err);
	if (!f->begun && f->reader.mask)
		code = wh_log_load(r, err);
	if (code == WHERRY_OK && f->reopened && f->begun) {
		code = wh_log_compare(r, now, err);
		f->reopened = code != WHERRY_OK && code != WHERRY_STALE;
	}
	if (code == WHERRY_OK && f->n_held)
		code = write_now(r, now, err);
	if (code == WHERRY_OK && f->reader.sweeping && f->reader.cursor == INT64_MIN)
		code = wh_feed_swept(r, err);
	if (code == WHERRY_OK)
		code = wh_reader_fetch(r, now, err);
	if (code == WHERRY_OK && f->begun)
		code = feed(r, now, err);
	/* Where a trigger makes late rows exceptions, they are read before later rows of their keys. */
	if (code == WHERRY_OK && f->begun && !f->cursor->late_page)
		code = wh_reader_look_for_operator(r, now, false, err);
	if (code == WHERRY_OK && wh_log_may_look(r, now))
		code = wh_log_look(r, now, err);
	return code == WHERRY_OK ? wh_reader_look_for_operator(
					   r, now, r->store->rows_read != before, err)
				 : code;
}

/* ---- the lease ---- */

static bool no_suspects_left(const wherry_relay *r)
{
	const wh_log *f = wh_log_of(r);

	if (r->stats.delivered - r->delivered_before >= 2 * r->set.window ||
	    !f->reader.mask)
		return true;
	return f->begun && !f->reader.sweeping && !f->reader.news &&
	       wh_window_lowest(&r->window) > r->suspects_upto;
}

static void note_renewal(wherry_relay *r, int64_t now, int64_t version)
{
	if (r->lease.last_open) /* The notice of a commit may have been lost. */
		wh_log_of(r)->reader.news = true;
	if (r->lease.control_version != version)
		wh_reader_sweep(r, now);
}

static wherry_code renewed(wherry_relay *r, int64_t now, int64_t version,
			   wherry_error *err)
{
	(void)err;
	note_renewal(r, now, version);
	return WHERRY_OK;
}

static wherry_code renewed_share(wherry_relay *r, int64_t now, int64_t version,
				 wherry_error *err)
{
	note_renewal(r, now, version);
	return wh_shares_renewed(r, now, err);
}

/* ---- results ---- */

/* Only exceptions are written to: of the other messages the position says that they are done. */
static wherry_code acknowledge(wherry_relay *r, const wh_entry *try_next,
			       wh_settlement *s, wh_settled *out, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wh_settlement mine = *s;
	wh_settled written = {0};
	int64_t *done = r->scratch.done_ids;
	wherry_code code = WHERRY_OK;
	wh_entry *tried;

	if (f->n_held) /* Or one of them could be delivered before it is written. */
		code = wh_progress_write(
			r->store, &r->lease, &f->share,
			&(wh_progress){.held = f->held, .n_held = f->n_held}, err);
	if (code != WHERRY_OK)
		return code;
	f->n_held = 0;
	mine.n_done = 0;
	for (size_t i = 0; i < s->n_done; i++) {
		const wh_entry *e = wh_window_find(&r->window, s->done[i]);

		if (!e || e->tx || e->replaced)
			continue;
		r->scratch.names[mine.n_done] = s->names[i];
		done[mine.n_done++] = s->done[i];
	}
	if (mine.n_done || mine.n_failed || mine.try_id)
		code = wh_settle_write(r, &mine, &written, err);
	if (code != WHERRY_OK)
		return code;
	tried = try_next ? wh_window_find(&r->window, try_next->msg.id) : NULL;
	if (tried)
		set_exception(r, tried);
	*out = (wh_settled){(int64_t)(s->n_done + s->n_failed), (int64_t)s->n_done};
	return WHERRY_OK;
}

/* ---- until empty ---- */

static wherry_code until_empty(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	bool quiet = (f->begun || !f->reader.mask) && !f->reader.news &&
		     !f->reader.sweeping && !f->reader.more && !r->window.n &&
		     !r->keys.n_held;
	bool open = true;
	wherry_code code = WHERRY_OK;

	if ((r->fsm.state == WH_STANDBY || !quiet) && now < r->empty_check_us)
		return WHERRY_OK;
	r->empty_check_us = wh_later(now, CHECK_US);
	if (r->fsm.state == WH_LEADING && !quiet &&
	    (f->read.high < r->target_id || wh_window_lowest(&r->window) <= r->target_id))
		return WHERRY_OK;
	if (r->fsm.state == WH_LEADING)
		advance(f);
	if (r->fsm.state == WH_LEADING && is_to_write(f))
		code = write_now(r, now, err);
	if (code == WHERRY_OK)
		code = wh_store_open_upto(r->store, r->target_id, &open, err);
	if (code == WHERRY_OK)
		wh_reader_end_if_empty(r, open, quiet, now);
	return code;
}

/* ---- when to step again ---- */

static int64_t deadline(const wherry_relay *r, int64_t now)
{
	const wh_log *f = wh_log_of(r);
	int64_t at = wh_reader_deadline(r, now);

	if (wh_shares_yields(r))
		return at;
	if (is_to_write(f) || (!f->begun && f->reader.mask) || wh_log_may_look(r, now) ||
	    (f->n && !f->looks[f->first].open))
		return now;
	return wh_sooner(wh_sooner(at, pass_at(r)), wh_feed_deadline(r, now));
}

/* clang-format off */
#define FUNCTIONS                                                                        \
	.hold = &wh_hold_noted, .writes_rows = true, .records_attempts = true,           \
	.covers = true, .free = free_state, .attach = attach, .detach = detach,   \
	.resume = resume, .suspects = wh_reader_suspects,                                \
	.no_suspects_left = no_suspects_left,                                            \
	.is_unsuspected = wh_reader_is_unsuspected, .forget = forget, .fetch = fetch,    \
	.is_partial = wh_reader_is_partial, .admitted = admitted, .left = left,          \
	.noted = noted, .unseen = wh_feed_unseen, .changed = wh_reader_changed, .row_lost = wh_reader_row_lost,    \
	.acknowledge = acknowledge, .progress = progress, .finish = finish,              \
	.give_up = finish, .until_empty = until_empty, .deadline = deadline
/* clang-format on */

const wh_engine_driver wh_engine_positions = {
	.id = WH_POSITIONS,
	FUNCTIONS,
	.groups_suspects = true,
	.make = make,
	.begin = wh_reader_begin,
	.renewed = renewed,
	.is_fed = wh_feed_is_on,
	.fd = wh_feed_fd,
};

const wh_engine_driver wh_engine_positions_shared = {
	.id = WH_POSITIONS_SHARED,
	FUNCTIONS,
	WH_SHARES_FUNCTIONS,
	.make = make_share,
	.begin = wh_shares_begin,
	.renewed = renewed_share,
};
