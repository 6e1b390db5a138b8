/*
 * Join the application's own PostgreSQL connection and transaction.
 */
#ifndef WHERRY_POSTGRES_H
#define WHERRY_POSTGRES_H

#include <wherry/db.h>

struct pg_conn; /* libpq's PGconn */

WHERRY_BEGIN

/**
 * Wrap the application's connection.
 *
 * Wherry never commits, closes the connection, listens on it or changes its settings.  It works
 * inside savepoints, and leaves no prepared statement except the unnamed one.  If the database is
 * not in UTF-8, each call sets client_encoding, and then sets it back.
 *
 * @param conn  The application's connection; borrowed until wherry_db_close().
 * @param out   Receives the wrapper; the caller closes it with wherry_db_close().
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID (NULL connection), WHERRY_UNSUPPORTED (it is in
 *         pipeline mode, or its encoding is not UTF-8), WHERRY_CLOSED or WHERRY_NOMEM.
 *
 * Threads: one at a time, together with the connection.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_postgres_borrow(struct pg_conn *conn,
							      wherry_db **out,
							      wherry_error *err);

/**
 * Return the libpq connection of a connection, for the application's own SQL, for example in a
 * handler on the connection of wherry_call_begin().
 *
 * @return The libpq connection; borrowed until `db` is closed.  NULL: the database is not
 *         PostgreSQL.  Only Wherry may end transactions on it, change its settings or close it.
 */
WHERRY_API struct pg_conn *wherry_postgres_handle(wherry_db *db);

WHERRY_END

#endif
