#include "store/making.h"

#include <stdio.h>

#include "store/versions.h"

wherry_code wh_store_can_make(const wh_store *store, const char *table, wherry_error *err)
{
	if (!store->db->driver->connection.schema_of || *store->names.schema)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_NOTFOUND,
		       "the search path names no schema that exists: make one with "
		       "CREATE SCHEMA, and name it, as in --table shop.%s",
		       table);
}

wherry_code wh_store_begin_making(wh_store *store, wherry_error *err)
{
	const wh_stmt *lock = store->stmt.migrate_lock;
	wherry_code code = WHERRY_OK;

	if (lock)
		code = wh_db_run(store->db, lock, NULL, 0, NULL, NULL, NULL, err);
	if (code == WHERRY_OK)
		code = wh_store_check_owners(store, err);
	return code;
}

/* migrate-N; NULL: there are fewer versions. */
static const wh_stmt *migration(const wh_store *store, int version)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "migrate-%d", version);
	return wh_sql_find(&store->sql, name);
}

/* The version of the tables that are there; 0: there is none, or only some of them. */
static wherry_code look(wh_store *store, wh_version *out, wherry_error *err)
{
	wh_columns found = {.any = false};
	wherry_code code;

	*out = (wh_version){.found = false};
	code = wh_store_version(store, out, err);
	if (code == WHERRY_OK)
		code = wh_store_columns(store, store->name.ptr, store->layout.columns,
					&found, err);
	if (code == WHERRY_OK && (!out->found || !out->version || !found.any)) {
		out->version = 0; /* also when only the table is gone */
		code = wh_store_check_foreign(store, err);
	}
	return code;
}

wherry_code wh_store_migrated(wh_store *store, int *out_version, wherry_error *err)
{
	wh_version v;
	wherry_code code = look(store, &v, err);

	if (code == WHERRY_OK)
		code = wh_store_check_indexes(store, &v, err);
	if (code == WHERRY_OK)
		*out_version = (int)v.version;
	return code;
}

wherry_code wh_store_migrate(wh_store *store, wh_made *out, wherry_error *err)
{
	wh_version v;
	wherry_code code = look(store, &v, err);

	if (code != WHERRY_OK)
		return code;
	out->from = out->to = (int)v.version;
	code = wh_store_check_indexes(store, &v, err);
	out->repaired = v.version != out->from;
	for (int i = (int)v.version + 1; code == WHERRY_OK; i++) {
		const wh_stmt *stmt = migration(store, i);

		if (!stmt)
			break;
		code = wh_db_script(store->db, stmt->text, err);
		if (code != WHERRY_OK)
			return wh_prefix(err, code, "%s", stmt->name);
		out->to = i;
	}
	return code;
}

void wh_store_later_sql(const wh_store *store, const char *table, int version, wh_buf *to)
{
	const wh_stmt *stmt;

	for (int i = version + 1; (stmt = migration(store, i)) != NULL; i++)
		wh_buf_printf(to, "-- %s of %s %s\nBEGIN;\n%sCOMMIT;\n", stmt->name,
			      store->model->name, table, stmt->text);
}

void wh_store_migrations_sql(const wh_store *store, const char *table, wh_buf *to)
{
	wh_store_later_sql(store, table, 0, to);
}

static wherry_code drop(void *ctx, wherry_error *err)
{
	wh_store *store = ctx;
	int64_t others = 0;
	wherry_code code = wh_db_script(store->db, store->stmt.drop->text, err);

	if (code == WHERRY_OK)
		code = wh_db_run(store->db, store->stmt.others_left, NULL, 0, wh_take_int,
				 &others, NULL, err);
	if (code == WHERRY_OK && !others)
		code = wh_db_script(store->db, store->stmt.drop_shared->text, err);
	return code;
}

wherry_code wh_store_drop(wh_store *store, wherry_error *err)
{
	if (!store->stmt.drop)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the table '%s' has layout %s and belongs to another "
			       "program: remove it there",
			       store->name.ptr, store->layout.name);
	return wh_db_transact(store->db, drop, store, err);
}
