/*
 * Types and functions that the files of the ODBC driver share.
 */
#ifndef WH_DB_ODBC_H
#define WH_DB_ODBC_H

#include <sql.h>
#include <sqlext.h>
#include <pthread.h>

#include "base/arena.h"
#include "db/driver.h"

/* Default of the longest interval between looks for commits. */
enum { ODBC_LOOK_US = 250000 };

/* SQL and properties of a database behind ODBC. */
typedef struct odbc_dialect {
	const wh_db_driver *driver;
	const char *dbms; /* Name of the database, as its ODBC driver reports it. */
	/* SQL Server: texts are UTF-16, errors have its own numbers, and a failed
	 * statement may roll its transaction back. */
	bool tsql;
	/* Longest run of a statement, in addition to the wait for a lock; 0: no limit. */
	int64_t answer_s;
	const char *set_up;
	const char *timeout; /* SQL to which the milliseconds are appended. */
	const char *sync, *no_sync;
	const char *begin, *commit, *rollback;
	/* release NULL: savepoints are not released.  %d stands for the number of the
	 * savepoint. */
	const char *savepoint, *release, *undo;
} odbc_dialect;

/* A prepared statement. */
typedef struct odbc_stmt {
	const wh_stmt *stmt; /* The statement that was prepared; compared by address. */
	SQLHSTMT handle;
	long timeout_s; /* Longest run that was set on the handle; 0: no limit. */
	int *order;     /* Index of the statement's parameter for each ?. */
	size_t n_order; /* Number of entries in `order`. */
	bool *binary;   /* For each ?: does the database expect bytes there? */
} odbc_stmt;

typedef struct odbc_db {
	wherry_db base;
	const odbc_dialect *dialect;
	bool tsql; /* Copy of dialect->tsql; set before the dialect is known. */
	SQLHENV env;
	SQLHDBC dbc;
	bool borrowed;
	bool open;    /* A transaction that Wherry began is open. */
	bool lost;    /* The connection is lost. */
	bool spoiled; /* The server rolled the transaction back after a statement failed. */
	int savepoints;
	long timeout_s; /* Longest run of a statement; 0: no limit. */
	odbc_stmt *stmts;
	size_t n_stmts;
	int64_t last_id;
	int64_t limit_us; /* No call runs beyond this time, monotonic; 0: no limit. */
	/* Schemas of the user's search path, as an array; NULL: unknown. */
	char *schemas;
	pthread_mutex_t lock; /* Protects `running` and `interrupted`. */
	/* The driver is FreeTDS: it cannot be cancelled from another thread, and cuts long
	 * values of types without MAX. */
	bool freetds;
	SQLHSTMT running; /* Handle of the running statement; NULL: none. */
	bool interrupted;
	struct {
		bool on;
		int64_t most_us; /* Longest interval between two looks. */
		int64_t step_us, check_us, rows_read;
		/* Time of the last look; how long statements took since then. */
		int64_t looked_us, spent_us;
	} watch;
	char name[160]; /* Name of the database, for messages. */
} odbc_db;

/* Remove const: ODBC takes pointers that are not const for data that it only reads. */
static inline void *wh_odbc_in(const void *data)
{
	union {
		const void *in;
		void *out;
	} as = {data};

	return as.out;
}

/* odbc_text.c: convert to UTF-16, with a 0 after it.  *out_n is the length in units. */
wherry_code wh_odbc_widen(wh_arena *arena, wh_view text, SQLWCHAR **out, size_t *out_n,
			  wherry_error *err);
/* Append UTF-16 as UTF-8; false: half of a surrogate pair is missing. */
bool wh_odbc_narrow(const SQLWCHAR *wide, size_t n, wh_buf *out);

/* Convert a DATETIMEOFFSET, as ODBC drivers write it, to Unix time. */
wherry_code wh_odbc_time(const char *text, int64_t *out_us, wherry_error *err);

/*
 * odbc_url.c: write the connection string of an mssql: URL, and the name of the database
 * for messages.
 *
 * @param installed  The ODBC driver to use if the URL names none; NULL: none is
 *                   installed.
 */
wherry_code wh_odbc_mssql_string(const char *rest, const char *installed, wh_buf *out,
				 char *name, size_t cap, wherry_error *err);

/* odbc_error.c: convert the diagnostic records of a handle to an error. */
wherry_code wh_odbc_fail(odbc_db *s, SQLSMALLINT kind, SQLHANDLE handle,
			 wherry_error *err);
