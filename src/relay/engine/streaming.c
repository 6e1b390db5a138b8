/*
 * The stream engine: beside the table, the log of commits.
 *
 * It is the engine exclusive with another way to learn of new rows.  While it has no stream
 * it works as that does; once it has one, rows come by it in the order of commits, and the
 * table is read only for what the log does not tell: what was there before, what waits for a
 * retry, what operators did.  Where nothing is marked (unmarked.c) the log is all there is.  See
 * docs/internals/stream.md.
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

void wh_streaming_taken(wherry_relay *r, uint64_t number)
{
	wh_tx *tx = number ? wh_tx_find(r->streaming, number) : NULL;

	if (tx)
		tx->open++;
}

void wh_streaming_landed(wherry_relay *r, uint64_t number)
{
	wh_tx *tx = number && r->streaming ? wh_tx_find(r->streaming, number) : NULL;

	if (!tx)
		return;
	tx->open--;
	r->streaming->moved = true;
}

bool wh_streaming_knows(const wherry_relay *r)
{
	return wh_streaming_on(r) && r->streaming->swept && !r->keys.n_parked;
}

void wh_streaming_forget(wherry_relay *r)
{
	if (r->streaming)
		r->streaming->swept = false;
}

bool wh_streaming_on(const wherry_relay *r)
{
	return r->streaming && r->streaming->fsm.state == WH_STREAMING_ON;
}

/* ---- what rows can be seen ---- */

