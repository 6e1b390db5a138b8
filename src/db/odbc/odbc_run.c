/*
 * Running statements.  They are prepared once.  All rows of a result are read before the
 * first is visited, since many drivers can run only one statement at a time on a
 * connection.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "db/odbc/odbc.h"

enum {
	TEXT_MAX = 128 * 1024,
	COLUMNS_MOST = 64,
	CHUNK = 8192,
	VALUE_MAX = 256 * 1024 * 1024
};

typedef enum odbc_kind {
	KIND_TEXT,
	KIND_INT,
	KIND_BYTES,
	KIND_TIME,
	KIND_OFFSET /* A time with an offset from UTC. */
} odbc_kind;

enum { TIMESTAMP_OFFSET = -155 }; /* Microsoft's SQL_SS_TIMESTAMPOFFSET. */

/* One value of a result. */
typedef struct value {
	bool null, is_int;
	int64_t number;
	wh_view bytes;
} value;

typedef struct result {
	odbc_db *s;
	SQLHSTMT handle;
	int n_columns;
	odbc_kind kinds[COLUMNS_MOST];
	wh_arena arena;
	value *values; /* n_rows * n_columns values. */
	size_t n_rows, cap;
} result;

/* ---- preparing ---- */

static void clear_stmt(odbc_stmt *c)
{
	if (c->handle)
		(void)SQLFreeHandle(SQL_HANDLE_STMT, c->handle);
	free(c->order);
	free(c->binary);
}

void wh_odbc_clear(odbc_db *s)
{
	for (size_t i = 0; i < s->n_stmts; i++)
		clear_stmt(&s->stmts[i]);
	free(s->stmts);
	s->stmts = NULL;
	s->n_stmts = 0;
}

static void forget(odbc_db *s, const wh_stmt *first, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n_stmts; i++) {
		odbc_stmt *c = &s->stmts[i];

		if (c->stmt >= first && c->stmt < first + n)
			clear_stmt(c);
		else
			s->stmts[kept++] = *c;
	}
	s->n_stmts = kept;
}

void wh_odbc_forget(wherry_db *db, const wh_sql *sql)
{
	forget((odbc_db *)db, sql->stmts, sql->n);
}

static bool is_binary(SQLSMALLINT type)
{
	return type == SQL_BINARY || type == SQL_VARBINARY || type == SQL_LONGVARBINARY;
}

/* Find out which parameters take bytes.  If a driver does not report it, they take
 * texts. */
static void describe(odbc_stmt *c)
{
	for (size_t i = 0; i < c->n_order; i++) {
		SQLSMALLINT type = 0, digits, nullable;
		SQLULEN size;

		c->binary[i] = SQL_SUCCEEDED(SQLDescribeParam(
				       c->handle, (SQLUSMALLINT)(i + 1), &type, &size,
				       &digits, &nullable)) &&
			       is_binary(type);
	}
}

static wherry_code prepare(odbc_db *s, odbc_stmt *c, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(TEXT_MAX);
	SQLRETURN rc = SQL_SUCCESS;
	wherry_code code;

	c->order = calloc(ODBC_MARKS_MOST, sizeof(*c->order));
	c->binary = calloc(ODBC_MARKS_MOST, sizeof(*c->binary));
	code = c->order && c->binary ? wh_stmt_marks(c->stmt, &text, c->order,
						     ODBC_MARKS_MOST, &c->n_order, err)
				     : wh_oom(err);
	if (code == WHERRY_OK &&
	    !SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, &c->handle)))
		code = wh_odbc_fail(s, SQL_HANDLE_DBC, s->dbc, err);
	if (code == WHERRY_OK)
		code = wh_odbc_limit_run(s, c->handle, &c->timeout_s, err);
	if (code == WHERRY_OK)
		code = wh_odbc_send(s, c->handle, wh_buf_str(&text), false, &rc, err);
	if (code == WHERRY_OK && !SQL_SUCCEEDED(rc))
		code = wh_odbc_fail(s, SQL_HANDLE_STMT, c->handle, err);
	/* On SQL Server it costs a round trip, and may fail. */
	if (code == WHERRY_OK && !s->tsql)
		describe(c);
	wh_buf_clear(&text);
	return code;
}

