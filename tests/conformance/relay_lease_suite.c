/*
 * One relay at a time, and none past its lease.
 */
#include "relay_suite.h"

#include <pthread.h>

static relay_fake *two_in_flight(relay_fixture *f, relay_side *side)
{
	relay_fake *fake = relay_use_fake(f, side, 0);

	fake->by_hand = true;
	relay_put(f, "ab");
	relay_start(f, side);
	RELAY_UNTIL(f, side, fake->n == 2);
	return fake;
}

static void only_the_holder_of_the_lease_delivers(void **state)
{
	relay_fixture *f = *state;

	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	assert_true(relay_logged(f, "event=leading epoch=1 "));
	relay_start(f, &f->b);
	relay_put(f, "abc");
	relay_quiet(f, &f->b);
	assert_int_equal(relay_delivered(f), 0);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
	assert_true(relay_logged(f, "event=standby leader="));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_quiet(f, &f->b);
	assert_int_equal(relay_stats(&f->a).published, 3);
	assert_int_equal(relay_stats(&f->b).published, 0);
}

/* A relay that stands still in the middle of a step, in a read that finds something. */
static wherry_code stand_still(void *ctx, const char *op, const char *what,
			       wherry_error *err)
{
	relay_fixture *f = ctx;

	(void)err;
	if (strcmp(op, "run") == 0 && strcmp(what, "read") == 0 && f->n_events == 1)
		f->offset_us += 3600 * WH_SECOND;
	return WHERRY_OK;
}

static void a_step_that_outlasts_its_lease_submits_nothing(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_wrap(f, &(wh_trace){.before = stand_still, .ctx = f});
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->n_events == 1);
	relay_put(f, "ab");
	relay_expire(f); /* an hour has passed for everybody */
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
	assert_int_equal(fake->submits, 1);
}

static void a_second_relay_takes_over_when_the_lease_expires(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake;

	relay_set(f, "relay.lease", "500ms");
	fake = two_in_flight(f, &f->a);
	relay_start(f, &f->b); /* and a is stopped by its system, say */
	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).epoch == 2);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_stats(&f->b).published, 2);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED)); /* a goes on */
	assert_true(relay_fake_answer(fake, 2, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, fake->n == 0);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).published, 0);
	assert_int_equal(relay_stats(&f->a).dead, 0);
	assert_true(relay_stats(&f->a).stale > 0);
	assert_int_equal(relay_stats(&f->a).epoch, 0);
	assert_int_equal(relay_count(f, WHERRY_DONE), 2);
}

/* With an hour to go for every time-out there is. */
static void a_second_relay_takes_over_at_once_after_a_release(void **state)
{
	relay_fixture *f = *state;
	int64_t began_us;

	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.poll", "1h");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_start(f, &f->b);
	RELAY_ASLEEP_UNTIL(f, &f->b, f->b.wake_us - relay_now(f) > 60 * WH_SECOND);
	relay_put(f, "a");
	began_us = relay_now(f);
	relay_stop(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->b, relay_stats(&f->b).epoch > 0);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 1);
	assert_true(relay_now(f) - began_us < 5 * WH_SECOND);
	assert_int_equal(relay_stats(&f->b).suspects, 0);
}

/* Asserts nothing: it is another thread. */
static void *stop_elsewhere(void *relay)
{
	bool finished = false;
	int64_t wake_us;

	wherry_relay_stop(relay);
	while (!finished &&
	       wherry_relay_step(relay, &wake_us, &finished, NULL) == WHERRY_OK)
		;
	return NULL;
}

/* The standby may be woken before the release can be seen: it has to look again. */
static void a_standby_that_is_woken_too_early_looks_again(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.poll", "1h");
	relay_set(f, "db.synchronous", "full"); /* so that it takes a while */
	for (int i = 0; i < 5; i++) {
		pthread_t thread;

		WHERRY_PASS(wherry_db_open(f->url, f->config, &f->a.db, &err));
		relay_start(f, &f->a);
		wherry_relay_log(f->a.relay, NULL, NULL); /* nothing is shared */
		RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
		relay_start(f, &f->b);
		RELAY_ASLEEP_UNTIL(f, &f->b,
				   f->b.wake_us - relay_now(f) > 60 * WH_SECOND);
		assert_int_equal(
			pthread_create(&thread, NULL, stop_elsewhere, f->a.relay), 0);
		for (int64_t by_us = relay_now(f) + 5 * WH_SECOND;
		     !relay_stats(&f->b).epoch && relay_now(f) < by_us;)
			relay_turn_asleep(f, &f->b, by_us + WH_SECOND, "the lease",
					  __LINE__, __FILE__);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(relay_stats(&f->b).epoch > 0);
		relay_stop(f, &f->b);
		wherry_relay_close(f->a.relay);
		wherry_db_close(f->a.db);
		f->a.relay = NULL;
		f->a.db = NULL;
	}
}

