/*
 * The database on SQL Server that WHERRY_TEST_MSSQL names, for suites of any model.  Tests drop
 * every table, view, trigger and procedure that is in it.
 */
#ifndef WHERRY_MSSQL_BACKEND_H
#define WHERRY_MSSQL_BACKEND_H

#include "conformance/outbox_suite.h"

/* A text of a suite's SQL, and what T-SQL says instead. */
typedef struct mssql_word {
	const char *text, *tsql;
} mssql_word;

/*
 * False, and the test says that it is skipped: no server is named.
 *
 * @param words  Borrowed; ends with a row of NULL.
 */
bool mssql_start(const mssql_word *words);

/* On Babelfish: make the functions of SQL Server that it lacks. */
bool mssql_make_functions(void);

/* Its URL, once started. */
const char *mssql_url(void);

/* Procedures that are made for roles without rights have the rights of their owner.  Babelfish does not know EXECUTE AS OWNER:
 * WHERRY_TEST_BABELFISH names the same server as PostgreSQL, where they get them.  False: it names none. */
bool mssql_as_owner(void);

/* Babelfish, which leaves the escapes \" and \\ in what OPENJSON returns, and ignores lock hints. */
bool mssql_is_babelfish(void);

void *mssql_make(void);
void mssql_drop(void *place);
wherry_db *mssql_connect(void *place);
bool mssql_disconnect(wherry_db *db);
bool mssql_raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap);

/* Run SQL on this connection, in its transaction: the first column of the last row goes to out.
 * If that is NULL, a script, which may have several statements. */
wherry_code mssql_run(wherry_db *db, const char *sql, char *out, size_t cap,
		      wherry_error *err);

#define MSSQL_BACKEND                                                                    \
	.name = "mssql", .several = true, .make = mssql_make, .drop = mssql_drop,        \
	.connect = mssql_connect, .disconnect = mssql_disconnect, .raw = mssql_raw

#endif
