#include "store/groups.h"

#include <string.h>

#define WH_STMTS wh_store_stmts

WH_STORE_GROUPS(WH_GROUP_SPECS)

const wh_group wh_store_groups[] = {WH_STORE_GROUPS(WH_GROUP_ROW){NULL, NULL, 0}};

static wherry_code bind_one(const wh_sql *sql, const wh_stmt *stmt,
			    const wh_stmt_spec *spec, void *stmts, wherry_error *err)
{
	memcpy((char *)stmts + spec->at, (const void *)&stmt, sizeof(stmt));
	if (sql->pattern) /* The first table of the layout was checked. */
		return WHERRY_OK;
	return stmt ? wh_stmt_check(stmt, spec->given, sql->unused, err) : WHERRY_OK;
}

static wherry_code bind_group(const wh_sql *sql, const wh_group *g, void *stmts,
			      wherry_error *err)
{
	const char *missing = NULL;
	size_t found = 0;
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < g->n; i++) {
		const wh_stmt *stmt = wh_sql_find(sql, g->specs[i].name);

		if (!stmt)
			missing = g->specs[i].name;
		found += stmt != NULL;
		code = bind_one(sql, stmt, &g->specs[i], stmts, err);
	}
	if (code == WHERRY_OK && found && missing)
		return wh_fail(err, WHERRY_INVALID,
			       "the group '%s' is there without its statement '%s'",
			       g->name, missing);
	return code;
}

wherry_code wh_groups_bind(const wh_sql *sql, const wh_group *groups, void *stmts,
			   wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (const wh_group *g = groups; code == WHERRY_OK && g->name; g++)
		code = bind_group(sql, g, stmts, err);
	return code;
}

static bool has(const wh_group *groups, const char *name)
{
	for (const wh_group *g = groups; g->name; g++)
		for (size_t i = 0; i < g->n; i++)
			if (strcmp(g->specs[i].name, name) == 0)
				return true;
	return false;
}

wherry_code wh_groups_check(const wh_sql *sql, const wh_group *groups,
			    const wh_group *more, wherry_error *err)
{
	for (size_t i = 0; i < sql->n; i++) {
		const char *name = sql->stmts[i].name;

		if (sql->stmts[i].part || strncmp(name, "migrate-", 8) == 0 ||
		    strncmp(name, "add-", 4) == 0)
			continue;
		if (!has(groups, name) && !has(more, name))
			return wh_fail(err, WHERRY_INVALID,
				       "the statement '%s' is of no group", name);
	}
	return WHERRY_OK;
}
