/*
 * One SQL connection behind a table of functions; one folder per database, which exports
 * one symbol.  Drivers trust their input; db.c checks it.
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

struct wh_stream; /* of stream.h */
struct wh_stream_options;

typedef enum wh_type { WH_NULL, WH_INT, WH_TEXT, WH_BLOB } wh_type;

/* A parameter by name; text and blobs are borrowed for the call. */
typedef struct wh_param {
	const char *name; /* as in the SQL, without the colon */
	wh_type type;
	int64_t number;
	wh_view bytes;
} wh_param;

#define WH_INT_PARAM(name_, value_) ((wh_param){(name_), WH_INT, (value_), {NULL, 0}})
#define WH_TEXT_PARAM(name_, view_) wh_bytes_param((name_), WH_TEXT, (view_))
#define WH_BLOB_PARAM(name_, view_) wh_bytes_param((name_), WH_BLOB, (view_))

/* NULL in SQL when the view is absent. */
wh_param wh_bytes_param(const char *name, wh_type type, wh_view bytes);

struct wh_row;

/* How to read the columns of a row, which count from 0. */
typedef struct wh_row_driver {
	int64_t (*integer)(const struct wh_row *row, int column);
	/* Absent for NULL; ends in NUL. */
	wh_view (*bytes)(const struct wh_row *row, int column);

	/* Is this column an integer, or NULL?  May be NULL: integer columns hold nothing else. */
	bool (*is_int)(const struct wh_row *row, int column);

	/* Was there no memory for one of its columns, which then looks empty?  The statement
	 * fails after the visit.  May be NULL: there always is. */
	bool (*failed)(const struct wh_row *row);
} wh_row_driver;

/* A row while it is being visited. */
typedef struct wh_row {
	const wh_row_driver *driver;
	void *handle;
} wh_row;

/* Returning another code than WHERRY_OK (with err filled) ends the statement with it. */
typedef wherry_code (*wh_row_fn)(void *ctx, const wh_row *row, wherry_error *err);

/* Options of a connection, resolved from the settings. */
typedef struct wh_db_options {
	const wh_env *env; /* borrowed; outlives the connection */
	int64_t busy_timeout_us;
	int64_t answer_us; /* Silence of a server after which it is asked; 0: never. */
	int64_t look_us;   /* Between looks for commits, where nothing notifies; 0: the
			    driver's choice. */
	int64_t idle_us; /* The server ends a transaction that is idle for so long; 0: never. */
	bool create;     /* make the database if it is not there */
	bool full_sync;  /* a commit is on disk when it returns */
	bool must_write; /* refuse a database that cannot be written */
	int old_log; /* Descriptor of old_log(): refuse a file beside that log.  0: none. */
	bool app_sql; /* the application's SQL runs on it as well: keep its search path */
} wh_db_options;

/* One of several statements that are run together. */
typedef struct wh_call {
	const wh_stmt *stmt;
	const wh_param *params;
	size_t n_params;
	wh_row_fn visit; /* NULL: there are no rows, or nobody wants them */
	void *ctx;
	int64_t changed; /* rows, afterwards */
} wh_call;

enum { WH_DB_CALLS_MOST = 4 };

/* The outbox whose commits are watched for. */
typedef struct wh_watch {
	int64_t key;  /* Number of the table whose writers notify; 0: no writer does. */
	bool unheard; /* Writers of new rows notify nobody. */
	bool sole; /* Updates and deletes of this session make no work for other relays, and
			 do not notify them. */
} wh_watch;

/* How a caller that looks for commits uses them. */
typedef struct wh_look {
	int64_t now_us; /* Monotonic. */
	int64_t found; /* Rows that the caller has read in order to deliver them: while the
			   number rises, it looks often. */
	bool calm; /* New rows do not matter, only what operators and other relays do. */
} wh_look;

/*
 * What a database can do, its functions grouped by what they are about.  Each must be there
 * unless its comment says that it may be NULL; wh_db_driver_check() knows which.
 */
