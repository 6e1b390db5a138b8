/*
 * Streaming where nothing is written to rows: the log is the truth, and what of it is
 * delivered is one position.
 *
 * What failed waits in memory, and those of its key behind it; when the window is full of
 * such, no more is read, and the server keeps its log.  What died is written to wherry_dead
 * before the position moves past it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/settings.h"
#include "relay/hooks.h"
#include "relay/dead_letters.h"
#include "relay/engine/streaming.h"

enum {
	WRITE_US = 100000,       /* between two writes of the position, at least; */
	WRITE_TIMES = 20,        /* or so many times as long as one takes, */
	WRITE_MOST_US = 1000000, /* but no longer */
	FAR = 16 * 1024 * 1024, /* it is written when nothing was delivered, too: bytes */
};

/* ---- taking in ---- */

/* A message that a relay before this one tried alone, and then ended. */
static void remember_tries(wherry_relay *r, const wh_open_row *row)
{
	wh_streaming *f = r->streaming;
	wh_entry *e = wh_window_find(&r->window, row->id);

	if (!*f->suspect || !e || !e->msg.message_id ||
	    strcmp(e->msg.message_id, f->suspect) != 0)
		return;
	e->msg.attempts = f->tries;
	if (f->tries >= r->set.attempts)
		e->poison = "its relay ended each time it was tried, also alone";
}

/* As Debezium's event router: the topic has the aggregate's type in it, and the event's type
 * is a header. */
static void route(wherry_relay *r, wh_open_row *row)
{
	const char *topic = wh_config_text(r->config, WH_STREAM_TOPIC), *mark;
	wh_buf *text = &r->streaming->routed;
	size_t at;

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
	if (text->failed)
		return;
	row->topic = (wh_view){text->ptr, at};
	row->headers = (wh_view){text->ptr + at, text->len - at};
}

static bool is_same(const wh_entry *e, const wh_open_row *row)
{
	return e->msg.message_id && row->message_id.ptr &&
	       wh_view_eq(row->message_id, wh_view_of(e->msg.message_id));
}

/* The message is in memory already: the transaction that comes now waits for it. */
static void rejoin(wherry_relay *r, wh_entry *e)
{
	wh_streaming_landed(r, e->tx);
	e->tx = r->taking;
	wh_streaming_taken(r, e->tx);
}

wherry_code wh_unmarked_meet(wherry_relay *r, const wh_open_row *row, int64_t at,
			     wherry_error *err)
{
	wh_streaming *f = r->streaming;
	wh_open_row numbered = *row;
	wh_entry *e;
	wherry_code code;

	if (row->state != WHERRY_PENDING && row->state != WHERRY_PROCESSING &&
	    row->state != WHERRY_FAILED)
		return WHERRY_OK; /* it was inserted as delivered, or dead */
	if (!f->wal->keeps_ids)
		numbered.id = f->last_id = at > f->last_id ? at : f->last_id + 1;
	e = wh_window_find(&r->window, numbered.id);
	if (e && f->fsm.state == WH_STREAMING_TABLE && is_same(e, row)) {
		rejoin(r, e); /* The snapshot was lost before all of it was read. */
		return WHERRY_OK;
	}
	if (e)
		numbered.id = -r->order - 1; /* of a row that is gone and came again */
	if (r->box->layout.streams)
		route(r, &numbered);
	numbered.state = WHERRY_PENDING;
	numbered.attempts = 0;
	if (!numbered.created_at_us)
		numbered.created_at_us =
			f->committed_us ? f->committed_us : wh_now(&r->env);
	wh_flaw_key(r, &numbered);
	code = wh_buf_check(&r->key_text, err);
	if (code == WHERRY_OK)
		code = wh_read_take_in(r, &numbered, err);
	if (code == WHERRY_OK)
		remember_tries(r, &numbered);
	return code;
}

/* ---- failing ---- */

/* What has no key gets one of its own to wait under. */
static wh_key *key_of(wherry_relay *r, wh_entry *e)
{
	char text[32];
	int n;

	if (e->key)
		return e->key;
	n = snprintf(text, sizeof(text), "#%" PRId64, e->order);
	e->key = wh_keys_get(&r->keys, (wh_view){text, (size_t)n});
	if (e->key)
		e->key->owned++;
	return e->key;
}

