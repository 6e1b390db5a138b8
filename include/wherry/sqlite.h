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

/**
 * Return the handle behind a connection, for SQL of the application's own: in a handler,
 * on the connection of wherry_call_begin().
 *
 * @return the handle; borrowed, as long as the connection is open.  NULL: it is not one of
 *         SQLite's.  Leave its transactions, settings and closing to Wherry, and finish
 *         statements before the connection is closed.
 */
WHERRY_API struct sqlite3 *wherry_sqlite_handle(wherry_db *db);

WHERRY_END

#endif
