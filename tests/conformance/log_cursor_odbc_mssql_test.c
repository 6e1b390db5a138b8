/*
 * A cursor over a log on SQL Server, beside writers whose row versions and commits differ; see
 * log_schedule.c.
 *
 *     log_cursor_odbc_mssql_test FIRST..LAST   these seeds alone
 */
#include "mssql/backend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/log_schedule.h"
#include "db/driver.h"

enum { SCHEDULES = 30, BREAK_SCHEDULES = 100, SQL_LEN = 400, PATIENCE = 10000 };

static wherry_db *reader, *conns[LOG_WRITERS];
static int64_t last_id;

static void run_sql(wherry_db *conn, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void run_sql(wherry_db *conn, const char *fmt, ...)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[SQL_LEN];
	va_list args;

	va_start(args, fmt);
	assert_true(vsnprintf(sql, sizeof(sql), fmt, args) < SQL_LEN);
	va_end(args);
	if (wh_db_script(conn, sql, &err) != WHERRY_OK)
		fail_msg("%s: %s", sql, err.message);
}

static int64_t ask(wherry_db *conn, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char out[40] = "";

	if (mssql_run(conn, sql, out, sizeof(out), &err) != WHERRY_OK)
		fail_msg("%s: %s", sql, err.message);
	return strtoll(out, NULL, 10);
}

/* ---- the world ---- */

static void make_table(const char *name)
{
	run_sql(conns[0],
		"CREATE TABLE %s(id BIGINT IDENTITY(1,1) NOT NULL PRIMARY KEY, "
		"rv ROWVERSION NOT NULL, [key] NVARCHAR(20), topic NVARCHAR(20) NOT NULL, "
		"body NVARCHAR(20) NOT NULL); CREATE INDEX %s_rv ON %s(rv)",
		name, name, name);
	for (int i = 0; i < LOG_WRITERS; i++)
		run_sql(conns[i], "SET IDENTITY_INSERT dbo.%s ON", name);
}

static void world_begin(uint64_t seed, wherry_db **out)
{
	(void)seed;
	run_sql(conns[0], "DELETE FROM log");
	last_id = 0;
	*out = reader;
}

static void world_pause(void)
{
	(void)usleep(5000); /* Nothing says that a transaction of a stranger has ended. */
}

static void world_start(int writer)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(conns[writer], &err));
}

static void world_end(int writer, bool commits)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (commits)
		WHERRY_PASS(wherry_db_commit(conns[writer], &err));
	else
		wherry_db_rollback(conns[writer]);
}

static void world_prepare(int writer, int name)
{
	(void)writer; /* It stays open: T-SQL prepares nothing. */
	(void)name;
}

static void world_savepoint(int writer)
{
	run_sql(conns[writer], "SAVE TRANSACTION s");
}

static void world_back(int writer)
{
	run_sql(conns[writer], "ROLLBACK TRANSACTION s");
}

static int64_t world_next_id(int writer)
{
	(void)writer;
	return ++last_id;
}

/* An id that is taken would end the transaction; schedules give none twice that is open. */
static bool world_insert(int writer, int64_t id, int key, int body)
{
	char sql[SQL_LEN];

	(void)snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM log WHERE id = %" PRId64,
		       id);
	if (ask(conns[writer], sql))
		return false;
	run_sql(conns[writer],
		"INSERT INTO log(id, [key], topic, body) VALUES (%" PRId64
		", N'k%d', N't', N'%d')",
		id, key, body);
	return true;
}

static const char *condition(const log_rows *rows, char *out, size_t cap)
{
	if (rows->which == LOG_ALL_ROWS)
		return "1 = 1";
	if (rows->which == LOG_ABOVE)
		(void)snprintf(out, cap, "id > %" PRId64, rows->above);
	else
		(void)snprintf(out, cap, "id %% %d = %d", rows->by, rows->remainder);
	return out;
}

