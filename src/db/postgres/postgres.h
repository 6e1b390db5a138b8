/*
 * Types and functions that the files of the PostgreSQL driver share.
 */
#ifndef WH_DB_POSTGRES_H
#define WH_DB_POSTGRES_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "db/stream.h"

/* Oids of types, which never change. */
enum {
	WH_PG_BOOL = 16,
	WH_PG_BYTEA = 17,
	WH_PG_INT8 = 20,
	WH_PG_INT2 = 21,
	WH_PG_INT4 = 23,
	WH_PG_TEXT = 25,
	WH_PG_JSON = 114,
	WH_PG_VARCHAR = 1043,
	WH_PG_TIMESTAMPTZ = 1184,
	WH_PG_UUID = 2950,
	WH_PG_JSONB = 3802
};

/* How texts of a connection are converted; see postgres_text.c. */
typedef struct wh_postgres_text {
	bool raw; /* Texts come and go in the encoding of the database, not in UTF-8. */
	void *from, *to; /* An iconv_t each, from that encoding and to it; NULL: none. */
} wh_postgres_text;

/* A statement as the server knows it. */
typedef struct postgres_stmt {
	const wh_stmt *stmt; /* Borrowed; compared by address. */
	/* Name of the prepared statement on the server; "": not prepared. */
	char name[16];
	/* Types of its parameters, as the server inferred them. */
	Oid types[WH_STMT_PARAMS];
	bool described; /* `types` is set. */
	int runs;       /* Unnamed, on a connection for many tables. */
	/* Names of the parameters given last, compared by address. */
	const char *given[WH_STMT_PARAMS];
	/* Index of the statement's parameter for each of them; -1: none. */
	int slot[WH_STMT_PARAMS];
} postgres_stmt;

/* Notices commits of others; see postgres_watch.c. */
typedef struct postgres_watch {
	bool on;
	wh_watch whose;
	bool warned; /* It was logged that a pooler forces it to poll. */
	int fd;      /* An epoll of the connection and `event`; -1: none. */
	/* An eventfd: a notification arrived with the answer to another statement. */
	int event;
	bool rows, control; /* Notifications that have arrived. */
	bool last_look; /* It has the lock, or another sleeper has, and looks once more. */
	bool asleep;    /* It waits for a notification. */
	bool locked;    /* It holds the sleepers' lock. */
	int64_t rows_read;     /* Number of rows found at the last look. */
	int64_t look_us;       /* Time of the next look; monotonic. */
	int64_t step_us;       /* Time between that look and the one after. */
	int64_t spent_us;      /* In statements since the last look. */
	int64_t least_us;      /* The least of that, between any two of the last looks. */
	char rows_channel[32]; /* Notified when a producer writes to the outbox. */
	/* Notified by operators, and by relays that release their lease. */
	char control_channel[40];
	/* Notifications of a connection that watches many tables; see postgres_many.c. */
	wh_heard *heard;
	size_t n_heard, heard_cap;
} postgres_watch;

