/*
 * Several exclusive relays share an outbox: each has some of its partitions, and takes and gives up
 * some when others come and go.
 */
#include "relay_partitions.h"

#include "outbox/outbox.h"

enum { SIDES = 3 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static const relay_shares_words *words;

void shares_speak(const relay_shares_words *of)
{
	words = of;
}

relay_side *shares_side(relay_fixture *f, int i)
{
	return i == 0 ? &f->a : i == 1 ? &f->b : &f->c;
}

/* One that is told apart by its name: 0, 1 or 2. */
static void start(relay_fixture *f, int i)
{
	char name[8];

	(void)snprintf(name, sizeof(name), "relay%d", i);
	relay_set(f, "relay.name", name);
	relay_start(f, shares_side(f, i));
}

void shares_turn(relay_fixture *f, int64_t by_us, const char *what, int line,
		 const char *file)
{
	for (int i = 0; i < SIDES; i++)
		if (shares_side(f, i)->relay)
			relay_turn(f, shares_side(f, i), by_us, what, line, file);
}

/* The partitions that a live lease of that name has. */
static uint64_t partitions_of(relay_fixture *f, int i)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT mask FROM wherry_lease WHERE owner = 'relay%d' AND %s", i,
		       words->lives);
	return (uint64_t)relay_number(f, sql);
}

bool shares_have(relay_fixture *f, int a, int b, int c)
{
	return wh_partitions_count(partitions_of(f, 0)) == a &&
	       wh_partitions_count(partitions_of(f, 1)) == b &&
	       wh_partitions_count(partitions_of(f, 2)) == c;
}

/* As a crash would. */
static void kill(relay_fixture *f, int i)
{
	relay_side *side = shares_side(f, i);
	char sql[200];

	relay_vanish(side);
	(void)snprintf(sql, sizeof(sql),
		       "UPDATE wherry_lease SET expires_at = 0, clean = 0 WHERE owner = "
		       "'relay%d'",
		       i);
	relay_sql(f, sql);
}

static void stop(relay_fixture *f, int i)
{
	relay_side *side = shares_side(f, i);

	wherry_relay_stop(side->relay);
	SHARES_UNTIL(f, side->finished);
	wherry_relay_close(side->relay);
	side->relay = NULL;
}

static void start_three(relay_fixture *f)
{
	for (int i = 0; i < SIDES; i++)
		start(f, i);
	SHARES_UNTIL(f, shares_have(f, 22, 22, 20));
}

void shares_start_two(relay_fixture *f)
{
	start(f, 0);
	start(f, 1);
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
}

char shares_key(relay_fixture *f, int i, int n)
{
	uint64_t mine = partitions_of(f, i);

	for (const char *c = letters; *c; c++)
		if (mine >> words->partition(f, *c) & 1 && n-- == 0)
			return *c;
	fail_msg("relay%d has too few partitions", i);
	return 0;
}

void shares_put(relay_fixture *f, char key, int n)
{
	char keys[32];

	memset(keys, key, (size_t)n);
	keys[n] = 0;
	relay_put(f, keys);
}

WHERRY_CASE(three_relays_share_an_outbox, relay_fixture *f)
{
	relay_hourly(f);
	start(f, 0);
	SHARES_UNTIL(f, shares_have(f, 64, 0, 0));
	start(f, 1);
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	start(f, 2);
	SHARES_UNTIL(f, shares_have(f, 22, 22, 20));
	assert_true(relay_logged(f, "event=partitions n=20 of=64 relays=3"));
	for (int i = 0; i < 5; i++)
		relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 260);
	relay_check_once(f, 260);
	relay_check_order(f);
	for (int i = 0; i < SIDES; i++)
		assert_true(relay_stats(shares_side(f, i)).delivered > 0);
}

WHERRY_CASE(a_relay_that_leaves_hands_its_partitions_over_at_once, relay_fixture *f)
{
	relay_hourly(f);
	start_three(f);
	relay_put(f, letters);
	stop(f, 1);
	SHARES_UNTIL(f, shares_have(f, 32, 0, 32));
	relay_put(f, letters);
	stop(f, 0);
	SHARES_UNTIL(f, shares_have(f, 0, 0, 64));
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 104);
	relay_check_once(f, 104);
	relay_check_order(f);
	assert_int_equal(relay_stats(&f->c).suspects, 0);
}

