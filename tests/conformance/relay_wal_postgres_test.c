/*
 * The relay of a log with relay.source=wal: new messages come by the WAL, and the table stays the truth.
 */
#include "relay_log.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "postgres/server.h"
#include "postgres/unseen.h"

static int64_t high(relay_fixture *f)
{
	return relay_number(
		f, "SELECT high FROM outbox_progress WHERE subscription = 'relay'");
}

static int64_t exceptions(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM outbox_exception");
}

static void forget_log(relay_fixture *f)
{
	f->log_len = 0;
	f->log[0] = 0;
}

static void wait_for_wal(relay_fixture *f)
{
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=streaming"));
	forget_log(f);
}

/* Start a relay, and wait until it reads the WAL. */
static void stream(relay_fixture *f)
{
	forget_log(f);
	relay_start(f, &f->a);
	wait_for_wal(f);
}

typedef struct reads {
	int n;
} reads;

static wherry_code count_read(void *ctx, const char *op, const char *what,
			      wherry_error *err)
{
	reads *c = ctx;

	(void)op;
	(void)err;
	c->n += strcmp(what, "read-log") == 0;
	return WHERRY_OK;
}

static void a_message_comes_by_the_wal_and_a_look_moves_the_position(void **state)
{
	relay_fixture *f = *state;
	static reads c; /* Outlives the connection. */
	int before;

	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.before = count_read, .ctx = &c});
	relay_put(f, "ab");
	stream(f);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	before = c.n;
	relay_put(f, "ba");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 4);
	assert_int_equal(c.n, before);
	RELAY_ASLEEP_UNTIL(f, &f->a, high(f) == 4);
	assert_true(c.n > before);
	assert_int_equal(relay_count(f, WHERRY_DONE), 4);
	relay_quiet(f, &f->a);
	relay_check_once(f, 4);
	assert_int_equal(exceptions(f), 0);
	relay_stop(f, &f->a);
}

static void a_clean_end_delivers_nothing_again(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	for (int i = 0; i < 2; i++) { /* Back to the WAL, or to the table. */
		relay_fresh(f);
		relay_set(f, "relay.source", "wal");
		stream(f);
		relay_put(f, "abc");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
		assert_int_equal(high(f), 0);
		relay_stop(f, &f->a);
		assert_int_equal(relay_count(f, WHERRY_DONE), 3);
		relay_set(f, "relay.source", i ? "table" : "wal");
		relay_start(f, &f->a);
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 4);
		RELAY_UNTIL(f, &f->a, high(f) == 4);
		RELAY_DELIVERED(f, 1, 2, 3, 4);
		RELAY_UNTIL(f, &f->a, exceptions(f) == 0);
		relay_stop(f, &f->a);
	}
}

static void a_clean_end_in_the_middle_delivers_nothing_again(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	stream(f);
	fake->by_hand = true;
	relay_answers(f, 4, WHERRY_RETRY, 1);
	relay_put(f, "aaabc");
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 4, WHERRY_RETRY));
	assert_true(relay_fake_answer(fake, 5, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, fake->n == 1); /* The next one of a. */
	wherry_relay_stop(f->a.relay);
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	fake->by_hand = false;
	relay_set(f, "retry.base", "1ms");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
}

static void after_a_crash_nothing_is_lost(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	stream(f);
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	relay_kill(f, &f->a);
	relay_put(f, "a");
	stream(f);
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_order(f);
	for (int64_t id = 1; id <= 3; id++)
		assert_in_range(relay_told(f, id, WHERRY_DELIVERED), 1, 2);
	assert_int_equal(relay_told(f, 4, WHERRY_DELIVERED), 1);
	assert_int_equal(relay_told(f, 5, WHERRY_DELIVERED), 1);
}

static void messages_of_a_key_wait_behind_one_that_failed(void **state)
{
	static const unsigned caps[] = {0, WH_PUB_ORDERED};
	relay_fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		relay_fresh(f);
		relay_use_fake(f, &f->a, caps[i]);
		relay_answers(f, 1, WHERRY_RETRY, 3);
		relay_answers(f, 3, WHERRY_RETRY, 1);
		relay_answers(f, 6, WHERRY_REJECTED, 1);
		stream(f);
		relay_put(f, "abacab-a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 7);
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 7);
		assert_int_equal(relay_state(f, 6), WHERRY_DEAD);
		relay_check_order(f);
		relay_stop(f, &f->a);
	}
}

