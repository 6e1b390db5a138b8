/*
 * The messages that the destination refused, and when it refused them.
 *
 * One refusal says nothing about a message: the destination may refuse all of them.  If
 * the destination then takes another message and refuses this one again, this message is
 * the cause.
 */
#ifndef WH_RELAY_REFUSED_H
#define WH_RELAY_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wh_refused_id {
	int64_t id;
	/* wh_destination.answered at the last refusal, plus one; 0: this entry is free. */
	int64_t at;
	int64_t first;    /* The same at the first refusal. */
	int64_t since_us; /* When the first refusal came, by the monotonic clock. */
} wh_refused_id;

/* A hash table.  It is a hint: if it is full or memory runs out, it is emptied. */
typedef struct wh_refused {
	wh_refused_id *places;
	size_t n_places; /* A power of two, or 0. */
	size_t n;
} wh_refused;

/* The value of `answered` at the last refusal of the message; -1: it was not refused. */
int64_t wh_refused_find(const wh_refused *set, int64_t id);

/* The value of `answered` at the first refusal of the message, and the time; -1: it was not
 * refused. */
int64_t wh_refused_first(const wh_refused *set, int64_t id, int64_t *out_since_us);

void wh_refused_add(wh_refused *set, int64_t id, int64_t answered, int64_t now_us);
void wh_refused_remove(wh_refused *set, int64_t id);
void wh_refused_clear(wh_refused *set);

#endif
