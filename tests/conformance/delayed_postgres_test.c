/*
 * Delayed queues on PostgreSQL, on connections of its own and on the application's.
 */
#include "delayed_suite.h"

#include <wherry/postgres.h>

#include "db/trace.h"
#include "delayed/delayed.h"

#include "postgres/backends.h"
#include "postgres/functions.h"
#include "postgres/claim_costs.h"
#include "postgres/delayed.h"
#include "postgres/plan.h"
#include "postgres/server.h"

/* Another program offers the key again when the first statement of a poll has leased it. */
static wherry_code offer_again(void *ctx, const char *op, const char *what,
			       wherry_code code, int64_t took_us, wherry_error *err)
{
	int *n_polls = ctx;

	if (strcmp(op, "run") != 0 || strncmp(what, "poll", 4) != 0 || ++*n_polls != 1)
		return code;
	postgres_says("SELECT wherry_offer('mail', 'a', 'new'::text, '0 s')", "updated");
	return code;
}

static void who_acknowledges_what_was_replaced_during_the_poll_deletes_nothing(
	void **state)
{
	const wherry_poll_options two = WHERRY_POLL_OPTIONS(.limit = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome outcomes[2];
	wherry_delayed *queue = NULL;
	wherry_db *inner = NULL, *db = NULL;
	char url[200];
	int n_polls = 0;
	const wh_trace trace = {.after = offer_again, .ctx = &n_polls};
	delayed_got got = {.n = 0};
	const char *tokens[2];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &inner, &err));
	WHERRY_PASS(wherry_delayed_create(inner, NULL, NULL, &err));
	WHERRY_PASS(wh_db_trace(inner, &trace, &db, &err));
	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &queue, &err));
	/* A poll that is due to begin behind the last message, and then looks at all. */
	queue->scan_start = (wh_scan_start){.next_full_us = INT64_MAX};
	postgres_says("SELECT wherry_offer('mail', 'a', 'old'::text, '0 s')", "created");
	WHERRY_PASS(wherry_delayed_poll(queue, &two, delayed_note, &got, NULL, &err));
	assert_int_equal(n_polls, 2);
	assert_int_equal(got.n, 2);
	for (size_t i = 0; i < 2; i++)
		tokens[i] = got.tokens[i];
	assert_string_not_equal(tokens[0], tokens[1]);
	WHERRY_PASS(wherry_delayed_ack(queue, tokens, 1, outcomes, &err));
	assert_int_equal(outcomes[0], WHERRY_SUPERSEDED);
	postgres_says("SELECT count(*) FROM delayed", "1");
	WHERRY_PASS(wherry_delayed_ack(queue, tokens, 2, outcomes, &err));
	assert_int_not_equal(outcomes[0], WHERRY_ACKNOWLEDGED);
	assert_int_equal(outcomes[1], WHERRY_ACKNOWLEDGED);
	postgres_says("SELECT count(*) FROM delayed", "0");
	wherry_delayed_close(queue);
	wherry_db_close(db);
	postgres_leave();
}

