/*
 * The destination is down: it is not the messages' fault.
 */
#include "relay_suite.h"

static void five_failures_mean_that_the_destination_is_down(void **state)
{
	relay_fixture *f = *state;

	f->every = WHERRY_RETRY;
	relay_put(f, "abcdefgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	RELAY_UNTIL(f, &f->a, f->n_events > 60);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	for (int64_t id = 1; id <= 8; id++)
		assert_int_equal(relay_attempts(f, id), id < 5 ? 1 : 0);
	assert_true(relay_logged(f, "event=destination-down why=\"the test said so\""));
	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	relay_check_once(f, 8);
	assert_false(relay_stats(&f->a).down);
	assert_true(relay_logged(f, "event=destination-up"));
}

static void four_failures_do_not_mean_so(void **state)
{
	relay_fixture *f = *state;

	for (int64_t id = 1; id <= 4; id++)
		relay_answers(f, id, WHERRY_RETRY, -1);
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 4);
	assert_false(relay_logged(f, "event=destination-down"));
}

static void one_success_between_them_and_it_is_not_down(void **state)
{
	relay_fixture *f = *state;

	for (int64_t id = 1; id <= 9; id++)
		if (id != 5)
			relay_answers(f, id, WHERRY_RETRY, 1);
	relay_put(f, "abcdefghi");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 9);
	assert_false(relay_logged(f, "event=destination-down"));
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 8);
}

static void all_keys_recover_in_order(void **state)
{
	relay_fixture *f = *state;

	f->every = WHERRY_RETRY;
	relay_put(f, "abcdefghaabbccddeeffgghh--");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, f->n_events > 50);
	relay_put(f, "abc");
	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 32);
	relay_check_once(f, 32);
	relay_check_order(f);
}

static void one_message_probes_at_growing_intervals(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	size_t first, probes = 0;

	relay_set(f, "retry.base", "100ms");
	relay_set(f, "retry.cap", "2s");
	f->every = WHERRY_RETRY;
	f->frozen_us = relay_now(f);
	relay_put(f, "abcdefgh");
	relay_start(f, &f->a);
	f->tick_us = 10;
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	fake->most = 0;
	first = f->n_events;
	for (int64_t by_us = relay_deadline(); f->n_events < first + 8;) {
		if (wh_monotonic(&wh_env_system) > by_us)
			fail_msg("%zu probes", f->n_events - first);
		relay_skip(f, &f->a);
		f->frozen_us += 10;
	}
	assert_true(fake->most <= 1);
	for (size_t i = first + 1; i < f->n_events; i++, probes++) {
		int64_t gap_us = f->events[i].at_us - f->events[i - 1].at_us;
		int64_t least_us = probes < 4 ? 200000 << probes : 2 * WH_SECOND;

		assert_true(gap_us >= least_us && gap_us < least_us + 100000);
	}
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
}

static void probes_rotate(void **state)
{
	relay_fixture *f = *state;

	f->every = WHERRY_RETRY;
	for (int64_t id = 9; id <= 11; id++)
		relay_answers(f, id, WHERRY_DELIVERED, -1);
	relay_put(f, "abcdefgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down && f->n_events > 20);
	for (size_t i = 12; i < 20; i++)
		assert_int_not_equal(f->events[i].id, f->events[i - 1].id);
	relay_put(f,
		  "xyz"); /* bad ones at the front do not keep good ones from leaving */
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
}

static void only_the_first_of_a_key_probes(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_put(f, "aaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	relay_fake_break(fake, WHERRY_CLOSED);
	for (int round = 0; round < 4; round++) {
		RELAY_UNTIL(f, &f->a,
			    relay_stats(&f->a).down && fake->n &&
				    !fake->flights[fake->n - 1].answered);
		assert_int_equal(fake->n, 1);
		assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	}
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_order(f);
}

/* The window is one message, which ends each connection; what waits behind it in its key
 * must not take its place either. */
static void a_window_full_of_what_breaks_the_connection_lets_others_probe(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.window", "1");
	relay_set(f, "retry.attempts", "2");
	fake->killer = 1;
	relay_put(f, "aaaab-cdefgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 11);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	assert_int_equal(relay_state(f, 1), WHERRY_DEAD);
	relay_check_order(f);
	assert_int_equal(fake->most, 1);
}

static void wrong_credentials_are_nobodys_death(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->submit_fails = WHERRY_DENIED;
	relay_put(f, "aabc-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->losses > 20);
	assert_true(relay_stats(&f->a).down);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 5);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	assert_true(relay_logged(f, "event=destination-down"));
	fake->submit_fails = WHERRY_OK;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
}

static void credentials_that_turn_out_wrong_later_are_neither(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	fake->collect_fails = WHERRY_INVALID;
	relay_put(f, "aabc-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->losses > 20);
	assert_true(relay_stats(&f->a).down);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	fake->collect_fails = WHERRY_OK;
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
}

static void a_lost_connection_redelivers_all_in_order_uncounted(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_put(f, "aabba-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 6);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	relay_fake_break(fake, WHERRY_CLOSED);
	RELAY_UNTIL(f, &f->a, fake->losses == 1);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	RELAY_DELIVERED(f, 1, 2, 3, 4, 5, 6);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	assert_int_equal(relay_stats(&f->a).suspects, 0);
	assert_int_equal(relay_stats(&f->a).retried, 0);
}

static void a_connection_lost_while_submitting_loses_nothing(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->takes = 2;
	fake->submit_fails = WHERRY_CLOSED;
	fake->failures = 2;
	relay_put(f, "aabba-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	relay_check_once(f, 6);
	relay_check_order(f);
	assert_int_equal(fake->losses, 2);
}

const relay_test relay_down_tests[] = {
	RELAY_TEST(five_failures_mean_that_the_destination_is_down, 0),
	RELAY_TEST(four_failures_do_not_mean_so, 0),
	RELAY_TEST(one_success_between_them_and_it_is_not_down, 0),
	RELAY_TEST(all_keys_recover_in_order, 0),
	RELAY_TEST(one_message_probes_at_growing_intervals, 0),
	RELAY_TEST(probes_rotate, 0),
	RELAY_TEST(only_the_first_of_a_key_probes, 0),
	RELAY_TEST(a_window_full_of_what_breaks_the_connection_lets_others_probe, 0),
	RELAY_TEST(wrong_credentials_are_nobodys_death, 0),
	RELAY_TEST(credentials_that_turn_out_wrong_later_are_neither, 0),
	RELAY_TEST(a_lost_connection_redelivers_all_in_order_uncounted, 0),
	RELAY_TEST(a_connection_lost_while_submitting_loses_nothing, 0),
	RELAY_TESTS_END,
};
