/*
 * Suspects: messages that may have killed their relay, or their connection.
 */
#include "relay/engine/engine.h"
#include "relay/relay.h"
#include "relay_suite.h"

relay_fake *relay_killed_with(relay_fixture *f, const char *keys)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_set(f, "relay.window", "16"); /* Each suspect is tried alone. */
	relay_put(f, keys);
	for (int i = 0; i < 2; i++) {
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, fake->n == strlen(keys));
		relay_kill(f, &f->a);
	}
	return fake;
}

/* One crash may be anybody's: it costs no speed. */
WHERRY_CASE(after_one_unclean_end_nothing_is_tried_alone, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	relay_kill(f, &f->a);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_false(relay_logged(f, "event=unclean-takeover"));
}

/* What was in flight was delivered since: the next crash is the first one again. */
WHERRY_CASE(a_crash_after_twice_the_window_is_the_first, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.window", "2");
	relay_set(f, "relay.batch", "2");
	relay_set(f, "relay.idle_interval", "100ms");
	fake->by_hand = true;
	relay_put(f, "abcdefghijkl");
	for (int64_t done = 0; done < 8; done += 4) {
		relay_start(f, &f->a);
		for (int64_t id = done + 1; id <= done + 4; id++) {
			RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, id));
			assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
		}
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == done + 4);
		f->a.relay->renew_at_us = 0;
		RELAY_UNTIL(f, &f->a, f->a.relay->renew_at_us > 0 && fake->n == 2);
		relay_kill(f, &f->a);
	}
	assert_int_equal(relay_number(f, "SELECT unclean FROM wherry_lease"), 0);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 12);
	assert_false(relay_logged(f, "event=unclean-takeover"));
}

/* Everything is read, and a renewal follows: the same messages are in flight. */
WHERRY_CASE(a_renewal_alone_proves_nothing, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "abcd");
	for (int i = 0; i < 2; i++) {
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, fake->n == 4);
		relay_quiet(f, &f->a);
		f->a.relay->renew_at_us = 0;
		RELAY_UNTIL(f, &f->a, f->a.relay->renew_at_us > 0);
		relay_kill(f, &f->a);
	}
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=unclean-takeover"));
}

/* What a relay delivered under an older lease says nothing about what is in flight now. */
static void an_older_lease_proves_nothing(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.window", "2");
	relay_set(f, "relay.batch", "2");
	relay_set(f, "relay.idle_interval", "100ms");
	fake->by_hand = true;
	relay_put(f, "abcdef");
	relay_start(f, &f->a);
	for (int64_t id = 1; id <= 4; id++) {
		RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, id));
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	}
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4 && fake->n == 2);
	relay_expire(f);
	f->a.relay->renew_at_us = 0;
	RELAY_UNTIL(f, &f->a, f->a.relay->fsm.state == WH_LOST);
	for (int64_t id = 5; id <= 6; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch == 2 && fake->n == 2);
	f->a.relay->renew_at_us = 0;
	RELAY_UNTIL(f, &f->a, f->a.relay->renew_at_us > 0);
	assert_int_equal(relay_number(f, "SELECT unclean FROM wherry_lease"), 1);
}

/* Called before a suspect is answered: its attempt is on record. */
static void check_recorded(relay_fixture *f, const wherry_message *msg)
{
	if (msg->id > 4)
		return;
	assert_int_equal(relay_state(f, msg->id), WHERRY_PROCESSING);
	assert_int_equal(relay_attempts(f, msg->id), 1);
}

WHERRY_CASE(after_two_unclean_ends_each_is_tried_alone_and_on_record, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "abcd");

	fake->by_hand = false;
	fake->most = 0;
	f->asked = check_recorded;
	relay_put(f, "efgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) >= 4);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	assert_int_equal(fake->most, 1);
	assert_true(relay_logged(f, "event=unclean-takeover"));
	relay_check_once(f, 8);
	relay_check_order(f);
	relay_put(f, "efgh"); /* beyond suspicion */
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 12);
	assert_int_equal(fake->most, 4);
	assert_int_equal(relay_stats(&f->a).suspects, 0);
	for (int64_t id = 9; id <= 12; id++)
		assert_int_equal(relay_attempts(f, id), 0);
}

