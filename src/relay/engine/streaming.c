/*
 * Reads PostgreSQL's WAL: rows come in the order of commits.  See docs/internals/stream.md.
 */
#include "relay/engine/streaming.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

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

/* The position that may be reported to the slot; 0: none yet.  It is written first: a slot that is
 * ahead of what the last relay wrote at its end is not the one that it read. */
int64_t wh_streaming_safe(const wh_streaming *f)
{
	return f->written ? f->delivered : 0;
}

bool wh_streaming_on(const wherry_relay *r)
{
	return wh_streaming_of(r)->fsm.state == WH_STREAMING_ON;
}

/* ---- rows in memory ---- */

/* The next place. */
int64_t wh_streaming_place(wherry_relay *r, int64_t id)
{
	(void)id;
	return ++wh_streaming_of(r)->order;
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

	e->tx = f->taking;
	wh_streaming_taken(f, e->tx);
	r->lease_unverified |= r->waits_for_standbys;
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
	wh_streaming_landed(wh_streaming_of(r), e->tx);
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

wherry_code wh_streaming_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code = WHERRY_OK;

	if (f->fsm.state == WH_STREAMING_OFF && now >= f->retry_us)
		code = wh_streaming_connect(r, now, err);
	if (code == WHERRY_OK && f->fsm.state == WH_STREAMING_MAKING)
		code = wh_streaming_begin(r, now, err);
	if (code == WHERRY_OK && f->fsm.state == WH_STREAMING_TABLE)
		code = wh_streaming_table(r, now, err);
	if (code == WHERRY_OK && wh_streaming_on(r) && !r->stats.paused)
		code = wh_streaming_pull(r, now, err);
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
	return !r->stats.paused && wh_streaming_has_room(r);
}

int64_t wh_streaming_arrival(const wherry_relay *r, int64_t now)
{
	const wh_streaming *f = wh_streaming_of(r);
	int64_t at = r->window.n ? f->look_us : WH_NEVER;

	if (f->fsm.state == WH_STREAMING_OFF)
		return f->retry_us;
	if (f->fsm.state == WH_STREAMING_TABLE)
		return may_receive(r) ? now : at;
	if (f->fsm.state != WH_STREAMING_ON)
		return at;
	if (may_receive(r) && f->stream->driver->waiting(f->stream))
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
