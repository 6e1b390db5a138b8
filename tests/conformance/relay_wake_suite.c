/*
 * Noticing: new messages, late ones, and what operators do.
 */
#include "relay_suite.h"

#include "relay/relay.h"

static void lead(relay_fixture *f)
{
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_quiet(f, &f->a);
}

WHERRY_CASE(a_plain_insert_wakes_a_sleeping_relay, relay_fixture *f)
{
	int64_t began_us;

	relay_hourly(f);
	relay_start(f, &f->a);
	for (int64_t n = 1; n <= 5; n++) {
		RELAY_ASLEEP_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > WH_SECOND);
		began_us = relay_now(f);
		relay_sql(f, "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == n);
		assert_true(relay_now(f) - began_us < 60 * WH_SECOND);
	}
	relay_check_once(f, 5);
}

WHERRY_CASE(an_idle_relay_sleeps, relay_fixture *f)
{
	relay_hourly(f);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 2);
	RELAY_ASLEEP_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 30 * WH_SECOND);
}

typedef struct tally {
	int64_t statements, begins, commits, purges, sweeps;
} tally;

static wherry_code count(void *ctx, const char *op, const char *what, wherry_error *err)
{
	tally *t = ctx;

	t->statements += strcmp(op, "run") == 0;
	t->begins += strcmp(op, "begin") == 0;
	t->commits += strcmp(op, "commit") == 0;
	t->purges += strncmp(what, "purge", 5) == 0;
	t->sweeps += strncmp(what, "sweep", 5) == 0;
	return WHERRY_OK;
}

/* The renewal of its lease, and once an hour a purge in vain.  On a connection that it
 * shares with producers it cannot tell its own writes from theirs: after each it looks for new
 * rows, for what an operator wants and for open rows below the cursor. */
WHERRY_CASE(an_idle_relay_runs_one_statement_in_ten_seconds, relay_fixture *f)
{
	static tally t; /* outlives the connection */
	bool alone = f->target->is & RELAY_ALONE;
	int64_t from_us;

	relay_wrap(f, &(wh_trace){.before = count, .ctx = &t});
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	f->frozen_us = relay_now(f);
	for (from_us = f->frozen_us; f->frozen_us - from_us < 300 * WH_SECOND;)
		relay_skip(f, &f->a);
	t = (tally){0};
	for (from_us = f->frozen_us; f->frozen_us - from_us < 3600 * WH_SECOND;)
		relay_skip(f, &f->a);
	assert_true(t.purges <= 1);
	assert_true(t.statements - t.purges <=
		    361 * (alone ? 5 : 1)); /* one at each end of the hour */
	assert_true(t.begins <= t.purges);
	assert_int_equal(t.begins, t.commits);
	assert_true(relay_stats(&f->a).epoch > 0);
}

/* A connection to PostgreSQL goes on looking, and is not woken, while rows are found. */
WHERRY_CASE(every_engine_says_that_it_found_rows, relay_fixture *f)
{
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	assert_int_equal(f->a.relay->store->rows_read, 2);
}

/* The commit brings no row: the relay need not wait to see whether one follows. */
WHERRY_CASE(a_commit_without_rows_shows_an_operators_command_at_once, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t began_us;

	if (f->target->polls || !f->outbox)
		return;
	relay_hourly(f);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	began_us = f->frozen_us = relay_now(f) + WH_SECOND;
	f->tick_us = 10;
	relay_quiet(f, &f->a);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).paused);
	assert_true(relay_now(f) - began_us < 90000);
}

/* The relay knows which rows waited for the key, and reads these alone. */
WHERRY_CASE(a_key_that_goes_on_causes_no_sweep, relay_fixture *f)
{
	static tally t; /* outlives the connection */

	relay_hourly(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_wrap(f, &(wh_trace){.before = count, .ctx = &t});
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    relay_state(f, 1) == WHERRY_FAILED &&
			    relay_state(f, 3) == WHERRY_DONE);
	relay_quiet(f, &f->a);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE id = 1");
	relay_quiet(f, &f->a);
	t = (tally){0};
	f->a.relay->keys.first_due = f->a.relay->keys.held->due_us =
		0; /* an hour later */
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_quiet(f, &f->a);
	assert_int_equal(t.sweeps, 0);
}