static void a_program_in_sql_and_the_library_share_a_queue(void **state)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = "c", .body = "3", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome outcome;
	const char *token;
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);
	delayed_got got = {.n = 0};

	postgres_says("SELECT wherry_offer('mail', 'a', '1'::text, '1 hour')", "created");
	postgres_says("SELECT wherry_offer('mail', 'a', '1b'::bytea, if_absent => true)",
		      "ignored");
	postgres_says("SELECT wherry_offer('mail', 'a', '1c')", "updated");
	postgres_says("SELECT wherry_offer('mail', 'b', '2', at => '2020-01-01')",
		      "created");
	postgres_says("SELECT wherry_offer('mail', 'b', '2', at => '2020-01-01')",
		      "ignored");
	WHERRY_PASS(wherry_delayed_offer(queue, &msg, NULL, &err));
	WHERRY_PASS(wherry_delayed_poll(queue, NULL, delayed_note, &got, NULL, &err));
	assert_string_equal(got.text, "2");
	token = got.tokens[0];
	WHERRY_PASS(wherry_delayed_ack(queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
	postgres_says(
		"SELECT string_agg(key || convert_from(body, 'UTF8') || attempts, ' ') FROM "
		"wherry_poll('mail', 9)",
		"a1c1 c31");
	postgres_says("SELECT count(*) FROM wherry_poll('mail', 9)", "0");
	postgres_delayed_leave(db, queue);
}

static void a_poll_with_a_limit_of_attempts_locks_only_what_it_takes(void **state)
{
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);
	PGconn *conn;

	postgres_says(
		"SELECT count(wherry_offer('mail', 'k' || i, 'x', at => '2020-01-01')) FROM "
		"generate_series(1, 9) AS i",
		"9");
	postgres_says("UPDATE delayed SET attempts = 5 WHERE \"pKey\" IN ('k1', 'k2')",
		      "");
	conn = postgres_begin("SELECT key FROM wherry_poll('mail', max_attempts => 5)");
	postgres_says("SET statement_timeout = '10s'; SELECT string_agg(key, ' ') FROM "
		      "wherry_poll('mail', 10)",
		      "k4 k5 k6 k7 k8 k9");
	assert_true(postgres_exec(conn, "COMMIT", NULL, 0));
	PQfinish(conn);
	postgres_says("SELECT string_agg(\"pKey\", ' ' ORDER BY id) FROM delayed_dead",
		      "k1 k2");
	postgres_delayed_leave(db, queue);
}

static void a_poll_in_sql_delivers_nothing_that_had_its_attempts(void **state)
{
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	postgres_says(
		"SELECT count(wherry_offer('mail', 'k' || i, 'x', at => '2020-01-01')) FROM "
		"generate_series(1, 1503) AS i",
		"1503");
	postgres_says("UPDATE delayed SET attempts = 5 WHERE id <> 750 AND id < 1502",
		      "");
	postgres_says("SELECT string_agg(key || attempts, ' ') FROM "
		      "wherry_poll('mail', 1500, max_attempts => 5)",
		      "k7501 k15021 k15031");
	/* A set of at most 1,000, so that a call ends within its time. */
	postgres_says("SELECT count(*) FROM delayed_dead", "1000");
	postgres_says("SELECT count(*) FROM wherry_poll('mail', 0, max_attempts => 5)",
		      "0");
	postgres_says("SELECT count(*) FROM delayed_dead", "1500");
	postgres_delayed_leave(db, queue);
}

/* On SQL Server upstream may lock the page of a row, which others do not pass over. */
static void a_poll_passes_over_messages_that_another_transaction_has(void **state)
{
	static const char poll[] =
		"SELECT string_agg(key, ' ') FROM wherry_poll('mail', 2)";
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);
	char got[20] = "";
	PGconn *conn;

	postgres_says(
		"SELECT count(wherry_offer('mail', 'k' || i, 'x', at => '2020-01-01')) FROM "
		"generate_series(1, 5) AS i",
		"5");
	conn = postgres_begin(poll);
	postgres_says("SET statement_timeout = '10s'; SELECT string_agg(key, ' ') FROM "
		      "wherry_poll('mail', 2)",
		      "k3 k4");
	assert_true(postgres_exec(conn, poll, got, sizeof(got)));
	assert_string_equal(got, "k5");
	assert_true(postgres_exec(conn, "ROLLBACK", NULL, 0));
	PQfinish(conn);
	postgres_says("SELECT count(*) FROM wherry_poll('mail', 9)", "3");
	postgres_delayed_leave(db, queue);
}

/* With statistics that say nothing a plan by the kind would read every message of it. */
static void settling_finds_rows_by_their_ids(void **state)
{
	static const char *const names[] = {"ack",       "nack",     "extend-lease",
					    "make-dead", "versions", "ack-read"};
	static const char *const wanted[] = {"_pkey on", NULL};
	static const char *const unwanted[] = {"_time on", NULL};
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		postgres_check_plan(db, &queue->store.sql, names[i], wanted, unwanted);
	postgres_delayed_leave(db, queue);
}

