#include "relay/places.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bucket(const wh_places *set, int64_t number)
{
	uint64_t hash = (uint64_t)number * 0x9e3779b97f4a7c15u;

	return (uint32_t)(hash >> 32) & (set->n_buckets - 1);
}

static void link(wh_places *set, uint32_t at)
{
	wh_place *p = &set->all[at];
	uint32_t *id = &set->by_id[bucket(set, p->id)];
	uint32_t *order = &set->by_order[bucket(set, p->order)];

	p->next_by_id = *id;
	*id = at;
	p->next_by_order = *order;
	*order = at;
}

static bool grow(wh_places *set)
{
	uint32_t n = set->n_buckets ? set->n_buckets * 2 : 64;
	wh_place *all = realloc(set->all, (n + 1) * sizeof(*all));
	uint32_t *by_id = calloc(n, sizeof(*by_id));
	uint32_t *by_order = calloc(n, sizeof(*by_order));

	if (all)
		set->all = all;
	if (!all || !by_id || !by_order) {
		free(by_id);
		free(by_order);
		return false;
	}
	free(set->by_id);
	free(set->by_order);
	set->by_id = by_id;
	set->by_order = by_order;
	set->n_buckets = n;
	for (uint32_t i = 1; i <= set->used;
	     i++) /* All entries are in use; else the map would not grow. */
		link(set, i);
	return true;
}

static uint32_t find_id(const wh_places *set, int64_t id)
{
	uint32_t at = set->n_buckets ? set->by_id[bucket(set, id)] : 0;

	while (at && set->all[at].id != id)
		at = set->all[at].next_by_id;
	return at;
}

static uint32_t find_order(const wh_places *set, int64_t order)
{
	uint32_t at = set->n_buckets ? set->by_order[bucket(set, order)] : 0;

	while (at && set->all[at].order != order)
		at = set->all[at].next_by_order;
	return at;
}

bool wh_places_add(wh_places *set, int64_t id, int64_t order)
{
	uint32_t at = set->free;

	if (find_id(set, id))
		return true;
	if (at) {
		set->free = set->all[at].next_by_id;
	} else {
		if (set->used == set->n_buckets && !grow(set))
			return false;
		at = ++set->used;
	}
	set->all[at] = (wh_place){.id = id, .order = order};
	link(set, at);
	set->n++;
	return true;
}

bool wh_places_of(const wh_places *set, int64_t id, int64_t *out_order)
{
	uint32_t at = find_id(set, id);

	if (at)
		*out_order = set->all[at].order;
	return at;
}

bool wh_places_at(const wh_places *set, int64_t order, int64_t *out_id)
{
	uint32_t at = find_order(set, order);

	if (at)
		*out_id = set->all[at].id;
	return at;
}

void wh_places_drop(wh_places *set, int64_t order)
{
	uint32_t at = find_order(set, order), *p;

	if (!at)
		return;
	for (p = &set->by_id[bucket(set, set->all[at].id)]; *p != at;)
		p = &set->all[*p].next_by_id;
	*p = set->all[at].next_by_id;
	for (p = &set->by_order[bucket(set, order)]; *p != at;)
		p = &set->all[*p].next_by_order;
	*p = set->all[at].next_by_order;
	set->all[at].next_by_id = set->free;
	set->free = at;
	set->n--;
}

void wh_places_clear(wh_places *set)
{
	free(set->all);
	free(set->by_id);
	free(set->by_order);
	*set = (wh_places){0};
}
