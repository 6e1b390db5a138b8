/*
 * The ordering keys that the relay knows: keys with messages in memory, keys held behind
 * a failed message, and keys parked behind a dead one.
 *
 *               a message fails              due
 *     FREE ─────────────────────────► HELD ───────► DRAINING ──► FREE
 *       │                                               │
 *       └── a message dies, on_dead = park ──► PARKED   └── a message fails ──► HELD
 *                                                 └── retried ──► FREE
 *
 *     FREE      messages of the key are submitted as they are read.
 *     HELD      nothing is submitted until the key is due; ids read meanwhile are noted.
 *     DRAINING  rows of the noted ids are read again, in order; ids read now are noted.
 *     PARKED    nothing is submitted or noted; a retry by an operator starts a sweep.
 */
#ifndef WH_RELAY_KEYS_H
#define WH_RELAY_KEYS_H

#include "base/buf.h"
#include "base/fsm.h"
#include "store/open_row.h"

enum { WH_KEY_FREE, WH_KEY_HELD, WH_KEY_DRAINING, WH_KEY_PARKED };

struct wh_entry;

typedef struct wh_list {
	struct wh_entry *head, *tail;
	size_t n;
} wh_list;

/* A sorted list, ids[first] to ids[end - 1].  Removing the lowest id raises `first`. */
typedef struct wh_ids {
	int64_t *ids;
	size_t first, end, cap;
} wh_ids;

/* Add an id in order, unless it is in the list.  False: out of memory. */
bool wh_ids_add(wh_ids *list, int64_t id);
size_t wh_ids_count(const wh_ids *list);
void wh_ids_clear(wh_ids *list);

typedef struct wh_key {
	struct wh_key *bucket_next;
	struct wh_key *held_next, *held_prev; /* In the list of keys that are not FREE. */
	wh_list waiting; /* Messages of the key in the stage WAITING, in order. */
	uint64_t hash;
	/* HELD: when the key is due, monotonic; WH_NEVER: the failure is not written. */
	int64_t due_us;
	/* Ids from this one on were not noted, for lack of room; 0: all were noted. */
	int64_t overflow_from;
	wh_ids noted; /* Ids of rows to read again when the key is due. */
	wh_fsm fsm;
	uint32_t active;    /* Messages of the key that are READY or IN_FLIGHT. */
	uint32_t in_flight; /* Messages of the key that are IN_FLIGHT. */
	/* Messages of the key in memory; the key lives while it is above 0. */
	uint32_t owned;
	bool broken; /* A message came back while later ones of the key were in flight. */
	/* Of a broken key: the later messages leave memory when they come back. */
	bool leaving;
	uint32_t passed; /* UNWRITABLE messages of the key that are passed over. */
	bool refused;    /* Held because of a refusal that did not count as an attempt. */
	uint32_t round;  /* Last round of probes that considered a message of the key. */
	size_t len;
	char bytes[];
} wh_key;

typedef struct wh_keys {
	wh_key **buckets;
	size_t n_buckets, n;
	wh_key *held;  /* List of all keys that are not FREE. */
	size_t n_held; /* Keys that are HELD or DRAINING. */
	size_t n_parked;
	size_t n_refused;  /* Of n_held: keys with wh_key.refused set. */
	size_t n_noted;    /* Noted ids, over all keys. */
	int64_t first_due; /* No HELD key is due earlier. */
	const wh_env *env;
} wh_keys;

void wh_keys_init(wh_keys *keys, const wh_env *env);
void wh_keys_clear(wh_keys *keys);

/*
 * Write the ordering key of a row: "=" and the explicit key; or the length of the
 * aggregate type, ":", type and id, so that the pairs ("ab", "c") and ("a", "bc") differ.
 * Empty: the row is not ordered.  Of texts over 256 bytes it is the SHA-256, with "~" in the
 * place of "=" or ":": a key that is parked stays in memory
 * (a_long_key_takes_little_memory_and_stays_itself).
 *
 * @param by_aggregate  The layout orders rows by their aggregate id, whatever their type and key
 *                      are: "=" and the aggregate id.
 */
void wh_key_write(wh_buf *out, const wh_open_row *row, bool by_aggregate);

wh_key *wh_keys_find(const wh_keys *keys, wh_view bytes);
/* Makes the key if it is new; NULL: out of memory. */
wh_key *wh_keys_get(wh_keys *keys, wh_view bytes);

/* Free a key that is FREE and has no message in memory; do nothing for other keys. */
void wh_keys_drop(wh_keys *keys, wh_key *key);

/* The only ways to change a key's state. */
void wh_key_hold(wh_keys *keys, wh_key *key, int64_t due_us);
void wh_key_drain(wh_keys *keys, wh_key *key);
void wh_key_free(wh_keys *keys, wh_key *key);
void wh_key_park(wh_keys *keys, wh_key *key);
void wh_key_set_due(wh_keys *keys, wh_key *key, int64_t due_us);

/* Set whether a key is HELD because of a refusal that did not count as an attempt. */
void wh_key_set_refused(wh_keys *keys, wh_key *key, bool refused);

/* Note an id, or place, of a key that is HELD or DRAINING.  If `most` are noted over
 * all keys, set key->overflow_from instead, from which on none is noted.  False: it is
 * not noted. */
bool wh_key_note(wh_keys *keys, wh_key *key, int64_t id, size_t most);

#endif
