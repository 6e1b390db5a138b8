/*
 * Memory for a batch: allocated piece by piece, freed as one.
 */
#ifndef WH_BASE_ARENA_H
#define WH_BASE_ARENA_H

#include <stddef.h>

typedef struct wh_arena_block wh_arena_block;

typedef struct wh_arena {
	wh_arena_block *block; /* the newest */
	size_t used;           /* bytes handed out since the last reset */
} wh_arena;

/* clang-format off */
#define WH_ARENA_INIT {NULL, 0}
/* clang-format on */

/* n bytes aligned for anything, valid until reset; NULL: out of memory. */
void *wh_arena_alloc(wh_arena *arena, size_t n);

/* A copy of len bytes and a NUL behind them; NULL: out of memory. */
char *wh_arena_copy(wh_arena *arena, const void *data, size_t len);

void wh_arena_reset(wh_arena *arena); /* all is free again; one block is kept */
void wh_arena_clear(wh_arena *arena);

#endif
