/*
 * Positions of relays that stream: what is written and told, when, and what comes
 * again after a kill, a lost connection or a lost replication slot.
 */
#include <unistd.h>

#include "relay_postgres_debezium.h"
#include "relay_slow_stream.h"

/* A transaction of which not all is delivered comes again as a whole; what is before it does
 * not, once that is written. */
WHERRY_CASE(after_a_kill_only_what_was_open_comes_again, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	debezium_hourly(f);
	relay_stream(f, &f->a);
	for (int i = 0; i < 20; i++)
		relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 40);
	f->offset_us += 2 * WH_SECOND;
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 42);
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM wherry_stream AS s, "
				    "pg_replication_slots AS r WHERE position > 0 AND "
				    "confirmed_flush_lsn - '0/0' >= position") == 1);
	fake->by_hand = true;
	relay_put(f, "cd");
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	assert_true(relay_fake_answer(fake, 43, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 43);
	relay_kill(f, &f->a);
	fake->by_hand = false;
	relay_stream(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_told(f, 44, WHERRY_DELIVERED) == 1);
	for (int64_t id = 1; id <= 40; id++)
		assert_int_equal(relay_told(f, id, WHERRY_DELIVERED), 1);
	assert_int_equal(relay_told(f, 43, WHERRY_DELIVERED), 2);
}

/* Step, with a clock that stands, until all of it is delivered and settled. */
static void deliver(relay_fixture *f, const char *keys)
{
	size_t n = relay_delivered(f) + strlen(keys);
	int64_t end;

	relay_put(f, keys);
	end = relay_number(
		f, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == n);
	f->frozen_us += 5000; /* its acknowledgements are due */
	RELAY_UNTIL(f, &f->a, wh_streaming_of(f->a.relay)->delivered >= end);
}

static int64_t written(relay_fixture *f)
{
	return relay_number(f, "SELECT position FROM wherry_stream");
}

/* Without another step: is the server told by then? */
static void server_knows(relay_fixture *f, int64_t position)
{
	int64_t by_us = relay_deadline();

	while (relay_number(f, "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM "
			       "pg_replication_slots") < position)
		assert_true(wh_monotonic(&wh_env_system) < by_us);
}

/* After a kill of the relay alone what was delivered in the last 10 ms may come again; after
 * one of the server, too, in the last 100 ms. */
WHERRY_CASE(a_position_is_told_in_10_ms_and_written_in_100, relay_fixture *f)
{
	int64_t position;

	debezium_hourly(f);
	relay_stream(f, &f->a);
	f->frozen_us = relay_now(f) + WH_SECOND; /* by real time, a write may take long */
	for (int i = 0; i < 3; i++) {
		deliver(f, "ab");
		f->frozen_us += 10000;
		relay_quiet(f, &f->a);
		server_knows(f, wh_streaming_of(f->a.relay)->delivered);
		f->frozen_us += 90000;
		relay_quiet(f, &f->a);
		position = written(f);
		assert_true(position > 0);
		assert_int_equal(position, wh_streaming_of(f->a.relay)->written);
		assert_false(wh_streaming_of(f->a.relay)->moved);
	}
	relay_kill(f, &f->a);
	relay_stream(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) >= 7);
	relay_check_once(f, 7);
}

/* Nothing comes any more that would have it step: so it must want to be. */
WHERRY_CASE(the_last_position_is_told_and_written_before_the_relay_sleeps,
	    relay_fixture *f)
{
	const wh_streaming *follow;

	debezium_hourly(f);
	relay_stream(f, &f->a);
	follow = wh_streaming_of(f->a.relay);
	for (size_t n = 1; n <= 5; n++) {
		int64_t end;

		relay_put(f, "a");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == n);
		RELAY_ASLEEP_UNTIL(f, &f->a, !relay_stats(&f->a).window);
		end = follow->received;
		while (written(f) < end || follow->moved) {
			assert_true(f->a.wake_us - relay_now(f) < WH_SECOND);
			relay_turn_asleep(f, &f->a, relay_deadline(), "a write", __LINE__,
					  __FILE__);
		}
		server_knows(f, end);
	}
}

