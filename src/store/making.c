#include "store/making.h"

#include <stdio.h>
#include <string.h>

#include "store/versions.h"

wherry_code wh_store_can_make(const wh_store *store, const char *table, wherry_error *err)
{
	if (!store->db->driver->connection.schema_of || *store->names.schema)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_NOTFOUND,
		       "the search path names no schema that exists: make one with "
		       "CREATE SCHEMA, and name it, as in URL#shop.%s",
		       table);
}

wherry_code wh_store_begin_making(wh_store *store, wherry_error *err)
{
	const wh_stmt *first = wh_db_has(store->db, WH_DB_SIGNALS)
				       ? store->stmt.migrate_lock
				       : store->stmt.unsignalled;
	wherry_code code = WHERRY_OK;

	if (first)
		code = wh_db_run(store->db, first, NULL, 0, NULL, NULL, NULL, err);
	if (code == WHERRY_OK)
		code = wh_store_check_owners(store, err);
	return code;
}

/* The statement migrate-N; NULL: the schema has fewer versions. */
static const wh_stmt *migration(const wh_store *store, int version)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "migrate-%d", version);
	return wh_sql_find(&store->sql, name);
}

/* Read the version of the existing tables; 0: there are none, or only some. */
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
		out->version = 0; /* Also if only the message table is missing. */
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
	const wh_stmt *stmt, *unsignalled = store->stmt.unsignalled;
	const char *first =
		unsignalled && store->db && !wh_db_has(store->db, WH_DB_SIGNALS)
			? unsignalled->text
			: "";

	for (int i = version + 1; (stmt = migration(store, i)) != NULL; i++)
		wh_buf_printf(to, "-- %s of %s %s\nBEGIN TRANSACTION;\n%s%sCOMMIT;\n",
			      stmt->name, store->model->name, table, first, stmt->text);
}

wherry_code wh_store_check_payload(wh_store *store, wherry_error *err)
{
	wherry_code code = wh_store_read_payload(store, err);

	if (code != WHERRY_OK || !store->payload || !*store->payload_type ||
	    strcmp(store->payload, store->payload_type) == 0)
		return code;
	return wh_fail(
		err, WHERRY_INVALID,
		"%s '%s' is there and keeps payloads as %s: leave --payload out, or "
		"make another one",
		store->model->name, store->name.ptr, store->payload_type);
}

/* If two callers create a table at once, the second waits for the lock and then finds
 * nothing to do. */
static wherry_code make(void *ctx, wherry_error *err)
{
	wh_store *store = ctx;
	wh_made made = {.from = 0};
	wherry_code code = wh_store_begin_making(store, err);

	if (code == WHERRY_OK)
		code = wh_store_check_payload(store, err);
	return code == WHERRY_OK ? wh_store_migrate(store, &made, err) : code;
}

/* Load the requested layout; NULL: the layout of the existing table, or the first. */
static wherry_code load(wh_store *store, const wh_making *what, wherry_error *err)
{
	char found[sizeof(store->layout.name)] = "";
	wh_version v = {.found = false};
	wherry_code code = WHERRY_OK;

	if (!what->layout) {
		code = wh_store_recognize(store, what->name, what->own, &v, err);
		if (code == WHERRY_OK && v.found)
			memcpy(found, store->layout.name, sizeof(found));
		wh_store_unload(store);
	}
	store->payload = what->payload;
	if (code == WHERRY_OK)
		code = wh_store_load(store, store->db->driver->scheme,
				     *found ? found : what->layout, what->name, what->own,
				     err);
	return code;
}

wherry_code wh_store_create(wherry_db *db, const wh_making *what, wherry_error *err)
{
	wh_store store = wh_store_init(db, what->model);
	wherry_code code;

	if (!db || !what->name)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to create the %s on, or no name",
			       what->model->name);
	if (wherry_db_in_transaction(db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: creating a table needs its own");
	store.making = true;
	code = load(&store, what, err);
	if (code == WHERRY_OK)
		code = wh_store_can_make(&store, what->name, err);
	if (code == WHERRY_OK)
		code = wh_db_transact(db, make, &store, err);
	wh_store_clear(&store);
	return code;
}

wherry_code wh_store_create_sql(const char *scheme, const wh_making *what, char **out,
				wherry_error *err)
{
	wh_store store = wh_store_init(NULL, what->model);
	wh_buf text = WH_BUF_INIT(256 * 1024);
	const char *known;
	wherry_code code;

	if (!scheme || !what->name || !out)
		return wh_fail(err, WHERRY_INVALID, "no database to write SQL for");
	store.payload = what->payload;
	known = wh_db_scheme(wh_view_of(scheme));
	code = wh_store_load(&store, known ? known : scheme, what->layout, what->name,
			     what->own, err);
	if (code == WHERRY_OK) {
		wh_store_later_sql(&store, what->name, 0, &text);
		code = wh_buf_check(&text, err);
	}
	if (code == WHERRY_OK)
		*out = wh_buf_take(&text);
	wh_buf_clear(&text);
	wh_store_clear(&store);
	return code;
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

wherry_code wh_store_can_drop(const wh_store *store, wherry_error *err)
{
	if (store->stmt.drop)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_UNSUPPORTED,
		       "the table '%s' has layout %s and belongs to another program: "
		       "remove it there",
		       store->name.ptr, store->layout.name);
}

wherry_code wh_store_drop(wh_store *store, wherry_error *err)
{
	wherry_code code = wh_store_can_drop(store, err);

	if (code == WHERRY_OK && store->db->rehearses)
		return store->stmt.try_drop ? wh_db_run(store->db, store->stmt.try_drop,
							NULL, 0, NULL, NULL, NULL, err)
					    : WHERRY_OK;
	return code == WHERRY_OK ? wh_db_transact(store->db, drop, store, err) : code;
}