typedef struct wh_db_driver {
	const char *scheme; /* Selects it in a URL: "sqlite". */
	const char *alias;  /* So does this one; NULL: there is none. */

	/* Can a transaction still commit a lower id than one already seen committed? */
	bool late_commits;

	/* While a call waits for the server, it calls wherry_db's function of this name. */
	bool meanwhile;

	/* A statement that fails aborts its transaction.  So a statement that may fail gets a
	 * savepoint. */
	bool failure_spreads;

	/* Rows that one statement should change at most; 0: any number. */
	int64_t rows_most;

	/* The rows that its statements visit. */
	const wh_row_driver *row;

	struct {
		/* Refuse what open() would without going there.  May be NULL: nothing is known
		 * before. */
		wherry_code (*check)(const char *rest, wherry_error *err);

		/* Open what rest (the URL behind the colon) names.  On failure leave *out
		 * alone. */
		wherry_code (*open)(const char *rest, const wh_db_options *options,
				    wherry_db **out, wherry_error *err);
		void (*close)(wherry_db *db);

		/* Make the running call return WHERRY_INTERRUPTED; from any thread. */
		void (*interrupt)(wherry_db *db);

		/* Let no call wait for the server beyond this time by the monotonic clock.
		 * May be NULL: no call waits for a server. */
		void (*limit)(wherry_db *db, int64_t until_us);

		/* The number that the server gave this session when it began.  May be NULL:
		 * there is no server. */
		int64_t (*session)(wherry_db *db);

		/*
		 * The schema that a table named without one is in, by the search path of the
		 * user; if there is no such table, the schema that it would be created in.
		 * With `own` tables count only if the user has the rights of their owner, and
		 * not for a superuser, who has those of all.  Empty where the path names no
		 * schema that is there.  May be NULL: the database has no schemas.
		 */
		wherry_code (*schema_of)(wherry_db *db, const char *table, bool own,
					 char *out, size_t cap, wherry_error *err);
	} connection;

	struct {
		/*
		 * Begin to write; a savepoint where a transaction is open, anyone's.
		 *
		 * @param quiet  The transaction makes no work for a relay: its updates and
		 *               deletes notify none.  Of no effect on a savepoint.
		 */
		wherry_code (*begin)(wherry_db *db, bool quiet, wherry_error *err);
		wherry_code (*commit)(wherry_db *db, wherry_error *err);
		void (*rollback)(wherry_db *db);
		bool (*is_open)(wherry_db *db);
	} transaction;

	struct {
		/* Run one statement, visit its rows, count the rows it changed. */
		wherry_code (*run)(wherry_db *db, const wh_stmt *stmt,
				   const wh_param *params, size_t n_params,
				   wh_row_fn visit, void *ctx, int64_t *out_changed,
				   wherry_error *err);

		/* The same for several, in one round trip.  May be NULL: they are run one by
		 * one.  See wh_db_run_all(). */
		wherry_code (*run_all)(wherry_db *db, wh_call *calls, size_t n,
				       wherry_error *err);

		/* Run several statements without parameters, as migrations are. */
		wherry_code (*script)(wherry_db *db, const char *sql, wherry_error *err);

		/* The id that the last INSERT which changed a row took. */
		int64_t (*last_id)(wherry_db *db);

		/* Drop what is prepared of these statements, which are about to be freed. */
		void (*forget)(wherry_db *db, const wh_sql *sql);

		/* Did a statement fail because of what a row holds: a text that cannot be
		 * converted, a value out of range?  May be NULL: none ever does. */
		bool (*about_row)(const wherry_error *err);

		/* What an error means: a number of the driver, a SQLSTATE that may be empty. */
		wherry_code (*code_of)(int native, const char *state);
	} statement;

	/* Noticing what others commit. */
	struct {
		/* Begin to; fd() may be polled for reading afterwards.  Once is enough. */
		wherry_code (*watch)(wherry_db *db, const wh_watch *whose,
				     wherry_error *err);
		int (*fd)(wherry_db *db); /* -1: none */

		/* Has anyone committed, except the relay's own calls, since the last call that
		 * said so?  True also where the connection is lost; the next call says why.
		 * *out_next_us: when to ask again, WH_NEVER: when fd() is readable. */
		bool (*changed)(wherry_db *db, const wh_look *look, int64_t *out_next_us);

		/* A number that is another one once anybody but this connection has committed;
		 * 0: it is not known.  May be NULL: it never is. */
		int64_t (*version)(wherry_db *db);
	} commits;

	/* A database that is a file.  Both may be NULL: it is not, or it cannot be replaced. */
	struct {
		/* Has the file been replaced or deleted since it was opened?  With `look` the
		 * system is asked, without it the last answer counts.  Once it is true, run()
		 * and begin() fail with WHERRY_CLOSED. */
		bool (*replaced)(wherry_db *db, bool look);

		/* Of a file that was replaced: a descriptor of its log, if that still has its
		 * name, else -1; given.  It keeps the log's number from being used again.
		 * Must be there if replaced() is. */
		int (*old_log)(wherry_db *db);
	} file;

	/* Open the log of commits; see stream.h.  May be NULL: there is none. */
	wherry_code (*stream)(wherry_db *db, const struct wh_stream_options *options,
			      struct wh_stream **out, wherry_error *err);
} wh_db_driver;

/* The part of a connection that all drivers share; it is the first member of a driver's own. */
struct wherry_db {
	const wh_db_driver *driver;
	const wh_env *env;
	bool shared; /* Borrowed, or in memory: producers use this very handle. */
	int depth;   /* Transactions and savepoints of ours that are open. */