static wherry_code find(odbc_db *s, const wh_stmt *stmt, odbc_stmt **out,
			wherry_error *err)
{
	odbc_stmt *grown, fresh = {.stmt = stmt};
	wherry_code code;

	for (size_t i = 0; i < s->n_stmts; i++) {
		if (s->stmts[i].stmt == stmt) {
			*out = &s->stmts[i];
			return WHERRY_OK;
		}
	}
	grown = realloc(s->stmts, (s->n_stmts + 1) * sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	s->stmts = grown;
	code = prepare(s, &fresh, err);
	if (code != WHERRY_OK) {
		clear_stmt(&fresh);
		return code;
	}
	s->stmts[s->n_stmts] = fresh;
	*out = &s->stmts[s->n_stmts++];
	return WHERRY_OK;
}

/* ---- rows ---- */

static odbc_kind kind_of(SQLSMALLINT type)
{
	switch (type) {
	case SQL_BIGINT:
	case SQL_INTEGER:
	case SQL_SMALLINT:
	case SQL_TINYINT:
	case SQL_BIT:
		return KIND_INT;
	case SQL_BINARY:
	case SQL_VARBINARY:
	case SQL_LONGVARBINARY:
		return KIND_BYTES;
	case SQL_TIMESTAMP:
	case SQL_TYPE_TIMESTAMP:
		return KIND_TIME;
	case TIMESTAMP_OFFSET:
		return KIND_OFFSET;
	default:
		return KIND_TEXT;
	}
}

static wherry_code describe_columns(result *r, wherry_error *err)
{
	for (int i = 0; i < r->n_columns; i++) {
		SQLSMALLINT type = 0, len, digits, nullable;
		SQLULEN size;
		SQLCHAR name[64];

		if (!SQL_SUCCEEDED(SQLDescribeCol(r->handle, (SQLUSMALLINT)(i + 1), name,
						  sizeof(name), &len, &type, &size,
						  &digits, &nullable)))
			return wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
		r->kinds[i] = kind_of(type);
	}
	return WHERRY_OK;
}

/* Read a long value in pieces.  Each piece of a text ends in a character 0. */
static wherry_code read_pieces(result *r, int column, SQLSMALLINT as, wh_buf *all,
			       bool *out_null, wherry_error *err)
{
	size_t end = as == SQL_C_BINARY ? 0 : as == SQL_C_WCHAR ? sizeof(SQLWCHAR) : 1;
	SQLWCHAR piece[CHUNK / sizeof(SQLWCHAR)];
	SQLLEN len = 0;
	SQLRETURN rc;

	do {
		rc = SQLGetData(r->handle, (SQLUSMALLINT)(column + 1), as, piece,
				sizeof(piece), &len);
		if (rc == SQL_NO_DATA)
			break;
		if (!SQL_SUCCEEDED(rc))
			return wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
		if (len == SQL_NULL_DATA) {
			*out_null = true;
			break;
		}
		if (len == SQL_NO_TOTAL || (size_t)len > sizeof(piece) - end)
			len = (SQLLEN)(sizeof(piece) - end);
		wh_buf_put(all, piece, (size_t)len);
	} while (rc == SQL_SUCCESS_WITH_INFO);
	return wh_buf_check(all, err);
}

/* Convert UTF-16 to UTF-8. */
static wherry_code make_narrow(const result *r, int column, wh_buf *all,
			       wherry_error *err)
{
	wh_buf narrow = WH_BUF_INIT(VALUE_MAX);
	wherry_code code;

	if (!wh_odbc_narrow((const SQLWCHAR *)(const void *)all->ptr,
			    all->len / sizeof(SQLWCHAR), &narrow)) {
		wh_buf_clear(&narrow);
		code = wh_fail(
			err, WHERRY_INVALID,
			"%s: column %d of a row is not Unicode: half of a surrogate "
			"pair stands alone",
			r->s->name, column + 1);
		if (err)
			(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "22021");
		return code;
	}
	wh_buf_clear(all);
	*all = narrow;
	return wh_buf_check(all, err);
}

static wherry_code read_bytes(result *r, int column, value *out, wherry_error *err)
{
	SQLSMALLINT as = r->kinds[column] == KIND_BYTES ? SQL_C_BINARY
			 : r->s->tsql                   ? SQL_C_WCHAR
							: SQL_C_CHAR;
	wh_buf all = WH_BUF_INIT(VALUE_MAX);
	wherry_code code = read_pieces(r, column, as, &all, &out->null, err);

	if (code == WHERRY_OK && as == SQL_C_WCHAR)
		code = make_narrow(r, column, &all, err);
	if (code == WHERRY_OK) {
		out->bytes = (wh_view){
			wh_arena_copy(&r->arena, wh_buf_str(&all), all.len), all.len};
		if (!out->bytes.ptr)
			code = wh_oom(err);
	}
	wh_buf_clear(&all);
	return code;
}

static wherry_code set_int(result *r, value *out, bool null, int64_t number,
			   wherry_error *err)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRId64, number);

	*out = (value){.null = null, .is_int = true, .number = null ? 0 : number};
	out->bytes = (wh_view){wh_arena_copy(&r->arena, text, (size_t)len), (size_t)len};
	return out->bytes.ptr ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_int(result *r, int column, value *out, wherry_error *err)
{
	SQLBIGINT number = 0;
	SQLLEN len = 0;

	if (!SQL_SUCCEEDED(SQLGetData(r->handle, (SQLUSMALLINT)(column + 1),
				      SQL_C_SBIGINT, &number, sizeof(number), &len)))
		return wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
	return set_int(r, out, len == SQL_NULL_DATA, number, err);
}

