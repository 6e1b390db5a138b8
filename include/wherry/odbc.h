/*
 * Join the application's own ODBC connection to SQL Server, and its transaction.
 */
#ifndef WHERRY_ODBC_H
#define WHERRY_ODBC_H

#include <wherry/db.h>

WHERRY_BEGIN

/**
 * Wrap the application's connection.
 *
 * Wherry is a guest on it: it never commits, closes or changes settings, and works inside
 * savepoints if a transaction is open, which it is wherever SQL_ATTR_AUTOCOMMIT is off.  Its
 * statement handles are freed when the wrapper is closed.  The connection needs the options
 * with which drivers begin: QUOTED_IDENTIFIER and the ANSI settings on.
 *
 * With XACT_ABORT on, SQL Server rolls the whole transaction back when a statement fails.
 * Wherry's calls then return WHERRY_CONFLICT until the application has rolled back.
 *
 * @param dbc  The application's SQLHDBC, connected; borrowed until wherry_db_close().
 * @param out  Receives the wrapper; given, close with wherry_db_close().
 * @param err  Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID (NULL connection), WHERRY_UNSUPPORTED (another database
 *         than SQL Server, or a build without ODBC), WHERRY_CLOSED or WHERRY_NOMEM.
 *
 * Threads: as the connection, one at a time.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_odbc_borrow(void *dbc, wherry_db **out,
							  wherry_error *err);

WHERRY_END

#endif