/* ---- polls while another session holds an old snapshot ---- */

static wherry_code drop_it(void *ctx, const wherry_delayed_message *msg)
{
	return WHERRY_OK;
}

/* How long a poll of one message takes, by the fastest of some. */
static int64_t cost(wherry_delayed *queue, bool anchored)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		int64_t began_us, took_us, n = 0;

		if (!anchored)
			queue->scan_start.next_full_us = 0;
		began_us = wh_monotonic(&wh_env_system);
		WHERRY_PASS(wherry_delayed_poll(queue, NULL, drop_it, NULL, &n, &err));
		took_us = wh_monotonic(&wh_env_system) - began_us;
		assert_int_equal(n, 1);
		best = took_us < best ? took_us : best;
	}
	return best;
}

/* The number 4.2 of the library's reference: polls walk over every index entry that an old snapshot
 * keeps. */
static void a_poll_does_not_read_what_was_polled_before(void **state)
{
	const wherry_poll_options many =
		WHERRY_POLL_OPTIONS(.limit = 1000, .lease_us = 3600LL * SECOND_US);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t before, anchored, unanchored;
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);
	PGconn *report;

	postgres_says(
		"SELECT count(wherry_offer('mail', 'k' || i, 'x', at => '2020-01-01')) FROM "
		"generate_series(1, 30000) AS i",
		"30000");
	before = cost(queue, true);
	report = postgres_begin("SELECT count(*) FROM delayed");
	assert_true(postgres_exec(report,
				  "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; "
				  "SELECT count(*) FROM delayed",
				  NULL, 0));
	for (int i = 0; i < 29; i++)
		WHERRY_PASS(wherry_delayed_poll(queue, &many, drop_it, NULL, NULL, &err));
	unanchored = cost(queue, false);
	queue->scan_start.next_full_us = INT64_MAX;
	anchored = cost(queue, true);
	print_message("# a poll: %lld us before, %lld us under an old snapshot, %lld us "
		      "from the beginning\n",
		      (long long)before, (long long)anchored, (long long)unanchored);
	assert_true(anchored < 3 * before + 1000);
	assert_true(unanchored > 3 * anchored);
	PQfinish(report);
	postgres_delayed_leave(db, queue);
}

/* The same of the SQL function, which keeps nothing between two calls: the caller says where to begin. */
static void a_poll_after_a_message_reads_nothing_before_it(void **state)
{
	int64_t before, after;
	char got[40] = "";
	PGconn *report;
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	postgres_says(
		"SELECT count(wherry_offer('mail', 'k' || i, 'x', at => '2020-01-01')) FROM "
		"generate_series(1, 5001) AS i",
		"5001");
	postgres_says("SELECT wherry_offer('mail', 'later', 'x', at => '2020-01-02')",
		      "created");
	report = postgres_begin("SELECT count(*) FROM delayed");
	assert_true(postgres_exec(report,
				  "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; "
				  "SELECT count(*) FROM delayed",
				  NULL, 0));
	postgres_says(
		"SELECT count(*) FROM wherry_poll('mail', 5000) AS m, wherry_done('mail', m.token) "
		"AS done WHERE done = 'acknowledged'",
		"5000");
	before = postgres_entries_read(db, "delayed");
	assert_true(
		postgres_exec(wherry_postgres_handle(db),
			      "SELECT concat(id, key) FROM wherry_poll('mail', after => "
			      "'2020-01-01', after_id => 5000)",
			      got, sizeof(got)));
	assert_string_equal(got, "5001k5001");
	assert_true(postgres_exec(wherry_postgres_handle(db),
				  "SELECT key FROM wherry_poll('mail', after => "
				  "'2020-01-01', after_id => 5001)",
				  got, sizeof(got)));
	assert_string_equal(got, "later");
	after = postgres_entries_read(db, "delayed");
	assert_in_range(after - before, 1, 40);
	/* What comes back is due behind it, or before it: only a poll without `after` finds all. */
	postgres_says("SELECT wherry_offer('mail', 'back', 'x', at => '2019-01-01')",
		      "created");
	postgres_says(
		"SELECT count(*) FROM wherry_poll('mail', after => '2020-01-01', after_id => NULL)",
		"0");
	postgres_says("SELECT count(*) FROM wherry_poll('mail', after => 'infinity')",
		      "0");
	postgres_says("SELECT key FROM wherry_poll('mail')", "back");
	postgres_says("SELECT wherry_offer('mail', 'more', 'x', at => '2019-01-01')",
		      "created");
	postgres_says("SELECT key FROM wherry_poll('mail', after => '-infinity')",
		      "more");
	PQfinish(report);
	postgres_delayed_leave(db, queue);
}