bool wh_odbc_about_row(const wherry_error *err);
bool wh_odbc_locked_out(const wherry_error *err);
wherry_code wh_odbc_code_of(int native, const char *state);
wherry_code wh_odbc_mssql_code_of(int native, const char *state);
/* The code of an error number of SQL Server; WHERRY_OK: not in the table. */
wherry_code wh_odbc_mssql_code(long native);

/* odbc_bind.c: the type by which a value is bound on SQL Server. */
typedef struct wh_odbc_type {
	SQLSMALLINT type;
	SQLULEN size; /* 0: MAX. */
} wh_odbc_type;

wh_odbc_type wh_odbc_text_type(bool freetds, size_t units); /* units: of UTF-16. */
wh_odbc_type wh_odbc_bytes_type(bool freetds, size_t len);

/* odbc_bind.c: the values of a statement, valid until it has run. */
typedef struct odbc_bound {
	SQLBIGINT *numbers;
	SQLLEN *lengths;
	wh_arena arena;
} odbc_bound;
enum { ODBC_MARKS_MOST = 120 };
wherry_code wh_odbc_bind(odbc_db *s, odbc_stmt *c, const wh_param *params, size_t n,
			 odbc_bound *b, wherry_error *err);

/* odbc_open.c */
wherry_code wh_odbc_open(const char *rest, const wh_db_options *options, wherry_db **out,
			 wherry_error *err);
wherry_code wh_odbc_open_mssql(const char *rest, const wh_db_options *options,
			       wherry_db **out, wherry_error *err);
wherry_code wh_odbc_mssql_check(const char *rest, wherry_error *err);
void wh_odbc_close(wherry_db *db);

/* odbc_transaction.c: see wh_db_driver. */
wherry_code wh_odbc_begin(wherry_db *db, bool quiet, wherry_error *err);
wherry_code wh_odbc_commit(wherry_db *db, wherry_error *err);
void wh_odbc_rollback(wherry_db *db);
bool wh_odbc_is_open(wherry_db *db);

/* odbc.c */
extern const wh_db_driver wh_odbc_postgres;

/* odbc_exec.c: run SQL without parameters.  script() may run in a transaction, and checks
 * whether the server rolled it back. */
wherry_code wh_odbc_exec(odbc_db *s, const char *sql, wherry_error *err);
wherry_code wh_odbc_script(odbc_db *s, const char *sql, wherry_error *err);
/* Execute (now) or prepare a text.  *out_rc is what ODBC returned. */
wherry_code wh_odbc_send(odbc_db *s, SQLHSTMT handle, const char *sql, bool now,
			 SQLRETURN *out_rc, wherry_error *err);
/* Set the longest run of a handle; *inout_s is the value it has.  CLOSED: no time is left
 * for any call. */
wherry_code wh_odbc_limit_run(odbc_db *s, SQLHSTMT handle, long *inout_s,
			      wherry_error *err);
/* Between these two calls an interrupt cancels the statement. */
void wh_odbc_begin_running(odbc_db *s, SQLHSTMT handle);
void wh_odbc_end_running(odbc_db *s);
/* Call it after a failed statement in a transaction: checks whether the server rolled the
 * transaction back. */
void wh_odbc_look(odbc_db *s);
/* Return CONFLICT if the server rolled the transaction back. */
wherry_code wh_odbc_check_usable(odbc_db *s, wherry_error *err);

/* odbc_run.c */
wherry_code wh_odbc_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
			wherry_error *err);
void wh_odbc_forget(wherry_db *db, const wh_sql *sql);
void wh_odbc_clear(odbc_db *s);

/* odbc_ask.c: the first column of the last row as text, which the caller frees; NULL:
 * none. */
wherry_code wh_odbc_ask(odbc_db *s, const char *sql, const wh_param *params, size_t n,
			char **out, wherry_error *err);
wherry_code wh_odbc_mssql_schema_of(wherry_db *db, const char *table, bool own, char *out,
				    size_t cap, int64_t *out_n, wherry_error *err);
wherry_code wh_odbc_postgres_schema_of(wherry_db *db, const char *table, bool own,
				       char *out, size_t cap, int64_t *out_n,
				       wherry_error *err);
extern const wh_row_driver wh_odbc_rows;

#endif