/* Read a time as Unix milliseconds.  The session's time zone is UTC. */
static wherry_code read_time(result *r, int column, value *out, wherry_error *err)
{
	SQL_TIMESTAMP_STRUCT t = {0};
	SQLLEN len = 0;
	struct tm tm;

	if (!SQL_SUCCEEDED(SQLGetData(r->handle, (SQLUSMALLINT)(column + 1),
				      SQL_C_TYPE_TIMESTAMP, &t, sizeof(t), &len)))
		return wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
	tm = (struct tm){.tm_year = t.year - 1900,
			 .tm_mon = t.month - 1,
			 .tm_mday = t.day,
			 .tm_hour = t.hour,
			 .tm_min = t.minute,
			 .tm_sec = t.second};
	return set_int(r, out, len == SQL_NULL_DATA,
		       (int64_t)timegm(&tm) * 1000 + t.fraction / 1000000, err);
}

/* Read a time such as "2026-11-23 04:30:00.1230000 +02:00" as text, since drivers
 * disagree about its offset as a struct. */
static wherry_code read_offset(result *r, int column, value *out, wherry_error *err)
{
	SQLCHAR text[64] = "";
	SQLLEN len = 0;
	int64_t us = 0;
	wherry_code code = WHERRY_OK;

	if (!SQL_SUCCEEDED(SQLGetData(r->handle, (SQLUSMALLINT)(column + 1), SQL_C_CHAR,
				      text, sizeof(text), &len)))
		return wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
	if (len != SQL_NULL_DATA)
		code = wh_odbc_time((const char *)text, &us, err);
	return code == WHERRY_OK ? set_int(r, out, len == SQL_NULL_DATA, us / 1000, err)
				 : code;
}

