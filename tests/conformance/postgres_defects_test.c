/*
 * What goes wrong with the relay of the library eventferry 3 on PostgreSQL, and does not
 * with this one: order, failures and the life of a relay.  What it costs is in
 * postgres_costs_test.c.
 *
 *    1  a lower id that is committed late is in flight at once with a higher one of its key
 *    2  no fence: who lost its claim makes a delivered message fail
 *    4  keys are the aggregate's id without its type
 *    5  what is behind a dead message cannot be held back
 *   10  one bad message, or credentials that expired, make a batch dead
 *   11  a message that cannot be written out wedges its batch for ever
 *   12  a message that kills its relay does so for ever
 *   13  a hook that fails ends the relay, or has all of a batch delivered again
 *   14  a start after one that failed does nothing
 *   15  each lost connection leaves one more behind
 *   16  retries are due by the program's clock
 *   17  a stop waits for ever
 *   24  a message id that is there ends the business transaction
 *
 * 3 is of claims, 6 to 9 are of its reader of the WAL, for which there is no engine here yet; 18 to 23, 30
 * and 31 are of other databases and of Kafka.
 */
#include "relay_log.h"

#include <pthread.h>

#include <wherry/postgres.h>

#include "outbox/outbox.h"
#include "postgres/server.h"

static relay_fake *by_hand(relay_fixture *f, relay_side *side)
{
	relay_fake *fake = relay_use_fake(f, side, 0);

	fake->by_hand = true;
	return fake;
}

/* ---- 1 ---- */

#define PUT_A "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'a', '{}')"

WHERRY_CASE(defect_1_of_one_key_one_message_is_in_flight, relay_fixture *f)
{
	relay_fake *fake;
	PGconn *first;

	fake = by_hand(f, &f->a);
	first = postgres_begin(PUT_A);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 2));
	postgres_end(first, "COMMIT");
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 3));
	assert_false(relay_fake_holds(fake, 1));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 1));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_int_equal(fake->overlaps, 0);
	relay_check_once(f, 3);
}

/* As where they update the same row of the business. */
WHERRY_CASE(defect_1_writers_that_wait_for_each_other_are_delivered_in_order,
	    relay_fixture *f)
{
	PGconn *first, *second = PQconnectdb(postgres_here.url);

	relay_sql(f, "CREATE TABLE orders(id integer, n integer)");
	relay_sql(f, "INSERT INTO orders VALUES (7, 0)");
	relay_start(f, &f->a);
	first = postgres_begin("UPDATE orders SET n = n + 1 WHERE id = 7");
	assert_true(postgres_exec(second, "BEGIN", NULL, 0));
	assert_int_equal(PQsendQuery(second, "UPDATE orders SET n = n + 1 WHERE id = 7"),
			 1);
	assert_true(postgres_exec(first, PUT_A, NULL, 0));
	relay_quiet(f, &f->a);
	assert_int_equal(relay_delivered(f), 0);
	postgres_end(first, "COMMIT");
	for (PGresult *res; (res = PQgetResult(second));)
		PQclear(res);
	assert_true(postgres_exec(second, PUT_A, NULL, 0));
	postgres_end(second, "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	RELAY_DELIVERED(f, 1, 2);
}

/* ---- 2 ---- */

WHERRY_CASE(defect_2_who_lost_its_messages_cannot_make_them_fail, relay_fixture *f)
{
	relay_fake *late, *fake;

	late = by_hand(f, &f->a);
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(late, 1));
	relay_expire(f);
	relay_sql(f, "UPDATE outbox SET next_retry_at = now() - interval '1 s' "
		     "WHERE status = 1");
	fake = by_hand(f, &f->b);
	fake->by_hand = false;
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_fake_answer(late, 1, WHERRY_RETRY));
	for (int n = 0; n < 10; n++)
		relay_turn(f, &f->a, relay_deadline(), "the late one", __LINE__,
			   __FILE__);
	assert_int_equal(relay_count(f, WHERRY_DONE), 2);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 1);
	RELAY_DELIVERED(f, 1, 2);
}

/* ---- 4 and 5 ---- */

WHERRY_CASE(defect_4_other_aggregates_do_not_wait, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_sql(f, "INSERT INTO outbox(topic, aggregate_type, aggregate_id, payload) "
		     "VALUES ('t', 'order', '42', '{}'), ('t', 'customer', '42', '{}'), "
		     "('t', 'Order', '42', '{}'), ('t', 'orde', 'r42', '{}'), "
		     "('t', '', 'order42', '{}'), ('t', 'order', '42', '{}')");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 2, 3, 4, 5);
	assert_int_equal(relay_state(f, 6), WHERRY_PENDING);
}

