/*
 * The relay on PostgreSQL's log, and what only it has.  Rows are marked here; where they are
 * not, see relay_postgres_keep_test.c.
 */
#include "relay_suite.h"

#include "postgres/server.h"
#include "postgres/unseen.h"
#include "relay/relay.h"

static void start(relay_fixture *f, relay_side *side)
{
	relay_stream(f, side);
	relay_quiet(f, side);
}

#define PUT "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'a', '{}')"

/* ---- order ---- */

static void messages_leave_in_the_order_of_commits(void **state)
{
	relay_fixture *f = *state;
	PGconn *open[4];

	relay_hourly(f);
	start(f, &f->a);
	for (int i = 0; i < 4; i++)
		open[i] = postgres_begin(PUT);
	postgres_end(open[3], "COMMIT");
	postgres_end(open[1], "COMMIT");
	postgres_end(open[0], "COMMIT");
	postgres_end(open[2], "ROLLBACK");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 4, 2, 1, 5);
}

/* A retry does not fall back to the order of ids. */
static void what_is_tried_again_keeps_the_order_of_commits(void **state)
{
	static const unsigned caps[] = {0, WH_PUB_ORDERED};
	relay_fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		PGconn *late;

		relay_fresh(f);
		relay_hourly(f);
		relay_use_fake(f, &f->a, caps[i]);
		relay_answers(f, 2, WHERRY_RETRY, 2);
		relay_answers(f, 1, WHERRY_RETRY, 1);
		start(f, &f->a);
		late = postgres_begin(PUT);
		relay_put(f, "aaa");
		postgres_end(late, "COMMIT");
		relay_put(f, "a");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
		RELAY_DELIVERED(f, 2, 3, 4, 1, 5);
	}
}

/* The place that a retried message gets before others of its key is nobody else's. */
static void a_retried_message_takes_no_others_place(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "retry.base", "1m");
	relay_set(f, "retry.cap", "1m");
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_answers(f, 3, WHERRY_RETRY, 1);
	start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	relay_put(f, "ba");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 2);
	relay_put(f, "b");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_retry(f, 1u << WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 3);
	relay_quiet(f, &f->a);
	f->offset_us += 61 * WH_SECOND;
	relay_sql(f, "UPDATE outbox SET next_retry_at = now() WHERE status = 3");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
}

/* Each finds room before the others: a sweep reads them all behind the first. */
static void many_retried_messages_keep_their_order(void **state)
{
	enum { RETRIED = 60 };
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "retry.base", "1m");
	relay_set(f, "retry.cap", "1m");
	start(f, &f->a);
	for (int id = 1; id <= RETRIED; id++)
		relay_answers(f, id, WHERRY_REJECTED, 1);
	relay_answers(f, RETRIED + 1, WHERRY_RETRY, 1);
	for (int n = 0; n <= RETRIED; n++)
		relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 1);
	assert_int_equal(relay_retry(f, 1u << WHERRY_DEAD), RETRIED);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == RETRIED);
	f->offset_us += 61 * WH_SECOND;
	relay_sql(f, "UPDATE outbox SET next_retry_at = now() WHERE status = 3");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == RETRIED + 1);
	relay_check_once(f, RETRIED + 1);
	relay_check_order(f);
}

/* ---- what is not asked ---- */

typedef struct tally {
	int reads, others;
	int looks; /* for rows that the log told of */
} tally;

static wherry_code count(void *ctx, const char *op, const char *what, wherry_error *err)
{
	tally *t = ctx;

	(void)err;
	if (strcmp(op, "run") == 0 &&
	    (strcmp(what, "read") == 0 || strcmp(what, "sweep") == 0 ||
	     strcmp(what, "read-in-order") == 0))
		t->reads++;
	else
		t->others++;
	t->looks += strcmp(what, "read-in-order") == 0;
	return WHERRY_OK;
}

static void a_row_that_comes_by_the_log_is_not_read(void **state)
{
	relay_fixture *f = *state;
	static tally t;

	t = (tally){0};
	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.before = count, .ctx = &t});
	relay_put(f, "ab");
	start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	assert_true(t.reads > 0);
	t = (tally){0};
	for (int64_t n = 3; n <= 12; n++) {
		relay_put(f, "a");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == n);
	}
	assert_int_equal(t.reads, 0);
	relay_check_once(f, 12);
}

