/*
 * The stream engine where it meets what else happens: sweeps, large transactions, other
 * tables, rows that the log tells of before anybody can see them.
 */
#include "relay_suite.h"

#include <unistd.h>

#include "postgres/server.h"
#include "postgres/unseen.h"
#include "relay/relay.h"
#include "relay/engine/streaming.h"

static void drop(void)
{
	postgres_forget_unseen();
	assert_true(postgres_raw(postgres_here.url,
				 "DROP PUBLICATION IF EXISTS everything", NULL, 0));
	postgres_leave_slots();
}

static wh_streaming *following(relay_fixture *f)
{
	return wh_streaming_of(f->a.relay);
}

/* Rows come by the log, and by nothing else. */
static void stream(relay_fixture *f)
{
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    wh_streaming_on(f->a.relay) &&
			    (following(f)->unmarked ||
			     (!wh_reader_of(f->a.relay)->sweeping &&
			      !wh_reader_of(f->a.relay)->more && following(f)->placed)));
}

/* All open rows are read, as when a stream begins. */
static void sweep_all(relay_fixture *f)
{
	wh_reader_sweep_all(f->a.relay, relay_now(f));
}

/* ---- sweeps ---- */

static int64_t end_of_log(relay_fixture *f)
{
	return relay_number(
		f, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint");
}

/* The sweep is past the lower id when that is committed, and then meets the higher one. */
static void a_sweep_of_several_reads_keeps_the_order_of_a_key(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	PGconn *late;

	relay_hourly(f);
	relay_set(f, "relay.batch", "2");
	fake->by_hand = true;
	stream(f);
	late = postgres_begin_put("READ COMMITTED", "a");
	relay_put(f, "bcdef");
	RELAY_UNTIL(f, &f->a, fake->n == 5);
	sweep_all(f);
	RELAY_UNTIL(f, &f->a, wh_reader_of(f->a.relay)->cursor >= 3);
	postgres_end(late, "COMMIT");
	relay_put(f, "a");
	fake->by_hand = false;
	for (int64_t id = 2; id <= 6; id++)
		(void)relay_fake_answer(fake, id, WHERRY_DELIVERED);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 7);
	relay_check_order(f);
	relay_check_once(f, 7);
}

/* It is visible all at once, but comes by the log as there is room. */
static void what_a_sweep_met_of_a_large_transaction_is_not_taken_from_the_log(
	void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "relay.batch", "10");
	relay_set(f, "relay.window", "20");
	stream(f);
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload) SELECT 't', 'a', "
		     "'{}' FROM generate_series(1, 300)");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) >= 50);
	assert_true(following(f)->inside);
	sweep_all(f);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 300);
	RELAY_UNTIL(f, &f->a, !following(f)->inside);
	relay_quiet(f, &f->a);
	relay_check_once(f, 300);
	relay_check_order(f);
}

/* The first was committed before a sweep ended and is looked up, the second was not. */
static void what_is_looked_up_comes_before_what_the_log_tells_of_behind_it(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	stream(f);
	relay_put(f, "ab");
	following(f)->known = end_of_log(f);
	relay_put(f, "ba");
	while (relay_number(f,
			    "SELECT count(*) FROM pg_stat_replication WHERE sent_lsn >= "
			    "pg_current_wal_insert_lsn()") != 1)
		;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 2, 3, 4);
}

/* ---- other tables ---- */

static void publish_everything(relay_fixture *f)
{
	relay_set(f, "stream.publication", "everything");
	relay_sql(f, "CREATE PUBLICATION everything FOR ALL TABLES");
	relay_sql(f, "CREATE TABLE other(n bigint)");
}