typedef struct postgres_db {
	wherry_db base; /* Must be first. */
	PGconn *conn;
	PGcancel *cancel;
	postgres_stmt *stmts; /* Known statements. */
	size_t n_stmts;
	unsigned n_named; /* Number of names used so far. */
	/* The server may still have prepared statements that were forgotten here. */
	bool stale;
	bool borrowed;
	bool pooled; /* Behind a pooler: each transaction may run in another session. */
	/* See wh_db_options.  Statements are prepared when they run for the third time, and
	 * their types are remembered. */
	bool many_tables;
	struct postgres_types *types;
	size_t n_types;
	bool one_session; /* Pooled, since all connections have the same session. */
	bool asked[WH_DB_PARTS], has[WH_DB_PARTS]; /* See wh_postgres_has(). */
	bool fixed; /* The search path is pg_catalog, whatever the user's is. */
	/* Schemas of the user's search path, as an array; NULL: query them each time. */
	char *schemas;
	wh_postgres_text text;
	/* Where the application's SQL runs, too, and the database is of another encoding: `text` while
	 * a call runs. */
	wh_postgres_text text_of_calls;
	char app_encoding[32]; /* To which the connection is then set back. */
	bool visiting;   /* Rows are being visited, so no other statement can run. */
	bool sends_much; /* The values of the statement are over a megabyte. */
	int savepoints;  /* Number of open savepoints of begin(). */
	int64_t last_id;
	atomic_bool running;     /* A call that may be interrupted is running. */
	atomic_bool interrupted; /* It was interrupted since it began. */
	postgres_watch watch;
	bool quiet;         /* The open transaction makes no work for relays. */
	int64_t give_up_us; /* No call waits beyond this time, monotonic; 0: no limit. */
	/* Silence after which a server that does not say that it works is given up; 0: never. */
	int64_t answer_us;
	int64_t host_us;  /* Time to connect to each of several hosts; 0: the default. */
	char begin[1500]; /* SQL that begins a transaction. */
	const char *no_sync; /* SQL by which its commit does not wait for fsync; or "". */
	char name[128];      /* For messages: "shop on db.example.org". */
	char notice[160];    /* The server's last notice. */
} postgres_db;

/* postgres_types.c: set the types of a statement's parameters, if they are known; remember them. */
void wh_postgres_recall(const postgres_db *s, postgres_stmt *c);
void wh_postgres_remember(postgres_db *s, const postgres_stmt *c);
void wh_postgres_forget_types(postgres_db *s);

/* postgres_error.c: convert an error to a code and message.  No other file of the driver
 * knows SQLSTATEs.  res: NULL if the connection itself failed. */
wherry_code wh_postgres_fail(postgres_db *s, const PGresult *res, wherry_error *err);

/* The same for a connection that could not be opened.  Its message contains the
 * SQLSTATE. */
wherry_code wh_postgres_refused(postgres_db *s, wherry_error *err);

/* Fail as if the server had returned this SQLSTATE; or INDOUBT, because a COMMIT got no
 * answer. */
wherry_code wh_postgres_fail_as(const postgres_db *s, const char *state,
				wherry_error *err);
wherry_code wh_postgres_fail_indoubt(const postgres_db *s, wherry_error *err);
/* Fail because a text cannot be written in the encoding of the database. */
wherry_code wh_postgres_fail_encoding(const postgres_db *s, wherry_error *err);
bool wh_postgres_about_row(const wherry_error *err);
bool wh_postgres_locked_out(const wherry_error *err);
wherry_code wh_postgres_code_of(int native, const char *state);

/* Did a prepared statement fail because a table was altered after it was prepared? */
bool wh_postgres_outdated(const PGresult *res);

/* Connect to the server and as the user of another connection.  replication: value of
 * that option, or NULL. */
wherry_code wh_postgres_connect_as(postgres_db *s, const postgres_db *like,
				   const char *replication, wherry_error *err);

/*
 * postgres_wait.c.  Like libpq's functions of these names.  If the server does not work on
 * the statement, they close the connection; the result then contains the error.
 */
PGresult *wh_postgres_result(postgres_db *s); /* Like PQgetResult(). */
PGresult *wh_postgres_query(postgres_db *s, const char *sql);
PGresult *wh_postgres_query_params(postgres_db *s, const char *sql, int n,
				   const char *const *values, int format);
PGresult *wh_postgres_prepare(postgres_db *s, const char *name, const char *sql);
PGresult *wh_postgres_describe(postgres_db *s, const char *name);

/* postgres_text.c: returns the encoding in which the connection is to send and get texts; NULL:
 * in UTF-8.  Close it also then. */
const char *wh_postgres_text_open(wh_postgres_text *t, const PGconn *conn);
void wh_postgres_text_close(wh_postgres_text *t);

