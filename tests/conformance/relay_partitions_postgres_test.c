/*
 * Several relays share a subscription on PostgreSQL.
 */
#include <inttypes.h>

#include "relay_log.h"
#include "relay_partitions_postgres.h"

#include "log/subscription.h"
#include "outbox/outbox.h"
#include "store/sessions.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* One share had read up to 5 of what it saw, and the other all.  A relay that has both is killed in the middle. */
WHERRY_CASE(a_position_that_is_ahead_is_not_moved_back, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_set(f, "relay.idle_interval", "100ms");
	relay_set(f, "relay.window", "4");
	relay_set(f, "relay.batch", "2");
	shares_of_log(f);
	relay_put(f, letters);
	relay_sql(
		f,
		"UPDATE outbox_progress SET mask = 4294967295, high = 52, seen = pg_current_snapshot(); "
		"INSERT INTO outbox_progress(subscription, mask, high, seen) "
		"VALUES ('relay', -4294967296, 5, pg_current_snapshot())");
	fake->by_hand = true;
	relay_set(f, "relay.name", "relay0");
	relay_start(f, &f->a);
	for (int id = 6; relay_number(f, "SELECT min(high) FROM outbox_progress") < 20;
	     id++) {
		if (shares_postgres_partition(f, letters[id - 1]) < 32)
			continue;
		RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, id));
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
		RELAY_UNTIL(f, &f->a, relay_told(f, id, WHERRY_DELIVERED) == 1);
		relay_quiet(f, &f->a);
	}
	assert_int_equal(relay_number(f, "SELECT max(high) FROM outbox_progress"), 52);
	relay_vanish(&f->a);
	relay_sql(f, "UPDATE wherry_lease SET expires_at = 0, clean = 0");
	fake->by_hand = false;
	shares_start_two(f);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	for (int id = 1; id <= 52; id++) {
		bool ahead =
			id <= 5 || shares_postgres_partition(f, letters[id - 1]) < 32;

		assert_int_equal(relay_told(f, id, WHERRY_DELIVERED) > 0, !ahead);
	}
}

/* All ids are below both positions, and one had not seen their transactions. */
WHERRY_CASE(what_is_late_for_one_share_alone_is_delivered, relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "100ms");
	shares_of_log(f);
	relay_put(f, letters);
	relay_sql(
		f,
		"UPDATE outbox_progress SET mask = 4294967295, high = 52, seen = pg_current_snapshot(); "
		"INSERT INTO outbox_progress(subscription, mask, high, seen) "
		"VALUES ('relay', -4294967296, 60, '1:1:')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 52);
	for (int id = 1; id <= 52; id++) {
		bool late = shares_postgres_partition(f, letters[id - 1]) >= 32;

		assert_int_equal(relay_told(f, id, WHERRY_DELIVERED), late);
	}
}

/* A dump of another server, whose transactions had higher numbers: one share had read all, and the other none of the
 * messages, whose ids are below its position. */
WHERRY_CASE(what_one_share_had_not_read_is_delivered_after_a_restore, relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "100ms");
	shares_of_log(f);
	relay_put(f, letters);
	relay_sql(
		f,
		"UPDATE outbox SET tx = '5000000'; "
		"UPDATE outbox_progress SET mask = 4294967295, high = 52, seen = '5000001:5000001:'; "
		"INSERT INTO outbox_progress(subscription, mask, high, seen) "
		"VALUES ('relay', -4294967296, 60, '5000000:5000000:')");
	shares_start_two(f);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	for (int id = 1; id <= 52; id++)
		if (shares_postgres_partition(f, letters[id - 1]) >= 32)
			/* Again if both give the rows new numbers at one time. */
			assert_true(relay_told(f, id, WHERRY_DELIVERED) > 0);
	relay_check_order(f);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 104);
	relay_check_order(f);
}

/* Each as a program would, that waits until it is woken. */
WHERRY_CASE(an_insert_wakes_the_relay_that_has_its_partition, relay_fixture *f)
{
	relay_hourly(f);
	shares_of_log(f);
	shares_start_two(f);
	for (int i = 0; i < 10; i++) {
		relay_side *side = shares_side(f, i % 2);
		int64_t by_us = relay_deadline();
		size_t n = relay_delivered(f);

		while (f->a.wake_us < relay_now(f) + WH_SECOND ||
		       f->b.wake_us < relay_now(f) + WH_SECOND)
			shares_turn(f, by_us, "sleep", __LINE__, __FILE__);
		shares_put(f, shares_key(f, i % 2, i / 2), 1);
		RELAY_ASLEEP_UNTIL(f, side, relay_delivered(f) == n + 1);
	}
	relay_check_once(f, 10);
}

/* A relay stands still for so long that the server ends its connection and another relay takes its partitions.  When it
 * leads again it has none of them at first. */
