/*
 * Claims that expired, of relays that compete: what a relay held when it ended leaves soon,
 * what ended it is found, and the work of others goes on meanwhile.
 */
#include "relay_suite.h"

enum { MANY = 64 };

/* A relay that ended with so many messages in flight; what they were claimed for is over. */
static void end_with(relay_fixture *f, int n)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	for (int i = 0; i < n; i++)
		relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == (size_t)n);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	relay_fake_drop(fake);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 1");
}

static relay_fake *by_hand(relay_fixture *f, relay_side *side)
{
	relay_fake *fake = relay_use_fake(f, side, 0);

	fake->by_hand = true;
	return fake;
}

static void answer_all(relay_fake *fake)
{
	for (size_t i = 0; i < fake->n; i++)
		(void)relay_fake_answer(fake, fake->flights[i].msg->id, WHERRY_DELIVERED);
}

static int64_t most_attempts(relay_fixture *f)
{
	return relay_number(f, "SELECT max(attempts) FROM outbox");
}

WHERRY_CASE(many_that_expired_together_are_tried_in_shares, relay_fixture *f)
{
	relay_fake *fake;

	end_with(f, MANY);
	fake = by_hand(f, &f->b);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, fake->n == MANY / 8);
	relay_quiet(f, &f->b);
	assert_int_equal(fake->n, MANY / 8);
	assert_int_equal(most_attempts(f), 0);
	answer_all(fake);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == MANY / 8);
	RELAY_UNTIL(f, &f->b, fake->n == (MANY - MANY / 8) / 8);
	assert_int_equal(most_attempts(f), 0);
	fake->by_hand = false;
	answer_all(fake);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == MANY);
	relay_check_once(f, MANY);
	assert_int_equal(most_attempts(f), 1); /* the last eight were tried alone */
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 8);
}

WHERRY_CASE(fresh_messages_leave_between_those_that_expired, relay_fixture *f)
{
	relay_fake *fake;

	end_with(f, 3);
	relay_put(f, "abcdefghijklmnop");
	fake = by_hand(f, &f->b);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, fake->n == 1);
	relay_quiet(f, &f->b);
	assert_int_equal(fake->n, 1); /* alone */
	assert_true(relay_fake_holds(fake, 1));
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->b, fake->n == 8);
	relay_quiet(f, &f->b);
	assert_int_equal(fake->n, 8);
	assert_true(relay_fake_holds(fake, 4) && relay_fake_holds(fake, 11));
	answer_all(fake);
	RELAY_UNTIL(f, &f->b, fake->n == 1 && relay_fake_holds(fake, 2));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->b, fake->n == 8);
	answer_all(fake);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 19);
	relay_check_once(f, 19);
}

/* One that waits for its last message to land finds that others were faster. */
static void a_relay_that_waits_to_try_what_expired_goes_on_when_another_took_it(
	void **state)
{
	relay_fixture *f = *state;
	relay_fake *of_b;

	end_with(f, 1);
	of_b = by_hand(f, &f->b);
	relay_sql(f, "UPDATE outbox SET next_retry_at = "
		     "(SELECT ms FROM wherry_clock) + 3600000");
	relay_put(f, "x");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_fake_holds(of_b, 2));
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE id = 1");
	relay_put(f, "y");
	f->offset_us += 60 * WH_SECOND * 60; /* b knows when it expires */
	relay_sql(f, "UPDATE outbox SET next_retry_at = "
		     "(SELECT ms FROM wherry_clock) + 3600000 WHERE id = 2");
	relay_quiet(f, &f->b);
	assert_false(relay_fake_holds(of_b, 3));
	relay_set(f, "relay.window", "1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(f->a.fake, 1));
	RELAY_UNTIL(f, &f->b, relay_fake_holds(of_b, 3));
	assert_true(relay_fake_holds(of_b, 2));
}

/* Turn until message 40 is in flight, answering what is in flight without it, or until it
 * is dead. */
static bool kills_again(relay_fixture *f, relay_fake *fake)
{
	int64_t by_us = relay_deadline();

	while (relay_state(f, 40) != WHERRY_DEAD) {
		if (relay_fake_holds(fake, 40))
			return true;
		answer_all(fake);
		relay_turn(f, &f->a, by_us, "40 in flight", __LINE__, __FILE__);
	}
	return false;
}

WHERRY_CASE(one_of_many_that_kills_its_relays_is_found_and_only_it_dies, relay_fixture *f)
{
	int kills = 1;

	end_with(f, MANY);
	for (;;) {
		relay_start(f, &f->a);
		if (!kills_again(f, f->a.fake))
			break;
		wherry_relay_close(f->a.relay);
		f->a.relay = NULL;
		relay_fake_drop(f->a.fake);
		relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 1");
		kills++;
	}
	assert_int_equal(kills, 1 + 1 + 5); /* with all, in a share, and alone */
	f->a.fake->by_hand = false;
	answer_all(f->a.fake);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == MANY - 1);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 1);
	assert_int_equal(relay_attempts(f, 40), 5);
	assert_in_range(
		relay_number(f, "SELECT max(attempts) FROM outbox WHERE id <> 40"), 0, 1);
}

/* The figures of the one that lost it do not count what did not happen. */
WHERRY_CASE(what_another_took_over_is_not_counted, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);

	relay_put(f, "abcde");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 5);
	relay_sql(f, "UPDATE outbox SET claim_token = 'thief' WHERE id <> 4");
	assert_true(relay_fake_answer(fake, 1, WHERRY_REJECTED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 3, WHERRY_RETRY));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 5, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale == 4);
	assert_int_equal(relay_stats(&f->a).delivered, 1);
	assert_int_equal(relay_stats(&f->a).dead, 0);
	assert_int_equal(relay_stats(&f->a).retried, 0);
	assert_false(relay_logged(f, "event=dead"));
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
	relay_put(f, "ac"); /* their keys are held by nobody here */
	relay_sql(f, "UPDATE outbox SET status = 2 WHERE claim_token = 'thief'");
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 6) && relay_fake_holds(fake, 7));
}

const relay_test relay_expiry_tests[] = {
	RELAY_TEST(many_that_expired_together_are_tried_in_shares, RELAY_OTHERS),
	RELAY_TEST(fresh_messages_leave_between_those_that_expired, RELAY_OTHERS),
	RELAY_TEST(a_relay_that_waits_to_try_what_expired_goes_on_when_another_took_it,
		   RELAY_OTHERS),
	RELAY_TEST(one_of_many_that_kills_its_relays_is_found_and_only_it_dies, 0),
	RELAY_TEST(what_another_took_over_is_not_counted, RELAY_KEYS),
	RELAY_TESTS_END,
};
