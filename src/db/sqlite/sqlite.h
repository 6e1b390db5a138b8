/*
 * Types and functions that the files of the SQLite driver share.
 */
#ifndef WH_DB_SQLITE_H
#define WH_DB_SQLITE_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "db/driver.h"

/* Notices commits of other connections; see sqlite_watch.c. */
typedef struct sqlite_watch {
	int fd;                /* Descriptor of inotify; -1: none. */
	bool on;               /* watch() was called */
	char name[256];        /* Name of the database file, without its folder. */
	sqlite3_stmt *version; /* Prepared: PRAGMA data_version. */
	int64_t seen_version;
	/* sqlite3_total_changes64() at the last look, for shared handles. */
	int64_t seen_changes;
	bool triggered;   /* A trigger may have inserted a message since the last look. */
	int64_t event_us; /* Time of the last event; monotonic. */
	int64_t check_us; /* Time of the next look; WH_NEVER: after an event. */
	int64_t step_us;  /* Time between that look and the one after. */
} sqlite_watch;

/* Indexes of the statements that roll back a transaction or a savepoint. */
enum { WH_SQLITE_ROLLBACK, WH_SQLITE_ROLLBACK_TO, WH_SQLITE_RELEASE, WH_SQLITE_UNDOS };

/* Indexes of the statements that begin and end a transaction or a savepoint. */
enum {
	WH_SQLITE_BEGIN,
	WH_SQLITE_COMMIT,
	WH_SQLITE_BEGIN_INSIDE,
	WH_SQLITE_COMMIT_INSIDE,
	WH_SQLITE_STEPS
};

typedef struct sqlite_db {
	wherry_db base; /* Must be first. */
	sqlite3 *handle;
	struct sqlite_stmt *stmts; /* Prepared statements. */
	size_t n_stmts;
	bool borrowed;
	/* Number of open savepoints of begin().  Without a savepoint, commit() ends the
	 * transaction. */
	int savepoints;
	/* Prepared before the transaction begins. */
	sqlite3_stmt *undo[WH_SQLITE_UNDOS];
	sqlite3_stmt *steps[WH_SQLITE_STEPS]; /* Prepared at first use. */
	bool stuck; /* An own transaction could not be rolled back yet. */
	int64_t busy_timeout_us;
	int64_t busy_since_us; /* When the current wait for a lock began. */

	/* SQLite does not notice interrupts while it waits for a lock, so the busy
	 * handler looks for them. */
	atomic_uint interrupts; /* Number of calls of interrupt(). */
	unsigned seen;          /* `interrupts` when the running call began. */
	bool interrupted; /* An interrupt ended the running call's wait for a lock. */

	bool replaced; /* The path names another file now, or none. */
	dev_t log_dev; /* Device and inode of the file's write-ahead log. */
	ino_t log_ino; /* 0: it had no log when it was opened. */
	sqlite_watch watch;
	/* The path as given to open(), made absolute without following links; NULL: the
	 * handle is borrowed. */
	char *named;
	char path[]; /* Path as given to open(). */
} sqlite_db;

/* sqlite_error.c: convert SQLite's error to a code and message.  No other file of the
 * driver knows SQLite's error numbers. */
wherry_code wh_sqlite_fail(sqlite_db *s, int rc, const char *doing, wherry_error *err);
/* The same for a statement that was prepared, and failed when it ran. */
wherry_code wh_sqlite_fail_row(sqlite_db *s, int rc, wherry_error *err);
bool wh_sqlite_about_row(const wherry_error *err);
wherry_code wh_sqlite_code_of(int native, const char *state);

wherry_code wh_sqlite_watch(wherry_db *db, const wh_watch *whose, wherry_error *err);
int wh_sqlite_fd(wherry_db *db);
bool wh_sqlite_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us);
int64_t wh_sqlite_version(wherry_db *db);
void wh_sqlite_unwatch(sqlite_db *s);

/* sqlite_replaced.c */
void wh_sqlite_note_log(sqlite_db *s); /* Remember which log belongs to this file. */
/* Remember the path, so that a link in it that is pointed elsewhere is noticed.  Without
 * memory it is not. */
void wh_sqlite_note_name(sqlite_db *s);
bool wh_sqlite_replaced(wherry_db *db, bool look);
int wh_sqlite_old_log(wherry_db *db);
/* Return CLOSED if the file was replaced. */
wherry_code wh_sqlite_check_replaced(const sqlite_db *s, wherry_error *err);
/* Return CLOSED if the log beside this file is the one that old_log was opened for. */
wherry_code wh_sqlite_check_log(sqlite_db *s, int old_log, wherry_error *err);

#endif