static void closing_gives_the_lease_back(void **state)
{
	relay_fixture *f = *state;

	relay_start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_false(relay_logged(f, "unclean-takeover"));
}

/* The lease is longer than the test: it is taken back by renewal alone. */
static void a_busy_and_an_idle_relay_renew_their_lease(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.lease", "500ms");
	relay_set(f, "relay.poll", "20ms");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	for (int64_t until_us = relay_now(f) + 700000; relay_now(f) < until_us;) {
		if (f->n_events < 50)
			relay_put(f, "a");
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
	}
	assert_int_equal(relay_stats(&f->a).epoch, 1);
	assert_int_equal(relay_stats(&f->a).stale, 0);
}

static void a_expired_lease_acknowledges_nothing(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = two_in_flight(f, &f->a);

	relay_expire(f);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_int_equal(relay_stats(&f->a).published, 0);
	assert_true(relay_logged(f, "event=lease-lost"));
	fake->by_hand = false;
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 1, 2, 3, 4);
	assert_int_equal(relay_stats(&f->a).epoch, 2);
}

static void a_lease_that_was_taken_over_acknowledges_nothing(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = two_in_flight(f, &f->a);

	relay_steal(f);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
	relay_put(f, "cd");
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	relay_quiet(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=standby leader=thief"));
	relay_quiet(f, &f->a);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 4);
	assert_int_equal(fake->n, 0);
	assert_false(f->a.finished);
	fake->by_hand = false;
	relay_expire(f);
	f->offset_us += 3600 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_order(f);
}

/* What still flies is none of its business; a driver's receipts are awaited. */
static void what_flew_past_the_lease_is_ignored(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = two_in_flight(f, &f->a);

	relay_steal(f);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, 1);
	assert_true(relay_fake_answer(fake, 2, WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).window == 0);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_int_equal(relay_stats(&f->a).retried, 0);
}

typedef struct cut {
	bool on;
} cut;

static wherry_code refuse(void *ctx, const char *op, const char *what, wherry_error *err)
{
	const cut *c = ctx;

	(void)op;
	if (!c->on || strcmp(what, "renew") != 0)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_BUSY, "the test holds it");
}

/* It cannot ask the database, and knows by its own clock. */
static void past_its_lease_nothing_new_is_submitted(void **state)
{
	relay_fixture *f = *state;
	static cut c; /* outlives the connection */

	c.on = false;
	relay_set(f, "relay.lease", "30s");
	relay_wrap(f, &(wh_trace){.before = refuse, .ctx = &c});
	relay_start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	c.on = true;
	f->offset_us += 28 * WH_SECOND;
	relay_put(f, "a");
	relay_quiet(f, &f->a);
	for (int i = 0; i < 20; i++) {
		f->offset_us += 100000;
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
	}
	assert_int_equal(relay_delivered(f), 1);
	c.on = false;
	f->offset_us += 5 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

const relay_test relay_lease_tests[] = {
	RELAY_TEST(only_the_holder_of_the_lease_delivers, RELAY_OTHERS),
	RELAY_TEST(a_step_that_outlasts_its_lease_submits_nothing, 0),
	RELAY_TEST(a_second_relay_takes_over_when_the_lease_expires, RELAY_OTHERS),
	RELAY_TEST(a_second_relay_takes_over_at_once_after_a_release, RELAY_OTHERS),
	RELAY_TEST(a_standby_that_is_woken_too_early_looks_again,
		   RELAY_OTHERS | RELAY_THREADS),
	RELAY_TEST(closing_gives_the_lease_back, 0),
	RELAY_TEST(a_busy_and_an_idle_relay_renew_their_lease, 0),
	RELAY_TEST(a_expired_lease_acknowledges_nothing, 0),
	RELAY_TEST(a_lease_that_was_taken_over_acknowledges_nothing, 0),
	RELAY_TEST(what_flew_past_the_lease_is_ignored, 0),
	RELAY_TEST(past_its_lease_nothing_new_is_submitted, 0),
	RELAY_TESTS_END,
};
