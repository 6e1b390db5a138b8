/*
 * The engine log: reading what the position does not cover.
 */
#include "relay/engine/feed.h"

#include <stdlib.h>
#include <string.h>

#include "store/unreadable.h"

/* ---- exceptions that the position does not cover ---- */

static void note_known(void *ctx, const wh_exception *what)
{
	wherry_relay *r = ctx;
	wh_log *f = wh_log_of(r);

	if (f->n_known == f->known_cap) {
		size_t cap = f->known_cap ? 2 * f->known_cap : 64;
		wh_known *grown = realloc(f->known, cap * sizeof(*grown));

		if (!grown) {
			f->short_of_memory = true;
			return;
		}
		f->known = grown;
		f->known_cap = cap;
	}
	f->marked |= what->state == WHERRY_DONE;
	f->known[f->n_known++] = (wh_known){
		.what = *what,
		.due_us = wh_later(wh_monotonic(&r->env), what->due_in_us),
	};
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const wh_known *)a)->what.id, y = ((const wh_known *)b)->what.id;

	return (x > y) - (x < y);
}

/* NULL: it is not. */
static wh_known *find_known(const wh_log *f, int64_t id)
{
	const wh_known key = {.what.id = id};

	return f->n_known ? bsearch(&key, f->known, f->n_known, sizeof(*f->known), by_id)
			  : NULL;
}

/* An operator may have changed it since. */
static bool comes_later(const wherry_relay *r, const wh_open_row *row, int64_t now)
{
	wh_known *known = find_known(wh_log_of(r), row->id);

	if (!known || known->met)
		return false;
	known->met = known->what.state == WHERRY_DEAD;
	known->what.state = row->state;
	known->what.attempts = row->attempts;
	known->due_us = wh_later(now, row->due_in_us);
	return !known->met;
}

wherry_code wh_log_load(wherry_relay *r, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code;

	f->share.mask = f->reader.mask;
	code = wh_progress_take(r->store, &f->share, err);
	if (code == WHERRY_OK)
		code = wh_progress_read(r->store, &f->share, &f->read, err);
	f->n_known = 0;
	f->marked = false;
	f->reader.comes_later = comes_later;
	wh_position_clear(&f->written);
	if (code == WHERRY_OK)
		code = wh_position_copy(&f->written, &f->read, err);
	if (code == WHERRY_OK)
		code = wh_progress_forget_done(r->store, err);
	if (code == WHERRY_OK)
		code = wh_progress_known(r->store, &f->share, note_known, r, err);
	if (code == WHERRY_OK)
		code = wh_feed_load(r, err);
	if (code == WHERRY_OK && f->short_of_memory)
		code = wh_oom(err);
	f->short_of_memory = false;
	if (code != WHERRY_OK)
		return code;
	if (f->n_known)
		qsort(f->known, f->n_known, sizeof(*f->known), by_id);
	f->begun = f->reader.news = true;
	return WHERRY_OK;
}

/* ---- a position that is not the one in memory ---- */

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(const wh_position *a, const wh_position *b)
{
	return a->high == b->high && a->late == b->late &&
	       is_same_text(a->seen, b->seen) && is_same_text(a->until, b->until);
}

wherry_code wh_log_compare(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wh_position stored = WH_POSITION_START;
	wh_share share = f->share;
	wherry_code code = wh_progress_read(r->store, &share, &stored, err);

	/* Which of several positions have moved is not known. */
	if (code == WHERRY_OK &&
	    (share.rows > 1 || f->share.rows > 1 ||
	     (!is_same(&stored, &f->written) && !is_same(&stored, &f->writing)))) {
		wh_lease_lost(r, now, "the database has another position than before");
		code = WHERRY_STALE;
	}
	wh_position_clear(&stored);
	return code;
}

/* ---- looks ---- */

typedef struct looking {
	wherry_relay *r;
	int64_t now;
	int64_t rows;
	wh_textless_rows bare;
} looking;

/* Take in an exception that the position does not cover. */
static wherry_code meet_known(looking *w, wh_known *known, const wh_open_row *row,
			      wherry_error *err)
{
	wh_log *f = wh_log_of(w->r);
	uint64_t taking = f->reader.taking;
	wh_open_row open = *row;
	wherry_code code;

	open.state = known->what.state;
	open.attempts = known->what.attempts;
	open.due_in_us = known->due_us > w->now ? known->due_us - w->now : 0;
	f->reader.taking = 0;
	code = wh_reader_meet(w->r, w->now, &open, err);
	f->reader.taking = taking;
	known->met = code == WHERRY_OK;
	return code;
}