/* Convert a text to UTF-8.  A text that cannot be converted is returned unchanged.  Without memory
 * *failed is set. */
wh_view wh_postgres_text_utf8(const wh_postgres_text *t, wh_view text, wh_arena *copies,
			      bool *failed);

/* Convert a text of UTF-8 for the server.  False: the encoding has not all its characters, or
 * memory ran out, which sets *failed. */
bool wh_postgres_text_server(const wh_postgres_text *t, wh_view text, wh_arena *copies,
			     wh_view *out, bool *failed);

/* SQL for the server, in the memory of `copies` if it must be converted.  Text that cannot be
 * converted is sent unchanged, and the server refuses it. */
const char *wh_postgres_text_sql(const postgres_db *s, const char *sql, wh_arena *copies);

/* postgres_open.c: check a URL; open a connection. */
wherry_code wh_postgres_check(const char *rest, wherry_error *err);
wherry_code wh_postgres_open(const char *rest, const wh_db_options *options,
			     wherry_db **out, wherry_error *err);

wherry_code wh_postgres_schema_of(wherry_db *db, const char *table, bool own, char *out,
				  size_t cap, int64_t *out_n, wherry_error *err);

/* postgres_exec.c: run SQL without parameters or rows. */
wherry_code wh_postgres_exec(postgres_db *s, const char *sql, wherry_error *err);

/* Is a transaction open, begun by Wherry or by the application? */
bool wh_postgres_is_open(const postgres_db *s);

/* Around each call on a connection that runs SQL of the application, too: the server sends texts
 * unchanged meanwhile.  False: it does so anyway, or cannot now. */
bool wh_postgres_text_begin(postgres_db *s);
void wh_postgres_text_end(postgres_db *s, bool begun);

/* Begin a transaction, not a savepoint; wh_postgres_end() commits it. */
wherry_code wh_postgres_begin(postgres_db *s, wherry_error *err);

/* Begin a transaction whose commit waits for fsync whatever the settings say. */
wherry_code wh_postgres_begin_synced(postgres_db *s, wherry_error *err);
wherry_code wh_postgres_end(postgres_db *s, wherry_error *err);

/* Return INVALID while rows are being visited. */
wherry_code wh_postgres_check_free(const postgres_db *s, wherry_error *err);
wherry_code wh_postgres_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			    size_t n_params, wh_row_fn visit, void *ctx,
			    int64_t *out_changed, wherry_error *err);
void wh_postgres_forget(wherry_db *db, const wh_sql *sql);
void wh_postgres_clear(postgres_db *s); /* Free all statements. */

extern const wh_row_driver wh_postgres_rows;

/* Call it after each answer: the answer may have brought notifications. */
void wh_postgres_heard(postgres_db *s);
/* Call it after a commit.  The session's own sleepers' lock does not make its trigger
 * notify other relays, so this does. */
void wh_postgres_committed(postgres_db *s);
void wh_postgres_unwatch(postgres_db *s);

/* postgres_has.c: has the server this part of PostgreSQL?  It is asked once. */
bool wh_postgres_has(wherry_db *db, wh_db_part part);

/* See stream.h. */
wherry_code wh_postgres_stream(wherry_db *db, const wh_stream_options *options,
			       wh_stream **out, wherry_error *err);

wherry_code wh_postgres_watch(wherry_db *db, const wh_watch *whose, wherry_error *err);
int wh_postgres_fd(wherry_db *db);
bool wh_postgres_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us);
wherry_code wh_postgres_listen(wherry_db *db, const int64_t *keys, size_t n, bool on,
			       wherry_error *err);
size_t wh_postgres_heard_of(wherry_db *db, wh_heard *out, size_t most);

/* postgres_many.c: keep a notification, and take those that were kept. */
void wh_postgres_note(postgres_watch *w, const char *channel);
size_t wh_postgres_noted(postgres_watch *w, wh_heard *out, size_t most);

#endif
