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
 * If the database file is replaced, moved away or deleted while the connection is open, SQLite goes
 * on with the old file, and what is written there is lost with it, the application's rows and the
 * messages alike.  Every call that begins a transaction or a savepoint of Wherry's then fails with
 * WHERRY_CLOSED, and the error names the file.  A call that only runs statements inside the
 * application's transaction may succeed, on the old file.  Close the wrapper, then the handle, and
 * open both again.
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
