/*
 * Several exclusive relays share an outbox on PostgreSQL: each has some of its slots, and
 * takes and gives up some when others come and go.
 */
#include "relay_suite.h"

#include "outbox/outbox.h"

#include "postgres/server.h"

enum { SIDES = 3 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static relay_side *side_of(relay_fixture *f, int i)
{
	return i == 0 ? &f->a : i == 1 ? &f->b : &f->c;
}

/* One that is told apart by its name: 0, 1 or 2. */
static void start(relay_fixture *f, int i)
{
	char name[8];

	(void)snprintf(name, sizeof(name), "relay%d", i);
	relay_set(f, "relay.name", name);
	relay_start(f, side_of(f, i));
}

/* Each that runs takes a step. */
static void turn_all(relay_fixture *f, int64_t by_us, const char *what, int line,
		     const char *file)
{
	for (int i = 0; i < SIDES; i++)
		if (side_of(f, i)->relay)
			relay_turn(f, side_of(f, i), by_us, what, line, file);
}

#define ALL_UNTIL(f, condition)                                                          \
	do {                                                                             \
		int64_t by_ = relay_deadline();                                          \
		while (!(condition))                                                     \
			turn_all((f), by_, #condition, __LINE__, __FILE__);              \
	} while (0)

/* The slots that a live lease of that name has. */
static uint64_t slots_of(relay_fixture *f, int i)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT coalesce(bit_or(mask), 0) FROM wherry_slot WHERE owner = "
		       "'relay%d' AND expires_at > clock_timestamp()",
		       i);
	return (uint64_t)relay_number(f, sql);
}

static bool shares(relay_fixture *f, int a, int b, int c)
{
	return wh_slots_count(slots_of(f, 0)) == a &&
	       wh_slots_count(slots_of(f, 1)) == b && wh_slots_count(slots_of(f, 2)) == c;
}

/* As a crash would. */
static void kill(relay_fixture *f, int i)
{
	relay_side *side = side_of(f, i);
	char sql[200];

	wherry_relay_close(side->relay);
	side->relay = NULL;
	if (side->fake) {
		relay_fake_drop(side->fake);
	} else {
		wherry_publisher_close(side->pub);
		side->pub = NULL;
	}
	(void)snprintf(sql, sizeof(sql),
		       "UPDATE wherry_slot SET expires_at = 0, clean = 0 WHERE owner = "
		       "'relay%d'",
		       i);
	relay_sql(f, sql);
}

static void stop(relay_fixture *f, int i)
{
	relay_side *side = side_of(f, i);

	wherry_relay_stop(side->relay);
	ALL_UNTIL(f, side->finished);
	wherry_relay_close(side->relay);
	side->relay = NULL;
}

/* Nothing happens by the clock alone. */
static void hourly(relay_fixture *f)
{
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.poll", "1h");
	relay_set(f, "relay.sweep", "1h");
}

static void start_three(relay_fixture *f)
{
	for (int i = 0; i < SIDES; i++)
		start(f, i);
	ALL_UNTIL(f, shares(f, 22, 22, 20));
}

static void three_relays_share_an_outbox(void **state)
{
	relay_fixture *f = *state;

	hourly(f);
	start(f, 0);
	ALL_UNTIL(f, shares(f, 64, 0, 0));
	start(f, 1);
	ALL_UNTIL(f, shares(f, 32, 32, 0));
	start(f, 2);
	ALL_UNTIL(f, shares(f, 22, 22, 20));
	assert_true(relay_logged(f, "event=slots n=20 of=64 relays=3"));
	for (int i = 0; i < 5; i++)
		relay_put(f, letters);
	ALL_UNTIL(f, relay_count(f, WHERRY_DONE) == 260);
	relay_check_once(f, 260);
	relay_check_order(f);
	for (int i = 0; i < SIDES; i++)
		assert_true(relay_stats(side_of(f, i)).published > 0);
}

static void a_relay_that_leaves_hands_its_slots_over_at_once(void **state)
{
	relay_fixture *f = *state;

	hourly(f);
	start_three(f);
	relay_put(f, letters);
	stop(f, 1);
	ALL_UNTIL(f, shares(f, 32, 0, 32));
	relay_put(f, letters);
	stop(f, 0);
	ALL_UNTIL(f, shares(f, 0, 0, 64));
	ALL_UNTIL(f, relay_count(f, WHERRY_DONE) == 104);
	relay_check_once(f, 104);
	relay_check_order(f);
	assert_int_equal(relay_stats(&f->c).suspects, 0);
}

static void what_a_relay_had_that_was_killed_is_taken_over(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->b, 0);

	relay_set(f, "relay.poll", "100ms");
	fake->by_hand = true;
	start_three(f);
	relay_put(f, letters);
	ALL_UNTIL(f, fake->n > 5 && relay_count(f, WHERRY_DONE) > 20);
	kill(f, 1);
	ALL_UNTIL(f, relay_count(f, WHERRY_DONE) == 52);
	assert_true(relay_logged(f, "event=unclean-takeover"));
	relay_check_order(f);
	ALL_UNTIL(f, shares(f, 32, 0, 32));
}

static void no_two_relays_have_a_slot_in_common(void **state)
{
	relay_fixture *f = *state;
	int64_t n = 0;

	relay_set(f, "relay.poll", "100ms");
	f->random = f->seed = 7;
	for (int i = 0; i < 400; i++) {
		uint64_t dice = f->env.random(f);
		int which = (int)((dice >> 16) % SIDES);
		relay_side *side = side_of(f, which);

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
		turn_all(f, relay_deadline(), "a turn", __LINE__, __FILE__);
		assert_int_equal(slots_of(f, 0) & slots_of(f, 1), 0);
		assert_int_equal(slots_of(f, 1) & slots_of(f, 2), 0);
		assert_int_equal(slots_of(f, 2) & slots_of(f, 0), 0);
	}
	for (int i = 0; i < SIDES; i++)
		if (!side_of(f, i)->relay)
			start(f, i);
	ALL_UNTIL(f, relay_count(f, WHERRY_DONE) == n);
	relay_check_order(f);
}

static const relay_test own[] = {
	RELAY_TEST(three_relays_share_an_outbox, 0),
	RELAY_TEST(a_relay_that_leaves_hands_its_slots_over_at_once, 0),
	RELAY_TEST(what_a_relay_had_that_was_killed_is_taken_over, 0),
	RELAY_TEST(no_two_relays_have_a_slot_in_common, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "postgres, slots",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = postgres_enter,
			.drop = postgres_leave,
			.own = own,
			.own_only = true,
			.extras = WH_SHARED,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
