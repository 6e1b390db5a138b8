/*
 * Wherry as a guest on the application's own SQLite handle.
 */
#include "outbox_sqlite.h"

#include <wherry/sqlite.h>

#include "outbox/outbox.h"

typedef struct guest {
	wherry_temp temp;
	sqlite3 *handle;
	wherry_db *db;
	wherry_outbox *outbox;
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
			       outbox_sqlite_run(g->handle, before, NULL, 0) &&
			       outbox_sqlite_run(
				       g->handle,
				       "CREATE TABLE business(id INTEGER PRIMARY KEY)",
				       NULL, 0) &&
			       wherry_sqlite_borrow(g->handle, &g->db, NULL) ==
				       WHERRY_OK &&
			       wherry_outbox_create(g->db, "outbox", NULL, NULL) ==
				       WHERRY_OK &&
			       wherry_outbox_open(g->db, "outbox", &g->outbox, NULL) ==
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

	wherry_outbox_close(g->outbox);
	wherry_db_close(g->db);
	rc = sqlite3_close(g->handle);
	wherry_temp_clear(&g->temp);
	free(g);
	return rc == SQLITE_OK ? 0 : -1;
}

static void app(guest *g, const char *sql)
{
	assert_true(outbox_sqlite_run(g->handle, sql, NULL, 0));
}

static int64_t app_int(guest *g, const char *sql)
{
	char text[32] = "";

	assert_true(outbox_sqlite_run(g->handle, sql, text, sizeof(text)));
	return strtoll(text, NULL, 10);
}

/* As another process sees it. */
static int64_t committed(guest *g, const char *sql)
{
	char text[32] = "";

	assert_true(outbox_sqlite_raw(&g->temp, NULL, sql, text, sizeof(text)));
	return strtoll(text, NULL, 10);
}

