/*
 * Queries of the driver itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/odbc/odbc.h"

#include "base/text.h"

static wherry_code take_text(void *ctx, const wh_row *row, wherry_error *err)
{
	char **out = ctx;
	const char *text = wh_row_text(row, 0);

	if (!text)
		return WHERRY_OK;
	free(*out);
	*out = strdup(text);
	return *out ? WHERRY_OK : wh_oom(err);
}

wherry_code wh_odbc_ask(odbc_db *s, const char *sql, const wh_param *params, size_t n,
			char **out, wherry_error *err)
{
	wh_sql one = {.n = 1};
	wh_stmt stmt;
	int64_t last_id = s->last_id;
	wherry_code code = wh_stmt_make(s->base.driver->scheme, "ask", sql, &stmt, err);

	if (code != WHERRY_OK)
		return code;
	one.stmts = &stmt;
	code = wh_odbc_run(&s->base, &stmt, params, n, take_text, out, NULL, err);
	wh_odbc_forget(&s->base, &one);
	wh_stmt_clear(&stmt);
	s->last_id = last_id;
	return code;
}

/* The answer is the number of schemas that have the table, a colon, and the name of the schema. */
static wherry_code ask_schema(odbc_db *s, const char *sql, const wh_param *params,
			      size_t n, char *out, size_t cap, int64_t *out_n,
			      wherry_error *err)
{
	char *found = NULL;
	wherry_code code = wh_odbc_ask(s, sql, params, n, &found, err);
	char *colon = found ? strchr(found, ':') : NULL;
	int64_t n_found = 0;

	if (colon)
		*colon = 0;
	if (colon && !wh_parse_int(found, &n_found))
		n_found = 0;
	if (code == WHERRY_OK)
		(void)snprintf(out, cap, "%s", colon ? colon + 1 : "");
	if (out_n)
		*out_n = n_found;
	free(found);
	return code;
}

wherry_code wh_odbc_postgres_schema_of(wherry_db *db, const char *table, bool own,
				       char *out, size_t cap, int64_t *out_n,
				       wherry_error *err)
{
	static const char sql[] =
		"SELECT pg_catalog.concat(pg_catalog.count(c.oid) OVER (), ':', s.name) "
		"FROM pg_catalog.unnest(coalesce(:schemas::pg_catalog.text[], "
		"pg_catalog.current_schemas(false)::pg_catalog.text[])) "
		"WITH ORDINALITY AS s(name, nth) JOIN pg_catalog.pg_namespace AS n "
		"ON n.nspname OPERATOR(pg_catalog.=) s.name::pg_catalog.name "
		"LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace "
		"OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) "
		":table::pg_catalog.name WHERE pg_catalog.left(s.name, 3) "
		"OPERATOR(pg_catalog.<>) 'pg_' ORDER BY c.oid IS NULL OR :own::bigint "
		"OPERATOR(pg_catalog.=) 1 AND (pg_catalog.current_setting('is_superuser') "
		"OPERATOR(pg_catalog.=) 'on' OR NOT pg_catalog.pg_has_role(c.relowner, "
		"'USAGE')), s.nth LIMIT 1";
	odbc_db *s = (odbc_db *)db;
	const wh_param params[] = {
		WH_TEXT_PARAM("schemas", wh_view_of(s->schemas)),
		WH_TEXT_PARAM("table", wh_view_of(table)),
		WH_INT_PARAM("own", own),
	};

	return ask_schema(s, sql, params, 3, out, cap, out_n, err);
}

/* A name without a schema is looked up in the user's default schema, then in dbo. */
wherry_code wh_odbc_mssql_schema_of(wherry_db *db, const char *table, bool own, char *out,
				    size_t cap, int64_t *out_n, wherry_error *err)
{
	static const char sql[] =
		"SELECT TOP (1) CONCAT(COUNT(f.name) OVER (), N':', n.name) "
		"FROM (SELECT SCHEMA_NAME() AS name, 0 AS nth "
		"UNION ALL SELECT N'dbo', 1 WHERE COALESCE(SCHEMA_NAME(), N'') <> N'dbo') "
		"AS n LEFT JOIN (SELECT s.name AS name "
		"FROM (SELECT name, schema_id FROM sys.tables "
		"UNION ALL SELECT name, schema_id FROM sys.views) AS t "
		"JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
		"WHERE t.name = :table) AS f ON f.name = n.name "
		"WHERE n.name IS NOT NULL "
		"ORDER BY CASE WHEN f.name IS NULL THEN 1 ELSE 0 END, n.nth";
	const wh_param params[] = {WH_TEXT_PARAM("table", wh_view_of(table))};

	(void)own;
	return ask_schema((odbc_db *)db, sql, params, 1, out, cap, out_n, err);
}
