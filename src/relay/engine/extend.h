#ifndef WH_RELAY_ENGINE_EXTEND_H
#define WH_RELAY_ENGINE_EXTEND_H

#include "relay/relay.h"

/*
 * Extend the claims of all messages in memory.  Messages that were not submitted and whose
 * claims are gone, because a person discarded them or an application deleted their rows,
 * leave memory.
 *
 * @return WHERRY_STALE if all claims are gone, or so many that they are not looked for.
 */
wherry_code wh_claims_extend(wherry_relay *r, wherry_error *err);

#endif
