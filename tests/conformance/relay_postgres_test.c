/*
 * The relay on PostgreSQL, and what only it has: transactions that take their ids in one
 * order and commit in another.
 */
#include "relay_log.h"

#include "postgres/server.h"

/* Transaction 1 takes the lower id and stays open, 2 commits a higher one of its key. */
WHERRY_CASE(a_lower_id_that_is_committed_late_is_delivered_without_a_sweep,
	    relay_fixture *f)
{
	static const char *const isolations[] = {"READ COMMITTED", "REPEATABLE READ"};

	for (int i = 0; i < 2; i++) {
		PGconn *first;

		relay_fresh(f);
		relay_hourly(f);
		first = postgres_begin_put(isolations[i], "a");
		relay_put(f, "a");
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
		relay_quiet(f, &f->a);
		postgres_end(first, "COMMIT");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 2);
		RELAY_DELIVERED(f, 2, 1);
		relay_stop(f, &f->a);
	}
}

/* Those of one key that are committed late come before later ones that the same read
 * meets. */
WHERRY_CASE(late_ids_of_a_key_leave_before_higher_ones, relay_fixture *f)
{
	PGconn *late[3];

	relay_hourly(f);
	for (int i = 0; i < 3; i++)
		late[i] = postgres_begin_put("READ COMMITTED", "a");
	relay_put(f, "b");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_quiet(f, &f->a);
	postgres_end(late[1], "ROLLBACK");
	postgres_end(late[2], "COMMIT");
	postgres_end(late[0], "COMMIT");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 4);
	RELAY_DELIVERED(f, 4, 1, 3, 5);
}

/* Messages of topic 'slow' wait in the middle of their statement, with an id. */
static void shut(PGconn *gate)
{
	assert_true(postgres_exec(
		gate,
		"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
		"PERFORM pg_advisory_xact_lock(4711); RETURN new; END$$; "
		"CREATE TRIGGER wait BEFORE INSERT ON outbox FOR EACH ROW "
		"WHEN (new.topic = 'slow') EXECUTE FUNCTION wait()",
		NULL, 0));
	assert_true(postgres_exec(gate, "SELECT pg_advisory_lock(4711)", NULL, 0));
}

static void open_gate(PGconn *gate)
{
	postgres_end(gate, "SELECT pg_advisory_unlock(4711)");
}

/* An INSERT takes its id before its transaction has a number: here it waits in between. */
WHERRY_CASE(an_id_taken_by_a_statement_that_still_runs_is_not_forgotten, relay_fixture *f)
{
	PGconn *gate = PQconnectdb(postgres_here.url),
	       *slow = PQconnectdb(postgres_here.url);

	relay_hourly(f);
	relay_put(f, "b"); /* the first id of 32 is logged, and needs a number */
	shut(gate);
	assert_true(postgres_exec(slow, "BEGIN", NULL, 0));
	assert_int_equal(PQsendQuery(slow, "INSERT INTO outbox(topic, payload) "
					   "VALUES ('slow', '{}')"),
			 1);
	while (relay_number(f, "SELECT last_value FROM outbox_id_seq") < 2)
		;
	relay_put(f, "b");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	open_gate(gate);
	for (PGresult *res; (res = PQgetResult(slow));)
		PQclear(res);
	for (int64_t n = 3; n <= 5; n++) { /* reads that may forget it */
		relay_put(f, "b");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == n);
	}
	postgres_end(slow, "COMMIT");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 6);
	RELAY_DELIVERED(f, 1, 3, 4, 5, 6, 2);
}

/* Its number is the last that was given out, and no higher one has ended yet: the relay
 * reads again and again, but has nothing to write, since what it meets waits for another. */
