/*
 * One relay at a time, and none past its lease.
 */
#include "relay/relay.h"
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

WHERRY_CASE(only_the_holder_of_the_lease_delivers, relay_fixture *f)
{
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
	assert_int_equal(relay_stats(&f->a).delivered, 3);
	assert_int_equal(relay_stats(&f->b).delivered, 0);
}

/* A relay that stands still in the middle of a step, in a read that finds something. */
static wherry_code stand_still(void *ctx, const char *op, const char *what,
			       wherry_error *err)
{
	relay_fixture *f = ctx;

	if (strcmp(op, "run") == 0 && strcmp(what, "read") == 0 && f->n_events == 1)
		f->offset_us += 3600 * WH_SECOND;
	return WHERRY_OK;
}

WHERRY_CASE(a_step_that_outlasts_its_lease_submits_nothing, relay_fixture *f)
{
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

WHERRY_CASE(a_second_relay_takes_over_when_the_lease_expires, relay_fixture *f)
{
	relay_fake *fake;

	(void)relay_lease_briefly(f);
	fake = two_in_flight(f, &f->a);
	relay_start(f, &f->b); /* and a is stopped by its system, say */
	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).epoch == 2);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_stats(&f->b).delivered, 2);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED)); /* a goes on */
	assert_true(relay_fake_answer(fake, 2, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, fake->n == 0);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).delivered, 0);
	assert_int_equal(relay_stats(&f->a).dead, 0);
	assert_true(relay_stats(&f->a).stale > 0);
	assert_int_equal(relay_stats(&f->a).epoch, 0);
	assert_int_equal(relay_count(f, WHERRY_DONE), 2);
}

/* As after the clock of the database was a day ahead, and was set back. */
static void set_clock_back(relay_fixture *f)
{
	relay_sql(f, "UPDATE wherry_lease SET process = '', clean = 0, "
		     "expires_at = (SELECT ms FROM wherry_clock) + 86400000");
}

WHERRY_CASE(a_lease_from_a_clock_ahead_ends_in_its_time, relay_fixture *f)
{
	int64_t lease_us = relay_lease_briefly(f), began_us;

	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_vanish(&f->a);
	set_clock_back(f);
	relay_put(f, "b");
	began_us = relay_now(f);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).epoch == 2);
	assert_true(relay_now(f) - began_us >= lease_us / 2);
	assert_true(relay_logged(f, "event=lease-cut leader="));
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
}

/* It renews the lease before the time that is left. */
WHERRY_CASE(a_leader_keeps_its_lease_when_the_clock_goes_back, relay_fixture *f)
{
	int64_t lease_us = relay_lease_briefly(f);

	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	set_clock_back(f);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_logged(f, "event=lease-cut"));
	for (int64_t until_us = relay_now(f) + lease_us * 7 / 5;
	     relay_now(f) < until_us;) {
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
		relay_turn(f, &f->b, relay_deadline(), "a turn", __LINE__, __FILE__);
	}
	assert_int_equal(relay_stats(&f->a).epoch, 1);
	assert_int_equal(relay_stats(&f->a).stale, 0);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
}

/* A restore or a failover put the row back, and a is not asked. */
WHERRY_CASE(one_of_two_relays_with_the_same_epoch_stops_leading, relay_fixture *f)
{
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_sql(f, "UPDATE wherry_lease SET epoch = epoch - 1, expires_at = 0");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).epoch > 0);
	assert_int_equal(relay_stats(&f->b).epoch, relay_stats(&f->a).epoch);
	relay_put(f, "abc");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch == 0);
	assert_int_equal(relay_stats(&f->a).delivered, 1);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_stats(&f->b).delivered, 3);
}

