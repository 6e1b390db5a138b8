#ifndef WH_RELAY_HOLD_NOTED_H
#define WH_RELAY_HOLD_NOTED_H

#include "relay/engine/reader.h"

/* While the destination is down, messages that were held fill half of the window: the rest is
 * for new ones, which are probed first. */
bool wh_noted_has_room(const wherry_relay *r);

/* Note an id behind its key; place: where it is in the order of delivery. */
void wh_noted_add(wherry_relay *r, wh_key *key, int64_t id, int64_t place);

/* Read what waits behind keys that are due. */
wherry_code wh_noted_due(wherry_relay *r, int64_t now, wherry_error *err);

/* Read which keys have dead messages, where those park their key. */
wherry_code wh_noted_parked(wherry_relay *r, int64_t now, wherry_error *err);

/* An operator may have removed what keys wait for: read it again. */
void wh_noted_look(wherry_relay *r, int64_t now);

#endif
