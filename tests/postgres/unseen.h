/*
 * Commits that are in the server's log and that nobody sees yet: they wait for a standby that
 * never comes, while synchronous_standby_names looks empty to all who ask.
 */
#ifndef WHERRY_TEST_POSTGRES_UNSEEN_H
#define WHERRY_TEST_POSTGRES_UNSEEN_H

#include <stdbool.h>

#include <libpq-fe.h>

/* A connection whose commits will wait, once postgres_hold_commits() was called.  Those that
 * are made after this one wait for no standby; those that are there already have to SET
 * synchronous_commit = local. */
PGconn *postgres_unseen(void);
void postgres_hold_commits(void);

/* The same, with a setting that all can read; and without it. */
void postgres_name_standby(bool named);

/* Begin a statement on it, and leave it there; then let it end, and close it. */
void postgres_put_unseen(PGconn *conn, const char *sql);
void postgres_let_be_seen(PGconn *conn);

/* As if there had been none of this, whatever became of the test. */
void postgres_forget_unseen(void);

#endif
