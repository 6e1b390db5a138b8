#include "relay/engine/taken.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void wh_taken_clear(wh_taken *t)
{
	free(t->all);
	*t = (wh_taken){0};
}

static uint64_t hash_of(wh_view text)
{
	return wh_hash(WH_HASH_START, text.ptr, text.len);
}

/* Index of the first one with this id or a higher one.  New ids are mostly the highest. */
static size_t place_of(const wh_taken *t, int64_t id)
{
	size_t low = 0, high = t->n;

	if (t->n && t->all[t->n - 1].id < id)
		return t->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->all[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

wh_taken_one *wh_taken_find(const wh_taken *t, int64_t id)
{
	size_t at = place_of(t, id);

	return at < t->n && t->all[at].id == id ? &t->all[at] : NULL;
}

bool wh_taken_is(const wh_taken_one *one, wh_view message_id)
{
	return !message_id.ptr || one->name == hash_of(message_id);
}

bool wh_taken_add(wh_taken *t, int64_t id, uint64_t tx, wh_view message_id)
{
	size_t at = place_of(t, id);

	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 64;
		wh_taken_one *grown = realloc(t->all, cap * sizeof(*grown));

		if (!grown)
			return false;
		t->all = grown;
		t->cap = cap;
	}
	if (at == t->n || t->all[at].id != id) {
		memmove(t->all + at + 1, t->all + at, (t->n - at) * sizeof(*t->all));
		t->n++;
	}
	t->all[at] = (wh_taken_one){.id = id, .tx = tx, .name = hash_of(message_id)};
	return true;
}

void wh_taken_remove(wh_taken *t, int64_t id)
{
	size_t at = place_of(t, id);

	if (at == t->n || t->all[at].id != id)
		return;
	t->n--;
	memmove(t->all + at, t->all + at + 1, (t->n - at) * sizeof(*t->all));
}

/* Is it over?  No later look brings what the position covers; and what the look would have brought, since it is
 * visible, was deleted. */
static bool is_over(const wh_taken_one *one, const wh_position *read, bool all)
{
	return one->met || wh_position_covers(read, one->id, one->tx) ||
	       (all && read->seen && wh_snapshot_sees(read->seen, one->tx));
}

bool wh_taken_looked(wh_taken *t, const wh_position *read, bool all)
{
	size_t n = 0;
	bool late = false;

	for (size_t i = 0; i < t->n; i++) {
		wh_taken_one one = t->all[i];

		if (read && is_over(&one, read, all)) {
			late |= one.met && one.missed && one.held;
			continue;
		}
		one.met = false;
		one.missed |= read && all;
		t->all[n++] = one;
	}
	t->n = n;
	return late;
}