WHERRY_CASE(what_a_relay_had_that_was_killed_is_taken_over, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->b, 0);

	relay_set(f, "relay.idle_interval", "100ms");
	fake->by_hand = true;
	start_three(f);
	relay_put(f, letters);
	SHARES_UNTIL(f, fake->n > 5 && relay_count(f, WHERRY_DONE) > 20);
	kill(f, 1);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	assert_false(relay_logged(f, "event=unclean-takeover")); /* the first time */
	relay_check_order(f);
	SHARES_UNTIL(f, shares_have(f, 32, 0, 32));
}

WHERRY_CASE(no_two_relays_have_a_partition_in_common, relay_fixture *f)
{
	int64_t n = 0;

	relay_set(f, "relay.idle_interval", "100ms");
	f->random = f->seed = 7;
	for (int i = 0; i < 400; i++) {
		uint64_t dice = f->env.random(f);
		int which = (int)((dice >> 16) % SIDES);
		relay_side *side = shares_side(f, which);

		if (!side->relay && (dice >> 32) % 4 == 0)
			start(f, which);
		else if (side->relay && (dice >> 32) % 40 == 0)
			stop(f, which);
		else if (side->relay && (dice >> 32) % 40 == 1)
			kill(f, which);
		if ((dice >> 40) % 4 == 0) {
			char keys[4] = {letters[(dice >> 20) % 52],
					letters[(dice >> 26) % 52],
					letters[(dice >> 34) % 52], 0};

			relay_put(f, keys);
			n += 3;
		}
		shares_turn(f, relay_deadline(), "a turn", __LINE__, __FILE__);
		assert_int_equal(partitions_of(f, 0) & partitions_of(f, 1), 0);
		assert_int_equal(partitions_of(f, 1) & partitions_of(f, 2), 0);
		assert_int_equal(partitions_of(f, 2) & partitions_of(f, 0), 0);
	}
	for (int i = 0; i < SIDES; i++)
		if (!shares_side(f, i)->relay)
			start(f, i);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == n);
	relay_check_order(f);
}

WHERRY_CASE(a_relay_stopped_past_its_lease_changes_nothing, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->b, 0);
	char keys[3] = "";

	relay_set(f, "relay.idle_interval", "100ms");
	fake->by_hand = true;
	shares_start_two(f);
	keys[0] = shares_key(f, 1, 0);
	keys[1] = shares_key(f, 1, 1);
	relay_put(f, keys);
	SHARES_UNTIL(f, fake->n == 2);
	relay_sql(f, "UPDATE wherry_lease SET expires_at = 0 WHERE owner = 'relay1'");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2); /* b stands still */
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_REJECTED));
	SHARES_UNTIL(f, relay_stats(&f->b).stale > 0);
	assert_int_equal(relay_stats(&f->b).delivered, 0);
	assert_int_equal(relay_count(f, WHERRY_DONE), 2);
	fake->by_hand = false;
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 54);
}

/* A restore or a failover put a row back to one of before two take-overs. */
WHERRY_CASE(one_of_two_relays_with_the_same_share_and_epoch_stops_leading,
	    relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "100ms");
	shares_start_two(f);
	/* So that two before its epoch there is another. */
	stop(f, 0);
	start(f, 0);
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	relay_sql(f, "UPDATE wherry_lease SET epoch = epoch - 2, expires_at = 0 "
		     "WHERE owner = 'relay0'");
	start(f, 2);
	RELAY_UNTIL(f, &f->c, relay_stats(&f->c).epoch > 0);
	assert_int_equal(relay_stats(&f->c).epoch, relay_stats(&f->a).epoch);
	SHARES_UNTIL(f, relay_stats(&f->a).stale > 0);
	assert_int_equal(relay_stats(&f->c).stale, 0);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == (int64_t)strlen(letters));
	relay_check_order(f);
}

WHERRY_CASE(a_lower_id_that_is_committed_late_is_delivered_by_its_relay, relay_fixture *f)
{
	relay_hourly(f);
	shares_start_two(f);
	for (int i = 0; i < 2; i++) {
		void *late = words->begin_put(f, shares_key(f, i, 0));

		for (int n = 1; n <= 3; n++) { /* reads that may forget it */
			relay_put(f, letters);
			SHARES_UNTIL(f, relay_delivered(f) == (size_t)(52 * n + i * 157));
		}
		words->end(late, true);
		SHARES_UNTIL(f, relay_delivered(f) == (size_t)(157 * (i + 1)));
	}
	relay_check_once(f, 314);
}

