/*
 * The engine log: a position says which messages were read, and nothing is written to rows.
 *
 * It is the engine exclusive with another source of new rows.  The cursor (log/cursor.c) brings
 * them.  The table of exceptions has the messages that the position has passed before they were
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

#include "log/subscription.h"
#include "relay/engine/reader.h"
#include "relay/hold/noted.h"
#include "store/unreadable.h"

enum { PASS_US = 1000000, CHECK_US = 200000 };

/* The rows of one look. */
typedef struct look {
	wh_position to; /* The position behind them; owned. */
	int64_t rows;
	int64_t open;    /* Messages of it in memory. */
	int64_t left_us; /* When the first of them was settled; 0: none was. */
} look;

typedef struct wh_known {
	wh_exception what;
	int64_t due_us;
	bool met;
} wh_known;

typedef struct wh_log {
	wh_reader reader; /* First; see wh_reader_of(). */
	wh_cursor *cursor;
	bool begun;       /* The position was read. */
	bool reopened;    /* Compare the stored position with the one in memory. */
	wh_position read; /* Behind the last look. */
	wh_position done; /* All before it is delivered, or an exception. */
	bool moved;       /* It is not written yet. */
	/* The position that the database has, and the one that it may have: it did not answer. */
	wh_position written, writing;
	int64_t since; /* Rows that were read behind `done`. */
	/* Most rows of a look, since a row cannot be sent; doubled by each look that succeeds; 0: no limit. */
	int64_t careful;
	bool waits; /* A row has the id of another message in flight, and is read when that has left. */

	/* The looks that have open messages, in their order. */
	look *looks;
	size_t first, n, cap;
	uint64_t base; /* Number of the first one. */

	/* Messages that wait and are not exceptions yet. */
	int64_t *held;
	size_t n_held, held_most;

	/* Exceptions that the position does not cover.  Earlier messages of their keys may be none, so
	 * they are taken in by the looks. */
	wh_known *known;
	size_t n_known, known_cap;
	bool short_of_memory;
} wh_log;

static wh_log *of(const wherry_relay *r)
{
	return r->state;
}

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
	r->set.on_done = WHERRY_DELETE; /* Of an exception. */
	return f->held ? WHERRY_OK : wh_oom(err);
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
	wh_log *f = of(r);

	forget_looks(f);
	wh_position_clear(&f->read);
	wh_position_clear(&f->done);
	wh_position_clear(&f->written);
	wh_position_clear(&f->writing);
	f->begun = f->moved = f->waits = false;
	f->since = 0;
	f->n_held = f->n_known = 0;
	wh_reader_forget(r);
}

static void free_state(wherry_relay *r)
{
	wh_log *f = of(r);

	forget(r);
	wh_cursor_close(f->cursor);
	free(f->looks);
	free(f->held);
	free(f->known);
	free(f);
}

static wherry_code swept(wherry_relay *r, int64_t now, wherry_error *err)
{
	(void)now;
	(void)err;
	wh_reader_of(r)->knows_all = true;
	return WHERRY_OK;
}

static wherry_code attach(wherry_relay *r, wherry_error *err)
{
	wh_log *f = of(r);
	wherry_code code;

	wh_cursor_close(f->cursor);
	f->cursor = NULL;
	f->reader.swept = swept;
	f->reader.fed = true;
	code = wh_cursor_open_layout(r->db, &r->store->sql, &f->cursor, err);
	if (code != WHERRY_OK)
		return code;
	wh_store_limits(r->store, f->cursor->limits);
	f->cursor->n_limits = 2;
	return WHERRY_OK;
}