static wherry_code read_row(result *r, wherry_error *err)
{
	size_t at = r->n_rows * (size_t)r->n_columns;
	wherry_code code = WHERRY_OK;

	if (r->n_rows == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 64;
		value *grown =
			realloc(r->values, cap * (size_t)r->n_columns * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		r->values = grown;
		r->cap = cap;
	}
	for (int i = 0; code == WHERRY_OK && i < r->n_columns; i++) {
		value *v = &r->values[at + (size_t)i];

		*v = (value){.null = false};
		if (r->kinds[i] == KIND_INT)
			code = read_int(r, i, v, err);
		else if (r->kinds[i] == KIND_TIME)
			code = read_time(r, i, v, err);
		else if (r->kinds[i] == KIND_OFFSET)
			code = read_offset(r, i, v, err);
		else
			code = read_bytes(r, i, v, err);
	}
	r->n_rows += code == WHERRY_OK;
	return code;
}

static wherry_code read_rows(result *r, wherry_error *err)
{
	wherry_code code = describe_columns(r, err);

	while (code == WHERRY_OK) {
		SQLRETURN rc = SQLFetch(r->handle);

		if (rc == SQL_NO_DATA)
			break;
		code = SQL_SUCCEEDED(rc)
			       ? read_row(r, err)
			       : wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
	}
	return code;
}

static const value *value_of(const wh_row *row, int column)
{
	return (const value *)row->handle + column;
}

static int64_t row_int(const wh_row *row, int column)
{
	const value *v = value_of(row, column);
	int64_t number = 0;

	if (v->is_int || v->null)
		return v->number;
	return wh_parse_int(v->bytes.ptr, &number) ? number : 0;
}

static bool row_is_int(const wh_row *row, int column)
{
	const value *v = value_of(row, column);
	int64_t number;

	return v->null || v->is_int || wh_parse_int(v->bytes.ptr, &number);
}

static wh_view row_bytes(const wh_row *row, int column)
{
	const value *v = value_of(row, column);

	return v->null ? (wh_view){NULL, 0} : v->bytes;
}

const wh_row_driver wh_odbc_rows = {
	.integer = row_int,
	.bytes = row_bytes,
	.is_int = row_is_int,
};

/* ---- running ---- */

static wherry_code visit_rows(result *r, wh_row_fn visit, void *ctx, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (r->n_rows && r->n_columns == 1)
		r->s->last_id = row_int(&(wh_row){&wh_odbc_rows, r->values}, 0);
	for (size_t i = 0; visit && code == WHERRY_OK && i < r->n_rows; i++) {
		wh_row row = {&wh_odbc_rows, &r->values[i * (size_t)r->n_columns]};

		code = visit(ctx, &row, err);
	}
	return code;
}

/* Read the result with columns.  In a batch, results without columns may come first. */
static wherry_code read_results(result *r, int64_t *out_changed, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	SQLRETURN rc = SQL_SUCCESS;

	while (code == WHERRY_OK && rc != SQL_NO_DATA) {
		SQLSMALLINT columns = 0;
		SQLLEN changed = 0;

		(void)SQLNumResultCols(r->handle, &columns);
		(void)SQLRowCount(r->handle, &changed);
		if (changed > 0)
			*out_changed = changed;
		if (columns > COLUMNS_MOST)
			return wh_fail(err, WHERRY_UNSUPPORTED, "%s: too many columns",
				       r->s->name);
		r->n_columns = columns;
		if (columns)
			code = read_rows(r, err);
		if (code != WHERRY_OK)
			break;
		/* SQL Server's statements return the rows that they changed. */
		if (columns && r->s->tsql)
			*out_changed = (int64_t)r->n_rows;
		rc = SQLMoreResults(r->handle);
		if (!SQL_SUCCEEDED(rc) && rc != SQL_NO_DATA)
			code = wh_odbc_fail(r->s, SQL_HANDLE_STMT, r->handle, err);
	}
	return code;
}

static wherry_code execute(odbc_db *s, odbc_stmt *c, const wh_param *params, size_t n,
			   result *r, int64_t *out_changed, wherry_error *err)
{
	odbc_bound b = {.arena = WH_ARENA_INIT};
	wherry_code code = wh_odbc_bind(s, c, params, n, &b, err);
	SQLRETURN rc;

	if (code == WHERRY_OK)
		code = wh_odbc_limit_run(s, c->handle, &c->timeout_s, err);
	if (code == WHERRY_OK) {
		wh_odbc_begin_running(s, c->handle);
		rc = SQLExecute(c->handle);
		wh_odbc_end_running(s);
		if (SQL_SUCCEEDED(rc) || (s->tsql && rc == SQL_NO_DATA))
			code = read_results(r, out_changed, err);
		/* The statement changed no row. */
		else if (rc != SQL_NO_DATA)
			code = wh_odbc_fail(s, SQL_HANDLE_STMT, c->handle, err);
	}
	(void)SQLFreeStmt(c->handle, SQL_CLOSE);
	(void)SQLFreeStmt(c->handle, SQL_RESET_PARAMS);
	wh_arena_clear(&b.arena);
	if (code != WHERRY_OK)
		wh_odbc_look(s);
	return code;
}

wherry_code wh_odbc_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
			wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;
	result r = {.s = s, .arena = WH_ARENA_INIT};
	odbc_stmt *c = NULL;
	int64_t changed = 0, began_us = wh_monotonic(db->env);
	wherry_code code = wh_odbc_check_usable(s, err);

	if (code == WHERRY_OK)
		code = find(s, stmt, &c, err);
	if (code != WHERRY_OK)
		return code;
	r.handle = c->handle;
	code = execute(s, c, params, n_params, &r, &changed, err);
	s->watch.spent_us += wh_monotonic(db->env) - began_us;
	/* SQL Server prepares a statement when it first runs.  If that run fails, FreeTDS
	 * assumes that it is prepared, and each later run fails with "Unknown error". */
	if (code != WHERRY_OK && s->tsql)
		forget(s, stmt, 1);
	if (code == WHERRY_OK)
		code = visit_rows(&r, visit, ctx, err);
	if (code == WHERRY_OK && out_changed)
		*out_changed = changed;
	wh_arena_clear(&r.arena);
	free(r.values);
	return code;
}
