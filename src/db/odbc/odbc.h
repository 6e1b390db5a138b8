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

/* How a database behind ODBC wants to be spoken to. */
typedef struct odbc_dialect {
	const wh_db_driver *driver;
	const char *dbms; /* What its ODBC driver calls it. */
	const char *set_up;
	const char *timeout; /* Milliseconds follow. */
	const char *sync, *no_sync;
	const char *begin, *commit, *rollback;
	const char *savepoint, *release, *undo; /* release NULL: nothing to say */
} odbc_dialect;

/* A prepared statement. */
typedef struct odbc_stmt {
	const wh_stmt *stmt; /* Whose; compared by address. */
	SQLHSTMT handle;
	int *order;     /* Which parameter each ? is. */
	size_t n_order; /* How many there are. */
	bool *binary;   /* Does the database take bytes there? */
} odbc_stmt;

typedef struct odbc_db {
	wherry_db base;
	const odbc_dialect *dialect;
	SQLHENV env;
	SQLHDBC dbc;
	bool borrowed;
	bool open; /* A transaction of ours. */
	bool lost; /* The connection is gone. */
	int savepoints;
	odbc_stmt *stmts;
	size_t n_stmts;
	int64_t last_id;
	int64_t limit_us;     /* No call is begun after this time; 0: none. */
	char *schemas;        /* The user's search path, as an array; NULL: unknown. */
	pthread_mutex_t lock; /* Of running. */
	SQLHSTMT running;     /* The statement that runs; NULL: none does. */
	bool interrupted;
	struct {
		bool on;
		int64_t step_us, check_us, found;
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

/* odbc_error.c: the first diagnostic record of a handle, as an error. */
wherry_code wh_odbc_fail(odbc_db *s, SQLSMALLINT kind, SQLHANDLE handle,
			 wherry_error *err);
bool wh_odbc_about_row(const wherry_error *err);

/* odbc_run.c */
wherry_code wh_odbc_exec(odbc_db *s, const char *sql, wherry_error *err);
wherry_code wh_odbc_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
			wherry_error *err);
void wh_odbc_forget(wherry_db *db, const wh_sql *sql);
void wh_odbc_clear(odbc_db *s);
wherry_code wh_odbc_check_alive(odbc_db *s, wherry_error *err);
extern const wh_row_driver wh_odbc_rows;

#endif