/* It does not wait for the disk, so a crash may take the last one back. */
WHERRY_CASE(a_position_that_the_server_lost_is_written_again, relay_fixture *f)
{
	int64_t position;

	debezium_hourly(f);
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	RELAY_UNTIL(f, &f->a,
		    !relay_stats(&f->a).window && !wh_streaming_of(f->a.relay)->moved);
	position = written(f);
	relay_sql(f, "UPDATE wherry_stream SET position = 1");
	relay_sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication");
	RELAY_UNTIL(f, &f->a, written(f) >= position);
	RELAY_DELIVERED(f, 1, 2);
}

static int64_t slow_us, ended_us; /* a write takes so long; when the last one ended */
static int n_writes;

static wherry_code take_long(void *ctx, const char *op, const char *what,
			     wherry_error *err)
{
	relay_fixture *f = ctx;

	if (strcmp(op, "run") == 0 && strcmp(what, "move-position") == 0) {
		n_writes++;
		f->frozen_us += slow_us;
		ended_us = f->frozen_us;
	}
	return WHERRY_OK;
}

/* Twenty times as long as a write took it is not written again, but in a second it is. */
WHERRY_CASE(where_a_write_takes_long_the_position_is_written_less_often, relay_fixture *f)
{
	static const int64_t took[] = {1000, 20000, 200000};
	static const int64_t rests[] = {100000, 400000, 1000000};

	debezium_hourly(f);
	slow_us = 0;
	relay_wrap(f, &(wh_trace){.before = take_long, .ctx = f});
	relay_stream(f, &f->a);
	f->frozen_us = relay_now(f);
	for (int i = 0; i < 3; i++) {
		f->frozen_us += 2 * WH_SECOND;
		slow_us = took[i];
		deliver(f, "a");
		relay_quiet(f, &f->a);
		n_writes = 0;
		deliver(f, "a");
		f->frozen_us = ended_us + rests[i] - 1;
		relay_quiet(f, &f->a);
		assert_int_equal(n_writes, 0);
		f->frozen_us++;
		relay_quiet(f, &f->a);
		assert_int_equal(n_writes, 1);
	}
}

/* Also in the middle of a large transaction: what came of it is not delivered again. */
WHERRY_CASE(a_connection_that_is_cut_costs_no_message_and_repeats_none, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "relay.window", "20");
	relay_set(f, "relay.batch", "10");
	relay_stream(f, &f->a);
	relay_sql(f, "INSERT INTO outbox(aggregateid, payload) SELECT 'k' || i % 3, "
		     "repeat('x', 5000) FROM generate_series(1, 1500) AS i");
	for (size_t n = 100; n <= 1500; n += 350) {
		RELAY_UNTIL(f, &f->a, relay_delivered(f) >= n);
		relay_sql(f, "SELECT pg_terminate_backend(active_pid) FROM "
			     "pg_replication_slots WHERE active");
	}
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) >= 1501);
	relay_check_once(f, 1501);
	relay_check_order(f);
}

WHERRY_CASE(a_slot_that_is_lost_is_told_and_nothing_is_guessed, relay_fixture *f)
{
	static const char *const froms[] = {"table", "now"};

	for (int i = 0; i < 2; i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		wherry_code code = WHERRY_OK;

		relay_fresh(f);
		debezium_hourly(f);
		relay_set(f, "stream.from", "position");
		relay_stream(f, &f->a);
		relay_put(f, "ab");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
		relay_stop(f, &f->a);
		while (relay_number(f, "SELECT count(*) FROM pg_replication_slots "
				       "WHERE active") > 0)
			;
		relay_sql(f, "SELECT pg_drop_replication_slot(slot_name) FROM "
			     "pg_replication_slots");
		relay_put(f, "c");
		relay_start(f, &f->a);
		while (code == WHERRY_OK)
			code = wherry_relay_step(f->a.relay, &f->a.wake_us,
						 &f->a.finished, &err);
		assert_int_equal(code, WHERRY_INVALID);
		assert_non_null(strstr(err.message, "--from table"));
		assert_int_equal(relay_delivered(f), 2);
		relay_kill(f, &f->a);
		relay_set(f, "stream.from", froms[i]);
		relay_stream(f, &f->a);
		relay_put(f, "d");
		RELAY_UNTIL(f, &f->a, relay_told(f, 4, WHERRY_DELIVERED) == 1);
		assert_int_equal(relay_delivered(f), i ? 3 : 6);
	}
}

/* A relay says each time that messages may be missing, until it is told to read the table.  It has
 * delivered n, and another was committed before the slot was made again. */