WHERRY_CASE(the_lower_id_of_a_younger_transaction_is_not_forgotten, relay_fixture *f)
{
	PGconn *older = PQconnectdb(postgres_here.url), *younger;

	relay_hourly(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	f->frozen_us = relay_now(f);
	f->tick_us = 1000;
	assert_true(postgres_exec(older, "BEGIN; SELECT pg_current_xact_id()", NULL, 0));
	younger = postgres_begin_put("READ COMMITTED", "b");
	assert_true(postgres_exec(older,
				  "INSERT INTO outbox(topic, partition_key, payload) "
				  "VALUES ('t', 'a', '{}')",
				  NULL, 0));
	postgres_end(older, "COMMIT");
	for (int i = 0; i < 10; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	postgres_end(younger, "COMMIT");
	f->frozen_us = f->tick_us = 0;
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 1);
	RELAY_DELIVERED(f, 2);
}

/* In the order of their commits, which is that of their ids, whoever began first. */
WHERRY_CASE(messages_of_a_locked_key_leave_in_the_order_of_commits, relay_fixture *f)
{
	static const char sql[] =
		"SELECT wherry_enqueue('t', '{}', key => 'a', lock_key => true)";
	PGconn *conn[3];

	relay_hourly(f);
	relay_start(f, &f->a);
	for (int i = 0; i < 3; i++) {
		conn[i] = PQconnectdb(postgres_here.url);
		assert_true(postgres_exec(conn[i], "BEGIN", NULL, 0));
	}
	assert_true(postgres_exec(conn[2], sql, NULL, 0));
	assert_int_equal(PQsendQuery(conn[0], sql), 1);
	assert_true(postgres_exec(conn[1],
				  "SELECT wherry_enqueue('t', '{}', key => 'b', "
				  "lock_key => true)",
				  NULL, 0));
	postgres_end(conn[1], "COMMIT");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 1);
	assert_true(postgres_exec(conn[2], sql, NULL, 0));
	postgres_end(conn[2], "COMMIT");
	for (PGresult *res; (res = PQgetResult(conn[0]));)
		PQclear(res);
	postgres_end(conn[0], "COMMIT");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 4);
	RELAY_DELIVERED(f, 2, 1, 3, 4);
}

/* The server then refuses statements that were prepared for the columns as they were. */
static void alter(relay_fixture *f)
{
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	relay_sql(f, "ALTER TABLE outbox ALTER COLUMN topic TYPE varchar(500)");
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_quiet(f, &f->a);
	relay_sql(f, "ALTER TABLE outbox ALTER COLUMN payload DROP DEFAULT, "
		     "ALTER COLUMN payload TYPE jsonb USING '{}'");
	relay_sql(f, "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_stop(f, &f->a);
}

WHERRY_CASE(a_relay_outlives_a_changed_column_type, relay_fixture *f)
{
	relay_sql(f, "DROP VIEW native");
	relay_start(f, &f->a);
	alter(f);
}

/* Somebody holds the row of the lease for longer than db.busy_timeout. */
WHERRY_CASE(a_renewal_that_waits_for_a_lock_loses_no_lease, relay_fixture *f)
{
	PGconn *other;

	relay_set(f, "db.busy_timeout", "50ms");
	relay_set(f, "relay.idle_interval", "100ms");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	other = postgres_begin("SELECT 1 FROM wherry_lease FOR UPDATE");
	f->log_len = 0;
	f->log[0] = 0;
	RELAY_UNTIL(f, &f->a, strstr(f->log, "db.busy_timeout"));
	postgres_end(other, "COMMIT");
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	assert_null(strstr(f->log, "lease-lost"));
}

/* An administrator's tool holds the row of a message, which is only read, and that of an exception. */
WHERRY_CASE(one_locked_row_holds_up_no_other, relay_fixture *f)
{
	PGconn *other;

	relay_set(f, "db.busy_timeout", "50ms");
	relay_set(f, "relay.idle_interval", "100ms");
	relay_put(f, "aabb");
	other = postgres_begin("SELECT 1 FROM outbox WHERE id = 1 FOR UPDATE");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	postgres_end(other, "COMMIT");
	relay_answers(f, 5, WHERRY_RETRY, -1);
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_state(f, 5) == WHERRY_FAILED);
	other = postgres_begin("SELECT 1 FROM outbox_exception WHERE id = 5 FOR UPDATE");
	relay_answers(f, 5, WHERRY_DELIVERED, -1);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_told(f, 7, WHERRY_DELIVERED) == 1);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_told(f, 8, WHERRY_DELIVERED) == 1);
	postgres_end(other, "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	relay_check_order(f);
}

/* ---- rows ---- */

static void sql(const char *text)
{
	assert_true(postgres_raw(postgres_here.url, text, NULL, 0));
}

