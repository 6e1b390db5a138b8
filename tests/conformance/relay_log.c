/*
 * Tests of the relay on a log alone, and those that do not run there.
 */
#include "relay_log.h"

#include <wherry/subscription.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "event_bus.h"

static int64_t high(relay_fixture *f)
{
	return relay_number(f, "SELECT high FROM outbox_progress");
}

static int64_t exceptions(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM outbox_exception");
}

typedef struct cut_reads {
	int left; /* Reads to fail. */
} cut_reads;

static wherry_code fail_read(void *ctx, const char *op, const char *what,
			     wherry_error *err)
{
	cut_reads *c = ctx;

	if (strcmp(what, "read-log") != 0 || !c->left)
		return WHERRY_OK;
	c->left--;
	return wh_fail(err, WHERRY_BUSY, "the test fails a read");
}

WHERRY_CASE(a_read_that_fails_moves_no_position_back, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	static cut_reads c; /* Outlives the connection. */

	c.left = 0;
	relay_set(f, "relay.idle_interval", "10ms");
	relay_wrap(f, &(wh_trace){.before = fail_read, .ctx = &c});
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	c.left = 2;
	fake->by_hand = true;
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	RELAY_UNTIL(f, &f->a, !c.left);
	for (int i = 0; i < 3; i++)
		relay_turn(f, &f->a, relay_deadline(), "turns", __LINE__, __FILE__);
	assert_int_equal(high(f), 2);
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, high(f) == 3);
	relay_check_once(f, 3);
}

/* Messages that were read and not submitted become exceptions, if others of their look were
 * delivered. */
WHERRY_CASE(a_clean_end_in_the_middle_of_a_look_delivers_nothing_again, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "aaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	wherry_relay_stop(f->a.relay);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(high(f), 4);
	assert_int_equal(exceptions(f), 2);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
	assert_int_equal(exceptions(f), 0);
}

/* One message that stays in flight does not keep the position back. */
static void what_is_delivered_beside_an_open_message_is_not_delivered_after_a_crash(
	void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	for (int id = 2; id <= 4; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3); /* After a second. */
	assert_int_equal(high(f), 4);
	assert_int_equal(exceptions(f), 1);
	relay_kill(f, &f->a);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 1);
	relay_check_once(f, 4);
}

/* As a restore does: the relay was ahead, and what it delivered since is delivered again. */
WHERRY_CASE(a_position_that_goes_back_is_believed, relay_fixture *f)
{
	relay_set(f, "relay.idle_interval", "10ms");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	relay_stop(f, &f->a);
	relay_sql(f, "UPDATE outbox_progress SET high = 1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 1);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 2);
}

/* As after a crash: the second waited behind the first, and is an exception that the position does not
 * cover; the first was in flight. */
static void a_message_that_waited_does_not_overtake_its_key_after_a_crash(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.window", "1");
	relay_set(f, "relay.batch", "1");
	relay_put(f, "abaaab");
	relay_sql(f, "INSERT INTO outbox_exception(subscription, id, state, attempts) "
		     "VALUES ('relay', 3, 0, 0), ('relay', 5, 3, 1), ('relay', 6, 4, 1)");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_order(f);
	relay_check_once(f, 5);
	assert_int_equal(relay_state(f, 6), WHERRY_DEAD);
	assert_int_equal(exceptions(f), 1);
}

/* An operator discards a message that is delivered, and somebody writes another one with its id. */
static void what_takes_the_id_of_an_exception_in_flight_is_delivered(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "a");
	relay_sql(f, "UPDATE outbox_progress SET high = 1");
	relay_sql(f, "INSERT INTO outbox_exception(subscription, id, state, attempts) "
		     "VALUES ('relay', 1, 0, 0)");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	relay_sql(f, "DELETE FROM outbox");
	relay_sql(f, "INSERT INTO outbox(id, topic, partition_key, payload) "
		     "VALUES (1, 'new', 'b', '{}')");
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 2);
	assert_string_equal(f->events[f->n_events - 1].topic, "new");
}

/* ---- consumers ---- */

typedef struct consumed {
	int64_t ids[10];
	int n, most; /* The visit fails at this one; 0: at none. */
	relay_fixture *f;
} consumed;

static wherry_code take_consumed(void *ctx, const wherry_row *row)
{
	consumed *c = ctx;

	assert_true(c->n < 10);
	assert_int_equal(row->state, WHERRY_PENDING);
	c->ids[c->n++] = row->message->id;
	assert_int_equal(
		relay_number(c->f, "SELECT count(*) FROM outbox WHERE id > 0") > 0, 1);
	return c->n == c->most ? WHERRY_FULL : WHERRY_OK;
}

