/*
 * Stopping; and what a relay refuses.
 */
#include <poll.h>

#include "relay_suite.h"

static relay_fake *in_flight(relay_fixture *f, const char *keys)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_put(f, keys);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == strlen(keys));
	return fake;
}

static int64_t lease_left(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;

	if (!f->outbox)
		return 0; /* it has none */
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	return status.lease_left_us;
}

WHERRY_CASE(a_stopping_relay_awaits_what_is_in_flight_and_submits_no_more,
	    relay_fixture *f)
{
	relay_fake *fake = in_flight(f, "abc");

	wherry_relay_stop(f->a.relay);
	relay_put(f, "cd");
	relay_quiet(f, &f->a);
	assert_false(f->a.finished);
	assert_int_equal(fake->n, 3);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 3, WHERRY_REJECTED));
	relay_quiet(f, &f->a);
	assert_false(f->a.finished);
	assert_true(relay_fake_answer(fake, 2, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(wherry_relay_outcome(f->a.relay), WHERRY_STOPPED);
	assert_int_equal(fake->n, 0);
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
	assert_int_equal(relay_state(f, 2), WHERRY_FAILED);
	assert_int_equal(relay_state(f, 3), WHERRY_DEAD);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_int_equal(lease_left(f), 0);
	assert_int_equal(relay_stats(&f->a).epoch, 0);
}

WHERRY_CASE(a_stop_waits_no_longer_than_its_timeout, relay_fixture *f)
{
	relay_fake *fake;

	relay_set(f, "relay.stop_timeout", "50ms");
	fake = in_flight(f, "abc");
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	wherry_relay_stop(f->a.relay);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_true(relay_logged(f, "event=stop-timeout in_flight=2"));
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_true(lease_left(f) > 0); /* they may arrive yet: suspects */
	relay_kill(f, &f->a);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
}

WHERRY_CASE(a_relay_that_is_killed_while_it_stops_leaves_no_suspects, relay_fixture *f)
{
	static const char *const timeouts[] = {"50ms", "1h"};
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "ab");
	for (int i = 0; i < 6; i++) {
		bool ends = i % 2 == 0; /* Or it is killed while it waits. */

		relay_set(f, "relay.stop_timeout", timeouts[!ends]);
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, fake->n == 2);
		wherry_relay_stop(f->a.relay);
		relay_quiet(f, &f->a);
		if (ends)
			RELAY_UNTIL(f, &f->a, f->a.finished);
		relay_vanish(&f->a);
		relay_sql(f, "UPDATE wherry_lease SET expires_at = 0");
	}
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_false(relay_logged(f, "event=unclean-takeover"));
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
}

WHERRY_CASE(a_stop_writes_what_waits_to_be_written, relay_fixture *f)
{
	relay_set(f, "relay.ack_delay", "1s");
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	assert_int_equal(relay_count(f, WHERRY_DONE), 0);
	relay_stop(f, &f->a);
	assert_int_equal(relay_count(f, WHERRY_DONE), 3);
}

WHERRY_CASE(a_stop_leaves_what_waits_for_a_retry, relay_fixture *f)
{
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) == 1);
	relay_stop(f, &f->a);
	assert_int_equal(relay_state(f, 2), WHERRY_PENDING);
	assert_int_equal(lease_left(f), 0);
}

WHERRY_CASE(a_relay_stops_while_the_destination_is_down, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->submit_fails = WHERRY_CLOSED;
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	relay_stop(f, &f->a);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 3);
	assert_int_equal(lease_left(f), 0);
}

WHERRY_CASE(a_standby_stops_at_once, relay_fixture *f)
{
	relay_steal(f); /* no row yet: nothing happens */
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_start(f, &f->b);
	relay_quiet(f, &f->b);
	wherry_relay_stop(f->b.relay);
	relay_turn(f, &f->b, relay_deadline(), "a turn", __LINE__, __FILE__);
	assert_true(f->b.finished);
	assert_true(lease_left(f) > 0);
}

WHERRY_CASE(a_relay_that_lost_its_lease_stops, relay_fixture *f)
{
	relay_fake *fake = in_flight(f, "ab");

	relay_steal(f);
	wherry_relay_stop(f->a.relay);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_true(lease_left(f) > 0); /* the other's */
}

