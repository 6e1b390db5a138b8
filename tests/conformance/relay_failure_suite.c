/*
 * Failures: who waits, how long, and what is counted.
 */
#include "relay_suite.h"

#include "relay/relay.h"

WHERRY_CASE(a_failed_message_holds_back_its_key_only, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "abab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_put(f, "ab-");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 2, 4, 5, 7, 8);
	assert_int_equal(relay_state(f, 1), WHERRY_FAILED);
	assert_int_equal(relay_attempts(f, 1), 1);
	assert_int_equal(relay_stats(&f->a).held_keys, 1);
	assert_int_equal(relay_stats(&f->a).retried, 1);
}

WHERRY_CASE(a_held_key_goes_on_in_order, relay_fixture *f)
{
	relay_answers(f, 1, WHERRY_RETRY, 2);
	relay_answers(f, 3, WHERRY_RETRY, 1);
	relay_put(f, "abaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
	assert_int_equal(relay_attempts(f, 1), 2);
	assert_int_equal(relay_attempts(f, 3), 1);
	assert_int_equal(relay_attempts(f, 4), 0);
	assert_int_equal(relay_stats(&f->a).held_keys, 0);
}

WHERRY_CASE(a_held_key_waits_on_after_a_restart, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	relay_stop(f, &f->a);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 3);
	relay_stop(f, &f->a);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 0 WHERE id = 1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 3, 1, 2, 4);
}

WHERRY_CASE(each_retry_waits_longer, relay_fixture *f)
{
	relay_set(f, "retry.base", "20ms");
	relay_set(f, "retry.cap", "60ms");
	relay_answers(f, 1, WHERRY_RETRY, 4);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	assert_int_equal(f->n_events, 5);
	for (size_t i = 1; i < 5; i++) {
		static const int64_t least_us[] = {0, 20000, 40000, 60000, 60000};

		assert_true(f->events[i].at_us - f->events[i - 1].at_us >=
			    least_us[i] - 1000); /* the table rounds to milliseconds */
		assert_int_equal(f->events[i].attempts, i);
	}
}

WHERRY_CASE(immediate_retries_wait_for_nothing, relay_fixture *f)
{
	relay_set(f, "retry.immediate", "2");
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_set(f, "retry.jitter", "off");
	relay_answers(f, 1, WHERRY_RETRY, 3);
	relay_answers(f, 2, WHERRY_RETRY, 2);
	relay_put(f, "aba-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_attempts(f, 1) == 3);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) >= 2);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_attempts(f, 2), 2);
	assert_int_equal(relay_state(f, 2), WHERRY_DONE);
	assert_int_equal(relay_state(f, 1), WHERRY_FAILED);
	assert_int_equal(relay_attempts(f, 1), 3);
}

WHERRY_CASE(an_unordered_message_fails_and_retries_alone, relay_fixture *f)
{
	relay_answers(f, 2, WHERRY_RETRY, 3);
	relay_put(f, "---");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 1, 3, 2);
	assert_int_equal(relay_attempts(f, 2), 3);
	assert_int_equal(relay_stats(&f->a).held_keys, 0);
}

WHERRY_CASE(an_unknown_outcome_is_counted, relay_fixture *f)
{
	relay_answers(f, 1, WHERRY_UNKNOWN, 1);
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
	assert_int_equal(relay_attempts(f, 1), 1);
}

WHERRY_CASE(a_throttled_message_comes_later_in_order_and_uncounted, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->retry_after_us = 2000;
	relay_answers(f, 2, WHERRY_THROTTLED, 10);
	relay_answers(f, 4, WHERRY_THROTTLED, 3);
	relay_put(f, "aabab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	relay_check_once(f, 6);
	relay_check_order(f);
	for (int64_t id = 1; id <= 6; id++)
		assert_int_equal(relay_attempts(f, id), 0);
	assert_int_equal(relay_stats(&f->a).retried, 0);
}

WHERRY_CASE(throttling_pauses_for_as_long_as_asked, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int64_t began_us;

	fake->retry_after_us = 500000;
	relay_answers(f, 1, WHERRY_THROTTLED, 1);
	f->frozen_us = relay_now(f);
	relay_put(f, "a");
	relay_start(f, &f->a);
	f->tick_us = 10;
	RELAY_UNTIL(f, &f->a, f->n_events == 1);
	began_us = f->events[0].at_us;
	relay_put(f, "bc");
	while (relay_now(f) < began_us + 499000) {
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
		f->frozen_us += 5000;
		assert_true(f->n_events == 1 || relay_now(f) >= began_us + 500000);
	}
	f->tick_us = 1000;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_true(f->events[1].at_us - began_us >= 500000);
	relay_check_once(f, 3);
}

/* A relay that waits does not spin. */
WHERRY_CASE(throttling_lets_the_relay_sleep, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->retry_after_us = 60 * WH_SECOND;
	f->every = WHERRY_THROTTLED;
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->n_events == 2);
	relay_quiet(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 10000);
}

