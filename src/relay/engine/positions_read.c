/*
 * The engine log: reading what the position does not cover.
 */
#include "relay/engine/feed.h"

#include <stdlib.h>
#include <string.h>

#include "store/unreadable.h"

wherry_code wh_log_load(wherry_relay *r, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code;

	f->share.mask = f->reader.mask;
	code = wh_progress_take(r->store, &f->share, err);
	if (code == WHERRY_OK)
		code = wh_progress_read(r->store, &f->share, &f->read, err);
	wh_position_clear(&f->written);
	if (code == WHERRY_OK)
		code = wh_position_copy(&f->written, &f->read, err);
	if (code == WHERRY_OK)
		code = wh_log_load_known(r, err);
	if (code == WHERRY_OK)
		code = wh_feed_load(r, err);
	if (code != WHERRY_OK)
		return code;
	f->begun = f->reader.news = true;
	if (!f->share.exceptions && f->reader.cursor == INT64_MIN)
		f->reader.more = f->reader.sweeping = false;
	return code;
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

/* The position that was written shows that all which was read before it is there.  Nothing shows it of later rows
 * if the server is another one, crashed, or was put back to a copy: commits that do not wait for the disk are seen
 * before they are safe, and a copy lacks what the WAL brought since. */
static bool is_unproven(const wherry_relay *r)
{
	const wh_log *f = wh_log_of(r);

	return (r->restarted || r->moved) &&
	       (f->n || f->moved || f->taken.n || r->window.n);
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
	     (!is_same(&stored, &f->written) && !is_same(&stored, &f->writing))))
		code = wh_lease_begin_again(
			r, now, "the database has another position than before", err);
	else if (code == WHERRY_OK && is_unproven(r))
		code = wh_lease_begin_again(
			r, now, r->moved ? WH_OTHER_SERVER : WH_SERVER_BEGAN, err);
	if (code == WHERRY_OK || code == WHERRY_STALE)
		r->moved = r->restarted = false;
	wh_position_clear(&stored);
	return code;
}

/* ---- looks ---- */

typedef struct looking {
	wh_log_taker to; /* First; see wh_log_meet(). */
	int64_t rows;
	wh_textless_rows bare;
} looking;

/* Is it to be delivered?  Its id among the columns of the message is NULL if the subscription does not
 * have its topic. */
static bool is_news(const looking *w, const wh_log_row *row)
{
	return wh_row_int(row->row, WH_LOG_MESSAGE) == row->id &&
	       !wh_log_passed(w->to.r, row->id);
}

/* Did the row come by the WAL? */
static bool has_come(const looking *w, const wh_log_row *row)
{
	enum { MESSAGE_ID = WH_LOG_MESSAGE + WH_OPEN_MESSAGE_ID };

	return wh_log_of(w->to.r)->taken.n &&
	       wh_feed_met(w->to.r, row->id, wh_row_bytes(row->row, MESSAGE_ID));
}

static wherry_code take_row(void *ctx, const wh_log_row *row, wherry_error *err)
{
	looking *w = ctx;
	wh_open_reader v = {wh_log_meet, w, 0, 0};
	wherry_code code = WHERRY_OK;

	if (has_come(w, row)) {
		w->rows++;
		return WHERRY_OK;
	}
	if (!row->with_last &&
	    (!wh_intake_has_room(w->to.r) || !wh_intake_keys_left(w->to.r)))
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	if (is_news(w, row))
		code = wh_take_open_at(&v, WH_LOG_MESSAGE, row->row, err);
	w->rows += code != WHERRY_INTERRUPTED;
	return code;
}

/* Take one row. */
static wherry_code take_bare(void *ctx, const wh_log_row *row, wherry_error *err)
{
	looking *w = ctx;
	wh_open_reader v = wh_textless_reader(&w->bare);

	if (w->rows && !row->with_last)
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
	wh_log *f = wh_log_of(w->to.r);
	wh_store *store = w->to.r->store;
	wh_open_reader to = {wh_log_meet, w, 0, 0};
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
	wh_log *f = wh_log_of(w->to.r);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	if (f->careful && limit > f->careful)
		limit = f->careful;
	f->cursor->limits[2] = WH_INT_PARAM("mask", (int64_t)f->share.mask);
	f->cursor->limits[3] = WH_INT_PARAM("mixed", f->share.rows > 1);
	code = wh_cursor_read(f->cursor, &f->read, limit, take_row, w, found, &why);
	if (code == WHERRY_OK) {
		f->careful = f->careful < w->to.r->set.round_trip ? 2 * f->careful : 0;
	} else if (wh_db_about_row(w->to.r->db, code, &why)) {
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

/* Most rows of a look.  The position passes a look when all of its messages are delivered: so that it
 * passes suspects that did no harm, a look has as many as are tried together. */
static int64_t look_most(const wherry_relay *r)
{
	enum { LEAST = 16 };
	int64_t group = r->suspect_group < LEAST ? LEAST : (int64_t)r->suspect_group;

	return r->lease.suspects && group < r->set.round_trip ? group : r->set.round_trip;
}

wherry_code wh_log_look(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	int64_t room = wh_intake_room(r), limit = look_most(r);
	looking w = {.to = {r, now}};
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
