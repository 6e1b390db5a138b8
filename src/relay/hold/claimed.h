#ifndef WH_RELAY_HOLD_CLAIMED_H
#define WH_RELAY_HOLD_CLAIMED_H

#include "relay/relay.h"

/* Free the held keys whose failure is written, if none of their messages is
 * ready or in flight. */
void wh_claimed_due(wherry_relay *r, int64_t now);

#endif
