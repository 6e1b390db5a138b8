#include "outbox_sqlite.h"

#include <wherry/sqlite.h>

#include "db/sqlite/sqlite.h"

/* ---- the back ends ---- */

static void *make_file(void)
{
	wherry_temp *temp = calloc(1, sizeof(*temp));

	assert_non_null(temp);
	wherry_temp_make(temp, "test.db");
	return temp;
}

static void drop_file(void *place)
{
	wherry_temp_clear(place);
	free(place);
}

static wherry_db *open_url(const char *url)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	wherry_code code = wherry_config_new(&config, &err);

	if (code == WHERRY_OK)
		code = wherry_config_set(config, "db.create", "on", &err);
	if (code == WHERRY_OK)
		code = wherry_config_set(config, "db.busy_timeout", "30s", &err);
	if (code == WHERRY_OK) /* nothing here pulls the plug */
		code = wherry_config_set(config, "db.synchronous", "normal", &err);
	if (code == WHERRY_OK)
		code = wherry_db_open(url, config, &db, &err);
	if (code != WHERRY_OK)
		print_error("%s: %s\n", url, err.message);
	wherry_config_free(config);
	return db;
}

static wherry_db *connect_file(void *place)
{
	char url[160];

	(void)snprintf(url, sizeof(url), "sqlite:%s", ((wherry_temp *)place)->path);
	return open_url(url);
}

static bool disconnect(wherry_db *db)
{
	wherry_db_close(db);
	return true;
}

static sqlite3 *handle_of(wherry_db *db)
{
	return ((sqlite_db *)db)->handle;
}

bool outbox_sqlite_run(sqlite3 *handle, const char *sql, char *out, size_t cap)
{
	sqlite3_stmt *stmt = NULL;
	int rc = SQLITE_OK;

	while (*sql && rc == SQLITE_OK) {
		rc = sqlite3_prepare_v2(handle, sql, -1, &stmt, &sql);
		if (!stmt)
			continue;
		while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
			const char *text = (const char *)sqlite3_column_text(stmt, 0);

			if (out)
				(void)snprintf(out, cap, "%s", text ? text : "");
		}
		rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
		(void)sqlite3_finalize(stmt);
	}
	if (rc != SQLITE_OK)
		print_error("%s\n", sqlite3_errmsg(handle));
	return rc == SQLITE_OK;
}

bool outbox_sqlite_raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	sqlite3 *handle = NULL;
	bool ok;

	ok = sqlite3_open(((wherry_temp *)place)->path, &handle) == SQLITE_OK;
	ok = ok && sqlite3_busy_timeout(handle, 30000) == SQLITE_OK &&
	     outbox_sqlite_run(handle, "PRAGMA synchronous = OFF", NULL, 0);
	ok = ok && outbox_sqlite_run(handle, sql, out, cap);
	return sqlite3_close(handle) == SQLITE_OK && ok;
}

static bool forbid_writing(wherry_db *db)
{
	assert_true(outbox_sqlite_run(handle_of(db), "PRAGMA query_only = on", NULL, 0));
	return true;
}

static void fill_disk(wherry_db *db, bool full)
{
	char pages[24] = "1000000000", sql[64];

	if (full)
		assert_true(outbox_sqlite_run(handle_of(db), "PRAGMA page_count", pages,
					      sizeof(pages)));
	(void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %s", pages);
	assert_true(outbox_sqlite_run(handle_of(db), sql, NULL, 0));
}

const outbox_backend outbox_sqlite_file = {
	.name = "file",
	.several = true,
	.lacks = NEEDS_EVENT_BUS,
	.make = make_file,
	.drop = drop_file,
	.connect = connect_file,
	.disconnect = disconnect,
	.raw = outbox_sqlite_raw,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

static void *make_nothing(void)
{
	return NULL;
}

static void drop_nothing(void *place)
{
}

static wherry_db *connect_memory(void *place)
{
	return open_url("sqlite::memory:");
}

static bool raw_same(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	return outbox_sqlite_run(handle_of(db), sql, out, cap);
}

const outbox_backend outbox_sqlite_memory = {
	.name = "memory",
	.several = false,
	.lacks = NEEDS_EVENT_BUS,
	.make = make_nothing,
	.drop = drop_nothing,
	.connect = connect_memory,
	.disconnect = disconnect,
	.raw = raw_same,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

/* The application's handle, with settings of its own. */
static wherry_db *connect_borrowed(void *place)
{
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;
	int rc = sqlite3_open(((wherry_temp *)place)->path, &handle);

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(handle, 30000);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(handle, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
	if (rc != SQLITE_OK || wherry_sqlite_borrow(handle, &db, NULL) != WHERRY_OK)
		(void)sqlite3_close(handle);
	return db;
}

/* sqlite3_close() refuses when a statement was left behind. */
static bool disconnect_borrowed(wherry_db *db)
{
	sqlite3 *handle = handle_of(db);

	wherry_db_close(db);
	return sqlite3_close(handle) == SQLITE_OK;
}

const outbox_backend outbox_sqlite_borrowed = {
	.name = "borrowed",
	.several = true,
	.lacks = NEEDS_EVENT_BUS,
	.make = make_file,
	.drop = drop_file,
	.connect = connect_borrowed,
	.disconnect = disconnect_borrowed,
	.raw = outbox_sqlite_raw,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};
