/*
 * The destination is down: it is not the messages' fault.
 */
#include "relay_suite.h"

WHERRY_CASE(five_failures_mean_that_the_destination_is_down, relay_fixture *f)
{
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

WHERRY_CASE(four_failures_do_not_mean_so, relay_fixture *f)
{
	for (int64_t id = 1; id <= 4; id++)
		relay_answers(f, id, WHERRY_RETRY, -1);
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 4);
	assert_false(relay_logged(f, "event=destination-down"));
}

/* It has one message at a time, and takes so long that those that failed are due again before
 * five different ones were tried. */
WHERRY_CASE(a_destination_that_fails_slowly_ends_no_message, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	fake->room = 1;
	relay_put(f, "abcdefgh");
	relay_start(f, &f->a);
	for (int i = 0; i < 30; i++) {
		RELAY_UNTIL(f, &f->a, fake->n == 1);
		f->offset_us += 50000;
		for (int k = 0; k < 3; k++)
			relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__,
				   __FILE__);
		assert_true(
			relay_fake_answer(fake, fake->flights[0].msg->id, WHERRY_RETRY));
		RELAY_UNTIL(f, &f->a, !fake->n || !fake->flights[0].answered);
		f->offset_us += 50000;
	}
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	assert_true(relay_logged(f, "event=destination-down"));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	relay_check_once(f, 8);
}

/* It answers one message at once and the others late. */
WHERRY_CASE(a_message_that_fails_waits_for_the_answers_of_others, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "abb");
	relay_start(f, &f->a);
	for (int i = 0; i < 10; i++) {
		RELAY_UNTIL(f, &f->a, relay_fake_answer(fake, 1, WHERRY_RETRY));
		RELAY_UNTIL(f, &f->a, fake->n == 1);
		f->offset_us += 50000;
	}
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	assert_false(relay_logged(f, "event=destination-down"));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_fake_answer(fake, 1, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	RELAY_UNTIL(f, &f->a, relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
}

static void slowly(relay_fixture *f, const wherry_message *msg)
{
	f->offset_us += 50000;
}

/* Fewer keys begin with messages than must fail until it is down, or it has one message at a
 * time. */
WHERRY_CASE(a_destination_that_refuses_few_keys_ends_no_message, relay_fixture *f)
{
	static const struct {
		const char *keys, *window;
		size_t refusals; /* More than all first messages have attempts. */
	} cases[] = {
		{"aaaaaa", "100", 8}, {"aabbab", "100", 13}, {"abcdabcd", "100", 23},
		{"aaaaaa", "1", 8},   {"aabbab", "1", 13},   {"abcdefgh", "1", 13},
	};

	relay_set(f, "retry.cap", "1s"); /* A message dies after ten at the earliest. */
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int64_t n = (int64_t)strlen(cases[i].keys);

		if (i)
			relay_fresh(f);
		relay_set(f, "relay.window", cases[i].window);
		f->every = WHERRY_RETRY;
		f->asked = slowly;
		relay_put(f, cases[i].keys);
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, f->n_events >= cases[i].refusals);
		assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
		f->every = WHERRY_DELIVERED;
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == n);
		relay_check_once(f, n);
		relay_check_order(f);
	}
}

WHERRY_CASE(a_destination_of_cheap_probes_is_probed_often, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	int64_t last_us = 0;

	fake->driver.probe_cap_us = 4 * WH_SECOND;
	fake->collect_fails = WHERRY_CLOSED;
	fake->by_hand = true;
	relay_put(f, "a");
	relay_start(f, &f->a);
	for (size_t i = 0; i < 12; i++) {
		RELAY_UNTIL(f, &f->a, fake->losses > i);
		assert_true(!i || relay_now(f) - last_us < 5 * WH_SECOND);
		last_us = relay_now(f);
	}
}

/* Nothing that the destination takes can be tried before the bad messages are dead.  One dies
 * in ten times retry.cap: it may be the destination's fault. */
WHERRY_CASE(bad_messages_at_the_front_of_all_keys_die, relay_fixture *f)
{
	int64_t first_us;

	for (int64_t id = 1; id <= 4; id++)
		relay_answers(f, id, WHERRY_RETRY, -1);
	relay_put(f, "aabbabab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	first_us = relay_now(f);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 4);
	/* The fourth one dies sooner: the other key has reached a good message. */
	assert_true(relay_now(f) - first_us >= 190000);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_order(f);
	assert_true(relay_logged(f, "event=last-attempt"));
	assert_false(relay_logged(f, "event=destination-down"));
}

WHERRY_CASE(one_success_between_them_and_it_is_not_down, relay_fixture *f)
{
	for (int64_t id = 1; id <= 9; id++)
		if (id != 5)
			relay_answers(f, id, WHERRY_RETRY, 1);
	relay_put(f, "abcdefghi");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 9);
	assert_false(relay_logged(f, "event=destination-down"));
	for (int64_t id = 1; id <= 9; id++)
		assert_int_equal(relay_attempts(f, id), id != 5);
}

