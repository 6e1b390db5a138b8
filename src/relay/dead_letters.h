/*
 * Dead letters: a message that dies is handed to another destination first, and is marked
 * dead once that has taken it.
 *
 *     dies ──► WAITING ──► IN FLIGHT ──► taken: dead
 *                 │           │
 *                 └───────────┴─────► not taken: failed, and tried again later
 *
 * Until then its key waits as behind any failed message.  A message that ended its relay or
 * its connection each time is not tried again: it stays WAITING until its dead letter is
 * taken.
 */
#ifndef WH_RELAY_DEAD_LETTERS_H
#define WH_RELAY_DEAD_LETTERS_H

#include "relay/relay.h"

typedef struct wh_dead_letters wh_dead_letters;

/* Opens relay.dead_letters, if it is set. */
wherry_code wh_dead_letters_open(wherry_relay *r, wherry_error *err);
void wh_dead_letters_close(wherry_relay *r);

/* A message dies: take it, to settle it later.  False: no dead-letter destination is set. */
bool wh_dead_letters_take(wherry_relay *r, wh_entry *e, int64_t now);

/* Hand over what waits, take receipts. */
void wh_dead_letters_step(wherry_relay *r, int64_t now);

/* The messages are none of our business any more. */
void wh_dead_letters_forget(wherry_relay *r);

/* Something is on its way, or will be at once. */
bool wh_dead_letters_busy(const wherry_relay *r);
int wh_dead_letters_fd(wherry_relay *r, short *out_events); /* -1: none */
int64_t wh_dead_letters_deadline(const wherry_relay *r);

#endif
