/*
 * A relay's whole life on a database, with faults: see life.c.
 */
#ifndef WHERRY_FAULT_LIFE_H
#define WHERRY_FAULT_LIFE_H

#include <stddef.h>

typedef struct life_target {
	void (*make)(char *url, size_t cap); /* an empty one, instead of the one before */
	void (*drop)(void);
	const char *lease; /* of relays; one that was left is waited for */
	int stride;        /* every so many-th fault only, where one life takes long */
} life_target;

/* Run all tests; returns the failures. */
int life_tests(const life_target *target);

#endif
