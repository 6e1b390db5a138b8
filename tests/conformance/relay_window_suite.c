/*
 * Bounds: what is in memory, what waits, what is kept.
 */
#include "relay_suite.h"

static void put_bodies(relay_fixture *f, int n, size_t len)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "t");
	wherry_error err = WHERRY_ERROR_INIT;
	char *body = calloc(1, len);

	assert_non_null(body);
	memset(body, 'x', len);
	body[0] = body[len - 1] = '"'; /* Some layouts take only JSON. */
	m.body = body;
	m.body_len = len;
	for (int i = 0; i < n; i++)
		WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &m, WHERRY_OWN_TRANSACTION,
						  NULL, &err));
	free(body);
}

WHERRY_CASE(the_window_bounds_what_is_in_memory, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	relay_set(f, "relay.window", "10");
	fake->by_hand = true;
	relay_put(f, "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd----------");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 10);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).window, 10);
	assert_int_equal(relay_stats(&f->a).in_flight, 10);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 50);
	assert_int_equal(fake->most, 10);
	relay_check_once(f, 50);
}

WHERRY_CASE(a_window_of_one_works, relay_fixture *f)
{
	relay_set(f, "relay.window", "1");
	relay_put(f, "aab-");
	relay_answers(f, 1, WHERRY_RETRY, 2);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
}

WHERRY_CASE(window_bytes_bound_what_is_in_memory, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.window_bytes", "64KB");
	fake->by_hand = true;
	put_bodies(f, 20, (size_t)20 * 1024);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n > 0);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).window, 4); /* the fourth goes over it */
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 20);
	assert_true(fake->most <= 4);
	relay_check_once(f, 20);
}

WHERRY_CASE(a_body_over_window_bytes_passes, relay_fixture *f)
{
	relay_set(f, "relay.window_bytes", "64KB");
	put_bodies(f, 2, (size_t)1024 * 1024);
	put_bodies(f, 2, 10);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 2, 3, 4);
	assert_int_equal(f->events[0].body_len, 1024 * 1024);
	assert_int_equal(f->events[3].body_len, 10);
}

void relay_refuses_large(relay_fixture *f, bool denies)
{
	enum { LARGE = 9, SMALL = 20 };
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.window_bytes", "64KB");
	relay_set(f, "retry.base", "50ms");
	relay_set(f, "retry.cap", "50ms");
	relay_set(f, "retry.attempts", "1000");
	fake->denies = denies;
	for (int64_t id = 1; id <= LARGE; id++)
		relay_answers(f, id, WHERRY_RETRY, -1);
	put_bodies(f, LARGE, (size_t)70 * 1024);
	put_bodies(f, SMALL, 10);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == SMALL);
}

static void large_denied_messages_keep_no_small_ones(void **state)
{
	relay_refuses_large(*state, true);
}

static void large_failing_messages_keep_no_small_ones(void **state)
{
	relay_refuses_large(*state, false);
}

WHERRY_CASE(reading_stops_at_held_keys_and_goes_on_as_they_are_let_go, relay_fixture *f)
{
	relay_set(f, "relay.held_keys", "3");
	relay_set(f, "relay.down_after", "1000");
	relay_set(f, "retry.base", "100ms");
	relay_set(f, "retry.cap", "100ms");
	relay_put(f, "abcd");
	for (int64_t id = 1; id <= 4; id++)
		relay_answers(f, id, WHERRY_RETRY, 2);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 4);
	relay_put(f, "abcdefgh");
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=held-full"));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 12);
	relay_check_once(f, 12);
	relay_check_order(f);
	assert_int_equal(relay_stats(&f->a).held_keys, 0);
}