static bool world_has(int body, const log_rows *rows)
{
	char sql[SQL_LEN], where[80];

	(void)snprintf(
		sql, sizeof(sql),
		"SELECT COUNT(*) FROM log WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) "
		"WHERE body = N'%d' AND %s",
		body, condition(rows, where, sizeof(where)));
	return ask(conns[0], sql) > 0;
}

static void world_lose(const log_rows *rows)
{
	char where[80];

	run_sql(conns[0], "DELETE FROM log WHERE %s",
		condition(rows, where, sizeof(where)));
}

static void world_change(void)
{
	run_sql(conns[0],
		"UPDATE t SET topic = N'u' FROM log AS t WITH (READCOMMITTEDLOCK, "
		"READPAST, ROWLOCK) WHERE id %% 3 = 1");
}

static int64_t world_last_id(void)
{
	return last_id;
}

static void world_set_last_id(int64_t id)
{
	last_id = id;
}

/* The rows are copied into another table, as from another database, whose row versions were higher
 * or about the same. */
static bool world_move(wh_position *at, unsigned how)
{
	static const int64_t higher[] = {1000000, 20, 0};

	if (at->seen)
		at->high += higher[how];
	for (int i = 0; i < LOG_WRITERS; i++)
		run_sql(conns[i], "SET IDENTITY_INSERT dbo.log OFF");
	make_table("log2");
	run_sql(conns[0],
		"INSERT INTO log2(id, [key], topic, body) SELECT id, [key], topic, "
		"body FROM log ORDER BY id; DROP TABLE log");
	for (int i = 0; i < LOG_WRITERS; i++)
		run_sql(conns[i], "SET IDENTITY_INSERT dbo.log2 OFF");
	make_table("log");
	run_sql(conns[0],
		"INSERT INTO log(id, [key], topic, body) SELECT id, [key], topic, "
		"body FROM log2 ORDER BY id; DROP TABLE log2");
	return true;
}

/* ---- breaks ---- */

static void replace_text(const wh_stmt *stmt, const char *what, const char *with)
{
	/* The statement is the cursor's own, and not prepared yet. */
	wh_stmt *s = (wh_stmt *)(uintptr_t)stmt;
	char *at = strstr(s->text, what), *out;

	if (!at)
		fail_msg("%s: no %s", s->text, what);
	out = malloc(strlen(s->text) + strlen(with) + 1);
	assert_non_null(out);
	(void)sprintf(out, "%.*s%s%s", (int)(at - s->text), s->text, with,
		      at + strlen(what));
	free(s->text);
	s->text = out;
}

static void world_spoil(const wh_cursor *cursor, log_break what)
{
	const wh_stmt *look = cursor->look;

	if (what == LOG_NO_RENUMBER)
		replace_text(look, "CASE WHEN ", "CASE WHEN 1 = 0 AND ");
	if (what == LOG_NO_HORIZON)
		replace_text(look, "MIN_ACTIVE_ROWVERSION()", "@@DBTS");
	if (what == LOG_LAST_AGAIN) {
		replace_text(look, "t.rv > ", "t.rv >= ");
		replace_text(look, "t.rv > ", "t.rv >= ");
	}
	if (what == LOG_BY_ID)
		replace_text(look, "ORDER BY row_at, row_id", "ORDER BY row_id");
}

static const log_world world = {
	.versions = true,
	.undisturbed = true,
	.pause = world_pause,
	.begin = world_begin,
	.spoil = world_spoil,
	.start = world_start,
	.end = world_end,
	.prepare = world_prepare,
	.savepoint = world_savepoint,
	.back = world_back,
	.next_id = world_next_id,
	.insert = world_insert,
	.has = world_has,
	.lose = world_lose,
	.change = world_change,
	.last_id = world_last_id,
	.set_last_id = world_set_last_id,
	.move = world_move,
};

/* ---- the tests ---- */

static uint64_t first_seed = 1, last_seed = SCHEDULES;

