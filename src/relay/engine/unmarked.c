/*
 * The engine stream: nothing is written to rows.  The WAL is the truth, and one
 * position says how far it is delivered.
 *
 * A failed message waits in memory, and so do later messages of its key.  A dead message
 * is written to wherry_dead before the position moves past it, whole, even if it could not be
 * submitted: the stream may have its only copy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/settings.h"
#include "relay/engine/engine.h"
#include "relay/engine/streaming.h"
#include "relay/hold/in_memory.h"

enum {
	WRITE_US = 100000,       /* At least between two writes of the position. */
	WRITE_TIMES = 20,        /* Or so many times as long as a write takes. */
	WRITE_MOST_US = 1000000, /* But at most this. */
	/* Bytes of WAL after which it is written without a delivery. */
	FAR = 16 * 1024 * 1024,
};

/* ---- taking in ---- */

/* If an earlier relay tried this message alone and then ended, take over the
 * number of attempts. */
static void remember_tries(wherry_relay *r, const wh_open_row *row)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_entry *e = wh_window_find(&r->window, row->id);

	if (!*f->suspect || !e || !e->msg.message_id ||
	    strcmp(e->msg.message_id, f->suspect) != 0)
		return;
	e->msg.attempts = f->tries;
	if (f->tries >= r->set.attempts)
		e->poison = "its relay ended each time it was tried, also alone";
}

/* Set topic and headers as Debezium's event router does: the topic contains the aggregate
 * type, and the event type is a header. */
static wherry_code route(wherry_relay *r, wh_open_row *row, wherry_error *err)
{
	const char *topic = wh_config_text(r->config, WH_STREAM_TOPIC), *mark;
	wh_buf *text = &wh_streaming_of(r)->routed;
	size_t at;

	if (row->topic.len > WH_TEXT_MOST || row->headers.len > WH_TEXT_MOST)
		return WHERRY_OK; /* It dies, and is kept as it is. */
	wh_buf_reset(text);
	while ((mark = strstr(topic, "{}"))) {
		wh_buf_put(text, topic, (size_t)(mark - topic));
		wh_buf_put(text, row->topic.ptr, row->topic.len);
		topic = mark + 2;
	}
	wh_buf_puts(text, topic);
	at = text->len;
	wh_buf_puts(text, "{\"type\":");
	wh_buf_json(text, row->headers.ptr ? row->headers.ptr : "", row->headers.len);
	wh_buf_putc(text, '}');
	if (text->failed == WHERRY_TOOBIG) {
		row->unreadable = "its topic and headers are too long together";
		return WHERRY_OK;
	}
	row->topic = (wh_view){text->ptr, at};
	row->headers = (wh_view){text->ptr + at, text->len - at};
	return wh_buf_check(text, err);
}

static bool is_same(const wh_entry *e, const wh_open_row *row)
{
	return e->msg.message_id && row->message_id.ptr &&
	       wh_view_eq(row->message_id, wh_view_of(e->msg.message_id));
}

/* The message is in memory already: count it for the transaction that comes now. */
static void rejoin(const wherry_relay *r, wh_entry *e)
{
	wh_streaming *f = wh_streaming_of(r);

	wh_streaming_landed(f, e->tx);
	e->tx = f->taking;
	wh_streaming_taken(f, e->tx);
}

wherry_code wh_unmarked_meet(wherry_relay *r, const wh_open_row *row, int64_t at,
			     wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_open_row numbered = *row;
	wh_entry *e;
	wherry_code code = WHERRY_OK;

	if (row->state != WHERRY_PENDING && row->state != WHERRY_PROCESSING &&
	    row->state != WHERRY_FAILED)
		return WHERRY_OK; /* It was inserted as delivered or dead. */
	if (!f->wal->keeps_ids)
		numbered.id = f->last_id = at > f->last_id ? at : f->last_id + 1;
	e = wh_window_find(&r->window, numbered.id);
	if (e && f->fsm.state == WH_STREAMING_TABLE && is_same(e, row)) {
		/* The snapshot was lost before it was read to the end. */
		rejoin(r, e);
		return WHERRY_OK;
	}
	if (e)
		numbered.id = -f->order - 1; /* The id was used again for another row. */
	if (r->outbox->layout.streams)
		code = route(r, &numbered, err);
	numbered.state = WHERRY_PENDING;
	numbered.attempts = 0;
	if (!numbered.created_at_us)
		numbered.created_at_us =
			f->committed_us ? f->committed_us : wh_now(&r->env);
	if (code == WHERRY_OK)
		code = wh_row_key(r, &numbered, err);
	if (code == WHERRY_OK)
		code = wh_intake_add(r, &numbered, err);
	if (code == WHERRY_OK)
		remember_tries(r, &numbered);
	return code;
}

static wherry_code fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool woken = wh_relay_woken(r, now);
	wherry_code code = WHERRY_OK;

	if (now >= r->keys.first_due)
		wh_memory_due(r, now);
	if (woken)
		code = wh_operator_look(r, now, err);
	return code == WHERRY_OK ? wh_streaming_step(r, now, err) : code;
}