/* Consume at most n; `ids`: "1 2". */
static void check_consumed(relay_fixture *f, int64_t n, const char *ids)
{
	wherry_error err = WHERRY_ERROR_INIT;
	consumed c = {.f = f};
	int64_t got = -1;
	char text[100] = "";
	size_t len = 0;

	WHERRY_PASS(
		wherry_subscription_consume(f->outbox, n, take_consumed, &c, &got, &err));
	assert_int_equal(got, c.n);
	for (int i = 0; i < c.n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d",
					i ? " " : "", (int)c.ids[i]);
	assert_string_equal(text, ids);
}

WHERRY_CASE(consumers_and_relays_go_on_where_the_other_ended, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	consumed c = {.f = f, .most = 1};

	relay_put(f, "abc");
	check_consumed(f, 2, "1 2");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_told(f, 3, WHERRY_DELIVERED) == 1);
	assert_int_equal(relay_delivered(f), 1);
	assert_int_equal(
		wherry_subscription_consume(f->outbox, 1, take_consumed, &c, NULL, &err),
		WHERRY_BUSY);
	assert_non_null(strstr(err.message, "a relay reads subscription 'relay'"));
	relay_stop(f, &f->a);
	relay_put(f, "de");
	assert_int_equal(
		wherry_subscription_consume(f->outbox, 5, take_consumed, &c, NULL, &err),
		WHERRY_FULL);
	check_consumed(f, 5, "4 5");
	check_consumed(f, 5, "");
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	relay_put(f, "g");
	check_consumed(f, 5, "");
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	assert_int_equal(
		wherry_subscription_consume(f->outbox, 0, take_consumed, &c, NULL, &err),
		WHERRY_INVALID);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_delivered(f), 2);
}

WHERRY_CASE(a_consumer_takes_what_a_relay_left_and_no_dead_message, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	relay_hourly(f);
	relay_set(f, "retry.attempts", "1");
	fake->by_hand = true;
	relay_put(f, "abbc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	assert_true(relay_fake_answer(fake, 1, WHERRY_REJECTED));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1 && high(f) == 4);
	relay_kill(f, &f->a);
	relay_sql(f, "DELETE FROM wherry_lease");
	check_consumed(f, 5, "2 3");
	check_consumed(f, 5, "");
	WHERRY_PASS(wherry_outbox_retry(f->outbox, &WHERRY_OUTBOX_FILTER(), &n, &err));
	assert_int_equal(n, 1);
	check_consumed(f, 5, "1");
	check_consumed(f, 5, "");
	assert_int_equal(exceptions(f), 0);
}

const relay_test relay_log_tests[] = {
	RELAY_TEST(what_takes_the_id_of_an_exception_in_flight_is_delivered, 0),
	RELAY_TEST(a_message_that_waited_does_not_overtake_its_key_after_a_crash, 0),
	RELAY_TEST(a_read_that_fails_moves_no_position_back, 0),
	RELAY_TEST(a_clean_end_in_the_middle_of_a_look_delivers_nothing_again, 0),
	RELAY_TEST(
		what_is_delivered_beside_an_open_message_is_not_delivered_after_a_crash,
		0),
	RELAY_TEST(a_position_that_goes_back_is_believed, 0),
	RELAY_TEST(consumers_and_relays_go_on_where_the_other_ended, 0),
	RELAY_TEST(a_consumer_takes_what_a_relay_left_and_no_dead_message, 0),
	RELAY_TESTS_END,
};

/* ---- the state of messages ---- */

const char relay_log_sqlite_views[] = RELAY_LOG_SQLITE_VIEWS("outbox");
const char relay_log_postgres_views[] = RELAY_LOG_POSTGRES_VIEWS("outbox");

void relay_log_translate(const char *sql, char *out, size_t cap)
{
	static const char *const columns[] = {"status",     "attempts",   "next_retry_at",
					      "last_error", "claimed_at", "claim_token"};
	bool is_state = false;

	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		is_state = is_state || strstr(sql, columns[i]);
	if (is_state && !strstr(sql, "CREATE "))
		event_bus_translate(sql, out, cap);
	else if (strncmp(sql, "DROP TABLE outbox", 17) == 0)
		(void)snprintf(out, cap, "DROP VIEW IF EXISTS native; %s", sql);
	else
		(void)snprintf(out, cap, "%s", sql);
}

const char *const relay_log_except[] = {
	/* Rows are not claimed. */
	"after_a_claim_that_failed_a_key_keeps_its_order",
	"what_took_the_id_of_a_claimed_message_is_delivered",
	/* Nothing is written to rows, so no trigger of the table refuses an acknowledgement. */
	"a_failure_beside_a_row_that_cannot_be_written_is_recorded",
	"a_row_that_cannot_be_written_holds_up_no_other", NULL};
