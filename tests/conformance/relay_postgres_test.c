/*
 * The relay on PostgreSQL, and what only it has: transactions that take their ids in one
 * order and commit in another.
 */
#include "relay_suite.h"

#include "postgres/server.h"

static postgres_place place;

static void make(char *url, size_t cap)
{
	postgres_make(&place);
	(void)snprintf(url, cap, "%s", place.url);
}

static void drop(void)
{
	postgres_drop(&place);
}

/* A transaction of an application that has taken an id and stays open. */
static PGconn *begin_and_put(const char *isolation, const char *key)
{
	PGconn *conn = PQconnectdb(place.url);
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "BEGIN ISOLATION LEVEL %s; INSERT INTO outbox(topic, "
		       "partition_key, payload) VALUES ('t', '%s', '{}')",
		       isolation, key);
	assert_true(postgres_exec(conn, sql, NULL, 0));
	return conn;
}

static void finish(PGconn *conn, const char *how)
{
	assert_true(postgres_exec(conn, how, NULL, 0));
	PQfinish(conn);
}

/* Nothing happens by the clock alone. */
static void hourly(relay_fixture *f)
{
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.poll", "1h");
	relay_set(f, "relay.sweep", "1h");
}

/* Transaction 1 takes the lower id and stays open, 2 commits a higher one of its key. */
static void a_lower_id_that_is_committed_late_is_delivered_without_a_sweep(void **state)
{
	static const char *const isolations[] = {"READ COMMITTED", "REPEATABLE READ"};
	relay_fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		PGconn *first;

		relay_fresh(f);
		hourly(f);
		first = begin_and_put(isolations[i], "a");
		relay_put(f, "a");
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
		relay_quiet(f, &f->a);
		finish(first, "COMMIT");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 2);
		RELAY_DELIVERED(f, 2, 1);
		relay_stop(f, &f->a);
	}
}

/* Those of one key that are committed late come before later ones that the same read
 * meets. */
static void late_ids_of_a_key_leave_before_higher_ones(void **state)
{
	relay_fixture *f = *state;
	PGconn *late[3];

	hourly(f);
	for (int i = 0; i < 3; i++)
		late[i] = begin_and_put("READ COMMITTED", "a");
	relay_put(f, "b");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	relay_quiet(f, &f->a);
	finish(late[1], "ROLLBACK");
	finish(late[2], "COMMIT");
	finish(late[0], "COMMIT");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 4);
	RELAY_DELIVERED(f, 4, 1, 3, 5);
}

/* An INSERT takes its id before its transaction has a number: here it waits in between. */
static void an_id_taken_by_a_statement_that_still_runs_is_not_forgotten(void **state)
{
	relay_fixture *f = *state;
	PGconn *gate = PQconnectdb(place.url), *slow = PQconnectdb(place.url);

	hourly(f);
	relay_put(f, "b"); /* the first id of 32 is logged, and needs a number */
	assert_true(postgres_exec(
		gate,
		"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
		"PERFORM pg_advisory_xact_lock(4711); RETURN new; END$$; "
		"CREATE TRIGGER wait BEFORE INSERT ON outbox FOR EACH ROW "
		"WHEN (new.topic = 'slow') EXECUTE FUNCTION wait()",
		NULL, 0));
	assert_true(postgres_exec(gate, "SELECT pg_advisory_lock(4711)", NULL, 0));
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
	assert_true(postgres_exec(gate, "SELECT pg_advisory_unlock(4711)", NULL, 0));
	for (PGresult *res; (res = PQgetResult(slow));)
		PQclear(res);
	for (int64_t n = 3; n <= 5; n++) { /* reads that may forget it */
		relay_put(f, "b");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == n);
	}
	finish(slow, "COMMIT");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 6);
	RELAY_DELIVERED(f, 1, 3, 4, 5, 6, 2);
	PQfinish(gate);
}

/* Its number is the last that was given out, and no higher one has ended yet: the relay
 * reads again and again, but has nothing to write, since what it meets waits for another. */
static void the_lower_id_of_a_younger_transaction_is_not_forgotten(void **state)
{
	relay_fixture *f = *state;
	PGconn *older = PQconnectdb(place.url), *younger;

	hourly(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	f->frozen_us = relay_now(f);
	f->tick_us = 1000;
	assert_true(postgres_exec(older, "BEGIN; SELECT pg_current_xact_id()", NULL, 0));
	younger = begin_and_put("READ COMMITTED", "b");
	assert_true(postgres_exec(older,
				  "INSERT INTO outbox(topic, partition_key, payload) "
				  "VALUES ('t', 'a', '{}')",
				  NULL, 0));
	finish(older, "COMMIT");
	for (int i = 0; i < 10; i++)
		relay_turn(f, &f->a, relay_deadline(), "", 0, "");
	finish(younger, "COMMIT");
	f->frozen_us = f->tick_us = 0;
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 1);
	RELAY_DELIVERED(f, 2);
}

static const relay_test own[] = {
	RELAY_TEST(the_lower_id_of_a_younger_transaction_is_not_forgotten, 0),
	RELAY_TEST(an_id_taken_by_a_statement_that_still_runs_is_not_forgotten, 0),
	RELAY_TEST(a_lower_id_that_is_committed_late_is_delivered_without_a_sweep, 0),
	RELAY_TEST(late_ids_of_a_key_leave_before_higher_ones, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "postgres",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = make,
			.drop = drop,
			.own = own,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
