/*
 * One SQL connection behind a table of functions.  There is one folder per database, and
 * each exports one symbol.  Drivers trust their input; db.c checks it.
 *
 * Each driver has exactly one function that turns the database's error numbers into a
 * wherry_code; nothing above db/ knows such numbers.
 */
#ifndef WH_DB_DRIVER_H
#define WH_DB_DRIVER_H

#include <wherry/db.h>

#include "base/buf.h"
#include "base/env.h"
#include "base/log.h"
#include "db/sql.h"

struct wh_stream; /* See stream.h. */
struct wh_stream_options;

typedef enum wh_type { WH_NULL, WH_INT, WH_TEXT, WH_BLOB } wh_type;

/* A named parameter.  Texts and blobs are borrowed for the call. */
typedef struct wh_param {
	const char *name; /* Name as in the SQL, without the colon. */
	wh_type type;
	int64_t number;
	wh_view bytes;
} wh_param;

#define WH_INT_PARAM(name_, value_) ((wh_param){(name_), WH_INT, (value_), {NULL, 0}})
#define WH_TEXT_PARAM(name_, view_) wh_bytes_param((name_), WH_TEXT, (view_))
#define WH_BLOB_PARAM(name_, view_) wh_bytes_param((name_), WH_BLOB, (view_))

/* A text or blob parameter; NULL in SQL if the view is absent. */
wh_param wh_bytes_param(const char *name, wh_type type, wh_view bytes);

struct wh_row;

/* Reads the columns of a row; the first column is 0. */
typedef struct wh_row_driver {
	int64_t (*integer)(const struct wh_row *row, int column);
	/* The view is absent for NULL; its bytes end in NUL. */
	wh_view (*bytes)(const struct wh_row *row, int column);

	/* Is the value of this column an integer or NULL?  May be NULL: integer columns
	 * hold nothing else. */
	bool (*is_int)(const struct wh_row *row, int column);

	/* Did memory run out for a column, which then looks empty?  The statement fails
	 * after the visit.  May be NULL: memory never runs out. */
	bool (*failed)(const struct wh_row *row);
} wh_row_driver;

/* A row, valid during the visit. */
typedef struct wh_row {
	const wh_row_driver *driver;
	void *handle;
} wh_row;

/* Visits a row.  If it returns another code than WHERRY_OK, with err filled, the
 * statement ends with that code. */
typedef wherry_code (*wh_row_fn)(void *ctx, const wh_row *row, wherry_error *err);

/* Options of a connection, resolved from the settings. */
typedef struct wh_db_options {
	const wh_env *env; /* Borrowed; must outlive the connection. */
	int64_t busy_timeout_us;
	/* Give up a server that was silent for so long, unless it says that it works; 0: never. */
	int64_t answer_us;
	/* Time to connect to each of several hosts of a URL that does not say it; 0: the
	 * driver's default. */
	int64_t host_us;
	/* Time between looks for commits, if nothing notifies; 0: the driver's
	 * default. */
	int64_t look_us;
	/* The server ends a transaction that is idle for this long; 0: never. */
	int64_t idle_us;
	bool create;     /* Create the database if it does not exist. */
	bool full_sync;  /* A commit returns only when it is on disk. */
	bool must_write; /* Refuse a read-only database. */
	/* Descriptor from old_log(): refuse a database file beside that log; 0: none. */
	int old_log;
	/* The application's SQL runs on it too, so keep its search path. */
	bool app_sql;
	/* The same statements run on it for many tables, a few times for each. */
	bool many_tables;
} wh_db_options;

/* Names the table to watch for commits. */
typedef struct wh_watch {
	/* Number of the table, whose writers notify on channels of this number; 0:
	 * writers do not notify. */
	int64_t key;
	bool unheard; /* Writers of new rows do not notify. */
	/* Watch the tables that listen() adds, instead of one; key is 0. */
	bool many;
} wh_watch;

/* A table that was notified. */
typedef struct wh_heard {
	int64_t key; /* Its number. */
	bool rows;   /* By a writer of new rows; else by an operator or a relay. */
} wh_heard;

/* State of a caller that looks for commits. */
typedef struct wh_look {
	int64_t now_us; /* Time by the monotonic clock. */
	/* Number of rows that the caller has read for delivery.  While it increases, the
	 * driver looks often. */
	int64_t rows_read;
	/* New rows do not matter, only what operators and other relays do. */
	bool operators_only;
} wh_look;

