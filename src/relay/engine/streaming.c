/*
 * The stream engine reads PostgreSQL's WAL beside the table.
 *
 * It is the engine exclusive with another source of new rows.  Until the stream is open,
 * it reads the table.  With a stream, rows come in the order of commits.  The table is
 * then read only for rows that the stream does not bring: older rows, retries, and
 * changes of operators.  In the engine unmarked (unmarked.c) all rows come by the stream.
 * See docs/internals/stream.md.
 */
#include "relay/engine/streaming.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_US = 100000, UNSEEN_US = 1000, UNSEEN_MOST_US = 100000 };

/* ---- transactions ---- */

wh_tx *wh_tx_begin(wh_streaming *f, uint32_t xid)
{
	if (f->first && f->first + f->n == f->cap) {
		memmove(f->txs, f->txs + f->first, f->n * sizeof(*f->txs));
		f->first = 0;
	}
	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 64;
		wh_tx *grown = realloc(f->txs, cap * sizeof(*grown));

		if (!grown)
			return NULL;
		f->txs = grown;
		f->cap = cap;
	}
	f->txs[f->first + f->n] = (wh_tx){.xid = xid};
	return &f->txs[f->first + f->n++];
}

wh_tx *wh_tx_find(wh_streaming *f, uint64_t number)
{
	if (number < f->base || number - f->base >= f->n)
		return NULL;
	return &f->txs[f->first + (number - f->base)];
}

uint64_t wh_tx_last(const wh_streaming *f)
{
	return f->n ? f->base + f->n - 1 : 0;
}

void wh_tx_advance(wh_streaming *f)
{
	while (f->n && f->txs[f->first].end && !f->txs[f->first].open) {
		f->delivered = f->txs[f->first].end;
		f->first++;
		f->base++;
		f->n--;
	}
	if (!f->n)
		f->first = 0;
	if (!f->n && f->received > f->delivered)
		f->delivered = f->received;
}

/* The position that may be reported to the slot; 0: none yet.  The engine unmarked writes its position
 * first: a slot that is ahead of what the last relay wrote at its end is not the one that it read. */
int64_t wh_streaming_safe(const wh_streaming *f)
{
	return f->unmarked && !f->written ? 0 : f->delivered;
}

bool wh_streaming_on(const wherry_relay *r)
{
	return wh_streaming_of(r)->fsm.state == WH_STREAMING_ON;
}

/* ---- rows in memory ---- */

/* The noted place of an id; for a new message, the next place. */
int64_t wh_streaming_place(wherry_relay *r, int64_t id)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t order;

	if (!wh_places_of(&f->places, id, &order))
		order = f->order += WH_PLACE_STEP;
	return order;
}

void wh_streaming_taken(wh_streaming *f, uint64_t number)
{
	wh_tx *tx = number ? wh_tx_find(f, number) : NULL;

	if (tx)
		tx->open++;
}

void wh_streaming_admitted(wherry_relay *r, wh_entry *e)
{
	wh_streaming *f = wh_streaming_of(r);

	e->tx = f->reader.taking;
	if (!e->tx)
		r->lease_unverified = true;
	wh_streaming_taken(f, e->tx);
}

void wh_streaming_landed(wh_streaming *f, uint64_t number)
{
	wh_tx *tx = number ? wh_tx_find(f, number) : NULL;

	if (!tx)
		return;
	tx->open--;
	f->moved = true;
}

void wh_streaming_left(wherry_relay *r, const wh_entry *e)
{
	wh_reader_left(r, e);
	wh_streaming_landed(wh_streaming_of(r), e->tx);
}

/* ---- which rows are visible ---- */

static wherry_code swept(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_wal_now at;
	wherry_code code;

	(void)now;
	f->placed = false;
	code = wh_wal_position(f->wal, &at, err);
	if (code != WHERRY_OK)
		return code;
	f->known = at.written;
	f->reader.knows_all = true;
	f->placed = true;
	f->look |= f->inside; /* The sweep has met the rest of that transaction. */
	return WHERRY_OK;
}

static size_t add_xid(wh_streaming *f, uint64_t number, uint32_t *xids, size_t n)
{
	const wh_tx *tx = number ? wh_tx_find(f, number) : NULL;

	if (!tx || (n && xids[n - 1] == tx->xid))
		return n;
	xids[n] = tx->xid;
	return n + 1;
}