WHERRY_CASE(many_messages_behind_a_held_key_leave_in_order, relay_fixture *f)
{
	relay_set(f, "relay.batch", "7");
	relay_set(f, "relay.window", "20");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_answers(f, 50, WHERRY_RETRY, 2);
	for (int i = 0; i < 10; i++)
		relay_put(f, "aaaaaaaaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 100);
	relay_check_once(f, 100);
	relay_check_order(f);
	for (int64_t id = 3; id < 50; id++)
		assert_int_equal(relay_attempts(f, id), 0);
}

/* The rest of the key is read when there is room again: the database is not to blame. */
WHERRY_CASE(a_window_that_is_full_before_a_key_has_left_is_no_error, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.batch", "3");
	relay_set(f, "relay.window", "3");
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	fake->by_hand = true;
	relay_put(f, "aaabc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 1));
	assert_true(relay_fake_answer(fake, 1, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 4) && relay_fake_holds(fake, 5));
	assert_int_equal(relay_retry(f, 1u << WHERRY_FAILED), 1);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 1));
	fake->by_hand = false;
	for (int64_t id = 1; id <= 5; id++)
		(void)relay_fake_answer(fake, id, WHERRY_DELIVERED);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_order(f);
	assert_false(relay_logged(f, "event=database-trouble"));
}

WHERRY_CASE(a_delivered_message_is_marked, relay_fixture *f)
{
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 1);
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
}

WHERRY_CASE(delivered_messages_are_purged_after_their_retention, relay_fixture *f)
{
	relay_set(f, "outbox.retention", "1ms");
	relay_set(f, "relay.purge_every", "100ms");
	relay_put(f, "aab");
	relay_answers(f, 3, WHERRY_REJECTED, 1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 2);
	RELAY_UNTIL(f, &f->a, relay_number(f, "SELECT count(*) FROM outbox") == 1);
	assert_int_equal(relay_state(f, 3), WHERRY_DEAD); /* only what is done */
}

WHERRY_CASE(messages_after_an_idle_time_are_purged_as_soon, relay_fixture *f)
{
	int64_t began_us;

	relay_set(f, "outbox.retention", "1ms");
	relay_set(f, "relay.purge_every", "100ms");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	for (int i = 0; i < 5; i++) {
		f->offset_us += 200000;
		relay_quiet(f, &f->a);
	}
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 1);
	began_us = relay_now(f);
	RELAY_UNTIL(f, &f->a,
		    (f->offset_us += 10000,
		     relay_number(f, "SELECT count(*) FROM outbox") == 0 ||
			     relay_now(f) - began_us > 60 * WH_SECOND));
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox"), 0);
}

WHERRY_CASE(nothing_is_purged_without_a_retention, relay_fixture *f)
{
	relay_set(f, "outbox.retention", "0");
	relay_set(f, "relay.purge_every", "100ms");
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 1);
	for (int i = 0; i < 5; i++) {
		f->offset_us += 200000;
		relay_quiet(f, &f->a);
	}
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
}

/* Its time is up to the clock, which the relay's own wishes move. */
WHERRY_CASE(a_destination_that_has_room_again_is_not_kept_waiting, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int64_t from_us;

	fake->room = 4;
	relay_set(f, "relay.ack_delay", "1s");
	f->frozen_us = from_us = relay_now(f);
	for (int i = 0; i < 5; i++)
		relay_put(f, "----------------------------------------");
	relay_start(f, &f->a);
	for (int i = 0; i < 2000 && relay_delivered(f) < 200; i++)
		relay_skip(f, &f->a);
	relay_check_once(f, 200);
	assert_in_range(f->frozen_us - from_us, 0, WH_SECOND - 1);
}

const relay_test relay_window_tests[] = {
	RELAY_TEST(the_window_bounds_what_is_in_memory, 0),
	RELAY_TEST(a_window_of_one_works, 0),
	RELAY_TEST(window_bytes_bound_what_is_in_memory, 0),
	RELAY_TEST(a_body_over_window_bytes_passes, 0),
	RELAY_TEST(large_denied_messages_keep_no_small_ones, 0),
	RELAY_TEST(large_failing_messages_keep_no_small_ones, 0),
	RELAY_TEST(reading_stops_at_held_keys_and_goes_on_as_they_are_let_go, 0),
	RELAY_TEST(many_messages_behind_a_held_key_leave_in_order, 0),
	RELAY_TEST(a_window_that_is_full_before_a_key_has_left_is_no_error, 0),
	RELAY_TEST(a_destination_that_has_room_again_is_not_kept_waiting, 0),
	RELAY_TEST(a_delivered_message_is_marked, 0),
	RELAY_TEST(delivered_messages_are_purged_after_their_retention, 0),
	RELAY_TEST(messages_after_an_idle_time_are_purged_as_soon, 0),
	RELAY_TEST(nothing_is_purged_without_a_retention, 0),
	RELAY_TESTS_END,
};
