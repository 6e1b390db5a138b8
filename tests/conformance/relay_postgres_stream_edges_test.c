/*
 * The stream engine where it meets what else happens: large transactions, other tables,
 * tables that are altered, servers whose log is another one.
 */
#include "relay_postgres_debezium.h"

#include "relay/engine/streaming.h"

static void drop(void)
{
	assert_true(postgres_raw(postgres_here.url,
				 "DROP PUBLICATION IF EXISTS everything", NULL, 0));
	postgres_leave_slots();
}

static wh_streaming *following(relay_fixture *f)
{
	return wh_streaming_of(f->a.relay);
}

static void stream(relay_fixture *f)
{
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, wh_streaming_on(f->a.relay));
}

static int64_t end_of_log(relay_fixture *f)
{
	return relay_number(
		f, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint");
}

/* ---- other tables ---- */

static void publish_everything(relay_fixture *f)
{
	relay_set(f, "stream.publication", "everything");
	relay_sql(f, "CREATE PUBLICATION everything FOR ALL TABLES");
	relay_sql(f, "CREATE TABLE other(n bigint)");
}

/* One message is stuck, and a publication tells of transactions that are not ours. */
WHERRY_CASE(transactions_of_other_tables_take_no_memory, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int64_t end;

	debezium_hourly(f);
	publish_everything(f);
	fake->by_hand = true;
	stream(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	relay_sql(f, "DO $$ BEGIN FOR i IN 1..2000 LOOP INSERT INTO other VALUES (i); "
		     "COMMIT; END LOOP; END $$");
	end = end_of_log(f);
	RELAY_UNTIL(f, &f->a, following(f)->received >= end);
	assert_true(following(f)->n < 10);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, following(f)->delivered >= end);
}

static const wh_stream_driver *the_log;
static int n_asked, most_asked; /* in a step */

static wherry_code count_next(wh_stream *s, wh_stream_event *out, wherry_error *err)
{
	n_asked++;
	return the_log->next(s, out, err);
}

static wherry_code count_confirm(wh_stream *s, int64_t now_us, int64_t delivered,
				 bool ask, wherry_error *err)
{
	if (n_asked > most_asked)
		most_asked = n_asked;
	n_asked = 0;
	return the_log->confirm(s, now_us, delivered, ask, err);
}

/* What is not read in a step is read in the next: between them the lease is renewed, and the
 * server told where the relay is. */
WHERRY_CASE(a_step_ends_though_much_of_others_is_to_be_read, relay_fixture *f)
{
	enum { ROWS = 100000, AT_ONCE = 10000 };
	static wh_stream_driver counts;
	int64_t end, asked = 0;

	debezium_hourly(f);
	publish_everything(f);
	stream(f);
	the_log = following(f)->stream->driver;
	counts = *the_log;
	counts.next = count_next;
	counts.confirm = count_confirm;
	following(f)->stream->driver = &counts;
	n_asked = most_asked = 0;
	relay_sql(f, "INSERT INTO other SELECT generate_series(1, 100000)");
	end = end_of_log(f);
	while (following(f)->received < end) {
		relay_turn(f, &f->a, relay_deadline(), "its end", __LINE__, __FILE__);
		asked += most_asked;
		assert_in_range(most_asked, 0, AT_ONCE);
		most_asked = 0;
	}
	assert_true(asked >= ROWS);
	following(f)->stream->driver = the_log;
}

/* Again and again. */
static wherry_code say_nothing_new(wh_stream *s, wh_stream_event *out, wherry_error *err)
{
	*out = (wh_stream_event){.kind = ++n_asked < 1000000 ? WH_STREAM_POSITION
							     : WH_STREAM_NOTHING};
	return WHERRY_OK;
}

WHERRY_CASE(a_step_ends_though_the_log_does_not, relay_fixture *f)
{
	const wh_stream_driver *real;
	static wh_stream_driver talks;

	debezium_hourly(f);
	stream(f);
	real = following(f)->stream->driver;
	talks = *real;
	talks.next = say_nothing_new;
	following(f)->stream->driver = &talks;
	n_asked = 0;
	relay_turn(f, &f->a, relay_deadline(), "a step", __LINE__, __FILE__);
	following(f)->stream->driver = real;
	assert_in_range(n_asked, 1, 10000);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
}

WHERRY_CASE(many_other_tables_do_not_displace_the_outbox, relay_fixture *f)
{
	debezium_hourly(f);
	publish_everything(f);
	stream(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_sql(f, "DO $$ BEGIN FOR i IN 1..150 LOOP EXECUTE format('CREATE TABLE "
		     "t%s(n int)', i); EXECUTE format('INSERT INTO t%s VALUES (1)', i); "
		     "END LOOP; END $$");
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	RELAY_DELIVERED(f, 1, 2);
}

WHERRY_CASE(a_table_that_is_altered_in_mid_stream_is_read_on, relay_fixture *f)
{
	debezium_hourly(f);
	stream(f);
	relay_put(f, "a");
	relay_sql(f, "ALTER TABLE outbox ADD COLUMN mine text DEFAULT 'x'");
	relay_sql(f, "BEGIN; " DEBEZIUM_PUT "; ALTER TABLE outbox ADD COLUMN other int, "
		     "DROP COLUMN mine; INSERT INTO outbox(aggregateid, other) VALUES "
		     "('a', 1); COMMIT");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	RELAY_DELIVERED(f, 1, 2, 3);
}

/* ---- servers ---- */

/* The log is read on behind what was received, which is not all delivered yet. */
static void what_was_received_before_the_stream_broke_is_not_confirmed_unless_delivered(
	void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	debezium_hourly(f);
	fake->by_hand = true;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, wh_streaming_on(f->a.relay));
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	RELAY_UNTIL(f, &f->a, !following(f)->inside);
	relay_sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication");
	RELAY_UNTIL(f, &f->a, !wh_streaming_on(f->a.relay));
	RELAY_UNTIL(f, &f->a, wh_streaming_on(f->a.relay));
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM pg_stat_replication WHERE "
				    "flush_lsn IS NOT NULL") == 1);
	relay_kill(f, &f->a);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	relay_check_once(f, 3);
}

