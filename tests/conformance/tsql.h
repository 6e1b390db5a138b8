/*
 * The SQL Server that WHERRY_TEST_MSSQL names: the tables of a test are made in its database and
 * dropped again.
 */
#ifndef WHERRY_TEST_TSQL_H
#define WHERRY_TEST_TSQL_H

#include "wherry_test.h"

#include <wherry/wherry.h>

#include "relay_suite.h"

/* Is a server named?  If not, the test says so, as a skipped one. */
bool tsql_start(void);

/* A connection as a program's own; given. */
wherry_db *tsql_connect(void);
wherry_db *tsql_connect_as(const wh_db_options *options);
void tsql_disconnect(wherry_db *db);

/* The last call: closes the connections that were given back. */
void tsql_end(void);

/* No tables, views and procedures are left. */
void tsql_clear(void);

/* As a target of the relay's suite, and the suite on such a target. */
void tsql_enter(char *to, size_t cap);
int tsql_relays(const relay_target *target);
#define TSQL_RELAYS                                                                      \
	.make = tsql_enter, .drop = tsql_clear, .connect = tsql_connect_as,              \
	.disconnect = tsql_disconnect, .polls = true, .patience_us = 200 * WH_SECOND

/* Before its first step: where this relay's statements have the hint, they pass over rows whose ids are in the
 * table "locked", as SQL Server passes over rows that others have locked.  A TDS server at hand ignores it. */
#define TSQL_BY_LOCKS                                                                    \
	" WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK, INDEX(1), FORCESEEK"
void tsql_pass_over_locked(wherry_relay *relay, const char *hint);

/* SQL of another program, in the words of the suites, on a connection that all calls share. */
bool tsql_raw(const char *sql, char *out, size_t cap);

/* The suites speak SQLite's SQL, with times in milliseconds; this is the same in T-SQL. */
void tsql_translate(const char *sql, char *out, size_t cap);

/* The same, of a view "native" that stands for the outbox. */
void tsql_translate_native(const char *sql, char *out, size_t cap);

#endif
