#include "relay/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "relay/window.h"

/* Longest text, in bytes, that an ordering key contains itself. */
enum { WHOLE_MOST = 256 };

static const wh_fsm_state states[] = {
	[WH_KEY_FREE] = {"free", WH_BIT(WH_KEY_HELD) | WH_BIT(WH_KEY_PARKED)},
	[WH_KEY_HELD] = {"held", WH_BIT(WH_KEY_DRAINING) | WH_BIT(WH_KEY_PARKED) |
					 WH_BIT(WH_KEY_HELD)},
	[WH_KEY_DRAINING] = {"draining", WH_BIT(WH_KEY_FREE) | WH_BIT(WH_KEY_HELD) |
						 WH_BIT(WH_KEY_PARKED)},
	[WH_KEY_PARKED] = {"parked", WH_BIT(WH_KEY_FREE)},
};

/* ---- lists of ids ---- */

size_t wh_ids_count(const wh_ids *list)
{
	return list->end - list->first;
}

static bool ids_grow(wh_ids *list)
{
	size_t n = wh_ids_count(list), cap = list->cap ? list->cap * 2 : 8;
	int64_t *grown;

	if (list->first > list->cap / 2) {
		memmove(list->ids, list->ids + list->first, n * sizeof(*list->ids));
		list->first = 0;
		list->end = n;
		return true;
	}
	grown = realloc(list->ids, cap * sizeof(*grown));
	if (!grown)
		return false;
	list->ids = grown;
	list->cap = cap;
	return true;
}