/* Parts that some servers lack. */
typedef enum wh_db_part {
	WH_DB_SIGNALS, /* By which a session tells another something: advisory locks and LISTEN. */
	WH_DB_SNAPSHOTS, /* Which transactions a statement sees, as a value. */
	WH_DB_PARTS
} wh_db_part;

/*
 * The functions and properties of a database.  Each function must be set unless its
 * comment says that it may be NULL; wh_db_driver_check() checks that.
 */
typedef struct wh_db_driver {
	const char *scheme; /* Scheme in a URL: "sqlite". */
	const char *alias;  /* Another scheme for the same driver; NULL: none. */

	/* Can a transaction still commit a lower id than one already seen committed? */
	bool late_commits;

	/* A read may wait for a row that another transaction has locked. */
	bool reads_wait;

	/* Calls that wait for the server call wherry_db.meanwhile(). */
	bool meanwhile;

	/* A failed statement aborts its transaction, so a statement that may fail needs a
	 * savepoint. */
	bool failure_spreads;

	/* Limit of rows that one statement should change; 0: none. */
	int64_t rows_most;

	/* Reads the rows of this database. */
	const wh_row_driver *row;

	struct {
		/* Refuse a URL that open() would refuse without connecting.  May be NULL:
		 * there is nothing to check. */
		wherry_code (*check)(const char *rest, wherry_error *err);

		/* Open the database that rest (the URL after the colon) names.  On
		 * failure leave *out unchanged. */
		wherry_code (*open)(const char *rest, const wh_db_options *options,
				    wherry_db **out, wherry_error *err);
		void (*close)(wherry_db *db);

		/* Make the running call return WHERRY_INTERRUPTED.  May be called from
		 * any thread. */
		void (*interrupt)(wherry_db *db);

		/* Let no call wait for the server beyond this monotonic time.  May be
		 * NULL: no call waits for a server. */
		void (*limit)(wherry_db *db, int64_t until_us);

		/* The server's number of this session.  May be NULL: there is no
		 * server. */
		int64_t (*session)(wherry_db *db);

		/* Do all calls of this connection run in one session, which nobody else
		 * uses and whose locks the server frees when it ends?  May be NULL: there
		 * are no such locks. */
		bool (*keeps_session)(wherry_db *db);

		/* Has the server this part?  May be NULL: it has all that Wherry uses. */
		bool (*has)(wherry_db *db, wh_db_part part);

		/*
		 * Write the schema of a table that is named without one, by the user's
		 * search path.  If the table does not exist, write the schema in which it
		 * would be created.  "": the path names no existing schema.
		 *
		 * With `own`, count only tables whose owner's rights the user has.  For a
		 * superuser none count, since a superuser has the rights of all.
		 *
		 * *out_n: in how many schemas of the path a table of this name is; may be NULL.
		 *
		 * May be NULL: the database has no schemas.
		 */
		wherry_code (*schema_of)(wherry_db *db, const char *table, bool own,
					 char *out, size_t cap, int64_t *out_n,
					 wherry_error *err);
	} connection;

	struct {
		/*
		 * Begin a transaction that writes; a savepoint if a transaction is open,
		 * also one that the application began.
		 *
		 * @param quiet  The transaction makes no work for relays, so its updates
		 *               and deletes do not notify them.  Ignored for a savepoint.
		 */
		wherry_code (*begin)(wherry_db *db, bool quiet, wherry_error *err);
		wherry_code (*commit)(wherry_db *db, wherry_error *err);
		void (*rollback)(wherry_db *db);
		bool (*is_open)(wherry_db *db);
	} transaction;

	struct {
		/* Run one statement, visit its rows and count the changed rows. */
		wherry_code (*run)(wherry_db *db, const wh_stmt *stmt,
				   const wh_param *params, size_t n_params,
				   wh_row_fn visit, void *ctx, int64_t *out_changed,
				   wherry_error *err);

		/* Run several statements without parameters, such as a migration. */
		wherry_code (*script)(wherry_db *db, const char *sql, wherry_error *err);

		/* The id taken by the last INSERT that inserted a row. */
		int64_t (*last_id)(wherry_db *db);

		/* Free the prepared forms of these statements, because the caller frees
		 * them next. */
		void (*forget)(wherry_db *db, const wh_sql *sql);

		/* Did a statement fail because of a value in a row, such as a text that
		 * cannot be converted?  May be NULL: that never happens. */
		bool (*about_row)(const wherry_error *err);

		/* Does this error, whose code is BUSY, say that another transaction kept the
		 * lock of a row or a table for longer than the time-out?  May be NULL: no
		 * row has a lock. */
		bool (*locked_out)(const wherry_error *err);

		/* Convert an error to a code: the driver's error number, and a SQLSTATE
		 * that may be "". */
		wherry_code (*code_of)(int native, const char *state);
	} statement;

	/* Notices commits of others. */
	struct {
		/* Start to watch; afterwards fd() may be polled for reading.  Further
		 * calls do nothing. */
		wherry_code (*watch)(wherry_db *db, const wh_watch *whose,
				     wherry_error *err);
		int (*fd)(wherry_db *db); /* A descriptor to poll; -1: none. */

		/*
		 * Has anyone committed since the last call that returned true?  The
		 * relay's own calls do not count.  Returns true also if the connection is
		 * lost; the next call then fails with the reason.
		 *
		 * @param out_next_us  Receives when to call it again; WH_NEVER: when fd()
		 *                     is readable.
		 */
		bool (*changed)(wherry_db *db, const wh_look *look, int64_t *out_next_us);

		/* A number that changes when another connection commits; 0: unknown.  May
		 * be NULL: always unknown. */
		int64_t (*version)(wherry_db *db);

		/* For a connection that watches many tables, see wh_watch.many.  Both may be
		 * NULL: nobody notifies. */

		/* Begin to listen to the writers of tables with these numbers, or end it. */
		wherry_code (*listen)(wherry_db *db, const int64_t *keys, size_t n,
				      bool on, wherry_error *err);
		/* Take up to `most` notifications that have arrived.  Returns how many. */
		size_t (*heard)(wherry_db *db, wh_heard *out, size_t most);
	} commits;

	/* For a database that is a file.  Both may be NULL: it is not a file, or cannot
	 * be replaced. */
	struct {
		/* Was the file replaced or deleted since it was opened?  With `look` ask
		 * the system, otherwise repeat the last answer.  Once it is true, run()
		 * and begin() fail with WHERRY_CLOSED. */
		bool (*replaced)(wherry_db *db, bool look);

		/* A descriptor of a replaced file's log, if the log still has its name;
		 * -1: none.  The caller closes it.  While it is open the log's inode
		 * number is not used again.  Required if replaced() is set. */
		int (*old_log)(wherry_db *db);
	} file;

	/* Open a stream of commits, see stream.h.  May be NULL: the database has none. */
	wherry_code (*stream)(wherry_db *db, const struct wh_stream_options *options,
			      struct wh_stream **out, wherry_error *err);
} wh_db_driver;