void wh_unmarked_failure(wherry_relay *r, wh_entry *e, int64_t now)
{
	bool dead = e->fate == WH_FATE_DEAD;
	int64_t due = wh_later(now, e->delay_us);
	wh_key *key = dead ? e->key : key_of(r, e);

	if (dead) {
		if (key) {
			wh_key_hold(&r->keys, key, WH_NEVER);
			wh_key_rest(r, key, NULL);
		}
		if (!wh_dead_letters_take(r, e, now))
			wh_settle_put(r, e, now);
		return;
	}
	e->tried = false;
	if (!e->uncounted) {
		e->msg.attempts++;
		r->stats.retried++;
		wh_hook_settled(r, WHERRY_ON_FAILED, e);
	}
	if (!key) { /* out of memory: at once, then */
		wh_entry_admit(r, e);
		return;
	}
	wh_key_hold(&r->keys, key, due);
	wh_key_set_refused(&r->keys, key, e->uncounted);
	wh_key_rest(r, key, e);
}

/* Keys whose wait is over go on with what waits in memory. */
static void let_go(wherry_relay *r, int64_t now)
{
	int64_t first_due = WH_NEVER;

	for (wh_key *key = r->keys.held, *next; key; key = next) {
		next = key->held_next;
		if (key->active)
			continue; /* once all of it that flies has landed */
		if (key->due_us > now) {
			if (key->due_us < first_due)
				first_due = key->due_us;
			continue;
		}
		key->broken = false;
		wh_key_drain(&r->keys, key);
		wh_key_free(&r->keys, key);
		wh_key_advance(r, key);
		wh_keys_drop(&r->keys, key);
	}
	r->keys.first_due = first_due;
}

wherry_code wh_unmarked_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool woken = wh_db_changed(r->db, now, &r->check_us);

	if (now >= r->keys.first_due)
		let_go(r, now);
	return woken ? wh_read_control(r, now, err) : WHERRY_OK;
}

/* ---- writing ---- */

static size_t gather_dead(wherry_relay *r)
{
	wh_streaming *f = r->streaming;
	size_t n = 0;

	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		if (e->fate == WH_FATE_DEAD)
			f->dead[n++] = (wh_dead){&e->msg, e->error ? e->error : ""};
	return n;
}

/* The position is written ten times a second while it moves, and at the end; where nothing is
 * delivered it moves with what others write, and what is written here, too: then rarely. */
static bool is_time(const wh_streaming *f, int64_t now)
{
	if (f->fresh)
		return true;
	return f->delivered > f->written && now >= f->write_us;
}

/* A database may be far away: writing takes a twentieth of the time at most, or is done once
 * a second. */
static int64_t rest_after(int64_t took_us)
{
	if (took_us > WRITE_MOST_US / WRITE_TIMES)
		return WRITE_MOST_US;
	return took_us > WRITE_US / WRITE_TIMES ? WRITE_TIMES * took_us : WRITE_US;
}

wherry_code wh_unmarked_write(wherry_relay *r, const wh_entry *try_next,
			      wherry_error *err)
{
	wh_streaming *f = r->streaming;
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
	code = wh_wal_settle(f->wal, &r->lease, f->dead, n_dead, at, suspect, tries, err);
	if (code == WHERRY_OK && at > 0) {
		f->written = at;
		f->fresh = f->moved = false;
	}
	return code;
}

wherry_code wh_unmarked_settle(wherry_relay *r, const wh_entry *try_next,
			       wherry_error *err)
{
	return try_next || gather_dead(r) ? wh_unmarked_write(r, try_next, err)
					  : WHERRY_OK;
}

/* Without waiting for the disk, if it can be. */
static wherry_code write_place(wherry_relay *r, wherry_error *err)
{
	wh_streaming *f = r->streaming;
	bool moved = false;
	wherry_code code = WHERRY_OK;

	if (!f->fresh)
		code = wh_wal_move(f->wal, &r->lease, f->delivered, &moved, err);
	if (code != WHERRY_OK || !moved)
		return code == WHERRY_OK ? wh_unmarked_write(r, NULL, err) : code;
	f->written = f->delivered;
	f->moved = false;
	return WHERRY_OK;
}

wherry_code wh_unmarked_place(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = r->streaming;
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
	if (code == WHERRY_STALE) {
		wh_lease_lost(r, now, "the position was refused");
		return WHERRY_OK;
	}
	return code == WHERRY_OK ? code : wh_relay_db_trouble(r, now, code, err);
}
