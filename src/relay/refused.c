#include "relay/refused.h"

#include <stdlib.h>

enum { PLACES_LEAST = 256, PLACES_MOST = 1 << 20 };

static size_t home_of(const wh_refused *set, int64_t id)
{
	uint64_t hash = (uint64_t)id * 0x9e3779b97f4a7c15u;

	return (size_t)(hash >> 32) & (set->n_places - 1);
}

/* Index of the entry of the id, or of the free entry where it belongs. */
static size_t place_of(const wh_refused *set, int64_t id)
{
	size_t i = home_of(set, id);

	while (set->places[i].at && set->places[i].id != id)
		i = (i + 1) & (set->n_places - 1);
	return i;
}

int64_t wh_refused_find(const wh_refused *set, int64_t id)
{
	return set->n ? set->places[place_of(set, id)].at - 1 : -1;
}

int64_t wh_refused_first(const wh_refused *set, int64_t id, int64_t *out_since_us)
{
	const wh_refused_id *place = set->n ? &set->places[place_of(set, id)] : NULL;

	if (!place || !place->at)
		return -1;
	*out_since_us = place->since_us;
	return place->first - 1;
}

/* False: the table cannot grow. */
static bool grow(wh_refused *set)
{
	wh_refused grown = {.n_places = set->n_places ? set->n_places * 2 : PLACES_LEAST,
			    .n = set->n};

	if (grown.n_places <= PLACES_MOST)
		grown.places = calloc(grown.n_places, sizeof(*grown.places));
	if (!grown.places)
		return false;
	for (size_t i = 0; i < set->n_places; i++)
		if (set->places[i].at)
			grown.places[place_of(&grown, set->places[i].id)] =
				set->places[i];
	free(set->places);
	*set = grown;
	return true;
}

void wh_refused_add(wh_refused *set, int64_t id, int64_t answered, int64_t now_us)
{
	size_t i;

	if (set->n >= set->n_places / 2 && !grow(set))
		wh_refused_clear(set);
	if (!set->n_places && !grow(set))
		return;
	i = place_of(set, id);
	if (!set->places[i].at) {
		set->n++;
		set->places[i] = (wh_refused_id){
			.id = id, .first = answered + 1, .since_us = now_us};
	}
	set->places[i].at = answered + 1;
}

void wh_refused_remove(wh_refused *set, int64_t id)
{
	size_t mask = set->n_places - 1, i, empty;

	if (!set->n)
		return;
	i = empty = place_of(set, id);
	if (!set->places[i].at)
		return;
	set->n--;
	/* Later entries move up, unless that would put them before their home. */
	while (i = (i + 1) & mask, set->places[i].at) {
		size_t home = home_of(set, set->places[i].id);

		if (((i - home) & mask) < ((i - empty) & mask))
			continue;
		set->places[empty] = set->places[i];
		empty = i;
	}
	set->places[empty] = (wh_refused_id){.at = 0};
}

void wh_refused_clear(wh_refused *set)
{
	free(set->places);
	*set = (wh_refused){0};
}
