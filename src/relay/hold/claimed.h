#ifndef WH_RELAY_HOLD_CLAIMED_H
#define WH_RELAY_HOLD_CLAIMED_H

#include "relay/relay.h"

/* Free the keys that were held until their failure was written. */
void wh_claimed_due(wherry_relay *r, int64_t now);

#endif