/* The relay dies whenever it is in flight, and someone starts it again. */
WHERRY_CASE(a_message_that_kills_its_relay_ends_dead, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "abc");
	int64_t by_us = relay_deadline();
	int kills = 1;

	while (relay_state(f, 2) != WHERRY_DEAD) {
		relay_start(f, &f->a);
		while (!relay_fake_holds(fake, 2) && relay_state(f, 2) != WHERRY_DEAD) {
			(void)relay_fake_answer(fake, 1, WHERRY_DELIVERED);
			(void)relay_fake_answer(fake, 3, WHERRY_DELIVERED);
			relay_turn(f, &f->a, by_us, "2 in flight", __LINE__, __FILE__);
		}
		if (relay_state(f, 2) == WHERRY_DEAD)
			break;
		assert_int_equal(fake->n, 1);
		assert_int_equal(relay_attempts(f, 2), kills);
		relay_kill(f, &f->a);
		kills++;
	}
	assert_int_equal(kills, 6); /* the second in a batch, and five alone */
	assert_int_equal(relay_attempts(f, 2), 5);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
	assert_int_equal(relay_state(f, 3), WHERRY_DONE);
}

/* Kill the relay with messages in flight, so many at most.  Returns how many suspects it had at first. */
static int64_t killed_with(relay_fixture *f, relay_fake *fake, size_t most)
{
	int64_t suspects;

	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n > 0);
	suspects = f->a.relay->lease.suspects;
	relay_quiet(f, &f->a);
	assert_in_range(fake->n, 1, most);
	relay_kill(f, &f->a);
	return suspects;
}

static const char forty[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";

/* The attempt of one in a group is not recorded. */
WHERRY_CASE(suspects_are_tried_in_groups_until_one_ends_its_relay_again, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_set(f, "relay.window", "40");
	relay_put(f, forty);
	assert_int_equal(killed_with(f, fake, 40), 0);
	assert_int_equal(killed_with(f, fake, 40), 0);
	relay_start(f, &f->a);
	if (!f->a.relay->engine->groups_suspects)
		return;
	relay_kill(f, &f->a);
	assert_int_equal(killed_with(f, fake, 16), 40);
	assert_int_equal(killed_with(f, fake, 16), 40);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	assert_int_equal(killed_with(f, fake, 1), 16);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 1);
}

/* Then it is the window again that may be in flight. */
WHERRY_CASE(groups_without_harm_end_the_suspicion, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_set(f, "relay.window", "40");
	relay_put(f, forty);
	relay_put(f, forty);
	assert_int_equal(killed_with(f, fake, 40), 0);
	assert_int_equal(killed_with(f, fake, 40), 0);
	relay_start(f, &f->a);
	if (!f->a.relay->engine->groups_suspects)
		return;
	fake->most = 0;
	for (int64_t id = 1; id <= 40; id++) {
		RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, id));
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	}
	assert_in_range(fake->most, 2, 16);
	RELAY_UNTIL(f, &f->a, fake->n > 16);
	assert_int_equal(relay_stats(&f->a).suspects, 0);
	relay_kill(f, &f->a);
	assert_int_equal(killed_with(f, fake, 16), 40);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 80);
	assert_int_equal(relay_number(f, "SELECT max(attempts) FROM outbox"), 0);
	relay_check_order(f);
}

WHERRY_CASE(being_killed_in_a_batch_is_no_attempt, relay_fixture *f)
{
	(void)relay_killed_with(f, "abc");
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 3);
}

WHERRY_CASE(a_suspect_that_did_no_harm_is_counted_once, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "ab");

	fake->by_hand = false;
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    relay_state(f, 1) == WHERRY_FAILED ||
			    relay_state(f, 1) == WHERRY_DONE);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_told(f, 1, WHERRY_RETRY), 1);
	assert_true(relay_attempts(f, 1) <= 2); /* tried twice */
}

WHERRY_CASE(a_throttled_suspect_is_not_counted_twice, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "ab");

	fake->by_hand = false;
	fake->retry_after_us = 1000;
	relay_answers(f, 1, WHERRY_THROTTLED, 10);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_attempts(f, 1) <= 1);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
}

WHERRY_CASE(a_throttled_suspect_lets_the_relay_sleep, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "ab");

	fake->by_hand = false;
	fake->retry_after_us = 60 * WH_SECOND;
	relay_answers(f, 1, WHERRY_THROTTLED, 10);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->n_events > 0);
	relay_quiet(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 10000);
}

WHERRY_CASE(suspects_die_not_of_a_destination_that_is_down, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "abcdefgh");

	fake->by_hand = false;
	fake->collect_fails = WHERRY_CLOSED;
	fake->by_hand = true;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->losses > 60);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	fake->collect_fails = WHERRY_OK;
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	relay_check_once(f, 8);
	relay_check_order(f);
}

/* What was put on record before it was known that the destination is down is taken back: else
 * as many relays that end meanwhile as there are attempts would end a message, too. */
