/*
 * A set of message ids with the numbers of their messages: 24 bytes for each, and no text.
 *
 * Fill it with wh_id_set_add(), then sort it once, then look ids up.  An id is kept as 127 bits: those of a UUID, or of
 * the SHA-256 sum of another text.
 */
#ifndef WH_BASE_ID_SET_H
#define WH_BASE_ID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { WH_ID_SEEN_MOST = 3 };

/* The largest number that fits. */
#define WH_ID_NUMBER_MOST ((INT64_C(1) << 62) - 1)

typedef struct wh_id_entry {
	uint64_t high;   /* The set is sorted by it, then by low. */
	uint64_t low;    /* Bit 0 is the mark of the entry. */
	uint64_t number; /* Bits 62 and 63: how often it was seen. */
} wh_id_entry;

typedef struct wh_id_set {
	wh_id_entry *entries; /* Owned. */
	size_t n, cap;
	size_t most; /* Most entries; 0: no limit. */
	bool sorted;
} wh_id_set;

#define WH_ID_SET_INIT(most_)                                                            \
	{                                                                                \
		NULL, 0, 0, (most_), false                                               \
	}

/* Add an id.  TOOBIG: the set is full, or the number does not fit; NOMEM. */
wherry_code wh_id_set_add(wh_id_set *set, wh_view id, int64_t number, bool marked,
			  wherry_error *err);

/* Sort it.  Nothing may be added afterwards. */
void wh_id_set_sort(wh_id_set *set);

/* The entries of an id, of which there may be several: returns their number, and the first one in *out.  NOMEM is not
 * reported: an id whose sum cannot be computed is not found. */
size_t wh_id_set_find(const wh_id_set *set, wh_view id, wh_id_entry **out);

/* Count that the id was seen, in each of its entries, up to WH_ID_SEEN_MOST.  False: it is not in the set. */
bool wh_id_set_see(wh_id_set *set, wh_view id);

bool wh_id_marked(const wh_id_entry *entry);
int64_t wh_id_number(const wh_id_entry *entry);
int wh_id_seen(const wh_id_entry *entry);

void wh_id_set_clear(wh_id_set *set);

#endif
