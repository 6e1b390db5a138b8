/*
 * Relays that compete: several at once on one outbox, each on what it has claimed.
 */
#include "relay_suite.h"

/* As if the claims' time had passed. */
static void expire(relay_fixture *f)
{
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 1");
}

static void make_due(relay_fixture *f)
{
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 3");
}

/* As a crash would: what it had claimed expires. */
static void crash(relay_fixture *f, relay_side *side)
{
	wherry_relay_close(side->relay);
	side->relay = NULL;
	relay_fake_drop(side->fake);
	expire(f);
}

static relay_fake *by_hand(relay_fixture *f, relay_side *side)
{
	relay_fake *fake = relay_use_fake(f, side, 0);

	fake->by_hand = true;
	return fake;
}

#define BOTH_UNTIL(f, condition)                                                         \
	do {                                                                             \
		int64_t by_ = relay_deadline();                                          \
		while (!(condition)) {                                                   \
			relay_turn((f), &(f)->a, by_, #condition, __LINE__, __FILE__);   \
			relay_turn((f), &(f)->b, by_, #condition, __LINE__, __FILE__);   \
		}                                                                        \
	} while (0)

/* ---- several at once ---- */

WHERRY_CASE(competing_relays_deliver_at_once, relay_fixture *f)
{
	relay_fake *of_a = by_hand(f, &f->a), *of_b = by_hand(f, &f->b);

	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, of_a->n == 1);
	relay_put(f, "ab");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, of_b->n == 1);
	assert_true(relay_fake_holds(of_a, 1) && relay_fake_holds(of_b, 3));
	relay_quiet(f, &f->b); /* 2 is of a's key */
	assert_int_equal(of_b->n, 1);
	assert_true(relay_fake_answer(of_a, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(of_b, 3, WHERRY_DELIVERED));
	of_a->by_hand = of_b->by_hand = false;
	BOTH_UNTIL(f, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
}

WHERRY_CASE(large_refused_messages_keep_no_small_ones_from_competing, relay_fixture *f)
{
	relay_refuses_large(f, true);
	relay_vanish(&f->a);
	relay_fresh(f);
	relay_refuses_large(f, false);
}

WHERRY_CASE(of_competing_relays_each_message_has_one_and_keys_their_order,
	    relay_fixture *f)
{
	relay_set(f, "relay.batch", "4");
	relay_use_fake(f, &f->a, 0)->slow = true;
	relay_use_fake(f, &f->b, 0)->slow = true;
	for (int i = 0; i < 8; i++)
		relay_put(f, "abcdefaabb-c");
	relay_answers(f, 3, WHERRY_RETRY, 2);
	relay_answers(f, 13, WHERRY_RETRY, 1);
	relay_answers(f, 11, WHERRY_RETRY, 3);
	relay_answers(f, 40, WHERRY_THROTTLED, 1);
	relay_start(f, &f->a);
	relay_start(f, &f->b);
	f->a.fake->retry_after_us = f->b.fake->retry_after_us = 1000;
	BOTH_UNTIL(f, relay_count(f, WHERRY_DONE) == 96);
	relay_check_once(f, 96);
	relay_check_order(f);
	assert_true(relay_stats(&f->a).delivered > 0);
	assert_true(relay_stats(&f->b).delivered > 0);
	assert_int_equal(relay_stats(&f->a).delivered + relay_stats(&f->b).delivered, 96);
	assert_int_equal(relay_stats(&f->a).stale + relay_stats(&f->b).stale, 0);
}

WHERRY_CASE(a_failed_message_is_retried_by_whoever_comes_first, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 1);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_PENDING);
	relay_start(f, &f->b);
	relay_quiet(f, &f->b);
	assert_int_equal(relay_delivered(f), 1); /* it holds its key */
	make_due(f);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 3, 1, 2);
	assert_int_equal(relay_stats(&f->b).delivered, 2);
	assert_int_equal(relay_attempts(f, 1), 1);
	assert_int_equal(relay_attempts(f, 2), 0);
}

