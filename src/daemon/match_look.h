/*
 * Looks at the outboxes of a set.  match_look.c does so over one connection to a PostgreSQL database with many schemas,
 * match_files.c in the files of a folder.
 */
#ifndef WH_DAEMON_MATCH_LOOK_H
#define WH_DAEMON_MATCH_LOOK_H

#include "base/process.h"
#include "daemon/plan.h"
#include "db/driver.h"
#include "store/name.h"

/* The holder of the lock of sleepers, without which writers notify nobody. */
typedef enum wh_match_lock {
	WH_LOCK_NONE, /* Nobody: writers share it. */
	WH_LOCK_OURS, /* This connection. */
	WH_LOCK_OTHER, /* Another session: its relay hears writers, and so does this one. */
} wh_match_lock;

/* The answer of a look at an outbox. */
typedef struct wh_match_found {
	bool rows;       /* A row is not covered by the position. */
	bool exceptions; /* A message waits or failed. */
	bool paused;
	int64_t due_us;    /* Time until an exception may be tried; -1: none may. */
	int64_t leased_us; /* Time that a relay has the lease; 0: none has. */
	bool ended;        /* The process of that relay has ended. */
} wh_match_found;

/* Why there is no answer of a look. */
typedef enum wh_match_trouble {
	WH_MATCH_FINE,
	WH_MATCH_LOCKED, /* Somebody else has the database for a moment. */
	WH_MATCH_NONE,   /* It has no such outbox. */
	WH_MATCH_FAILED
} wh_match_trouble;

enum { WH_MATCH_NAME_MOST = 255 }; /* Bytes of the name of a schema, or of a file. */

typedef struct wh_match_row {
	char schema[WH_MATCH_NAME_MOST + 1]; /* Its name; of a file, too. */
	int64_t key; /* Number of the table or the file; 0: the schema has no outbox. */
	wh_match_lock lock;
	wh_match_found found;
	wh_match_trouble trouble;
	char why[160]; /* The trouble. */
} wh_match_row;

/* The key of a notification after which the list must be read again. */
#define WH_MATCH_LIST (-1)

typedef struct wh_match_db wh_match_db;

/* relay->match is the pattern. */
wherry_code wh_match_open(const wh_plan_relay *relay, wh_match_db **out,
			  wherry_error *err);
void wh_match_close(wh_match_db *m);

/* The name of the outbox in each schema. */
const char *wh_match_table(const wh_match_db *m);
/* The URL of the database of one outbox, which the caller frees; NULL: all are in one database. */
char *wh_match_url(const wh_match_db *m, const wh_match_row *row);

/* "schema": one place, as a field of the log. */
const char *wh_match_what(const wh_match_db *m);
/* Why a set is empty: no place matches, or none of those that match has an outbox. */
const char *wh_match_none(const wh_match_db *m, bool any_place);
/* Does a notification mean that a row was committed?  Otherwise a commit may follow. */
bool wh_match_exact(const wh_match_db *m);
/* Is it one after which several looks must follow, since the commit may be on its way? */
bool wh_match_stirs(const wh_match_db *m);
/* How often wh_match_heard() must be called; 0: when the descriptor can be read. */
int64_t wh_match_hear_us(const wh_match_db *m);
/* Time between two looks at an outbox about which nothing is heard. */
int64_t wh_match_probe_us(const wh_match_db *m);
/* Most outboxes to look at in one turn of the thread. */
size_t wh_match_look_most(const wh_match_db *m);

int wh_match_fd(const wh_match_db *m); /* -1: it cannot listen, behind a pooler. */

/* Read up to `most` schemas in the order of their tables' numbers; those without an outbox come
 * first. */
wherry_code wh_match_list(wh_match_db *m, wh_match_row *out, size_t most, size_t *out_n,
			  wherry_error *err);

wherry_code wh_match_listen(wh_match_db *m, const int64_t *keys, size_t n, bool on,
			    wherry_error *err);

/* Notifications that have arrived; one of table 0: the connection is lost. */
size_t wh_match_heard(wh_match_db *m, wh_heard *out, size_t most);

/* Take the sleepers' locks: sets rows->lock.  Look afterwards. */
wherry_code wh_match_sleep(wh_match_db *m, wh_match_row *const *rows, size_t n,
			   wherry_error *err);
/* Release them. */
wherry_code wh_match_wake(wh_match_db *m, wh_match_row *const *rows, size_t n,
			  wherry_error *err);

/* Look into these outboxes: sets rows->found, or rows->trouble.  Fails if one of several schemas is gone. */
wherry_code wh_match_look(wh_match_db *m, wh_match_row *const *rows, size_t n,
			  wherry_error *err);

#endif
