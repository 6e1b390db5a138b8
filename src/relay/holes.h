/*
 * Holes: ids that a relay passed over while reading ahead, which transactions that still
 * run may yet commit.
 *
 * Row state is the truth, the cursor a hint: each read also asks for the holes.  A hole
 * is forgotten once every transaction that was running when it was seen is over.  With
 * too many of them they are all forgotten, and a sweep from the beginning stands in.
 */
#ifndef WH_RELAY_HOLES_H
#define WH_RELAY_HOLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WH_HOLES_MOST = 10000 };

typedef struct wh_hole {
	int64_t id;
	int64_t seen; /* the next transaction when it was seen */
} wh_hole;

typedef struct wh_holes {
	wh_hole *holes; /* ascending ids */
	size_t n, cap;
} wh_holes;

/* Note the ids from first to last; false: too many, or out of memory: sweep instead. */
bool wh_holes_add(wh_holes *set, int64_t first, int64_t last, int64_t next_transaction);

/* A row came out of a hole. */
void wh_holes_fill(wh_holes *set, int64_t id);

/* Forget what was seen before `oldest_transaction` began. */
void wh_holes_expire(wh_holes *set, int64_t oldest_transaction);

/* Copy up to cap ids; returns how many. */
size_t wh_holes_ids(const wh_holes *set, int64_t *out, size_t cap);
void wh_holes_clear(wh_holes *set);

#endif
