/*
 * The SQL Server that WHERRY_TEST_MSSQL names: the tables of a test are made in its database and
 * dropped again.
 */
#ifndef WHERRY_TEST_TSQL_H
#define WHERRY_TEST_TSQL_H

#include "wherry_test.h"

#include <wherry/wherry.h>

/* Is a server named?  If not, the test says so, as a skipped one. */
bool tsql_start(const char *what);
const char *tsql_url(void);

/* Babelfish, which stands in for SQL Server, differs in some details. */
bool tsql_is_babelfish(void);

/* A connection as a program's own; given. */
wherry_db *tsql_connect(void);
void tsql_disconnect(wherry_db *db);

/* The last call. */
void tsql_end(void);

/* No tables are left. */
void tsql_clear(void);

/* SQL of another program, in the words of the suites, on a connection that all calls share. */
bool tsql_raw(const char *sql, char *out, size_t cap);

/* The suites speak SQLite's SQL, with times in milliseconds; this is the same in T-SQL. */
void tsql_translate(const char *sql, char *out, size_t cap);

#endif
