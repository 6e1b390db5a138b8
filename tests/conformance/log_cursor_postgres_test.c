/*
 * A cursor over a log on PostgreSQL, beside writers that do what makes ids and commits differ; see
 * log_schedule.c.
 *
 *     log_cursor_postgres_test FIRST..LAST   these seeds alone
 */
#include "wherry_test.h"
#include "log_postgres.h"

/* ---- the tests ---- */

static void every_message_is_read_once_and_in_order(void **state)
{
	log_play_seeds(&world, SCHEDULES);
}

static void every_break_is_noticed(void **state)
{
	assert_int_equal(log_play_breaks(&world, BREAK_SCHEDULES), 0);
}

static void every_message_is_consumed_once_and_in_order(void **state)
{
	log_play_seeds(&consumer_world, SCHEDULES);
}

static void every_break_of_a_consumer_is_noticed(void **state)
{
	assert_int_equal(log_play_breaks(&consumer_world, BREAK_SCHEDULES), 0);
}

static void every_read_uses_an_index(void **state)
{
	static const char *const states[] = {
		"ANALYZE log", /* Of an empty table. */
		"INSERT INTO log(topic, body) SELECT 't', i FROM generate_series(1, 50000) AS i",
		"ANALYZE log",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_cursor *cursor = NULL;

	run_sql(conns[0], "TRUNCATE log; ALTER SEQUENCE log_id RESTART");
	WHERRY_PASS(wh_cursor_open(reader, NULL, "log", &cursor, &err));
	/* As postgres_open.c does on Wherry's own connections. */
	run_sql(conns[0], "SET enable_seqscan = off; SET enable_bitmapscan = off");
	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		run_sql(conns[0], "%s", states[i]);
		for (int custom = 0; custom < 2 && i; custom++) {
			run_sql(conns[0], "SET plan_cache_mode = force_%s_plan",
				custom ? "custom" : "generic");
			assert_reads_by_index(cursor->look, states[i]);
			assert_reads_by_index(cursor->late_page, states[i]);
		}
	}
	wh_cursor_close(cursor);
}

static wherry_code note_id(void *ctx, const wh_log_row *row, wherry_error *err)
{
	*(int64_t *)ctx = row->id;
	return WHERRY_OK;
}

/* Where constraints were dropped: the first row of each look has that number, too. */
static void a_row_with_the_lowest_number_is_a_row(void **state)
{
	wh_position at = WH_POSITION_START;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_log_found found;
	wh_cursor *cursor = NULL;
	int64_t id = 0;

	run_sql(conns[0], "TRUNCATE log; ALTER SEQUENCE log_id RESTART; "
			  "INSERT INTO log(topic, body) VALUES ('t', 'a')");
	WHERRY_PASS(wh_cursor_open(reader, NULL, "log", &cursor, &err));
	for (int limit = 10; limit > 0; limit -= 9) {
		WHERRY_PASS(wh_cursor_read(cursor, &at, 10, note_id, &id, &found, &err));
		run_sql(conns[0], "DELETE FROM log WHERE id < 0; "
				  "INSERT INTO log(id, topic, body) "
				  "VALUES (-9223372036854775808, 't', 'b')");
		id = 0;
		WHERRY_PASS(
			wh_cursor_read(cursor, &at, limit, note_id, &id, &found, &err));
		assert_true(id == INT64_MIN);
		id = 0;
		WHERRY_PASS(wh_cursor_read(cursor, &at, 10, note_id, &id, &found, &err));
		assert_int_equal(id, 0);
	}
	wh_position_clear(&at);
	wh_cursor_close(cursor);
}

static int enter_consumer(void **state)
{
	const wherry_outbox_options options =
		WHERRY_OUTBOX_OPTIONS(.layout = "log", .payload = "text");
	wherry_error err = WHERRY_ERROR_INIT;
	PGresult *res;

	connect_all();
	WHERRY_PASS(wherry_outbox_create(reader, "log", &options, &err));
	run_sql(conns[0],
		"CREATE SEQUENCE log_id; ALTER TABLE log DROP CONSTRAINT log_sane");
	res = PQexec(conns[0], "SELECT pg_get_functiondef('wherry_consume'::regproc)");
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	whole_function = strdup(PQgetvalue(res, 0, 0));
	assert_non_null(whole_function);
	PQclear(res);
	key_column = "partition_key";
	body_column = "payload";
	return 0;
}

static int enter(void **state)
{
	connect_all();
	run_sql(conns[0],
		"CREATE SEQUENCE log_id; "
		"CREATE TABLE log(id bigint PRIMARY KEY DEFAULT nextval('log_id'), "
		"tx xid8 NOT NULL DEFAULT pg_current_xact_id(), key text, topic text NOT NULL, "
		"body text NOT NULL); CREATE INDEX ON log(tx, id)");
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"max_prepared_transactions=20", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_message_is_read_once_and_in_order,
						enter, leave),
		cmocka_unit_test_setup_teardown(every_break_is_noticed, enter, leave),
		cmocka_unit_test_setup_teardown(every_read_uses_an_index, enter, leave),
		cmocka_unit_test_setup_teardown(a_row_with_the_lowest_number_is_a_row,
						enter, leave),
		cmocka_unit_test_setup_teardown(
			every_message_is_consumed_once_and_in_order, enter_consumer,
			leave),
		cmocka_unit_test_setup_teardown(every_break_of_a_consumer_is_noticed,
						enter_consumer, leave),
	};
	const struct CMUnitTest seeds[] = {tests[0], tests[3]};

	if (!postgres_start_with(settings))
		return 0;
	if (log_take_seeds(argc, argv))
		return cmocka_run_group_tests(seeds, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