/* One message is stuck, and a publication tells of transactions that are not ours. */
static void transactions_of_other_tables_take_no_memory(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int64_t end;

	relay_hourly(f);
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
static void a_step_ends_though_much_of_others_is_to_be_read(void **state)
{
	enum { ROWS = 100000, AT_ONCE = 10000 };
	relay_fixture *f = *state;
	static wh_stream_driver counts;
	int64_t end, asked = 0;

	relay_hourly(f);
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
	(void)s;
	(void)err;
	*out = (wh_stream_event){.kind = ++n_asked < 1000000 ? WH_STREAM_POSITION
							     : WH_STREAM_NOTHING};
	return WHERRY_OK;
}

static void a_step_ends_though_the_log_does_not(void **state)
{
	relay_fixture *f = *state;
	const wh_stream_driver *real;
	static wh_stream_driver talks;

	relay_hourly(f);
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
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
}

static void many_other_tables_do_not_displace_the_outbox(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
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

static void a_table_that_is_altered_in_mid_stream_is_read_on(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	stream(f);
	relay_put(f, "a");
	relay_sql(f, "ALTER TABLE outbox ADD COLUMN mine text DEFAULT 'x'");
	relay_sql(f,
		  "BEGIN; INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', "
		  "'a', '{}'); ALTER TABLE outbox ADD COLUMN other int, DROP COLUMN "
		  "mine; INSERT INTO outbox(topic, partition_key, payload, other) "
		  "VALUES ('t', 'a', '{}', 1); COMMIT");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 1, 2, 3);
}

/* ---- servers ---- */

/* As after a failover to a standby that had not received all. */
static void a_server_whose_log_ends_before_what_was_received_is_read_from_where_it_is(
	void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	stream(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	following(f)->received = following(f)->delivered = end_of_log(f) + (1 << 30);
	relay_sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication");
	RELAY_UNTIL(f, &f->a, !wh_streaming_on(f->a.relay));
	RELAY_UNTIL(f, &f->a,
		    wh_streaming_on(f->a.relay) && !wh_reader_of(f->a.relay)->sweeping);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
}

/* The log is read on behind what was received, which is not all delivered yet. */
static void what_was_received_before_the_stream_broke_is_not_confirmed_unless_delivered(
	void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	relay_set(f, "relay.on_done", "keep");
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
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload) SELECT 't', 'a', "
		     "convert_to(repeat('x', 5000), 'UTF8') FROM generate_series(1, "
		     "1500)");
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
static void a_transaction_that_does_not_come_again_holds_nothing_back(void **state)
{
	static const char *const done[] = {"mark", "keep"};
	relay_fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		relay_fresh(f);
		relay_hourly(f);
		relay_set(f, "relay.on_done", done[i]);
		cut_a_large_one(f);
		relay_sql(f, "SELECT pg_replication_slot_advance(slot_name, "
			     "pg_current_wal_lsn()) FROM pg_replication_slots");
		relay_put(f, "b");
		if (i == 1)
			refuses_to_go_on(f);
		RELAY_UNTIL(f, &f->a, relay_told(f, 1501, WHERRY_DELIVERED) == 1);
		if (i == 0)
			RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1501);
		confirmed_moves_on(f);
	}
}

/* Nor one that another comes before, as on a server whose log went another way. */
static void a_transaction_that_comes_again_as_another_is_delivered(void **state)
{
	static const char *const done[] = {"mark", "keep"};
	relay_fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		size_t before;

		relay_fresh(f);
		relay_hourly(f);
		relay_set(f, "relay.on_done", done[i]);
		cut_a_large_one(f);
		before = relay_delivered(f);
		wh_tx_find(following(f), wh_tx_last(following(f)))->xid--;
		relay_put(f, "b");
		RELAY_UNTIL(f, &f->a, relay_told(f, 1501, WHERRY_DELIVERED) == 1);
		for (int64_t id = 1; id <= 1500; id++)
			RELAY_UNTIL(f, &f->a, relay_told(f, id, WHERRY_DELIVERED) > 0);
		if (i == 0)
			relay_check_once(f, 1501);
		else
			assert_in_range(relay_delivered(f), 1501, 1501 + before + 20);
		confirmed_moves_on(f);
	}
}

/* ---- the log is written before anybody can see the row ---- */

/* A connection whose commits will be in the log, and visible to nobody. */
static PGconn *connect_unseen(relay_fixture *f)
{
	relay_sql(f, "SET synchronous_commit = local");
	relay_sql(
		f,
		"ALTER TABLE outbox DISABLE TRIGGER USER"); /* who notifies waits in turn */
	return postgres_unseen();
}

static void put_unseen(PGconn *conn)
{
	postgres_put_unseen(conn, "INSERT INTO outbox(topic, partition_key, payload) "
				  "VALUES ('t', 'a', '{}')");
}

static void a_row_nobody_sees_yet_is_delivered_once_and_marked_when_it_is_seen(
	void **state)
{
	relay_fixture *f = *state;
	PGconn *unseen = connect_unseen(f);

	relay_hourly(f);
	stream(f);
	postgres_hold_commits();
	put_unseen(unseen);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	for (int i = 0; i < 50; i++)
		relay_turn(f, &f->a, relay_deadline(), "a while", __LINE__, __FILE__);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox"), 0);
	postgres_let_be_seen(unseen);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
	assert_false(relay_logged(f, "lost"));
}

static void a_row_nobody_sees_yet_keeps_its_place_when_it_fails(void **state)
{
	relay_fixture *f = *state;
	PGconn *unseen = connect_unseen(f);

	relay_hourly(f);
	relay_answers(f, 1, WHERRY_RETRY, 1);
	stream(f);
	postgres_hold_commits();
	put_unseen(unseen);
	RELAY_UNTIL(f, &f->a, relay_told(f, 1, WHERRY_RETRY) == 1);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_told(f, 3, WHERRY_DELIVERED) == 1);
	postgres_let_be_seen(unseen);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 3, 1, 2);
	assert_int_equal(relay_attempts(f, 1), 1);
}

/* The key waits for a message that failed; once that is through, what is read behind it may
 * not be visible yet. */