WHERRY_CASE(defect_5_what_is_behind_a_dead_message_waits_if_asked_to, relay_fixture *f)
{
	relay_set(f, "relay.on_dead", "park");
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "aaba");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 3);
	assert_int_equal(relay_retry(f, 0), 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 3, 1, 2, 4);
}

/* ---- 10, 11 and 12 ---- */

WHERRY_CASE(defect_10_a_bad_message_takes_no_other_along, relay_fixture *f)
{
	relay_answers(f, 50, WHERRY_REJECTED, -1);
	for (int i = 0; i < 10; i++)
		relay_put(f, "abcdefghi-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 99);
	RELAY_UNTIL(f, &f->a, relay_state(f, 50) == WHERRY_DEAD);
	assert_int_equal(relay_delivered(f), 99);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 1);
}

WHERRY_CASE(defect_10_credentials_that_expired_make_nothing_dead, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->submit_fails = WHERRY_DENIED;
	for (int i = 0; i < 20; i++)
		relay_put(f, "abcdefghi-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->losses > 30);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 200);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	fake->submit_fails = WHERRY_OK;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 200);
	relay_check_once(f, 200);
	relay_check_order(f);
}

WHERRY_CASE(defect_11_what_cannot_be_written_out_dies_alone, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_temp temp;
	char url[200];

	(void)snprintf(url, sizeof(url), "file:%s", wherry_temp_make(&temp, "out"));
	relay_sql(f,
		  "INSERT INTO outbox(topic, headers, payload) VALUES ('t', '{}', '{}'), "
		  "('t', '[1]', '{}'), ('t', '{\"a\":{}}', '{}'), ('t', '{}', '{}')");
	WHERRY_PASS(wherry_publisher_open(url, f->config, &f->a.pub, &err));
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 2);
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
	assert_int_equal(relay_state(f, 4), WHERRY_DONE);
	wherry_temp_clear(&temp);
}

/* A relay that dies whenever 2 is in flight, and others that share what it had. */
WHERRY_CASE(defect_12_a_message_that_kills_its_relay_ends_dead, relay_fixture *f)
{
	int64_t by_us = relay_deadline();
	relay_fake *fake;
	int kills = 0;

	fake = by_hand(f, &f->a);
	relay_put(f, "abc");
	for (; relay_state(f, 2) != WHERRY_DEAD; kills++) {
		relay_start(f, &f->a);
		while (!relay_fake_holds(fake, 2) && relay_state(f, 2) != WHERRY_DEAD) {
			if (kills) {
				(void)relay_fake_answer(fake, 1, WHERRY_DELIVERED);
				(void)relay_fake_answer(fake, 3, WHERRY_DELIVERED);
			}
			relay_turn(f, &f->a, by_us, "2 in flight", __LINE__, __FILE__);
		}
		if (relay_state(f, 2) == WHERRY_DEAD)
			break;
		relay_kill(f, &f->a);
		relay_sql(f, "UPDATE outbox SET next_retry_at = 1 "
			     "WHERE status = 1");
	}
	assert_in_range(kills, 5, 9); /* some in groups, five alone */
	assert_int_equal(relay_attempts(f, 2), 5);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
}

/* ---- 13 ---- */

typedef struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool open;
	wherry_relay *relay;
	wherry_code stepped;
	int entered;
} gate;

/* It cannot fail; it can step its relay, and never return. */
static void misbehave(void *ctx, const wherry_event *event)
{
	gate *g = ctx;
	bool finished;
	int64_t wake_us;

	(void)pthread_mutex_lock(&g->lock);
	g->entered++;
	g->stepped = wherry_relay_step(g->relay, &wake_us, &finished, NULL);
	while (!g->open)
		(void)pthread_cond_wait(&g->changed, &g->lock);
	(void)pthread_mutex_unlock(&g->lock);
}

WHERRY_CASE(defect_13_a_hook_that_misbehaves_harms_no_relay, relay_fixture *f)
{
	static gate g = {PTHREAD_MUTEX_INITIALIZER,
			 PTHREAD_COND_INITIALIZER,
			 false,
			 NULL,
			 WHERRY_OK,
			 0};
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < 10; i++)
		relay_put(f, "abcde");
	relay_start(f, &f->a);
	g.relay = f->a.relay;
	WHERRY_PASS(wherry_relay_hook(f->a.relay, 1u << WHERRY_ON_DELIVERED, misbehave,
				      &g, &err));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 50);
	relay_check_once(f, 50);
	(void)pthread_mutex_lock(&g.lock);
	g.open = true;
	(void)pthread_cond_broadcast(&g.changed);
	(void)pthread_mutex_unlock(&g.lock);
	relay_stop(f, &f->a);
	assert_true(g.entered >= 1);
	assert_int_equal(g.stepped, WHERRY_INVALID);
}

