/*
 * Ordering keys that something is known about: messages of theirs are in memory, or they
 * are held behind a failed message, or parked behind a dead one.
 *
 *               a message fails              due
 *     FREE ─────────────────────────► HELD ───────► DRAINING ──► FREE
 *       │                                               │
 *       └── a message dies, on_dead = park ──► PARKED   └── a message fails ──► HELD
 *                                                 └── retried ──► FREE
 *
 *     FREE      its messages are sent as they are read.
 *     HELD      nothing of it is sent until due; ids met meanwhile are noted.
 *     DRAINING  the noted ids are being read again, in order; ids met are noted.
 *     PARKED    nothing is sent, nothing is noted: a retry by hand reads from the beginning.
 */
#ifndef WH_RELAY_KEYS_H
#define WH_RELAY_KEYS_H

#include "base/buf.h"
#include "base/fsm.h"
#include "store/open_row.h"
#include "relay/places.h"

enum { WH_KEY_FREE, WH_KEY_HELD, WH_KEY_DRAINING, WH_KEY_PARKED };

struct wh_entry;

typedef struct wh_list {
	struct wh_entry *head, *tail;
	size_t n;
} wh_list;

/* Ascending ids; from `first` on, so that taking from the front is cheap. */
typedef struct wh_ids {
	int64_t *ids;
	size_t first, end, cap;
} wh_ids;

/* Add an id where it belongs; already there is fine.  False: out of memory. */
bool wh_ids_add(wh_ids *list, int64_t id);
size_t wh_ids_count(const wh_ids *list);
void wh_ids_clear(wh_ids *list);

typedef struct wh_key {
	struct wh_key *bucket_next;
	struct wh_key *held_next, *held_prev; /* list of keys that are not FREE */
	wh_list waiting;                      /* Its messages that wait, in order. */
	uint64_t hash;
	int64_t due_us;        /* HELD: when, monotonic; WH_NEVER: once it is written */
	int64_t overflow_from; /* >0: ids from here on are not noted */
	wh_ids noted;
	wh_fsm fsm;
	uint32_t active;    /* entries READY or IN_FLIGHT */
	uint32_t in_flight; /* submitted, no receipt yet */
	uint32_t owned;     /* entries of it in memory */
	bool broken;        /* a message came back while later ones were in flight; */
	bool leaving;       /* it failed: they are left alone, or else ready again */
	bool refused;       /* HELD because of a refusal that did not count */
	uint32_t round;     /* of probes in which a message of it was considered */
	size_t len;
	char bytes[];
} wh_key;

typedef struct wh_keys {
	wh_key **buckets;
	size_t n_buckets, n;
	wh_key *held;  /* all that are not FREE */
	size_t n_held; /* HELD or DRAINING */
	size_t n_parked;
	size_t n_refused;  /* of those held */
	size_t n_noted;    /* ids noted, over all keys */
	int64_t first_due; /* no HELD key is due earlier */
	wh_places *places; /* what is noted are places in here; NULL: ids */
	const wh_env *env;
} wh_keys;

void wh_keys_init(wh_keys *keys, const wh_env *env);
void wh_keys_clear(wh_keys *keys);

/*
 * Write the ordering key of a row: "=" and the explicit key, or the length of the
 * aggregate type, ":", type and id, so that no two differ only in where one part ends.
 * Empty: the row is not ordered.
 */
void wh_key_write(wh_buf *out, const wh_open_row *row);

wh_key *wh_keys_find(const wh_keys *keys, wh_view bytes);
wh_key *wh_keys_get(wh_keys *keys, wh_view bytes); /* makes it; NULL: out of memory */

/* Forget a key about which nothing is known any more; otherwise does nothing. */
void wh_keys_drop(wh_keys *keys, wh_key *key);

/* The only ways to change a key's state. */
void wh_key_hold(wh_keys *keys, wh_key *key, int64_t due_us);
void wh_key_drain(wh_keys *keys, wh_key *key);
void wh_key_free(wh_keys *keys, wh_key *key);
void wh_key_park(wh_keys *keys, wh_key *key);
void wh_key_set_due(wh_keys *keys, wh_key *key, int64_t due_us);

/* Say whether a HELD key is so because of a refusal that did not count. */
void wh_key_set_refused(wh_keys *keys, wh_key *key, bool rests);

/* Note an id of a key that is HELD or DRAINING; over `most` in all it is only remembered
 * that there are more. */
void wh_key_note(wh_keys *keys, wh_key *key, int64_t id, size_t most);

#endif
