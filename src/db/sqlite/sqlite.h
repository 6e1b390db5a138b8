/*
 * What the files of the SQLite driver share.
 */
#ifndef WH_DB_SQLITE_H
#define WH_DB_SQLITE_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "db/driver.h"

/* Notices commits of other connections; see sqlite_watch.c. */
typedef struct sqlite_watch {
	int fd;                /* inotify, -1: none */
	bool on;               /* watch() was called */
	char name[256];        /* the file's name without its folder */
	sqlite3_stmt *version; /* PRAGMA data_version */
	int64_t seen_version;
	int64_t seen_changes; /* sqlite3_total_changes64, for shared handles */
	bool triggered;       /* A trigger may have put a message since the last look. */
	int64_t event_us;     /* when something last stirred; monotonic */
	int64_t check_us;     /* when to look again; WH_NEVER: on an event */
	int64_t step_us;      /* the distance to the look after that */
} sqlite_watch;

/* The statements that undo a transaction or a savepoint. */
enum { WH_SQLITE_ROLLBACK, WH_SQLITE_ROLLBACK_TO, WH_SQLITE_RELEASE, WH_SQLITE_UNDOS };

/* Those that begin and end one. */
enum {
	WH_SQLITE_BEGIN,
	WH_SQLITE_COMMIT,
	WH_SQLITE_BEGIN_INSIDE,
	WH_SQLITE_COMMIT_INSIDE,
	WH_SQLITE_STEPS
};

typedef struct sqlite_db {
	wherry_db base; /* first */
	sqlite3 *handle;
	struct sqlite_stmt *stmts; /* cached, prepared */
	size_t n_stmts;
	bool borrowed;
	int savepoints; /* of those that begin began; the outermost may be a transaction */
	sqlite3_stmt *undo[WH_SQLITE_UNDOS];  /* prepared before they are needed */
	sqlite3_stmt *steps[WH_SQLITE_STEPS]; /* prepared once */
	bool stuck; /* a transaction of ours could not be rolled back yet */
	int64_t busy_timeout_us;
	int64_t busy_since_us; /* when the wait that goes on began */

	/* SQLite does not look whether it was interrupted while it waits for a lock: the busy
	 * handler does. */
	atomic_uint interrupts; /* calls of interrupt() */
	unsigned seen;          /* of them, those before the call that runs began */
	bool interrupted;       /* The wait of the call that runs was ended by one. */

	bool replaced; /* The file is no longer the one that the path names. */
	dev_t log_dev; /* Device and inode of the file's write-ahead log; */
	ino_t log_ino; /* 0: it had none when it was opened. */
	sqlite_watch watch;
	char path[]; /* as opened */
} sqlite_db;

/* sqlite_error.c: turn SQLite's error into ours; the driver's only place that knows its
 * numbers. */
wherry_code wh_sqlite_fail(sqlite_db *s, int rc, const char *doing, wherry_error *err);
bool wh_sqlite_about_row(const wherry_error *err);
wherry_code wh_sqlite_code_of(int native, const char *state);

wherry_code wh_sqlite_watch(wherry_db *db, const wh_watch *whose, wherry_error *err);
int wh_sqlite_fd(wherry_db *db);
bool wh_sqlite_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us);
int64_t wh_sqlite_version(wherry_db *db);
void wh_sqlite_unwatch(sqlite_db *s);

/* sqlite_replaced.c */
void wh_sqlite_note_log(sqlite_db *s); /* remember which log belongs to this file */
bool wh_sqlite_replaced(wherry_db *db, bool look);
int wh_sqlite_old_log(wherry_db *db);
/* CLOSED once the file is known to be replaced. */
wherry_code wh_sqlite_check_replaced(const sqlite_db *s, wherry_error *err);
/* CLOSED if the log beside this file is the one that old_log was opened for. */
wherry_code wh_sqlite_check_log(sqlite_db *s, int old_log, wherry_error *err);

#endif
