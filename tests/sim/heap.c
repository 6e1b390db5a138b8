/*
 * Memory for SQLite alone, by powers of two: half of a schedule's time went into the
 * sanitizer's bookkeeping of it.  What the relay itself allocates stays watched.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { LEAST_BITS = 6, CLASSES = 40, HEAD = 16, CHUNK = 1 << 20 };

typedef struct head {
	union {
		size_t class;
		struct head *next; /* while it is free */
	};
} head;

static struct {
	head *free[CLASSES];
	char *chunk; /* the next pieces come from here */
	size_t left;
} heap;

static size_t class_of(int n)
{
	size_t class = 0;

	while (((size_t)1 << (LEAST_BITS + class)) < (size_t)n + HEAD)
		class ++;
	return class;
}

static size_t bytes(size_t class)
{
	return (size_t)1 << (LEAST_BITS + class);
}

static head *cut(size_t n)
{
	head *h;

	if (n > CHUNK / 4)
		return malloc(n);
	if (heap.left < n) {
		heap.chunk = malloc(CHUNK);
		heap.left = heap.chunk ? CHUNK : 0;
	}
	if (heap.left < n)
		return NULL;
	h = (head *)(void *)heap.chunk;
	heap.chunk += n;
	heap.left -= n;
	return h;
}

static void *take(int n)
{
	size_t class = class_of(n);
	head *h = heap.free[class];

	if (h)
		heap.free[class] = h->next;
	else
		h = cut(bytes(class));
	if (!h)
		return NULL;
	h->class = class;
	return (char *)h + HEAD;
}

static head *head_of(void *p)
{
	return (head *)(void *)((char *)p - HEAD);
}

static void give(void *p)
{
	head *h = head_of(p);
	size_t class = h->class;

	h->next = heap.free[class];
	heap.free[class] = h;
}

static int size_of(void *p)
{
	return p ? (int)(bytes(head_of(p)->class) - HEAD) : 0;
}

static void *resize(void *p, int n)
{
	void *q;

	if (n <= size_of(p))
		return p;
	q = take(n);
	if (q) {
		memcpy(q, p, (size_t)size_of(p));
		give(p);
	}
	return q;
}

static int round_up(int n)
{
	return (int)(bytes(class_of(n)) - HEAD);
}

static int begin(void *ctx)
{
	(void)ctx;
	return SQLITE_OK;
}

static void end(void *ctx)
{
	(void)ctx;
}

void sim_heap(void)
{
	static const sqlite3_mem_methods methods = {
		.xMalloc = take,
		.xFree = give,
		.xRealloc = resize,
		.xSize = size_of,
		.xRoundup = round_up,
		.xInit = begin,
		.xShutdown = end,
	};

	(void)sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	(void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}