WHERRY_CASE(all_keys_recover_in_order, relay_fixture *f)
{
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

WHERRY_CASE(probes_come_at_growing_intervals, relay_fixture *f)
{
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

WHERRY_CASE(probes_rotate, relay_fixture *f)
{
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

WHERRY_CASE(only_the_first_of_a_key_probes, relay_fixture *f)
{
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
WHERRY_CASE(a_window_full_of_what_breaks_the_connection_lets_others_probe,
	    relay_fixture *f)
{
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

WHERRY_CASE(wrong_credentials_are_nobodys_death, relay_fixture *f)
{
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

WHERRY_CASE(credentials_that_turn_out_wrong_later_are_neither, relay_fixture *f)
{
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

WHERRY_CASE(a_lost_connection_redelivers_all_in_order_uncounted, relay_fixture *f)
{
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

WHERRY_CASE(a_connection_lost_while_submitting_loses_nothing, relay_fixture *f)
{
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

/* ---- a destination that refuses some messages ---- */

enum { ROW_OF_KEYS = 200 };

static void put_many(relay_fixture *f, size_t n)
{
	char keys[ROW_OF_KEYS + 1];

	while (n) {
		size_t some = n < ROW_OF_KEYS ? n : ROW_OF_KEYS;

		memset(keys, '-', some);
		keys[some] = 0;
		relay_put(f, keys);
		n -= some;
	}
}

/* Refuses every message up to this one. */
static int64_t refused_upto, n_refused, n_taken;

static wherry_verdict refuse_the_first(void *ctx, const wherry_message *msg)
{
	relay_fixture *f = ctx;
	int64_t id = f->target->tables && !f->target->keeps_ids
			     ? strtoll(msg->message_id, NULL, 10)
			     : msg->id;

	n_refused += id <= refused_upto;
	n_taken += id > refused_upto;
	return id <= refused_upto ? WHERRY_RETRY : WHERRY_DELIVERED;
}

static relay_fake *begin_refusing(relay_fixture *f, int64_t upto, bool denies)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	refused_upto = upto;
	n_refused = n_taken = 0;
	fake->decide = refuse_the_first;
	fake->denies = denies;
	fake->room = upto >= 1000 ? 64 : 8;
	return fake;
}

/* The refused ones are retried until they are dead, as long as others are taken. */
static void check_that_the_refused_die(relay_fixture *f, int64_t n)
{
	int64_t taken = n_taken;

	RELAY_UNTIL(f, &f->a, n_refused >= n && relay_count(f, WHERRY_PENDING) == 0);
	for (int round = 0; round < 40 && relay_count(f, WHERRY_DEAD) < n; round++) {
		int64_t before = n_refused;

		relay_put(f, "-");
		RELAY_UNTIL(f, &f->a, n_taken > taken + round);
		RELAY_UNTIL(f, &f->a,
			    n_refused >= before + n || relay_count(f, WHERRY_DEAD) == n);
	}
	assert_int_equal(relay_count(f, WHERRY_DEAD), n);
}

/* Each RELAY_UNTIL has its own time limit, and refused messages are due again after 10 ms:
 * each of thousands is tried several times before the last good one is taken. */
static void refuse_before_good_ones(relay_fixture *f, int64_t n, bool denies)
{
	enum { GOOD = 200 };

	(void)begin_refusing(f, n, denies);
	put_many(f, (size_t)n + GOOD);
	relay_start(f, &f->a);
	for (int64_t seen = 0; seen < n; seen += 250)
		RELAY_UNTIL(f, &f->a, n_refused > seen);
	for (int64_t seen = 0; seen < GOOD; seen += 5)
		RELAY_UNTIL(f, &f->a, n_taken > seen);
	RELAY_UNTIL(f, &f->a, n_taken == GOOD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == GOOD);
	assert_int_equal(n_taken, GOOD);
}

static void seventy_that_are_denied_keep_no_others(void **state)
{
	refuse_before_good_ones(*state, 70, true);
	check_that_the_refused_die(*state, 70);
}

static void seventy_that_fail_keep_no_others(void **state)
{
	refuse_before_good_ones(*state, 70, false);
	check_that_the_refused_die(*state, 70);
}

static void thousands_that_are_denied_keep_no_others(void **state)
{
	refuse_before_good_ones(*state, 2000, true);
}

static void more_that_are_denied_than_fit_in_the_window_keep_no_others(void **state)
{
	relay_set(*state, "relay.window", "20");
	refuse_before_good_ones(*state, 70, true);
	check_that_the_refused_die(*state, 70);
}

/* A rejection may be the same for every message: the destination has not taken one yet. */
static relay_fake *begin_rejecting(relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->denies = true;
	f->every = WHERRY_REJECTED;
	return fake;
}

WHERRY_CASE(a_destination_that_rejects_all_from_the_start_ends_no_message,
	    relay_fixture *f)
{
	(void)begin_rejecting(f);
	relay_put(f, "abcdefgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	RELAY_UNTIL(f, &f->a, f->n_events > 60);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	relay_check_once(f, 8);
}

WHERRY_CASE(a_destination_that_begins_to_reject_all_ends_few, relay_fixture *f)
{
	(void)begin_rejecting(f);
	f->every = WHERRY_DELIVERED;
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	f->every = WHERRY_REJECTED;
	relay_put(f, "bcdefghijklmnopqrst");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	RELAY_UNTIL(f, &f->a, f->n_events > 60);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 4); /* relay.down_after - 1 */
	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 16);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 4);
}

WHERRY_CASE(a_message_rejected_alone_ends_once_another_is_taken, relay_fixture *f)
{
	(void)begin_rejecting(f);
	f->every = WHERRY_DELIVERED;
	relay_set(f, "retry.attempts", "1000");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_attempts(f, 1) > 0);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	assert_true(relay_told(f, 1, WHERRY_REJECTED) >= 2);
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
}

WHERRY_CASE(one_that_is_rejected_beside_others_ends_at_once, relay_fixture *f)
{
	(void)begin_rejecting(f);
	f->every = WHERRY_DELIVERED;
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_put(f, "bc");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_told(f, 2, WHERRY_REJECTED), 1);
}

WHERRY_CASE(one_that_is_rejected_alone_uses_up_its_attempts, relay_fixture *f)
{
	(void)begin_rejecting(f);
	relay_set(f, "retry.base", "1ms");
	relay_set(f, "retry.cap", "1ms");
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	assert_int_equal(relay_attempts(f, 1), 5);
	/* The last attempt does not count within 10 ms, ten times retry.cap, of the first. */
	assert_in_range(relay_told(f, 1, WHERRY_REJECTED), 5, 15);
	assert_false(relay_stats(&f->a).down);
}

/* However often each message is tried. */
WHERRY_CASE(a_destination_that_denies_all_costs_no_attempt, relay_fixture *f)
{
	relay_fake *fake = begin_refusing(f, INT64_MAX, true);

	put_many(f, 20);
	relay_put(f, "aabbccaabbcc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, n_refused > 300);
	assert_true(relay_stats(&f->a).down);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	assert_int_equal(relay_stats(&f->a).retried, 0);
	refused_upto = 0;
	fake->room = 0;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 32);
	relay_check_once(f, 32);
	relay_check_order(f);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
}

/* All messages are tried once; then one at a time, at the longest interval. */
WHERRY_CASE(a_destination_that_denies_all_is_asked_rarely, relay_fixture *f)
{
	int64_t began, asked;

	(void)begin_refusing(f, INT64_MAX, true);
	put_many(f, 100);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, n_refused > 150);
	asked = n_refused;
	began = relay_now(f);
	RELAY_UNTIL(f, &f->a, n_refused >= asked + 20);
	assert_true(relay_now(f) - began >= 19 * (int64_t)10000);
}

const relay_test relay_down_tests[] = {
	RELAY_TEST(seventy_that_are_denied_keep_no_others, 0),
	RELAY_TEST(seventy_that_fail_keep_no_others, 0),
	RELAY_TEST(thousands_that_are_denied_keep_no_others, RELAY_ALONE),
	RELAY_TEST(more_that_are_denied_than_fit_in_the_window_keep_no_others, 0),
	RELAY_TEST(a_destination_that_rejects_all_from_the_start_ends_no_message, 0),
	RELAY_TEST(a_destination_that_begins_to_reject_all_ends_few, 0),
	RELAY_TEST(a_message_rejected_alone_ends_once_another_is_taken, 0),
	RELAY_TEST(one_that_is_rejected_beside_others_ends_at_once, 0),
	RELAY_TEST(one_that_is_rejected_alone_uses_up_its_attempts, 0),
	RELAY_TEST(a_destination_that_denies_all_costs_no_attempt, 0),
	RELAY_TEST(a_destination_that_denies_all_is_asked_rarely, 0),
	RELAY_TEST(five_failures_mean_that_the_destination_is_down, 0),
	RELAY_TEST(four_failures_do_not_mean_so, 0),
	RELAY_TEST(a_destination_that_fails_slowly_ends_no_message, 0),
	RELAY_TEST(a_message_that_fails_waits_for_the_answers_of_others, 0),
	RELAY_TEST(a_destination_that_refuses_few_keys_ends_no_message, 0),
	RELAY_TEST(a_destination_of_cheap_probes_is_probed_often, 0),
	RELAY_TEST(bad_messages_at_the_front_of_all_keys_die, 0),
	RELAY_TEST(one_success_between_them_and_it_is_not_down, 0),
	RELAY_TEST(all_keys_recover_in_order, 0),
	RELAY_TEST(probes_come_at_growing_intervals, 0),
	RELAY_TEST(probes_rotate, 0),
	RELAY_TEST(only_the_first_of_a_key_probes, 0),
	RELAY_TEST(a_window_full_of_what_breaks_the_connection_lets_others_probe, 0),
	RELAY_TEST(wrong_credentials_are_nobodys_death, 0),
	RELAY_TEST(credentials_that_turn_out_wrong_later_are_neither, 0),
	RELAY_TEST(a_lost_connection_redelivers_all_in_order_uncounted, 0),
	RELAY_TEST(a_connection_lost_while_submitting_loses_nothing, 0),
	RELAY_TESTS_END,
};