WHERRY_CASE(a_row_with_a_lower_id_is_found_by_an_idle_relay, relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "50ms");
	lead(f);
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (100, 't', '{}')");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (50, 't', '{}')");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 100, 50);
}

WHERRY_CASE(a_row_with_a_lower_id_is_found_by_the_sweep_while_a_key_is_held,
	    relay_fixture *f)
{
	relay_hourly(f);
	relay_set(f, "relay.sweep", "100ms");
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_sql(f, "INSERT INTO outbox(id, topic, partition_key, payload) "
		     "VALUES (100, 't', 'a', '{}'), (101, 't', 'b', '{}')");
	relay_answers(f, 100, WHERRY_RETRY, 1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 1);
	relay_quiet(f, &f->a);
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (50, 't', '{}')");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 101, 50);
}

/* As on PostgreSQL, ids appear late. */
static void let_ids_appear_late(relay_fixture *f)
{
	static wh_db_driver late; /* outlives the connection */

	relay_connect(f, &f->a);
	late = *f->a.db->driver;
	late.late_commits = true;
	f->a.db->driver = &late;
}

static void put_as(relay_fixture *f, int64_t id)
{
	char sql[160];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(id, topic, partition_key, payload) "
		       "VALUES (%lld, 't', 'a', '{}')",
		       (long long)id);
	relay_sql(f, sql);
}

/* The first sweep passes over ids as well.  Holes last for a second here: should the
 * machine stall, another round is played, with another relay. */
WHERRY_CASE(rows_of_a_key_that_appear_late_leave_in_order, relay_fixture *f)
{
	int64_t began_us;

	relay_hourly(f);
	do {
		began_us = wh_monotonic(&wh_env_system);
		relay_fresh(f);
		let_ids_appear_late(f);
		put_as(f, 10);
		put_as(f, 20);
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
		put_as(f, 5);
		put_as(f, 15);
		put_as(f, 30);
		if (wh_monotonic(&wh_env_system) > began_us + WH_SECOND / 2)
			continue;
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
		RELAY_DELIVERED(f, 10, 20, 5, 15, 30);
	} while (wh_monotonic(&wh_env_system) > began_us + WH_SECOND);
}

/* Should the machine stall, another round is played. */
WHERRY_CASE(gaps_are_filled_without_a_sweep, relay_fixture *f)
{
	int64_t by_us = relay_deadline();
	bool found = false;

	relay_hourly(f);
	let_ids_appear_late(f);
	relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	for (int64_t id = 10; !found; id += 10) {
		int64_t now_us = wh_monotonic(&wh_env_system),
			until_us = now_us + WH_SECOND;
		char sql[160];

		assert_true(now_us < by_us);
		relay_quiet(f, &f->a);
		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO outbox(id, topic, payload) "
			       "VALUES (%lld, 't', '{}')",
			       (long long)id);
		relay_sql(f, sql);
		RELAY_UNTIL(f, &f->a, relay_told(f, id, WHERRY_DELIVERED) == 1);
		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO outbox(id, topic, payload) "
			       "VALUES (%lld, 't', '{}')",
			       (long long)id - 5);
		relay_sql(f, sql);
		while (!found && wh_monotonic(&wh_env_system) < until_us) {
			relay_turn(f, &f->a, by_us, "the gap", __LINE__, __FILE__);
			found = relay_told(f, id - 5, WHERRY_DELIVERED) == 1;
		}
	}
}

WHERRY_CASE(a_retry_by_hand_is_noticed, relay_fixture *f)
{
	relay_hourly(f);
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "a");
	lead(f);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	relay_quiet(f, &f->a);
	relay_retry(f, 0);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	if (f->target->is & RELAY_LEASE)
		RELAY_UNTIL(f, &f->a, relay_logged(f, "event=operator-change"));
}

/* The commit that woke it was another's. */
WHERRY_CASE(a_retry_by_hand_is_noticed_beside_new_messages, relay_fixture *f)
{
	relay_hourly(f);
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "ab");
	lead(f);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	relay_quiet(f, &f->a);
	relay_retry(f, 0);
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
}

