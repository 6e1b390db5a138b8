/*
 * Once, and in order.
 */
#include "relay_suite.h"

WHERRY_CASE(every_committed_message_is_delivered_once, relay_fixture *f)
{
	relay_put(f, "abcab--c");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	for (int i = 0; i < 10; i++) {
		relay_put(f, "ab-");
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
	}
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 38);
	relay_check_once(f, 38);
	relay_check_order(f);
	assert_int_equal(relay_stats(&f->a).delivered, 38);
	assert_int_equal(relay_stats(&f->a).window, 0);
}

WHERRY_CASE(a_rolled_back_message_is_never_delivered, relay_fixture *f)
{
	wherry_message never = WHERRY_MESSAGE(.topic = "never", .body = "", .key = "a");
	wherry_error err = WHERRY_ERROR_INIT;

	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 1);
	WHERRY_PASS(wherry_db_begin(f->other, &err));
	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &never, 0, NULL, &err));
	if (f->target->is & RELAY_OTHERS)
		relay_quiet(f, &f->a); /* while it is written and not committed */
	wherry_db_rollback(f->other);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_delivered(f), 2);
	for (size_t i = 0; i < f->n_events; i++)
		assert_string_equal(f->events[i].topic, "t");
}

WHERRY_CASE(messages_of_one_key_leave_in_id_order, relay_fixture *f)
{
	relay_set(f, "relay.window", "7");
	relay_set(f, "relay.batch", "3");
	for (int i = 0; i < 20; i++)
		relay_put(f, "abacad-eae");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 200);
	relay_check_once(f, 200);
	relay_check_order(f);
}

WHERRY_CASE(keys_are_the_explicit_one_or_the_aggregate, relay_fixture *f)
{
	static const struct {
		const char *key, *type, *id;
	} table[] = {
		{NULL, "ab", "c"}, {NULL, "a", "bc"}, {NULL, "ab", "c"},
		{"k", "ab", "c"},  {"k", "x", "y"},   {"K", "ab", "c"},
		{NULL, "", "c"},   {NULL, "ab", ""},  {NULL, NULL, NULL},
	};
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		wherry_message m = WHERRY_MESSAGE(.topic = "t", .body = "");

		m.key = table[i].key;
		m.aggregate_type = table[i].type;
		m.aggregate_id = table[i].id;
		WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &m, WHERRY_OWN_TRANSACTION,
						  NULL, &err));
	}
	fake->by_hand = true;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n > 0);
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, 7);
	assert_false(relay_fake_holds(fake, 3)); /* behind 1 */
	assert_false(relay_fake_holds(fake, 5)); /* behind 4 */
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 9);
	assert_int_equal(fake->overlaps, 0);
}

WHERRY_CASE(without_ordering_all_fly_together, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.ordering", "none");
	fake->by_hand = true;
	relay_put(f, "aaaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 5);
	fake->by_hand = false;
	relay_answers(f, 1, WHERRY_RETRY, 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	RELAY_DELIVERED(f, 2, 3, 4, 5, 1); /* 1 holds nothing back */
	assert_int_equal(relay_attempts(f, 1), 1);
}

WHERRY_CASE(an_unordered_publisher_has_one_message_per_key_in_flight, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "aabbc--");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n > 0);
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, 5); /* different keys together, and the keyless */
	assert_true(relay_fake_holds(fake, 1) && relay_fake_holds(fake, 3));
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 4));
	assert_false(relay_fake_holds(fake, 2));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 7);
	assert_int_equal(fake->overlaps, 0);
	relay_check_once(f, 7);
}