/* The same of claims by relays, on both layouts. */
static void check_claims(const char *layout)
{
	static const char insert[] =
		"INSERT INTO later(id, \"pKey\", \"pKind\", payload, \"scheduledAt\", "
		"\"scheduledAtInitially\", \"createdAt\") SELECT i, i, md5('mail|bytes'), 'x', "
		"%s, %s, 1 FROM generate_series(%s) AS i";
	char fill[400], one_before[500] = "DELETE FROM later; ";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	claim_costs c = {.table = "later",
			 .url = postgres_here.url,
			 .fill = fill,
			 .one_before = one_before,
			 .remove = "DELETE FROM later WHERE \"lockUuid\" IS NOT NULL"};
	wherry_db *db;
	wherry_delayed *other = postgres_delayed_enter(&db);

	(void)snprintf(fill, sizeof(fill), insert, "i", "i", "1, 20000");
	/* The library's index does not have the id, so there it takes statistics to see that a sort of all
	 * costs more than one of the first. */
	if (strcmp(layout, "funfix") == 0)
		strcat(fill, "; ANALYZE later");
	(void)snprintf(one_before + strlen(one_before), 450, insert, "0", "0", "1, 1");
	WHERRY_PASS(wherry_delayed_create(db, "later", layout, &err));
	WHERRY_PASS(wherry_delayed_open(db, "later", "mail", NULL, &queue, &err));
	c.store = &queue->store;
	claim_costs_check(&c);
	wherry_delayed_close(queue);
	postgres_delayed_leave(db, other);
}

static void an_old_snapshot_does_not_slow_claims_of_a_delayed_queue(void **state)
{
	check_claims("native");
	check_claims("funfix");
}

/* A transaction takes a time, and commits after a later message was polled. */
static void a_message_that_is_committed_late_is_polled_too(void **state)
{
	static const char *const keys[] = {"late", "first", "second"};
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);
	PGconn *conn = postgres_begin(
		"SELECT wherry_offer('mail', 'late', 'x', at => '2020-01-01')");
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	postgres_says(
		"SELECT count(wherry_offer('mail', k, 'x', at => '2020-01-02')) FROM "
		"(VALUES ('first'), ('second')) AS t(k)",
		"2");
	WHERRY_PASS(wherry_delayed_poll(queue, NULL, delayed_note, &got, NULL, &err));
	queue->scan_start.next_full_us = INT64_MAX; /* It is not time to look at all. */
	assert_true(postgres_exec(conn, "COMMIT", NULL, 0));
	PQfinish(conn);
	for (int i = 0; i < 2; i++)
		WHERRY_PASS(
			wherry_delayed_poll(queue, NULL, delayed_note, &got, NULL, &err));
	assert_int_equal(got.n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_non_null(strstr(got.keys, keys[i]));
	postgres_delayed_leave(db, queue);
}

