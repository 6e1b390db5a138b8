/*
 * relay.sole: the exclusive engine on rows that other programs could claim.  The operator
 * guarantees that no other program claims any.
 *
 * The relay looks for claims of other programs before it begins, with each renewal of its
 * lease, when rows that it delivered were changed by another program, and in each row
 * that it reads.  If a claim has not expired, the relay ends with an error.  Rows whose
 * claim has expired become pending again.  On other outboxes these functions do the same
 * as those of reader.h.
 */
#ifndef WH_RELAY_ENGINE_SOLE_H
#define WH_RELAY_ENGINE_SOLE_H

#include "relay/engine/reader.h"

/* For the engine's table of functions. */
wherry_code wh_sole_take(wherry_relay *r, wherry_error *err);
wherry_code wh_sole_renewed(wherry_relay *r, int64_t now, int64_t version,
			    wherry_error *err);
wherry_code wh_sole_fetch(wherry_relay *r, int64_t now, wherry_error *err);

/* True: another program has claimed the row.  Reading stops before it, and the next fetch
 * finds out whether the claim has expired. */
bool wh_sole_stops(wherry_relay *r, const wh_open_row *row);

#endif