WHERRY_TEST_ON(the_application_s_transaction_stays_open_after_enqueue, guest *g, arrive,
	       leave)
{
	wherry_message many[3] = {M, M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	WHERRY_PASS(
		wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(g->outbox, many, 3, 0, NULL, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 0);
	app(g, "COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 5);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
}

WHERRY_TEST_ON(the_application_s_rollback_takes_the_message_back, guest *g, arrive, leave)
{
	wherry_message many[2] = {M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(g->outbox, many, 2, 0, NULL, &err));
	app(g, "ROLLBACK");
	assert_int_equal(app_int(g, "SELECT count(*) FROM outbox"), 0);
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
}

WHERRY_TEST_ON(the_application_s_savepoint_takes_the_message_back, guest *g, arrive,
	       leave)
{
	wherry_message many[2] = {M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	app(g, "SAVEPOINT step; INSERT INTO business VALUES (2)");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(g->outbox, many, 2, 0, NULL, &err));
	app(g, "ROLLBACK TO step; RELEASE step; COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 1);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
	/* a savepoint is a transaction too */
	app(g, "SAVEPOINT outer_one");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	app(g, "RELEASE outer_one");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 2);
}

WHERRY_TEST_ON(our_begin_is_a_savepoint_in_the_application_s_transaction, guest *g,
	       arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	wherry_db_rollback(g->db);
	assert_true(wherry_db_in_transaction(g->db));
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_db_commit(g->db, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 0);
	app(g, "COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 1);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
}

WHERRY_TEST_ON(a_failed_batch_leaves_the_application_s_own_rows, guest *g, arrive, leave)
{
	wherry_message many[3] = {M, M, WHERRY_MESSAGE(.topic = "", .body = "")};
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_enqueue_many(g->outbox, many, 3, 0, NULL, &err));
	/* the same within a transaction of ours inside the application's */
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_enqueue_many(g->outbox, many, 3, 0, NULL, &err));
	WHERRY_PASS(wherry_db_commit(g->db, &err));
	app(g, "COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 2);
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 1);
}

WHERRY_TEST_ON(closing_leaves_the_handle_and_its_transaction, guest *g, arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	WHERRY_PASS(wherry_db_begin(g->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	wherry_outbox_close(g->outbox);
	wherry_db_close(g->db); /* takes back only what we began */
	g->outbox = NULL;
	g->db = NULL;
	assert_null(sqlite3_next_stmt(g->handle, NULL));
	assert_false(sqlite3_get_autocommit(g->handle));
	app(g, "INSERT INTO business VALUES (2); COMMIT");
	assert_int_equal(committed(g, "SELECT count(*) FROM business"), 2);
	assert_int_equal(committed(g, "SELECT count(*) FROM outbox"), 1);
}

WHERRY_TEST_ON(the_application_s_settings_stay_as_they_are, guest *g, arrive, leave)
{
	static const char *const pragmas[] = {
		"journal_mode",    "synchronous",        "busy_timeout",
		"foreign_keys",    "cache_size",         "temp_store",
		"locking_mode",    "wal_autocheckpoint", "recursive_triggers",
		"query_only",      "max_page_count",     "secure_delete",
		"automatic_index", "read_uncommitted",   NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;
	char before[20][32], after[32], sql[64];
	int64_t next;

	app(g, "PRAGMA synchronous = OFF; PRAGMA busy_timeout = 1234; PRAGMA "
	       "foreign_keys = ON; PRAGMA journal_mode = TRUNCATE");
	for (int i = 0; pragmas[i]; i++) {
		(void)snprintf(sql, sizeof(sql), "PRAGMA %s", pragmas[i]);
		assert_true(
			outbox_sqlite_run(g->handle, sql, before[i], sizeof(before[i])));
	}
	wherry_outbox_close(g->outbox);
	wherry_db_close(g->db);
	WHERRY_PASS(wherry_sqlite_borrow(g->handle, &g->db, &err));
	WHERRY_PASS(wherry_outbox_create(g->db, "second", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(g->db, "second", &g->outbox, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_PASS(wherry_outbox_lease(g->outbox, "a", 1000000, 1, &lease, &err));
	WHERRY_PASS(wh_db_watch(g->db, &(wh_watch){0}, &err));
	(void)wh_db_changed(g->db, &(wh_look){.now_us = 0}, &next);
	WHERRY_PASS(wherry_outbox_purge(g->outbox, 0, 10, 0, NULL, &err));
	for (int i = 0; pragmas[i]; i++) {
		(void)snprintf(sql, sizeof(sql), "PRAGMA %s", pragmas[i]);
		assert_true(outbox_sqlite_run(g->handle, sql, after, sizeof(after)));
		assert_string_equal(after, before[i]);
	}
	assert_int_equal(sqlite3_extended_result_codes(g->handle, 0), SQLITE_OK);
}

WHERRY_TEST_ON(what_needs_a_transaction_of_its_own_refuses_the_application_s, guest *g,
	       arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "BEGIN; INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_purge(g->outbox, 0, 10, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(g->db, "outbox", NULL, &err));
	assert_false(sqlite3_get_autocommit(g->handle));
	app(g, "COMMIT");
	assert_int_equal(app_int(g, "SELECT count(*) FROM business"), 1);
}

WHERRY_TEST_ON(a_transaction_that_began_by_reading_is_a_conflict, guest *g, arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	app(g, "PRAGMA journal_mode = WAL");
	app(g, "BEGIN; SELECT count(*) FROM business");
	(void)committed(g, "INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_CONFLICT,
		     wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_ROLLBACK);
	assert_false(sqlite3_get_autocommit(g->handle));
	app(g, "ROLLBACK; BEGIN IMMEDIATE");
	WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, 0, NULL, &err));
	app(g, "COMMIT");
}

WHERRY_TEST_ON(a_locked_database_is_busy_and_can_be_tried_again, guest *g, arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *other = NULL;
	wherry_lease lease;

	assert_int_equal(sqlite3_open(g->temp.path, &other), SQLITE_OK);
	assert_true(outbox_sqlite_run(other, "BEGIN IMMEDIATE", NULL, 0));
	WHERRY_FAILS(
		WHERRY_BUSY,
		wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_RETRY);
	assert_non_null(strstr(err.message, g->temp.path));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(g->outbox, "a", 1000000, 1, &lease, &err));
	assert_true(sqlite3_get_autocommit(g->handle));
	assert_true(outbox_sqlite_run(other, "ROLLBACK", NULL, 0));
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	WHERRY_PASS(
		wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
}

/* SQLite itself says nothing in WAL, and "readonly" with a rollback journal. */
WHERRY_TEST_ON(a_file_that_was_replaced_is_an_error_that_names_it, guest *g, arrive,
	       leave)
{
	static const char *const modes[] = {"PRAGMA journal_mode = DELETE",
					    "PRAGMA journal_mode = WAL"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;
	char away[300];

	(void)snprintf(away, sizeof(away), "%s-away", g->temp.path);
	for (size_t i = 0; i < 2; i++) {
		app(g, modes[i]);
		WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION,
						  NULL, &err));
		assert_int_equal(rename(g->temp.path, away), 0);
		WHERRY_FAILS(WHERRY_CLOSED,
			     wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION,
						   NULL, &err));
		assert_non_null(strstr(err.message, g->temp.path));
		assert_non_null(strstr(err.message, "was deleted or moved away"));
		WHERRY_FAILS(WHERRY_CLOSED, wherry_outbox_lease(g->outbox, "a", 1000000,
								1, &lease, &err));
		assert_int_equal(rename(away, g->temp.path), 0);
		assert_true(sqlite3_get_autocommit(g->handle));
		/* it stays so until the application opens the file again */
		wherry_outbox_close(g->outbox);
		wherry_db_close(g->db);
		WHERRY_PASS(wherry_sqlite_borrow(g->handle, &g->db, &err));
		WHERRY_PASS(wherry_outbox_open(g->db, "outbox", &g->outbox, &err));
	}
	assert_int_equal(app_int(g, "SELECT count(*) FROM outbox"), 2);
}

static wherry_code same_body(void *ctx, const wherry_row *row)
{
	wh_view *sent = ctx;

	assert_int_equal(row->message->body_len, sent->len);
	assert_memory_equal(row->message->body, sent->ptr, sent->len);
	assert_string_equal(row->message->topic, "\xe2\x82\xac");
	return WHERRY_OK;
}

static wherry_code same_open(void *ctx, const wh_open_row *row, wherry_error *err)
{
	assert_true(wh_view_eq(wh_open_body(row), *(wh_view *)ctx));
	return WHERRY_OK;
}

WHERRY_TEST_ON(bodies_come_back_from_a_database_in_UTF16, guest *g, arrive_utf16, leave)
{
	static const wh_view bodies[] = {
		{"\0\xff\x41", 3}, {"\xff\xfe\0\0ab", 6}, {"\xe2\x82\xac", 3}, {"", 0}};
	wherry_error err = WHERRY_ERROR_INIT;
	char ident[8];

	for (size_t i = 0; i < 4; i++) {
		wherry_message msg =
			WHERRY_MESSAGE(.topic = "\xe2\x82\xac", .body = bodies[i].ptr,
				       .body_len = bodies[i].len);
		wh_view sent = bodies[i];
		int64_t id = 0;

		WHERRY_PASS(wherry_outbox_enqueue(g->outbox, &msg, WHERRY_OWN_TRANSACTION,
						  &id, &err));
		(void)snprintf(ident, sizeof(ident), "%d", (int)id);
		WHERRY_PASS(wherry_outbox_show(g->outbox, ident, same_body, &sent, &err));
		WHERRY_PASS(wh_outbox_read(g->outbox, UINT64_MAX, id - 1, 1, same_open,
					   &sent, &err));
	}
}

WHERRY_TEST_ON(a_schema_that_is_not_trusted_works_too, guest *g, arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	app(g, "PRAGMA trusted_schema = OFF; INSERT INTO outbox(topic, payload) VALUES "
	       "('t', '')");
	WHERRY_PASS(wherry_outbox_lease(g->outbox, "a", 1000000, 1, &lease, &err));
	assert_int_equal(lease.last_open, 1);
}

WHERRY_TEST_ON(there_must_be_a_handle_to_borrow, guest *g, arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_sqlite_borrow(NULL, &db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_sqlite_borrow(g->handle, NULL, &err));
	assert_null(db);
}

WHERRY_TEST_ON(a_handle_for_reading_only_can_list, guest *g, arrive, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *reader = NULL;
	wherry_db *db = NULL;
	wherry_outbox *outbox = NULL;
	int64_t count[WHERRY_STATE_COUNT];

	WHERRY_PASS(
		wherry_outbox_enqueue(g->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(
		sqlite3_open_v2(g->temp.path, &reader, SQLITE_OPEN_READONLY, NULL),
		SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(reader, &db, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_count(outbox, count, &err));
	assert_int_equal(count[WHERRY_PENDING], 1);
	WHERRY_FAILS(WHERRY_READONLY, wherry_db_begin(db, &err));
	WHERRY_FAILS(
		WHERRY_READONLY,
		wherry_outbox_enqueue(outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_FAILS(WHERRY_READONLY, wherry_outbox_create(db, "second", NULL, &err));
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(reader), SQLITE_OK);
}

WHERRY_TEST_MAIN
