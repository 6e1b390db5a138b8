/*
 * A cursor and a consumer over a view of a table of another program, whose oldest rows have no number of a transaction,
 * and whose ids are of another type or do not grow.
 *
 *     log_cursor_adopted_postgres_test FIRST..LAST   these seeds alone
 */
#include "log_postgres.h"

#include <wherry/subscription.h>

#include "outbox/adopt.h"

static void write_before(int64_t id, int key, int body)
{
	run_sql(conns[0],
		"INSERT INTO events(id, %s, topic, %s, wherry_tx) VALUES (%" PRId64
		", 'k%d', 't', '%d', NULL)",
		key_column, body_column, id, key, body);
}

/* Ids of a random order, each once. */
static int64_t scattered_id(int writer)
{
	return (int64_t)((uint64_t)world_next_id(writer) * 0x9E3779B97F4A7C15U >> 2) | 1;
}

static void play(log_world w, bool scattered)
{
	w.before = write_before;
	if (scattered)
		w.next_id = scattered_id;
	log_play_seeds(&w, SCHEDULES);
}

static void rows_with_small_ids_are_read_once(void **state)
{
	play(world, false);
}

static void rows_with_scattered_ids_are_read_once(void **state)
{
	play(world, true);
}

static void rows_are_consumed_once(void **state)
{
	play(consumer_world, false);
}

static void rows_with_scattered_ids_are_consumed_once(void **state)
{
	play(consumer_world, true);
}

static void every_break_is_noticed(void **state)
{
	log_world scattered = world;

	scattered.next_id = scattered_id;
	scattered.before = write_before;
	assert_int_equal(log_play_breaks(&scattered, BREAK_SCHEDULES), 0);
}

static void every_read_uses_an_index(void **state)
{
	static const char *const states[] = {
		"ANALYZE events", /* Of an empty table. */
		"INSERT INTO events(id, topic, body) SELECT i, 't', i FROM generate_series(1, 50000) AS i",
		"ANALYZE events",
		"UPDATE events SET wherry_tx = NULL WHERE id < 45000; ANALYZE events",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_cursor *cursor = NULL;

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

/* Through a view that computes all it can. */
static void every_statement_of_a_relay_uses_an_index(void **state)
{
	static const char *const names[] = {
		"read-log", "late-page",  "late-start", "log-ids",   "known",
		"read",     "read-ids",   "dead-keys",  "done-mark", "forget-done",
		"fail",     "try",        "log-open",   "open-upto", "last-open",
		"purge",    "purge-count"};
	static const char *const states[] = {
		"ANALYZE events", /* Of an empty table. */
		"INSERT INTO events(id, topic, body, sent_at) SELECT i, 't', i, now() FROM generate_series(1, 50000) AS i",
		"ANALYZE events",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_open(reader, "log", &outbox, &err));
	run_sql(conns[0], "SET enable_seqscan = off; SET enable_bitmapscan = off");
	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		run_sql(conns[0], "%s", states[i]);
		for (int custom = 0; custom < 2 && i; custom++) {
			run_sql(conns[0], "SET plan_cache_mode = force_%s_plan",
				custom ? "custom" : "generic");
			for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++)
				assert_reads_by_index(
					wh_sql_find(&outbox->store.sql, names[k]),
					states[i]);
		}
	}
	wherry_outbox_close(outbox);
}

