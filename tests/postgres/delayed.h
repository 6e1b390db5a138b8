/*
 * A delayed queue "mail" in a schema of its own.
 */
#ifndef WHERRY_TEST_POSTGRES_DELAYED_H
#define WHERRY_TEST_POSTGRES_DELAYED_H

#include <wherry/delayed.h>

/* Make it; release both with postgres_delayed_leave(). */
wherry_delayed *postgres_delayed_enter(wherry_db **out_db);
void postgres_delayed_leave(wherry_db *db, wherry_delayed *queue);

/* Run SQL there, on a connection of its own, and compare the value that it returns. */
void postgres_says(const char *sql, const char *wanted);

#endif
