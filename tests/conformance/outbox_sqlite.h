/*
 * SQLite as back ends of the outbox's suite: a file, memory, and the application's own
 * handle.
 */
#ifndef WHERRY_OUTBOX_SQLITE_H
#define WHERRY_OUTBOX_SQLITE_H

#include "outbox_suite.h"

#include <sqlite3.h>

extern const outbox_backend outbox_sqlite_file, outbox_sqlite_memory,
	outbox_sqlite_borrowed;

/* Run SQL, one statement or several; out receives the first column of the last row. */
bool outbox_sqlite_run(sqlite3 *handle, const char *sql, char *out, size_t cap);

/* The same as another process would, on a file; place is a wherry_temp. */
bool outbox_sqlite_raw(void *place, wherry_db *db, const char *sql, char *out,
		       size_t cap);

#endif
