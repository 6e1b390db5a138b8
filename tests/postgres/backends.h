/*
 * PostgreSQL as a back end of the conformance suites: on connections of Wherry's, and on the
 * application's.  Call postgres_start() first.
 */
#ifndef WHERRY_TEST_BACKENDS_H
#define WHERRY_TEST_BACKENDS_H

#include <libpq-fe.h>

#include "conformance/outbox_suite.h"

extern const outbox_backend outbox_postgres_own, outbox_postgres_borrowed;

/* What the connection is to libpq. */
PGconn *backend_conn(wherry_db *db);

#endif