static wherry_code seen(wherry_relay *r, const wh_entry *also, bool *out_all,
			wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	size_t n = 0;
	uint32_t *xids = calloc(r->window.settled.n + 1, sizeof(*xids));
	int64_t unseen = 0;
	wherry_code code = WHERRY_OK;

	if (!xids)
		return wh_oom(err);
	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		n = add_xid(f, e->tx, xids, n);
	if (also)
		n = add_xid(f, also->tx, xids, n);
	if (n)
		code = wh_wal_unseen(f->wal, xids, n, &unseen, err);
	free(xids);
	if (code != WHERRY_OK)
		return code;
	*out_all = unseen == 0;
	if (*out_all)
		f->unseen_us = 0;
	return WHERRY_OK;
}

/* How long to wait until a committed transaction is visible: 1 ms, doubled up to 100 ms.
 * A commit may wait for a PostgreSQL standby that is away. */
int64_t wh_streaming_unseen(wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);

	f->unseen_us = f->unseen_us ? 2 * f->unseen_us : UNSEEN_US;
	if (f->unseen_us > UNSEEN_MOST_US)
		f->unseen_us = UNSEEN_MOST_US;
	return f->unseen_us;
}

/*
 * A message may be delivered before its row is visible, because the WAL is written before
 * the commit becomes visible.  Then wait until the row is visible, and acknowledge it
 * later.
 */
static wherry_code acknowledge(wherry_relay *r, const wh_entry *try_next,
			       wh_settlement *s, wh_settled *out, int64_t *out_later_us,
			       wherry_error *err)
{
	wh_settled late = {0};
	bool all = true;
	wherry_code code = WHERRY_OK;

	if (try_next || r->window.n_undelivered)
		code = seen(r, try_next, &all, err);
	if (code == WHERRY_OK && all)
		code = wh_settle_write(r, s, out, err);
	if (code == WHERRY_OK && all && out->n_done < (int64_t)s->n_done) {
		code = seen(r, NULL, &all, err);
		if (code == WHERRY_OK && all && !s->n_failed && !s->try_id)
			code = wh_store_settle(r->store, &r->lease, s, &late, err);
		out->n += late.n;
		out->n_done += late.n_done;
	}
	if (code == WHERRY_OK && !all)
		*out_later_us = wh_streaming_unseen(r);
	return code;
}

/* ---- the step ---- */

wherry_code wh_streaming_confirm(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code;

	if (!wh_streaming_on(r))
		return WHERRY_OK;
	wh_tx_advance(f);
	code = f->stream->driver->confirm(f->stream, now, wh_streaming_safe(f), false,
					  err);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}

/* Take in rows that have come, unless a sweep is in progress or the outbox is paused. */
static wherry_code receive(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code = WHERRY_OK;

	if (f->reader.sweeping || r->stats.paused)
		return WHERRY_OK;
	if (!f->unmarked && !f->placed)
		code = swept(r, now, err);
	if (code == WHERRY_OK && (f->placed || f->unmarked)) {
		code = wh_streaming_pull(r, now, err);
		if (code != WHERRY_OK)
			return wh_streaming_trouble(r, now, code, err);
	}
	return code;
}

/* Does connecting wait for the sweep of the backlog?  A server that sends WAL
 * at the same time delays the sweep.  But it keeps all WAL until then, so the
 * relay waits at most 10 s. */
static bool waits_for_table(const wherry_relay *r, int64_t now)
{
	wh_streaming *f = wh_streaming_of(r);

	return f->reader.sweeping && !f->unmarked && now < f->begin_by_us;
}

wherry_code wh_streaming_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	enum { BACKLOG_S = 10 };
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code = WHERRY_OK;

	if (!f->begin_by_us)
		f->begin_by_us = wh_later(now, BACKLOG_S * WH_SECOND);
	if (f->fsm.state == WH_STREAMING_OFF && now >= f->retry_us && !f->given_up &&
	    !waits_for_table(r, now))
		code = wh_streaming_connect(r, now, err);
	if (code == WHERRY_OK && f->fsm.state == WH_STREAMING_MAKING)
		code = wh_streaming_begin(r, now, err);
	if (code == WHERRY_OK && f->fsm.state == WH_STREAMING_TABLE)
		code = wh_streaming_table(r, now, err);
	if (code == WHERRY_OK && wh_streaming_on(r))
		code = receive(r, now, err);
	if (code == WHERRY_OK)
		code = wh_streaming_watch(r, now, err);
	return code == WHERRY_OK ? wh_streaming_confirm(r, now, err) : code;
}

