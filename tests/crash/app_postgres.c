#include "app_postgres.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <string.h>

#include <wherry/odbc.h>
#include <wherry/postgres.h>
#include <wherry/sqlite.h>

#ifdef WHERRY_ODBC
#include "db/odbc/odbc.h"

enum { SLOW = 10 };

static const char mssql[] = "mssql:";

static bool open_odbc(app *a, const char *url, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(4096);
	char name[160];
	SQLHENV env = NULL;
	SQLRETURN rc;
	wherry_code code = wh_odbc_mssql_string(url + strlen(mssql), "FreeTDS", &text,
						name, sizeof(name), err);

	if (code != WHERRY_OK)
		return false;
	(void)SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &env);
	(void)SQLSetEnvAttr(env, SQL_ATTR_ODBC_VERSION,
			    (SQLPOINTER)SQL_OV_ODBC3, /* NOLINT(*-int-to-ptr) */
			    0);
	(void)SQLAllocHandle(SQL_HANDLE_DBC, env, &a->odbc);
	rc = SQLDriverConnect(a->odbc, NULL, (SQLCHAR *)text.ptr, SQL_NTS, NULL, 0, NULL,
			      SQL_DRIVER_NOPROMPT);
	wh_buf_clear(&text);
	if (!SQL_SUCCEEDED(rc)) {
		(void)wh_fail(err, WHERRY_CLOSED, "%s: cannot connect", name);
		return false;
	}
	return wherry_odbc_borrow(a->odbc, &a->db, err) == WHERRY_OK;
}

static bool run_odbc(app *a, const char *sql)
{
	SQLHSTMT stmt = NULL;
	SQLRETURN rc;

	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, a->odbc, &stmt)))
		return false;
	rc = SQLExecDirect(stmt, wh_odbc_in(sql), SQL_NTS);
	while (SQL_SUCCEEDED(rc) || rc == SQL_NO_DATA) { /* of each of its statements */
		rc = SQLMoreResults(stmt);
		if (rc == SQL_NO_DATA)
			break;
	}
	(void)SQLFreeHandle(SQL_HANDLE_STMT, stmt);
	return rc == SQL_NO_DATA;
}
#endif

bool app_open(app *a, const char *where, wherry_error *err)
{
	if (strncmp(where, "postgres", 8) == 0) {
		a->postgres = PQconnectdb(where);
		return PQstatus(a->postgres) == CONNECTION_OK &&
		       wherry_postgres_borrow(a->postgres, &a->db, err) == WHERRY_OK;
	}
#ifdef WHERRY_ODBC
	if (strncmp(where, mssql, strlen(mssql)) == 0)
		return open_odbc(a, where, err);
#endif
	sqlite3 *file = NULL;
	bool ok = sqlite3_open(where, &file) == SQLITE_OK &&
		  sqlite3_busy_timeout(file, 30000) == SQLITE_OK;

	a->sqlite = file;
	return ok && wherry_sqlite_borrow(file, &a->db, err) == WHERRY_OK;
}

bool app_run(app *a, const char *sql)
{
	PGresult *res;
	bool ok;

#ifdef WHERRY_ODBC
	if (a->odbc)
		return run_odbc(a, sql);
#endif
	if (a->sqlite)
		return sqlite3_exec(a->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK;
	res = PQexec(a->postgres, sql);
	ok = PQresultStatus(res) == PGRES_COMMAND_OK;
	PQclear(res);
	return ok;
}

int64_t app_lease_us(const app *a, int64_t lease_us)
{
#ifdef WHERRY_ODBC
	return a->odbc ? SLOW * lease_us : lease_us;
#else
	(void)a;
	return lease_us;
#endif
}
