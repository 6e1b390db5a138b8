/*
 * The outbox on SQLite, in each of its three ways; and the schema that it makes there.
 */
#include "outbox_sqlite.h"

#include <wherry/sqlite.h>

#define SCHEMA                                                                           \
	"SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || "          \
	"ifnull(sql, ''), x'0a') FROM (SELECT * FROM sqlite_schema ORDER BY name)"

static void the_sql_of_init_makes_what_init_makes(void **state)
{
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *first = NULL, *other = NULL;
	wherry_db *db = NULL;
	char *sql = NULL;

	(void)state;
	WHERRY_PASS(wherry_outbox_init_sql("sqlite", "outbox", &sql, &err));
	assert_int_equal(sqlite3_open(":memory:", &first), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(first, &db, &err));
	WHERRY_PASS(wherry_outbox_init(db, "outbox", &err));
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

static void a_refused_init_leaves_no_trace(void **state)
{
	static const char *const names[] = {"events",   "shop", "wherry_slot",
					    "sqlite_x", "1",    NULL};
	static char before[8192], after[8192];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	assert_true(outbox_sqlite_run(
		handle, "CREATE TABLE events(id, topic); CREATE TABLE shop_archive(id)",
		NULL, 0));
	assert_true(outbox_sqlite_run(handle, SCHEMA, before, sizeof(before)));
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	for (int i = 0; names[i]; i++) {
		WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_init(db, names[i], &err));
		assert_true(outbox_sqlite_run(handle, SCHEMA, after, sizeof(after)));
		assert_string_equal(after, before);
		assert_true(sqlite3_get_autocommit(handle));
	}
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

int main(void)
{
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sql_of_init_makes_what_init_makes),
		cmocka_unit_test(a_refused_init_leaves_no_trace),
	};

	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends), tests,
				sizeof(tests) / sizeof(*tests));
}
