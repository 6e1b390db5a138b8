/*
 * The places of noted messages, where messages are not delivered in the order of their
 * ids.  The map finds the id of a place, and the place of an id.
 */
#ifndef WH_RELAY_PLACES_H
#define WH_RELAY_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wh_place {
	int64_t id, order;
	uint32_t next_by_id, next_by_order; /* Next entry of the hash bucket; 0: none. */
} wh_place;

typedef struct wh_places {
	wh_place *all; /* Entries, from index 1 on. */
	uint32_t *by_id, *by_order;
	uint32_t n_buckets; /* A power of two. */
	uint32_t used, n; /* Entries of `all` that were ever used; that are in use now. */
	uint32_t free; /* First entry that was dropped and can be used again; 0: none. */
} wh_places;

/* Give an id a place; an id that has a place keeps it.  False: out of memory. */
bool wh_places_add(wh_places *set, int64_t id, int64_t order);
bool wh_places_of(const wh_places *set, int64_t id, int64_t *out_order);
bool wh_places_at(const wh_places *set, int64_t order, int64_t *out_id);
void wh_places_drop(wh_places *set, int64_t order);
void wh_places_clear(wh_places *set);

#endif
