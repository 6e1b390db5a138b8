/*
 * Ids that are given again: rows are deleted while a relay has them in hand, and others take
 * their ids, as where a table is emptied and its ids begin anew.
 */
#include "relay_suite.h"

/* Two other messages with the ids 1 and 2. */
static void replace(relay_fixture *f, bool same_keys)
{
	relay_sql(f, "DELETE FROM outbox");
	relay_sql(f, same_keys ? "INSERT INTO outbox(id, topic, partition_key, payload) "
				 "VALUES (1, 't', 'a', '{}'), (2, 't', 'b', '{}')"
			       : "INSERT INTO outbox(id, topic, partition_key, payload) "
				 "VALUES (1, 't', 'c', '{}'), (2, 't', 'd', '{}')");
}

static void answer_all(relay_fake *fake, wherry_verdict verdict)
{
	(void)relay_fake_answer(fake, 1, verdict);
	(void)relay_fake_answer(fake, 2, verdict);
	fake->by_hand = false;
}

/* Whether the relay meets the other rows before it has the answers or not, and whether they
 * have the same keys or others. */
static void replaced_in_flight(relay_fixture *f, wherry_verdict verdict)
{
	for (int i = 0; i < 4; i++) {
		bool seen = i % 2 == 1, same_keys = i < 2;
		relay_fake *fake;

		relay_fresh(f);
		relay_hourly(f);
		fake = relay_use_fake(f, &f->a, 0);
		fake->by_hand = true;
		relay_put(f, "ab");
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, fake->n == 2);
		replace(f, same_keys);
		if (seen)
			relay_quiet(f, &f->a);
		answer_all(fake, verdict);
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
		assert_int_equal(relay_delivered(f), verdict == WHERRY_DELIVERED ? 4 : 2);
		assert_int_equal(relay_number(f, "SELECT max(attempts) FROM outbox"), 0);
	}
}

static void what_took_the_id_of_a_message_in_flight_is_delivered(void **state)
{
	replaced_in_flight(*state, WHERRY_DELIVERED);
}

static void what_took_the_id_of_a_message_that_fails_has_not_failed(void **state)
{
	replaced_in_flight(*state, WHERRY_RETRY);
}

static void what_took_the_id_of_a_message_that_dies_does_not_die(void **state)
{
	replaced_in_flight(*state, WHERRY_REJECTED);
}

static void what_took_the_id_of_a_claimed_message_is_delivered(void **state)
{
	replaced_in_flight(*state, WHERRY_DELIVERED);
}

/* The first is in flight, the others wait behind it and are not delivered any more. */
WHERRY_CASE(what_took_the_id_of_a_message_that_waits_is_delivered, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "aaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	relay_sql(f, "DELETE FROM outbox");
	relay_sql(f, "INSERT INTO outbox(id, topic, partition_key, payload) "
		     "VALUES (2, 'new', 'b', '{}'), (3, 'new', 'b', '{}')");
	relay_quiet(f, &f->a);
	answer_all(fake, WHERRY_DELIVERED);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	for (size_t i = 0; i < f->n_events; i++)
		if (strcmp(f->events[i].topic, "new") == 0)
			assert_string_equal(f->events[i].key, "b");
}

/* Nothing is in memory, and the new ids are below those that were read. */
WHERRY_CASE(ids_that_begin_anew_are_found, relay_fixture *f)
{
	relay_hourly(f);
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_quiet(f, &f->a);
	for (int i = 0; i < 3; i++) {
		replace(f, true);
		f->offset_us += 6 * WH_SECOND; /* the next sweep */
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	}
	assert_int_equal(relay_delivered(f), 9);
}

const relay_test relay_replaced_tests[] = {
	RELAY_TEST(what_took_the_id_of_a_message_in_flight_is_delivered, 0),
	RELAY_TEST(what_took_the_id_of_a_message_that_fails_has_not_failed, 0),
	RELAY_TEST(what_took_the_id_of_a_message_that_dies_does_not_die, 0),
	RELAY_TEST(what_took_the_id_of_a_message_that_waits_is_delivered, 0),
	RELAY_TEST(ids_that_begin_anew_are_found, 0),
	RELAY_TESTS_END,
};

const relay_test relay_replaced_claims_tests[] = {
	RELAY_TEST(what_took_the_id_of_a_claimed_message_is_delivered, 0),
	RELAY_TESTS_END,
};