WHERRY_CASE(a_second_relay_takes_over_at_once_after_a_release, relay_fixture *f)
{
	int64_t began_us;

	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_start(f, &f->b);
	RELAY_ASLEEP_UNTIL(f, &f->b, f->b.wake_us - relay_now(f) > 60 * WH_SECOND);
	relay_put(f, "a");
	began_us = relay_now(f);
	relay_stop(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->b, relay_stats(&f->b).epoch > 0);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 1);
	assert_true(relay_now(f) - began_us < 60 * WH_SECOND);
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
WHERRY_CASE(a_standby_that_is_woken_too_early_looks_again, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
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
		for (int64_t by_us = relay_now(f) + 60 * WH_SECOND;
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

WHERRY_CASE(closing_gives_the_lease_back, relay_fixture *f)
{
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

/* It leads for longer than one lease. */
WHERRY_CASE(a_busy_and_an_idle_relay_renew_their_lease, relay_fixture *f)
{
	int64_t lease_us;

	lease_us = relay_lease_briefly(f);
	relay_set(f, "relay.idle_interval", "20ms");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	for (int64_t until_us = relay_now(f) + lease_us * 7 / 5;
	     relay_now(f) < until_us;) {
		if (f->n_events < 50)
			relay_put(f, "a");
		relay_turn(f, &f->a, relay_deadline(), "a turn", __LINE__, __FILE__);
	}
	assert_int_equal(relay_stats(&f->a).epoch, 1);
	assert_int_equal(relay_stats(&f->a).stale, 0);
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Renewals since the last read or claim of rows. */
static wherry_code count_renewals(void *ctx, const char *op, const char *what,
				  wherry_error *err)
{
	int *n = ctx;

	if (strcmp(op, "run") != 0)
		return WHERRY_OK;
	/* Where there are no leases, a renewal only asks whether anything is open. */
	if (strstr(what, "renew") || begins(what, "join") || begins(what, "open-upto"))
		++*n;
	else if (begins(what, "read") || begins(what, "sweep") || begins(what, "claim"))
		*n = 0;
	return WHERRY_OK;
}

void relay_only_renews(relay_fixture *f)
{
	static int n; /* outlives the connection */

	n = 0;
	relay_set(f, "relay.sweep", "1h");
	relay_set(f, "relay.idle_interval", "50ms");
	relay_wrap(f, &(wh_trace){.before = count_renewals, .ctx = &n});
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, n >= 5);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	n = 0;
	RELAY_UNTIL(f, &f->a, n >= 5);
}

static void a_relay_of_an_empty_table_only_renews_its_lease(void **state)
{
	relay_only_renews(*state);
}

WHERRY_CASE(a_expired_lease_acknowledges_nothing, relay_fixture *f)
{
	relay_fake *fake = two_in_flight(f, &f->a);

	relay_expire(f);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	assert_int_equal(relay_stats(&f->a).delivered, 0);
	assert_true(relay_logged(f, "event=lease-lost"));
	fake->by_hand = false;
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 1, 2, 3, 4);
	assert_int_equal(relay_stats(&f->a).epoch, 2);
}

WHERRY_CASE(a_lease_that_was_taken_over_acknowledges_nothing, relay_fixture *f)
{
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

/* What is still in flight is none of its business; a driver's receipts are awaited. */
WHERRY_CASE(what_flew_past_the_lease_is_ignored, relay_fixture *f)
{
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

/* The second receipt points to a message that the relay no longer needs.  The relay keeps the
 * memory of one batch, so there are several. */
WHERRY_CASE(a_receipt_that_comes_twice_counts_once, relay_fixture *f)
{
	static const char *const keys[] = {"a", "b", "c"};
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = fake->doubles = true;
	relay_start(f, &f->a);
	for (size_t i = 0; i < 3; i++) {
		relay_put(f, keys[i]);
		RELAY_UNTIL(f, &f->a, fake->n == i + 1);
	}
	for (int64_t id = 1; id <= 3; id++) {
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == id);
	}
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).delivered, 3);
	assert_int_equal(relay_stats(&f->a).window, 0);
}

typedef struct cut {
	bool on;
} cut;

static wherry_code refuse(void *ctx, const char *op, const char *what, wherry_error *err)
{
	const cut *c = ctx;

	if (!c->on || strcmp(what, "renew") != 0)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_BUSY, "the test holds it");
}

