#include "store/versions.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <wherry/version.h>

static wherry_code take_version(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(wh_version *)ctx = (wh_version){true, wh_row_int(row, 0), wh_row_int(row, 1)};
	return WHERRY_OK;
}

wherry_code wh_store_version(wh_store *store, wh_version *out, wherry_error *err)
{
	wh_param name = WH_TEXT_PARAM("name", store->name);
	int64_t exists = 1;
	wherry_code code;

	*out = (wh_version){0};
	code = wh_store_ask(store, store->stmt.schema_exists, NULL, 0, &exists, err);
	if (code != WHERRY_OK || !exists)
		return code;
	code = wh_db_run(store->db, store->stmt.schema_version, &name, 1, take_version,
			 out, NULL, err);
	if (code != WHERRY_OK)
		return code;
	if (out->min_program > WHERRY_VERSION_NUM)
		return wh_fail(
			err, WHERRY_TOONEW,
			"%s '%s' has schema version %d, which needs wherry %d.%d.%d or "
			"newer; this is %s: upgrade this program",
			store->model->name, store->name.ptr, (int)out->version,
			(int)(out->min_program / 10000),
			(int)(out->min_program / 100 % 100),
			(int)(out->min_program % 100), WHERRY_VERSION);
	return WHERRY_OK;
}

wherry_code wh_store_check(wh_store *store, const wh_version *v, wherry_error *err)
{
	if (!v->found)
		return wh_store_missing(store->model, store->name.ptr, WHERRY_NOTFOUND,
					err);
	if (!v->version && !store->stmt.fail)
		return wh_store_remake(
			store,
			wh_fail(err, WHERRY_INVALID,
				"there is a table '%s' of layout %s, but not the tables "
				"that a relay keeps beside it",
				store->name.ptr, store->layout.name),
			err);
	if (!v->version)
		return wh_store_remake(
			store,
			wh_fail(err, WHERRY_INVALID,
				"there is a table '%s', but no table '%s_archive' with "
				"the columns that layout %s has",
				store->name.ptr, store->name.ptr, store->layout.name),
			err);
	store->version = (int)v->version;
	return WHERRY_OK;
}

/* The i-th column of a list; NULL after the last. */
static const char *column_at(const char *list, int i, size_t *out_len)
{
	while (i-- > 0) {
		list += strcspn(list, ",");
		if (!*list++)
			return NULL;
	}
	*out_len = strcspn(list, ",");
	return list;
}

static wherry_code take_column(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_view name = wh_row_bytes(row, 0);
	wh_columns *found = ctx;
	const char *column;
	size_t len;

	(void)err;
	found->any = true;
	for (int i = 0; (column = column_at(found->list, i, &len)) != NULL; i++) {
		bool not = *column == '!';

		if (wh_view_eq(name, (wh_view){column + not, len - not }))
			found->has |= 1u << i;
	}
	return WHERRY_OK;
}

wherry_code wh_store_columns(wh_store *store, const char *table, const char *list,
			     wh_columns *out, wherry_error *err)
{
	wh_param name = WH_TEXT_PARAM("name", wh_view_of(table));

	*out = (wh_columns){.list = list};
	return wh_db_run(store->db, store->stmt.columns, &name, 1, take_column, out, NULL,
			 err);
}

/* The name of the first column that is missing, or that must not be there; NULL: none. */
static const char *mismatch_of(const wh_columns *found, int *out_len)
{
	const char *column;
	size_t len;

	for (int i = 0; (column = column_at(found->list, i, &len)) != NULL; i++) {
		*out_len = (int)len;
		if ((found->has >> i & 1) == (*column == '!'))
			return column;
	}
	return NULL;
}

/* Refuse a table that has the name of one that the layout keeps beside the table, and other columns. */
static wherry_code check_beside(wh_store *store, const char *what, wherry_error *err)
{
	char name[WH_NAME_MOST + sizeof("_exception")], columns[200];
	wh_columns found;
	wherry_code code;
	int len;

	if (!wh_sql_word(&store->sql, what, columns, sizeof(columns)) || !*columns)
		return WHERRY_OK;
	(void)snprintf(name, sizeof(name), "%s_%s", store->name.ptr, what);
	code = wh_store_columns(store, name, columns, &found, err);
	if (code == WHERRY_OK && found.any && mismatch_of(&found, &len))
		return wh_fail(err, WHERRY_INVALID,
			       "there is a table '%s' with another purpose, and %s '%s' "
			       "needs one of that name; choose another name",
			       name, store->model->name, store->name.ptr);
	return code;
}