/* ---- writing ---- */

static size_t gather_dead(wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);
	size_t n = 0;

	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		if (e->fate == WH_FATE_DEAD)
			f->dead[n++] = (wh_dead){e->whole ? e->whole : &e->msg,
						 e->error ? e->error : ""};
	return n;
}

/* ---- large messages ---- */

/* Bytes from which it takes seconds to write dead messages, and how many are written in a second at least. */
enum { LARGE = 32 * 1024 * 1024, LEAST_PER_SECOND = 4 * 1024 * 1024 };

static size_t bytes_of(const wh_dead *dead, size_t n, const wherry_message **out_largest)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++) {
		all += dead[i].message->body_len;
		if (!i || dead[i].message->body_len > (*out_largest)->body_len)
			*out_largest = dead[i].message;
	}
	return all;
}

/* After everything up to suspects_upto is delivered, messages are new and not
 * suspects. */
static bool is_unsuspected(const wherry_relay *r, const wh_entry *e)
{
	(void)e;
	return wh_streaming_of(r)->delivered >= r->suspects_upto;
}

/* More messages than the suspects may come again before suspects_upto: of the table, or
 * of a large transaction.  Until they are delivered, an unclean end is one more in a row,
 * and twice as many are suspects then. */
static bool no_suspects_left(const wherry_relay *r)
{
	return !r->lease.suspects && is_unsuspected(r, NULL);
}

/* Say which message it is, and extend the lease: otherwise it ends before the message is written, and a relay reads it again. */
static wherry_code announce(wherry_relay *r, const wherry_message *large,
			    wherry_lease *lease, wherry_error *err)
{
	char text[sizeof(r->report.error)];

	(void)snprintf(text, sizeof(text),
		       WH_WRITES_LARGE " to wherry_dead: %zu MB, message id %.100s",
		       large->body_len / 1000000,
		       large->message_id ? large->message_id : "");
	wh_report_error(r, wh_monotonic(&r->env), text);
	wh_report_update(r);
	wh_relay_say(r, WHERRY_LOG_WARN, "large-dead",
		     wh_log_note("all messages behind it wait until it is written"),
		     wh_log_text("why", text));
	lease->suspects = r->lease.suspects || !no_suspects_left(r) ? 1 : 0;
	return wh_store_renew(r->store, lease, err);
}

/* Write dead messages and the position. */
static wherry_code settle(wherry_relay *r, size_t n_dead, int64_t at, const char *suspect,
			  int32_t tries, bool ended, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	const wherry_message *largest = NULL;
	size_t bytes = bytes_of(f->dead, n_dead, &largest);
	bool large = bytes >= LARGE;
	wherry_lease lease = r->lease;
	wherry_code code = WHERRY_OK;

	if (large) {
		lease.lasts_us += (int64_t)(bytes / LEAST_PER_SECOND) * WH_SECOND;
		code = announce(r, largest, &lease, err);
	}
	if (code == WHERRY_OK)
		code = wh_wal_settle(f->wal, &lease, f->dead, n_dead, at, suspect, tries,
				     ended, err);
	if (large) {
		r->report.error[0] = 0;
		wh_report_soon(r, wh_monotonic(&r->env));
	}
	return code;
}

/* ---- the position ---- */

/* Is it time to write the position?  At once if none is written yet; else if it has
 * moved, and rest_after() has passed since the last write. */
static bool is_time(const wh_streaming *f, int64_t now)
{
	if (f->fresh)
		return true;
	return f->delivered > f->written && now >= f->write_us;
}

/* How long to wait after a write that took so long.  A database may be far away: writing
 * takes at most a twentieth of the time, unless that would be less than once a second. */
static int64_t rest_after(int64_t took_us)
{
	if (took_us > WRITE_MOST_US / WRITE_TIMES)
		return WRITE_MOST_US;
	return took_us > WRITE_US / WRITE_TIMES ? WRITE_TIMES * took_us : WRITE_US;
}

static wherry_code write_all(wherry_relay *r, const wh_entry *try_next, bool ended,
			     wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	size_t n_dead = gather_dead(r);
	int64_t at = f->delivered;
	const char *suspect = NULL;
	int32_t tries = 0;
	wherry_code code;

	if (try_next) {
		suspect = try_next->msg.message_id;
		tries = try_next->msg.attempts + 1;
	}
	if (!wh_streaming_on(r) && f->fresh)
		at = 0; /* The table is being read: there is no position yet. */
	code = settle(r, n_dead, at, suspect, tries, ended, err);
	if (code == WHERRY_OK && at > 0) {
		f->written = at;
		f->fresh = f->moved = false;
	}
	return code;
}

/* Write dead messages, and the message that is tried next; the position is
 * written later. */
static wherry_code acknowledge(wherry_relay *r, const wh_entry *try_next,
			       wh_settlement *s, wh_settled *out, wherry_error *err)
{
	(void)s;
	(void)out;
	return try_next || gather_dead(r) ? write_all(r, try_next, false, err)
					  : WHERRY_OK;
}