/* Late rows, ids in no order, and transactions that are rolled back. */
static void what_is_committed_below_the_position_is_delivered_once(void **state)
{
	relay_fixture *f = *state;
	PGconn *late[3];

	relay_hourly(f);
	stream(f);
	for (int i = 0; i < 3; i++)
		late[i] = postgres_begin_put("READ COMMITTED", "a");
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, high(f) == 4);
	postgres_end(late[1], "ROLLBACK");
	postgres_end(late[2], "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	postgres_end(late[0], "COMMIT");
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (2, 't', '{}')");
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
}

/* No look meets them, and none is noted for longer than until the next look. */
static void rows_that_their_owner_deletes_at_once_do_not_stop_the_wal(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "relay.window", "2");
	stream(f);
	for (size_t n = 1; n <= 20; n++) {
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == n);
		relay_sql(f, "DELETE FROM outbox");
	}
	assert_false(relay_logged(f, "event=reads-table"));
	assert_int_equal(relay_told(f, 20, WHERRY_DELIVERED), 1);
	relay_stop(f, &f->a);
}

/* ---- the connection ---- */

static void cut(relay_fixture *f)
{
	relay_sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication");
}

static void what_came_before_the_connection_was_lost_does_not_come_again(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	stream(f);
	for (int i = 0; i < 3; i++) {
		relay_put(f, "aba");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 6 * (size_t)i + 3);
		cut(f);
		relay_put(f, "aba");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 6 * (size_t)i + 6);
		wait_for_wal(f);
	}
	RELAY_UNTIL(f, &f->a, high(f) == 18);
	relay_check_once(f, 18);
	relay_check_order(f);
	relay_stop(f, &f->a);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM pg_replication_slots"), 0);
}

static void the_table_is_read_when_the_publication_is_gone(void **state)
{
	relay_fixture *f = *state;

	stream(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_sql(
		f,
		"DO $$ BEGIN EXECUTE (SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication_tables WHERE format('%I.%I', schemaname, tablename)::regclass = 'outbox'::regclass); END $$");
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	wait_for_wal(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
}

/* Its rows come by no stream, and by the look of each renewal. */
static void the_table_is_read_when_the_publication_lacks_it(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "100ms");
	stream(f);
	relay_sql(
		f,
		"DO $$ BEGIN EXECUTE (SELECT format('ALTER PUBLICATION %I DROP TABLE outbox', pubname) FROM pg_publication_tables WHERE format('%I.%I', schemaname, tablename)::regclass = 'outbox'::regclass); END $$");
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

/* The server keeps its WAL for a slot. */
static void a_relay_that_is_paused_or_stands_still_has_no_slot(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.window", "2");
	relay_set(f, "relay.idle_interval", "50ms");
	stream(f);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM pg_replication_slots") == 0);
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	wait_for_wal(f);
	fake->by_hand = true;
	relay_put(f, "abcabcabc");
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "the WAL is behind"));
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM pg_replication_slots") == 0);
	fake->by_hand = false;
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 11);
	relay_check_once(f, 11);
	relay_check_order(f);
}

