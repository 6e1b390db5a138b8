/*
 * Decides when a receiver looks at all rows instead of only those behind the last row it
 * got.
 *
 * PostgreSQL keeps the index entries of deleted rows while a snapshot may need them.  A
 * receiver that begins at the head of the index walks over all of them each time.  A
 * receiver that begins behind its last row does not, but it misses rows that came back or
 * were committed late.  Only a look at all rows finds those.
 */
#ifndef WH_STORE_SCAN_START_H
#define WH_STORE_SCAN_START_H

#include "db/driver.h"

/* Pause this many times the duration of a look at all rows, so it takes a tenth of the
 * time. */
enum { WH_FULL_SHARE = 9 };

/* Initialise with {0}: the first look is at all rows. */
typedef struct wh_scan_start {
	/* Time of the next look at all rows, by the monotonic clock. */
	int64_t next_full_us;
	int64_t full_cost_us; /* Duration of the last look at all rows. */
} wh_scan_start;

/* Is it time to look at all rows?  Always true on a database without late commits, where
 * deleted rows leave nothing behind. */
bool wh_scan_start_is_due(const wh_scan_start *scan_start, const wherry_db *db);

/* Call it after a look at all rows that began at began_us (monotonic).  Sets the time of
 * the next one. */
void wh_scan_start_looked(wh_scan_start *scan_start, const wherry_db *db,
			  int64_t began_us);

/* Call it after a further query that belongs to the last look at all rows.  Adds its
 * duration. */
void wh_scan_start_looked_too(wh_scan_start *scan_start, const wherry_db *db,
			      int64_t began_us);

/* Is a look at all rows cheap enough for a receiver that found too little? */
bool wh_scan_start_is_cheap(const wh_scan_start *scan_start);

#endif