static void go_on_from_table(relay_fixture *f, size_t n)
{
	for (int i = 0; i < 2; i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		wherry_code code = WHERRY_OK;
		int64_t by_us = relay_deadline();

		relay_start(f, &f->a);
		while (code == WHERRY_OK && wh_monotonic(&wh_env_system) < by_us &&
		       !(f->a.relay && wh_streaming_on(f->a.relay)))
			code = wherry_relay_step(f->a.relay, &f->a.wake_us,
						 &f->a.finished, &err);
		assert_int_equal(code, WHERRY_INVALID);
		assert_non_null(strstr(err.message, "--from table"));
		assert_int_equal(relay_delivered(f), n);
		relay_kill(f, &f->a);
	}
	relay_set(f, "stream.from", "table");
	relay_stream(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_told(f, (int64_t)n + 1, WHERRY_DELIVERED) == 1);
	relay_put(f, "d");
	RELAY_UNTIL(f, &f->a, relay_told(f, (int64_t)n + 2, WHERRY_DELIVERED) == 1);
}

/* A script makes the slot again while the relay looks for it: the new one has not what was
 * committed before. */
WHERRY_CASE(a_slot_that_others_made_again_is_not_taken_for_the_old_one, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	debezium_hourly(f);
	relay_set(f, "stream.from", "position");
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	relay_sql(f, "CREATE TABLE slot AS SELECT slot_name FROM pg_replication_slots");
	relay_sql(f, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
		     "WHERE active");
	while (relay_number(f, "SELECT count(*) FROM pg_replication_slots WHERE active") >
	       0)
		;
	relay_sql(f, "SELECT pg_drop_replication_slot(slot_name) FROM slot");
	relay_put(f, "c");
	relay_sql(f, "SELECT pg_create_logical_replication_slot(slot_name, 'pgoutput') "
		     "FROM slot");
	while (code == WHERRY_OK)
		code = wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, &err);
	assert_int_equal(code, WHERRY_INVALID);
	assert_non_null(strstr(err.message, "--from table"));
	assert_int_equal(relay_delivered(f), 2);
	relay_kill(f, &f->a);
	go_on_from_table(f, 2);
}

/* Of a relay that was told where to begin, too. */
WHERRY_CASE(where_to_begin_counts_for_the_first_connection_alone, relay_fixture *f)
{
	static const char *const froms[] = {"now", "table"};

	for (int i = 0; i < 2; i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		wherry_code code = WHERRY_OK;

		relay_fresh(f);
		debezium_hourly(f);
		relay_set(f, "stream.from", froms[i]);
		relay_stream(f, &f->a);
		relay_put(f, "ab");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
		RELAY_UNTIL(f, &f->a,
			    relay_number(f, "SELECT count(*) FROM wherry_stream") == 1);
		relay_sql(f, "SELECT pg_terminate_backend(active_pid, 10000) FROM "
			     "pg_replication_slots WHERE active");
		relay_sql(f, "SELECT pg_drop_replication_slot(slot_name) FROM "
			     "pg_replication_slots");
		relay_put(f, "c");
		while (code == WHERRY_OK)
			code = wherry_relay_step(f->a.relay, &f->a.wake_us,
						 &f->a.finished, &err);
		assert_int_equal(code, WHERRY_INVALID);
		assert_non_null(strstr(err.message, "--from table"));
		assert_int_equal(relay_delivered(f), 2);
		relay_kill(f, &f->a);
	}
}

/* The same while no relay runs. */
WHERRY_CASE(a_slot_made_again_while_no_relay_ran_is_noticed, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "stream.from", "position");
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	relay_stop(f, &f->a);
	relay_sql(f, "CREATE TABLE slot AS SELECT slot_name FROM pg_replication_slots");
	while (relay_number(f, "SELECT count(*) FROM pg_replication_slots WHERE active") >
	       0)
		;
	relay_sql(f, "SELECT pg_drop_replication_slot(slot_name) FROM slot");
	relay_put(f, "c");
	relay_sql(f, "SELECT pg_create_logical_replication_slot(slot_name, 'pgoutput') "
		     "FROM slot");
	go_on_from_table(f, 2);
}

