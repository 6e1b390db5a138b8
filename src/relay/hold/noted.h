#ifndef WH_RELAY_HOLD_NOTED_H
#define WH_RELAY_HOLD_NOTED_H

#include "relay/engine/reader.h"

/* Is there room for held messages?  While the destination is down, they fill at most half
 * of the window; the other half is for new messages, which probe first. */
bool wh_noted_has_room(const wherry_relay *r);

/* Note an id behind its key.  place: its place in the order of delivery. */
void wh_noted_add(wherry_relay *r, wh_key *key, int64_t id);

/* Release the keys that are due, and read the rows that wait behind them. */
wherry_code wh_noted_due(wherry_relay *r, int64_t now, wherry_error *err);

/* With on_dead=park: read which keys have dead messages, and park them. */
wherry_code wh_noted_parked(wherry_relay *r, int64_t now, wherry_error *err);

/* An operator may have discarded messages that keys wait for: read those again. */
void wh_noted_look(wherry_relay *r, int64_t now);

#endif
