/*
 * The stream engine and a publication that does not send all of the outbox: a list of columns,
 * a row filter, a table that is not in it.
 */
#include "relay_slow_stream.h"

#include "postgres/server.h"

#define NARROW                                                                           \
	"outbox (id, message_id, topic, aggregate_type, aggregate_id, partition_key, "   \
	"headers, trace_id, status, attempts, generation, created_at)"

static void drop(void)
{
	assert_true(postgres_raw(postgres_here.url, "DROP PUBLICATION IF EXISTS mine",
				 NULL, 0));
	postgres_leave_slots();
}

static void publish(relay_fixture *f, const char *what)
{
	char sql[400];

	relay_set(f, "stream.publication", "mine");
	(void)snprintf(sql, sizeof(sql), "CREATE PUBLICATION mine FOR TABLE %s", what);
	relay_sql(f, sql);
}

static void stream(relay_fixture *f)
{
	relay_stream(f, &f->a);
	relay_quiet(f, &f->a);
}

/* Renewals come so often that a test can wait for them. */
static void renew_often(relay_fixture *f)
{
	relay_hourly(f);
	relay_set(f, "relay.idle_interval", "50ms");
}

static bool is_delivered_whole(const relay_fixture *f, int64_t id)
{
	for (size_t i = 0; i < f->n_events; i++)
		if (f->events[i].id == id && f->events[i].body_len == 2)
			return true;
	return false;
}

/* ---- at the start ---- */

static void refused(relay_fixture *f, const char *what, const char *names)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_relay *relay = NULL;

	for (int keep = 0; keep < 2; keep++) {
		relay_fresh(f);
		relay_set(f, "relay.on_done", keep ? "keep" : "mark");
		publish(f, what);
		assert_int_equal(
			wherry_relay_open(f->url, "null:", f->config, &relay, &err),
			WHERRY_INVALID);
		assert_non_null(strstr(err.message, "'mine'"));
		assert_non_null(strstr(err.message, names));
		assert_non_null(strstr(err.message, "ALTER PUBLICATION"));
	}
}

static void a_publication_without_a_column_is_refused(void **state)
{
	refused(*state, NARROW, "(payload)");
}

static void a_publication_with_a_row_filter_is_refused(void **state)
{
	refused(*state, "outbox WHERE (topic <> 'x')", "topic");
}

static void a_publication_of_updates_alone_is_refused(void **state)
{
	refused(*state, "outbox WITH (publish = 'update')", "publish = 'insert'");
}

/* ---- under a relay ---- */

/* The rows that came without their body are in the table. */
static void a_column_that_is_not_sent_any_more_is_read_from_the_table(void **state)
{
	relay_fixture *f = *state;

	renew_often(f);
	publish(f, "outbox");
	stream(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_sql(f, "ALTER PUBLICATION mine SET TABLE " NARROW);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_true(relay_logged(f, "payload"));
	relay_sql(f, "ALTER PUBLICATION mine SET TABLE outbox");
	f->log_len = 0;
	*f->log = 0;
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=streaming"));
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	for (int64_t id = 1; id <= 4; id++)
		assert_true(is_delivered_whole(f, id));
}

/* One row of the list is sent, the others are not. */
static void rows_that_are_filtered_out_are_read_from_the_table(void **state)
{
	relay_fixture *f = *state;

	renew_often(f);
	publish(f, "outbox");
	stream(f);
	relay_sql(f, "ALTER PUBLICATION mine SET TABLE outbox WHERE (id % 3 = 0)");
	relay_put(f, "aaabb");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	assert_true(relay_logged(f, "leaves out rows"));
	relay_check_once(f, 5);
}

static void a_table_that_leaves_the_publication_is_read(void **state)
{
	relay_fixture *f = *state;

	renew_often(f);
	publish(f, "outbox");
	stream(f);
	relay_sql(f, "CREATE TABLE other(n integer)");
	relay_sql(f, "ALTER PUBLICATION mine SET TABLE other");
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_logged(f, "does not have the outbox"));
	relay_put(f, "a"); /* and from now on at once */
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_sql(f, "ALTER PUBLICATION mine SET TABLE outbox");
	f->log_len = 0;
	*f->log = 0;
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=streaming"));
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 2, 3, 4);
}

