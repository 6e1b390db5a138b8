/*
 * The database fails, once, at each of its calls in turn: nothing is lost, delivered
 * twice or reordered.  On any database; tests/fault goes through all errors.
 */
#include "relay_suite.h"

typedef struct plan {
	int at;   /* the call that fails, from 1 */
	int seen; /* calls made */
	bool armed;
	wherry_code with;
	char where[64];
} plan;

static wherry_code fail_at(void *ctx, const char *op, const char *what, wherry_error *err)
{
	plan *p = ctx;

	if (!p->armed || ++p->seen != p->at)
		return WHERRY_OK;
	(void)snprintf(p->where, sizeof(p->where), "%.20s %.20s", op, what);
	return wh_fail(err, p->with, "the test fails %s", p->where);
}

static void check_all(relay_fixture *f, const plan *p)
{
	bool right = relay_count(f, WHERRY_DONE) == 7 &&
		     relay_state(f, 4) == WHERRY_DEAD && relay_attempts(f, 1) == 1 &&
		     relay_attempts(f, 4) == 1 && relay_delivered(f) == 7;

	for (int64_t id = 1; id <= 8; id++)
		right &= relay_told(f, id, WHERRY_DELIVERED) == (id != 4);
	if (!right)
		fail_msg("after %s failed with %s", p->where, wherry_code_name(p->with));
	relay_check_order(f);
}

/* Returns false once no call was left to fail. */
static bool run_with(relay_fixture *f, plan *p)
{
	wherry_outcome outcome;

	relay_fresh(f);
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_answers(f, 4, WHERRY_REJECTED, -1);
	relay_wrap(f, &(wh_trace){.before = fail_at, .ctx = p});
	relay_put(f, "abab-aab");
	relay_start(f, &f->a);
	p->armed = true;
	outcome = relay_run_empty(f, &f->a);
	p->armed = false;
	if (outcome != WHERRY_DEATHS)
		fail_msg("outcome %d after %s failed with %s", (int)outcome, p->where,
			 wherry_code_name(p->with));
	check_all(f, p);
	return p->seen >= p->at;
}

static void sweep(relay_fixture *f, wherry_code with)
{
	static plan p; /* outlives the connection */

	relay_set(f, "relay.window", "4");
	relay_set(f, "relay.batch", "2");
	relay_set(f, "relay.idle_interval", "10ms");
	p = (plan){.at = 1, .with = with};
	while (run_with(f, &p))
		p = (plan){.at = p.at + 1, .with = with};
	assert_true(p.at > 10);
}

static void a_busy_database_is_waited_out_at_every_call(void **state)
{
	sweep(*state, WHERRY_BUSY);
}

/* The relay before it was killed: all are suspects. */
static void leave_an_unclean_end(relay_fixture *f)
{
	relay_sql(f, "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, "
		     "expires_at, clean, unclean, win, suspects) "
		     "VALUES ('outbox', 0, 'log', 'gone', 7, 0, 0, 1, 4, 0)");
}

static bool unclean_run(relay_fixture *f, plan *p)
{
	relay_fresh(f);
	relay_wrap(f, &(wh_trace){.before = fail_at, .ctx = p});
	relay_put(f, "abab-aab");
	leave_an_unclean_end(f);
	relay_start(f, &f->a);
	p->armed = true;
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	p->armed = false;
	relay_check_once(f, 8);
	relay_check_order(f);
	assert_true(relay_number(f, "SELECT max(attempts) FROM outbox") <= 1);
	return p->seen >= p->at;
}

WHERRY_CASE(a_busy_database_is_waited_out_while_there_are_suspects, relay_fixture *f)
{
	static plan p; /* outlives the connection */

	relay_set(f, "relay.idle_interval", "10ms");
	p = (plan){.at = 1, .with = WHERRY_BUSY};
	while (unclean_run(f, &p))
		p = (plan){.at = p.at + 1, .with = WHERRY_BUSY};
	assert_true(p.at > 10);
}