/* Those of one key that are committed late come before later ones that the same read
 * meets. */
WHERRY_CASE(late_ids_of_a_share_leave_before_higher_ones, relay_fixture *f)
{
	void *late[3];
	char key;

	relay_hourly(f);
	shares_start_two(f);
	key = shares_key(f, 1, 0);
	for (int i = 0; i < 3; i++)
		late[i] = words->begin_put(f, key);
	shares_put(f, shares_key(f, 1, 1), 1);
	SHARES_UNTIL(f, relay_delivered(f) == 1);
	words->end(late[1], false);
	words->end(late[2], true);
	words->end(late[0], true);
	shares_put(f, key, 1);
	SHARES_UNTIL(f, relay_delivered(f) == 4);
	RELAY_DELIVERED(f, 4, 1, 3, 5);
}

/* Its key waits for a retry, with more behind it, while relays come and go. */
WHERRY_CASE(what_waits_behind_a_failed_message_stays_behind_it, relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "100ms");
	relay_set(f, "retry.base", "300ms");
	relay_set(f, "retry.cap", "300ms");
	relay_set(f, "relay.down_after", "1000");
	for (int id = 1; id <= 52; id++)
		relay_answers(f, id, WHERRY_RETRY, 2);
	start(f, 0);
	SHARES_UNTIL(f, shares_have(f, 64, 0, 0));
	relay_put(f, letters);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_FAILED) > 10);
	start(f, 1);
	start(f, 2);
	SHARES_UNTIL(f, shares_have(f, 22, 22, 20));
	relay_put(f, letters);
	stop(f, 0);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 156);
	relay_check_once(f, 156);
	relay_check_order(f);
}

WHERRY_CASE(a_key_stays_parked_when_its_relay_changes, relay_fixture *f)
{
	char keys[5] = "";

	relay_set(f, "relay.idle_interval", "100ms");
	relay_set(f, "relay.on_dead", "park");
	shares_start_two(f);
	keys[0] = keys[2] = shares_key(f, 0, 0);
	keys[1] = keys[3] = shares_key(f, 1, 0);
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_answers(f, 2, WHERRY_REJECTED, 1);
	relay_put(f, keys);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DEAD) == 2);
	start(f, 2);
	SHARES_UNTIL(f, shares_have(f, 22, 22, 20));
	stop(f, 0);
	stop(f, 1);
	SHARES_UNTIL(f, shares_have(f, 0, 0, 64));
	shares_put(f, keys[0], 1);
	shares_put(f, keys[1], 1);
	for (int i = 0; i < 20; i++)
		shares_turn(f, relay_deadline(), "a turn", __LINE__, __FILE__);
	assert_int_equal(relay_delivered(f), 0);
	assert_int_equal(relay_retry(f, 0), 2);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 6);
	relay_check_once(f, 6);
	relay_check_order(f);
}

WHERRY_CASE(a_hot_key_that_is_stuck_stops_nobody_else, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	char hot;

	relay_hourly(f);
	shares_start_two(f);
	hot = shares_key(f, 0, 0);
	fake->by_hand = true;
	for (int i = 0; i < 40; i++)
		shares_put(f, hot, 20);
	SHARES_UNTIL(f, fake->n == 1);
	shares_put(f, shares_key(f, 0, 1), 1);
	shares_put(f, shares_key(f, 1, 0), 1);
	SHARES_UNTIL(f, relay_delivered(f) == 1 && fake->n == 2);
	assert_int_equal(f->events[0].id, 802);
	fake->by_hand = false;
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 801, WHERRY_DELIVERED));
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 802);
	relay_check_order(f);
}

/* Not before what is in flight has landed, even if it is in no partition that is given
 * up. */