static void a_poll_that_is_rolled_back_is_repeated_from_its_first_message(void **state)
{
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	postgres_says(
		"SELECT count(wherry_offer('mail', 'k' || i, 'x', at => '2020-01-01')) FROM "
		"generate_series(1, 9) AS i",
		"9");
	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(wherry_db_begin(db, &err));
		WHERRY_PASS(wherry_delayed_poll(queue, &WHERRY_POLL_OPTIONS(.limit = 2),
						delayed_note, &got, NULL, &err));
		queue->scan_start.next_full_us = INT64_MAX;
		wherry_db_rollback(db);
	}
	assert_string_equal(got.keys, "k1 k2 k1 k2");
	postgres_delayed_leave(db, queue);
}

/* Those that an older version made, and those that are missing. */
static void functions_of_an_older_delayed_queue_are_made_again(void **state)
{
	static const char *const breaks[] = {
		"COMMENT ON FUNCTION wherry_poll IS 'Wherry 0'",
		"DROP FUNCTION wherry_delayed_drop",
		/* With other arguments: calls that fit both would be ambiguous. */
		"CREATE FUNCTION wherry_poll(queue text, n integer DEFAULT 1) RETURNS integer "
		"LANGUAGE plpgsql AS $$BEGIN\nRETURN 1; END$$; COMMENT ON FUNCTION wherry_poll(text, integer) IS "
		"'Wherry 0'",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		postgres_says(breaks[i], "");
		WHERRY_PASS(
			wherry_delayed_create(db, i == 1 ? "second" : NULL, NULL, &err));
		postgres_says(
			"SELECT concat(count(*), ' ', count(DISTINCT d)) FROM (SELECT "
			"obj_description(oid, 'pg_proc') AS d FROM pg_proc WHERE pronamespace = "
			"current_schema()::regnamespace) AS f WHERE d LIKE 'Wherry _______%'",
			"15 1");
	}
	postgres_delayed_leave(db, queue);
}

/* A version whose wherry_poll() has other arguments, with a role that may call only that. */
static const char older_poll[] =
	"CREATE ROLE caller; REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %s FROM PUBLIC; "
	"ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; "
	"DROP FUNCTION wherry_poll(text, integer, interval, integer, text, text, timestamptz, bigint); "
	"CREATE FUNCTION wherry_poll(queue text, n integer) RETURNS integer LANGUAGE plpgsql AS "
	"$$BEGIN\nRETURN 17; END$$; "
	"COMMENT ON FUNCTION wherry_poll(text, integer) IS 'Wherry 0'; "
	"GRANT EXECUTE ON FUNCTION wherry_poll(text, integer) TO %s; ";

static const char polls[] =
	"SELECT count(*) FROM pg_proc WHERE proname = 'wherry_poll' AND pronamespace = "
	"current_schema()::regnamespace";

static wherry_delayed *with_an_older_poll(wherry_db **db, const char *caller)
{
	wherry_delayed *queue = postgres_delayed_enter(db);
	char sql[1024];

	(void)snprintf(sql, sizeof(sql), older_poll, postgres_here.name, caller);
	postgres_says(sql, "");
	return queue;
}

static void without_an_older_poll(wherry_db *db, wherry_delayed *queue)
{
	postgres_says("ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC; "
		      "DROP OWNED BY caller; DROP ROLE caller",
		      "");
	postgres_delayed_leave(db, queue);
}

/* By a right of its own, and by one of PUBLIC. */
static void a_role_may_call_a_function_whose_arguments_changed(void **state)
{
	static const char *const callers[] = {"caller", "PUBLIC"};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < 2; i++) {
		wherry_db *db;
		wherry_delayed *queue = with_an_older_poll(&db, callers[i]);

		WHERRY_PASS(wherry_delayed_create(db, "second", NULL, &err));
		postgres_says(polls, "1");
		postgres_says(
			"SELECT has_function_privilege('caller', oid, 'EXECUTE') FROM "
			"pg_proc WHERE proname = 'wherry_poll' AND pronamespace = "
			"current_schema()::regnamespace",
			"1");
		without_an_older_poll(db, queue);
	}
}