/* Of a backlog nothing is asked for twice: the log is read from behind it. */
static void what_the_table_had_does_not_come_by_the_log_too(void **state)
{
	relay_fixture *f = *state;
	static tally t;

	t = (tally){0};
	relay_hourly(f);
	start(f, &f->a);
	relay_stop(f, &f->a);
	for (int i = 0; i < 10; i++)
		relay_put(f, "abc");
	relay_wrap(f, &(wh_trace){.before = count, .ctx = &t});
	start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 30);
	relay_put(f, "d");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 31);
	assert_int_equal(t.looks, 0);
	relay_check_once(f, 31);
}

/* Who writes need not wake it. */
static void a_producer_wakes_no_relay_that_streams(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = PQconnectdb(postgres_here.url);
	PGnotify *told;

	relay_hourly(f);
	start(f, &f->a);
	assert_true(postgres_exec(conn, "LISTEN wherry", NULL, 0));
	for (int64_t n = 1; n <= 5; n++) {
		relay_put(f, "a");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == n);
	}
	assert_true(postgres_exec(conn, "SELECT 1", NULL, 0));
	told = PQnotifies(conn);
	assert_null(told);
	PQfinish(conn);
}

static void an_idle_stream_asks_the_database_nothing(void **state)
{
	relay_fixture *f = *state;
	static tally t;
	int64_t by_us;

	t = (tally){0};
	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.before = count, .ctx = &t});
	start(f, &f->a);
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 1);
	f->offset_us += 3600 * WH_SECOND / 2; /* half its lease */
	relay_quiet(f, &f->a);
	t = (tally){0};
	by_us = relay_now(f) + 10 * WH_SECOND;
	while (relay_now(f) < by_us) { /* only what the server wants to hear */
		f->offset_us += WH_SECOND;
		relay_quiet(f, &f->a);
	}
	assert_int_equal(t.reads + t.others, 0);
}

/* ---- defects of others ---- */

static void defect_6_what_failed_is_not_lost_when_the_next_succeeds(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	start(f, &f->a);
	relay_put(f, "a");
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_kill(f, &f->a);
	relay_sql(f, "UPDATE outbox SET next_retry_at = now() WHERE status = 3");
	start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 2, 1);
}

static void defect_7_what_was_committed_before_the_slot_is_delivered(void **state)
{
	relay_fixture *f = *state;

	relay_put(f, "abc");
	start(f, &f->a);
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	relay_check_once(f, 6);
	relay_check_order(f);
}

static void defect_7_what_was_committed_while_the_slot_was_lost_is_delivered(void **state)
{
	relay_fixture *f = *state;

	start(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_stop(f, &f->a);
	while (relay_number(f, "SELECT count(*) FROM pg_replication_slots "
			       "WHERE active") > 0)
		;
	relay_sql(f, "SELECT pg_drop_replication_slot(slot_name) FROM "
		     "pg_replication_slots");
	relay_put(f, "ab");
	start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	relay_check_once(f, 6);
}

/* The server gives a slot up that keeps more of its log than it may. */
static void a_slot_that_the_server_gave_up_is_made_anew(void **state)
{
	relay_fixture *f = *state;

	start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_stop(f, &f->a);
	relay_sql(f, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
	relay_sql(f, "SELECT pg_reload_conf()");
	while (relay_number(f, "SELECT count(*) FROM pg_replication_slots "
			       "WHERE wal_status = 'lost'") == 0) {
		relay_sql(f, "INSERT INTO wherry_outbox(name) VALUES ('x')");
		relay_sql(f, "DELETE FROM wherry_outbox WHERE name = 'x'");
		relay_sql(f, "SELECT pg_switch_wal()");
		relay_sql(f, "CHECKPOINT");
	}
	relay_put(f, "b");
	start(f, &f->a);
	assert_true(relay_logged(f, "event=slot-lost"));
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
	relay_sql(f, "ALTER SYSTEM RESET max_slot_wal_keep_size");
	relay_sql(f, "SELECT pg_reload_conf()");
}

/* ---- what the log tells before others see it ---- */

/* A connection whose commits will be in the log, and nobody sees their rows. */
static PGconn *hold(relay_fixture *f)
{
	relay_sql(f, "SET synchronous_commit = local");
	return postgres_unseen();
}

static void what_is_delivered_before_it_is_visible_is_acknowledged_when_it_is(
	void **state)
{
	relay_fixture *f = *state;
	PGconn *conn;

	relay_hourly(f);
	conn = hold(f);
	start(f, &f->a);
	postgres_hold_commits();
	postgres_put_unseen(conn, PUT);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox"), 0);
	relay_put(f, "b");
	postgres_let_be_seen(conn);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_stats(&f->a).stale, 0);
	RELAY_DELIVERED(f, 1, 2);
}

/* What the database does when an acknowledgement has found no row. */
typedef struct unlucky {
	const char *what; /* the statement that fails, once */
	PGconn *shown;    /* its row can be seen from the first look on; NULL: later */
	int failed;
} unlucky;

static wherry_code fail_once(void *ctx, const char *op, const char *what,
			     wherry_error *err)
{
	unlucky *u = ctx;

	if (u->shown && strcmp(what, "unseen") == 0) {
		postgres_let_be_seen(u->shown);
		u->shown = NULL;
	}
	if (u->shown || u->failed || strcmp(what, u->what) != 0)
		return WHERRY_OK;
	u->failed++;
	return wh_fail(err, WHERRY_BUSY, "the test fails %s %s", op, what);
}

/* A failure of the call that asks which rows can be seen says nothing about them. */
static void what_is_not_acknowledged_for_a_failure_is_acknowledged_later(void **state)
{
	static unlucky u;
	relay_fixture *f = *state;

	for (int shown = 0; shown < 2; shown++) {
		PGconn *conn;

		relay_fresh(f);
		relay_hourly(f);
		conn = hold(f);
		u = shown ? (unlucky){.what = "ack-mark-range", .shown = conn}
			  : (unlucky){.what = "unseen"};
		start(f, &f->a);
		relay_stop(f, &f->a);
		relay_wrap(f, &(wh_trace){.before = fail_once, .ctx = &u});
		start(f, &f->a);
		postgres_hold_commits();
		u.failed = 0;
		postgres_put_unseen(conn, PUT);
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1 && u.failed == 1);
		relay_put(f, "b");
		if (!shown)
			postgres_let_be_seen(conn);
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
		RELAY_DELIVERED(f, 1, 2);
	}
}