WHERRY_CASE(a_second_step_after_the_end_changes_nothing, relay_fixture *f)
{
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	wherry_relay_stop(f->a.relay);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	relay_put(f, "a");
	relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
	assert_true(f->a.finished);
	assert_int_equal(relay_delivered(f), 0);
}

/* ---- what it refuses ---- */

WHERRY_CASE(a_step_inside_a_transaction_is_refused, relay_fixture *f)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "t", .body = "");
	wherry_error err = WHERRY_ERROR_INIT;

	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	WHERRY_PASS(wherry_db_begin(f->other, &err));
	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &m, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, &err));
	assert_non_null(strstr(err.message, "transaction"));
	assert_true(wherry_db_in_transaction(f->other));
	assert_int_equal(relay_delivered(f), 0);
	WHERRY_PASS(wherry_db_commit(f->other, &err));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
}

WHERRY_CASE(a_table_that_goes_missing_is_an_error_to_fix, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	relay_set(f, "relay.idle_interval", "50ms");
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	relay_sql(f, "DROP TABLE outbox");
	for (int64_t by_us = relay_deadline(); code == WHERRY_OK && relay_now(f) < by_us;)
		code = wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, &err);
	assert_int_equal(code, WHERRY_NOTFOUND);
	assert_int_equal(wherry_code_remedy(code), WHERRY_REMEDY_FIX);
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_relay_run(f->a.relay, 0, NULL, &err));
}

WHERRY_CASE(a_relay_without_a_table_does_not_open, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_relay *relay = NULL;

	relay_set(f, "relay.table", "nothing");
	relay_connect(f, &f->a);
	(void)relay_use_fake(f, &f->a, 0);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_relay_open_on(f->a.db, f->a.pub, f->config, &relay, &err));
	assert_null(relay);
}

WHERRY_CASE(a_step_needs_a_relay_and_room_for_its_answers, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t wake_us;
	bool finished;

	relay_start(f, &f->a);
	WHERRY_FAILS(WHERRY_INVALID, wherry_relay_step(NULL, &wake_us, &finished, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_relay_step(f->a.relay, NULL, &finished, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_relay_step(f->a.relay, &wake_us, NULL, &err));
}

WHERRY_CASE(a_stop_wakes_whoever_waits_for_the_descriptors, relay_fixture *f)
{
	struct pollfd fds[WHERRY_RELAY_FDS];
	size_t n;

	(void)in_flight(f, "ab");
	relay_quiet(f, &f->a);
	n = wherry_relay_fds(f->a.relay, fds);
	assert_in_range(n, 1, WHERRY_RELAY_FDS);
	wherry_relay_stop(f->a.relay);
	assert_true(poll(fds, (nfds_t)n, 10000) > 0);
	wherry_relay_wait(f->a.relay, INT64_MAX); /* returns at once */
	relay_quiet(f, &f->a);
	assert_false(f->a.finished);
	n = wherry_relay_fds(f->a.relay, fds);
	assert_int_equal(poll(fds, 1, 0), 0); /* seen: it does not wake again */
}

const relay_test relay_stop_tests[] = {
	RELAY_TEST(a_stopping_relay_awaits_what_is_in_flight_and_submits_no_more, 0),
	RELAY_TEST(a_stop_waits_no_longer_than_its_timeout, 0),
	RELAY_TEST(a_relay_that_is_killed_while_it_stops_leaves_no_suspects, RELAY_LEASE),
	RELAY_TEST(a_stop_writes_what_waits_to_be_written, 0),
	RELAY_TEST(a_stop_leaves_what_waits_for_a_retry, 0),
	RELAY_TEST(a_relay_stops_while_the_destination_is_down, 0),
	RELAY_TEST(a_stop_wakes_whoever_waits_for_the_descriptors, 0),
	RELAY_TEST(a_standby_stops_at_once, RELAY_OTHERS),
	RELAY_TEST(a_relay_that_lost_its_lease_stops, 0),
	RELAY_TEST(a_second_step_after_the_end_changes_nothing, 0),
	RELAY_TEST(a_step_inside_a_transaction_is_refused, RELAY_ALONE),
	RELAY_TEST(a_table_that_goes_missing_is_an_error_to_fix, 0),
	RELAY_TEST(a_step_needs_a_relay_and_room_for_its_answers, 0),
	RELAY_TEST(a_relay_without_a_table_does_not_open, 0),
	RELAY_TESTS_END,
};