/* A slot is made when transactions that were open have ended. */
static void an_open_transaction_delays_the_wal_and_no_message(void **state)
{
	relay_fixture *f = *state;
	PGconn *open = postgres_begin_put("READ COMMITTED", "a");

	forget_log(f);
	relay_start(f, &f->a);
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_false(relay_logged(f, "event=streaming"));
	postgres_end(open, "COMMIT");
	wait_for_wal(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
}

/* ---- commits that nobody sees yet ---- */

#define ONE(key)                                                                         \
	"INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', '" key "', '{}')"

/* Begin again, with connections whose commits wait for no standby but this one. */
static PGconn *fresh_unseen(relay_fixture *f)
{
	PQfinish(postgres_unseen());
	relay_fresh(f);
	return postgres_unseen();
}

/* Wait until making the slot waits for this transaction. */
static void await_slot_behind(const char *key)
{
	char sql[300], n[8] = "0";

	(void)snprintf(
		sql, sizeof(sql),
		"SELECT count(*) FROM pg_stat_activity AS s, pg_stat_activity AS b WHERE "
		"s.backend_type = 'walsender' AND b.pid = ANY (pg_blocking_pids(s.pid)) AND "
		"b.query LIKE '%%''%s''%%'",
		key);
	while (strcmp(n, "1") != 0)
		assert_true(postgres_raw(postgres_here.url, sql, n, sizeof(n)));
}

/* The slot waits for those that were open when it was asked for, and then for those that were open when these had
 * ended.  One that begins after that, and commits before the slot is made, does not come. */
static void a_commit_that_nobody_saw_when_the_slot_was_made_is_delivered(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f), *first, *second;

	first = postgres_begin_put("READ COMMITTED", "b");
	forget_log(f);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "to=making"));
	await_slot_behind("b");
	second = postgres_begin_put("READ COMMITTED", "c");
	postgres_end(first, "COMMIT");
	await_slot_behind("c");
	postgres_hold_commits();
	postgres_put_unseen(conn, ONE("a"));
	postgres_end(second, "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_logged(f, "to=ready"));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	for (int i = 0; i < 50; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	assert_int_equal(relay_delivered(f), 2);
	postgres_let_be_seen(conn);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
	postgres_forget_unseen();
}

static wherry_code put_once(void *ctx, const char *op, const char *what,
			    wherry_error *err)
{
	relay_fixture **f = ctx;

	(void)op;
	(void)err;
	if (*f && strcmp(what, "snapshot") == 0) {
		relay_put(*f, "a");
		*f = NULL;
	}
	return WHERRY_OK;
}

/* It is committed when the slot is there, and the relay looks before it takes in what comes. */
static void what_a_look_brought_does_not_come_again(void **state)
{
	relay_fixture *f = *state;
	static relay_fixture *putting; /* Outlives the connection. */

	putting = f;
	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.before = put_once, .ctx = &putting});
	stream(f);
	assert_null(putting);
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

/* It comes by the WAL at once, and the position covers it when its commit is visible. */
static void a_commit_that_nobody_sees_yet_is_delivered_once(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f);

	stream(f);
	postgres_hold_commits();
	postgres_put_unseen(conn, ONE("a"));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_put(f, "bc");
	RELAY_UNTIL(f, &f->a, high(f) == 3);
	cut(f);
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, high(f) == 4);
	postgres_let_be_seen(conn);
	wait_for_wal(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	postgres_forget_unseen();
}

/* The next relay learns from its exception that it is done, though no statement sees the row yet. */
static void a_commit_that_nobody_sees_yet_is_delivered_once_over_a_clean_end(void **state)
{
	relay_fixture *f = *state;

	for (int i = 0; i < 2; i++) { /* Back to the WAL, or to the table. */
		PGconn *conn = fresh_unseen(f);

		relay_set(f, "relay.source", "wal");
		stream(f);
		postgres_hold_commits();
		postgres_put_unseen(conn, ONE("a"));
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
		relay_put(f, "b");
		RELAY_UNTIL(f, &f->a, high(f) == 2);
		relay_stop(f, &f->a);
		assert_int_equal(exceptions(f), 1);
		relay_set(f, "relay.source", i ? "table" : "wal");
		relay_start(f, &f->a);
		relay_put(f, "c");
		RELAY_UNTIL(f, &f->a, high(f) == 3);
		postgres_let_be_seen(conn);
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
		relay_check_once(f, 4);
		relay_put(f, "b");
		RELAY_UNTIL(f, &f->a, exceptions(f) == 0);
		relay_stop(f, &f->a);
		postgres_forget_unseen();
	}
}

static void a_failure_is_written_when_the_commit_is_seen(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f);

	relay_answers(f, 1, WHERRY_RETRY, 2);
	stream(f);
	postgres_hold_commits();
	postgres_put_unseen(conn, ONE("a") ";" ONE("a"));
	RELAY_UNTIL(f, &f->a, relay_told(f, 1, WHERRY_RETRY) == 1);
	for (int i = 0; i < 50; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	assert_int_equal(relay_told(f, 1, WHERRY_RETRY), 1);
	postgres_let_be_seen(conn);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
	relay_check_order(f);
	postgres_forget_unseen();
}

