/*
 * When a receiver that begins behind the last row that it got looks at everything again.
 *
 * PostgreSQL keeps the index entries of deleted rows while a snapshot may need them.  A receiver
 * that begins at the head of the index walks over all of them each time; one that begins behind its
 * last row does not.  It passes over rows that came back or were committed late, which only a
 * look at everything finds.
 */
#ifndef WH_STORE_ANCHOR_H
#define WH_STORE_ANCHOR_H

#include "db/driver.h"

enum { WH_FULL_SHARE = 9 }; /* Look at everything for a tenth of the time. */

/* Start from {0}: the first look is at everything. */
typedef struct wh_anchor {
	int64_t next_full_us; /* monotonic: when to look at everything again */
	int64_t full_cost_us; /* duration of the last look at everything */
} wh_anchor;

/* Is it time to look at everything?  Always where nothing pins deleted rows. */
bool wh_anchor_is_due(const wh_anchor *anchor, const wherry_db *db);

/* A look at everything began at this time, monotonic, and is over.  Looks at everything take a
 * tenth of the time. */
void wh_anchor_looked(wh_anchor *anchor, const wherry_db *db, int64_t began_us);

/* A look at these rows goes with the last look at everything, and costs as well. */
void wh_anchor_looked_too(wh_anchor *anchor, const wherry_db *db, int64_t began_us);

/* A receiver that found too little looks at everything, if that does not cost too much. */
bool wh_anchor_is_cheap(const wh_anchor *anchor);

#endif