/* It cannot ask the database, and knows by its own clock. */
WHERRY_CASE(past_its_lease_nothing_new_is_submitted, relay_fixture *f)
{
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

/* ---- a leader whose process has ended ---- */

static wh_process_state look(void *ctx, const char *who)
{
	if (strcmp(who, "ended") == 0)
		return WH_PROCESS_ENDED;
	return strcmp(who, "lives") == 0 ? WH_PROCESS_LIVES : WH_PROCESS_UNKNOWN;
}

/* a leads for an hour, with messages in flight, in this process. */
static relay_fake *leads_in(relay_fixture *f, const char *process)
{
	relay_fake *fake;
	char sql[100];

	f->env.process_look = look;
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
	fake = two_in_flight(f, &f->a);
	(void)snprintf(sql, sizeof(sql), "UPDATE wherry_lease SET process = '%s'",
		       process);
	relay_sql(f, sql);
	relay_start(f, &f->b);
	return fake;
}

WHERRY_CASE(a_lease_whose_process_has_ended_is_taken_at_once, relay_fixture *f)
{
	relay_fake *fake = leads_in(f, "ended");

	RELAY_UNTIL(f, &f->b, relay_stats(&f->b).epoch == 2);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_logged(f, "event=leader-gone"));
	assert_false(relay_logged(f, "event=standby"));
	assert_int_equal(relay_stats(&f->b).suspects, 0);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED)); /* it is fenced, too */
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
}

WHERRY_CASE(a_lease_whose_process_may_live_is_waited_for, relay_fixture *f)
{
	(void)leads_in(f, "lives");
	relay_quiet(f, &f->b);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
	relay_sql(f, "UPDATE wherry_lease SET process = 'of another machine'");
	f->b.relay->renew_at_us = 0;
	RELAY_ASLEEP_UNTIL(f, &f->b, f->b.wake_us - relay_now(f) > 60 * WH_SECOND);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
}

WHERRY_CASE(a_standby_notices_soon_that_the_leaders_process_has_ended, relay_fixture *f)
{
	(void)leads_in(f, "lives");
	relay_quiet(f, &f->b);
	assert_true(f->b.wake_us - relay_now(f) <= WH_SECOND);
	relay_sql(f, "UPDATE wherry_lease SET process = 'ended'");
	(void)snprintf(f->b.relay->leader_process, WH_PROCESS_LEN, "ended");
	RELAY_ASLEEP_UNTIL(f, &f->b, relay_stats(&f->b).epoch == 2);
}

/* ---- what a relay says of itself ---- */

static void the_lease_says_what_its_relay_does(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status st;

	relay_set(f, "relay.idle_interval", "1h"); /* what changes is written at once */
	f->why = "connection refused";
	relay_put(f, "abcdefgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &st, sizeof(st), &err));
	assert_string_equal(st.state, "leading");
	assert_string_equal(st.destination, "memory:");
	assert_int_equal(st.error_us, -1);

	f->every = WHERRY_RETRY;
	relay_put(f, "abcdefgh");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	f->offset_us += 2 * WH_SECOND;
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM wherry_lease "
				    "WHERE state = 'retrying'") == 1);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &st, sizeof(st), &err));
	assert_string_equal(st.error, "connection refused");
	assert_true(st.error_us >= 0 && st.state_us >= 0);
	assert_int_equal(st.delivered, 8);
	assert_true(st.delivered_us >= 2 * WH_SECOND);

	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 16);
	f->offset_us += 2 * WH_SECOND;
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM wherry_lease "
				    "WHERE state = 'leading'") == 1);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &st, sizeof(st), &err));
	assert_string_equal(st.error, "connection refused"); /* the last one */
	relay_put(f, "i"); /* after the last renewal: giving the lease back writes it */
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 17);
	relay_stop(f, &f->a);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &st, sizeof(st), &err));
	assert_string_equal(st.state, "stopped");
	assert_int_equal(st.delivered, 17);
}