/* ---- a transaction that is cut ---- */

/* A part of a large one is in memory when the connection is lost. */
static void cut_a_large_one(relay_fixture *f)
{
	relay_set(f, "relay.batch", "10");
	relay_set(f, "relay.window", "20");
	stream(f);
	relay_sql(f, "INSERT INTO outbox(aggregateid, payload) SELECT 'a', repeat('x', "
		     "5000) FROM generate_series(1, 1500)");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) >= 50);
	assert_true(following(f)->inside);
	while (relay_number(f, "SELECT count(pg_terminate_backend(active_pid)) FROM "
			       "pg_replication_slots") > 0)
		;
	while (wh_streaming_on(f->a.relay)) /* what is in the socket is of it, too */
		relay_turn(f, &f->a, relay_deadline(), "the cut", __LINE__, __FILE__);
	assert_true(following(f)->inside);
}

static void confirmed_moves_on(relay_fixture *f)
{
	int64_t end = end_of_log(f);

	RELAY_UNTIL(f, &f->a, following(f)->delivered >= end);
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM "
				    "pg_replication_slots") >= end);
}

/* Where rows do not show what is delivered, a person must say that it is left out. */
static void refuses_to_go_on(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK)
		code = wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, &err);
	assert_int_equal(code, WHERRY_INVALID);
	assert_non_null(strstr(err.message, "or was moved on"));
	relay_kill(f, &f->a);
	relay_set(f, "stream.from", "now");
	relay_start(f, &f->a);
}

/* An operator moved the slot on, or it was lost and made again. */
WHERRY_CASE(a_transaction_that_does_not_come_again_holds_nothing_back, relay_fixture *f)
{
	debezium_hourly(f);
	cut_a_large_one(f);
	relay_sql(f, "SELECT pg_replication_slot_advance(slot_name, "
		     "pg_current_wal_lsn()) FROM pg_replication_slots");
	relay_put(f, "b");
	refuses_to_go_on(f);
	RELAY_UNTIL(f, &f->a, relay_told(f, 1501, WHERRY_DELIVERED) == 1);
	confirmed_moves_on(f);
}

/* Nor one that another comes before, as on a server whose log went another way. */
WHERRY_CASE(a_transaction_that_comes_again_as_another_is_delivered, relay_fixture *f)
{
	size_t before;

	debezium_hourly(f);
	cut_a_large_one(f);
	before = relay_delivered(f);
	wh_tx_find(following(f), wh_tx_last(following(f)))->xid--;
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_told(f, 1501, WHERRY_DELIVERED) == 1);
	for (int64_t id = 1; id <= 1500; id++)
		RELAY_UNTIL(f, &f->a, relay_told(f, id, WHERRY_DELIVERED) > 0);
	assert_in_range(relay_delivered(f), 1501, 1501 + before + 20);
	confirmed_moves_on(f);
}