/* ---- 14 and 15 ---- */

WHERRY_CASE(defect_14_a_relay_that_could_not_start_starts_later, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;

	relay_put(f, "ab");
	relay_set(f, "relay.timeout", "2m");
	relay_start(f, &f->a);
	relay_sql(f, "ALTER TABLE outbox RENAME TO away");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_relay_run(f->a.relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	relay_sql(f, "ALTER TABLE away RENAME TO outbox");
	WHERRY_PASS(wherry_relay_run(f->a.relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	assert_int_equal(outcome, WHERRY_EMPTY);
	RELAY_DELIVERED(f, 1, 2);
}

#define SESSIONS                                                                         \
	"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wherry' "       \
	"AND pid <> pg_backend_pid()"

WHERRY_CASE(defect_15_lost_connections_leave_none_behind, relay_fixture *f)
{
	relay_side *a = &f->a;
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.lease", "500ms");
	relay_set(f, "relay.idle_interval", "10ms");
	WHERRY_PASS(wherry_relay_open(f->url, "null:", f->config, &a->relay, &err));
	for (int64_t n = 1; n <= 5; n++) {
		relay_put(f, "a");
		RELAY_UNTIL(f, a, relay_count(f, WHERRY_DONE) == n);
		assert_int_equal(relay_number(f, SESSIONS), 1);
		assert_int_equal(
			relay_number(f, "SELECT count(pg_terminate_backend(pid)) FROM "
					"pg_stat_activity WHERE application_name = "
					"'wherry' AND pid <> pg_backend_pid()"),
			1);
	}
	relay_put(f, "a");
	RELAY_UNTIL(f, a, relay_count(f, WHERRY_DONE) == 6);
	wherry_relay_close(a->relay);
	a->relay = NULL;
	for (int64_t by_us = relay_deadline(); relay_number(f, SESSIONS);)
		assert_true(wh_monotonic(&wh_env_system) < by_us);
}

static void end_sessions(relay_fixture *f)
{
	relay_sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
		     "WHERE application_name = 'wherry' AND pid <> pg_backend_pid()");
}

/* Its lock that writers find went with the session: nobody would wake it. */
WHERRY_CASE(defect_15_a_connection_lost_asleep_is_noticed_at_once, relay_fixture *f)
{
	relay_side *a = &f->a;
	wherry_error err = WHERRY_ERROR_INIT;

	relay_hourly(f);
	WHERRY_PASS(wherry_relay_open(f->url, "null:", f->config, &a->relay, &err));
	for (int64_t n = 1; n <= 3; n++) {
		RELAY_ASLEEP_UNTIL(f, a, a->wake_us - relay_now(f) > WH_SECOND);
		end_sessions(f);
		relay_put(f, "a");
		RELAY_ASLEEP_UNTIL(f, a, relay_count(f, WHERRY_DONE) == n);
	}
}

WHERRY_CASE(defect_15_a_standby_notices_its_lost_connection_at_once, relay_fixture *f)
{
	relay_hourly(f);
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > WH_SECOND);
	relay_start(f, &f->b);
	RELAY_ASLEEP_UNTIL(f, &f->b, f->b.wake_us - relay_now(f) > WH_SECOND);
	f->log_len = 0;
	*f->log = 0;
	end_sessions(f);
	RELAY_ASLEEP_UNTIL(f, &f->b, relay_logged(f, "event=database-trouble"));
}

/* A server that ends a session says why, which is the error of the next call and nothing
 * else. */
WHERRY_CASE(defect_15_a_lost_connection_writes_nothing_to_standard_error,
	    relay_fixture *f)
{
	FILE *said = tmpfile();
	int saved = dup(STDERR_FILENO);
	int64_t by_us = relay_deadline();
	wherry_code code = WHERRY_OK;

	assert_non_null(said);
	relay_start(f, &f->a);
	relay_quiet(f, &f->a);
	assert_int_equal(dup2(fileno(said), STDERR_FILENO), STDERR_FILENO);
	end_sessions(f);
	while (code == WHERRY_OK && !relay_logged(f, "event=database-trouble") &&
	       relay_now(f) < by_us)
		code = wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, NULL);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	assert_true(relay_logged(f, "event=database-trouble"));
	assert_int_equal(fseek(said, 0, SEEK_END), 0);
	assert_int_equal(ftell(said), 0);
	(void)fclose(said);
}

/* ---- 16 and 17 ---- */

static int64_t an_hour_ahead(void *ctx)
{
	return wh_now(&wh_env_system) + 3600 * WH_SECOND;
}

