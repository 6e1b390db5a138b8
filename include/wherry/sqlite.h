/*
 * Join the application's own SQLite connection and transaction.
 */
#ifndef WHERRY_SQLITE_H
#define WHERRY_SQLITE_H

#include <wherry/db.h>

struct sqlite3;

WHERRY_BEGIN

/**
 * Wrap the application's connection.
 *
 * Wherry is a guest on it: it never commits, closes or changes settings, and works
 * inside savepoints.  Its prepared statements stay on the handle until
 * wherry_db_close(); call that before sqlite3_close().
 *
 * @param handle  The application's connection; borrowed until wherry_db_close().
 * @param out     Receives the wrapper; given, close with wherry_db_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID (NULL handle) or WHERRY_NOMEM.
 *
 * Threads: as the handle, one at a time.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_sqlite_borrow(struct sqlite3 *handle,
							    wherry_db **out,
							    wherry_error *err);

WHERRY_END

#endif