WHERRY_CASE(the_status_counts_from_when_the_lease_was_taken, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status st;

	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_expire(f);
	f->a.relay->renew_at_us = 0;
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch == 2);
	relay_put(f, "de");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	f->a.relay->renew_at_us = 0; /* it is written when the lease is renewed */
	RELAY_UNTIL(f, &f->a, relay_number(f, "SELECT delivered FROM wherry_lease") == 2);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &st, sizeof(st), &err));
	assert_int_equal(st.delivered, 2);
}

WHERRY_CASE(failed_deliveries_are_logged_now_and_then, relay_fixture *f)
{
	size_t lines = 0;

	f->every = WHERRY_RETRY;
	f->why = "HTTP 500: first";
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, f->n_events > 3);
	f->why = "HTTP 500: later";
	RELAY_UNTIL(f, &f->a, f->n_events > 8);
	assert_true(relay_logged(f, "event=delivery-failed id=1 topic=t attempts=1 "
				    "others=0 why=\"HTTP 500: first\""));
	assert_false(relay_logged(f, "HTTP 500: later"));
	f->offset_us += 11 * WH_SECOND;
	relay_put(f, "d");
	RELAY_UNTIL(f, &f->a, relay_logged(f, "why=\"HTTP 500: later\""));
	for (const char *at = f->log; (at = strstr(at, "event=delivery-failed")); at++)
		lines++;
	assert_int_equal(lines, 2);
}

const relay_test relay_lease_tests[] = {
	RELAY_TEST(only_the_holder_of_the_lease_delivers, RELAY_OTHERS),
	RELAY_TEST(a_step_that_outlasts_its_lease_submits_nothing, 0),
	RELAY_TEST(a_second_relay_takes_over_when_the_lease_expires, RELAY_OTHERS),
	RELAY_TEST(a_lease_from_a_clock_ahead_ends_in_its_time, RELAY_OTHERS),
	RELAY_TEST(a_leader_keeps_its_lease_when_the_clock_goes_back, RELAY_OTHERS),
	RELAY_TEST(one_of_two_relays_with_the_same_epoch_stops_leading, RELAY_OTHERS),
	RELAY_TEST(a_second_relay_takes_over_at_once_after_a_release,
		   RELAY_OTHERS | RELAY_WOKEN),
	RELAY_TEST(a_standby_that_is_woken_too_early_looks_again,
		   RELAY_OTHERS | RELAY_THREADS | RELAY_WOKEN),
	RELAY_TEST(closing_gives_the_lease_back, 0),
	RELAY_TEST(a_busy_and_an_idle_relay_renew_their_lease, 0),
	RELAY_TEST(a_relay_of_an_empty_table_only_renews_its_lease, RELAY_OTHERS),
	RELAY_TEST(a_expired_lease_acknowledges_nothing, 0),
	RELAY_TEST(a_lease_that_was_taken_over_acknowledges_nothing, 0),
	RELAY_TEST(what_flew_past_the_lease_is_ignored, 0),
	RELAY_TEST(a_receipt_that_comes_twice_counts_once, 0),
	RELAY_TEST(past_its_lease_nothing_new_is_submitted, 0),
	RELAY_TEST(a_lease_whose_process_has_ended_is_taken_at_once, RELAY_OTHERS),
	RELAY_TEST(a_lease_whose_process_may_live_is_waited_for,
		   RELAY_OTHERS | RELAY_WOKEN),
	RELAY_TEST(a_standby_notices_soon_that_the_leaders_process_has_ended,
		   RELAY_OTHERS),
	RELAY_TEST(the_lease_says_what_its_relay_does, 0),
	RELAY_TEST(the_status_counts_from_when_the_lease_was_taken, 0),
	RELAY_TEST(failed_deliveries_are_logged_now_and_then, 0),
	RELAY_TESTS_END,
};