	/* While a server is at work: do something else until fd can be read or this time has
	 * come, and at least look once; use nothing of this connection.  NULL: there is nothing
	 * to do. */
	void (*meanwhile)(void *ctx, int fd, int64_t until_us);
	void *meanwhile_ctx;
};

extern const wh_db_driver wh_db_sqlite;
#ifdef WHERRY_POSTGRES
extern const wh_db_driver wh_db_postgres;
#endif
extern const wh_db_driver wh_db_mssql;
extern const wh_db_driver
	wh_db_odbc; /* of its URL; a connection has that of its database */

/* ---- what the layers above call: db.c ---- */

/* Is a function missing that a driver must have, or one that others of it need?  INVALID
 * names it. */
wherry_code wh_db_driver_check(const wh_db_driver *driver, wherry_error *err);

/* Is there a database with the scheme of this URL, and has it the form that one takes? */
wherry_code wh_db_known(const char *url, wherry_error *err);
/* Has it a log of commits that can be streamed? */
bool wh_db_streams(const char *url);

wherry_code wh_db_open(const char *url, const wh_db_options *options, wherry_db **out,
		       wherry_error *err);

/* As wherry_db_open(), for a connection on which only Wherry's own SQL runs: it looks names up
 * in no schema where other roles could define operators or functions. */
wherry_code wh_db_open_own(const char *url, const wherry_config *config, wherry_db **out,
			   wherry_error *err);

/* The name that the .sql files of a URL's scheme have: "postgres" for "postgresql"; NULL:
 * there is no such database. */
const char *wh_db_scheme(wh_view scheme);
wh_db_options wh_db_options_of(const wherry_config *config, const wh_env *env);

/* Run a statement; visit and out_changed may be NULL. */
wherry_code wh_db_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
		      size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
		      wherry_error *err);

/*
 * Run up to WH_DB_CALLS_MOST statements, one after the other; each is a separate transaction if
 * none is open.  Ends at the first that fails.  If all are sent in one round trip, later
 * statements may have run too, unseen: so pass only statements that may run twice.
 */
wherry_code wh_db_run_all(wherry_db *db, wh_call *calls, size_t n, wherry_error *err);
int64_t wh_db_last_id(wherry_db *db); /* taken by the last INSERT */
wherry_code wh_db_script(wherry_db *db, const char *sql, wherry_error *err);

void wh_db_forget(wherry_db *db, const wh_sql *sql);

int64_t wh_row_int(const wh_row *row, int column);
wh_view wh_row_bytes(const wh_row *row, int column);
const char *wh_row_text(const wh_row *row, int column); /* NULL for NULL */

/* Is it an integer, or NULL? */
bool wh_row_is_int(const wh_row *row, int column);

/* Is this failure about one of the rows, whose neighbours could be handled? */
bool wh_db_about_row(const wherry_db *db, wherry_code code, const wherry_error *err);

/* NOMEM if memory for a column ran out: call it before acting on a row. */
wherry_code wh_row_check(const wh_row *row, wherry_error *err);

/* Let no call of this connection wait for the server beyond this time; see the driver. */
void wh_db_limit(wherry_db *db, int64_t until_us);

wherry_code wh_db_watch(wherry_db *db, const wh_watch *whose, wherry_error *err);
int wh_db_fd(wherry_db *db);
bool wh_db_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us);
int64_t wh_db_session(wherry_db *db); /* 0: it has no number */
int64_t wh_db_version(wherry_db *db);
bool wh_db_replaced(wherry_db *db, bool look); /* db may be NULL: false */
/* Before a connection whose file was replaced is closed: its log, for the options of the next
 * one.  A descriptor in *inout stays; close it if it is above 0. */
void wh_db_keep_log(wherry_db *db, int *inout);

/* The driver's schema_of(); empty where the database has no schemas. */
wherry_code wh_db_schema_of(wherry_db *db, const char *table, bool own, char *out,
			    size_t cap, wherry_error *err);

/* wherry_db_begin(), but a savepoint inside what is open already. */
wherry_code wh_db_begin(wherry_db *db, wherry_error *err);

/* Run fn, all or nothing: in a transaction, or in a savepoint of the one that is open. */
typedef wherry_code (*wh_work_fn)(void *ctx, wherry_error *err);
wherry_code wh_db_transact(wherry_db *db, wh_work_fn fn, void *ctx, wherry_error *err);

/* The same, and its updates and deletes wake no relay: they make no work for any. */
wherry_code wh_db_transact_quietly(wherry_db *db, wh_work_fn fn, void *ctx,
				   wherry_error *err);

#endif
