/*
 * The connection of an application, to SQLite, PostgreSQL or SQL Server, which Wherry borrows.
 */
#ifndef WHERRY_CRASH_APP_POSTGRES_H
#define WHERRY_CRASH_APP_POSTGRES_H

#include <stdbool.h>

#include <wherry/wherry.h>

typedef struct app {
	wherry_db *db; /* Borrowed from one of these connections. */
	void *postgres, *sqlite, *odbc;
} app;

/* Where is a URL of PostgreSQL or SQL Server, or the file of a SQLite database. */
bool app_open(app *a, const char *where, wherry_error *err);

/* Run SQL, also several statements, in the transaction that is open. */
bool app_run(app *a, const char *sql);

/* How long a lease must be so that a worker that is not killed keeps it.  Babelfish, where these
 * programs run on SQL Server's protocol, parses each statement once more in each session. */
int64_t app_lease_us(const app *a, int64_t lease_us);

#endif
