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
 * Wherry is a guest on it: it never commits, closes, listens or changes settings, works
 * inside savepoints, and leaves no prepared statement but the unnamed one.
 *
 * @param conn  The application's connection; borrowed until wherry_db_close().
 * @param out   Receives the wrapper; given, close with wherry_db_close().
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID (NULL connection), WHERRY_UNSUPPORTED (it is in
 *         pipeline mode, or its encoding is not UTF-8), WHERRY_CLOSED or WHERRY_NOMEM.
 *
 * Threads: as the connection, one at a time.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_postgres_borrow(struct pg_conn *conn,
							      wherry_db **out,
							      wherry_error *err);

/**
 * Return the connection behind a wrapper, for SQL of the application's own: in a handler, on
 * the connection of wherry_call_begin().
 *
 * @return the connection; borrowed, as long as the wrapper is open.  NULL: it is not one of
 *         PostgreSQL's.  Leave its transactions, settings and closing to Wherry.
 */
WHERRY_API struct pg_conn *wherry_postgres_handle(wherry_db *db);

WHERRY_END

#endif