/* Write the position, without waiting for fsync if possible.  The first write of a connection must
 * not be lost: later positions are reported to the slot from then on. */
static wherry_code write_place(wherry_relay *r, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	bool moved = false;
	wherry_code code = WHERRY_OK;

	if (!f->fresh && f->written)
		code = wh_wal_move(f->wal, &r->lease, f->delivered, &moved, err);
	if (code != WHERRY_OK || !moved)
		return code == WHERRY_OK ? write_all(r, NULL, false, err) : code;
	f->written = f->delivered;
	f->moved = false;
	return WHERRY_OK;
}

static wherry_code write_when_due(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	bool idle = !f->moved && f->delivered - f->written < FAR;
	int64_t began = wh_monotonic(&r->env), ended;
	wherry_code code;

	wh_tx_advance(f);
	if (!f->fresh && (idle || !is_time(f, now)))
		return WHERRY_OK;
	if (f->fresh && !f->delivered)
		return WHERRY_OK;
	code = write_place(r, err);
	ended = wh_monotonic(&r->env);
	f->write_us = wh_later(ended, rest_after(ended - began));
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "the position was refused");
	return code;
}

static wherry_code progress(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (wh_streaming_on(r))
		code = write_when_due(r, now, err);
	return code == WHERRY_OK ? wh_streaming_confirm(r, now, err) : code;
}

/* Write the position at the end, even if it has not moved: the write also records the time, and
 * that no later position was reported to the slot. */
static wherry_code finish(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code = WHERRY_OK;

	if (wh_streaming_on(r)) {
		wh_tx_advance(f);
		if (f->delivered)
			code = write_all(r, NULL, true, err);
	}
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "the position was refused");
	return code == WHERRY_OK ? wh_streaming_finish(r, now, err) : code;
}

/* ---- the lease ---- */

/* Messages before the current end of the WAL may have ended the last relay. */
static wherry_code suspects(wherry_relay *r, int64_t *out_upto, wherry_error *err)
{
	wh_wal_now at;
	wherry_code code = wh_wal_position(wh_streaming_of(r)->wal, &at, err);

	if (code == WHERRY_OK)
		*out_upto = at.written;
	return code;
}

static wherry_code renewed(wherry_relay *r, int64_t now, int64_t version,
			   wherry_error *err)
{
	(void)r;
	(void)now;
	(void)version;
	(void)err;
	return WHERRY_OK;
}

static void forget(wherry_relay *r)
{
	(void)r;
}

/* ---- until empty ---- */

enum { ASK_US = 100000 };

static wherry_code aim(wherry_relay *r, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_wal_now at;
	wherry_code code = wh_wal_position(f->wal, &at, err);

	if (code != WHERRY_OK)
		return code;
	f->target_at = at.written; /* Includes commits that are not flushed yet. */
	r->target_id = 0;
	return WHERRY_OK;
}

/* End the run if everything is delivered that was in the WAL at the start. */
static wherry_code until_empty(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code;

	if (!wh_streaming_on(r))
		return WHERRY_OK;
	wh_tx_advance(f);
	if (f->delivered >= f->target_at) {
		wh_until_empty_finish(r, r->stats.dead ? WHERRY_DEATHS : WHERRY_EMPTY);
		return WHERRY_OK;
	}
	if (now < r->empty_check_us || f->received >= f->target_at)
		return WHERRY_OK;
	r->empty_check_us = wh_later(now, ASK_US);
	code = f->stream->driver->confirm(f->stream, now, wh_streaming_safe(f), true,
					  err);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}

/* ---- when to step again ---- */

static int64_t deadline(const wherry_relay *r, int64_t now)
{
	const wh_streaming *f = wh_streaming_of(r);
	int64_t at = wh_streaming_arrival(r, now);

	if (!r->stats.paused)
		at = wh_sooner(at, r->keys.first_due);
	if (!wh_streaming_on(r))
		return at;
	if (f->moved && f->delivered > f->written)
		at = wh_sooner(at, f->write_us);
	if (r->target & WHERRY_UNTIL_EMPTY)
		at = wh_sooner(at, r->empty_check_us > now ? r->empty_check_us
							   : now + ASK_US);
	return at;
}

const wh_engine_driver wh_engine_stream = {
	.id = WH_STREAM,
	.hold = &wh_hold_memory,
	.make = wh_streaming_make,
	.free = wh_streaming_free,
	.attach = wh_streaming_attach,
	.detach = wh_streaming_detach,
	.end = wh_streaming_end,
	.admitted = wh_streaming_admitted,
	.left = wh_streaming_left,
	.place = wh_streaming_place,
	.is_fed = wh_streaming_on,
	.keep_alive = wh_streaming_confirm,
	.fd = wh_streaming_fd,
	.suspects = suspects,
	.no_suspects_left = no_suspects_left,
	.is_unsuspected = is_unsuspected,
	.renewed = renewed,
	.forget = forget,
	.fetch = fetch,
	.acknowledge = acknowledge,
	.progress = progress,
	.finish = finish,
	.aim = aim,
	.until_empty = until_empty,
	.deadline = deadline,
};