static void what_fails_before_it_is_visible_counts_its_attempts(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn;

	relay_hourly(f);
	relay_answers(f, 1, WHERRY_RETRY, 1);
	conn = hold(f);
	start(f, &f->a);
	postgres_hold_commits();
	postgres_put_unseen(conn, PUT);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_told(f, 1, WHERRY_RETRY) == 1);
	relay_quiet(f, &f->a);
	postgres_let_be_seen(conn);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	assert_int_equal(relay_attempts(f, 1), 1);
}

/* A sweep that ended meanwhile did not meet it, and the log has told of it before. */
static void what_a_sweep_could_not_see_is_delivered(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn;

	relay_hourly(f);
	conn = hold(f);
	start(f, &f->a);
	relay_stop(f, &f->a);
	postgres_hold_commits();
	postgres_put_unseen(conn, PUT);
	start(f, &f->a);
	assert_int_equal(relay_delivered(f), 0);
	postgres_let_be_seen(conn);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_DELIVERED(f, 1);
}

/* ---- large, odd, and of others ---- */

static void a_large_transaction_passes_through_a_small_window(void **state)
{
	relay_fixture *f = *state;
	int64_t most = 0;

	relay_hourly(f);
	relay_set(f, "relay.window", "10");
	relay_set(f, "relay.batch", "5");
	start(f, &f->a);
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload) "
		     "SELECT 't', 'k' || i % 7, '{}' FROM generate_series(1, 2000) AS i");
	relay_put(f, "z");
	RELAY_LOOP(relay_turn, f, &f->a,
		   (most = relay_stats(&f->a).window > most ? relay_stats(&f->a).window
							    : most,
		    relay_stats(&f->a).delivered == 2001));
	assert_in_range(most, 1, 10);
	relay_check_once(f, 2001);
	relay_check_order(f);
}

static void large_bodies_pass_and_take_no_more_room_than_they_may(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "relay.window_bytes", "2MB");
	start(f, &f->a);
	relay_sql(f, "INSERT INTO outbox(topic, payload) SELECT 't', "
		     "convert_to(string_agg(md5((i * j)::text), ''), 'UTF8') FROM "
		     "generate_series(1, 8) AS i, generate_series(1, 32768) AS j "
		     "GROUP BY i");
	while (relay_stats(&f->a).delivered < 8) {
		relay_turn(f, &f->a, relay_deadline(), "eight", __LINE__, __FILE__);
		assert_true(f->a.relay->window.bytes < 4 * 1024 * 1024);
	}
	for (size_t i = 0; i < f->n_events; i++)
		assert_int_equal(f->events[i].body_len, 1024 * 1024);
	relay_check_once(f, 8);
}