static wherry_code meet(void *ctx, const wh_open_row *row, wherry_error *err)
{
	looking *w = ctx;
	wh_known *known = find_known(wh_log_of(w->r), row->id);
	bool is_known = known && !known->met; /* Otherwise another row has its id now. */
	wherry_code code = is_known ? meet_known(w, known, row, err)
				    : wh_reader_meet(w->r, w->now, row, err);
	const wh_entry *e = wh_window_find(&w->r->window, row->id);

	if (code != WHERRY_OK || !e || !e->replaced)
		return code;
	wh_log_of(w->r)->waits = true;
	return wh_fail(err, WHERRY_INTERRUPTED, "another message in flight has its id");
}

/* Is it dead, or did its handler say that it is done? */
static bool is_passed(const wh_log *f, int64_t id)
{
	const wh_known *known = find_known(f, id);

	return known &&
	       (known->what.state == WHERRY_DEAD || known->what.state == WHERRY_DONE);
}

/* Is it to be delivered?  Its id among the columns of the message is NULL if the subscription does not
 * have its topic. */
static bool is_news(const looking *w, const wh_log_row *row)
{
	return wh_row_int(row->row, WH_LOG_MESSAGE) == row->id &&
	       !is_passed(wh_log_of(w->r), row->id);
}

/* Did the row come by the WAL? */
static bool has_come(const looking *w, const wh_log_row *row)
{
	enum { MESSAGE_ID = WH_LOG_MESSAGE + 6 };

	return wh_log_of(w->r)->taken.n &&
	       wh_feed_met(w->r, row->id, wh_row_bytes(row->row, MESSAGE_ID));
}

static wherry_code take_row(void *ctx, const wh_log_row *row, wherry_error *err)
{
	looking *w = ctx;
	wh_open_reader v = {meet, w, 0, 0};
	wherry_code code = WHERRY_OK;

	if (has_come(w, row)) {
		w->rows++;
		return WHERRY_OK;
	}
	if (!wh_intake_has_room(w->r) || !wh_intake_keys_left(w->r))
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	if (is_news(w, row))
		code = wh_take_open_at(&v, WH_LOG_MESSAGE, row->row, err);
	w->rows += code != WHERRY_INTERRUPTED;
	return code;
}

wherry_code wh_log_take(wherry_relay *r, int64_t now, const wh_row *row,
			wherry_error *err)
{
	looking w = {.r = r, .now = now};
	wh_open_reader v = {meet, &w, 0, 0};

	return is_passed(wh_log_of(r), wh_row_int(row, 0)) ? WHERRY_OK
							   : wh_take_open(&v, row, err);
}

/* Take one row. */
static wherry_code take_bare(void *ctx, const wh_log_row *row, wherry_error *err)
{
	looking *w = ctx;
	wh_open_reader v = wh_textless_reader(&w->bare);

	if (w->rows)
		return wh_fail(err, WHERRY_INTERRUPTED, "one row is enough");
	w->rows++;
	return is_news(w, row) && !has_come(w, row)
		       ? wh_take_open_at(&v, WH_LOG_MESSAGE, row->row, err)
		       : WHERRY_OK;
}

/* Read the next row without its texts, and then by its id: it may be the one that the database
 * cannot send. */
static wherry_code read_bare(looking *w, wh_log_found *found, wherry_error *err)
{
	wh_log *f = wh_log_of(w->r);
	wh_store *store = w->r->store;
	wh_open_reader to = {meet, w, 0, 0};
	wherry_code code;

	f->cursor->limits[0].number = -1;
	code = wh_cursor_read(f->cursor, &f->read, 1, take_bare, w, found, err);
	wh_store_limits(store, f->cursor->limits);
	if (code == WHERRY_OK)
		code = wh_textless_visit(store, store->stmt.log_ids, &w->bare, 0, &to,
					 err);
	wh_textless_clear(&w->bare);
	return code;
}

/* A row that the database cannot send makes a look fail, although it may be any one of the look.  So
 * fewer are read, down to that one. */