WHERRY_CASE(a_pause_stops_submitting_until_the_resume, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_hourly(f);
	relay_put(f, "a");
	lead(f);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).paused);
	relay_put(f, "ab");
	relay_quiet(f, &f->a);
	assert_int_equal(relay_delivered(f), 1);
	assert_true(relay_logged(f, "event=paused"));
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
	assert_true(relay_logged(f, "event=resumed"));
}

WHERRY_CASE(a_pause_lets_finish_what_is_in_flight, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	wherry_error err = WHERRY_ERROR_INIT;

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).paused);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	assert_false(relay_fake_holds(fake, 2));
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
}

WHERRY_CASE(a_relay_that_starts_paused_delivers_nothing, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_hourly(f);
	relay_put(f, "ab");
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	lead(f);
	assert_true(relay_stats(&f->a).paused);
	assert_int_equal(relay_delivered(f), 0);
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
}

/* Messages keep coming; the relay is never idle. */
WHERRY_CASE(a_pause_is_noticed_under_load, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t by_us = relay_deadline();

	relay_set(f, "relay.idle_interval", "100ms");
	lead(f);
	relay_put(f, "abc");
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	while (!relay_stats(&f->a).paused) {
		relay_put(f, "a");
		relay_turn(f, &f->a, by_us, "a pause", __LINE__, __FILE__);
	}
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_PENDING) == 0);
	relay_check_order(f);
}

WHERRY_CASE(two_outboxes_in_one_database_have_a_relay_each, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_create(f->other, "second", NULL, &err));
	relay_put(f, "ab");
	relay_sql(f, "INSERT INTO second(id, topic, payload) VALUES (11, 's', '{}'), "
		     "(12, 's', '{}')");
	relay_start(f, &f->a);
	relay_set(f, "relay.table", "second");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 2);
	assert_int_equal(relay_told(f, 11, WHERRY_DELIVERED), 0);
	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).delivered == 2);
	RELAY_DELIVERED(f, 1, 2, 11, 12);
	relay_sql(f, "INSERT INTO second(id, topic, payload) VALUES (13, 's', '{}')");
	relay_quiet(f, &f->a);
	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).delivered == 3);
	relay_stop(f, &f->a);
	relay_quiet(f, &f->b);
	assert_true(relay_stats(&f->b).epoch > 0);
}

const relay_test relay_wake_tests[] = {
	RELAY_TEST(a_plain_insert_wakes_a_sleeping_relay, RELAY_OTHERS | RELAY_WOKEN),
	RELAY_TEST(an_idle_relay_sleeps, RELAY_OTHERS | RELAY_WOKEN),
	RELAY_TEST(an_idle_relay_runs_one_statement_in_ten_seconds, RELAY_WOKEN),
	RELAY_TEST(every_engine_says_that_it_found_rows, 0),
	RELAY_TEST(a_commit_without_rows_shows_an_operators_command_at_once, 0),
	RELAY_TEST(a_key_that_goes_on_causes_no_sweep, 0),
	RELAY_TEST(a_row_with_a_lower_id_is_found_by_an_idle_relay, 0),
	RELAY_TEST(a_row_with_a_lower_id_is_found_by_the_sweep_while_a_key_is_held, 0),
	RELAY_TEST(gaps_are_filled_without_a_sweep, RELAY_IN_ORDER),
	RELAY_TEST(rows_of_a_key_that_appear_late_leave_in_order, RELAY_IN_ORDER),
	RELAY_TEST(a_retry_by_hand_is_noticed, 0),
	RELAY_TEST(a_retry_by_hand_is_noticed_beside_new_messages, 0),
	RELAY_TEST(a_pause_stops_submitting_until_the_resume, 0),
	RELAY_TEST(a_pause_lets_finish_what_is_in_flight, 0),
	RELAY_TEST(a_relay_that_starts_paused_delivers_nothing, 0),
	RELAY_TEST(a_pause_is_noticed_under_load, 0),
	RELAY_TEST(two_outboxes_in_one_database_have_a_relay_each, RELAY_OTHERS),
	RELAY_TESTS_END,
};
