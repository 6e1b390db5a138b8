/*
 * A cursor over a log on SQLite, where commits are in the order of ids.
 */
#include "wherry_test.h"

#include <stdlib.h>
#include <string.h>

#include "log/cursor.h"

static wherry_db *db;
static wh_cursor *cursor;
static wh_position at;
static char read_ids[400];

static void run_sql(const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(db, sql, &err));
}

static wherry_code take(void *ctx, const wh_log_row *row, wherry_error *err)
{
	wh_view body = wh_row_bytes(row->row, WH_LOG_MESSAGE + 2);
	size_t len = strlen(read_ids);

	(void)snprintf(read_ids + len, sizeof(read_ids) - len, "%lld%.*s ",
		       (long long)row->id, (int)body.len, body.ptr);
	return WHERRY_OK;
}

static wh_log_found read_some(int64_t limit)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_log_found found;

	*read_ids = '\0';
	WHERRY_PASS(wh_cursor_read(cursor, &at, limit, take, NULL, &found, &err));
	return found;
}

static int enter(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_open("sqlite::memory:", NULL, &db, &err));
	run_sql("CREATE TABLE log(id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, "
		"topic TEXT NOT NULL DEFAULT 't', body TEXT NOT NULL); "
		"INSERT INTO log(body) VALUES ('a'), ('b'), ('c')");
	WHERRY_PASS(wh_cursor_open(db, NULL, "log", &cursor, &err));
	return 0;
}

static int leave(void **state)
{
	wh_position_clear(&at);
	wh_cursor_close(cursor);
	wherry_db_close(db);
	return 0;
}

WHERRY_TEST_WITH(rows_are_read_page_by_page, enter, leave)
{
	assert_true(read_some(2).more);
	assert_string_equal(read_ids, "1a 2b ");
	assert_false(read_some(2).more);
	assert_string_equal(read_ids, "3c ");
	run_sql("INSERT INTO log(body) VALUES ('d')");
	assert_false(read_some(2).more);
	assert_string_equal(read_ids, "4d ");
}

WHERRY_TEST_WITH(a_rolled_back_or_deleted_row_moves_nothing, enter, leave)
{
	(void)read_some(9);
	run_sql("BEGIN; INSERT INTO log(body) VALUES ('x'); ROLLBACK; "
		"DELETE FROM log WHERE id = 3; INSERT INTO log(body) VALUES ('d')");
	assert_int_equal(read_some(9).event, WH_LOG_SAME);
	assert_string_equal(read_ids, "4d ");
}

WHERRY_TEST_WITH(a_table_made_again_is_read_from_its_start, enter, leave)
{
	(void)read_some(9);
	run_sql("DROP TABLE log; CREATE TABLE log(id INTEGER PRIMARY KEY AUTOINCREMENT, "
		"key TEXT, topic TEXT, body TEXT); INSERT INTO log(body) VALUES ('z')");
	assert_int_equal(read_some(9).event, WH_LOG_REPLACED);
	assert_string_equal(read_ids, "1z ");
}

WHERRY_TEST_WITH(the_end_is_behind_all_rows, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	run_sql("DELETE FROM log WHERE id = 3");
	WHERRY_PASS(wh_cursor_end(cursor, &at, &err));
	(void)read_some(9);
	assert_string_equal(read_ids, "");
	WHERRY_PASS(wh_cursor_after(cursor, 1, &at, &err));
	(void)read_some(9);
	assert_string_equal(read_ids, "2b ");
}

static wherry_code refuse(void *ctx, const wh_log_row *row, wherry_error *err)
{
	return row->id < 2 ? WHERRY_OK : wherry_error_set(err, WHERRY_FULL, "no room");
}

WHERRY_TEST_WITH(a_failed_visit_leaves_the_position, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_log_found found;

	WHERRY_FAILS(WHERRY_FULL,
		     wh_cursor_read(cursor, &at, 9, refuse, NULL, &found, &err));
	assert_int_equal(at.high, 0);
	(void)read_some(9);
	assert_string_equal(read_ids, "1a 2b 3c ");
}

WHERRY_TEST_MAIN
