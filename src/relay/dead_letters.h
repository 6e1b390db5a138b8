/*
 * Dead letters: a message that dies is handed to another destination first, and is marked
 * dead once that destination has taken it.
 *
 *     dies ──► DYING ──► DEAD_LETTER ──► taken: dead
 *                │            │
 *                └────────────┴─────► not taken: failed, and tried again later
 *
 * Until then its key is held, as behind any failed message.  A message that ended its
 * relay or its connection at each attempt is not tried again: it stays DYING until its
 * dead letter is taken.
 */
#ifndef WH_RELAY_DEAD_LETTERS_H
#define WH_RELAY_DEAD_LETTERS_H

#include "relay/relay.h"

typedef struct wh_dead_letters wh_dead_letters;

/* Open the destination that relay.dead_letters names, if it is set. */
wherry_code wh_dead_letters_open(wherry_relay *r, wherry_error *err);
void wh_dead_letters_close(wherry_relay *r);

/* Take a message that dies, to settle it later.  False: no such destination is set. */
bool wh_dead_letters_take(wherry_relay *r, wh_entry *e, int64_t now);

/* Submit dead letters that wait, and collect receipts. */
void wh_dead_letters_step(wherry_relay *r, int64_t now);

/* Release all messages that die, without settling them: the relay no longer leads. */
void wh_dead_letters_forget(wherry_relay *r);

/* A dead letter is in flight, or can be submitted now. */
bool wh_dead_letters_busy(const wherry_relay *r);
/* -1: there is nothing to wait for. */
int wh_dead_letters_fd(wherry_relay *r, short *out_events);
int64_t wh_dead_letters_deadline(const wherry_relay *r);

#endif