/* The publication is as it should be when anybody looks. */
static void rows_of_a_while_without_the_publication_are_read(void **state)
{
	relay_fixture *f = *state;

	renew_often(f);
	publish(f, "outbox");
	stream(f);
	relay_sql(f, "BEGIN; ALTER PUBLICATION mine DROP TABLE outbox; COMMIT");
	relay_put(f, "ab");
	relay_sql(f, "ALTER PUBLICATION mine ADD TABLE outbox");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_logged(f, "event=stream-missed id=1"));
	assert_true(wh_streaming_on(f->a.relay));
	RELAY_DELIVERED(f, 1, 2);
}

static void renew_many_times(relay_fixture *f)
{
	for (int i = 0; i < 100; i++) {
		f->offset_us += 20000;
		relay_turn(f, &f->a, relay_deadline(), "renewals", __LINE__, __FILE__);
	}
}

/* A row that waits in memory, or behind one that failed, is not missing. */
static void rows_that_wait_are_not_taken_for_missing_ones(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	renew_often(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	fake->by_hand = true;
	stream(f);
	relay_put(f, "aab");
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	renew_many_times(f);
	assert_false(relay_logged(f, "event=stream-missed"));
	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	renew_many_times(f);
	assert_false(relay_logged(f, "event=stream-missed"));
	assert_int_equal(relay_delivered(f), 0);
}

/* They are in the table, and the relay sees them there before the WAL brings them. */
static void rows_that_the_log_brings_late_are_not_taken_for_missing_ones(void **state)
{
	relay_fixture *f = *state;

	renew_often(f);
	stream(f);
	relay_slow_down(&f->a);
	relay_slow.silent = true;
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_slow.asked >= 3);
	assert_false(relay_logged(f, "event=stream-missed"));
	assert_int_equal(relay_delivered(f), 0);
	relay_slow.silent = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_false(relay_logged(f, "event=stream-missed"));
	RELAY_DELIVERED(f, 1, 2);
}

/* ---- where nothing is marked ---- */

static wherry_code run_until_it_fails(relay_fixture *f, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	int64_t by_us = relay_deadline();

	while (code == WHERRY_OK && wh_monotonic(&wh_env_system) < by_us) {
		f->offset_us += WH_SECOND;
		code = wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, err);
	}
	return code;
}

static void where_nothing_is_marked_the_relay_ends(void **state)
{
	static const char *const ways[][2] = {
		{"ALTER PUBLICATION mine SET TABLE " NARROW, "payload"},
		{"ALTER PUBLICATION mine SET TABLE outbox WHERE (id > 5)", "id > 5"},
		{"ALTER PUBLICATION mine DROP TABLE outbox", "does not have the outbox"},
	};
	relay_fixture *f = *state;

	for (int i = 0; i < 3; i++) {
		wherry_error err = WHERRY_ERROR_INIT;

		relay_fresh(f);
		relay_hourly(f);
		relay_set(f, "relay.on_done", "keep");
		publish(f, "outbox");
		stream(f);
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
		relay_sql(f, ways[i][0]);
		relay_put(f, "ab");
		assert_int_equal(run_until_it_fails(f, &err), WHERRY_INVALID);
		assert_non_null(strstr(err.message, ways[i][1]));
		RELAY_DELIVERED(f, 1);
	}
}

static const relay_test own[] = {
	RELAY_TEST(a_publication_without_a_column_is_refused, 0),
	RELAY_TEST(a_publication_with_a_row_filter_is_refused, 0),
	RELAY_TEST(a_publication_of_updates_alone_is_refused, 0),
	RELAY_TEST(a_column_that_is_not_sent_any_more_is_read_from_the_table, 0),
	RELAY_TEST(rows_that_are_filtered_out_are_read_from_the_table, 0),
	RELAY_TEST(a_table_that_leaves_the_publication_is_read, 0),
	RELAY_TEST(rows_of_a_while_without_the_publication_are_read, 0),
	RELAY_TEST(rows_that_wait_are_not_taken_for_missing_ones, 0),
	RELAY_TEST(rows_that_the_log_brings_late_are_not_taken_for_missing_ones, 0),
	RELAY_TEST(where_nothing_is_marked_the_relay_ends, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target targets[] = {
		{.name = "publication",
		 .make = postgres_enter,
		 .drop = drop,
		 .is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		 .engine = "stream",
		 .own = own,
		 .own_only = true},
	};

	return postgres_start_logical() ? relay_suite(targets, 1) : 0;
}
