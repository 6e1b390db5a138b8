/*
 * The messages that a relay took from the WAL and that the position does not cover yet: looks pass over
 * them, and the position then covers them.
 */
#ifndef WH_RELAY_ENGINE_TAKEN_H
#define WH_RELAY_ENGINE_TAKEN_H

#include <stdbool.h>

#include "log/cursor.h"

typedef struct wh_taken_one {
	int64_t id;
	uint64_t tx;   /* Its transaction, which may not be visible yet. */
	uint64_t name; /* Hash of its message id: another message may get the id. */
	bool met;      /* The look in progress met it. */
	bool missed;   /* A look that brought all rows, or a sweep, did not meet it. */
	bool held;     /* It waits behind another one of its key. */
} wh_taken_one;

typedef struct wh_taken {
	wh_taken_one *all; /* In the order of their ids. */
	size_t n, cap;
} wh_taken;

void wh_taken_clear(wh_taken *t);

/* False: out of memory.  One with the id that is there is replaced. */
bool wh_taken_add(wh_taken *t, int64_t id, uint64_t tx, wh_view message_id);
void wh_taken_remove(wh_taken *t, int64_t id);

/* NULL: there is none. */
wh_taken_one *wh_taken_find(const wh_taken *t, int64_t id);

/* Is it this message?  message_id: without a text if it was not read. */
bool wh_taken_is(const wh_taken_one *one, wh_view message_id);

/* A look ended.  read: the position behind it; NULL: it failed, or read another table.  all: it has met all rows that are visible.  One that the
 * position covers is forgotten, and one whose row was deleted before a look met it.
 * True: one was met that was missed before, and it is held. */
bool wh_taken_looked(wh_taken *t, const wh_position *read, bool all);

#endif
