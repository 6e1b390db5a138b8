/*
 * What the files of the PostgreSQL driver share.
 */
#ifndef WH_DB_POSTGRES_H
#define WH_DB_POSTGRES_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "db/stream.h"

/* Types by their numbers in pg_type, which never change. */
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

/* A statement as the server knows it. */
typedef struct postgres_stmt {
	const wh_stmt *stmt;       /* borrowed; compared by address */
	char name[16];             /* as prepared on the server; "": not prepared */
	Oid types[WH_STMT_PARAMS]; /* of its parameters, as the server infers them */
	bool described;            /* types are known */
	const char *given[WH_STMT_PARAMS]; /* names as last given, by address, */
	int slot[WH_STMT_PARAMS];          /* and which parameter each is, -1: none */
} postgres_stmt;

/* Notices commits of others; see postgres_watch.c. */
typedef struct postgres_watch {
	bool on;
	wh_watch whose;
	bool told;          /* that it only looks, behind a pooler */
	int fd;             /* an epoll of the connection and the event below; -1: none */
	int event;          /* a notification came with the answer of another statement */
	bool rows, control; /* which ones have come */
	bool drowsy;        /* looks for the last time */
	bool asleep;        /* until it is notified */
	bool locked;        /* has the sleeper's lock */
	int64_t found;      /* rows, when it looked last */
	int64_t look_us;    /* when to look again; monotonic */
	int64_t step_us;    /* the distance to the look after that */
	char rows_channel[32];    /* someone wrote to the outbox */
	char control_channel[40]; /* an operator, or a relay that gave its lease back */
} postgres_watch;

typedef struct postgres_db {
	wherry_db base; /* first */
	PGconn *conn;
	PGcancel *cancel;
	postgres_stmt *stmts; /* cached */
	size_t n_stmts;
	unsigned n_named; /* names given so far */
	bool stale;       /* The server may keep statements that were forgotten here. */
	bool borrowed;
	bool pooled;    /* behind a pooler: each transaction may be in another session */
	bool fixed;     /* search_path is pg_catalog, whatever the user's is */
	char *schemas;  /* of the user's search path, as an array; NULL: ask each time */
	bool visiting;  /* rows are being visited: nothing else can run */
	int savepoints; /* of those that begin began */
	int64_t last_id;
	atomic_bool running;     /* a call that may be interrupted */
	atomic_bool interrupted; /* since it began */
	postgres_watch watch;
	bool quiet; /* the transaction that begin began makes no work for a relay */
	int64_t give_up_us; /* No call waits beyond this time, monotonic; 0: no limit. */
	int64_t answer_us;  /* Silence after which the server is asked; 0: never. */
	char begin[1024];   /* begins a transaction */
	char name[128];     /* "shop on db.example.org" */
	char notice[160];   /* what the server said last without being asked */
} postgres_db;

/* postgres_error.c: turn an error into ours; the driver's only place that knows SQLSTATEs.  res: NULL where
 * the connection itself failed. */
wherry_code wh_postgres_fail(postgres_db *s, const PGresult *res, wherry_error *err);

/* The same for a connection that could not be made: its message contains the SQLSTATE. */
wherry_code wh_postgres_refused(postgres_db *s, wherry_error *err);

/* As the server would with this SQLSTATE; and when a commit got no answer. */
wherry_code wh_postgres_fail_as(const postgres_db *s, const char *state,
				wherry_error *err);
wherry_code wh_postgres_fail_indoubt(const postgres_db *s, wherry_error *err);
bool wh_postgres_about_row(const wherry_error *err);
wherry_code wh_postgres_code_of(int native, const char *state);

/* Did a prepared statement fail because a table was altered after it was prepared? */
bool wh_postgres_outdated(const PGresult *res);

/* Connect with these options, as PQconnectdbParams() takes them; s->conn is given, also on
 * failure. */
wherry_code wh_postgres_connect(postgres_db *s, const char *const *keywords,
				const char *const *values, wherry_error *err);

/* The same as another connection does, to the same server; replication may be NULL. */
wherry_code wh_postgres_connect_as(postgres_db *s, const postgres_db *like,
				   const char *replication, wherry_error *err);

/*
 * postgres_wait.c.  Wait until a result can be fetched without blocking, but no longer than is
 * reasonable: then the connection is shut down, and the result says so.
 */
void wh_postgres_await(postgres_db *s);
PGresult *wh_postgres_result(postgres_db *s); /* as PQgetResult() */
PGresult *wh_postgres_query(postgres_db *s, const char *sql);
PGresult *wh_postgres_query_params(postgres_db *s, const char *sql, int n,
				   const char *const *values, int format);
PGresult *wh_postgres_prepare(postgres_db *s, const char *name, const char *sql);
PGresult *wh_postgres_describe(postgres_db *s, const char *name);

/* Is it a URL?  And open a connection; see postgres_open.c. */
wherry_code wh_postgres_check(const char *rest, wherry_error *err);
wherry_code wh_postgres_open(const char *rest, const wh_db_options *options,
			     wherry_db **out, wherry_error *err);

wherry_code wh_postgres_schema_of(wherry_db *db, const char *table, bool own, char *out,
				  size_t cap, wherry_error *err);

/* postgres_exec.c: run SQL without parameters or rows. */
wherry_code wh_postgres_exec(postgres_db *s, const char *sql, wherry_error *err);

/* Whether a transaction is open, begun by Wherry or by the application. */
bool wh_postgres_is_open(const postgres_db *s);

/* Begin a transaction, not a savepoint.  How it ends is known from wh_postgres_end(). */
wherry_code wh_postgres_begin(postgres_db *s, bool quietly, wherry_error *err);
wherry_code wh_postgres_end(postgres_db *s, wherry_error *err);

/* INVALID while rows are being visited. */
wherry_code wh_postgres_check_free(const postgres_db *s, wherry_error *err);
wherry_code wh_postgres_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			    size_t n_params, wh_row_fn visit, void *ctx,
			    int64_t *out_changed, wherry_error *err);
wherry_code wh_postgres_run_all(wherry_db *db, wh_call *calls, size_t n,
				wherry_error *err);
void wh_postgres_forget(wherry_db *db, const wh_sql *sql);
void wh_postgres_clear(postgres_db *s); /* frees all statements */

extern const wh_row_driver wh_postgres_rows;

/* After each answer: did it bring notifications along? */
void wh_postgres_heard(postgres_db *s);
/* After a commit: the sleeper's lock does not keep its own session from sharing it. */
void wh_postgres_committed(postgres_db *s);
void wh_postgres_unwatch(postgres_db *s);

/* See stream.h. */
wherry_code wh_postgres_stream(wherry_db *db, const wh_stream_options *options,
			       wh_stream **out, wherry_error *err);

wherry_code wh_postgres_watch(wherry_db *db, const wh_watch *whose, wherry_error *err);
int wh_postgres_fd(wherry_db *db);
bool wh_postgres_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us);

#endif