/* With an hour to go for every time-out there is. */
WHERRY_CASE(what_waits_behind_a_retried_message_leaves_at_once, relay_fixture *f)
{
	int64_t began_us;

	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
	relay_set(f, "relay.claim_timeout", "2h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "aaa");
	began_us = relay_now(f);
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_true(relay_now(f) - began_us < 60 * WH_SECOND);
	RELAY_DELIVERED(f, 1, 2, 3);
}

/* ---- relays that end ---- */

static void check_recorded(relay_fixture *f, const wherry_message *msg)
{
	assert_int_equal(relay_state(f, msg->id), WHERRY_PROCESSING);
	assert_int_equal(relay_attempts(f, msg->id), 1);
}

WHERRY_CASE(what_a_killed_relay_held_is_tried_alone_by_another, relay_fixture *f)
{
	relay_fake *of_a = by_hand(f, &f->a), *of_b = relay_use_fake(f, &f->b, 0);

	relay_put(f, "aabc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, of_a->n == 3);
	relay_start(f, &f->b);
	relay_quiet(f, &f->b); /* they live */
	assert_int_equal(relay_delivered(f), 0);
	crash(f, &f->a);
	f->asked = check_recorded;
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(of_b->most, 1);
	relay_check_once(f, 4);
	relay_check_order(f);
	f->asked = NULL;
	relay_put(f, "abc"); /* beyond suspicion */
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 7);
	assert_int_equal(of_b->most, 3);
	assert_int_equal(relay_attempts(f, 7), 0);
}

WHERRY_CASE(a_message_that_kills_competing_relays_ends_dead, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);
	int64_t by_us = relay_deadline();
	int kills = 1;

	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	crash(f, &f->a);
	for (;;) {
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
		crash(f, &f->a);
		kills++;
	}
	assert_int_equal(kills, 6); /* one in a batch, five alone */
	assert_int_equal(relay_attempts(f, 2), 5);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 1);
}

WHERRY_CASE(a_stop_gives_back_what_was_not_tried, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);

	relay_put(f, "aaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	assert_int_equal(relay_count(f, WHERRY_PROCESSING), 3);
	wherry_relay_stop(f->a.relay);
	RELAY_UNTIL(f, &f->a, relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
	fake->by_hand = false;
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 1, 2, 3);
}

WHERRY_CASE(an_acknowledgement_of_what_another_took_over_changes_nothing,
	    relay_fixture *f)
{
	relay_fake *of_a = by_hand(f, &f->a), *of_b = by_hand(f, &f->b);

	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, of_a->n == 2);
	relay_start(f, &f->b);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE id = 1");
	RELAY_UNTIL(f, &f->b, relay_fake_holds(of_b, 1));
	assert_true(relay_fake_answer(of_a, 1, WHERRY_REJECTED));
	assert_true(relay_fake_answer(of_a, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DONE);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale == 1);
	assert_int_equal(relay_state(f, 1), WHERRY_PROCESSING);
	assert_true(relay_fake_answer(of_b, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->b, relay_state(f, 1) == WHERRY_DONE);
	assert_int_equal(relay_attempts(f, 1), 1);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	assert_int_equal(relay_stats(&f->b).stale, 0);
}

/* A person discards two claimed messages: one in flight, and one that waits for its key. */
WHERRY_CASE(a_claim_whose_row_is_gone_costs_no_other, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);

	relay_put(f, "abcad");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	assert_true(relay_fake_holds(fake, 2) && !relay_fake_holds(fake, 4));
	relay_sql(f, "DELETE FROM outbox WHERE id IN (2, 4)");
	f->offset_us += 11 * WH_SECOND; /* It renews its lease of 30 s after 10 s. */
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=claims-gone n=2 "));
	assert_int_equal(fake->n, 4);
	for (int id = 1; id <= 5; id++)
		assert_int_equal(relay_fake_answer(fake, id, WHERRY_DELIVERED), id != 4);
	fake->by_hand = false;
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 2, 3, 5, 6);
	assert_false(relay_logged(f, "event=lease-lost"));
}