WHERRY_CASE(relays_that_end_while_the_destination_is_down_cost_no_attempt,
	    relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "ab");

	fake->collect_fails = WHERRY_CLOSED;
	for (int kills = 0; kills < 7; kills++) {
		size_t losses = fake->losses;

		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, fake->losses > losses + 2);
		RELAY_UNTIL(f, &f->a,
			    relay_number(f, "SELECT sum(attempts) FROM outbox") == 0);
		relay_kill(f, &f->a);
	}
	fake->collect_fails = WHERRY_OK;
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
}

/* It may end the relay then, too. */
WHERRY_CASE(an_attempt_that_was_taken_back_is_on_record_when_it_is_made, relay_fixture *f)
{
	relay_fake *fake = relay_killed_with(f, "ab");
	size_t losses = fake->losses;

	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 1);
	relay_fake_break(fake, WHERRY_CLOSED);
	RELAY_UNTIL(f, &f->a, fake->losses == losses + 1);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 1);
}

WHERRY_CASE(suspects_of_an_ordered_publisher_keep_their_order, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_put(f, "aaabab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 6);
	relay_kill(f, &f->a);
	fake->by_hand = false;
	fake->most = 0;
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	relay_check_once(f, 6);
	relay_check_order(f);
}

/* Whenever 2 is in flight with others or alone, the connection goes. */
WHERRY_CASE(a_message_that_ends_its_connection_is_found_and_dies, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int64_t by_us = relay_deadline();

	fake->killer = 2;
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	for (int64_t n = 4; relay_state(f, 2) != WHERRY_DEAD; n++) {
		relay_put(f, "x"); /* others flow on meanwhile */
		while (relay_count(f, WHERRY_DONE) < n)
			relay_turn(f, &f->a, by_us, "others to flow", __LINE__, __FILE__);
		for (int i = 0; i < 5; i++)
			relay_turn(f, &f->a, by_us, "2 to die", __LINE__, __FILE__);
	}
	assert_int_equal(relay_attempts(f, 2), 5);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 1);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 0);
}

WHERRY_CASE(a_connection_lost_twice_makes_its_window_suspects, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	relay_fake_break(fake, WHERRY_CLOSED);
	RELAY_UNTIL(f, &f->a, fake->losses == 1);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 1)); /* alone, to probe */
	assert_int_equal(fake->n, 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, fake->n == 3); /* once is chance */
	relay_fake_break(fake, WHERRY_CLOSED);
	RELAY_UNTIL(f, &f->a, fake->losses == 2);
	fake->by_hand = false;
	fake->most = 0;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(fake->most, 1); /* twice is not */
	relay_check_once(f, 4);
	fake->by_hand = true;
	relay_put(f, "efgh");
	RELAY_UNTIL(f, &f->a, fake->n == 4);
}

WHERRY_CASE(a_clean_stop_leaves_no_suspects, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) > 0);
	relay_stop(f, &f->a);
	relay_put(f, "efgh");
	fake->most = 0;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	assert_int_equal(fake->most, 4);
	assert_false(relay_logged(f, "unclean-takeover"));
	relay_check_once(f, 8);
}

const relay_test relay_suspect_tests[] = {
	RELAY_TEST(after_one_unclean_end_nothing_is_tried_alone, 0),
	RELAY_TEST(a_crash_after_twice_the_window_is_the_first, 0),
	RELAY_TEST(a_renewal_alone_proves_nothing, 0),
	RELAY_TEST(an_older_lease_proves_nothing, 0),
	RELAY_TEST(after_two_unclean_ends_each_is_tried_alone_and_on_record, 0),
	RELAY_TEST(a_message_that_kills_its_relay_ends_dead, 0),
	RELAY_TEST(suspects_are_tried_in_groups_until_one_ends_its_relay_again, 0),
	RELAY_TEST(groups_without_harm_end_the_suspicion, 0),
	RELAY_TEST(being_killed_in_a_batch_is_no_attempt, 0),
	RELAY_TEST(a_suspect_that_did_no_harm_is_counted_once, 0),
	RELAY_TEST(a_throttled_suspect_is_not_counted_twice, 0),
	RELAY_TEST(a_throttled_suspect_lets_the_relay_sleep, 0),
	RELAY_TEST(suspects_die_not_of_a_destination_that_is_down, 0),
	RELAY_TEST(relays_that_end_while_the_destination_is_down_cost_no_attempt, 0),
	RELAY_TEST(an_attempt_that_was_taken_back_is_on_record_when_it_is_made, 0),
	RELAY_TEST(suspects_of_an_ordered_publisher_keep_their_order, 0),
	RELAY_TEST(a_message_that_ends_its_connection_is_found_and_dies, 0),
	RELAY_TEST(a_connection_lost_twice_makes_its_window_suspects, 0),
	RELAY_TEST(a_clean_stop_leaves_no_suspects, 0),
	RELAY_TESTS_END,
};