/* Relays look for rows that all have passed once a second. */
static void what_a_subscription_has_not_passed_is_not_looked_at(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	const wh_stmt *stmt;
	PGresult *res;
	char *sql = NULL;

	WHERRY_PASS(wherry_subscription_create(reader, "log", "audit", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(reader, "log", &outbox, &err));
	stmt = wh_sql_find(&outbox->store.sql, "purge-count");
	run_sql(conns[0],
		"INSERT INTO events(id, topic, body) SELECT i, 't', i FROM generate_series(1, 20000) AS i");
	run_sql(conns[0],
		"UPDATE log_progress SET high = 20000, seen = pg_current_snapshot() WHERE subscription = 'relay'");
	run_sql(conns[0],
		"ANALYZE events; SET enable_seqscan = off; SET enable_bitmapscan = off");
	assert_true(asprintf(&sql, "PREPARE p AS %s", stmt->text) > 0);
	res = PQexec(conns[0], sql);
	assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
	PQclear(res);
	free(sql);
	res = PQexec(conns[0], "EXPLAIN (ANALYZE, TIMING off) EXECUTE p(3600000, 0)");
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s", PQresultErrorMessage(res));
	for (int i = 0; i < PQntuples(res); i++)
		if (strstr(PQgetvalue(res, i, 0), " on events ") &&
		    strstr(PQgetvalue(res, i, 0), "rows=20000 loops"))
			fail_msg("%s", PQgetvalue(res, i, 0));
	PQclear(res);
	wherry_outbox_close(outbox);
}

static void enter(const char *type)
{
	connect_all();
	table = "events";
	tx_column = "wherry_tx";
	run_sql(conns[0],
		"CREATE SEQUENCE log_id; "
		"CREATE TABLE events(id %s PRIMARY KEY, key text, topic text NOT NULL, body text NOT NULL, "
		"hidden boolean NOT NULL DEFAULT false, meta jsonb, sent_at timestamp)",
		type);
}

/* A view with the columns that a cursor of its own reads. */
static int enter_view(const char *type)
{
	enter(type);
	key_column = "key";
	body_column = "body";
	run_sql(conns[0],
		"ALTER TABLE events ADD COLUMN wherry_tx xid8; "
		"ALTER TABLE events ALTER COLUMN wherry_tx SET DEFAULT pg_current_xact_id(); "
		"CREATE INDEX ON events(wherry_tx, id); "
		"CREATE VIEW log AS SELECT id, wherry_tx AS tx, lower(t.key) AS key, concat('shop.', t.topic) AS topic, "
		"CASE WHEN t.body <> '' THEN (json_build_object('b', t.body) ->> 'b') ELSE '' END AS body "
		"FROM events AS t WHERE (NOT hidden)");
	return 0;
}

static int enter_small(void **state)
{
	return enter_view("integer");
}

static int enter_large(void **state)
{
	return enter_view("bigint");
}

static int enter_outbox(void **state)
{
	const wh_adopt_options options = {.as = "log",
					  .where = "NOT hidden",
					  .done = "nothing",
					  .from = "start",
					  .fields = {[WH_ADOPT_KEY] = "key"}};
	static wh_adoption adoption;
	wherry_error err = WHERRY_ERROR_INIT;
	PGresult *res;
	bool made;

	enter("bigint");
	key_column = "key";
	body_column = "body";
	WHERRY_PASS(wh_adoption_plan(reader, "events", &options, &adoption, &err));
	WHERRY_PASS(wh_adoption_run(&adoption, &made, &err));
	wh_adoption_clear(&adoption);
	res = PQexec(conns[0], "SELECT pg_get_functiondef('wherry_consume'::regproc)");
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	whole_function = strdup(PQgetvalue(res, 0, 0));
	assert_non_null(whole_function);
	PQclear(res);
	return 0;
}

static int enter_computed(void **state)
{
	const wh_adopt_options options = {
		.as = "log",
		.where = "NOT hidden AND topic <> 'none'",
		.done = "sent_at",
		.from = "start",
		.fields = {[WH_ADOPT_KEY] = "(lower(coalesce(key, meta ->> 'key')))",
			   [WH_ADOPT_TOPIC] = "(concat('shop.', topic))",
			   [WH_ADOPT_MESSAGE_ID] = "(md5(id::text))",
			   [WH_ADOPT_HEADERS] = "meta",
			   [WH_ADOPT_CREATED_AT] = "(coalesce(sent_at, now()))",
			   [WH_ADOPT_BODY] =
				   "(json_build_object('id', id, 'text', body))"}};
	static wh_adoption adoption;
	wherry_error err = WHERRY_ERROR_INIT;
	bool made;

	enter("integer");
	WHERRY_PASS(wh_adoption_plan(reader, "events", &options, &adoption, &err));
	WHERRY_PASS(wh_adoption_run(&adoption, &made, &err));
	wh_adoption_clear(&adoption);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"max_prepared_transactions=20", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rows_with_small_ids_are_read_once,
						enter_small, leave),
		cmocka_unit_test_setup_teardown(rows_with_scattered_ids_are_read_once,
						enter_large, leave),
		cmocka_unit_test_setup_teardown(rows_are_consumed_once, enter_outbox,
						leave),
		cmocka_unit_test_setup_teardown(rows_with_scattered_ids_are_consumed_once,
						enter_outbox, leave),
		cmocka_unit_test_setup_teardown(every_break_is_noticed, enter_large,
						leave),
		cmocka_unit_test_setup_teardown(every_read_uses_an_index, enter_small,
						leave),
		cmocka_unit_test_setup_teardown(every_statement_of_a_relay_uses_an_index,
						enter_computed, leave),
		cmocka_unit_test_setup_teardown(
			what_a_subscription_has_not_passed_is_not_looked_at,
			enter_computed, leave),
	};

	if (!postgres_start_with(settings))
		return 0;
	if (log_take_seeds(argc, argv))
		return _cmocka_run_group_tests("seeds", tests + (getenv("P") ? 6 : 0),
					       getenv("P") ? 2 : 4, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
