/*
 * The relay that streams from the WAL: what is delivered is known by a position alone.
 */
#include "relay_postgres_debezium.h"
#include "relay/engine/streaming.h"

/* Rows are as they were. */
static void untouched(relay_fixture *f, int64_t n)
{
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox"), n);
}

WHERRY_CASE(what_is_in_the_table_leaves_first_and_then_the_log, relay_fixture *f)
{
	debezium_hourly(f);
	relay_put(f, "aba");
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 5);
	relay_stop(f, &f->a);
	relay_put(f, "ab");
	relay_stream(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 7);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 1, 2, 3, 4, 5, 6, 7);
	untouched(f, 7);
}

WHERRY_CASE(what_is_deleted_at_once_is_delivered, relay_fixture *f)
{
	debezium_hourly(f);
	relay_stream(f, &f->a);
	relay_sql(f, "BEGIN; INSERT INTO outbox(aggregateid) VALUES ('a'), ('b'); "
		     "DELETE FROM outbox; COMMIT");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	RELAY_DELIVERED(f, 1, 2);
	untouched(f, 0);
}

WHERRY_CASE(from_now_leaves_the_table_alone, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "stream.from", "now");
	relay_put(f, "ab");
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	relay_stop(f, &f->a);
	relay_put(f, "a"); /* now is when it first began */
	relay_stream(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	RELAY_DELIVERED(f, 3, 4, 5);
}

/* From version 17 on. */
WHERRY_CASE(a_standby_may_copy_the_slot_that_a_relay_made, relay_fixture *f)
{
	relay_stream(f, &f->a);
	assert_int_equal(
		relay_number(f, "SELECT count(*) FROM pg_replication_slots AS s "
				"WHERE NOT temporary AND slot_name LIKE 'wherry%' AND "
				"to_jsonb(s) ->> 'failover' = 'false'"),
		0);
}

/* ---- failing ---- */

WHERRY_CASE(defect_8_what_failed_is_tried_again_before_those_of_its_key, relay_fixture *f)
{
	static const unsigned caps[] = {0, WH_PUB_ORDERED};

	for (int i = 0; i < 2; i++) {
		relay_fresh(f);
		debezium_hourly(f);
		relay_use_fake(f, &f->a, caps[i]);
		relay_answers(f, 1, WHERRY_RETRY, 3);
		relay_answers(f, 3, WHERRY_RETRY, 1);
		relay_answers(f, 7, WHERRY_RETRY, 2);
		relay_stream(f, &f->a);
		relay_put(f, "abacab-a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 8);
		relay_check_once(f, 8);
		relay_check_order(f);
		assert_int_equal(relay_stats(&f->a).retried, 6);
		assert_int_equal(relay_stats(&f->a).held_keys, 0);
		untouched(f, 8);
	}
}

/* They stay in memory, beside a window that is smaller. */
WHERRY_CASE(messages_that_are_denied_keep_no_others, relay_fixture *f)
{
	enum { BAD = 70 };
	relay_fake *fake;

	debezium_hourly(f);
	relay_set(f, "relay.window", "50");
	fake = relay_use_fake(f, &f->a, 0);
	fake->denies = true;
	for (int64_t id = 1; id <= BAD; id++)
		relay_answers(f, id, WHERRY_RETRY, -1);
	relay_stream(f, &f->a);
	for (int i = 0; i < 27; i++)
		relay_put(f, "----------");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 200);
	for (size_t n = 200; relay_stats(&f->a).dead < BAD; n++) {
		relay_put(f, "-");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) > n);
		assert_true(n < 300);
	}
}

/* So do large ones, beside a window whose bytes they would fill. */
WHERRY_CASE(large_messages_that_are_denied_keep_no_others, relay_fixture *f)
{
	enum { BAD = 6 };
	relay_fake *fake;

	debezium_hourly(f);
	relay_set(f, "relay.window_bytes", "64KB");
	fake = relay_use_fake(f, &f->a, 0);
	fake->denies = true;
	for (int64_t id = 1; id <= BAD; id++)
		relay_answers(f, id, WHERRY_RETRY, -1);
	relay_stream(f, &f->a);
	relay_sql(f,
		  "INSERT INTO outbox(aggregateid, payload) SELECT i, repeat('x', 70000) "
		  "FROM generate_series(1, 6) AS i");
	relay_put(f, "----------");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 10);
}