static void every_message_is_read_once_for_each_version_and_in_order(void **state)
{
	(void)state;
	log_play_seeds(&world, first_seed, last_seed);
}

static void every_break_is_noticed(void **state)
{
	(void)state;
	assert_int_equal(log_play_breaks(&world, BREAK_SCHEDULES), 0);
}

static char read_ids[400];

static wherry_code take(void *ctx, const wh_log_row *row, wherry_error *err)
{
	wh_view body = wh_row_bytes(row->row, WH_LOG_MESSAGE + 2);
	size_t len = strlen(read_ids);

	(void)ctx;
	(void)err;
	(void)snprintf(read_ids + len, sizeof(read_ids) - len, "%" PRId64 "%.*s ",
		       row->id, (int)body.len, body.ptr);
	return WHERRY_OK;
}

static void read_from(wh_cursor *cursor, wh_position *at)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_log_found found;

	WHERRY_PASS(wh_cursor_read(cursor, at, 9, take, NULL, &found, &err));
}

/* The rows may wait for transactions of others. */
static void reads(wh_cursor *cursor, wh_position *at, const char *wanted)
{
	*read_ids = '\0';
	read_from(cursor, at);
	for (int i = 0; i < PATIENCE && strlen(read_ids) < strlen(wanted); i++) {
		world_pause();
		read_from(cursor, at);
	}
	assert_string_equal(read_ids, wanted);
}

/* Behind a position that is made now come all rows that are committed later, and those behind an
 * open transaction. */
static void a_position_made_now_loses_no_row(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position end = WH_POSITION_START, after = WH_POSITION_START,
		    start = WH_POSITION_START;
	wh_cursor *cursor = NULL;
	wherry_db *db;

	(void)state;
	world_begin(1, &db);
	WHERRY_PASS(wh_cursor_open(db, NULL, "log", &cursor, &err));
	for (int id = 1; id < 4; id++)
		assert_true(world_insert(0, id, 1, id));
	reads(cursor, &start, "11 22 33 ");
	world_start(1);
	assert_true(world_insert(1, 4, 1, 4));
	assert_true(world_insert(0, 5, 1, 5));
	WHERRY_PASS(wh_cursor_end(cursor, &end, &err));
	WHERRY_PASS(wh_cursor_after(cursor, 2, &after, &err));
	assert_true(world_insert(0, 6, 1, 6));
	reads(cursor, &end, "");
	world_end(1, true);
	reads(cursor, &end, "44 55 66 ");
	reads(cursor, &end, "");
	reads(cursor, &after, "33 44 55 66 ");
	wh_position_clear(&start);
	wh_position_clear(&end);
	wh_position_clear(&after);
	wh_cursor_close(cursor);
}

static int enter(void **state)
{
	(void)state;
	mssql_drop(NULL);
	assert_true(mssql_make_functions());
	reader = mssql_connect(NULL);
	for (int i = 0; i < LOG_WRITERS; i++)
		conns[i] = mssql_connect(NULL);
	make_table("log");
	return 0;
}

static int leave(void **state)
{
	(void)state;
	for (int i = 0; i < LOG_WRITERS; i++)
		wherry_db_close(conns[i]);
	wherry_db_close(reader);
	mssql_drop(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			every_message_is_read_once_for_each_version_and_in_order, enter,
			leave),
		cmocka_unit_test_setup_teardown(every_break_is_noticed, enter, leave),
		cmocka_unit_test_setup_teardown(a_position_made_now_loses_no_row, enter,
						leave),
	};
	const struct CMUnitTest one[] = {tests[0]};

	if (!mssql_start(NULL))
		return 0;
	if (argc > 1) {
		first_seed = strtoull(argv[1], NULL, 10);
		last_seed = strstr(argv[1], "..")
				    ? strtoull(strstr(argv[1], "..") + 2, NULL, 10)
				    : first_seed;
		return cmocka_run_group_tests(one, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
