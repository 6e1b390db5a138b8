/*
 * A log on the SQL Server that WHERRY_TEST_MSSQL names, in the words of the suites.
 */
#ifndef WHERRY_TEST_TSQL_LOG_H
#define WHERRY_TEST_TSQL_LOG_H

#include <stddef.h>

/* SQL that makes a view in which it looks like a native table; see relay_log.h. */
extern const char tsql_log_view[];

/* No tables, views and procedures are left. */
void tsql_log_clear(void);

void tsql_log_translate(const char *sql, char *out, size_t cap);

#endif
