#ifndef WH_RELAY_HOLD_IN_MEMORY_H
#define WH_RELAY_HOLD_IN_MEMORY_H

#include "relay/relay.h"

/* Free the keys that are due: their waiting messages become ready. */
void wh_memory_due(wherry_relay *r, int64_t now);

#endif