static void detach(wherry_relay *r, int64_t now)
{
	(void)now;
	wh_cursor_close(of(r)->cursor);
	of(r)->cursor = NULL;
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(const wh_position *a, const wh_position *b)
{
	return a->high == b->high && a->late == b->late &&
	       is_same_text(a->seen, b->seen) && is_same_text(a->until, b->until);
}

/* After a reconnect the database may be another one, or have gone back to an earlier time.  The
 * stored position is the truth, and not the one in memory. */
static wherry_code compare(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = of(r);
	wh_position stored = WH_POSITION_START;
	wherry_code code = wh_progress_read(r->store, &stored, err);

	if (code == WHERRY_OK && !is_same(&stored, &f->written) &&
	    !is_same(&stored, &f->writing)) {
		wh_lease_lost(r, now, "the database has another position than before");
		code = WHERRY_STALE;
	}
	wh_position_clear(&stored);
	return code;
}

static void resume(wherry_relay *r, int64_t now)
{
	wh_log *f = of(r);

	f->reopened = f->begun;
	f->reader.news = true;
	wh_reader_sweep_all(r, now);
}

/* ---- looks ---- */

static look *look_of(const wh_log *f, uint64_t number)
{
	if (number < f->base || number - f->base >= f->n)
		return NULL;
	return &f->looks[f->first + (number - f->base)];
}

/* Room for one more look, and its number. */
static wherry_code add_look(wh_log *f, wherry_error *err)
{
	if (f->first && f->first + f->n == f->cap) {
		memmove(f->looks, f->looks + f->first, f->n * sizeof(*f->looks));
		f->first = 0;
	}
	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 16;
		look *grown = realloc(f->looks, cap * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		f->looks = grown;
		f->cap = cap;
	}
	f->looks[f->first + f->n] = (look){.rows = 0};
	f->reader.taking = f->base + f->n++;
	return WHERRY_OK;
}

static void admitted(wherry_relay *r, wh_entry *e)
{
	wh_log *f = of(r);
	look *of_row = look_of(f, f->reader.taking);

	r->lease_unverified = true;
	e->tx = f->reader.taking;
	if (of_row)
		of_row->open++;
}

static void left(wherry_relay *r, const wh_entry *e)
{
	look *of_row = look_of(of(r), e->tx);

	wh_reader_left(r, e);
	of(r)->waits = false;
	if (!of_row)
		return;
	of_row->open--;
	if (!of_row->left_us)
		of_row->left_us = wh_monotonic(&r->env);
}

/* The message is an exception now. */
static void set_exception(wherry_relay *r, wh_entry *e)
{
	look *of_row = look_of(of(r), e->tx);

	if (of_row)
		of_row->open--;
	e->tx = 0;
}

static void noted(wherry_relay *r, int64_t id, uint64_t tx)
{
	wh_log *f = of(r);

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
		look *l = &f->looks[f->first];

		wh_position_clear(&f->done);
		f->done = l->to;
		l->to = WH_POSITION_START;
		f->since -= l->rows;
		f->first++;
		f->base++;
		f->n--;
		f->moved = true;
	}
	if (!f->n)
		f->first = 0;
}

/* Make the open messages of the first look exceptions.  False: not all of them, since there is
 * no room to note them before others are written. */
static bool pass_first(wherry_relay *r)
{
	wh_log *f = of(r);

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
	wh_log *f = of(r);
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
		code = wh_progress_write(r->store, &r->lease, f->moved ? &f->done : NULL,
					 f->held, f->n_held, err);
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "the position was refused");
	if (code != WHERRY_OK)
		return code;
	f->n_held = 0;
	if (!f->moved)
		return WHERRY_OK;
	wh_position_clear(&f->written);
	f->written = f->writing;
	f->writing = WH_POSITION_START;
	f->moved = false;
	return WHERRY_OK;
}

/* When to pass the first look although messages of it are open. */
static int64_t pass_at(const wherry_relay *r)
{
	const wh_log *f = of(r);
	const look *l = f->n ? &f->looks[f->first] : NULL;

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
	wh_log *f = of(r);

	advance(f);
	while (now >= pass_at(r) && pass_first(r))
		advance(f);
	return f->moved || f->n_held ? write_now(r, now, err) : WHERRY_OK;
}

/* The last look of which a message has left memory. */
static size_t begun_looks(const wh_log *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		if (f->looks[f->first + i].open < f->looks[f->first + i].rows)
			n = i + 1;
	return n;
}

/* Messages that were taken in and not submitted become exceptions, unless all of their look
 * were not: so a clean end delivers none again. */
static wherry_code finish(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = of(r);
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
	if (code == WHERRY_OK && (f->moved || f->n_held))
		code = write_now(r, now, err);
	return code;
}

/* ---- taking in ---- */

static void note_known(void *ctx, const wh_exception *what)
{
	wherry_relay *r = ctx;
	wh_log *f = of(r);

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
	wh_known *known = find_known(of(r), row->id);

	if (!known || known->met)
		return false;
	known->met = known->what.state == WHERRY_DEAD;
	known->what.state = row->state;
	known->what.attempts = row->attempts;
	known->due_us = wh_later(now, row->due_in_us);
	return !known->met;
}

