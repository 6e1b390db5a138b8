/*
 * The messages that the destination refused, and when it did.
 *
 * One refusal says nothing about a message: the destination may refuse all of them.  If the
 * destination takes another message after that and then refuses this one again, it refuses
 * this one.
 */
#ifndef WH_RELAY_REFUSED_H
#define WH_RELAY_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wh_refused_id {
	int64_t id;
	int64_t at; /* Answers of the destination by then, plus one; 0: the place is free. */
} wh_refused_id;

/* A hash table.  It is a hint: when memory is short or the table is full, it starts over. */
typedef struct wh_refused {
	wh_refused_id *places;
	size_t n_places; /* A power of two, or 0. */
	size_t n;
} wh_refused;

/* Answers of the destination by the last refusal of the message; -1: it was not refused. */
int64_t wh_refused_find(const wh_refused *set, int64_t id);

void wh_refused_add(wh_refused *set, int64_t id, int64_t answered);
void wh_refused_remove(wh_refused *set, int64_t id);
void wh_refused_clear(wh_refused *set);

#endif
