/*
 * The engine log: rows that are taken in, whatever brought them, and the exceptions that the position does not
 * cover.
 */
#include "relay/engine/positions.h"

#include <stdlib.h>
#include <string.h>

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

wherry_code wh_log_load_known(wherry_relay *r, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code =
		f->share.exceptions ? wh_progress_forget_done(r->store, err) : WHERRY_OK;

	f->n_known = 0;
	f->marked = false;
	f->reader.comes_later = comes_later;
	if (code == WHERRY_OK && f->share.exceptions)
		code = wh_progress_known(r->store, &f->share, note_known, r, err);
	if (code == WHERRY_OK && f->short_of_memory)
		code = wh_oom(err);
	f->short_of_memory = false;
	if (code == WHERRY_OK && f->n_known)
		qsort(f->known, f->n_known, sizeof(*f->known), by_id);
	return code;
}

/* ---- rows ---- */

/* Take in an exception that the position does not cover. */
static wherry_code meet_known(const wh_log_taker *w, wh_known *known,
			      const wh_open_row *row, wherry_error *err)
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

wherry_code wh_log_meet(void *ctx, const wh_open_row *row, wherry_error *err)
{
	const wh_log_taker *w = ctx;
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

bool wh_log_passed(const wherry_relay *r, int64_t id)
{
	wh_log *f = wh_log_of(r);
	const wh_known *known = find_known(f, id);
	bool is_done = known && known->what.state == WHERRY_DONE;

	f->marked |= is_done; /* Soon the position covers it. */
	return is_done || (known && known->what.state == WHERRY_DEAD);
}

wherry_code wh_log_take(wherry_relay *r, int64_t now, const wh_row *row,
			wherry_error *err)
{
	wh_log_taker to = {r, now};
	wh_open_reader v = {wh_log_meet, &to, 0, 0};

	return wh_log_passed(r, wh_row_int(row, WH_OPEN_ID)) ? WHERRY_OK
							     : wh_take_open(&v, row, err);
}

/* ---- parts ---- */

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
