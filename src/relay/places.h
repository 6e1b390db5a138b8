/*
 * Places of messages that were left alone, where order is not that of their ids: the id of
 * each place, and the place of each id.
 */
#ifndef WH_RELAY_PLACES_H
#define WH_RELAY_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wh_place {
	int64_t id, order;
	uint32_t next_by_id, next_by_order; /* in their buckets; 0: none */
} wh_place;

typedef struct wh_places {
	wh_place *all; /* from 1 on */
	uint32_t *by_id, *by_order;
	uint32_t n_buckets; /* a power of two */
	uint32_t used, n;   /* of `all`: ever, and now */
	uint32_t free;      /* the first that was given back; 0: none */
} wh_places;

/* False: out of memory.  An id that has a place keeps it. */
bool wh_places_add(wh_places *set, int64_t id, int64_t order);
bool wh_places_of(const wh_places *set, int64_t id, int64_t *out_order);
bool wh_places_at(const wh_places *set, int64_t order, int64_t *out_id);
void wh_places_drop(wh_places *set, int64_t order);
void wh_places_clear(wh_places *set);

#endif
