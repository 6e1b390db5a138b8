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
 * Wherry never commits, closes the connection or changes its settings.  If a transaction is open,
 * as always while SQL_ATTR_AUTOCOMMIT is off, Wherry works inside savepoints.  It frees its
 * statement handles when the wrapper is closed.  On the connection QUOTED_IDENTIFIER and the ANSI
 * settings must be on, which is the default of drivers.
 *
 * With XACT_ABORT on, SQL Server rolls the whole transaction back when a statement fails.
 * Wherry's calls then return WHERRY_CONFLICT until the application has rolled back.
 *
 * @param dbc  The application's SQLHDBC, connected; borrowed until wherry_db_close().
 * @param out  Receives the wrapper; the caller closes it with wherry_db_close().
 * @param err  Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID (NULL connection), WHERRY_UNSUPPORTED (another database
 *         than SQL Server, or a build without ODBC), WHERRY_CLOSED or WHERRY_NOMEM.
 *
 * Threads: one at a time, together with the connection.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_odbc_borrow(void *dbc, wherry_db **out,
							  wherry_error *err);

WHERRY_END

#endif
