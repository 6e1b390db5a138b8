/*
 * A PostgreSQL server for the tests of one program, gone when the program is; and schemas on
 * it, one for each test.
 */
#ifndef WHERRY_TEST_POSTGRES_H
#define WHERRY_TEST_POSTGRES_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

/* Start it; false: there is none here, which is said as a skipped test of TAP. */
bool postgres_start(void);

/* The same, with up to four settings of the server: "wal_level=logical"; ends with NULL. */
bool postgres_start_with(const char *const *settings);
bool postgres_start_logical(void); /* its log can be streamed */

/* Let the role of hostile.sql in. */
bool postgres_let_in(void);

typedef struct postgres_place {
	char name[32];
	char url[200];     /* as a superuser, who owns what is made */
	char app_url[240]; /* as an ordinary role: see postgres_lower() */
	bool lowered;
} postgres_place;

/*
 * An empty schema, which the URL leads to.  As in SQLite's tables of an outbox, numbers of milliseconds can be
 * written into its times and subtracted from them, so that suites need not know how a
 * database keeps time.
 */
void postgres_make(postgres_place *out);
void postgres_drop(const postgres_place *place);

/*
 * Places of one recipe, which is any address, are made the same way and used one after the other.  False: nobody left
 * one, so that a test makes it, fills it and notes it.  Leaving keeps what was noted if the test changed nothing but
 * rows: then the next one finds the tables as they were noted.  Anything else is dropped.
 */
bool postgres_again(const void *recipe, postgres_place *out);
void postgres_note(const void *recipe, const postgres_place *place);
void postgres_leave_place(const postgres_place *place);

/*
 * Grant on a table what `--grant` grants, each kind of its model to a role, and let app_url's role be a member of
 * all of them: it has no other right.  Nobody may call a function unless it was granted, and first in its search
 * path is a schema where another ordinary role made functions, operators, a cast and tables with the names of those
 * that Wherry uses.  Whatever of it runs fails.
 */
struct wh_model;
void postgres_lower(postgres_place *place, const struct wh_model *model,
		    const char *table);

/* The same where a test needs but one, with the URL copied to url. */
extern postgres_place postgres_here;
void postgres_enter(char *url, size_t cap);
void postgres_leave(void);
void postgres_lower_here(const struct wh_model *model, const char *table, char *url,
			 size_t cap);
bool postgres_enter_again(const void *recipe, char *url, size_t cap);
void postgres_note_here(const void *recipe);

/* The same where there may be replication slots: they outlive tables, and a server has few. */
void postgres_leave_slots(void);

/* Run SQL, one statement or several, as another program would; out receives the first
 * column of the last row, times as milliseconds.  Prints what goes wrong.  postgres_raw()
 * says in PostgreSQL's words what suites say in SQLite's, and keeps its connection for the next such
 * call, which finds it as a new one. */
bool postgres_raw(const char *url, const char *sql, char *out, size_t cap);
bool postgres_exec(PGconn *conn, const char *sql, char *out, size_t cap);

/* A transaction that has run this, and is open; and its end: "COMMIT". */
PGconn *postgres_begin(const char *sql);
PGconn *postgres_begin_put(const char *isolation, const char *key); /* a message */
void postgres_end(PGconn *conn, const char *how);

/* Wait until a session of the server waits for another one's transaction. */
void postgres_await_lock(void);

/* Its folder, which is the host of a URL too; and its first process. */
const char *postgres_folder(void);

#endif