/* Read where the last relay ended. */
static wherry_code load(wherry_relay *r, wherry_error *err)
{
	wh_log *f = of(r);
	wherry_code code = wh_progress_read(r->store, &f->read, err);

	f->n_known = 0;
	f->reader.comes_later = comes_later;
	wh_position_clear(&f->written);
	if (code == WHERRY_OK)
		code = wh_position_copy(&f->written, &f->read, err);
	if (code == WHERRY_OK)
		code = wh_progress_known(r->store, note_known, r, err);
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
	wh_log *f = of(w->r);
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
	wh_known *known = find_known(of(w->r), row->id);
	wherry_code code = known ? meet_known(w, known, row, err)
				 : wh_reader_meet(w->r, w->now, row, err);
	const wh_entry *e = wh_window_find(&w->r->window, row->id);

	if (code != WHERRY_OK || !e || !e->replaced)
		return code;
	of(w->r)->waits = true;
	return wh_fail(err, WHERRY_INTERRUPTED, "another message in flight has its id");
}

/* Is it dead, or was it taken in before? */
static bool is_passed(const wh_log *f, int64_t id)
{
	const wh_known *known = find_known(f, id);

	return known && (known->met || known->what.state == WHERRY_DEAD);
}

/* Is it to be delivered?  Its id among the columns of the message is NULL if the subscription does not
 * have its topic. */
static bool is_news(const looking *w, const wh_log_row *row)
{
	return wh_row_int(row->row, WH_LOG_MESSAGE) == row->id &&
	       !is_passed(of(w->r), row->id);
}

static wherry_code take_row(void *ctx, const wh_log_row *row, wherry_error *err)
{
	looking *w = ctx;
	wh_open_reader v = {meet, w, 0, 0};
	wherry_code code = WHERRY_OK;

	if (!wh_intake_has_room(w->r) || !wh_intake_keys_left(w->r))
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

	if (w->rows)
		return wh_fail(err, WHERRY_INTERRUPTED, "one row is enough");
	w->rows++;
	return is_news(w, row) ? wh_take_open_at(&v, WH_LOG_MESSAGE, row->row, err)
			       : WHERRY_OK;
}

/* Read the next row without its texts, and then by its id: it may be the one that the database
 * cannot send. */
