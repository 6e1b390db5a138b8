#include "relay/holes.h"

#include <stdlib.h>
#include <string.h>

bool wh_holes_add(wh_holes *set, int64_t first, int64_t last, int64_t next_transaction)
{
	uint64_t many;

	if (last < first)
		return true;
	many = (uint64_t)last - (uint64_t)first;
	if (many >= WH_HOLES_MOST || set->n + many >= WH_HOLES_MOST)
		return false;
	many++;
	if (set->n + many > set->cap) {
		size_t cap = set->cap ? set->cap * 2 : 64;
		wh_hole *grown;

		while (cap < set->n + many)
			cap *= 2;
		grown = realloc(set->holes, cap * sizeof(*grown));
		if (!grown)
			return false;
		set->holes = grown;
		set->cap = cap;
	}
	for (int64_t id = first; id <= last; id++)
		set->holes[set->n++] = (wh_hole){id, next_transaction};
	return true;
}

void wh_holes_fill(wh_holes *set, int64_t id)
{
	size_t low = 0, high = set->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (set->holes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == set->n || set->holes[low].id != id)
		return;
	memmove(set->holes + low, set->holes + low + 1,
		(set->n - low - 1) * sizeof(*set->holes));
	set->n--;
}

void wh_holes_expire(wh_holes *set, int64_t oldest_transaction)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++)
		if (set->holes[i].seen > oldest_transaction)
			set->holes[kept++] = set->holes[i];
	set->n = kept;
}

size_t wh_holes_ids(const wh_holes *set, int64_t *out, size_t cap)
{
	size_t n = set->n < cap ? set->n : cap;

	for (size_t i = 0; i < n; i++)
		out[i] = set->holes[i].id;
	return n;
}

void wh_holes_clear(wh_holes *set)
{
	free(set->holes);
	*set = (wh_holes){0};
}