WHERRY_CASE(a_destination_that_is_down_lets_the_relay_sleep, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "retry.base", "1m");
	relay_set(f, "retry.cap", "1m");
	fake->submit_fails = WHERRY_CLOSED;
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	relay_quiet(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 10000);
}

static wherry_code take_long(void *ctx, const char *op, const char *what,
			     wherry_error *err)
{
	relay_fixture *f = ctx;

	if (strcmp(what, "renew") == 0)
		f->frozen_us += 20000;
	return WHERRY_OK;
}

/* Each renewal takes longer than the next one is away. */
WHERRY_CASE(a_held_key_goes_on_between_slow_renewals, relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "10ms");
	relay_set(f, "retry.base", "50ms");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	f->frozen_us = relay_now(f);
	relay_wrap(f, &(wh_trace){.before = take_long, .ctx = f});
	relay_put(f, "aab");
	relay_start(f, &f->a);
	f->tick_us = 11000;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
	relay_check_order(f);
}

WHERRY_CASE(a_retry_by_an_operator_need_not_wait, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_set(f, "relay.sweep", "1h");
	relay_set(f, "relay.idle_interval", "1h");
	relay_set(f, "relay.lease", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_answers(f, 3, WHERRY_RETRY, 1);
	relay_put(f, "aa-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 2);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_retry(f, 1u << WHERRY_FAILED), 2);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
	relay_check_order(f);
}

/* The relay hears of it when it renews its lease, before it looks for commits. */
WHERRY_CASE(a_retry_that_comes_with_a_renewal_need_not_wait, relay_fixture *f)
{
	relay_hourly(f);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_put(f, "a-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 2);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_retry(f, 1u << WHERRY_FAILED), 2);
	f->a.relay->renew_at_us = 0;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

/* The operator retries the first; the second of its key has to wait yet. */
WHERRY_CASE(a_retry_keeps_the_order_of_its_key, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_set(f, "relay.on_dead", "skip");
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_put(f, "aaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_FAILED);
	assert_int_equal(relay_retry(f, 0), 1); /* the dead one */
	relay_quiet(f, &f->a);
	relay_retry(f, 1u << WHERRY_FAILED);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_order(f);
}

WHERRY_CASE(more_than_is_remembered_of_a_held_key_leaves_in_order, relay_fixture *f)
{
	for (size_t most = 0; most < 16; most++) {
		relay_set(f, "relay.batch", most < 8 ? "1" : "500");
		relay_fresh(f);
		relay_answers(f, 1, WHERRY_RETRY, 1);
		relay_answers(f, 3, WHERRY_RETRY, 1);
		relay_put(f, "aabaabaa");
		relay_start(f, &f->a);
		f->a.relay->set.noted_most = most % 8;
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
		relay_check_once(f, 8);
		relay_check_order(f);
	}
}

const relay_test relay_failure_tests[] = {
	RELAY_TEST(a_failed_message_holds_back_its_key_only, 0),
	RELAY_TEST(a_held_key_goes_on_in_order, 0),
	RELAY_TEST(a_held_key_waits_on_after_a_restart, 0),
	RELAY_TEST(each_retry_waits_longer, 0),
	RELAY_TEST(immediate_retries_wait_for_nothing, 0),
	RELAY_TEST(an_unordered_message_fails_and_retries_alone, 0),
	RELAY_TEST(an_unknown_outcome_is_counted, 0),
	RELAY_TEST(a_throttled_message_comes_later_in_order_and_uncounted, 0),
	RELAY_TEST(throttling_pauses_for_as_long_as_asked, 0),
	RELAY_TEST(throttling_lets_the_relay_sleep, 0),
	RELAY_TEST(a_destination_that_is_down_lets_the_relay_sleep, 0),
	RELAY_TEST(a_held_key_goes_on_between_slow_renewals, 0),
	RELAY_TEST(a_retry_by_an_operator_need_not_wait, 0),
	RELAY_TEST(a_retry_that_comes_with_a_renewal_need_not_wait, 0),
	RELAY_TEST(a_retry_keeps_the_order_of_its_key, 0),
	RELAY_TEST(more_than_is_remembered_of_a_held_key_leaves_in_order, 0),
	RELAY_TESTS_END,
};