static void an_older_function_that_a_view_calls_gets_another_name(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;
	wherry_delayed *queue = with_an_older_poll(&db, "caller");

	postgres_says("CREATE VIEW polled AS SELECT wherry_poll('mail', 1) AS n", "");
	WHERRY_PASS(wherry_delayed_create(db, "second", NULL, &err));
	postgres_says(polls, "1");
	postgres_says("SELECT n FROM polled", "17");
	postgres_says(
		"SELECT count(*) FROM pg_proc WHERE proname LIKE 'wherry\\_poll\\_%' AND "
		"obj_description(oid, 'pg_proc') LIKE 'An older wherry_poll()%'",
		"1");
	/* A second time nothing is left to do. */
	WHERRY_PASS(wherry_delayed_create(db, "third", NULL, &err));
	postgres_says("SELECT n FROM polled", "17");
	without_an_older_poll(db, queue);
}

/* In a block the time of the statement stands still: a lease that began then could be over. */
static void functions_in_a_long_block_take_the_time_of_their_call(void **state)
{
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	postgres_says(
		"DO $do$ DECLARE t bigint; held text; BEGIN "
		"WHILE clock_timestamp() < statement_timestamp() + interval '10 ms' LOOP END LOOP; "
		"t := floor(extract(epoch FROM clock_timestamp()) * 1000); "
		"PERFORM wherry_offer('mail', 'a', 'x'); "
		"ASSERT (SELECT \"scheduledAtInitially\" FROM delayed) >= t, 'offer'; "
		"SELECT token INTO held FROM wherry_poll('mail', lease => '1 ms'); "
		"ASSERT (SELECT \"scheduledAt\" FROM delayed) > t, 'poll'; "
		"PERFORM wherry_delayed_extend('mail', held, '1 ms'); "
		"ASSERT (SELECT \"scheduledAt\" FROM delayed) > t, 'extend'; "
		"PERFORM wherry_delayed_nack('mail', held, '1 ms'); "
		"ASSERT (SELECT \"scheduledAt\" FROM delayed) > t, 'nack'; "
		"END $do$",
		"");
	postgres_delayed_leave(db, queue);
}

int main(void)
{
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(a_poll_does_not_read_what_was_polled_before),
		cmocka_unit_test(a_poll_after_a_message_reads_nothing_before_it),
		cmocka_unit_test(an_old_snapshot_does_not_slow_claims_of_a_delayed_queue),
		cmocka_unit_test(a_message_that_is_committed_late_is_polled_too),
		cmocka_unit_test(
			a_poll_that_is_rolled_back_is_repeated_from_its_first_message),
		cmocka_unit_test(
			who_acknowledges_what_was_replaced_during_the_poll_deletes_nothing),
		cmocka_unit_test(a_program_in_sql_and_the_library_share_a_queue),
		cmocka_unit_test(settling_finds_rows_by_their_ids),
		cmocka_unit_test(
			a_poll_with_a_limit_of_attempts_locks_only_what_it_takes),
		cmocka_unit_test(a_poll_in_sql_delivers_nothing_that_had_its_attempts),
		cmocka_unit_test(
			a_poll_passes_over_messages_that_another_transaction_has),
		cmocka_unit_test(functions_of_an_older_delayed_queue_are_made_again),
		cmocka_unit_test(a_role_may_call_a_function_whose_arguments_changed),
		cmocka_unit_test(an_older_function_that_a_view_calls_gets_another_name),
		cmocka_unit_test(functions_in_a_long_block_take_the_time_of_their_call),
	};
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed,
							 &outbox_postgres_functions};
	static const char *const lacks[] = {DELAYED_POSTGRES_LACKS, NULL};

	if (!postgres_start())
		return 0;
	return delayed_suite_run(NULL, lacks, backends,
				 sizeof(backends) / sizeof(*backends), more,
				 sizeof(more) / sizeof(*more));
}
