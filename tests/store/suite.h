/*
 * What the store promises to every model, on every database: written once, run on a connection.
 */
#ifndef WHERRY_STORE_SUITE_H
#define WHERRY_STORE_SUITE_H

#include "wherry_test.h"

#include <wherry/db.h>

/* Run all tests; make() gives a connection to an empty database, drop() takes it back. */
typedef struct store_backend {
	wherry_db *(*make)(void);
	void (*drop)(wherry_db *db);
} store_backend;

int store_suite_run(const char *name, const store_backend *backend);

#endif
