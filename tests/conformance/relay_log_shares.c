/*
 * Several relays share a subscription of a log: what becomes of its positions.
 */
#include "relay_partitions.h"

#include <wherry/subscription.h>

#include "outbox/outbox.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

void shares_of_log(relay_fixture *f)
{
	const wh_make how = {.layout = "log", .extras = WH_PARTITIONS_SHARED};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_outbox_make(f->other, &how, "outbox", &err));
}

static const relay_shares_words *words;

void shares_of_log_speak(const relay_shares_words *of)
{
	shares_speak(of);
	words = of;
}

static int64_t positions(relay_fixture *f)
{
	return relay_number(f, words->positions);
}

static int64_t partitions_that_have_a_position(relay_fixture *f)
{
	return relay_number(f, words->bits);
}

static void stop(relay_fixture *f, int i)
{
	relay_side *side = shares_side(f, i);

	wherry_relay_stop(side->relay);
	SHARES_UNTIL(f, side->finished);
	wherry_relay_close(side->relay);
	side->relay = NULL;
}

/* From one relay to several: the position of the one is where they begin. */
WHERRY_CASE(an_outbox_that_is_shared_later_goes_on_where_it_was, relay_fixture *f)
{
	relay_hourly(f);
	relay_put(f, letters);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 52);
	shares_of_log(f);
	relay_put(f, letters);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 104);
	relay_stop(f, &f->a);
	relay_put(f, letters);
	shares_start_two(f);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 208);
	assert_true(relay_stats(&f->a).delivered > 0);
	assert_true(relay_stats(&f->b).delivered > 0);
	relay_check_once(f, 208);
	relay_check_order(f);
	assert_int_equal(partitions_that_have_a_position(f), 64);
}

/* From several to one, which is one that does not share: the positions differ, and it reads each partition from its own. */
WHERRY_CASE(one_relay_takes_over_positions_that_differ, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->b, 0);

	relay_set(f, "relay.idle_interval", "100ms");
	shares_of_log(f);
	shares_start_two(f);
	fake->by_hand = true;
	for (int i = 0; i < 3; i++) {
		relay_put(f, letters);
		RELAY_UNTIL(f, &f->b, fake->n > 10);
		SHARES_UNTIL(f, relay_number(f, words->highest) == 52 * (i + 1));
	}
	assert_int_equal(positions(f), 2);
	stop(f, 0);
	relay_vanish(&f->b);
	relay_sql(f, "UPDATE wherry_lease SET expires_at = 0");
	relay_sql(f, words->alone);
	relay_set(f, "relay.name", "alone");
	relay_start(f, &f->c);
	RELAY_UNTIL(f, &f->c, relay_count(f, WHERRY_DONE) == 156);
	assert_int_equal(relay_delivered(f),
			 156); /* The fake noted none of those that were in flight. */
	relay_check_once(f, 156);
	relay_check_order(f);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->c, relay_count(f, WHERRY_DONE) == 157);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox_progress"), 1);
}

/* From two to one: what the one that ended delivered is above the position of the other. */
WHERRY_CASE(what_is_ahead_of_a_share_is_not_delivered_again, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->b, 0);

	relay_set(f, "relay.idle_interval", "100ms");
	shares_of_log(f);
	shares_start_two(f);
	fake->by_hand = true;
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_stats(&f->a).delivered + (int64_t)fake->n == 52);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_stats(&f->a).delivered > 0 &&
				relay_number(f, words->highest) == 104);
	stop(f, 0);
	for (int id = 1; id <= 104; id++)
		(void)relay_fake_answer(fake, id, WHERRY_DELIVERED);
	fake->by_hand = false;
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 104);
	relay_check_once(f, 104);
	relay_check_order(f);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 156);
	assert_int_equal(positions(f), 1);
	assert_int_equal(partitions_that_have_a_position(f), 64);
}

/* A seek moves all shares. */
WHERRY_CASE(a_seek_moves_the_positions_of_all_shares, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.idle_interval", "100ms");
	shares_of_log(f);
	shares_start_two(f);
	relay_put(f, letters);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	WHERRY_PASS(wherry_subscription_seek(f->outbox, "27", &err));
	SHARES_UNTIL(f, relay_delivered(f) == 78 && relay_count(f, WHERRY_DONE) == 52);
	for (int id = 1; id <= 52; id++)
		assert_int_equal(relay_told(f, id, WHERRY_DELIVERED), id < 27 ? 1 : 2);
}

const relay_test relay_log_shares_tests[] = {
	RELAY_TEST(an_outbox_that_is_shared_later_goes_on_where_it_was, 0),
	RELAY_TEST(one_relay_takes_over_positions_that_differ, 0),
	RELAY_TEST(what_is_ahead_of_a_share_is_not_delivered_again, 0),
	RELAY_TEST(a_seek_moves_the_positions_of_all_shares, 0),
	RELAY_TESTS_END,
};
