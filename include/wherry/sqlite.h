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
 * Wherry never commits, closes the connection or changes its settings, and works inside savepoints.
 * Its prepared statements stay on the handle until wherry_db_close(); call that before
 * sqlite3_close().
 *
 * If the database file is replaced, moved away or deleted while the connection is open, SQLite keeps
 * using the old file, and the rows and messages that are written there are lost.  Every call that
 * begins a transaction or a savepoint of Wherry's then fails with WHERRY_CLOSED, and the error names
 * the file.  A call that only runs statements inside the application's transaction may succeed, on
 * the old file.  Close the wrapper, then the handle, and open both again.
 *
 * @param handle  The application's connection; borrowed until wherry_db_close().
 * @param out     Receives the wrapper; the caller closes it with wherry_db_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID (NULL handle) or WHERRY_NOMEM.
 *
 * Threads: one at a time, together with the handle.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_sqlite_borrow(struct sqlite3 *handle,
							    wherry_db **out,
							    wherry_error *err);

/**
 * Return the SQLite handle of a connection, for the application's own SQL, for example in a handler
 * on the connection of wherry_call_begin().
 *
 * @return The handle; borrowed until `db` is closed.  NULL: the database is not SQLite.  Only Wherry
 *         may end transactions on it, change its settings or close it.  Finish statements before
 *         `db` is closed.
 */
WHERRY_API struct sqlite3 *wherry_sqlite_handle(wherry_db *db);

WHERRY_END

#endif
