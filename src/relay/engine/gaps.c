#include "relay/engine/gaps.h"

#include <string.h>

static void merge_neighbours(wh_gaps *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i += 2, kept++) {
		size_t last = i + 1 < set->n ? i + 1 : i;

		set->ranges[kept] =
			(wh_range){set->ranges[i].first, set->ranges[last].last};
		set->seen[kept] = set->seen[last]; /* The later date. */
	}
	set->n = kept;
}

void wh_gaps_add(wh_gaps *set, int64_t first, int64_t last)
{
	if (last < first)
		return;
	if (set->n == WH_GAPS_MOST)
		merge_neighbours(set);
	set->ranges[set->n] = (wh_range){first, last};
	set->seen[set->n++] = INT64_MAX;
}

void wh_gaps_pass(wh_gaps *set, int64_t first, int64_t last)
{
	bool dated = set->n && set->seen[set->n - 1] != INT64_MAX;

	if (!set->n || (dated && set->n < WH_PASSES_MOST)) {
		wh_gaps_add(set, first, last);
		return;
	}
	set->ranges[set->n - 1].last = last;
	set->seen[set->n - 1] = INT64_MAX;
}

void wh_gaps_date(wh_gaps *set, int64_t running, int64_t next)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->seen[i] == INT64_MAX)
			set->seen[i] = -next;
		else if (set->seen[i] < 0 && -set->seen[i] <= running)
			set->seen[i] = next;
	}
}

static void make_room(wh_gaps *set, size_t at)
{
	memmove(set->ranges + at + 1, set->ranges + at,
		(set->n - at) * sizeof(*set->ranges));
	memmove(set->seen + at + 1, set->seen + at, (set->n - at) * sizeof(*set->seen));
	set->n++;
}

static void take_out(wh_gaps *set, size_t at)
{
	set->n--;
	memmove(set->ranges + at, set->ranges + at + 1,
		(set->n - at) * sizeof(*set->ranges));
	memmove(set->seen + at, set->seen + at + 1, (set->n - at) * sizeof(*set->seen));
}

void wh_gaps_fill(wh_gaps *set, int64_t id)
{
	size_t low = 0, high = set->n;
	wh_range *gap;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (set->ranges[middle].last < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == set->n || set->ranges[low].first > id)
		return;
	gap = &set->ranges[low];
	if (gap->first == gap->last) {
		take_out(set, low);
	} else if (gap->first == id) {
		gap->first++;
	} else if (gap->last == id) {
		gap->last--;
		/* If the set is full, the gap stays too large. */
	} else if (set->n < WH_GAPS_MOST) {
		make_room(set, low);
		set->ranges[low].last = id - 1;
		set->ranges[low + 1].first = id + 1;
	}
}

void wh_gaps_expire(wh_gaps *set, int64_t oldest_transaction)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++) {
		if (set->seen[i] >= 0 && set->seen[i] <= oldest_transaction)
			continue;
		set->ranges[kept] = set->ranges[i];
		set->seen[kept++] = set->seen[i];
	}
	set->n = kept;
}
