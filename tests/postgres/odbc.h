/*
 * The test server's schemas behind psqlODBC.
 */
#ifndef WHERRY_TEST_POSTGRES_ODBC_H
#define WHERRY_TEST_POSTGRES_ODBC_H

#include "postgres/server.h"

void postgres_odbc_url(const postgres_place *place, char *url, size_t cap);

#endif
