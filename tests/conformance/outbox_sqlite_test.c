/*
 * The outbox on SQLite: a file, memory, and the application's own handle; and what is
 * promised of SQLite alone.
 */
#include "outbox_suite.h"

#include <sys/stat.h>

#include <wherry/sqlite.h>

#include "db/sqlite.h"
#include "outbox/outbox.h"

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

/* SQL that may be several statements; the first column of the last row. */
static bool run_sql(sqlite3 *handle, const char *sql, char *out, size_t cap)
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

static bool raw_file(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	sqlite3 *handle = NULL;
	bool ok;

	(void)db;
	ok = sqlite3_open(((wherry_temp *)place)->path, &handle) == SQLITE_OK;
	ok = ok && sqlite3_busy_timeout(handle, 30000) == SQLITE_OK;
	ok = ok && run_sql(handle, sql, out, cap);
	return sqlite3_close(handle) == SQLITE_OK && ok;
}

static void forbid_writing(wherry_db *db)
{
	assert_true(run_sql(handle_of(db), "PRAGMA query_only = on", NULL, 0));
}

static void fill_disk(wherry_db *db, bool full)
{
	char pages[24] = "1000000000", sql[64];

	if (full)
		assert_true(
			run_sql(handle_of(db), "PRAGMA page_count", pages, sizeof(pages)));
	(void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %s", pages);
	assert_true(run_sql(handle_of(db), sql, NULL, 0));
}

static const outbox_backend file_backend = {
	.name = "file",
	.several = true,
	.make = make_file,
	.drop = drop_file,
	.connect = connect_file,
	.disconnect = disconnect,
	.raw = raw_file,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

static void *make_nothing(void)
{
	return NULL;
}

static void drop_nothing(void *place)
{
	(void)place;
}

static wherry_db *connect_memory(void *place)
{
	(void)place;
	return open_url("sqlite::memory:");
}

static bool raw_same(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	(void)place;
	return run_sql(handle_of(db), sql, out, cap);
}

static const outbox_backend memory_backend = {
	.name = "memory",
	.several = false,
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

static const outbox_backend borrowed_backend = {
	.name = "borrowed",
	.several = true,
	.make = make_file,
	.drop = drop_file,
	.connect = connect_borrowed,
	.disconnect = disconnect_borrowed,
	.raw = raw_file,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

/* ---- the application's own handle ---- */

typedef struct guest {
	wherry_temp temp;
	sqlite3 *handle;
	wherry_db *db;
	wherry_outbox *box;
} guest;

#define M WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2)

static int arrive_at(void **state, const char *before)
{
	guest *g = calloc(1, sizeof(*g));

	*state = g;
	if (!g)
		return -1;
	wherry_temp_make(&g->temp, "app.db");
	return sqlite3_open(g->temp.path, &g->handle) == SQLITE_OK &&
			       run_sql(g->handle, before, NULL, 0) &&
			       run_sql(g->handle,
				       "CREATE TABLE business(id INTEGER PRIMARY KEY)",
				       NULL, 0) &&
			       wherry_sqlite_borrow(g->handle, &g->db, NULL) ==
				       WHERRY_OK &&
			       wherry_outbox_init(g->db, "outbox", NULL) == WHERRY_OK &&
			       wherry_outbox_open(g->db, "outbox", &g->box, NULL) ==
				       WHERRY_OK
		       ? 0
		       : -1;
}

static int arrive(void **state)
{
	return arrive_at(state, "");
}

static int arrive_utf16(void **state)
{
	return arrive_at(state, "PRAGMA encoding = 'UTF-16le'");
}

static int leave(void **state)
{
	guest *g = *state;
	int rc;

	wherry_outbox_close(g->box);
	wherry_db_close(g->db);
	rc = sqlite3_close(g->handle);
	wherry_temp_clear(&g->temp);
	free(g);
	return rc == SQLITE_OK ? 0 : -1;
}

static void app(guest *g, const char *sql)
{
	assert_true(run_sql(g->handle, sql, NULL, 0));
}

static int64_t app_int(guest *g, const char *sql)
{
	char text[32] = "";

	assert_true(run_sql(g->handle, sql, text, sizeof(text)));
	return strtoll(text, NULL, 10);
}

/* As another process sees it. */
static int64_t committed(guest *g, const char *sql)
{
	char text[32] = "";

	assert_true(raw_file(&g->temp, NULL, sql, text, sizeof(text)));
	return strtoll(text, NULL, 10);
}

static void the_application_s_transaction_stays_open_after_enqueue(void **state)
{
	guest *g = *state;
	wherry_message many[3] = {M, M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(g->box, many, 3, 0, NULL, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 0);
	app(g, "COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 5);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
}

static void the_application_s_rollback_takes_the_message_back(void **state)
{
	guest *g = *state;
	wherry_message many[2] = {M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(g->box, many, 2, 0, NULL, &err));
	app(g, "ROLLBACK");
	assert_int_equal(app_int(g, "SELECT count(*) FROM outbox"), 0);
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
}

static void the_application_s_savepoint_takes_the_message_back(void **state)
{
	guest *g = *state;
	wherry_message many[2] = {M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	app(g, "SAVEPOINT step; INSERT INTO business VALUES (2)");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(g->box, many, 2, 0, NULL, &err));
	app(g, "ROLLBACK TO step; RELEASE step; COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 1);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
	/* a savepoint is a transaction too */
	app(g, "SAVEPOINT outer_one");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	app(g, "RELEASE outer_one");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 2);
}

static void our_begin_is_a_savepoint_in_the_application_s_transaction(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	wherry_db_rollback(g->db);
	assert_true(wherry_db_in_transaction(g->db));
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_db_commit(g->db, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 0);
	app(g, "COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 1);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
}

static void a_failed_batch_leaves_the_application_s_own_rows(void **state)
{
	guest *g = *state;
	wherry_message many[3] = {M, M, WHERRY_MESSAGE(.topic = "", .body = "")};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_enqueue_many(g->box, many, 3, 0, NULL, &err));
	/* the same within a transaction of ours inside the application's */
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_enqueue_many(g->box, many, 3, 0, NULL, &err));
	WHERRY_PASS(wherry_db_commit(g->db, &err));
	app(g, "COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 2);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
}

static void closing_leaves_the_handle_and_its_transaction(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	wherry_outbox_close(g->box);
	wherry_db_close(g->db); /* takes back only what we began */
	g->box = NULL;
	g->db = NULL;
	assert_null(sqlite3_next_stmt(g->handle, NULL));
	assert_false(sqlite3_get_autocommit(g->handle));
	app(g, "INSERT INTO business VALUES (2); COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 2);
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 1);
}

static void the_application_s_settings_stay_as_they_are(void **state)
{
	static const char *const pragmas[] = {
		"journal_mode", "synchronous", "busy_timeout", "foreign_keys", "cache_size",
		"temp_store", "locking_mode", "wal_autocheckpoint", "recursive_triggers",
		"query_only", "max_page_count", "secure_delete", "automatic_index",
		"read_uncommitted", NULL};
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;
	char before[20][32], after[32], sql[64];
	int64_t next;

	app(g, "PRAGMA synchronous = OFF; PRAGMA busy_timeout = 1234; PRAGMA "
	       "foreign_keys = ON; PRAGMA journal_mode = TRUNCATE");
	for (int i = 0; pragmas[i]; i++) {
		(void)snprintf(sql, sizeof(sql), "PRAGMA %s", pragmas[i]);
		assert_true(run_sql(g->handle, sql, before[i], sizeof(before[i])));
	}
	wherry_outbox_close(g->box);
	wherry_db_close(g->db);
	WHERRY_PASS(wherry_sqlite_borrow(g->handle, &g->db, &err));
	WHERRY_PASS(wherry_outbox_init(g->db, "second", &err));
	WHERRY_PASS(wherry_outbox_open(g->db, "second", &g->box, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(g->box, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_PASS(wherry_outbox_lease(g->box, "a", 1000000, 1, &lease, &err));
	WHERRY_PASS(wh_db_watch(g->db, &err));
	(void)wh_db_changed(g->db, 0, &next);
	WHERRY_PASS(wherry_outbox_purge(g->box, 0, 10, 0, NULL, &err));
	for (int i = 0; pragmas[i]; i++) {
		(void)snprintf(sql, sizeof(sql), "PRAGMA %s", pragmas[i]);
		assert_true(run_sql(g->handle, sql, after, sizeof(after)));
		assert_string_equal(after, before[i]);
	}
	assert_int_equal(sqlite3_extended_result_codes(g->handle, 0), SQLITE_OK);
}

static void what_needs_a_transaction_of_its_own_refuses_the_application_s(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_purge(g->box, 0, 10, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_archive(g->box, 0, 10, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_init(g->db, "outbox", &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	app(g, "COMMIT");
	assert_int_equal(app_int(g, "SELECT count(*) FROM business"), 1);
}

static void a_transaction_that_began_by_reading_is_a_conflict(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "PRAGMA journal_mode = WAL");
	app(g, "BEGIN; SELECT count(*) FROM business");
	(void)committed(g, "INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_CONFLICT, wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_ROLLBACK);
	assert_false(sqlite3_get_autocommit(g->handle));
	app(g, "ROLLBACK; BEGIN IMMEDIATE");
	WHERRY_PASS(wherry_outbox_enqueue(g->box, &M, 0, NULL, &err));
	app(g, "COMMIT");
}

static void a_locked_database_is_busy_and_can_be_tried_again(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *other = NULL;
	wherry_lease lease;

	assert_int_equal(sqlite3_open(g->temp.path, &other), SQLITE_OK);
	assert_true(run_sql(other, "BEGIN IMMEDIATE", NULL, 0));
	WHERRY_FAILS(WHERRY_BUSY, wherry_outbox_enqueue(g->box, &M, WHERRY_OWN_TRANSACTION,
							NULL, &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_RETRY);
	assert_non_null(strstr(err.message, g->temp.path));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(g->box, "a", 1000000, 1, &lease, &err));
	assert_true(sqlite3_get_autocommit(g->handle));
	assert_true(run_sql(other, "ROLLBACK", NULL, 0));
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	WHERRY_PASS(
		wherry_outbox_enqueue(g->box, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
}

static wherry_code same_body(void *ctx, const wherry_row *row)
{
	wh_view *sent = ctx;

	assert_int_equal(row->message.body_len, sent->len);
	assert_memory_equal(row->message.body, sent->ptr, sent->len);
	assert_string_equal(row->message.topic, "\xe2\x82\xac");
	return WHERRY_OK;
}

static wherry_code same_open(void *ctx, const wh_open_row *row, wherry_error *err)
{
	(void)err;
	assert_true(wh_view_eq(wh_outbox_body(row), *(wh_view *)ctx));
	return WHERRY_OK;
}

static void bodies_come_back_from_a_database_in_UTF16(void **state)
{
	static const wh_view bodies[] = {
		{"\0\xff\x41", 3}, {"\xff\xfe\0\0ab", 6}, {"\xe2\x82\xac", 3}, {"", 0}};
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	char ident[8];

	for (size_t i = 0; i < 4; i++) {
		wherry_message msg = WHERRY_MESSAGE(.topic = "\xe2\x82\xac",
						    .body = bodies[i].ptr,
						    .body_len = bodies[i].len);
		wh_view sent = bodies[i];
		int64_t id = 0;

		WHERRY_PASS(wherry_outbox_enqueue(g->box, &msg, WHERRY_OWN_TRANSACTION,
						  &id, &err));
		(void)snprintf(ident, sizeof(ident), "%d", (int)id);
		WHERRY_PASS(wherry_outbox_show(g->box, ident, same_body, &sent, &err));
		WHERRY_PASS(
			wh_outbox_read(g->box, false, id - 1, 1, same_open, &sent, &err));
	}
}

static void a_schema_that_is_not_trusted_works_too(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	app(g, "PRAGMA trusted_schema = OFF; INSERT INTO outbox(topic, payload) VALUES "
	       "('t', '')");
	WHERRY_PASS(wherry_outbox_lease(g->box, "a", 1000000, 1, &lease, &err));
	assert_int_equal(lease.last_open, 1);
}

static void there_must_be_a_handle_to_borrow(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_sqlite_borrow(NULL, &db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_sqlite_borrow(g->handle, NULL, &err));
	assert_null(db);
}

static void a_handle_for_reading_only_can_list(void **state)
{
	guest *g = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *reader = NULL;
	wherry_db *db = NULL;
	wherry_outbox *box = NULL;
	int64_t count[WHERRY_STATE_COUNT];

	WHERRY_PASS(
		wherry_outbox_enqueue(g->box, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(
		sqlite3_open_v2(g->temp.path, &reader, SQLITE_OPEN_READONLY, NULL),
		SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(reader, &db, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &box, &err));
	WHERRY_PASS(wherry_outbox_count(box, count, &err));
	assert_int_equal(count[WHERRY_PENDING], 1);
	WHERRY_FAILS(WHERRY_READONLY, wherry_db_begin(db, &err));
	WHERRY_FAILS(WHERRY_READONLY,
		     wherry_outbox_enqueue(box, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_FAILS(WHERRY_READONLY, wherry_outbox_init(db, "second", &err));
	wherry_outbox_close(box);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(reader), SQLITE_OK);
}

/* ---- the schema ---- */

#define SCHEMA                                                                           \
	"SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || "          \
	"ifnull(sql, ''), x'0a') FROM (SELECT * FROM sqlite_schema ORDER BY name)"

static void the_sql_of_init_makes_what_init_makes(void **state)
{
	guest *g = *state;
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *other = NULL;
	char *sql = NULL;

	WHERRY_PASS(wherry_outbox_init_sql("sqlite", "outbox", &sql, &err));
	app(g, "DROP TABLE business");
	assert_true(run_sql(g->handle, SCHEMA, made, sizeof(made)));
	assert_int_equal(sqlite3_open(":memory:", &other), SQLITE_OK);
	for (int i = 0; i < 2; i++) {
		assert_true(run_sql(other, sql, NULL, 0));
		assert_true(run_sql(other, SCHEMA, run, sizeof(run)));
		assert_true(strlen(run) > 1000);
		assert_string_equal(run, made);
	}
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	free(sql);
}

static void a_refused_init_leaves_no_trace(void **state)
{
	static const char *const names[] = {"events", "shop", "wherry_slot", "sqlite_x",
					    "1", NULL};
	static char before[8192], after[8192];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	assert_true(run_sql(handle,
			    "CREATE TABLE events(id, topic); CREATE TABLE shop_archive(id)",
			    NULL, 0));
	assert_true(run_sql(handle, SCHEMA, before, sizeof(before)));
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	for (int i = 0; names[i]; i++) {
		WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_init(db, names[i], &err));
		assert_true(run_sql(handle, SCHEMA, after, sizeof(after)));
		assert_string_equal(after, before);
		assert_true(sqlite3_get_autocommit(handle));
	}
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, arrive, leave)

int main(void)
{
	static const outbox_backend *const backends[] = {&file_backend, &memory_backend,
							 &borrowed_backend};
	static const struct CMUnitTest tests[] = {
		TEST(the_application_s_transaction_stays_open_after_enqueue),
		TEST(the_application_s_rollback_takes_the_message_back),
		TEST(the_application_s_savepoint_takes_the_message_back),
		TEST(our_begin_is_a_savepoint_in_the_application_s_transaction),
		TEST(a_failed_batch_leaves_the_application_s_own_rows),
		TEST(closing_leaves_the_handle_and_its_transaction),
		TEST(the_application_s_settings_stay_as_they_are),
		TEST(what_needs_a_transaction_of_its_own_refuses_the_application_s),
		TEST(a_transaction_that_began_by_reading_is_a_conflict),
		TEST(a_locked_database_is_busy_and_can_be_tried_again),
		cmocka_unit_test_setup_teardown(bodies_come_back_from_a_database_in_UTF16,
						arrive_utf16, leave),
		TEST(a_schema_that_is_not_trusted_works_too),
		TEST(there_must_be_a_handle_to_borrow),
		TEST(a_handle_for_reading_only_can_list),
		TEST(the_sql_of_init_makes_what_init_makes),
		cmocka_unit_test(a_refused_init_leaves_no_trace),
	};

	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends), tests,
				sizeof(tests) / sizeof(*tests));
}