WHERRY_CASE(defect_16_retries_are_due_by_the_clock_of_the_database, relay_fixture *f)
{
	f->env.now_us = an_hour_ahead;
	relay_set(f, "retry.base", "2h");
	relay_set(f, "retry.cap", "2h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 1);
	assert_in_range(relay_number(f, "SELECT extract(epoch FROM next_retry_at - "
					"clock_timestamp())::bigint FROM outbox"),
			7100, 7200);
	relay_sql(f, "UPDATE outbox SET next_retry_at = now() - interval '1 s'");
	relay_stop(f, &f->a);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
}

WHERRY_CASE(defect_17_a_stop_waits_no_longer_than_it_may, relay_fixture *f)
{
	relay_fake *fake;

	relay_set(f, "relay.stop_timeout", "100ms");
	fake = by_hand(f, &f->a);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	wherry_relay_stop(f->a.relay);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_true(relay_logged(f, "event=stop-timeout"));
	relay_fake_drop(fake);
}

/* One that holds the table ends no stop either: statements wait for db.busy_timeout. */
WHERRY_CASE(defect_17_a_stop_does_not_wait_for_the_database, relay_fixture *f)
{
	PGconn *holder;

	relay_hourly(f);
	relay_set(f, "relay.stop_timeout", "100ms");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	holder = postgres_begin("LOCK TABLE outbox, wherry_lease");
	wherry_relay_stop(f->a.relay);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	postgres_end(holder, "ROLLBACK");
}

/* ---- 24 ---- */

WHERRY_CASE(defect_24_a_duplicate_leaves_the_business_transaction_alone, relay_fixture *f)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .message_id = "m", .body = "{}",
					    .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	PGconn *conn;

	relay_sql(f, "CREATE TABLE orders(id integer)");
	for (int i = 0; i < 2; i++) {
		conn = postgres_begin("INSERT INTO orders VALUES (7)");
		WHERRY_PASS(wherry_postgres_borrow(conn, &db, &err));
		WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
		assert_int_equal(wherry_outbox_enqueue(outbox, &msg, 0, NULL, &err),
				 i ? WHERRY_DUPLICATE : WHERRY_OK);
		wherry_outbox_close(outbox);
		wherry_db_close(db);
		postgres_end(conn, "COMMIT");
	}
	assert_int_equal(relay_number(f, "SELECT count(*) FROM orders"), 2);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	assert_int_equal(relay_delivered(f), 1);
}

static const relay_test own[] = {
	RELAY_TEST(defect_1_of_one_key_one_message_is_in_flight, 0),
	RELAY_TEST(defect_1_writers_that_wait_for_each_other_are_delivered_in_order, 0),
	RELAY_TEST(defect_2_who_lost_its_messages_cannot_make_them_fail, 0),
	RELAY_TEST(defect_4_other_aggregates_do_not_wait, 0),
	RELAY_TEST(defect_5_what_is_behind_a_dead_message_waits_if_asked_to, 0),
	RELAY_TEST(defect_10_a_bad_message_takes_no_other_along, 0),
	RELAY_TEST(defect_10_credentials_that_expired_make_nothing_dead, 0),
	RELAY_TEST(defect_11_what_cannot_be_written_out_dies_alone, 0),
	RELAY_TEST(defect_12_a_message_that_kills_its_relay_ends_dead, 0),
	RELAY_TEST(defect_13_a_hook_that_misbehaves_harms_no_relay, 0),
	RELAY_TEST(defect_14_a_relay_that_could_not_start_starts_later, 0),
	RELAY_TEST(defect_15_lost_connections_leave_none_behind, 0),
	RELAY_TEST(defect_15_a_connection_lost_asleep_is_noticed_at_once, 0),
	RELAY_TEST(defect_15_a_standby_notices_its_lost_connection_at_once, 0),
	RELAY_TEST(defect_15_a_lost_connection_writes_nothing_to_standard_error, 0),
	RELAY_TEST(defect_16_retries_are_due_by_the_clock_of_the_database, 0),
	RELAY_TEST(defect_17_a_stop_waits_no_longer_than_it_may, 0),
	RELAY_TEST(defect_17_a_stop_does_not_wait_for_the_database, 0),
	RELAY_TEST(defect_24_a_duplicate_leaves_the_business_transaction_alone, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "postgres",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		.make = postgres_enter,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.drop = postgres_leave,
		.own = own,
		.own_only = true,
		.extras = WH_UNIQUE_IDS,
		.layout = "log",
		.views = relay_log_postgres_views,
		.translate = relay_log_translate,
	};

	return postgres_start() ? relay_suite(&target, 1) : 0;
}