WHERRY_CASE(claims_are_extended_while_a_destination_is_slow, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);

	relay_set(f, "relay.lease", "60s");
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	relay_sql(f, "UPDATE outbox SET next_retry_at = "
		     "(SELECT ms FROM wherry_clock) + 20000");
	f->offset_us += 25 * WH_SECOND;
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT min(next_retry_at) - (SELECT ms FROM "
				    "wherry_clock) FROM outbox") > 40000);
	assert_int_equal(relay_stats(&f->a).stale, 0);
	for (int i = 1; i <= 3; i++)
		assert_true(relay_fake_answer(fake, i, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
}

/* Nothing is submitted in the last tenth of what it has, be that the lease or a claim. */
WHERRY_CASE(a_lease_far_longer_than_its_claims_delivers_all_the_same, relay_fixture *f)
{
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.claim_timeout", "60s");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

/* ---- pausing, failed messages alone ---- */

WHERRY_CASE(competing_relays_take_up_what_an_operator_retries, relay_fixture *f)
{
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_retry(f, 0), 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 1);
}

/* ---- until empty ---- */

WHERRY_CASE(until_empty_competing_waits_for_retries_and_ends, relay_fixture *f)
{
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	relay_answers(f, 1, WHERRY_RETRY, 2);
	relay_put(f, "aab-");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	relay_check_once(f, 4);
	relay_check_order(f);
}

WHERRY_CASE(until_empty_competing_takes_up_expired_claims, relay_fixture *f)
{
	relay_put(f, "aab");
	relay_sql(f, "UPDATE outbox SET status = 1, claim_token = 'x', next_retry_at = "
		     "(SELECT ms FROM wherry_clock) + 200");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	RELAY_DELIVERED(f, 1, 2, 3);
}

WHERRY_CASE(until_empty_competing_waits_for_what_others_hold, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);

	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	relay_start(f, &f->b);
	wherry_relay_target(f->b.relay, WHERRY_UNTIL_EMPTY);
	relay_quiet(f, &f->b);
	assert_false(f->b.finished);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_ASLEEP_UNTIL(f, &f->b, f->b.finished);
	assert_int_equal(wherry_relay_outcome(f->b.relay), WHERRY_EMPTY);
}

/* Of suites for a relay that is alone; they make sense for one that competes on
 * another program's tables, too. */
const char *const relay_claiming_also[] = {
	"every_committed_message_is_delivered_once",
	"without_ordering_all_fly_together",
	"a_publisher_that_takes_only_some_gets_the_rest_later",
	"the_window_bounds_what_is_in_memory",
	"a_window_of_one_works",
	"each_retry_waits_longer",
	"an_unordered_message_fails_and_retries_alone",
	"throttling_pauses_for_as_long_as_asked",
	"throttling_lets_the_relay_sleep",
	"a_destination_that_is_down_lets_the_relay_sleep",
	"a_retry_by_an_operator_need_not_wait",
	"a_rejected_message_dies_at_once_and_alone",
	"all_may_be_rejected_without_the_destination_being_down",
	"five_failures_mean_that_the_destination_is_down",
	"four_failures_do_not_mean_so",
	"one_success_between_them_and_it_is_not_down",
	"probes_come_at_growing_intervals",
	"probes_rotate",
	"after_a_claim_that_failed_a_key_keeps_its_order",
	"a_row_that_cannot_be_written_holds_up_no_other",
	"a_failure_beside_a_row_that_cannot_be_written_is_recorded",
	"seventy_that_are_denied_keep_no_others",
	"seventy_that_fail_keep_no_others",
	"a_destination_that_denies_all_is_asked_rarely",
	"credentials_that_turn_out_wrong_later_are_neither",
	"a_connection_lost_while_submitting_loses_nothing",
	"a_stopping_relay_awaits_what_is_in_flight_and_submits_no_more",
	"a_stop_writes_what_waits_to_be_written",
	"a_relay_stops_while_the_destination_is_down",
	"a_stop_wakes_whoever_waits_for_the_descriptors",
	"a_second_step_after_the_end_changes_nothing",
	"a_message_that_ends_its_connection_is_found_and_dies",
	"a_retry_by_hand_is_noticed",
	"a_retry_by_hand_is_noticed_beside_new_messages",
	"an_empty_outbox_is_empty_at_once",
	"until_empty_delivers_all_and_ends",
	"until_empty_waits_for_retries",
	"until_empty_tells_of_deaths",
	"until_empty_gives_up_at_its_timeout",
	"until_empty_can_be_stopped",
	"until_empty_ignores_what_comes_after_its_start",
	"a_busy_database_is_waited_out_at_every_call",
	NULL,
};

