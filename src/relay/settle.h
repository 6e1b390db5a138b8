/*
 * Writing down what became of messages, inside: settle.c writes batches, settle_alone.c one
 * message at a time.
 */
#ifndef WH_RELAY_SETTLE_H
#define WH_RELAY_SETTLE_H

#include "relay/relay.h"

/* Nothing yet, with the relay's scratch for its lists. */
wh_settlement wh_settle_empty(wherry_relay *r);

/* Put the first n of what is settled into it. */
void wh_settle_gather(wherry_relay *r, wh_settlement *s, size_t n);

/* They are written. */
void wh_settle_after(wherry_relay *r, const wh_settlement *s, const wh_settled *settled,
		     size_t n, int64_t now);

/* Count and log the claims that others had taken over. */
void wh_settle_lost(wherry_relay *r, const wh_settlement *s, int64_t changed);

/* When to write next; WH_NEVER: there is nothing to write. */
int64_t wh_settle_next(const wherry_relay *r, int64_t now);

/* One of several could not be written because of what its row holds: write each alone. */
wherry_code wh_settle_one_by_one(wherry_relay *r, int64_t now, wherry_error *err);

/* Settle messages again that the database refused to write, when it is time. */
void wh_settle_retry_refused(wherry_relay *r, int64_t now);

/* Why a message dies whose attempt the database refuses to write. */
const char *wh_settle_cannot_try(wherry_relay *r, wh_entry *e, const char *why);

#endif
