/*
 * The outbox on SQLite, in each of its three ways; and the schema that it makes there.
 */
#include "outbox_sqlite.h"
#include "relay_log.h"

#include <wherry/sqlite.h>

#include "outbox/outbox.h"

#define SCHEMA                                                                           \
	"SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || "          \
	"ifnull(sql, ''), x'0a') FROM (SELECT * FROM sqlite_schema ORDER BY name)"

WHERRY_TEST(the_sql_of_create_makes_what_create_makes)
{
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *first = NULL, *other = NULL;
	wherry_db *db = NULL;
	char *sql = NULL;

	WHERRY_PASS(wherry_outbox_create_sql("sqlite", "outbox", NULL, &sql, &err));
	assert_int_equal(sqlite3_open(":memory:", &first), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(first, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	wherry_db_close(db);
	assert_true(outbox_sqlite_run(first, SCHEMA, made, sizeof(made)));
	assert_int_equal(sqlite3_close(first), SQLITE_OK);
	assert_int_equal(sqlite3_open(":memory:", &other), SQLITE_OK);
	for (int i = 0; i < 2; i++) {
		assert_true(outbox_sqlite_run(other, sql, NULL, 0));
		assert_true(outbox_sqlite_run(other, SCHEMA, run, sizeof(run)));
		assert_true(strlen(run) > 1000);
		assert_string_equal(run, made);
	}
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	free(sql);
}

WHERRY_TEST(a_refused_create_leaves_no_trace)
{
	static const char *const names[] = {"events",   "shop", "wherry_lease",
					    "sqlite_x", "1",    NULL};
	static char before[8192], after[8192];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;

	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	assert_true(outbox_sqlite_run(
		handle, "CREATE TABLE events(id, topic); CREATE TABLE shop_progress(id)",
		NULL, 0));
	assert_true(outbox_sqlite_run(handle, SCHEMA, before, sizeof(before)));
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	for (int i = 0; names[i]; i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_create(db, names[i], NULL, &err));
		assert_true(outbox_sqlite_run(handle, SCHEMA, after, sizeof(after)));
		assert_string_equal(after, before);
		assert_true(sqlite3_get_autocommit(handle));
	}
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

/* It was discarded, and somebody wrote another one with its id, which waits. */
WHERRY_TEST(a_message_that_took_the_id_of_a_delivered_one_waits)
{
	const int64_t id = 1;
	wh_view name = wh_view_of("old");
	wh_settlement done = {.done = &id, .n_done = 1, .names = &name, .covered = true};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = 0};
	wherry_outbox *outbox = NULL;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;
	char left[8] = "";

	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	assert_true(outbox_sqlite_run(
		handle,
		"INSERT INTO outbox(message_id, topic, payload) VALUES ('new', 't', ''); "
		"UPDATE outbox_progress SET high = 1; "
		"INSERT INTO outbox_exception(subscription, id) VALUES ('relay', 1)",
		NULL, 0));
	WHERRY_PASS(wherry_outbox_lease(outbox, "a", 60000000, 8, &lease, &err));
	for (int left_then = 1; left_then >= 0; left_then--) {
		WHERRY_PASS(wh_store_settle(&outbox->store, &lease, &done, NULL, &err));
		assert_true(outbox_sqlite_run(handle,
					      "SELECT count(*) FROM outbox_exception",
					      left, sizeof(left)));
		assert_int_equal(*left, '0' + left_then);
		name = wh_view_of("new");
	}
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

/* ---- the suite ---- */

static bool raw_of(const outbox_backend *base, void *place, wherry_db *db,
		   const char *sql, char *out, size_t cap)
{
	char text[8192], all[16384];

	if (strstr(sql, "CREATE "))
		return base->raw(place, db, sql, out, cap);
	relay_log_translate(sql, text, sizeof(text));
	(void)snprintf(all, sizeof(all), "DROP VIEW IF EXISTS temp.native; %s%s",
		       relay_log_sqlite_views, text);
	return base->raw(place, db, all, out, cap);
}

static bool raw_file(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	return raw_of(&outbox_sqlite_file, place, db, sql, out, cap);
}

static bool raw_memory(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	return raw_of(&outbox_sqlite_memory, place, db, sql, out, cap);
}

int main(void)
{
	outbox_backend file = outbox_sqlite_file, memory = outbox_sqlite_memory,
		       borrowed = outbox_sqlite_borrowed;
	const outbox_backend *const backends[] = {&file, &memory, &borrowed};
	file.raw = borrowed.raw = raw_file;
	memory.raw = raw_memory;
	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends),
				wherry_tests_of_file()->all, wherry_tests_of_file()->n);
}
