/*
 * A cursor over a log on SQL Server, and wherry_consume, beside writers whose row versions and commits differ;
 * see log_schedule.c.
 *
 *     log_cursor_odbc_mssql_test FIRST..LAST   these seeds alone
 */
#include "mssql/backend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "conformance/log_schedule.h"
#include "db/driver.h"

enum { SCHEDULES = 30, BREAK_SCHEDULES = 100, SQL_LEN = 1000, PATIENCE = 10000 };

static wherry_db *reader, *conns[LOG_WRITERS + 1]; /* The last one is the consumer's. */
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
		"rv ROWVERSION NOT NULL, [key] NVARCHAR(20), "
		"topic NVARCHAR(20) COLLATE Latin1_General_BIN2 NOT NULL, "
		"body NVARCHAR(20) NOT NULL, payload NVARCHAR(20) NOT NULL DEFAULT N'', "
		"message_id NVARCHAR(20) NOT NULL DEFAULT N'', partition_key NVARCHAR(20), "
		"headers NVARCHAR(20), aggregate_type NVARCHAR(20), aggregate_id NVARCHAR(20), "
		"trace_id NVARCHAR(20), created_at DATETIME2(3)); CREATE INDEX %s_rv ON %s(rv)",
		name, name, name);
	for (int i = 0; i <= LOG_WRITERS; i++)
		run_sql(conns[i], "SET IDENTITY_INSERT dbo.%s ON", name);
}

static void world_begin(uint64_t seed, wherry_db **out)
{
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
		"INSERT INTO log(id, [key], topic, body, payload) VALUES (%" PRId64
		", N'k%d', N't', N'%d', N'%d')",
		id, key, body, body);
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

/* How much higher the row versions of another database were. */
static const int64_t higher[] = {1000000, 20, 0};

/* The rows are copied into another table, as from such a database. */
static bool world_move(wh_position *at, unsigned how)
{
	if (at->seen)
		at->high += higher[how];
	for (int i = 0; i <= LOG_WRITERS; i++)
		run_sql(conns[i], "SET IDENTITY_INSERT dbo.log OFF");
	make_table("log2");
	run_sql(conns[0],
		"INSERT INTO log2(id, [key], topic, body, payload) SELECT id, [key], topic, "
		"body, payload FROM log ORDER BY id; DROP TABLE log");
	for (int i = 0; i <= LOG_WRITERS; i++)
		run_sql(conns[i], "SET IDENTITY_INSERT dbo.log2 OFF");
	make_table("log");
	run_sql(conns[0],
		"INSERT INTO log(id, [key], topic, body, payload) SELECT id, [key], topic, "
		"body, payload FROM log2 ORDER BY id; DROP TABLE log2");
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

/* ---- a consumer ---- */

static const char *replaced, *by; /* In the procedure; NULL: it is whole. */

/* The outbox has the columns of the schedules. */
static void make_outbox(void)
{
	const wherry_outbox_options options = WHERRY_OUTBOX_OPTIONS(.layout = "log");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_create(conns[0], "log", &options, &err));
	run_sql(conns[0],
		"DROP TABLE log; INSERT INTO log_progress(subscription, high, seen) "
		"VALUES (N'other', 0, N'')");
	make_table("log");
}

static void alter_procedure(const char *what, const char *with)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *sql;

	if (asprintf(
		    &sql,
		    "DECLARE @p NVARCHAR(MAX) = (SELECT REPLACE(REPLACE(definition, N'CREATE PROCEDURE', "
		    "N'ALTER PROCEDURE'), N'%s', N'%s') FROM sys.sql_modules "
		    "WHERE object_id = OBJECT_ID(N'wherry_consume')); EXEC (@p)",
		    what, with) < 0)
		fail();
	if (wh_db_script(conns[0], sql, &err) != WHERRY_OK)
		fail_msg("%s: %s", sql, err.message);
	free(sql);
}

static void consumer_begin(uint64_t seed, wherry_db **out)
{
	world_begin(seed, out);
	run_sql(conns[0],
		"DELETE FROM log_exception; UPDATE log_progress SET high = 0, seen = N''");
	if (replaced)
		alter_procedure(by, replaced);
	replaced = NULL;
}

typedef struct consumed {
	int64_t ids[10];
	int bodies[10], n;
} consumed;

static wherry_code take_consumed(void *ctx, const wh_row *row, wherry_error *err)
{
	consumed *c = ctx;
	const char *body = wh_row_text(row, 5);

	assert_true(c->n < 10 && body);
	c->ids[c->n] = wh_row_int(row, 0);
	c->bodies[c->n++] = atoi(body);
	return wh_row_check(row, err);
}