/* What others waited for is written meanwhile. */
static void an_unseen_failure_holds_up_no_other(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f);

	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_answers(f, 2, WHERRY_RETRY, 2);
	relay_answers(f, 3, WHERRY_REJECTED, 1);
	stream(f);
	postgres_hold_commits();
	postgres_put_unseen(conn, ONE("a"));
	RELAY_UNTIL(f, &f->a, relay_told(f, 1, WHERRY_RETRY) == 1);
	relay_put(f, "bc");
	RELAY_UNTIL(f, &f->a, relay_told(f, 2, WHERRY_DELIVERED) == 1);
	RELAY_UNTIL(f, &f->a, relay_state(f, 3) == WHERRY_DEAD);
	assert_int_equal(relay_told(f, 1, WHERRY_RETRY), 1);
	postgres_let_be_seen(conn);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	postgres_forget_unseen();
}

/* The key stays held until all that waits behind it can be read. */
/* That of a later message of its key waits for the commit, and cannot be written before the end. */
static void a_delivery_before_an_unseen_failure_is_written_at_a_clean_end(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f);
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	relay_hourly(f);
	stream(f);
	fake->by_hand = true;
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	postgres_hold_commits();
	postgres_put_unseen(conn, ONE("a"));
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	wherry_relay_stop(f->a.relay);
	assert_true(relay_fake_answer(fake, 2, WHERRY_RETRY));
	for (int i = 0; i < 10; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	postgres_let_be_seen(conn);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
	postgres_forget_unseen();
}

static void a_message_that_nobody_sees_yet_is_passed_by_none_of_its_key(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f);
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "retry.base", "1ms");
	stream(f);
	fake->by_hand = true;
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	postgres_hold_commits();
	postgres_put_unseen(conn, ONE("a"));
	relay_put(f, "b"); /* It comes behind the unseen one. */
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, exceptions(f) == 2);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	fake->by_hand = false;
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, exceptions(f) == 1);
	for (int i = 0; i < 50; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 0);
	postgres_let_be_seen(conn);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
	postgres_forget_unseen();
}

/* A standby that takes over has all that was delivered. */
static void with_synchronous_standbys_the_table_is_read(void **state)
{
	relay_fixture *f = *state;
	PGconn *conn = fresh_unseen(f);
	size_t n = 0;

	postgres_name_standby(true);
	forget_log(f);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "synchronous_standby_names is set"));
	postgres_name_standby(false);
	wait_for_wal(f);
	postgres_name_standby(true);
	while (!relay_logged(f, "synchronous_standby_names is set")) {
		relay_put(f, "b");
		n++;
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == n);
	}
	postgres_put_unseen(conn, ONE("a"));
	for (int i = 0; i < 50; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	assert_int_equal(relay_delivered(f), n);
	postgres_name_standby(false);
	postgres_let_be_seen(conn);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == (int64_t)n + 1);
	relay_check_once(f, (int64_t)n + 1);
	postgres_forget_unseen();
}

/* ---- subscriptions ---- */

static void only_messages_of_its_topics_come_by_the_wal(void **state)
{
	static const char *const topics[] = {"orders", "orders.made", "orders.a.b",
					     "order",  "billing",     "bill_ng",
					     "x"};
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[200];

	relay_hourly(f);
	WHERRY_PASS(
		wherry_subscription_set_topics(f->outbox, "orders.*,bill_ng,*x", &err));
	stream(f);
	for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++) {
		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO outbox(topic, payload) VALUES ('%s', '{}')",
			       topics[i]);
		relay_sql(f, sql);
	}
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 4);
	RELAY_UNTIL(f, &f->a, high(f) == 7);
	RELAY_DELIVERED(f, 2, 3, 6, 7);
	WHERRY_PASS(wherry_subscription_set_topics(f->outbox, "billing", &err));
	relay_set(f, "relay.idle_interval", "50ms");
	relay_stop(f, &f->a);
	stream(f);
	relay_sql(
		f,
		"INSERT INTO outbox(topic, payload) VALUES ('billing', '{}'), ('x', '{}')");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 5);
	RELAY_DELIVERED(f, 2, 3, 6, 7, 8);
}

