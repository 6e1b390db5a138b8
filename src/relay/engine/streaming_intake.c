/*
 * Takes rows of the stream into the window, in the order of commits.
 *
 * A sweep may have met rows that were committed before it ended.  Such rows are looked up
 * by their ids first, and taken in if they are open in the table.  If their transaction
 * is in the WAL and not visible yet, the look-up is repeated.
 */
#include "relay/engine/streaming.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "publish/driver.h"

typedef struct pulling {
	wherry_relay *r;
	int64_t now;
	int64_t rows;     /* Rows of the outbox that came. */
	int64_t n_events; /* Events of the stream, including these rows. */
	size_t bytes;     /* Size of these events. */
	size_t nth;       /* Index of the next id that is looked up. */
	bool full;
	int64_t at; /* WAL position of the row that came. */
} pulling;

bool wh_streaming_has_room(const wherry_relay *r)
{
	return wh_intake_has_room(r) && wh_intake_keys_left(r);
}

/* ---- looking up ---- */

static wherry_code meet_known(void *ctx, const wh_open_row *row, wherry_error *err)
{
	pulling *w = ctx;
	wherry_relay *r = w->r;
	wh_streaming *f = wh_streaming_of(r);

	while (w->nth < f->n_ids && f->ids[w->nth] != row->id)
		w->nth++;
	if (w->nth == f->n_ids)
		return WHERRY_OK;
	if (!wh_streaming_has_room(r)) {
		w->full = true;
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	}
	f->reader.taking = f->id_txs[w->nth++];
	return wh_reader_meet(r, w->now, row, err);
}

/* Are all transactions visible whose rows must be looked up? */
static wherry_code all_visible(wh_streaming *f, bool *out, wherry_error *err)
{
	uint32_t *xids = calloc(f->n_ids, sizeof(*xids));
	int64_t unseen = 0;
	size_t n = 0;
	wherry_code code = WHERRY_OK;

	if (!xids)
		return wh_oom(err);
	for (size_t i = 0; i < f->n_ids; i++) {
		const wh_tx *tx = wh_tx_find(f, f->id_txs[i]);

		if (tx && (!n || xids[n - 1] != tx->xid))
			xids[n++] = tx->xid;
	}
	if (n)
		code = wh_wal_unseen(f->wal, xids, n, &unseen, err);
	free(xids);
	if (code == WHERRY_OK)
		*out = unseen == 0;
	return code;
}

/* The first n ids are looked up: remove them from the list. */
static void forget_ids(wherry_relay *r, size_t n)
{
	wh_streaming *f = wh_streaming_of(r);

	for (size_t i = 0; i < n; i++)
		wh_streaming_landed(f, f->id_txs[i]);
	f->n_ids -= n;
	memmove(f->ids, f->ids + n, f->n_ids * sizeof(*f->ids));
	memmove(f->id_txs, f->id_txs + n, f->n_ids * sizeof(*f->id_txs));
}

static wherry_code look_up(pulling *w, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_streaming *f = wh_streaming_of(r);
	bool visible = false;
	wherry_code code;

	if (!f->n_ids || !wh_streaming_has_room(r) || w->now < f->look_up_us)
		return WHERRY_OK;
	code = all_visible(f, &visible, err);
	if (code != WHERRY_OK)
		return code;
	f->look_up_us = visible ? 0 : wh_later(w->now, wh_streaming_unseen(r));
	if (!visible)
		return WHERRY_OK;
	f->unseen_us = 0;
	w->nth = 0;
	w->full = false;
	code = wh_outbox_read_in_order(r->outbox, f->ids, f->n_ids, meet_known, w, err);
	f->reader.taking = 0;
	if (w->full && code == WHERRY_INTERRUPTED)
		code = WHERRY_OK;
	if (code == WHERRY_OK)
		forget_ids(r, w->full ? w->nth : f->n_ids);
	return code;
}

/* ---- taking in ---- */

/* Is the key of the row held, draining or parked?  Its row is looked up in the table, so
 * that it is visible when it is noted. */
static wherry_code is_held(wherry_relay *r, const wh_open_row *row, bool *out,
			   wherry_error *err)
{
	const wh_key *key;
	wherry_code code = wh_row_key(r, row, err);

	if (code != WHERRY_OK)
		return code;
	key = r->set.ordered ? wh_keys_find(&r->keys,
					    (wh_view){r->key_text.ptr, r->key_text.len})
			     : NULL;
	*out = key && key->fsm.state != WH_KEY_FREE;
	return WHERRY_OK;
}

