#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct wh_arena_block {
	wh_arena_block *next; /* The block before this one. */
	size_t cap, len;
	alignas(max_align_t) char data[];
};

enum { BLOCK = 64 * 1024 };

void *wh_arena_alloc(wh_arena *arena, size_t n)
{
	size_t size = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	wh_arena_block *block = arena->block;

	if (size < n)
		return NULL;
	if (!block || size > block->cap - block->len) {
		size_t cap = size > BLOCK ? size : BLOCK;

		if (cap > SIZE_MAX - sizeof(*block))
			return NULL;
		block = malloc(sizeof(*block) + cap);
		if (!block)
			return NULL;
		block->next = arena->block;
		block->cap = cap;
		block->len = 0;
		arena->block = block;
	}
	block->len += size;
	arena->used += size;
	return block->data + block->len - size;
}

char *wh_arena_copy(wh_arena *arena, const void *data, size_t len)
{
	char *copy = len < SIZE_MAX ? wh_arena_alloc(arena, len + 1) : NULL;

	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, data, len);
	copy[len] = 0;
	return copy;
}

/* Keep one block of the standard size, so that the next batch needs no malloc(). */
void wh_arena_reset(wh_arena *arena)
{
	wh_arena_block *kept = NULL;

	for (wh_arena_block *block = arena->block, *next; block; block = next) {
		next = block->next;
		if (!kept && block->cap == BLOCK)
			kept = block;
		else
			free(block);
	}
	if (kept) {
		kept->next = NULL;
		kept->len = 0;
	}
	arena->block = kept;
	arena->used = 0;
}

void wh_arena_clear(wh_arena *arena)
{
	for (wh_arena_block *block = arena->block, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	arena->block = NULL;
	arena->used = 0;
}