wherry_code wh_streaming_swept(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = r->streaming;
	wh_wal_now at;
	wherry_code code;

	f->placed = false;
	code = wh_wal_position(f->wal, &at, err);
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	f->known = at.written;
	f->swept = true;
	f->placed = true;
	f->look |= f->inside; /* the sweep has met the rest of it */
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

wherry_code wh_streaming_seen(wherry_relay *r, const wh_entry *also, bool *out_all,
			      wherry_error *err)
{
	wh_streaming *f = r->streaming;
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

/* Mostly a moment; but a commit may wait for a standby that is away. */
int64_t wh_streaming_unseen(wherry_relay *r)
{
	wh_streaming *f = r->streaming;

	f->unseen_us = f->unseen_us ? 2 * f->unseen_us : UNSEEN_US;
	if (f->unseen_us > UNSEEN_MOST_US)
		f->unseen_us = UNSEEN_MOST_US;
	return f->unseen_us;
}

/* ---- the step ---- */

wherry_code wh_streaming_alive(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = r->streaming;
	wherry_code code;

	if (!wh_streaming_on(r))
		return WHERRY_OK;
	wh_tx_advance(f);
	code = f->stream->driver->confirm(f->stream, now, f->delivered, false, err);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}

/* Rows that have come, if there may be any more. */
static wherry_code receive(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = r->streaming;
	wherry_code code = WHERRY_OK;

	if (r->sweeping || r->stats.paused)
		return WHERRY_OK;
	if (!r->set.keep && !f->placed)
		code = wh_streaming_swept(r, now, err);
	if (code == WHERRY_OK && (f->placed || r->set.keep)) {
		code = wh_streaming_pull(r, now, err);
		if (code != WHERRY_OK)
			return wh_streaming_trouble(r, now, code, err);
	}
	return code;
}

/* A backlog is read from the table, which a server that sends its log meanwhile only delays;
 * but a log that is not read is kept, so not for long. */
static bool waits_for_table(const wherry_relay *r, int64_t now)
{
	return r->sweeping && !r->set.keep && now < r->streaming->begin_by_us;
}

wherry_code wh_streaming_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	enum { BACKLOG_S = 10 };
	wh_streaming *f = r->streaming;
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
	if (code == WHERRY_OK && wh_streaming_on(r) && now >= r->db_retry_at_us)
		code = receive(r, now, err);
	if (code == WHERRY_OK && now >= r->db_retry_at_us)
		code = wh_streaming_watch(r, now, err);
	return code == WHERRY_OK ? wh_streaming_alive(r, now, err) : code;
}

wherry_code wh_streaming_settled(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (!wh_streaming_on(r))
		return WHERRY_OK;
	if (r->set.keep && now >= r->db_retry_at_us)
		code = wh_unmarked_place(r, now, err);
	return code == WHERRY_OK && r->fsm.state == WH_LEADING
		       ? wh_streaming_alive(r, now, err)
		       : code;
}

/* The last word to the server, so that the next relay goes on from here. */
wherry_code wh_streaming_finish(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = r->streaming;
	wherry_code code = WHERRY_OK;

	if (!wh_streaming_on(r))
		return WHERRY_OK;
	wh_tx_advance(f);
	if (r->set.keep && f->delivered) /* though it has not moved: it says when */
		code = wh_unmarked_write(r, NULL, err);
	if (code == WHERRY_STALE) {
		wh_lease_lost(r, now, "the position was refused");
		return WHERRY_OK;
	}
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	if (f->stream->driver->confirm(f->stream, now, f->delivered, true, err) !=
	    WHERRY_OK)
		wh_relay_say(r, WHERRY_LOG_DEBUG, "stream-not-told",
			     wh_log_text("why", err ? err->message : ""));
	wh_streaming_end(r);
	return WHERRY_OK;
}

wherry_code wh_streaming_until(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = r->streaming;
	wherry_code code = WHERRY_OK;
	wh_wal_now at;

	if (r->target_id < 0) {
		code = wh_wal_position(f->wal, &at, err);
		if (code == WHERRY_OK) {
			r->target_at = at.written; /* commits need not be flushed yet */
			r->target_id = 0;
		}
		return code;
	}
	if (!wh_streaming_on(r))
		return WHERRY_OK;
	wh_tx_advance(f);
	if (f->delivered >= r->target_at) {
		wh_until_empty_finish(r, r->stats.dead ? WHERRY_DEATHS : WHERRY_EMPTY);
		return WHERRY_OK;
	}
	if (now < r->empty_check_us || f->received >= r->target_at)
		return WHERRY_OK;
	r->empty_check_us = wh_later(now, ASK_US);
	code = f->stream->driver->confirm(f->stream, now, f->delivered, true, err);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}

/* ---- when to step, and for what to wait ---- */

static bool may_receive(const wherry_relay *r)
{
	return !r->stats.paused && !r->sweeping && wh_streaming_has_room(r);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t wh_streaming_deadline(const wherry_relay *r, int64_t now)
{
	const wh_streaming *f = r->streaming;
	int64_t at = WH_NEVER;

	if (!f)
		return at;
	if (f->fsm.state == WH_STREAMING_OFF && f->given_up && !f->dropping)
		return at;
	if (f->fsm.state == WH_STREAMING_OFF)
		return waits_for_table(r, now) ? f->begin_by_us : f->retry_us;
	if (r->window.n)
		at = f->look_us;
	if (f->fsm.state == WH_STREAMING_TABLE)
		return may_receive(r) ? now : at;
	if (f->fsm.state == WH_STREAMING_MAKING && f->ahead_next)
		at = earlier(at, f->ahead_look_us);
	if (f->fsm.state != WH_STREAMING_ON)
		return at;
	if (r->set.keep && f->moved && f->delivered > f->written)
		at = earlier(at, f->write_us);
	if ((r->target & WHERRY_UNTIL_EMPTY) && r->set.keep)
		at = earlier(at,
			     r->empty_check_us > now ? r->empty_check_us : now + ASK_US);
	if (may_receive(r) && f->n_ids)
		at = earlier(at, f->look_up_us); /* until they can be seen */
	else if (may_receive(r) &&
		 ((!r->set.keep && !f->placed) || f->stream->driver->waiting(f->stream)))
		at = now;
	return earlier(at, f->stream->driver->deadline(f->stream));
}

int wh_streaming_fd(const wherry_relay *r, short *out_events)
{
	const wh_streaming *f = r->streaming;
	int fd;

	*out_events = 0;
	if (!f || !f->stream || f->fsm.state == WH_STREAMING_TABLE)
		return -1;
	fd = f->stream->driver->fd(f->stream, out_events);
	if (wh_streaming_on(r) && !may_receive(r)) /* what comes stays in the socket */
		*out_events = (short)(*out_events & ~POLLIN);
	return *out_events ? fd : -1;
}