static wherry_code read_bare(looking *w, wh_log_found *found, wherry_error *err)
{
	wh_log *f = of(w->r);
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
	wh_log *f = of(w->r);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	if (f->careful && limit > f->careful)
		limit = f->careful;
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

typedef struct renumbering {
	wherry_relay *r;
	wh_position at;
} renumbering;

static wherry_code renumber_in(void *ctx, wherry_error *err)
{
	renumbering *w = ctx;
	wherry_code code = wh_cursor_renumber(of(w->r)->cursor, &w->at, err);

	return code == WHERRY_OK ? wh_progress_write(w->r->store, &w->r->lease, &w->at,
						     NULL, 0, err)
				 : code;
}

/* The table came from another server.  Nothing is in memory: see below. */
static wherry_code renumber(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = of(r);
	renumbering w = {.r = r};
	wherry_code code;

	if (r->window.n || f->n || f->moved || f->n_held) {
		wh_lease_lost(r, now, "the table came from another server");
		return WHERRY_STALE;
	}
	code = wh_position_copy(&w.at, &f->read, err);
	if (code == WHERRY_OK)
		code = wh_db_transact(r->db, renumber_in, &w, err);
	if (code == WHERRY_OK) {
		wh_position_clear(&f->read);
		wh_position_clear(&f->written);
		f->read = w.at;
		w.at = WH_POSITION_START;
		code = wh_position_copy(&f->written, &f->read, err);
		wh_relay_say(r, WHERRY_LOG_WARN, "log-restored",
			     wh_log_note("the outbox came from another server: its "
					 "transactions got new numbers"));
	}
	wh_position_clear(&w.at);
	return code;
}

/* A look that failed, or brought nothing, moves no position, unless it ended a round. */
static wherry_code end_look(wherry_relay *r, wherry_code code, int64_t rows, bool round,
			    wherry_error *err)
{
	wh_log *f = of(r);
	look *l = &f->looks[f->first + f->n - 1];

	f->reader.taking = 0;
	r->store->rows_read += rows;
	if (code == WHERRY_OK && (rows || round))
		code = wh_position_copy(&l->to, &f->read, err);
	if (code != WHERRY_OK || !(rows || round)) {
		f->n--;
		return code;
	}
	l->rows = rows;
	f->since += rows;
	return WHERRY_OK;
}

/* Read what the position does not cover. */
static wherry_code look_on(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = of(r);
	int64_t room = wh_intake_room(r), limit = r->set.round_trip;
	looking w = {.r = r, .now = now};
	wh_log_found found = {.event = WH_LOG_SAME};
	bool round = f->read.until != NULL;
	wherry_code code = add_look(f, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_window_begin(&r->window, err);
	if (code == WHERRY_OK) {
		code = read_rows(&w, limit < room ? limit : room, &found, err);
		wh_window_end(&r->window);
	}
	round = round && found.event == WH_LOG_SAME;
	code = end_look(r, code, w.rows, round, err);
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

static bool may_look(const wherry_relay *r)
{
	const wh_log *f = of(r);

	return f->begun && f->reader.news && !f->waits && !f->reader.sweeping &&
	       !r->stats.paused && wh_reader_is_worth_it(r);
}

static wherry_code fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_log *f = of(r);
	wherry_code code = WHERRY_OK;

	if (!f->begun)
		code = load(r, err);
	if (code == WHERRY_OK && f->reopened) {
		code = compare(r, now, err);
		f->reopened = code != WHERRY_OK && code != WHERRY_STALE;
	}
	if (code == WHERRY_OK && f->n_held)
		code = write_now(r, now, err);
	if (code == WHERRY_OK)
		code = wh_reader_fetch(r, now, err);
	return code == WHERRY_OK && may_look(r) ? look_on(r, now, err) : code;
}

/* ---- the lease ---- */

static bool no_suspects_left(const wherry_relay *r)
{
	const wh_log *f = of(r);

	if (r->stats.delivered - r->delivered_before >= 2 * r->set.window)
		return true;
	return f->begun && !f->reader.sweeping && !f->reader.news &&
	       wh_window_lowest(&r->window) > r->suspects_upto;
}

static wherry_code renewed(wherry_relay *r, int64_t now, int64_t version,
			   wherry_error *err)
{
	(void)err;
	if (r->lease.last_open) /* The notice of a commit may have been lost. */
		of(r)->reader.news = true;
	if (r->lease.control_version != version)
		wh_reader_sweep_all(r, now);
	return WHERRY_OK;
}

/* ---- results ---- */

/* Only exceptions are written to: of the other messages the position says that they are done. */
static wherry_code acknowledge(wherry_relay *r, const wh_entry *try_next,
			       wh_settlement *s, wh_settled *out, int64_t *out_later_us,
			       wherry_error *err)
{
	wh_log *f = of(r);
	wh_settlement mine = *s;
	wh_settled written = {0};
	int64_t *done = r->scratch.done_ids;
	wherry_code code = WHERRY_OK;
	wh_entry *tried;

	(void)out_later_us;
	if (f->n_held) /* Or one of them could be delivered before it is written. */
		code = wh_progress_write(r->store, &r->lease, NULL, f->held, f->n_held,
					 err);
	if (code != WHERRY_OK)
		return code;
	f->n_held = 0;
	mine.n_done = 0;
	mine.names = NULL;
	for (size_t i = 0; i < s->n_done; i++) {
		const wh_entry *e = wh_window_find(&r->window, s->done[i]);

		if (e && !e->tx && !e->replaced)
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
	wh_log *f = of(r);
	bool quiet = f->begun && !f->reader.news && !f->reader.sweeping &&
		     !f->reader.more && !r->window.n && !r->keys.n_held;
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
	if (r->fsm.state == WH_LEADING && (f->moved || f->n_held))
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
	const wh_log *f = of(r);
	int64_t at = wh_reader_deadline(r, now);

	if (f->n_held || f->moved || !f->begun || may_look(r) ||
	    (f->n && !f->looks[f->first].open))
		return now;
	return wh_sooner(at, pass_at(r));
}

const wh_engine_driver wh_engine_positions = {
	.id = WH_POSITIONS,
	.hold = &wh_hold_noted,
	.writes_rows = true,
	.records_attempts = true,
	.make = make,
	.free = free_state,
	.attach = attach,
	.detach = detach,
	.resume = resume,
	.begin = wh_reader_begin,
	.suspects = wh_reader_suspects,
	.no_suspects_left = no_suspects_left,
	.is_unsuspected = wh_reader_is_unsuspected,
	.renewed = renewed,
	.forget = forget,
	.fetch = fetch,
	.admitted = admitted,
	.left = left,
	.noted = noted,
	.changed = wh_reader_changed,
	.row_lost = wh_reader_row_lost,
	.acknowledge = acknowledge,
	.progress = progress,
	.finish = finish,
	.give_up = finish,
	.until_empty = until_empty,
	.deadline = deadline,
};