/* The part of a connection that all drivers have: the first member of the driver's
 * struct. */
struct wherry_db {
	const wh_db_driver *driver;
	const wh_env *env;
	/* Producers use this same handle: it is borrowed, or the database is in
	 * memory. */
	bool shared;
	int depth; /* Number of open transactions and savepoints that Wherry began. */
	bool rehearses; /* See wh_db_rehearse(). */
	bool closing;   /* It is closed next: leave its statements to the server. */

	/* Called while a call waits for the server.  It may do other work until fd is
	 * readable or until_us has come, but must not use this connection.  It must poll
	 * fd at least once.  NULL: no other work. */
	void (*meanwhile)(void *ctx, int fd, int64_t until_us);
	void *meanwhile_ctx;
};

extern const wh_db_driver wh_db_sqlite;
#ifdef WHERRY_POSTGRES
extern const wh_db_driver wh_db_postgres;
#endif
extern const wh_db_driver wh_db_mssql;
/* The driver of odbc: URLs.  An open connection has the driver of its database. */
extern const wh_db_driver wh_db_odbc;

/* ---- what the layers above call: db.c ---- */

/* Return INVALID if a function is missing that every driver needs, or that its other
 * functions need. */
wherry_code wh_db_driver_check(const wh_db_driver *driver, wherry_error *err);

/* Return INVALID if no driver has the scheme of this URL, or if the URL has another form
 * than the driver expects. */
wherry_code wh_db_known(const char *url, wherry_error *err);

wherry_code wh_db_open(const char *url, const wh_db_options *options, wherry_db **out,
		       wherry_error *err);

/* Like wherry_db_open(), for a connection that runs only Wherry's own SQL.  Its search
 * path has no schema in which other roles could define operators or functions. */
wherry_code wh_db_open_own(const char *url, const wherry_config *config, wherry_db **out,
			   wherry_error *err);

/*
 * Begin a transaction that is rolled back when the connection is closed: what is done from now on
 * fails if it would fail, and changes nothing.  Operations that need many transactions do the
 * first row alone, and one that would lock out writers asks only if it may.
 */
wherry_code wh_db_rehearse(wherry_db *db, wherry_error *err);

