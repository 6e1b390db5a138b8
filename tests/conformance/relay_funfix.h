/*
 * The table of the JVM library DelayedQueue as a target of the relay's suite, as relay_delayed.h.
 */
#ifndef RELAY_FUNFIX_H
#define RELAY_FUNFIX_H

#include "relay_delayed.h"

extern const char relay_funfix_sqlite_tables[], relay_funfix_sqlite_views[];
extern const char relay_funfix_postgres_tables[], relay_funfix_postgres_views[];
extern const char relay_funfix_mssql_tables[], relay_funfix_mssql_views[];

/* Also those of relay_delayed_except. */
extern const char *const relay_funfix_except[];

#endif