static void a_relay_begins_again_where_seek_put_it(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.idle_interval", "50ms");
	stream(f);
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	WHERRY_PASS(wherry_subscription_seek(f->outbox, "2", &err));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 5 || relay_delivered(f) == 6);
	wait_for_wal(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, high(f) == 4);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 2);
	assert_int_equal(relay_told(f, 3, WHERRY_DELIVERED), 2);
	assert_int_equal(relay_told(f, 4, WHERRY_DELIVERED), 1);
}

/* ---- where the WAL cannot be read ---- */

static void a_role_that_may_not_read_the_wal_reads_the_table_and_says_why(void **state)
{
	relay_fixture *f = *state;

	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "reads-table"));
	assert_true(relay_logged(f, "this role may not read the WAL: ALTER ROLE "));
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
}

static const relay_test own[] = {
	RELAY_TEST(a_message_comes_by_the_wal_and_a_look_moves_the_position, 0),
	RELAY_TEST(a_clean_end_delivers_nothing_again, 0),
	RELAY_TEST(a_clean_end_in_the_middle_delivers_nothing_again, 0),
	RELAY_TEST(after_a_crash_nothing_is_lost, 0),
	RELAY_TEST(messages_of_a_key_wait_behind_one_that_failed, 0),
	RELAY_TEST(what_is_committed_below_the_position_is_delivered_once, 0),
	RELAY_TEST(rows_that_their_owner_deletes_at_once_do_not_stop_the_wal, 0),
	RELAY_TEST(what_came_before_the_connection_was_lost_does_not_come_again, 0),
	RELAY_TEST(the_table_is_read_when_the_publication_is_gone, 0),
	RELAY_TEST(the_table_is_read_when_the_publication_lacks_it, 0),
	RELAY_TEST(a_relay_that_is_paused_or_stands_still_has_no_slot, 0),
	RELAY_TEST(an_open_transaction_delays_the_wal_and_no_message, 0),
	RELAY_TEST(a_commit_that_nobody_saw_when_the_slot_was_made_is_delivered, 0),
	RELAY_TEST(what_a_look_brought_does_not_come_again, 0),
	RELAY_TEST(a_commit_that_nobody_sees_yet_is_delivered_once, 0),
	RELAY_TEST(a_commit_that_nobody_sees_yet_is_delivered_once_over_a_clean_end, 0),
	RELAY_TEST(a_failure_is_written_when_the_commit_is_seen, 0),
	RELAY_TEST(an_unseen_failure_holds_up_no_other, 0),
	RELAY_TEST(a_delivery_before_an_unseen_failure_is_written_at_a_clean_end, 0),
	RELAY_TEST(a_message_that_nobody_sees_yet_is_passed_by_none_of_its_key, 0),
	RELAY_TEST(with_synchronous_standbys_the_table_is_read, 0),
	RELAY_TEST(only_messages_of_its_topics_come_by_the_wal, 0),
	RELAY_TEST(a_relay_begins_again_where_seek_put_it, 0),
	RELAY_TESTS_END,
};

static const relay_test denied[] = {
	RELAY_TEST(a_role_that_may_not_read_the_wal_reads_the_table_and_says_why, 0),
	RELAY_TESTS_END,
};

#define ON_POSTGRES                                                                      \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .make = postgres_enter,           \
	.again = postgres_enter_again, .note = postgres_note_here,                       \
	.drop = postgres_leave, .layout = "log", .leads = true, .source = "wal",         \
	.views = relay_log_postgres_views, .translate = relay_log_translate

static const char *except[50] = {
	/* It tells the server each ten seconds that it lives. */
	"an_idle_relay_sleeps",
	/* The position moves a quarter of a second after a delivery. */
	"messages_after_an_idle_time_are_purged_as_soon",
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "wal",
			ON_POSTGRES,
			.own = relay_log_tests,
			.except = except,
			.schedules = 20,
		},
		{
			.name = "its own",
			ON_POSTGRES,
			.own = own,
			.own_only = true,
		},
		{
			.name = "denied",
			ON_POSTGRES,
			.lower = postgres_lower_here,
			.own = denied,
			.own_only = true,
		},
	};

	for (size_t n = 0; relay_log_except[n]; n++)
		except[n + 2] = relay_log_except[n];
	if (!postgres_start_logical())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