/* Index of the first id that is not below `id`. */
static size_t ids_place(const wh_ids *list, int64_t id)
{
	size_t low = list->first, high = list->end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list->ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool wh_ids_add(wh_ids *list, int64_t id)
{
	size_t place = ids_place(list, id);

	if (place < list->end && list->ids[place] == id)
		return true;
	if (list->end == list->cap) {
		if (!ids_grow(list))
			return false;
		place = ids_place(list, id);
	}
	memmove(list->ids + place + 1, list->ids + place,
		(list->end - place) * sizeof(*list->ids));
	list->ids[place] = id;
	list->end++;
	return true;
}

void wh_ids_clear(wh_ids *list)
{
	free(list->ids);
	*list = (wh_ids){0};
}

/* ---- the map ---- */

void wh_keys_init(wh_keys *keys, const wh_env *env)
{
	*keys = (wh_keys){.env = env, .first_due = WH_NEVER};
}

void wh_keys_clear(wh_keys *keys)
{
	for (size_t i = 0; i < keys->n_buckets; i++) {
		for (wh_key *key = keys->buckets[i], *next; key; key = next) {
			next = key->bucket_next;
			wh_ids_clear(&key->noted);
			free(key);
		}
	}
	free(keys->buckets);
	*keys = (wh_keys){.env = keys->env, .first_due = WH_NEVER};
}

static void put_sum(wh_buf *out, wh_view text)
{
	char sum[WH_SHA256_LEN + 1];

	if (wh_sha256(text, sum))
		wh_buf_put(out, sum, WH_SHA256_LEN);
	else
		out->failed = WHERRY_NOMEM;
}

static void put_key(wh_buf *out, wh_view key)
{
	if (key.len > WHOLE_MOST) {
		wh_buf_putc(out, '~');
		put_sum(out, key);
	} else {
		wh_buf_putc(out, '=');
		wh_buf_put(out, key.ptr, key.len);
	}
}

void wh_key_write(wh_buf *out, const wh_open_row *row, bool by_aggregate)
{
	const wh_view type = row->aggregate_type, id = row->aggregate_id;

	wh_buf_reset(out);
	if (by_aggregate) {
		put_key(out, id);
	} else if (row->key.len) {
		put_key(out, row->key);
	} else if (type.len > WHOLE_MOST || id.len > WHOLE_MOST) {
		wh_buf_printf(out, "%zu~", type.len);
		put_sum(out, type);
		put_sum(out, id);
	} else if (type.len || id.len) {
		wh_buf_printf(out, "%zu:", type.len);
		wh_buf_put(out, type.ptr, type.len);
		wh_buf_put(out, id.ptr, id.len);
	}
}

static uint64_t hash_of(wh_view bytes)
{
	uint64_t hash = wh_hash(WH_HASH_START, bytes.ptr, bytes.len);

	return hash ^ hash >> 32;
}

static wh_key *find_in(const wh_keys *keys, wh_view bytes, uint64_t hash)
{
	wh_key *key =
		keys->n_buckets ? keys->buckets[hash & (keys->n_buckets - 1)] : NULL;

	for (; key; key = key->bucket_next)
		if (key->hash == hash && key->len == bytes.len &&
		    memcmp(key->bytes, bytes.ptr, bytes.len) == 0)
			return key;
	return NULL;
}

wh_key *wh_keys_find(const wh_keys *keys, wh_view bytes)
{
	return find_in(keys, bytes, hash_of(bytes));
}

static bool map_grow(wh_keys *keys)
{
	size_t n = keys->n_buckets ? keys->n_buckets * 2 : 256;
	wh_key **buckets = calloc(n, sizeof(wh_key *));

	if (!buckets)
		/* The old table still works, with longer chains. */
		return keys->n_buckets > 0;
	for (size_t i = 0; i < keys->n_buckets; i++) {
		for (wh_key *key = keys->buckets[i], *next; key; key = next) {
			next = key->bucket_next;
			key->bucket_next = buckets[key->hash & (n - 1)];
			buckets[key->hash & (n - 1)] = key;
		}
	}
	free(keys->buckets);
	keys->buckets = buckets;
	keys->n_buckets = n;
	return true;
}

wh_key *wh_keys_get(wh_keys *keys, wh_view bytes)
{
	uint64_t hash = hash_of(bytes);
	wh_key *key = find_in(keys, bytes, hash), **bucket;

	if (key)
		return key;
	if (keys->n >= keys->n_buckets && !map_grow(keys))
		return NULL;
	key = calloc(1, sizeof(*key) + bytes.len + 1);
	if (!key)
		return NULL;
	memcpy(key->bytes, bytes.ptr, bytes.len);
	key->len = bytes.len;
	key->hash = hash;
	key->due_us = WH_NEVER;
	key->fsm = (wh_fsm){states, "relay.key", WH_KEY_FREE};
	bucket = &keys->buckets[hash & (keys->n_buckets - 1)];
	key->bucket_next = *bucket;
	*bucket = key;
	keys->n++;
	return key;
}

void wh_keys_drop(wh_keys *keys, wh_key *key)
{
	wh_key **at = &keys->buckets[key->hash & (keys->n_buckets - 1)];

	if (key->fsm.state != WH_KEY_FREE || key->owned)
		return;
	while (*at != key)
		at = &(*at)->bucket_next;
	*at = key->bucket_next;
	keys->n--;
	wh_ids_clear(&key->noted);
	free(key);
}

/* ---- states ---- */

static bool counts_as_held(int state)
{
	return state == WH_KEY_HELD || state == WH_KEY_DRAINING;
}

void wh_key_set_refused(wh_keys *keys, wh_key *key, bool refused)
{
	keys->n_refused = keys->n_refused + refused - key->refused;
	key->refused = refused;
}

static void move(wh_keys *keys, wh_key *key, int to, const char *why)
{
	int from = key->fsm.state;

	wh_fsm_move(&key->fsm, to, keys->env, why);
	keys->n_held = keys->n_held + counts_as_held(to) - counts_as_held(from);
	keys->n_parked = keys->n_parked + (to == WH_KEY_PARKED) - (from == WH_KEY_PARKED);
	if (!counts_as_held(to))
		wh_key_set_refused(keys, key, false);
	if (from == WH_KEY_FREE) {
		key->held_prev = NULL;
		key->held_next = keys->held;
		if (keys->held)
			keys->held->held_prev = key;
		keys->held = key;
	} else if (to == WH_KEY_FREE) {
		if (key->held_next)
			key->held_next->held_prev = key->held_prev;
		if (key->held_prev)
			key->held_prev->held_next = key->held_next;
		else
			keys->held = key->held_next;
	}
}

void wh_key_set_due(wh_keys *keys, wh_key *key, int64_t due_us)
{
	key->due_us = due_us;
	if (due_us < keys->first_due)
		keys->first_due = due_us;
}

void wh_key_hold(wh_keys *keys, wh_key *key, int64_t due_us)
{
	move(keys, key, WH_KEY_HELD, "a message of it waits");
	wh_key_set_due(keys, key, due_us);
}

void wh_key_drain(wh_keys *keys, wh_key *key)
{
	move(keys, key, WH_KEY_DRAINING, "due");
}

static void forget_noted(wh_keys *keys, wh_key *key)
{
	keys->n_noted -= wh_ids_count(&key->noted);
	wh_ids_clear(&key->noted);
}

void wh_key_free(wh_keys *keys, wh_key *key)
{
	forget_noted(keys, key);
	key->overflow_from = 0;
	move(keys, key, WH_KEY_FREE, "nothing of it waits");
}

void wh_key_park(wh_keys *keys, wh_key *key)
{
	forget_noted(keys, key);
	key->overflow_from = 0;
	move(keys, key, WH_KEY_PARKED, "a message of it died");
}

bool wh_key_note(wh_keys *keys, wh_key *key, int64_t id, size_t most)
{
	size_t before = wh_ids_count(&key->noted);

	if (key->overflow_from && id >= key->overflow_from)
		return false;
	if (keys->n_noted >= most || !wh_ids_add(&key->noted, id)) {
		key->overflow_from = id;
		key->noted.end = ids_place(&key->noted, id);
	}
	keys->n_noted += wh_ids_count(&key->noted) - before;
	return !key->overflow_from || id < key->overflow_from;
}
