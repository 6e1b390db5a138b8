/*
 * relay.sole: the exclusive engine on rows that other programs could claim.  The operator says
 * that none does.  The relay looks for claims of others before it begins, with each renewal of its
 * lease, when rows that it delivered were changed by somebody, and in each row that it reads.  If
 * there is one that lives it ends with an error; rows whose claim has expired are pending again.
 * On other outboxes these functions do what those of reader.h do.
 */
#ifndef WH_RELAY_ENGINE_SOLE_H
#define WH_RELAY_ENGINE_SOLE_H

#include "relay/engine/reader.h"

/* For the engine's table of functions. */
wherry_code wh_sole_take(wherry_relay *r, wherry_error *err);
wherry_code wh_sole_renewed(wherry_relay *r, int64_t now, int64_t version,
			    wherry_error *err);
wherry_code wh_sole_fetch(wherry_relay *r, int64_t now, wherry_error *err);

/* Another program has claimed the row, or did once: reading stops before it, and the next fetch
 * finds out whether the claim lives. */
bool wh_sole_stops(wherry_relay *r, const wh_open_row *row);

#endif