static void call_procedure(const char *subscription, int64_t n, consumed *out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[SQL_LEN];
	wh_stmt stmt;
	wh_sql all = {.stmts = &stmt, .n = 1};

	(void)snprintf(sql, sizeof(sql), "EXEC wherry_consume N'%s', %" PRId64 ", N'log'",
		       subscription, n);
	WHERRY_PASS(wh_stmt_make("mssql", "consume", sql, &stmt, &err));
	WHERRY_PASS(wh_db_run(conns[LOG_CONSUMER], &stmt, NULL, 0, take_consumed, out,
			      NULL, &err));
	wh_db_forget(conns[LOG_CONSUMER], &all);
	wh_stmt_clear(&stmt);
}

static void consume(int64_t limit, void (*take)(int64_t id, int body))
{
	consumed c = {.n = 0}, other = {.n = 0};

	if (!log_chance(3))
		call_procedure("other", 2, &other);
	call_procedure("relay", limit, &c);
	for (int i = 0; i < c.n; i++)
		take(c.ids[i], c.bodies[i]);
}

static void spoil_procedure(const wh_cursor *cursor, log_break what)
{
	static const struct {
		log_break what;
		const char *text, *with;
	} breaks[] = {
		{LOG_NO_RENUMBER, "p.seen = @seen AND", "@seen = @seen AND"},
		{LOG_NO_HORIZON, "MIN_ACTIVE_ROWVERSION()", "@@DBTS"},
		{LOG_LAST_AGAIN, "t.rv > CONVERT(BINARY(8), @high)",
		 "t.rv >= CONVERT(BINARY(8), @high)"},
		{LOG_BY_ID, "ORDER BY t.rv, t.id", "ORDER BY t.id"},
		{LOG_OWN_SEEN, "@upto - 1", "@@DBTS"},
	};

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++)
		if (breaks[i].what == what) {
			alter_procedure(breaks[i].text, breaks[i].with);
			replaced = breaks[i].text;
			by = breaks[i].with;
		}
}

static bool move_consumer(wh_position *at, unsigned how)
{
	run_sql(conns[0],
		"UPDATE log_progress SET high = high + %" PRId64 " WHERE seen <> N''",
		higher[how]);
	return world_move(at, how);
}

static const log_world consumer_world = {
	.versions = true,
	.undisturbed = true,
	.consume = consume,
	.pause = world_pause,
	.begin = consumer_begin,
	.spoil = spoil_procedure,
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
	.move = move_consumer,
};

/* ---- the tests ---- */

static void every_message_is_read_once_for_each_version_and_in_order(void **state)
{
	log_play_seeds(&world, SCHEDULES);
}

static void every_break_is_noticed(void **state)
{
	assert_int_equal(log_play_breaks(&world, BREAK_SCHEDULES), 0);
}

static void every_message_is_consumed_once_for_each_version_and_in_order(void **state)
{
	log_play_seeds(&consumer_world, SCHEDULES);
}

static void every_break_of_a_consumer_is_noticed(void **state)
{
	assert_int_equal(log_play_breaks(&consumer_world, BREAK_SCHEDULES), 0);
}

static char read_ids[400];

static wherry_code take(void *ctx, const wh_log_row *row, wherry_error *err)
{
	wh_view body = wh_row_bytes(row->row, WH_LOG_MESSAGE + 2);
	size_t len = strlen(read_ids);

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
	mssql_drop(NULL);
	assert_true(mssql_make_functions());
	reader = mssql_connect(NULL);
	for (int i = 0; i <= LOG_WRITERS; i++)
		conns[i] = mssql_connect(NULL);
	return 0;
}

static int enter_reader(void **state)
{
	(void)enter(state);
	make_table("log");
	return 0;
}

static int enter_consumer(void **state)
{
	(void)enter(state);
	make_outbox();
	return 0;
}

static int leave(void **state)
{
	for (int i = 0; i <= LOG_WRITERS; i++)
		wherry_db_close(conns[i]);
	wherry_db_close(reader);
	mssql_drop(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			every_message_is_read_once_for_each_version_and_in_order,
			enter_reader, leave),
		cmocka_unit_test_setup_teardown(
			every_message_is_consumed_once_for_each_version_and_in_order,
			enter_consumer, leave),
		cmocka_unit_test_setup_teardown(every_break_is_noticed, enter_reader,
						leave),
		cmocka_unit_test_setup_teardown(every_break_of_a_consumer_is_noticed,
						enter_consumer, leave),
		cmocka_unit_test_setup_teardown(a_position_made_now_loses_no_row,
						enter_reader, leave),
	};
	const struct CMUnitTest some[] = {tests[0], tests[1]};

	if (!mssql_start(NULL))
		return 0;
	if (log_take_seeds(argc, argv))
		return cmocka_run_group_tests(some, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
