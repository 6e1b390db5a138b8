/*
 * The stages of a message in memory.  A message is on the list of its stage.  Only this
 * file moves it to another list.
 *
 *     LOOSE ──► WAITING ◄──► READY ──► IN_FLIGHT ──► LOOSE
 *
 *     LOOSE ──► DYING ◄──► DEAD_LETTER   if a dead-letter destination is set
 *     LOOSE ──► SETTLED ◄──► UNWRITABLE  its result is to be written
 *
 * The next stage of a LOOSE message is being decided.  Any message may be forgotten,
 * except one in flight.
 */
#include <stdlib.h>

#include "relay/engine/engine.h"
#include "relay/relay.h"

static const wh_fsm_state stages[WH_STAGES] = {
	[WH_UNLISTED] = {"unlisted", WH_BIT(WH_WAITING) | WH_BIT(WH_READY) |
					     WH_BIT(WH_DYING) | WH_BIT(WH_SETTLED) |
					     WH_BIT(WH_GONE)},
	[WH_WAITING] = {"waiting", WH_BIT(WH_UNLISTED) | WH_BIT(WH_READY) |
					   WH_BIT(WH_SETTLED) | WH_BIT(WH_GONE)},
	[WH_READY] = {"ready", WH_BIT(WH_UNLISTED) | WH_BIT(WH_WAITING) |
				       WH_BIT(WH_IN_FLIGHT) | WH_BIT(WH_SETTLED) |
				       WH_BIT(WH_GONE)},
	[WH_IN_FLIGHT] = {"in flight", WH_BIT(WH_UNLISTED)},
	[WH_DYING] = {"dying", WH_BIT(WH_UNLISTED) | WH_BIT(WH_DEAD_LETTER) |
				       WH_BIT(WH_READY) | WH_BIT(WH_WAITING) |
				       WH_BIT(WH_SETTLED)},
	[WH_DEAD_LETTER] = {"dead letter", WH_BIT(WH_UNLISTED) | WH_BIT(WH_DYING) |
						   WH_BIT(WH_READY) | WH_BIT(WH_WAITING) |
						   WH_BIT(WH_SETTLED)},
	[WH_SETTLED] = {"settled", WH_BIT(WH_UNLISTED) | WH_BIT(WH_UNWRITABLE)},
	[WH_UNWRITABLE] = {"unwritable", WH_BIT(WH_SETTLED)},
	[WH_GONE] = {"gone", WH_BIT(WH_UNLISTED)},
};

static wh_list *list_of(wh_window *w, const wh_entry *e)
{
	switch (e->stage) {
	case WH_WAITING:
		return &e->key->waiting;
	case WH_READY:
		return &w->ready;
	case WH_IN_FLIGHT:
		return &w->in_flight;
	case WH_DYING:
		return &w->dying;
	case WH_DEAD_LETTER:
		return &w->dead_letters;
	case WH_SETTLED:
		return &w->settled;
	case WH_UNWRITABLE:
		return &w->unwritable;
	case WH_GONE:
		return &w->gone;
	case WH_UNLISTED:
	case WH_STAGES:
		break;
	}
	return NULL;
}

static bool is_active(wh_stage stage)
{
	return stage == WH_READY || stage == WH_IN_FLIGHT;
}

/* A violated invariant: going on could lose or reorder messages. */
static void stop_here(const wherry_relay *r, const wh_entry *e, wh_stage to)
{
	wh_relay_say(r, WHERRY_LOG_ERROR, "bug", wh_log_int("id", e->msg.id),
		     wh_log_text("from", stages[e->stage].name),
		     wh_log_text("to", stages[to].name));
	abort();
}

static void count(wherry_relay *r, const wh_entry *e, wh_stage from, wh_stage to)
{
	wh_key *key = e->key;

	if (e->fate != WH_FATE_DONE && from == WH_SETTLED)
		r->window.n_undelivered--;
	if (e->fate != WH_FATE_DONE && to == WH_SETTLED)
		r->window.n_undelivered++;
	if (!key)
		return;
	if ((is_active(from) && !key->active) ||
	    (from == WH_IN_FLIGHT && !key->in_flight))
		stop_here(r, e, to);
	key->active = key->active + is_active(to) - is_active(from);
	key->in_flight = key->in_flight + (to == WH_IN_FLIGHT) - (from == WH_IN_FLIGHT);
}

void wh_entry_move(wherry_relay *r, wh_entry *e, wh_stage to)
{
	wh_stage from = e->stage;

	if (!(stages[from].next & WH_BIT(to)) || (to == WH_WAITING && !e->key))
		stop_here(r, e, to);
	if (from != WH_UNLISTED)
		wh_list_remove(list_of(&r->window, e), e);
	count(r, e, from, to);
	e->stage = to;
	if (to == WH_READY || to == WH_WAITING)
		wh_list_insert(list_of(&r->window, e), e);
	else if (to != WH_UNLISTED)
		wh_list_append(list_of(&r->window, e), e);
	r->advanced |= to == WH_READY;
}

/* ---- by key ---- */

bool wh_one_per_key(const wherry_relay *r)
{
	return !(r->caps & WH_PUB_ORDERED);
}

/* Is the key held, with its messages waiting in memory? */
static bool is_held(const wherry_relay *r, const wh_key *key)
{
	return r->engine->hold->in_memory && key->fsm.state == WH_KEY_HELD;
}

/* One waiting message becomes ready; with an ordered publisher all, unless the
 * key is broken. */
void wh_key_advance(wherry_relay *r, wh_key *key)
{
	while (key->waiting.head && !is_held(r, key) &&
	       (!key->active || (!wh_one_per_key(r) && !key->broken)))
		wh_entry_move(r, key->waiting.head, WH_READY);
}

void wh_key_queue(wherry_relay *r, wh_key *key)
{
	for (wh_entry *e = r->window.ready.head, *next; e; e = next) {
		next = e->next;
		if (e->key == key)
			wh_entry_move(r, e, WH_WAITING);
	}
}

void wh_key_break(wherry_relay *r, wh_key *key)
{
	key->broken = key->in_flight > 0;
	key->leaving = false;
	if (key->broken)
		wh_key_queue(r, key);
}

void wh_key_landed(wherry_relay *r, wh_key *key)
{
	if (key->in_flight)
		return;
	key->broken = false;
	if (key->fsm.state == WH_KEY_HELD)
		wh_key_set_due(&r->keys, key, key->due_us);
}

void wh_entry_admit(wherry_relay *r, wh_entry *e)
{
	if (!e->key || (!wh_one_per_key(r) && !e->key->broken && !is_held(r, e->key))) {
		wh_entry_move(r, e, WH_READY);
		return;
	}
	wh_entry_move(r, e, WH_WAITING);
	wh_key_advance(r, e->key);
}
