/*
 * Sending SQL: its text, its time limit, and which statement an interrupt cancels.
 */
#include "db/odbc/odbc.h"

void wh_odbc_begin_running(odbc_db *s, SQLHSTMT handle)
{
	(void)pthread_mutex_lock(&s->lock);
	s->running = handle;
	s->interrupted = false;
	(void)pthread_mutex_unlock(&s->lock);
}

void wh_odbc_end_running(odbc_db *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->running = NULL;
	(void)pthread_mutex_unlock(&s->lock);
}

static wherry_code check_alive(odbc_db *s, wherry_error *err)
{
	SQLUINTEGER dead = SQL_CD_FALSE;

	if (!s->lost && SQL_SUCCEEDED(SQLGetConnectAttr(s->dbc, SQL_ATTR_CONNECTION_DEAD,
							&dead, sizeof(dead), NULL)))
		s->lost = dead == SQL_CD_TRUE;
	if (s->lost)
		return wh_fail(err, WHERRY_CLOSED, "%s: the connection is lost", s->name);
	return WHERRY_OK;
}

/* Refuse statements after the server rolled the transaction back: they would be committed
 * at once. */
wherry_code wh_odbc_check_usable(odbc_db *s, wherry_error *err)
{
	if (s->spoiled)
		return wh_fail(
			err, WHERRY_CONFLICT,
			"%s: a statement before this one failed, and the server rolled "
			"the transaction back: roll back and begin again",
			s->name);
	return check_alive(s, err);
}

wherry_code wh_odbc_send(odbc_db *s, SQLHSTMT handle, const char *sql, bool now,
			 SQLRETURN *out_rc, wherry_error *err)
{
	wh_arena arena = WH_ARENA_INIT;
	SQLWCHAR *wide = NULL;
	size_t n;
	wherry_code code;

	if (!s->tsql) {
		*out_rc = now ? SQLExecDirect(handle, wh_odbc_in(sql), SQL_NTS)
			      : SQLPrepare(handle, wh_odbc_in(sql), SQL_NTS);
		return WHERRY_OK;
	}
	code = wh_odbc_widen(&arena, wh_view_of(sql), &wide, &n, err);
	if (code == WHERRY_OK)
		*out_rc = now ? SQLExecDirectW(handle, wide, (SQLINTEGER)n)
			      : SQLPrepareW(handle, wide, (SQLINTEGER)n);
	wh_arena_clear(&arena);
	return code;
}

/* Time limits are in seconds, rounded up. */
static long seconds_left(const odbc_db *s, int64_t now_us)
{
	long left_s = (long)((s->limit_us - now_us + WH_SECOND - 1) / WH_SECOND);

	return s->timeout_s && s->timeout_s < left_s ? s->timeout_s : left_s;
}

wherry_code wh_odbc_limit_run(odbc_db *s, SQLHSTMT handle, long *inout_s,
			      wherry_error *err)
{
	int64_t now_us = s->limit_us ? wh_monotonic(s->base.env) : 0;
	long most_s = s->limit_us ? seconds_left(s, now_us) : s->timeout_s;

	if (s->limit_us && now_us >= s->limit_us) {
		s->lost = true;
		return wh_fail(err, WHERRY_CLOSED,
			       "%s: the connection is given up: no time is left to wait",
			       s->name);
	}
	if (most_s != *inout_s)
		(void)SQLSetStmtAttr(handle, SQL_ATTR_QUERY_TIMEOUT,
				     (SQLPOINTER)most_s, /* NOLINT(*-int-to-ptr) */
				     0);
	*inout_s = most_s;
	return WHERRY_OK;
}

wherry_code wh_odbc_exec(odbc_db *s, const char *sql, wherry_error *err)
{
	SQLHSTMT handle = NULL;
	wherry_code code = check_alive(s, err);
	SQLRETURN rc = SQL_SUCCESS;
	long timeout_s = 0;

	if (code != WHERRY_OK)
		return code;
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, &handle)))
		return wh_odbc_fail(s, SQL_HANDLE_DBC, s->dbc, err);
	code = wh_odbc_limit_run(s, handle, &timeout_s, err);
	if (code == WHERRY_OK) {
		wh_odbc_begin_running(s, handle);
		code = wh_odbc_send(s, handle, sql, true, &rc, err);
		while (code == WHERRY_OK && SQL_SUCCEEDED(rc))
			rc = SQLMoreResults(handle);
		wh_odbc_end_running(s);
	}
	if (code == WHERRY_OK && rc != SQL_NO_DATA)
		code = wh_odbc_fail(s, SQL_HANDLE_STMT, handle, err);
	(void)SQLFreeHandle(SQL_HANDLE_STMT, handle);
	return code;
}

void wh_odbc_look(odbc_db *s)
{
	static const char sql[] = "SELECT CASE WHEN XACT_STATE() = 1 THEN 1 ELSE 0 END";
	SQLHSTMT handle = NULL;
	SQLINTEGER open = 1;
	SQLLEN len = 0;

	if (!s->tsql || !s->open || s->lost || s->spoiled)
		return;
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, &handle)))
		return;
	if (SQL_SUCCEEDED(SQLExecDirect(handle, wh_odbc_in(sql), SQL_NTS)) &&
	    SQL_SUCCEEDED(SQLFetch(handle)) &&
	    SQL_SUCCEEDED(SQLGetData(handle, 1, SQL_C_SLONG, &open, sizeof(open), &len)))
		s->spoiled = !open;
	(void)SQLFreeHandle(SQL_HANDLE_STMT, handle);
}

wherry_code wh_odbc_script(odbc_db *s, const char *sql, wherry_error *err)
{
	wherry_code code = wh_odbc_check_usable(s, err);

	if (code == WHERRY_OK)
		code = wh_odbc_exec(s, sql, err);
	if (code != WHERRY_OK)
		wh_odbc_look(s);
	return code;
}
