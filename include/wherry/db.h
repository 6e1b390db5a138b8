/*
 * One SQL connection, opened here from a URL or borrowed from the application (see
 * wherry/sqlite.h, wherry/postgres.h and wherry/odbc.h).
 */
#ifndef WHERRY_DB_H
#define WHERRY_DB_H

#include <stdbool.h>

#include <wherry/config.h>
#include <wherry/error.h>

/* One connection.  Use it from one thread at a time. */
typedef struct wherry_db wherry_db;

WHERRY_BEGIN

/**
 * Open a connection.
 *
 * @param url     "sqlite:PATH" or "sqlite::memory:".  An SQLite file is put into WAL
 *                mode; commits are on disk when they return (setting db.synchronous).
 *                "postgres://USER@HOST/DATABASE": a connection URL of libpq.
 *                "mssql://USER@HOST/DATABASE", in builds with ODBC.
 * @param config  Settings; borrowed for the call.  NULL: the defaults.
 * @param out     Receives the connection; the caller closes it with wherry_db_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (unknown scheme, malformed URL); WHERRY_NOTFOUND (no
 *         such file, unless db.create is on); WHERRY_DENIED; WHERRY_CORRUPT (not a
 *         database); WHERRY_BUSY; WHERRY_CLOSED (the server refuses connections);
 *         WHERRY_TIMEOUT (the server does not answer); WHERRY_IO; WHERRY_NOMEM.
 *
 * Blocks: on SQLite while another connection writes, for at most db.busy_timeout.  On a
 * server until the login is complete, for at most 10 s; on PostgreSQL connect_timeout in
 * the URL sets another limit.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_db_open(const char *url,
						      const wherry_config *config,
						      wherry_db **out, wherry_error *err);

/** Close a connection, and roll back a transaction that Wherry opened on it.  A borrowed handle
 *  stays open.  NULL is allowed. */
WHERRY_API void wherry_db_close(wherry_db *db);

/**
 * Begin a write transaction.
 *
 * If the application has opened a transaction on a borrowed connection, make a savepoint in it.
 *
 * @return WHERRY_OK; WHERRY_BUSY (another writer held the database for longer than
 *         db.busy_timeout); WHERRY_READONLY (on PostgreSQL 13 the first write fails instead);
 *         WHERRY_INVALID (wherry_db_begin() was called already).
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_db_begin(wherry_db *db, wherry_error *err);

/** Commit the transaction that wherry_db_begin() began.  On failure it is rolled back. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_db_commit(wherry_db *db, wherry_error *err);

/** Roll back the transaction that wherry_db_begin() began, if there is one. */
WHERRY_API void wherry_db_rollback(wherry_db *db);

/** Return whether a transaction is open on the connection, Wherry's or the application's. */
WHERRY_API bool wherry_db_in_transaction(wherry_db *db);

/** Make the call that runs on the connection return WHERRY_INTERRUPTED soon, also if it waits
 *  for a lock.  On a borrowed SQLite handle the application's busy handler decides how soon.
 *  Threads: any, while the connection is open. */
WHERRY_API void wherry_db_interrupt(wherry_db *db);

WHERRY_END

#endif