WHERRY_CASE(what_dies_is_kept_and_its_key_goes_on, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "retry.attempts", "2");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_stream(f, &f->a);
	relay_put(f, "aaa");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	RELAY_DELIVERED(f, 3);
	assert_int_equal(relay_stats(&f->a).dead, 2);
	assert_int_equal(
		relay_number(
			f,
			"SELECT count(*) FROM wherry_dead AS d JOIN "
			"outbox AS o ON o.id = d.message_id WHERE d.outbox = "
			"'outbox' AND d.last_error = 'the test said so' AND "
			"d.aggregate_id = 'a' AND convert_from(d.payload, 'UTF8') = o.payload"),
		2);
	relay_stop(f, &f->a);
	relay_stream(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	RELAY_DELIVERED(f, 3, 4);
}

WHERRY_CASE(what_dies_is_dead_once_its_letter_is_taken, relay_fixture *f)
{
	wherry_temp temp;
	char url[600];

	(void)wherry_temp_make(&temp, "letters");
	(void)snprintf(
		url, sizeof(url),
		"exec:if [ -e %s.came ]; then cat >>%s; else touch %s.came; exit 1; fi",
		temp.path, temp.path, temp.path);
	debezium_hourly(f);
	relay_set(f, "retry.attempts", "1");
	relay_set(f, "retry.base", "10ms");
	relay_set(f, "relay.dead_letters", url);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_stream(f, &f->a);
	relay_put(f, "aab");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).dead == 1 && relay_delivered(f) == 2);
	assert_int_equal(access(temp.path, F_OK), 0);
	assert_int_equal(relay_stats(&f->a).retried, 1); /* its letter was not taken */
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_dead"), 1);
	wherry_temp_clear(&temp);
}

/* The log waits on the server, and what it holds is not lost. */
WHERRY_CASE(a_window_full_of_what_failed_stops_the_stream, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "relay.window", "5");
	relay_set(f, "relay.batch", "5");
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_set(f, "relay.down_after", "1000");
	for (int64_t id = 1; id <= 5; id++)
		relay_answers(f, id, WHERRY_RETRY, 1);
	relay_stream(f, &f->a);
	relay_put(f, "abcdefgh");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).held_keys == 5);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_delivered(f), 0);
	assert_int_equal(relay_stats(&f->a).window, 5);
	f->offset_us += 3590 * WH_SECOND; /* its lease goes on */
	relay_quiet(f, &f->a);
	f->offset_us += 20 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 8);
	relay_check_once(f, 8);
}

/* ---- who is refused ---- */

static void what_makes_no_sense_with_it_is_refused(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "relay.on_dead", "park", &err));
	assert_int_equal(
		wherry_relay_open(postgres_here.url, "null:", config, &relay, &err),
		WHERRY_INVALID);
	assert_non_null(strstr(err.message, "relay.on_dead=park"));
	wherry_config_free(config);
}

/* Such a destination takes several messages of a key at once, unless one of them failed. */
WHERRY_CASE(what_comes_behind_a_held_key_waits_for_an_ordered_destination,
	    relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	(void)relay_use_fake(f, &f->a, WH_PUB_ORDERED);
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_stream(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).held_keys == 1);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 3);
	f->offset_us += 3601 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	RELAY_DELIVERED(f, 3, 1, 2);
}

static const relay_test own[] = {
	RELAY_TEST(what_is_in_the_table_leaves_first_and_then_the_log, 0),
	RELAY_TEST(what_is_deleted_at_once_is_delivered, 0),
	RELAY_TEST(from_now_leaves_the_table_alone, 0),
	RELAY_TEST(a_standby_may_copy_the_slot_that_a_relay_made, 0),
	RELAY_TEST(defect_8_what_failed_is_tried_again_before_those_of_its_key, 0),
	RELAY_TEST(messages_that_are_denied_keep_no_others, 0),
	RELAY_TEST(large_messages_that_are_denied_keep_no_others, 0),
	RELAY_TEST(what_dies_is_kept_and_its_key_goes_on, 0),
	RELAY_TEST(what_dies_is_dead_once_its_letter_is_taken, 0),
	RELAY_TEST(a_window_full_of_what_failed_stops_the_stream, 0),
	RELAY_TEST(what_makes_no_sense_with_it_is_refused, 0),
	RELAY_TEST(what_comes_behind_a_held_key_waits_for_an_ordered_destination, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	return debezium_run(own);
}
