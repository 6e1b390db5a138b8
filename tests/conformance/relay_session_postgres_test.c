/*
 * A relay whose session of the database ended: others take over in seconds, but not while it lives.
 */
#include "relay_suite.h"

#include "postgres/server.h"
#include "store/sessions.h"

enum { LOOK_US = 2000000 }; /* With the default relay.idle_interval. */

/* As if the machine of the relay that leads was gone. */
static void end_session_of_leader(relay_fixture *f)
{
	assert_int_equal(relay_number(f, "SELECT count(pg_terminate_backend(pid, 10000)) "
					 "FROM pg_locks WHERE locktype = 'advisory' AND "
					 "mode = 'ShareLock'"),
			 1);
}

static void stand_by(relay_fixture *f, relay_side *side)
{
	relay_start(f, side);
	RELAY_UNTIL(f, side, relay_logged(f, "event=standby"));
}

/* The clock of the relays goes on by so much, in small steps. */
static void pass(relay_fixture *f, relay_side *side, int64_t us)
{
	enum { STEP_US = 100000 };

	for (; us > 0; us -= STEP_US) {
		f->offset_us += STEP_US;
		relay_quiet(f, side);
	}
}

WHERRY_CASE(a_relay_whose_session_ended_is_followed_in_seconds, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1); /* The second waits for the first. */
	stand_by(f, &f->b);
	pass(f, &f->b, 10 * WH_SECOND);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
	end_session_of_leader(f);
	pass(f, &f->b, LOOK_US + WH_SESSION_GONE_US);
	assert_int_equal(relay_stats(&f->b).epoch, 2);
	assert_true(relay_logged(f, "event=leader-gone"));
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED)); /* a goes on */
	relay_quiet(f, &f->a);
	assert_int_equal(fake->submits, 1);
}

WHERRY_CASE(a_relay_whose_session_ended_submits_for_two_seconds_at_most, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "aaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	f->offset_us +=
		WH_SESSION_TRUSTED_US; /* The lease must be verified again, and is. */
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, fake->submits == 2);
	end_session_of_leader(f);
	f->offset_us += WH_SESSION_TRUSTED_US;
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	relay_quiet(f, &f->a);
	assert_int_equal(fake->submits, 2);
}

WHERRY_CASE(a_relay_that_connects_again_keeps_its_lease, relay_fixture *f)
{
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch == 1);
	stand_by(f, &f->b);
	for (int i = 1; i <= 3; i++) {
		end_session_of_leader(f);
		pass(f, &f->b, LOOK_US);
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == i);
		pass(f, &f->b, 2 * WH_SESSION_GONE_US);
		assert_int_equal(relay_stats(&f->b).epoch, 0);
		assert_int_equal(relay_stats(&f->a).epoch, 1);
	}
}

/* The relay was there between the two looks, and may have submitted messages a moment ago. */
WHERRY_CASE(a_session_that_came_back_and_ended_again_is_waited_for_again,
	    relay_fixture *f)
{
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch == 1);
	stand_by(f, &f->b);
	end_session_of_leader(f);
	pass(f, &f->b, LOOK_US);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	end_session_of_leader(f);
	pass(f, &f->b, WH_SESSION_GONE_US);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
	pass(f, &f->b, WH_SESSION_GONE_US);
	assert_int_equal(relay_stats(&f->b).epoch, 2);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale > 0);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
}

WHERRY_CASE(a_short_lease_ends_by_itself, relay_fixture *f)
{
	relay_set(f, "relay.lease", "8s");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch == 1);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM pg_locks WHERE locktype = "
					 "'advisory' AND mode = 'ShareLock'"),
			 0);
}

static const relay_test tests[] = {
	RELAY_TEST(a_relay_whose_session_ended_is_followed_in_seconds, 0),
	RELAY_TEST(a_relay_whose_session_ended_submits_for_two_seconds_at_most, 0),
	RELAY_TEST(a_relay_that_connects_again_keeps_its_lease, 0),
	RELAY_TEST(a_session_that_came_back_and_ended_again_is_waited_for_again, 0),
	RELAY_TEST(a_short_lease_ends_by_itself, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "log",
		.own = tests,
		.own_only = true,
		.make = postgres_enter,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.drop = postgres_leave,
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