WHERRY_CASE(partitions_are_given_up_when_nothing_of_theirs_is_in_flight, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	relay_hourly(f);
	fake->by_hand = true;
	start(f, 0);
	SHARES_UNTIL(f, shares_have(f, 64, 0, 0));
	relay_put(f, letters);
	SHARES_UNTIL(f, fake->n == 52);
	start(f, 1);
	for (int i = 0; i < 50; i++)
		shares_turn(f, relay_deadline(), "a turn", __LINE__, __FILE__);
	assert_true(shares_have(f, 64, 0, 0));
	for (int id = 1; id <= 26; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	for (int id = 27; id <= 52; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_RETRY));
	fake->by_hand = false;
	SHARES_UNTIL(f, shares_have(f, 32, 32, 0));
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	relay_check_once(f, 52);
}

WHERRY_CASE(suspects_of_a_killed_relay_are_tried_one_at_a_time, relay_fixture *f)
{
	relay_fake *a = relay_use_fake(f, &f->a, WH_PUB_ORDERED),
		   *b = relay_use_fake(f, &f->b, WH_PUB_ORDERED);

	relay_set(f, "relay.idle_interval", "100ms");
	shares_start_two(f);
	b->by_hand = true;
	shares_put(f, shares_key(f, 1, 0), 10);
	SHARES_UNTIL(f, b->n == 10);
	kill(f, 1);
	relay_sql(f, "UPDATE wherry_lease SET unclean = 1"); /* and one before that */
	a->most = 0;
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 10);
	assert_int_equal(a->most, 1);
	relay_check_order(f);
}

WHERRY_CASE(a_whole_lease_and_shares_keep_each_other_out, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	shares_start_two(f);
	assert_int_equal(
		wherry_outbox_lease(f->outbox, "other", WH_SECOND, 1, &lease, &err),
		WHERRY_BUSY);
	stop(f, 0);
	assert_int_equal(
		wherry_outbox_lease(f->outbox, "other", WH_SECOND, 1, &lease, &err),
		WHERRY_BUSY);
	stop(f, 1);
	WHERRY_PASS(wherry_outbox_lease(f->outbox, "other", 3600 * WH_SECOND, 1, &lease,
					&err));
	start(f, 0);
	SHARES_UNTIL(f, relay_stats(&f->a).epoch > 0);
	assert_true(shares_have(f, 0, 0, 0));
	relay_put(f, "a");
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 1);
}

WHERRY_CASE(until_empty_waits_for_what_others_have, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->b, 0);

	relay_hourly(f);
	fake->by_hand = true;
	shares_start_two(f);
	shares_put(f, shares_key(f, 0, 0), 1);
	shares_put(f, shares_key(f, 1, 0), 1);
	wherry_relay_target(f->a.relay, WHERRY_UNTIL_EMPTY);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 1 && fake->n == 1);
	for (int i = 0; i < 30; i++)
		shares_turn(f, relay_deadline(), "a turn", __LINE__, __FILE__);
	assert_false(f->a.finished);
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	SHARES_UNTIL(f, f->a.finished);
	assert_int_equal(wherry_relay_outcome(f->a.relay), WHERRY_EMPTY);
}

const relay_test relay_partitions_tests[] = {
	RELAY_TEST(three_relays_share_an_outbox, 0),
	RELAY_TEST(a_relay_that_leaves_hands_its_partitions_over_at_once, 0),
	RELAY_TEST(what_a_relay_had_that_was_killed_is_taken_over, 0),
	RELAY_TEST(no_two_relays_have_a_partition_in_common, 0),
	RELAY_TEST(a_relay_stopped_past_its_lease_changes_nothing, 0),
	RELAY_TEST(one_of_two_relays_with_the_same_share_and_epoch_stops_leading, 0),
	RELAY_TEST(a_lower_id_that_is_committed_late_is_delivered_by_its_relay, 0),
	RELAY_TEST(late_ids_of_a_share_leave_before_higher_ones, 0),
	RELAY_TEST(what_waits_behind_a_failed_message_stays_behind_it, 0),
	RELAY_TEST(a_key_stays_parked_when_its_relay_changes, 0),
	RELAY_TEST(a_hot_key_that_is_stuck_stops_nobody_else, 0),
	RELAY_TEST(partitions_are_given_up_when_nothing_of_theirs_is_in_flight, 0),
	RELAY_TEST(suspects_of_a_killed_relay_are_tried_one_at_a_time, 0),
	RELAY_TEST(a_whole_lease_and_shares_keep_each_other_out, 0),
	RELAY_TEST(until_empty_waits_for_what_others_have, 0),
	RELAY_TESTS_END,
};
