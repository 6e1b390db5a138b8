#ifndef WH_RELAY_ENGINE_COMPETING_H
#define WH_RELAY_ENGINE_COMPETING_H

#include "relay/relay.h"

/* A failed row becomes due at this time, monotonic: claim rows then. */
void wh_competing_due(wherry_relay *r, int64_t due_us);

#endif
