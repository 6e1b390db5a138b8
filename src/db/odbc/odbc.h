/*
 * What the files of the ODBC driver share.
 */
#ifndef WH_DB_ODBC_H
#define WH_DB_ODBC_H

#include <sql.h>
#include <sqlext.h>
#include <pthread.h>

#include "base/arena.h"
#include "db/driver.h"

enum { ODBC_LOOK_US = 250000 }; /* How often it is looked at, unless a setting says so. */

/* How a database behind ODBC wants to be spoken to. */
typedef struct odbc_dialect {
	const wh_db_driver *driver;
	const char *dbms; /* What its ODBC driver calls it. */
	bool tsql; /* SQL Server: texts are UTF-16, its own numbers say what failed, and a
			failed statement may roll its transaction back. */
	int64_t answer_s; /* Longest run of a statement beyond the wait for a lock; 0: any. */
	const char *set_up;
	const char *timeout; /* Milliseconds follow. */
	const char *sync, *no_sync;
	const char *begin, *commit, *rollback;
	/* release NULL: savepoints are not released.  %d: the number of savepoints. */
	const char *savepoint, *release, *undo;
} odbc_dialect;

/* A prepared statement. */
typedef struct odbc_stmt {
	const wh_stmt *stmt; /* Whose; compared by address. */
	SQLHSTMT handle;
	long timeout_s; /* Longest run that the handle was given; 0: any. */
	int *order;     /* Which parameter each ? is. */
	size_t n_order; /* How many there are. */
	bool *binary;   /* Does the database take bytes there? */
} odbc_stmt;

typedef struct odbc_db {
	wherry_db base;
	const odbc_dialect *dialect;
	bool tsql; /* As the dialect's; set before that is known. */
	SQLHENV env;
	SQLHDBC dbc;
	bool borrowed;
	bool open;    /* A transaction of ours. */
	bool lost;    /* The connection is gone. */
	bool spoiled; /* The server rolled the transaction back after a statement failed. */
	int savepoints;
	long timeout_s; /* Longest run of a statement; 0: any. */
	odbc_stmt *stmts;
	size_t n_stmts;
	int64_t last_id;
	int64_t limit_us;     /* No call lasts longer than until this time; 0: none. */
	char *schemas;        /* The user's search path, as an array; NULL: unknown. */
	pthread_mutex_t lock; /* Of running. */
	bool deaf;        /* The ODBC driver is not safe to cancel from another thread. */
	SQLHSTMT running; /* The statement that runs; NULL: none does. */
	bool interrupted;
	struct {
		bool on;
		int64_t most_us; /* From one look to the next, in the end. */
		int64_t step_us, check_us, found;
		int64_t looked_us,
			spent_us; /* The last look; what statements took since. */
	} watch;
	char name[160]; /* Of the database, for messages. */
} odbc_db;

/* ODBC reads through pointers that are not const. */
static inline void *wh_odbc_in(const void *data)
{
	union {
		const void *in;
		void *out;
	} as = {data};

	return as.out;
}

/* odbc_text.c: UTF-16 behind which a 0 stands; out and its length in units. */
wherry_code wh_odbc_widen(wh_arena *arena, wh_view text, SQLWCHAR **out, size_t *out_n,
			  wherry_error *err);
/* Append UTF-16 as UTF-8; false: half of a surrogate pair stands alone. */
bool wh_odbc_narrow(const SQLWCHAR *wide, size_t n, wh_buf *out);

/* A DATETIMEOFFSET as the drivers write it, as Unix time in microseconds. */
wherry_code wh_odbc_time(const char *text, int64_t *out_us, wherry_error *err);

/*
 * odbc_url.c: the connection string of an mssql: URL, and the name of the database for messages.
 *
 * @param installed  The ODBC driver to take if the URL names none; NULL: there is none.
 */
wherry_code wh_odbc_mssql_string(const char *rest, const char *installed, wh_buf *out,
				 char *name, size_t cap, wherry_error *err);

/* odbc_error.c: the diagnostic records of a handle, as an error. */
wherry_code wh_odbc_fail(odbc_db *s, SQLSMALLINT kind, SQLHANDLE handle,
			 wherry_error *err);
bool wh_odbc_about_row(const wherry_error *err);
wherry_code wh_odbc_code_of(int native, const char *state);
wherry_code wh_odbc_mssql_code_of(int native, const char *state);
/* What a number of SQL Server means; WHERRY_OK: it is not in the table. */
wherry_code wh_odbc_mssql_code(long native);

/* odbc_bind.c: a value for a statement's n-th ?, valid until it has run. */
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

/* odbc_exec.c: run SQL without parameters; script() also in a transaction, where a failure
 * matters. */
wherry_code wh_odbc_exec(odbc_db *s, const char *sql, wherry_error *err);
wherry_code wh_odbc_script(odbc_db *s, const char *sql, wherry_error *err);
/* Execute (now) or prepare a text; *out_rc is what ODBC returned. */
wherry_code wh_odbc_send(odbc_db *s, SQLHSTMT handle, const char *sql, bool now,
			 SQLRETURN *out_rc, wherry_error *err);
/* The handle is to give up after *inout_s; CLOSED: there is no time left for any call. */
wherry_code wh_odbc_limit_run(odbc_db *s, SQLHSTMT handle, long *inout_s,
			      wherry_error *err);
/* Between these two an interruption cancels the statement. */
void wh_odbc_begin_running(odbc_db *s, SQLHSTMT handle);
void wh_odbc_end_running(odbc_db *s);
wherry_code wh_odbc_check_alive(odbc_db *s, wherry_error *err);
/* After a statement failed in a transaction: did the server roll that back? */
void wh_odbc_look(odbc_db *s);
/* CONFLICT: the transaction was rolled back by the server. */
wherry_code wh_odbc_check_usable(odbc_db *s, wherry_error *err);

/* odbc_run.c */
wherry_code wh_odbc_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
			wherry_error *err);
void wh_odbc_forget(wherry_db *db, const wh_sql *sql);
void wh_odbc_clear(odbc_db *s);

/* odbc_ask.c: the first column of the last row as text, to be freed; NULL: there is none. */
wherry_code wh_odbc_ask(odbc_db *s, const char *sql, const wh_param *params, size_t n,
			char **out, wherry_error *err);
wherry_code wh_odbc_mssql_schema_of(wherry_db *db, const char *table, bool own, char *out,
				    size_t cap, wherry_error *err);
wherry_code wh_odbc_postgres_schema_of(wherry_db *db, const char *table, bool own,
				       char *out, size_t cap, wherry_error *err);
extern const wh_row_driver wh_odbc_rows;

#endif