WHERRY_CASE(a_relay_that_lost_its_connection_and_its_share_goes_on, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char end[80];

	relay_set(f, "relay.idle_interval", "100ms");
	shares_of_log(f);
	relay_set(f, "relay.name", "relay0");
	WHERRY_PASS(wherry_relay_open(f->url, "null:", f->config, &f->a.relay, &err));
	(void)snprintf(end, sizeof(end),
		       "SELECT pg_terminate_backend(%" PRId64 ", 10000)",
		       relay_number(f, "SELECT pid FROM pg_stat_activity WHERE "
				       "application_name = 'wherry' AND "
				       "pid <> pg_backend_pid()"));
	relay_set(f, "relay.name", "relay1");
	relay_start(f, &f->b);
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	relay_sql(f, end);
	relay_sql(f, "UPDATE wherry_lease SET expires_at = 0 WHERE owner = 'relay0'");
	RELAY_UNTIL(f, &f->b, shares_have(f, 0, 64, 0)); /* a stands still */
	relay_put(f, letters);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 104);
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 156);
}

/* It still believes that it has its partitions, and begins to read. */
WHERRY_CASE(a_share_that_another_relay_took_is_not_missing, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position at = WH_POSITION_START;
	wh_share share = {.mask = 1};

	shares_of_log(f);
	relay_sql(f, "UPDATE outbox_progress SET mask = 3; "
		     "INSERT INTO outbox_progress(subscription, mask, high, seen) "
		     "VALUES ('relay', -4, 0, '1:1:')");
	WHERRY_FAILS(WHERRY_STALE,
		     wh_progress_read(&f->outbox->store, &share, &at, &err));
	relay_sql(f, "DELETE FROM outbox_progress");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wh_progress_read(&f->outbox->store, &share, &at, &err));
}

/* ---- a relay whose session of the database has ended ---- */

/* As if the machine of the relay was gone. */
static void end_session(relay_fixture *f, int i)
{
	char sql[320];

	(void)snprintf(
		sql, sizeof(sql),
		"SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks AS k "
		"JOIN wherry_lease AS l ON (k.classid::bigint << 32) + k.objid::bigint = "
		"hashtextextended(l.members, 1669) WHERE k.locktype = 'advisory' AND "
		"k.mode = 'ShareLock' AND l.owner = 'relay%d'",
		i);
	assert_int_equal(relay_number(f, sql), 1);
}

/* The clock of the relays goes on by so much, and one of them works. */
static void pass(relay_fixture *f, relay_side *side, int64_t us)
{
	enum { STEP_US = 100000 };

	for (; us > 0; us -= STEP_US) {
		f->offset_us += STEP_US;
		relay_quiet(f, side);
	}
}

enum { LOOK_US = 2000000 }; /* With the default relay.idle_interval. */

WHERRY_CASE(a_share_whose_session_ended_is_taken_over_in_seconds, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->b, 0);
	char key;

	shares_of_log(f);
	fake->by_hand = true;
	shares_start_two(f);
	key = shares_key(f, 1, 0);
	shares_put(f, key, 2);
	SHARES_UNTIL(f, fake->n == 1); /* The second waits for the first. */
	pass(f, &f->a, 10 * WH_SECOND);
	assert_true(shares_have(f, 32, 32, 0));
	end_session(f, 1);
	pass(f, &f->a, LOOK_US + WH_SESSION_GONE_US);
	assert_true(relay_logged(f, "event=leader-gone"));
	assert_true(shares_have(f, 64, 0, 0));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED)); /* b goes on */
	relay_quiet(f, &f->b);
	assert_int_equal(fake->submits, 1);
}

WHERRY_CASE(a_share_whose_relay_connects_again_stays_its_own, relay_fixture *f)
{
	shares_of_log(f);
	relay_set(f, "relay.name", "relay0");
	relay_start(f, &f->a);
	relay_set(f, "relay.name", "relay1");
	relay_start_by_url(f, &f->b);
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	for (int i = 1; i <= 2; i++) {
		end_session(f, 1);
		pass(f, &f->a, LOOK_US);
		shares_put(f, shares_key(f, 1, 0), 1);
		RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == i);
		pass(f, &f->a, 2 * WH_SESSION_GONE_US);
		assert_true(shares_have(f, 32, 32, 0));
		assert_int_equal(relay_stats(&f->b).stale, 0);
	}
}

static const relay_test own[] = {
	RELAY_TEST(a_share_that_another_relay_took_is_not_missing, 0),
	RELAY_TEST(a_relay_that_lost_its_connection_and_its_share_goes_on, 0),
	RELAY_TEST(a_share_whose_session_ended_is_taken_over_in_seconds, 0),
	RELAY_TEST(a_share_whose_relay_connects_again_stays_its_own, 0),
	RELAY_TEST(an_insert_wakes_the_relay_that_has_its_partition, 0),
	RELAY_TEST(what_one_share_had_not_read_is_delivered_after_a_restore, 0),
	RELAY_TEST(a_position_that_is_ahead_is_not_moved_back, 0),
	RELAY_TEST(what_is_late_for_one_share_alone_is_delivered, 0),
	RELAY_TESTS_END,
};

#define TARGET(tests, extras_)                                                           \
	{                                                                                \
		.name = "partitions", .is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,     \
		.make = postgres_enter, .drop = postgres_leave, .own = (tests),          \
		.own_only = true, .extras = (extras_), .layout = "log",                  \
		.views = relay_log_postgres_views, .translate = relay_log_translate,     \
	}

int main(void)
{
	static const relay_target targets[] = {
		TARGET(relay_partitions_tests, WH_PARTITIONS_SHARED),
		TARGET(own, 0),
		TARGET(relay_log_shares_tests, 0),
	};

	if (!postgres_start())
		return 0;
	shares_of_log_speak(&shares_postgres_words);
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