/* Refuse an existing table of that name that is not ours, and one with the name of a table beside
 * it.  For example, "a_archive" may exist when "a" is to be created. */
wherry_code wh_store_check_foreign(wh_store *store, wherry_error *err)
{
	static const char *const beside[] = {"archive", "progress", "exception"};
	const char *table = store->name.ptr;
	const char *column;
	wh_columns found;
	wherry_code code;
	int len;

	if (strncasecmp(table, "wherry_", 7) == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "'%s': names that begin with wherry_ are Wherry's own",
			       table);
	code = wh_store_columns(store, table, store->layout.columns, &found, err);
	if (code != WHERRY_OK)
		return code;
	column = mismatch_of(&found, &len);
	if (found.any && column)
		return wh_fail(
			err, WHERRY_INVALID,
			"there is a table '%s' with another purpose: it has no column "
			"'%.*s'; choose another name",
			table, len, column);
	for (size_t i = 0; code == WHERRY_OK && i < sizeof(beside) / sizeof(*beside); i++)
		code = check_beside(store, beside[i], err);
	return code;
}

typedef struct stranger {
	bool found;
	char what[80]; /* As in "table wherry_lease". */
	char owner[80];
} stranger;

static wherry_code take_stranger(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *what = wh_row_text(row, 0), *owner = wh_row_text(row, 1);
	stranger *out = ctx;

	(void)err;
	out->found = true;
	(void)snprintf(out->what, sizeof(out->what), "%s", what ? what : "");
	(void)snprintf(out->owner, sizeof(out->owner), "%s", owner ? owner : "");
	return WHERRY_OK;
}

wherry_code wh_store_check_owners(wh_store *store, wherry_error *err)
{
	wh_param schema = WH_TEXT_PARAM("schema", wh_view_of(store->names.schema));
	const wh_stmt *stmt = store->stmt.owners;
	stranger s = {.found = false};
	wherry_code code;

	if (!stmt)
		return WHERRY_OK;
	code = wh_db_run(store->db, stmt, &schema, 1, take_stranger, &s, NULL, err);
	if (code != WHERRY_OK || !s.found)
		return code;
	(void)wh_fail(
		err, WHERRY_DENIED,
		"%s in schema %s belongs to %s, which could run its own code with the "
		"rights of all who use the %s: have it dropped or, if %s owns the %s, "
		"create it again as %s",
		s.what, store->names.schema, s.owner, store->model->name, s.owner,
		store->model->name, s.owner);
	return wh_repair(err, WHERRY_DENIED, WHERRY_REPAIR_CREATE, store->model->kind,
			 store->name.ptr);
}

wherry_code wh_store_check_indexes(wh_store *store, wh_version *v, wherry_error *err)
{
	const wh_stmt *stmt = store->stmt.indexes_missing;
	int64_t missing = 0;
	wherry_code code = WHERRY_OK;

	if (v->version)
		code = wh_store_ask(store, stmt, NULL, 0, &missing, err);
	if (missing)
		v->version = 0;
	return code;
}

wherry_code wh_store_recognize(wh_store *store, const char *table, void *own,
			       wh_version *out, wherry_error *err)
{
	const char *scheme = store->db->driver->scheme;
	const char *const *layouts = store->model->layouts;
	wherry_code code = WHERRY_OK;

	*out = (wh_version){.found = false};
	for (int i = 0; code == WHERRY_OK && !out->found && layouts[i]; i++) {
		if (i && !wh_store_text(store->model, layouts[i], scheme))
			continue;
		wh_store_unload(store);
		code = wh_store_load(store, scheme, layouts[i], table, own, err);
		if (code == WHERRY_OK)
			code = wh_store_version(store, out, err);
	}
	return code;
}