/* Their key has a message in flight elsewhere.  Nothing is left behind of what it remembers. */
WHERRY_CASE(a_relay_may_end_at_any_step_past_rows_that_it_cannot_have, relay_fixture *f)
{
	enum { TIMES = 10, AT_ONCE = 250, STEPS = 5 };
	relay_fake *fake = by_hand(f, &f->b);
	char keys[AT_ONCE + 1];

	relay_set(f, "relay.batch", "10");
	relay_set(f, "relay.window", "10");
	memset(keys, 'a', AT_ONCE);
	keys[AT_ONCE] = 0;
	for (int i = 0; i < TIMES; i++)
		relay_put(f, keys);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_fake_holds(fake, 1));
	for (int steps = 1; steps <= STEPS; steps++) {
		relay_start(f, &f->a);
		for (int i = 0; i < steps; i++)
			relay_turn(f, &f->a, relay_deadline(), "a step", __LINE__,
				   __FILE__);
		relay_vanish(&f->a);
	}
	assert_int_equal(relay_delivered(f), 0);
}

WHERRY_CASE(a_competing_relay_of_an_empty_table_claims_nothing, relay_fixture *f)
{
	relay_only_renews(f);
}

const relay_test relay_competing_tests[] = {
	RELAY_TEST(competing_relays_deliver_at_once, RELAY_OTHERS | RELAY_KEYS),
	RELAY_TEST(large_refused_messages_keep_no_small_ones_from_competing, RELAY_KEYS),
	RELAY_TEST(of_competing_relays_each_message_has_one_and_keys_their_order,
		   RELAY_OTHERS),
	RELAY_TEST(a_failed_message_is_retried_by_whoever_comes_first,
		   RELAY_OTHERS | RELAY_KEYS),
	RELAY_TEST(what_waits_behind_a_retried_message_leaves_at_once, RELAY_KEYS),
	RELAY_TEST(what_a_killed_relay_held_is_tried_alone_by_another,
		   RELAY_OTHERS | RELAY_KEYS),
	RELAY_TEST(a_message_that_kills_competing_relays_ends_dead, 0),
	RELAY_TEST(a_stop_gives_back_what_was_not_tried, RELAY_OTHERS | RELAY_KEYS),
	RELAY_TEST(an_acknowledgement_of_what_another_took_over_changes_nothing,
		   RELAY_OTHERS),
	RELAY_TEST(claims_are_extended_while_a_destination_is_slow, 0),
	RELAY_TEST(a_claim_whose_row_is_gone_costs_no_other, RELAY_KEYS),
	RELAY_TEST(a_lease_far_longer_than_its_claims_delivers_all_the_same, 0),
	RELAY_TEST(competing_relays_take_up_what_an_operator_retries, 0),
	RELAY_TEST(until_empty_competing_waits_for_retries_and_ends, 0),
	RELAY_TEST(until_empty_competing_takes_up_expired_claims, 0),
	RELAY_TEST(until_empty_competing_waits_for_what_others_hold,
		   RELAY_OTHERS | RELAY_KEYS),
	RELAY_TEST(a_competing_relay_of_an_empty_table_claims_nothing,
		   RELAY_OTHERS | RELAY_WOKEN),
	RELAY_TEST(a_relay_may_end_at_any_step_past_rows_that_it_cannot_have,
		   RELAY_KEYS | RELAY_OTHERS),
	RELAY_TESTS_END,
};
