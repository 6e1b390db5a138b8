/*
 * What statements of ours cost on PostgreSQL: their plans, whatever their values are, and what they read.
 */
#ifndef WHERRY_TEST_POSTGRES_PLAN_H
#define WHERRY_TEST_POSTGRES_PLAN_H

#include "db/driver.h"
#include "db/sql.h"

enum { POSTGRES_PLAN_MAX = 16384 };

/* Of the statement with that name, on this connection; valid until the next call. */
const char *postgres_generic_plan(wherry_db *db, const wh_sql *sql, const char *name);

/* Fails the test and prints the plan, unless it has each of the wanted words and none of the others.
 * Both lists end with NULL. */
void postgres_check_plan(wherry_db *db, const wh_sql *sql, const char *name,
			 const char *const *wanted, const char *const *unwanted);

/* How many entries of the table's indexes were read so far.  What a session read counts when it has
 * ended, and what this connection read at once. */
int64_t postgres_entries_read(wherry_db *db, const char *table);

#endif