static void a_row_nobody_sees_yet_is_not_forgotten_behind_a_held_key(void **state)
{
	relay_fixture *f = *state;
	PGconn *unseen = connect_unseen(f);

	relay_hourly(f);
	relay_set(f, "retry.base", "100ms");
	relay_set(f, "retry.cap", "100ms");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	stream(f);
	postgres_hold_commits();
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	put_unseen(unseen);
	RELAY_UNTIL(f, &f->a, relay_told(f, 1, WHERRY_DELIVERED) == 1);
	relay_put(f, "ab");
	for (int i = 0; i < 100; i++)
		relay_turn(f, &f->a, relay_deadline(), "a while", __LINE__, __FILE__);
	postgres_let_be_seen(unseen);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_order(f);
	relay_check_once(f, 4);
}

/* The log then has other columns, and the server refuses what was prepared before. */
static void a_stream_outlives_a_changed_column_type(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_stream(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	relay_sql(f, "ALTER TABLE outbox ALTER COLUMN topic TYPE varchar(500), "
		     "ALTER COLUMN payload DROP DEFAULT, "
		     "ALTER COLUMN payload TYPE jsonb USING '{}'");
	for (int64_t n = 3; n <= 4; n++) {
		relay_sql(f, "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == n);
	}
	relay_check_once(f, 4);
}

/* ---- while an acknowledgement is written ---- */

typedef struct visit {
	relay_fixture *f;
	int pipe[2];
	bool over;
	size_t delivered; /* by the end of it */
} visit;

/* Meanwhile another row comes, two seconds after the lease was verified. */
static wherry_code take_other(void *ctx, const char *op, const char *what,
			      wherry_error *err)
{
	visit *v = ctx;
	wherry_db *db = v->f->a.db;
	int64_t by_us = relay_deadline();

	(void)op;
	(void)err;
	if (strncmp(what, "ack-mark", 8) != 0 || v->over || !db->meanwhile)
		return WHERRY_OK;
	v->over = true;
	relay_put(v->f, "b");
	v->f->offset_us += 2 * WH_SECOND;
	while (!wh_window_find(&v->f->a.relay->window, 2) &&
	       wh_monotonic(&wh_env_system) < by_us)
		db->meanwhile(db->meanwhile_ctx, v->pipe[0], WH_NEVER);
	db->meanwhile(db->meanwhile_ctx, v->pipe[0], WH_NEVER);
	v->delivered = relay_delivered(v->f);
	return WHERRY_OK;
}

static void what_comes_during_an_acknowledgement_waits_for_the_fence(void **state)
{
	relay_fixture *f = *state;
	static visit v; /* outlives the connection */

	v = (visit){.f = f};
	assert_int_equal(pipe(v.pipe), 0);
	assert_int_equal(write(v.pipe[1], "", 1), 1);
	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.before = take_other, .ctx = &v});
	stream(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_true(v.over);
	assert_int_equal(v.delivered, 1);
	RELAY_DELIVERED(f, 1, 2);
	(void)close(v.pipe[0]);
	(void)close(v.pipe[1]);
}

static const relay_test own[] = {
	RELAY_TEST(a_stream_outlives_a_changed_column_type, 0),
	RELAY_TEST(a_sweep_of_several_reads_keeps_the_order_of_a_key, 0),
	RELAY_TEST(what_a_sweep_met_of_a_large_transaction_is_not_taken_from_the_log, 0),
	RELAY_TEST(what_is_looked_up_comes_before_what_the_log_tells_of_behind_it, 0),
	RELAY_TEST(transactions_of_other_tables_take_no_memory, 0),
	RELAY_TEST(a_step_ends_though_much_of_others_is_to_be_read, 0),
	RELAY_TEST(a_step_ends_though_the_log_does_not, 0),
	RELAY_TEST(many_other_tables_do_not_displace_the_outbox, 0),
	RELAY_TEST(a_table_that_is_altered_in_mid_stream_is_read_on, 0),
	RELAY_TEST(
		a_server_whose_log_ends_before_what_was_received_is_read_from_where_it_is,
		0),
	RELAY_TEST(
		what_was_received_before_the_stream_broke_is_not_confirmed_unless_delivered,
		0),
	RELAY_TEST(a_transaction_that_does_not_come_again_holds_nothing_back, 0),
	RELAY_TEST(a_transaction_that_comes_again_as_another_is_delivered, 0),
	RELAY_TEST(a_row_nobody_sees_yet_is_delivered_once_and_marked_when_it_is_seen, 0),
	RELAY_TEST(a_row_nobody_sees_yet_keeps_its_place_when_it_fails, 0),
	RELAY_TEST(a_row_nobody_sees_yet_is_not_forgotten_behind_a_held_key, 0),
	RELAY_TEST(what_comes_during_an_acknowledgement_waits_for_the_fence, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "stream",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = postgres_enter,
			.drop = drop,
			.engine = "stream",
			.own = own,
			.own_only = true,
		},
	};

	if (!postgres_start_logical())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