static void columns_that_come_and_go_do_not_matter(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_sql(f, "ALTER TABLE outbox ADD COLUMN tenant text");
	start(f, &f->a);
	relay_put(f, "a");
	relay_sql(f, "ALTER TABLE outbox ADD COLUMN region text DEFAULT 'eu'");
	relay_put(f, "a");
	relay_sql(f, "BEGIN; INSERT INTO outbox(topic, partition_key, payload) VALUES "
		     "('t', 'a', '{}'); ALTER TABLE outbox DROP COLUMN tenant; "
		     "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', "
		     "'a', '{}'); COMMIT");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	RELAY_DELIVERED(f, 1, 2, 3, 4, 5);
}

static void a_table_that_is_emptied_is_followed_all_the_same(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	start(f, &f->a);
	relay_sql(f, "CREATE TABLE others(a integer); INSERT INTO others VALUES (1)");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_sql(f, "TRUNCATE outbox, others");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_DELIVERED(f, 1, 2);
}

/* Where others write and the outbox is quiet, the server need not keep its log. */
static void a_quiet_outbox_retains_no_log_of_others(void **state)
{
	relay_fixture *f = *state;

	start(f, &f->a);
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

/* What the server keeps may fill its disk. */
static void over_the_limit_the_slot_is_given_up_and_the_table_read(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "stream.lag_warn", "1MB");
	relay_set(f, "stream.lag_limit", "2MB");
	start(f, &f->a);
	fake->by_hand = true;
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	relay_sql(f, "CREATE TABLE others AS SELECT repeat('x', 1000) FROM "
		     "generate_series(1, 5000)");
	f->offset_us += 20 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=slot-given-up"));
	assert_true(relay_logged(f, "event=slot-lag"));
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM pg_replication_slots") == 0);
	fake->by_hand = false;
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_quiet(f, &f->a); /* nothing is left to be dropped */
	RELAY_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 10000);
}

static void drop(void)
{
	postgres_forget_unseen();
	postgres_leave_slots();
}

static const relay_test own[] = {
	RELAY_TEST(messages_leave_in_the_order_of_commits, 0),
	RELAY_TEST(what_is_tried_again_keeps_the_order_of_commits, 0),
	RELAY_TEST(a_retried_message_takes_no_others_place, 0),
	RELAY_TEST(many_retried_messages_keep_their_order, 0),
	RELAY_TEST(a_row_that_comes_by_the_log_is_not_read, 0),
	RELAY_TEST(what_the_table_had_does_not_come_by_the_log_too, 0),
	RELAY_TEST(a_producer_wakes_no_relay_that_streams, 0),
	RELAY_TEST(an_idle_stream_asks_the_database_nothing, 0),
	RELAY_TEST(defect_6_what_failed_is_not_lost_when_the_next_succeeds, 0),
	RELAY_TEST(defect_7_what_was_committed_before_the_slot_is_delivered, 0),
	RELAY_TEST(defect_7_what_was_committed_while_the_slot_was_lost_is_delivered, 0),
	RELAY_TEST(a_slot_that_the_server_gave_up_is_made_anew, 0),
	RELAY_TEST(what_is_delivered_before_it_is_visible_is_acknowledged_when_it_is, 0),
	RELAY_TEST(what_is_not_acknowledged_for_a_failure_is_acknowledged_later, 0),
	RELAY_TEST(what_fails_before_it_is_visible_counts_its_attempts, 0),
	RELAY_TEST(what_a_sweep_could_not_see_is_delivered, 0),
	RELAY_TEST(a_large_transaction_passes_through_a_small_window, 0),
	RELAY_TEST(large_bodies_pass_and_take_no_more_room_than_they_may, 0),
	RELAY_TEST(columns_that_come_and_go_do_not_matter, 0),
	RELAY_TEST(a_table_that_is_emptied_is_followed_all_the_same, 0),
	RELAY_TEST(a_quiet_outbox_retains_no_log_of_others, 0),
	RELAY_TEST(over_the_limit_the_slot_is_given_up_and_the_table_read, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const char *const except[] = {
		"an_idle_relay_sleeps", /* it tells the server where it is */
		/* its acknowledgement may travel with the sweep that begins there */
		"what_waits_behind_a_delivered_message_leaves_at_once",
		/* as on the other engine, and long */
		"a_busy_database_is_waited_out_while_there_are_suspects",
		"more_than_is_remembered_of_a_held_key_leaves_in_order",
		"a_relay_of_another_engine_is_refused_and_told_which", NULL};
	static const relay_target targets[] = {
		{
			.name = "stream",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = postgres_enter,
			.again = postgres_enter_again,
			.note = postgres_note_here,
			.drop = drop,
			.schedules = 5,
			.leads = true,
			.engine = "stream",
			.own = own,
			.except = except,
		},
	};

	if (!postgres_start_logical())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