/* The log then has other columns. */
WHERRY_CASE(a_stream_outlives_a_changed_column_type, relay_fixture *f)
{
	debezium_hourly(f);
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	relay_quiet(f, &f->a);
	relay_sql(f, "ALTER TABLE outbox ALTER COLUMN aggregatetype TYPE varchar(500), "
		     "ALTER COLUMN payload DROP DEFAULT, "
		     "ALTER COLUMN payload TYPE jsonb USING '{}'");
	for (size_t n = 3; n <= 4; n++) {
		relay_sql(f,
			  "INSERT INTO outbox(aggregateid, payload) VALUES ('a', '{}')");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == n);
	}
	relay_check_once(f, 4);
}

WHERRY_CASE(a_large_transaction_passes_through_a_small_window, relay_fixture *f)
{
	int64_t most = 0;

	debezium_hourly(f);
	relay_set(f, "relay.window", "10");
	relay_set(f, "relay.batch", "5");
	stream(f);
	relay_sql(f, "INSERT INTO outbox(aggregateid) SELECT 'k' || i % 7 FROM "
		     "generate_series(1, 2000) AS i");
	relay_put(f, "z");
	RELAY_LOOP(relay_turn, f, &f->a,
		   (most = relay_stats(&f->a).window > most ? relay_stats(&f->a).window
							    : most,
		    relay_stats(&f->a).delivered == 2001));
	assert_in_range(most, 1, 10);
	relay_check_once(f, 2001);
	relay_check_order(f);
}

WHERRY_CASE(large_bodies_pass_and_take_no_more_room_than_they_may, relay_fixture *f)
{
	debezium_hourly(f);
	relay_set(f, "relay.window_bytes", "2MB");
	stream(f);
	relay_sql(f,
		  "INSERT INTO outbox(aggregateid, payload) SELECT i, "
		  "string_agg(md5((i * j)::text), '') FROM generate_series(1, 8) AS i, "
		  "generate_series(1, 32768) AS j GROUP BY i ORDER BY i");
	while (relay_stats(&f->a).delivered < 8) {
		relay_turn(f, &f->a, relay_deadline(), "eight", __LINE__, __FILE__);
		assert_true(f->a.relay->window.bytes < 4 * 1024 * 1024);
	}
	for (size_t i = 0; i < f->n_events; i++)
		assert_int_equal(f->events[i].body_len, 1024 * 1024);
	relay_check_once(f, 8);
}

WHERRY_CASE(a_table_that_is_emptied_is_followed_all_the_same, relay_fixture *f)
{
	debezium_hourly(f);
	stream(f);
	relay_sql(f, "CREATE TABLE others(a integer); INSERT INTO others VALUES (1)");
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_sql(f, "TRUNCATE outbox, others");
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	RELAY_DELIVERED(f, 1, 2);
}

/* Where others write and the outbox is quiet, the server need not keep its log. */
WHERRY_CASE(a_quiet_outbox_retains_no_log_of_others, relay_fixture *f)
{
	stream(f);
	relay_sql(f, "CREATE TABLE others(a text)");
	for (int i = 0; i < 3; i++) {
		relay_sql(f, "INSERT INTO others SELECT repeat('x', 100) FROM "
			     "generate_series(1, 20000)");
		RELAY_UNTIL(f, &f->a,
			    relay_number(f, "SELECT (pg_current_wal_flush_lsn() - "
					    "confirmed_flush_lsn)::bigint FROM "
					    "pg_replication_slots") < 1000000);
	}
}

static const relay_test own[] = {
	RELAY_TEST(a_stream_outlives_a_changed_column_type, 0),
	RELAY_TEST(transactions_of_other_tables_take_no_memory, 0),
	RELAY_TEST(a_step_ends_though_much_of_others_is_to_be_read, 0),
	RELAY_TEST(a_step_ends_though_the_log_does_not, 0),
	RELAY_TEST(many_other_tables_do_not_displace_the_outbox, 0),
	RELAY_TEST(a_table_that_is_altered_in_mid_stream_is_read_on, 0),
	RELAY_TEST(a_large_transaction_passes_through_a_small_window, 0),
	RELAY_TEST(large_bodies_pass_and_take_no_more_room_than_they_may, 0),
	RELAY_TEST(a_table_that_is_emptied_is_followed_all_the_same, 0),
	RELAY_TEST(a_quiet_outbox_retains_no_log_of_others, 0),
	RELAY_TEST(
		what_was_received_before_the_stream_broke_is_not_confirmed_unless_delivered,
		0),
	RELAY_TEST(a_transaction_that_does_not_come_again_holds_nothing_back, 0),
	RELAY_TEST(a_transaction_that_comes_again_as_another_is_delivered, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "stream", DEBEZIUM_TARGET, .drop = drop, .own = own};

	return postgres_start_logical() ? relay_suite(&target, 1) : 0;
}
