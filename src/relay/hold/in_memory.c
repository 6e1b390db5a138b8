/*
 * Messages of a held key wait in memory, in the queue of the key.  If they fill the
 * window, the relay reads nothing more.
 */
#include "relay/hold/in_memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "relay/dead_letters.h"
#include "relay/hold/hold.h"
#include "relay/hooks.h"

/* Most refused messages that may be in memory beyond the window. */
enum { REFUSED_MOST = 100000 };

/* Let the messages of a held key that are not in flight wait, and e too, unless
 * it is NULL. */
static void hold_in_memory(wherry_relay *r, wh_key *key, wh_entry *e)
{
	key->broken = key->in_flight > 0;
	key->leaving = false;
	wh_key_queue(r, key);
	if (e)
		wh_entry_move(r, e, WH_WAITING);
}

/* The key of a message; one without a key gets a key to wait under.  NULL: out
 * of memory. */
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

static void failed(wherry_relay *r, wh_entry *e, int64_t now)
{
	bool dead = e->fate == WH_FATE_DEAD;
	int64_t due = wh_later(now, e->delay_us);
	wh_key *key = dead ? e->key : key_of(r, e);

	if (dead) {
		if (key) {
			wh_key_hold(&r->keys, key, WH_NEVER);
			hold_in_memory(r, key, NULL);
		}
		if (!wh_dead_letters_take(r, e, now))
			wh_settle_put(r, e, now);
		return;
	}
	e->tried = false;
	if (!e->not_counted) {
		e->msg.attempts++;
		r->stats.retried++;
		wh_hook_settled(r, WHERRY_ON_FAILED, e);
	}
	if (!key) { /* Out of memory: try again at once. */
		wh_entry_admit(r, e);
		return;
	}
	wh_key_hold(&r->keys, key, due);
	wh_key_set_refused(&r->keys, key, e->not_counted);
	hold_in_memory(r, key, e);
}

void wh_memory_due(wherry_relay *r, int64_t now)
{
	int64_t first_due = WH_NEVER;

	for (wh_key *key = r->keys.held, *next; key; key = next) {
		next = key->held_next;
		if (key->active)
			continue; /* Wait until nothing of the key is in flight. */
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

static void death_written(wherry_relay *r, wh_entry *e, int64_t now)
{
	if (e->key)
		wh_key_set_due(&r->keys, e->key, now);
}

static size_t beside_window(const wherry_relay *r)
{
	return r->keys.n_refused ? REFUSED_MOST : r->destination.n_failed_probes;
}

/* Messages that stay in memory: nothing tells how much of it is theirs. */
static size_t bytes_beside(const wherry_relay *r)
{
	enum { TIMES_MOST = 16 };

	return r->keys.n_held ? TIMES_MOST * (size_t)r->set.window_bytes : 0;
}

const wh_hold wh_hold_memory = {
	.in_memory = true,
	.failed = failed,
	.failed_again = failed,
	.death_written = death_written,
	.beside_window = beside_window,
	.beside_window_most = REFUSED_MOST,
	.bytes_beside = bytes_beside,
};
