/*
 * A foreign transaction keeps one row locked: an administrator's tool, or a forgotten session.  On each table
 * whose rows relays write to, others go on, and the relay says so.
 */
#include "relay_suite.h"

#include "event_bus.h"
#include "relay_delayed.h"
#include "relay_funfix.h"
#include "relay_queue.h"

#include "outbox/outbox.h"
#include "postgres/eventferry.h"
#include "postgres/server.h"

static const char *table_of(const relay_fixture *f)
{
	return f->queue ? "jobs" : f->delayed ? "later" : "outbox";
}

static PGconn *lock_row(const relay_fixture *f, int64_t id)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "SELECT 1 FROM %s WHERE id = %lld FOR UPDATE",
		       table_of(f), (long long)id);
	return postgres_begin(sql);
}

static relay_fake *by_hand(relay_fixture *f, relay_side *side)
{
	relay_fake *fake = relay_use_fake(f, side, 0);

	fake->by_hand = true;
	return fake;
}

WHERRY_CASE(an_unread_row_that_is_locked_holds_up_no_other, relay_fixture *f)
{
	PGconn *other;

	relay_set(f, "relay.idle_interval", "100ms");
	relay_put(f, "ab");
	other = lock_row(f, 1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	postgres_end(other, "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_once(f, 3);
}

/* Message 1 is in flight when its row is locked, and gets this answer. */
static void answer_locked(relay_fixture *f, wherry_verdict verdict, wherry_state end)
{
	relay_fake *fake = by_hand(f, &f->a);
	PGconn *other;

	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	other = lock_row(f, 1);
	assert_true(relay_fake_answer(fake, 1, verdict));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=row-locked"));
	postgres_end(other, "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_count(f, end) == (end == WHERRY_DONE ? 3 : 1));
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), end == WHERRY_DONE);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 1);
	assert_int_equal(relay_told(f, 3, WHERRY_DELIVERED), 1);
}

static void a_delivered_row_that_is_locked_holds_up_no_other(void **state)
{
	answer_locked(*state, WHERRY_DELIVERED, WHERRY_DONE);
}

static void a_failed_row_that_is_locked_holds_up_no_other(void **state)
{
	answer_locked(*state, WHERRY_RETRY, WHERRY_DONE);
}

static void a_dead_row_that_is_locked_holds_up_no_other(void **state)
{
	answer_locked(*state, WHERRY_REJECTED, WHERRY_DEAD);
}

WHERRY_CASE(a_row_that_is_locked_keeps_no_relay_from_stopping, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);
	PGconn *other;

	relay_set(f, "relay.stop_timeout", "3s");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	other = lock_row(f, 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	wherry_relay_stop(f->a.relay);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
	postgres_end(other, "COMMIT");
}

/* ---- of relays that compete ---- */

/* When the claim of message 2 ends, in milliseconds. */
static int64_t claim_of_2(relay_fixture *f)
{
	return relay_number(f, "SELECT (extract(epoch FROM greatest(next_retry_at, "
			       "claimed_at)) * 1000)::bigint FROM outbox WHERE id = 2");
}

WHERRY_CASE(a_locked_row_keeps_no_other_claim_from_being_extended, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);
	int64_t first;
	PGconn *other;

	relay_set(f, "relay.claim_timeout", "3s");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	other = lock_row(f, 1);
	first = claim_of_2(f);
	RELAY_UNTIL(f, &f->a, claim_of_2(f) > first);
	postgres_end(other, "COMMIT");
	fake->by_hand = false;
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

WHERRY_CASE(an_expired_row_that_is_locked_holds_up_no_other, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);
	PGconn *other;

	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	relay_vanish(&f->a);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 1");
	other = lock_row(f, 1);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 2);
	relay_put(f, "d");
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 3);
	postgres_end(other, "COMMIT");
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
}

/* The claim of a locked row is one of 9 of a relay that died: a share of them is 2. */
WHERRY_CASE(a_locked_share_of_expired_rows_holds_up_no_other_key, relay_fixture *f)
{
	relay_fake *fake = by_hand(f, &f->a);
	PGconn *other;

	relay_put(f, "aabcdefgh");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 8);
	relay_vanish(&f->a);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 1");
	other = lock_row(f, 1);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 7);
	relay_put(f, "i");
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 8);
	postgres_end(other, "COMMIT");
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 10);
	relay_check_once(f, 10);
	relay_check_order(f);
}

/* All that expired with the first claim are of its key. */
WHERRY_CASE(expired_rows_behind_a_locked_one_hold_up_no_other_claim, relay_fixture *f)
{
	relay_fake *first = by_hand(f, &f->a), *second = by_hand(f, &f->b);
	PGconn *other;

	relay_put(f, "aaaaaaaaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, first->n == 1);
	relay_vanish(&f->a);
	relay_put(f, "b");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, second->n == 1);
	relay_vanish(&f->b);
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 1 AND id < 10");
	relay_sql(f, "UPDATE outbox SET next_retry_at = 2 WHERE status = 1 AND id = 10");
	other = lock_row(f, 1);
	first->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	postgres_end(other, "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 10);
	relay_check_once(f, 10);
	relay_check_order(f);
}

#define EVERY                                                                            \
	RELAY_TEST(an_unread_row_that_is_locked_holds_up_no_other, 0),                   \
		RELAY_TEST(a_delivered_row_that_is_locked_holds_up_no_other, 0),         \
		RELAY_TEST(a_failed_row_that_is_locked_holds_up_no_other, 0),            \
		RELAY_TEST(a_dead_row_that_is_locked_holds_up_no_other, 0),              \
		RELAY_TEST(a_row_that_is_locked_keeps_no_relay_from_stopping, 0)

static const relay_test claiming[] = {
	EVERY,
	RELAY_TEST(a_locked_row_keeps_no_other_claim_from_being_extended, 0),
	RELAY_TEST(an_expired_row_that_is_locked_holds_up_no_other, 0),
	RELAY_TESTS_END,
};

static const relay_test claiming_keys[] = {
	EVERY,
	RELAY_TEST(a_locked_row_keeps_no_other_claim_from_being_extended, 0),
	RELAY_TEST(an_expired_row_that_is_locked_holds_up_no_other, 0),
	RELAY_TEST(a_locked_share_of_expired_rows_holds_up_no_other_key, 0),
	RELAY_TEST(expired_rows_behind_a_locked_one_hold_up_no_other_claim, 0),
	RELAY_TESTS_END,
};

#define PLACE(tests, drop_)                                                              \
	.own = (tests), .own_only = true, .make = postgres_enter,                        \
	.again = postgres_enter_again, .note = postgres_note_here, .drop = (drop_),      \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE
#define OF_OTHERS(tables_, views_)                                                       \
	.tables = (tables_), .views = (views_), .translate = event_bus_translate,        \
	.keeps_ids = true

int main(void)
{
	static const relay_target targets[] = {
		{.name = "eventferry",
		 PLACE(claiming_keys, postgres_leave),
		 OF_OTHERS(eventferry_tables, eventferry_views)},
		{.name = "queue",
		 PLACE(claiming, postgres_leave),
		 .queue = true,
		 OF_OTHERS(relay_queue_postgres_tables, relay_queue_postgres_views)},
		{.name = "delayed",
		 PLACE(claiming, postgres_leave),
		 .delayed = true,
		 OF_OTHERS(relay_delayed_postgres_tables, relay_delayed_postgres_views)},
		{.name = "funfix",
		 PLACE(claiming, postgres_leave),
		 .delayed = true,
		 .layout = "funfix",
		 OF_OTHERS(relay_funfix_postgres_tables, relay_funfix_postgres_views)},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
