/*
 * Binding the values of a statement.  SQL Server receives texts as NVARCHAR in UTF-16 and
 * bytes as VARBINARY, by the types of the values.  For other databases the ODBC driver
 * reports which parameters take bytes.
 */
#include <string.h>

#include "db/odbc/odbc.h"

/* Longer values are of the type MAX. */
enum { NVARCHAR_MOST = 4000, VARBINARY_MOST = 8000 };

/* With Microsoft's driver the size 0 is that of NVARCHAR(MAX), and SQL_WLONGVARCHAR would be
 * NTEXT, which OPENJSON and most functions refuse.  FreeTDS cuts a longer NVARCHAR in
 * silence, and sends a SQL_WLONGVARCHAR as it is. */
wh_odbc_type wh_odbc_text_type(bool freetds, size_t units)
{
	if (units <= NVARCHAR_MOST)
		return (wh_odbc_type){SQL_WVARCHAR, NVARCHAR_MOST};
	return freetds ? (wh_odbc_type){SQL_WLONGVARCHAR, units}
		       : (wh_odbc_type){SQL_WVARCHAR, 0};
}

/* The same for VARBINARY(MAX) and IMAGE. */
wh_odbc_type wh_odbc_bytes_type(bool freetds, size_t len)
{
	if (len <= VARBINARY_MOST)
		return (wh_odbc_type){SQL_VARBINARY, VARBINARY_MOST};
	return freetds ? (wh_odbc_type){SQL_LONGVARBINARY, len}
		       : (wh_odbc_type){SQL_VARBINARY, 0};
}

static const wh_param *given(const wh_stmt *stmt, int which, const wh_param *params,
			     size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(params[i].name, stmt->params[which]) == 0)
			return &params[i];
	return NULL;
}

static wherry_code check(odbc_db *s, const odbc_stmt *c, SQLRETURN rc, wherry_error *err)
{
	return SQL_SUCCEEDED(rc) ? WHERRY_OK
				 : wh_odbc_fail(s, SQL_HANDLE_STMT, c->handle, err);
}

/* Bind a text always with the same types and sizes, so that SQL Server reuses its
 * plan. */
static wherry_code bind_wide(odbc_db *s, const odbc_stmt *c, size_t i, wh_view text,
			     odbc_bound *b, wherry_error *err)
{
	SQLWCHAR *wide;
	wh_odbc_type type;
	size_t n;
	wherry_code code = wh_odbc_widen(&b->arena, text, &wide, &n, err);

	if (code != WHERRY_OK)
		return code;
	type = wh_odbc_text_type(s->freetds, n);
	b->lengths[i] = (SQLLEN)(n * sizeof(*wide));
	return check(s, c,
		     SQLBindParameter(c->handle, (SQLUSMALLINT)(i + 1), SQL_PARAM_INPUT,
				      SQL_C_WCHAR, type.type, type.size, 0, wide,
				      b->lengths[i], &b->lengths[i]),
		     err);
}

static wherry_code bind_bytes(odbc_db *s, const odbc_stmt *c, size_t i, const wh_param *p,
			      odbc_bound *b, wherry_error *err)
{
	bool binary = p->type == WH_BLOB || c->binary[i];
	wh_odbc_type type = {binary ? SQL_LONGVARBINARY : SQL_LONGVARCHAR,
			     p->bytes.len ? p->bytes.len : 1};

	if (s->tsql && !binary)
		return bind_wide(s, c, i, p->bytes, b, err);
	if (s->tsql)
		type = wh_odbc_bytes_type(s->freetds, p->bytes.len);
	b->lengths[i] = (SQLLEN)p->bytes.len;
	return check(s, c,
		     SQLBindParameter(c->handle, (SQLUSMALLINT)(i + 1), SQL_PARAM_INPUT,
				      binary ? SQL_C_BINARY : SQL_C_CHAR, type.type,
				      type.size, 0, wh_odbc_in(p->bytes.ptr),
				      b->lengths[i], &b->lengths[i]),
		     err);
}

static wherry_code bind_null(odbc_db *s, const odbc_stmt *c, size_t i, odbc_bound *b,
			     wherry_error *err)
{
	b->lengths[i] = SQL_NULL_DATA;
	if (s->tsql)
		return check(s, c,
			     SQLBindParameter(c->handle, (SQLUSMALLINT)(i + 1),
					      SQL_PARAM_INPUT, SQL_C_WCHAR, SQL_WVARCHAR,
					      NVARCHAR_MOST, 0, NULL, 0, &b->lengths[i]),
			     err);
	return check(s, c,
		     SQLBindParameter(c->handle, (SQLUSMALLINT)(i + 1), SQL_PARAM_INPUT,
				      c->binary[i] ? SQL_C_BINARY : SQL_C_CHAR,
				      c->binary[i] ? SQL_VARBINARY : SQL_VARCHAR, 1, 0,
				      NULL, 0, &b->lengths[i]),
		     err);
}

static wherry_code bind_one(odbc_db *s, const odbc_stmt *c, size_t i, const wh_param *p,
			    odbc_bound *b, wherry_error *err)
{
	if (!p || p->type == WH_NULL)
		return bind_null(s, c, i, b, err);
	if (p->type != WH_INT)
		return bind_bytes(s, c, i, p, b, err);
	b->numbers[i] = p->number;
	b->lengths[i] = sizeof(b->numbers[i]);
	return check(s, c,
		     SQLBindParameter(c->handle, (SQLUSMALLINT)(i + 1), SQL_PARAM_INPUT,
				      SQL_C_SBIGINT, SQL_BIGINT, 19, 0, &b->numbers[i], 0,
				      &b->lengths[i]),
		     err);
}

wherry_code wh_odbc_bind(odbc_db *s, odbc_stmt *c, const wh_param *params, size_t n,
			 odbc_bound *b, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	b->numbers = wh_arena_alloc(&b->arena, (c->n_order + 1) * sizeof(*b->numbers));
	b->lengths = wh_arena_alloc(&b->arena, (c->n_order + 1) * sizeof(*b->lengths));
	if (!b->numbers || !b->lengths)
		return wh_oom(err);
	for (size_t i = 0; code == WHERRY_OK && i < c->n_order; i++)
		code = bind_one(s, c, i, given(c->stmt, c->order[i], params, n), b, err);
	return code;
}