/* The scheme that the .sql files are named after: "postgres" for "postgresql"; NULL:
 * unknown scheme. */
const char *wh_db_scheme(wh_view scheme);
wh_db_options wh_db_options_of(const wherry_config *config, const wh_env *env);

/* Run a statement; visit and out_changed may be NULL. */
wherry_code wh_db_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
		      size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
		      wherry_error *err);

int64_t wh_db_last_id(wherry_db *db); /* The id that the last INSERT took. */
wherry_code wh_db_script(wherry_db *db, const char *sql, wherry_error *err);

void wh_db_forget(wherry_db *db, const wh_sql *sql);

int64_t wh_row_int(const wh_row *row, int column);
wh_view wh_row_bytes(const wh_row *row, int column);
const char *wh_row_text(const wh_row *row, int column); /* NULL if the value is NULL. */

/* Is the value an integer or NULL? */
bool wh_row_is_int(const wh_row *row, int column);

/* Did the statement fail because of one row, so that other rows could be handled? */
bool wh_db_about_row(const wherry_db *db, wherry_code code, const wherry_error *err);

/* Did a statement end because another transaction kept a lock for longer than the time-out of
 * locks?  db: NULL if it could not be opened again. */
bool wh_db_locked_out(const wherry_db *db, wherry_code code, const wherry_error *err);

/* Return NOMEM if memory for a column ran out.  Call it before acting on a row. */
wherry_code wh_row_check(const wh_row *row, wherry_error *err);

/* Let no call of this connection wait for the server beyond this monotonic time.  Does
 * nothing if the driver never waits. */
void wh_db_limit(wherry_db *db, int64_t until_us);

wherry_code wh_db_watch(wherry_db *db, const wh_watch *whose, wherry_error *err);
int wh_db_fd(wherry_db *db);
bool wh_db_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us);
/* Many tables; see wh_watch.many.  wh_db_listen() returns INVALID if nobody notifies. */
wherry_code wh_db_listen(wherry_db *db, const int64_t *keys, size_t n, bool on,
			 wherry_error *err);
size_t wh_db_heard(wherry_db *db, wh_heard *out, size_t most);
int64_t wh_db_session(wherry_db *db); /* 0: the session has no number. */
bool wh_db_keeps_session(wherry_db *db);
bool wh_db_has(wherry_db *db, wh_db_part part);
int64_t wh_db_version(wherry_db *db);
bool wh_db_replaced(wherry_db *db, bool look); /* false if db is NULL. */
/* Call it before closing a connection whose file was replaced.  Stores a descriptor of
 * the old log in *inout, for the options of the next connection.  Keeps a descriptor that
 * is already there; the caller closes it if it is above 0. */
void wh_db_keep_log(wherry_db *db, int *inout);

/* Call the driver's schema_of(); "" if the database has no schemas. */
wherry_code wh_db_schema_of(wherry_db *db, const char *table, bool own, char *out,
			    size_t cap, wherry_error *err);

/* The same, but fail with WHERRY_INVALID if tables of this name are in several schemas of the path. */
wherry_code wh_db_only_schema_of(wherry_db *db, const char *table, char *out, size_t cap,
				 wherry_error *err);

/* Like wherry_db_begin(), but begin a savepoint if a transaction is open. */
wherry_code wh_db_begin(wherry_db *db, wherry_error *err);

/* Run fn in a transaction, or in a savepoint of the open transaction.  If fn fails,
 * everything is rolled back.  If the server undoes a whole transaction because of a deadlock or a
 * serialization failure, at a statement or at the commit, fn runs again, some times: it sets what
 * it counts and collects to the beginning. */
typedef wherry_code (*wh_work_fn)(void *ctx, wherry_error *err);
wherry_code wh_db_transact(wherry_db *db, wh_work_fn fn, void *ctx, wherry_error *err);

/* Like wh_db_transact(), for changes that make no work for relays: updates and deletes
 * wake none. */
wherry_code wh_db_transact_quietly(wherry_db *db, wh_work_fn fn, void *ctx,
				   wherry_error *err);

/* Like wh_db_transact(), for work of a lone statement, which is a transaction itself.  The driver repeats
 * only statements of which no row came. */
wherry_code wh_db_again(wherry_db *db, wh_work_fn fn, void *ctx, wherry_error *err);

/* Like both, for work that must not be repeated here, since callers saw what it did. */
wherry_code wh_db_transact_once(wherry_db *db, bool quiet, wh_work_fn fn, void *ctx,
				wherry_error *err);

#endif
