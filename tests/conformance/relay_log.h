#ifndef RELAY_LOG_H
#define RELAY_LOG_H

#include "relay_suite.h"

/* Tests of a log alone. */
extern const relay_test relay_log_tests[];

/* For relay_target.views and .translate: a view in which a log looks like a native table, for statements that
 * read or write the state of a message. */
extern const char relay_log_sqlite_views[], relay_log_postgres_views[];
void relay_log_translate(const char *sql, char *out, size_t cap);

/* For relay_target.except; ends with NULL. */
extern const char *const relay_log_except[];

#endif