static wherry_code meet_row(void *ctx, const wh_open_row *row, wherry_error *err)
{
	pulling *w = ctx;
	wherry_relay *r = w->r;
	wh_streaming *f = wh_streaming_of(r);
	bool look = f->look || f->n_ids || row->state != WHERRY_PENDING;
	wherry_code code = WHERRY_OK;

	if (f->unmarked)
		return wh_unmarked_meet(r, row, w->at, err);
	/* Rows that come after one to look up are looked up too, so as not to
	 * overtake it. */
	if (!look)
		code = is_held(r, row, &look, err);
	if (code != WHERRY_OK)
		return code;
	if (look) {
		f->ids[f->n_ids] = row->id;
		f->id_txs[f->n_ids++] = f->reader.taking;
		wh_streaming_taken(f, f->reader.taking);
		return WHERRY_OK;
	}
	if (row->id > f->reader.cursor)
		f->reader.cursor = row->id;
	return wh_reader_meet(r, w->now, row, err);
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
	f->look =
		event->at <= f->known || (r->pub && (r->pub->driver->caps & WH_PUB_ACKS));
	f->reader.taking = wh_tx_last(f);
	return WHERRY_OK;
}

static void end_tx(wherry_relay *r, const wh_stream_event *event)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_tx *tx = wh_tx_find(f, f->reader.taking);

	tx->end = event->at;
	f->received = event->at;
	f->inside = false;
	f->reader.taking = 0;
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
			wh_tx_find(f, f->reader.taking)->rows++;
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

	f->reader.taking = f->inside ? wh_tx_last(f) : 0;
	while (code == WHERRY_OK && event.kind != WH_STREAM_NOTHING && !is_enough(w) &&
	       f->n_ids < (size_t)r->set.batch && wh_streaming_has_room(r)) {
		code = f->stream->driver->next(f->stream, &event, err);
		w->n_events++;
		w->bytes += event.len;
		if (code == WHERRY_OK)
			code = take(w, &event, err);
	}
	f->reader.taking = 0;
	return code;
}

/* The acknowledgements that a relay writes verify its lease.  If the last one was more
 * than a second ago, verify it before submitting rows that came. */
static void fence_late(const pulling *w)
{
	wherry_relay *r = w->r;
	wh_streaming *f = wh_streaming_of(r);

	if (w->rows && !f->unmarked && w->now - r->fenced_us > WH_SECOND)
		r->lease_unverified = true;
}

wherry_code wh_streaming_pull(wherry_relay *r, int64_t now, wherry_error *err)
{
	pulling w = {.r = r, .now = now};
	wherry_code code = wh_window_begin(&r->window, err);

	if (code != WHERRY_OK)
		return code;
	code = look_up(&w, err);
	if (code == WHERRY_OK && !wh_streaming_of(r)->n_ids)
		code = pull(&w, err);
	if (code == WHERRY_OK)
		code = look_up(&w, err);
	wh_window_end(&r->window);
	fence_late(&w);
	return code;
}

/* May rows be taken in while the database works?  Not if rows must be looked up
 * in the table. */
static bool comes_meanwhile(const wherry_relay *r)
{
	const wh_streaming *f = wh_streaming_of(r);

	return f && wh_streaming_on(r) && f->placed && !f->n_ids && !f->unmarked &&
	       !f->reader.sweeping && !f->reader.more && !r->stats.paused &&
	       wh_streaming_has_room(r);
}

bool wh_streaming_meanwhile(wherry_relay *r, int64_t now, struct pollfd *out)
{
	pulling w = {.r = r, .now = now};
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	*out = (struct pollfd){.fd = -1};
	if (!comes_meanwhile(r) || wh_window_begin(&r->window, NULL) != WHERRY_OK)
		return false;
	code = pull(&w, &why);
	wh_window_end(&r->window);
	fence_late(&w);
	if (code != WHERRY_OK)
		(void)wh_streaming_trouble(r, now, code, &why);
	if (!comes_meanwhile(r))
		return false;
	out->fd = wh_streaming_fd(r, &out->events);
	return wh_streaming_of(r)->stream->driver->waiting(wh_streaming_of(r)->stream);
}

/* ---- engine unmarked: rows that are older than the slot ---- */

wherry_code wh_streaming_table(wherry_relay *r, int64_t now, wherry_error *err)
{
	enum { AT_ONCE = 100 };
	wh_streaming *f = wh_streaming_of(r);
	int64_t limit = wh_intake_room(r) < AT_ONCE ? wh_intake_room(r) : AT_ONCE;
	pulling w = {.r = r, .now = now};
	wh_open_reader reader = {meet_row, &w, 0, 0};
	const wh_stmt *first = wh_sql_find(&r->store->sql, "stream-first");
	bool more = true;
	wherry_code code;

	if (r->stats.paused || !wh_streaming_has_room(r) || limit <= 0)
		return WHERRY_OK;
	code = wh_window_begin(&r->window, err);
	if (code != WHERRY_OK)
		return code;
	f->reader.taking = wh_tx_last(f);
	code = f->stream->driver->rows(f->stream, first->text, limit, wh_take_open,
				       &reader, &more, err);
	f->reader.taking = 0;
	wh_window_end(&r->window);
	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	return more ? WHERRY_OK : wh_streaming_table_done(r, now, err);
}