/* Values of a type whose function fails for one of them, as the text of jsonb does that is too long. */
WHERRY_CASE(a_row_that_the_server_cannot_send_dies_alone, relay_fixture *f)
{
	char found[8];

	relay_hourly(f);
	sql("CREATE TYPE color AS ENUM ('red', 'gone'); "
	    "DROP VIEW native; ALTER TABLE outbox ALTER payload TYPE color USING 'red'");
	sql("INSERT INTO outbox(topic, partition_key, payload) SELECT 't', chr(97 + i % 3), "
	    "CASE WHEN i IN (1, 7, 8, 9, 300) THEN 'gone' ELSE 'red' END::color FROM generate_series(1, 400) AS i");
	sql("DELETE FROM pg_enum WHERE enumlabel = 'gone'");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 395);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 5);
	assert_int_equal(relay_delivered(f), 395);
	relay_check_order(f);
	assert_true(postgres_raw(
		postgres_here.url,
		"SELECT count(*) FROM outbox_exception WHERE id IN (1, 7, 8, 9, 300) AND last_error LIKE "
		"'the row cannot be read: %'",
		found, sizeof(found)));
	assert_string_equal(found, "5");
}

/* It is committed below the position, among others that can be sent. */
WHERRY_CASE(a_late_row_that_the_server_cannot_send_dies_alone, relay_fixture *f)
{
	PGconn *late = PQconnectdb(postgres_here.url);

	relay_hourly(f);
	sql("CREATE TYPE color AS ENUM ('red', 'gone'); "
	    "DROP VIEW native; ALTER TABLE outbox ALTER payload TYPE color USING 'red'");
	assert_true(postgres_exec(
		late,
		"BEGIN; INSERT INTO outbox(topic, payload) SELECT 't', "
		"CASE i WHEN 50 THEN 'gone' ELSE 'red' END::color FROM generate_series(1, 100) AS i",
		NULL, 0));
	sql("INSERT INTO outbox(topic, payload) VALUES ('t', 'red')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	postgres_end(late, "COMMIT");
	sql("DELETE FROM pg_enum WHERE enumlabel = 'gone'");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 100);
	RELAY_UNTIL(f, &f->a, relay_state(f, 50) == WHERRY_DEAD);
	assert_int_equal(relay_delivered(f), 100);
}

/* As in a table from another server of which some rows look as if they were of this one. */
WHERRY_CASE(a_row_of_a_transaction_to_come_stops_nobody, relay_fixture *f)
{
	relay_hourly(f);
	sql("INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'a', ''), ('t', 'b', '')");
	sql("INSERT INTO outbox(tx, topic, partition_key, payload) VALUES ('9000000000', 't', 'a', '')");
	sql("INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'b', '')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
}

static const relay_test own[] = {
	RELAY_TEST(a_renewal_that_waits_for_a_lock_loses_no_lease, 0),
	RELAY_TEST(one_locked_row_holds_up_no_other, 0),
	RELAY_TEST(a_relay_outlives_a_changed_column_type, 0),
	RELAY_TEST(the_lower_id_of_a_younger_transaction_is_not_forgotten, 0),
	RELAY_TEST(messages_of_a_locked_key_leave_in_the_order_of_commits, 0),
	RELAY_TEST(an_id_taken_by_a_statement_that_still_runs_is_not_forgotten, 0),
	RELAY_TEST(a_lower_id_that_is_committed_late_is_delivered_without_a_sweep, 0),
	RELAY_TEST(late_ids_of_a_key_leave_before_higher_ones, 0),
	RELAY_TEST(a_row_of_a_transaction_to_come_stops_nobody, 0),
	RELAY_TEST(a_row_that_the_server_cannot_send_dies_alone, 0),
	RELAY_TEST(a_late_row_that_the_server_cannot_send_dies_alone, 0),
	RELAY_TESTS_END,
};

#define ON_POSTGRES                                                                      \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .make = postgres_enter,           \
	.again = postgres_enter_again, .note = postgres_note_here,                       \
	.drop = postgres_leave, .layout = "log", .leads = true,                          \
	.views = relay_log_postgres_views, .translate = relay_log_translate

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "postgres",
			ON_POSTGRES,
			.lower = postgres_lower_here,
			.own = relay_log_tests,
			.except = relay_log_except,
			.schedules = 20,
		},
		{
			.name = "as the owner",
			ON_POSTGRES,
			.own = own,
			.own_only = true,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
