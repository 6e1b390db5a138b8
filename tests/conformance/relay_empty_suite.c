/*
 * Until empty, with wherry_relay_run(): its waits are the relay's own.
 */
#include "relay_suite.h"

WHERRY_CASE(an_empty_outbox_is_empty_at_once, relay_fixture *f)
{
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	assert_int_equal(relay_delivered(f), 0);
}

WHERRY_CASE(until_empty_delivers_all_and_ends, relay_fixture *f)
{
	relay_put(f, "abcab-");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	RELAY_DELIVERED(f, 1, 2, 3, 4, 5, 6);
	assert_int_equal(relay_count(f, WHERRY_DONE), 6);
}

WHERRY_CASE(until_empty_waits_for_retries, relay_fixture *f)
{
	relay_set(f, "retry.base", "50ms");
	relay_answers(f, 1, WHERRY_RETRY, 3);
	relay_answers(f, 3, WHERRY_RETRY, 2);
	relay_put(f, "aa-b");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	relay_check_once(f, 4);
	relay_check_order(f);
}

WHERRY_CASE(until_empty_waits_for_retries_of_an_earlier_run, relay_fixture *f)
{
	relay_set(f, "retry.base", "200ms");
	relay_set(f, "retry.cap", "200ms");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 1);
	relay_stop(f, &f->a);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	RELAY_DELIVERED(f, 1, 2);
}

WHERRY_CASE(until_empty_tells_of_deaths, relay_fixture *f)
{
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "aab");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_DEATHS);
	assert_int_equal(relay_delivered(f), 2);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL; /* in a later run nothing dies */
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
}

WHERRY_CASE(until_empty_tells_of_parked_messages, relay_fixture *f)
{
	relay_set(f, "relay.on_dead", "park");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "aab");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_PARKED);
	RELAY_DELIVERED(f, 3);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_PARKED);
	RELAY_DELIVERED(f, 3);
}

WHERRY_CASE(until_empty_with_nothing_behind_the_parked_one_is_deaths, relay_fixture *f)
{
	relay_set(f, "relay.on_dead", "park");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "ab");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_DEATHS);
}

WHERRY_CASE(until_empty_gives_up_at_its_timeout, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;

	f->every = WHERRY_RETRY;
	relay_set(f, "relay.timeout", "100ms");
	relay_set(f, "retry.attempts", "1000");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	WHERRY_PASS(wherry_relay_run(f->a.relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	assert_int_equal(outcome, WHERRY_TIMEDOUT);
}

WHERRY_CASE(until_empty_can_be_stopped, relay_fixture *f)
{
	relay_put(f, "ab");
	relay_start(f, &f->a);
	wherry_relay_stop(f->a.relay);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_STOPPED);
	assert_int_equal(relay_delivered(f), 0);
}

WHERRY_CASE(until_empty_waits_while_the_outbox_is_paused, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;

	relay_set(f, "relay.timeout", "100ms");
	relay_put(f, "ab");
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	relay_start(f, &f->a);
	WHERRY_PASS(wherry_relay_run(f->a.relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	assert_int_equal(outcome, WHERRY_TIMEDOUT);
	assert_int_equal(relay_delivered(f), 0);
}

/* A consumer that sends a new message for each it gets. */
static void put_another(relay_fixture *f, const wherry_message *msg)
{
	relay_put(f, "z");
}

WHERRY_CASE(until_empty_ignores_what_comes_after_its_start, relay_fixture *f)
{
	relay_use_fake(f, &f->a, 0)->slow = true; /* something is always in flight */
	relay_put(f, "abc");
	f->asked = put_another;
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	for (int64_t id = 1; id <= 3; id++)
		assert_int_equal(relay_state(f, id), WHERRY_DONE);
	assert_true(relay_count(f, WHERRY_PENDING) > 0);
	assert_int_equal(relay_stats(&f->a).in_flight, 0);
}

WHERRY_CASE(until_empty_works_while_another_relay_delivers, relay_fixture *f)
{
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_put(f, "abc");
	relay_start(f, &f->b);
	wherry_relay_target(f->b.relay, WHERRY_UNTIL_EMPTY);
	relay_quiet(f, &f->b);
	assert_false(f->b.finished);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_ASLEEP_UNTIL(f, &f->b, f->b.finished);
	assert_int_equal(wherry_relay_outcome(f->b.relay), WHERRY_EMPTY);
	assert_int_equal(relay_stats(&f->b).delivered, 0);
}

WHERRY_CASE(until_empty_goes_on_where_another_relay_died, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	(void)relay_lease_briefly(f);
	fake->by_hand = true;
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	assert_int_equal(relay_run_empty(f, &f->b), WHERRY_EMPTY);
	relay_check_once(f, 3);
}

/* Rows that a crash left behind, claimed. */
WHERRY_CASE(until_empty_takes_up_expired_claims, relay_fixture *f)
{
	relay_put(f, "ab");
	relay_sql(f, "UPDATE outbox SET status = 1, attempts = 1, claimed_at = 1");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	relay_check_once(f, 2);
}

const relay_test relay_empty_tests[] = {
	RELAY_TEST(an_empty_outbox_is_empty_at_once, 0),
	RELAY_TEST(until_empty_delivers_all_and_ends, 0),
	RELAY_TEST(until_empty_waits_for_retries, 0),
	RELAY_TEST(until_empty_waits_for_retries_of_an_earlier_run, 0),
	RELAY_TEST(until_empty_tells_of_deaths, 0),
	RELAY_TEST(until_empty_tells_of_parked_messages, 0),
	RELAY_TEST(until_empty_with_nothing_behind_the_parked_one_is_deaths, 0),
	RELAY_TEST(until_empty_gives_up_at_its_timeout, 0),
	RELAY_TEST(until_empty_can_be_stopped, 0),
	RELAY_TEST(until_empty_waits_while_the_outbox_is_paused, 0),
	RELAY_TEST(until_empty_ignores_what_comes_after_its_start, 0),
	RELAY_TEST(until_empty_works_while_another_relay_delivers, RELAY_OTHERS),
	RELAY_TEST(until_empty_goes_on_where_another_relay_died, RELAY_OTHERS),
	RELAY_TEST(until_empty_takes_up_expired_claims, 0),
	RELAY_TESTS_END,
};