/* Confirm the final position, so that the next relay begins there, and close
 * the connection. */
wherry_code wh_streaming_finish(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);

	if (!wh_streaming_on(r))
		return WHERRY_OK;
	wh_tx_advance(f);
	if (f->stream->driver->confirm(f->stream, now, wh_streaming_safe(f), true, err) !=
	    WHERRY_OK)
		wh_relay_say(r, WHERRY_LOG_DEBUG, "stream-not-confirmed",
			     wh_log_text("why", err ? err->message : ""));
	wh_streaming_end(r);
	return WHERRY_OK;
}

/* ---- when to step, and for what to wait ---- */

static bool may_receive(const wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);

	return !r->stats.paused && !f->reader.sweeping && wh_streaming_has_room(r);
}

int64_t wh_streaming_arrival(const wherry_relay *r, int64_t now)
{
	const wh_streaming *f = wh_streaming_of(r);
	int64_t at = WH_NEVER;

	if (f->fsm.state == WH_STREAMING_OFF && f->given_up && !f->dropping)
		return at;
	if (f->fsm.state == WH_STREAMING_OFF)
		return waits_for_table(r, now) ? f->begin_by_us : f->retry_us;
	if (r->window.n)
		at = f->look_us;
	if (f->fsm.state == WH_STREAMING_TABLE)
		return may_receive(r) ? now : at;
	if (f->fsm.state == WH_STREAMING_MAKING && f->ahead_next)
		at = wh_sooner(at, f->ahead_look_us);
	if (f->fsm.state != WH_STREAMING_ON)
		return at;
	if (may_receive(r) && f->n_ids)
		at = wh_sooner(at, f->look_up_us); /* Until the rows are visible. */
	else if (may_receive(r) &&
		 ((!f->unmarked && !f->placed) || f->stream->driver->waiting(f->stream)))
		at = now;
	return wh_sooner(at, f->stream->driver->deadline(f->stream));
}

int wh_streaming_fd(const wherry_relay *r, short *out_events)
{
	const wh_streaming *f = wh_streaming_of(r);
	int fd;

	*out_events = 0;
	if (!f->stream || f->fsm.state == WH_STREAMING_TABLE)
		return -1;
	fd = f->stream->driver->fd(f->stream, out_events);
	/* Rows that come stay in the socket. */
	if (wh_streaming_on(r) && !may_receive(r))
		*out_events = (short)(*out_events & ~POLLIN);
	return *out_events ? fd : -1;
}

/* ---- the engine that marks rows ---- */

static wherry_code make(wherry_relay *r, wherry_error *err)
{
	wherry_code code = wh_streaming_make(r, false, err);

	if (code != WHERRY_OK)
		return code;
	wh_streaming_of(r)->reader.swept = swept;
	r->keys.places = &wh_streaming_of(r)->places;
	r->set.noted_most = WH_PLACES_MOST;
	return WHERRY_OK;
}

static wherry_code renewed(wherry_relay *r, int64_t now, int64_t version,
			   wherry_error *err)
{
	wherry_code code = wh_reader_renewed(r, now, version, err);

	return code == WHERRY_OK ? wh_streaming_missing(r, now, err) : code;
}

static wherry_code fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = wh_reader_fetch(r, now, err);

	return code == WHERRY_OK ? wh_streaming_step(r, now, err) : code;
}

static int64_t deadline(const wherry_relay *r, int64_t now)
{
	return wh_sooner(wh_reader_deadline(r, now), wh_streaming_arrival(r, now));
}

const wh_engine_driver wh_engine_stream = {
	.id = WH_STREAM,
	WH_READER_FUNCTIONS,
	WH_STREAMING_FUNCTIONS,
	.make = make,
	.resume = wh_reader_resume,
	.begin = wh_reader_begin,
	.renewed = renewed,
	.fetch = fetch,
	.acknowledge = acknowledge,
	.progress = wh_streaming_confirm,
	.finish = wh_streaming_finish,
	.deadline = deadline,
};
