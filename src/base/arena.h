/*
 * Memory for a batch: allocated in pieces, freed all at once.
 */
#ifndef WH_BASE_ARENA_H
#define WH_BASE_ARENA_H

#include <stddef.h>

typedef struct wh_arena_block wh_arena_block;

typedef struct wh_arena {
	wh_arena_block *block; /* The newest block. */
	size_t used;           /* Bytes allocated since the last reset. */
} wh_arena;

/* clang-format off */
#define WH_ARENA_INIT {NULL, 0}
/* clang-format on */

/* Allocate n bytes, aligned for any type, valid until the reset; NULL: out of memory. */
void *wh_arena_alloc(wh_arena *arena, size_t n);

/* Copy len bytes and append a NUL; NULL: out of memory. */
char *wh_arena_copy(wh_arena *arena, const void *data, size_t len);

void wh_arena_reset(wh_arena *arena); /* Free everything, but keep one block. */
void wh_arena_clear(wh_arena *arena);

#endif