/* What was written, but not the answer, is written again. */
static wherry_code lose_answer(void *ctx, const char *op, const char *what,
			       wherry_code code, int64_t took_us, wherry_error *err)
{
	plan *p = ctx;

	if (code != WHERRY_OK || !p->armed || strcmp(op, "commit") != 0 ||
	    ++p->seen % 2 == 0)
		return code;
	return wh_fail(err, WHERRY_IO, "the answer is lost");
}

WHERRY_CASE(a_lost_answer_counts_no_attempt_twice, relay_fixture *f)
{
	static plan p; /* outlives the connection */

	p = (plan){.armed = true};
	relay_wrap(f, &(wh_trace){.after = lose_answer, .ctx = &p});
	relay_answers(f, 1, WHERRY_RETRY, 2);
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	p.armed = false;
	assert_true(p.seen > 4);
	assert_int_equal(relay_attempts(f, 1), 2);
	assert_int_equal(relay_attempts(f, 2), 1);
}

/* Neither does one that is recorded before it is made. */
WHERRY_CASE(a_lost_answer_records_no_attempt_twice, relay_fixture *f)
{
	static plan p; /* outlives the connection */

	p = (plan){.armed = true};
	relay_wrap(f, &(wh_trace){.after = lose_answer, .ctx = &p});
	leave_an_unclean_end(f);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	p.armed = false;
	assert_true(p.seen > 4);
	if (relay_on_log(f)) /* Where nothing is kept of a delivered message. */
		return;
	assert_int_equal(relay_attempts(f, 1), 1);
	assert_int_equal(relay_attempts(f, 2), 1);
}

/* For a while nothing works at all. */
WHERRY_CASE(a_long_outage_is_waited_out, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);
	static plan p; /* outlives the connection */

	p = (plan){.with = WHERRY_IO, .at = 1};
	relay_wrap(f, &(wh_trace){.before = fail_at, .ctx = &p});
	fake->by_hand = true;
	relay_put(f, "aab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	for (p.armed = true; p.seen < 20; p.at = p.seen + 1) {
		for (int64_t id = 1; id <= 4; id++)
			(void)relay_fake_answer(fake, id, WHERRY_DELIVERED);
		f->offset_us += 300000;
		relay_turn(f, &f->a, relay_deadline(), "calls", __LINE__, __FILE__);
	}
	p.armed = false;
	assert_true(relay_logged(f, "event=database-trouble code=IO"));
	assert_int_equal(relay_count(f, WHERRY_PENDING), 4);
	relay_put(f, "a");
	fake->by_hand = false;
	f->offset_us += 5 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
}

/* Fails the first commit of a claim. */
static wherry_code fail_claim(void *ctx, const char *op, const char *what,
			      wherry_error *err)
{
	plan *p = ctx;

	p->seen += strcmp(what, "claim") == 0;
	if (!p->armed || !p->seen || strcmp(op, "commit") != 0)
		return WHERRY_OK;
	p->armed = false;
	return wh_fail(err, p->with, "the test fails a claim");
}

/* What it read of a claim that was rolled back is not what it holds. */
WHERRY_CASE(after_a_claim_that_failed_a_key_keeps_its_order, relay_fixture *f)
{
	static plan p; /* outlives the connection */

	p = (plan){.armed = true, .with = WHERRY_BUSY};
	relay_wrap(f, &(wh_trace){.before = fail_claim, .ctx = &p});
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, !p.armed);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
}

const relay_test relay_fault_tests[] = {
	RELAY_TEST(a_busy_database_is_waited_out_at_every_call, 0),
	RELAY_TEST(a_busy_database_is_waited_out_while_there_are_suspects, 0),
	RELAY_TEST(a_lost_answer_counts_no_attempt_twice, 0),
	RELAY_TEST(a_lost_answer_records_no_attempt_twice, 0),
	RELAY_TEST(a_long_outage_is_waited_out, 0),
	RELAY_TEST(after_a_claim_that_failed_a_key_keeps_its_order, RELAY_KEYS),
	RELAY_TESTS_END,
};