WHERRY_CASE(an_ordered_publisher_has_several_of_one_key_in_flight, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_put(f, "aaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 2, 3, 4);
}

WHERRY_CASE(a_publisher_that_takes_only_some_gets_the_rest_later, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->room = 2;
	fake->takes = 1;
	relay_put(f, "aabbab--ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 10);
	RELAY_DELIVERED(f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	assert_true(fake->most <= 2);
}

/* ---- ordered: what was taken behind a message that failed ---- */

static relay_fake *three_of_a_in_flight(relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_put(f, "aaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	return fake;
}

WHERRY_CASE(followers_of_a_failed_message_are_not_counted_and_leave_after_it,
	    relay_fixture *f)
{
	relay_fake *fake = three_of_a_in_flight(f);

	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, 2); /* nothing of it before they are back */
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	relay_put(f, "a");
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, 1);
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	RELAY_DELIVERED(f, 4, 1, 2, 3, 5);
	assert_int_equal(relay_attempts(f, 1), 1);
	assert_int_equal(relay_attempts(f, 2), 0);
	assert_int_equal(relay_attempts(f, 3), 0);
}

WHERRY_CASE(followers_in_flight_leave_after_a_dead_message, relay_fixture *f)
{
	relay_fake *fake = three_of_a_in_flight(f);

	assert_true(relay_fake_answer(fake, 1, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, 3);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_order(f);
	assert_int_equal(relay_attempts(f, 2) + relay_attempts(f, 3), 0);
}

WHERRY_CASE(followers_in_flight_stay_behind_a_parked_message, relay_fixture *f)
{
	relay_fake *fake;

	relay_set(f, "relay.on_dead", "park");
	fake = three_of_a_in_flight(f);
	assert_true(relay_fake_answer(fake, 1, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 4);
	assert_int_equal(relay_stats(&f->a).window, 0);
	assert_int_equal(relay_retry(f, 0), 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 4, 1, 2, 3);
}

WHERRY_CASE(a_throttled_message_is_not_overtaken, relay_fixture *f)
{
	relay_fake *fake = three_of_a_in_flight(f);

	fake->retry_after_us = 1000;
	assert_true(relay_fake_answer(fake, 1, WHERRY_THROTTLED));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_state(f, 4) == WHERRY_DONE);
	relay_put(f, "a");
	f->offset_us += 2000;
	for (int i = 0; i < 5; i++) /* 2 and 3 are still in flight, and will come back */
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
	if (relay_fake_holds(fake, 1))
		assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	if (relay_fake_holds(fake, 5))
		assert_true(relay_fake_answer(fake, 5, WHERRY_DELIVERED));
	relay_quiet(f, &f->a);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	RELAY_DELIVERED(f, 4, 1, 2, 3, 5);
	assert_int_equal(relay_attempts(f, 1) + relay_attempts(f, 2), 0);
}

static void followers_wait_for_their_failed_message_when_the_connection_is_lost(
	void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake;

	relay_set(f, "retry.cap", "1h");
	relay_set(f, "retry.attempts", "40");
	fake = three_of_a_in_flight(f);
	relay_fake_break(fake, WHERRY_CLOSED); /* and anew, with a row that waits long */
	RELAY_UNTIL(f, &f->a, fake->losses == 1);
	relay_kill(f, &f->a);
	relay_sql(f, "UPDATE outbox SET attempts = 10 WHERE id = 1");
	relay_sql(f, "UPDATE wherry_lease SET clean = 1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	relay_fake_break(fake, WHERRY_CLOSED);
	RELAY_UNTIL(f, &f->a, fake->losses == 2);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4); /* in a second */
	relay_check_order(f);
	relay_check_once(f, 4);
	assert_int_equal(relay_attempts(f, 1), 11);
	assert_int_equal(relay_attempts(f, 2) + relay_attempts(f, 3), 0);
}

/* What failed before, and is not due yet, is the key's last: two leave before it. */
WHERRY_CASE(a_throttled_message_waits_for_one_before_it_that_fails, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	fake->retry_after_us = 1000;
	relay_put(f, "aaa");
	relay_sql(f, "UPDATE outbox SET status = 3, attempts = 1, next_retry_at = "
		     "(SELECT ms FROM wherry_clock) + 3600000 WHERE id = 3");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	assert_true(relay_fake_answer(fake, 2, WHERRY_THROTTLED));
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_state(f, 3), WHERRY_FAILED);
}

WHERRY_CASE(followers_are_not_counted_when_the_destination_recovers, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	relay_set(f, "relay.down_after", "2");
	fake->by_hand = true;
	relay_put(f, "caaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 5);
	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	assert_true(relay_fake_answer(fake, 2, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	assert_true(relay_fake_answer(fake, 5, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, !relay_stats(&f->a).down);
	relay_put(f, "a");
	relay_quiet(f, &f->a); /* 3 and 4 are still in flight, and will come back */
	if (relay_fake_holds(fake, 2))
		assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	if (relay_fake_holds(fake, 6))
		assert_true(relay_fake_answer(fake, 6, WHERRY_DELIVERED));
	relay_quiet(f, &f->a);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	relay_check_order(f);
	relay_check_once(f, 6);
	for (int64_t id = 2; id <= 4; id++)
		assert_int_equal(relay_attempts(f, id), 0);
}

/* ---- any schedule ---- */

enum { ALL = 60, COUNT_EVERY = 16 };

static wherry_verdict any_verdict(relay_fixture *f)
{
	uint64_t dice = f->env.random(f) % 100;

	if (dice < 60)
		return WHERRY_DELIVERED;
	if (dice < 80)
		return WHERRY_RETRY;
	if (dice < 90)
		return WHERRY_UNKNOWN;
	return dice < 98 ? WHERRY_THROTTLED : WHERRY_REJECTED;
}

static bool are_all_settled(relay_fixture *f)
{
	return relay_count(f, WHERRY_DONE) + relay_count(f, WHERRY_DEAD) == ALL;
}

/* Receipts come in any order; the connection is lost now and then. */
static void play(relay_fixture *f, relay_fake *fake)
{
	int64_t by_us = relay_deadline() + 30 * WH_SECOND;
	int64_t put = 0;

	/* To count takes longer than a turn: it is done after some. */
	for (uint64_t turn = 0; turn % COUNT_EVERY || !are_all_settled(f); turn++) {
		uint64_t dice = f->env.random(f);

		if (put < ALL && dice % 4 == 0) {
			relay_put(f, (const char *const[]){"abc", "aab", "a-b"}[put % 3]);
			put += 3;
		}
		if (dice % 64 == 1)
			relay_fake_break(fake, WHERRY_CLOSED);
		for (uint64_t i = 0; fake->n && i < dice % 3; i++) {
			size_t which = f->env.random(f) % fake->n;

			(void)relay_fake_answer(fake, fake->flights[which].msg->id,
						any_verdict(f));
		}
		f->frozen_us += (int64_t)(dice >> 32) % 1000;
		relay_turn(f, &f->a, by_us, "all to be done", __LINE__, __FILE__);
	}
}

static void any_schedule(relay_fixture *f, unsigned caps)
{
	uint64_t most = f->target->schedules ? f->target->schedules : 80;

	relay_set(f, "retry.attempts", "1000");
	relay_set(f, "relay.down_after", "5");
	relay_set(f, "retry.cap", "3ms");
	for (uint64_t seed = 1; seed <= most; seed++) {
		relay_fake *fake;

		relay_fresh(f);
		f->random = f->seed = seed;
		f->frozen_us = relay_now(f);
		f->tick_us = 10;
		fake = relay_use_fake(f, &f->a, caps);
		fake->by_hand = true;
		fake->retry_after_us = 1000;
		relay_start(f, &f->a);
		play(f, fake);
		relay_check_order(f);
		for (int64_t id = 1; id <= ALL; id++)
			assert_true(relay_told(f, id, WHERRY_DELIVERED) > 0 ||
				    relay_state(f, id) == WHERRY_DEAD);
		assert_true(are_all_settled(f));
		if (!(caps & WH_PUB_ORDERED))
			assert_int_equal(fake->overlaps, 0);
	}
}

static void no_schedule_reorders_an_unordered_publisher(void **state)
{
	any_schedule(*state, 0);
}

static void no_schedule_reorders_an_ordered_publisher(void **state)
{
	any_schedule(*state, WH_PUB_ORDERED);
}

/* Its receipt and its acknowledgement may be all that happens for long. */
WHERRY_CASE(what_waits_behind_a_delivered_message_leaves_at_once, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.ack_delay", "0");
	fake->by_hand = true;
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	relay_quiet(f, &f->a);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	WHERRY_PASS(wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, &err));
	if (!relay_on_log(f)) /* Where its look has the second message, too. */
		assert_int_equal(relay_count(f, WHERRY_DONE), 1);
	assert_true(relay_fake_holds(fake, 2) || f->a.wake_us <= relay_now(f));
}

const relay_test relay_order_tests[] = {
	RELAY_TEST(every_committed_message_is_delivered_once, 0),
	RELAY_TEST(a_rolled_back_message_is_never_delivered, 0),
	RELAY_TEST(messages_of_one_key_leave_in_id_order, 0),
	RELAY_TEST(keys_are_the_explicit_one_or_the_aggregate, 0),
	RELAY_TEST(without_ordering_all_fly_together, 0),
	RELAY_TEST(an_unordered_publisher_has_one_message_per_key_in_flight, 0),
	RELAY_TEST(an_ordered_publisher_has_several_of_one_key_in_flight, 0),
	RELAY_TEST(a_publisher_that_takes_only_some_gets_the_rest_later, 0),
	RELAY_TEST(followers_of_a_failed_message_are_not_counted_and_leave_after_it, 0),
	RELAY_TEST(followers_in_flight_leave_after_a_dead_message, 0),
	RELAY_TEST(followers_in_flight_stay_behind_a_parked_message, 0),
	RELAY_TEST(a_throttled_message_is_not_overtaken, 0),
	RELAY_TEST(followers_wait_for_their_failed_message_when_the_connection_is_lost,
		   0),
	RELAY_TEST(a_throttled_message_waits_for_one_before_it_that_fails, 0),
	RELAY_TEST(followers_are_not_counted_when_the_destination_recovers, 0),
	RELAY_TEST(no_schedule_reorders_an_unordered_publisher, 0),
	RELAY_TEST(no_schedule_reorders_an_ordered_publisher, 0),
	RELAY_TEST(what_waits_behind_a_delivered_message_leaves_at_once, RELAY_KEYS),
	RELAY_TESTS_END,
};