/* The slot is the one that the relay left: others wrote to the log meanwhile. */
WHERRY_CASE(a_slot_that_is_the_old_one_is_read_on, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "stream.from", "position");
	for (size_t n = 1; n <= 6; n++) {
		relay_stream(f, &f->a);
		if (n != 3) { /* Nothing is delivered, but the log moves. */
			relay_put(f, "a");
			RELAY_UNTIL(f, &f->a, relay_delivered(f) >= n - (n > 3));
		}
		relay_sql(f, "SELECT pg_logical_emit_message(false, 'x', 'x')");
		relay_quiet(f, &f->a);
		if (n % 2)
			relay_stop(f, &f->a);
		else
			relay_kill(f, &f->a);
		relay_sql(f, "SELECT pg_logical_emit_message(false, 'x', 'x')");
	}
	relay_check_order(f);
}

WHERRY_CASE(until_empty_ends_at_the_end_of_the_log, relay_fixture *f)
{
	debezium_hourly(f);
	relay_answers(f, 2, WHERRY_RETRY, 2);
	relay_put(f, "ab");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	relay_check_once(f, 2);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	relay_answers(f, 3, WHERRY_REJECTED, 1);
	relay_put(f, "ab");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_DEATHS);
	RELAY_DELIVERED(f, 1, 2, 4);
}

/* With synchronous_commit = off a commit is in the log before the log is written to disk, and
 * the server sends what is on disk. */
WHERRY_CASE(until_empty_waits_for_commits_that_are_not_flushed_yet, relay_fixture *f)
{
	debezium_hourly(f);
	relay_sql(f, "ALTER SYSTEM SET wal_writer_delay = '1s'");
	relay_sql(f, "SELECT pg_reload_conf()");
	relay_sql(f, "SET synchronous_commit = off");
	for (int64_t n = 1; n <= 6; n++) {
		relay_put(f, "a");
		assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
		relay_check_once(f, n);
		wherry_relay_close(f->a.relay);
		f->a.relay = NULL;
	}
	relay_sql(f, "ALTER SYSTEM RESET wal_writer_delay");
	relay_sql(f, "SELECT pg_reload_conf()");
}

/* Behind the last message the WAL has a commit that brings no rows. */
WHERRY_CASE(until_empty_asks_a_silent_server_for_its_position, relay_fixture *f)
{
	debezium_hourly(f);
	relay_stream(f, &f->a);
	relay_slow_down(&f->a);
	relay_slow.only_if_asked = true;
	relay_put(f, "a");
	relay_sql(f, "CREATE TABLE other(n integer)");
	wherry_relay_target(f->a.relay, WHERRY_UNTIL_EMPTY);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(wherry_relay_outcome(f->a.relay), WHERRY_EMPTY);
	RELAY_DELIVERED(f, 1);
}

/* No row can say how often it was tried: wherry_stream does. */
WHERRY_CASE(a_message_that_kills_its_relay_ends_dead, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int kills = 0;

	debezium_hourly(f);
	relay_set(f, "retry.attempts", "3");
	relay_stream(f, &f->a);
	relay_put(f, "abc");
	fake->by_hand = true;
	while (relay_number(f, "SELECT count(*) FROM wherry_dead") == 0) {
		assert_true(kills < 30);
		for (int turn = 0; turn < 200 && !relay_fake_holds(fake, 2); turn++) {
			(void)relay_fake_answer(fake, 1, WHERRY_DELIVERED);
			(void)relay_fake_answer(fake, 3, WHERRY_DELIVERED);
			relay_turn(f, &f->a, relay_deadline(), "2", __LINE__, __FILE__);
			if (relay_stats(&f->a).dead)
				break;
		}
		if (relay_stats(&f->a).dead)
			break;
		relay_kill(f, &f->a);
		kills++;
		relay_start(f, &f->a);
	}
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_told(f, 3, WHERRY_DELIVERED) > 0);
	assert_in_range(kills, 3, 6);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_dead WHERE "
					 "message_id = '2'"),
			 1);
}

/* The table is read from its beginning each time: as long as relays end before the first position
 * is written, more and more of it are suspects, also when the lease is renewed in between. */
