/*
 * Takes rows of the stream into the window, in the order of commits.
 */
#include "relay/engine/streaming.h"

#include <string.h>

typedef struct pulling {
	wherry_relay *r;
	int64_t rows;     /* Rows of the outbox that came. */
	int64_t n_events; /* Events of the stream, including these rows. */
	size_t bytes;     /* Size of these events. */
	int64_t at;       /* WAL position of the row that came. */
} pulling;

bool wh_streaming_has_room(const wherry_relay *r)
{
	return wh_intake_has_room(r) && wh_intake_keys_left(r);
}

static wherry_code meet_row(void *ctx, const wh_open_row *row, wherry_error *err)
{
	const pulling *w = ctx;

	return wh_unmarked_meet(w->r, row, w->at, err);
}

/*
 * A transaction was cut when the connection was lost.  On the next connection it comes
 * first: the server reads on after `received`, which is before that transaction, and what
 * it leaves out depends on the WAL alone.
 *
 * But the slot may have been moved or made again, or another server's WAL may differ.
 * Then the transaction never comes, and its rows that came must not hold the position
 * back.
 */
static void give_up_cut(wh_streaming *f)
{
	wh_tx_find(f, wh_tx_last(f))->end = f->received;
	f->inside = f->cut = false;
}

static bool is_again(const wh_tx *tx, const wh_stream_event *event)
{
	return tx->xid == event->xid && tx->at == event->at &&
	       tx->committed_us == event->committed_us;
}

static wherry_code begin_tx(wherry_relay *r, const wh_stream_event *event,
			    wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_tx *tx = f->cut ? wh_tx_find(f, wh_tx_last(f)) : NULL;

	if (tx && is_again(tx, event)) {
		f->skip = tx->rows;
	} else {
		if (tx)
			give_up_cut(f);
		tx = wh_tx_begin(f, event->xid);
		if (!tx)
			return wh_oom(err);
		tx->at = event->at;
		tx->committed_us = event->committed_us;
	}
	f->inside = true;
	f->cut = false;
	f->committed_us = event->committed_us;
	f->taking = wh_tx_last(f);
	return WHERRY_OK;
}

static void end_tx(wherry_relay *r, const wh_stream_event *event)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_tx *tx = wh_tx_find(f, f->taking);

	tx->end = event->at;
	f->received = event->at;
	f->inside = false;
	f->taking = 0;
	/* Nothing waits for this transaction: extend the one before to its end. */
	if (!tx->open && f->n > 1) {
		tx[-1].end = event->at;
		f->n--;
	}
}

static wherry_code take(pulling *w, const wh_stream_event *event, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(w->r);
	wh_open_reader reader = {meet_row, w, 0, 0};
	wherry_code code;

	switch (event->kind) {
	case WH_STREAM_BEGIN:
		return begin_tx(w->r, event, err);
	case WH_STREAM_ROW:
		w->rows++;
		w->at = event->at;
		if (f->skip && f->skip--)
			return WHERRY_OK;
		code = wh_take_open(&reader, &event->row, err);
		if (code ==
		    WHERRY_OK) /* Else the row is not skipped when it comes again. */
			wh_tx_find(f, f->taking)->rows++;
		return code;
	case WH_STREAM_END:
		end_tx(w->r, event);
		return WHERRY_OK;
	case WH_STREAM_POSITION:
		if (f->cut && event->at > wh_tx_find(f, wh_tx_last(f))->at)
			give_up_cut(f);
		if (!f->inside && event->at > f->received)
			f->received = event->at;
		return WHERRY_OK;
	case WH_STREAM_OTHERS:
	case WH_STREAM_NOTHING:
		break;
	}
	return WHERRY_OK;
}

/* Was enough read in this step?  Gigabytes of other tables may pass, and each row may be
 * a separate transaction. */
static bool is_enough(const pulling *w)
{
	enum { EVENTS_MOST = 4000, BYTES_MOST = 16 * 1024 * 1024 };
	const wherry_relay *r = w->r;

	return w->rows >= r->set.batch || w->n_events - 3 * w->rows >= EVENTS_MOST ||
	       w->bytes >= BYTES_MOST;
}

/* Take in events until none has come, there is no room, or enough were read. */
static wherry_code pull(pulling *w, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_streaming *f = wh_streaming_of(r);
	wh_stream_event event = {.kind = WH_STREAM_POSITION};
	wherry_code code = WHERRY_OK;

	f->taking = f->inside ? wh_tx_last(f) : 0;
	while (code == WHERRY_OK && event.kind != WH_STREAM_NOTHING && !is_enough(w) &&
	       wh_streaming_has_room(r)) {
		code = f->stream->driver->next(f->stream, &event, err);
		w->n_events++;
		w->bytes += event.len;
		if (code == WHERRY_OK)
			code = take(w, &event, err);
	}
	f->taking = 0;
	return code;
}

wherry_code wh_streaming_pull(wherry_relay *r, int64_t now, wherry_error *err)
{
	pulling w = {.r = r};
	wherry_code code = wh_window_begin(&r->window, err);

	if (code != WHERRY_OK)
		return code;
	code = pull(&w, err);
	wh_window_end(&r->window);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}

/* ---- rows that are older than the slot ---- */

wherry_code wh_streaming_table(wherry_relay *r, int64_t now, wherry_error *err)
{
	enum { AT_ONCE = 100 };
	wh_streaming *f = wh_streaming_of(r);
	int64_t limit = wh_intake_room(r) < AT_ONCE ? wh_intake_room(r) : AT_ONCE;
	pulling w = {.r = r};
	wh_open_reader reader = {meet_row, &w, 0, 0};
	const wh_stmt *first = wh_sql_find(&r->store->sql, "stream-first");
	bool more = true;
	wherry_code code;

	if (r->stats.paused || !wh_streaming_has_room(r) || limit <= 0)
		return WHERRY_OK;
	code = wh_window_begin(&r->window, err);
	if (code != WHERRY_OK)
		return code;
	f->taking = wh_tx_last(f);
	code = f->stream->driver->rows(f->stream, first->text, limit, wh_take_open,
				       &reader, &more, err);
	f->taking = 0;
	wh_window_end(&r->window);
	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	return more ? WHERRY_OK : wh_streaming_table_done(r, now, err);
}