static wherry_code read_rows(looking *w, int64_t limit, wh_log_found *found,
			     wherry_error *err)
{
	wh_log *f = wh_log_of(w->r);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	if (f->careful && limit > f->careful)
		limit = f->careful;
	f->cursor->limits[2] = WH_INT_PARAM("mask", (int64_t)f->share.mask);
	f->cursor->limits[3] = WH_INT_PARAM("mixed", f->share.rows > 1);
	code = wh_cursor_read(f->cursor, &f->read, limit, take_row, w, found, &why);
	if (code == WHERRY_OK) {
		f->careful = f->careful < w->r->set.round_trip ? 2 * f->careful : 0;
	} else if (wh_db_about_row(w->r->db, code, &why)) {
		f->careful = 1;
		found->more = true;
		return limit > 1 ? WHERRY_OK : read_bare(w, found, err);
	}
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

/* The table came from another server.  Messages that were read of it are settled and written first. */
static wherry_code renumber(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code = WHERRY_OK;

	if (r->window.n || f->n || f->moved || f->n_held) {
		f->waits = r->window.n > 0;
		f->reader.news = true;
		return WHERRY_OK;
	}
	if (f->share.rows == 1) /* Another reader may have renumbered it. */
		code = wh_log_compare(r, now, err);
	if (code == WHERRY_OK)
		code = wh_progress_renumber(r->store, &r->lease, f->cursor, err);
	if (code == WHERRY_OK) {
		f->begun = false; /* The position and the exceptions are read again. */
		wh_reader_sweep(r, now);
		wh_relay_say(r, WHERRY_LOG_WARN, "log-restored",
			     wh_log_note("the outbox came from another server: its "
					 "transactions got new numbers"));
	}
	return code;
}

/* A look that failed, or brought nothing, moves no position, unless it ended a round or
 * passed the highest of several positions (moves). */
static wherry_code end_look(wherry_relay *r, wherry_code code, int64_t rows, bool moves,
			    wherry_error *err)
{
	r->store->rows_read += rows;
	if (code == WHERRY_OK && (rows || moves))
		return wh_log_end_part(r, rows, &wh_log_of(r)->read, err);
	(void)wh_log_end_part(r, 0, NULL, NULL);
	return code;
}

/* If positions differ and a look has brought all rows that are committed, none is left below the highest of
 * them either.  So the position passes it, whether the rows up to there still exist or not. */
static bool pass_highest(wh_log *f, const wh_log_found *found)
{
	if (f->share.rows == 1 || found->more || found->event != WH_LOG_SAME ||
	    f->read.until || f->read.high >= f->share.highest)
		return false;
	f->read.high = f->share.highest;
	return true;
}

wherry_code wh_log_end_part(wherry_relay *r, int64_t rows, const wh_position *to,
			    wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wh_log_part *l = &f->looks[f->first + f->n - 1];
	wherry_code code = to ? wh_position_copy(&l->to, to, err) : WHERRY_OK;

	f->reader.taking = 0;
	if (code != WHERRY_OK || !(rows || to)) {
		f->n--;
		return code;
	}
	l->loose = !to;
	l->rows = rows;
	f->since += rows;
	return WHERRY_OK;
}

wherry_code wh_log_add_part(wherry_relay *r, wherry_error *err)
{
	wh_log *f = wh_log_of(r);

	if (f->first && f->first + f->n == f->cap) {
		memmove(f->looks, f->looks + f->first, f->n * sizeof(*f->looks));
		f->first = 0;
	}
	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 16;
		wh_log_part *grown = realloc(f->looks, cap * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		f->looks = grown;
		f->cap = cap;
	}
	f->looks[f->first + f->n] = (wh_log_part){.rows = 0};
	f->reader.taking = f->base + f->n++;
	return WHERRY_OK;
}

wherry_code wh_log_look(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	int64_t room = wh_intake_room(r), limit = r->set.round_trip;
	looking w = {.r = r, .now = now};
	wh_log_found found = {.event = WH_LOG_SAME};
	bool moves = f->read.until != NULL;
	wherry_code code = wh_log_add_part(r, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_window_begin(&r->window, err);
	if (code == WHERRY_OK) {
		code = read_rows(&w, limit < room || f->taken.n ? limit : room, &found,
				 err);
		wh_window_end(&r->window);
	}
	moves = moves && found.event == WH_LOG_SAME;
	if (code == WHERRY_OK)
		moves |= pass_highest(f, &found);
	code = end_look(r, code, w.rows, moves, err);
	wh_feed_looked(r, now, code == WHERRY_OK ? &found : NULL);
	if (code != WHERRY_OK && w.rows)
		wh_lease_lost(r, now, "a read failed after it had brought messages");
	if (code != WHERRY_OK)
		return wh_store_missing(r->store->model, r->store->name.ptr, code, err);
	f->reader.news = found.more;
	if (found.event == WH_LOG_REPLACED)
		wh_relay_say(r, WHERRY_LOG_WARN, "log-replaced",
			     wh_log_note("the table was made again: it is read from its "
					 "start"));
	return found.event == WH_LOG_RESTORED ? renumber(r, now, err) : code;
}

bool wh_log_may_look(const wherry_relay *r, int64_t now)
{
	const wh_log *f = wh_log_of(r);

	if (!f->begun || f->waits || f->reader.sweeping || r->stats.paused)
		return false;
	return (f->reader.news && wh_reader_is_worth_it(r)) || wh_feed_is_due(r, now);
}