WHERRY_CASE(a_message_deep_in_the_table_that_kills_its_relay_ends_dead, relay_fixture *f)
{
	enum { DEEP = 6 };
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int kills = 0;

	debezium_hourly(f);
	relay_set(f, "retry.attempts", "2");
	relay_set(f, "relay.window", "1");
	relay_set(f, "relay.batch", "1");
	relay_put(f, "abcdef");
	fake->by_hand = true;
	relay_start(f, &f->a);
	while (!relay_stats(&f->a).dead) {
		for (int64_t id = 1; id < DEEP; id++) {
			RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, id));
			assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
		}
		RELAY_UNTIL(f, &f->a,
			    relay_fake_holds(fake, DEEP) || relay_stats(&f->a).dead);
		if (relay_stats(&f->a).dead)
			break;
		assert_true(kills < 10);
		f->a.relay->renew_at_us = 0;
		RELAY_UNTIL(f, &f->a, f->a.relay->renew_at_us > 0);
		relay_kill(f, &f->a);
		kills++;
		relay_start(f, &f->a);
	}
	RELAY_UNTIL(f, &f->a, wh_streaming_on(f->a.relay));
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_dead WHERE "
					 "message_id = '6'"),
			 1);
	assert_true(f->a.relay->lease.suspects > 0);
	fake->by_hand = false;
	relay_put(f, "ab"); /* what is new is no suspect */
	RELAY_UNTIL(f, &f->a, relay_told(f, 8, WHERRY_DELIVERED) > 0);
	assert_int_equal(f->a.relay->lease.suspects, 0);
}

/* The try of a suspect is written before any position is: that does not mean that the table was
 * delivered. */
WHERRY_CASE(a_table_is_read_again_until_all_of_it_is_delivered, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	debezium_hourly(f);
	relay_put(f, "abc");
	fake->by_hand = true;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	relay_kill(f, &f->a);
	relay_sql(f, "UPDATE wherry_lease SET unclean = 1"); /* and one before that */
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM wherry_stream "
				    "WHERE suspect IS NOT NULL") == 1 &&
			    relay_fake_holds(fake, 1));
	relay_kill(f, &f->a);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	relay_check_once(f, 3);
}

WHERRY_CASE(a_connection_cut_before_the_first_position_repeats_nothing, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	debezium_hourly(f);
	relay_put(f, "abc");
	fake->by_hand = true;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	RELAY_UNTIL(f, &f->a, wh_streaming_on(f->a.relay));
	relay_sql(f, "SELECT pg_terminate_backend(active_pid) FROM "
		     "pg_replication_slots WHERE active");
	RELAY_UNTIL(f, &f->a, !wh_streaming_on(f->a.relay));
	RELAY_UNTIL(f, &f->a, wh_streaming_on(f->a.relay));
	relay_put(f, "d");
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	fake->by_hand = false;
	for (int64_t id = 1; id <= 4; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	relay_put(f, "abc"); /* behind all of their keys */
	RELAY_UNTIL(f, &f->a, relay_delivered(f) >= 7);
	relay_check_once(f, 7);
}

static const relay_test own[] = {
	RELAY_TEST(after_a_kill_only_what_was_open_comes_again, 0),
	RELAY_TEST(a_position_is_told_in_10_ms_and_written_in_100, 0),
	RELAY_TEST(the_last_position_is_told_and_written_before_the_relay_sleeps, 0),
	RELAY_TEST(a_position_that_the_server_lost_is_written_again, 0),
	RELAY_TEST(where_a_write_takes_long_the_position_is_written_less_often, 0),
	RELAY_TEST(a_connection_that_is_cut_costs_no_message_and_repeats_none, 0),
	RELAY_TEST(a_slot_that_is_lost_is_told_and_nothing_is_guessed, 0),
	RELAY_TEST(a_slot_that_others_made_again_is_not_taken_for_the_old_one, 0),
	RELAY_TEST(where_to_begin_counts_for_the_first_connection_alone, 0),
	RELAY_TEST(a_slot_made_again_while_no_relay_ran_is_noticed, 0),
	RELAY_TEST(a_slot_that_is_the_old_one_is_read_on, 0),
	RELAY_TEST(until_empty_ends_at_the_end_of_the_log, 0),
	RELAY_TEST(until_empty_waits_for_commits_that_are_not_flushed_yet, 0),
	RELAY_TEST(until_empty_asks_a_silent_server_for_its_position, 0),
	RELAY_TEST(a_message_that_kills_its_relay_ends_dead, 0),
	RELAY_TEST(a_message_deep_in_the_table_that_kills_its_relay_ends_dead, 0),
	RELAY_TEST(a_table_is_read_again_until_all_of_it_is_delivered, 0),
	RELAY_TEST(a_connection_cut_before_the_first_position_repeats_nothing, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	return debezium_run(own);
}
