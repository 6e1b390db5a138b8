/*
 * Acknowledging and giving back: group A of the portable checklist, and what each outcome means.
 */
#include "delayed/delayed.h"
#include "delayed_suite.h"

/* Poll one message, whose token is copied. */
static void poll_one(delayed_fixture *f, const char *body, char out[80])
{
	(void)snprintf(out, 80, "%s", delayed_polls(f, 1, body)->tokens[0]);
}

static void read_one(delayed_fixture *f, const char *key, char out[80])
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	WHERRY_PASS(wherry_delayed_read(f->queue, key, delayed_note, &got, NULL, &err));
	assert_int_equal(got.n, 1);
	(void)snprintf(out, 80, "%s", got.tokens[0]);
}

static void an_acknowledged_message_is_gone(void **state)
{
	char token[80];

	(void)delayed_offer(*state, "k", "a", 0);
	poll_one(*state, "a", token);
	delayed_acks(*state, token, WHERRY_ACKNOWLEDGED);
	assert_false(delayed_has(*state, "k"));
}

/* Defect 24 of the reference: nobody was told what became of an acknowledgement. */
static void a_second_acknowledgement_says_that_the_lease_is_lost(void **state)
{
	char token[80];

	(void)delayed_offer(*state, "k", "a", 0);
	poll_one(*state, "a", token);
	delayed_acks(*state, token, WHERRY_ACKNOWLEDGED);
	delayed_acks(*state, token, WHERRY_LEASE_LOST);
	assert_false(delayed_has(*state, "k"));
}

static void an_update_supersedes_a_leased_message(void **state)
{
	char first[80], second[80];

	assert_int_equal(delayed_offer(*state, "k", "1", 0), WHERRY_CREATED);
	poll_one(*state, "1", first);
	assert_int_equal(delayed_offer(*state, "k", "2", 0), WHERRY_UPDATED);
	poll_one(*state, "2", second);
	delayed_acks(*state, first, WHERRY_SUPERSEDED);
	assert_true(delayed_has(*state, "k"));
	delayed_acks(*state, second, WHERRY_ACKNOWLEDGED);
	assert_false(delayed_has(*state, "k"));
}

static void a_superseded_message_can_be_polled_at_once(void **state)
{
	const delayed_got *got;
	char token[80];

	(void)delayed_offer(*state, "k", "1", 0);
	poll_one(*state, "1", token);
	(void)delayed_offer(*state, "k", "2", 0);
	delayed_acks(*state, token, WHERRY_SUPERSEDED);
	got = delayed_polls(*state, 1, "2");
	assert_int_equal(got->attempts[0], 1);
	assert_false(got->redelivery[0]);
}

static void a_lease_that_ended_is_good_until_another_polls(void **state)
{
	char first[80], second[80];

	(void)delayed_offer(*state, "a", "1", 0);
	poll_one(*state, "1", first);
	delayed_pass(*state, 6);
	delayed_acks(*state, first, WHERRY_ACKNOWLEDGED);
	(void)delayed_offer(*state, "b", "2", 0);
	poll_one(*state, "2", first);
	delayed_pass(*state, 6);
	poll_one(*state, "2", second);
	delayed_acks(*state, first, WHERRY_LEASE_LOST);
	delayed_acks(*state, second, WHERRY_ACKNOWLEDGED);
}

WHERRY_CASE(a_batch_says_of_each_message_what_became_of_it, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *tokens[4];
	char of_read[80];
	wherry_ack_outcome out[4];
	delayed_got got;

	(void)delayed_offer(f, "a", "1", -3);
	(void)delayed_offer(f, "b", "2", -2);
	(void)delayed_offer(f, "c", "3", -1);
	(void)delayed_offer(f, "d", "4", 9);
	got = *delayed_polls(f, 9, "1 2 3");
	read_one(f, "d", of_read);
	(void)delayed_offer(f, "b", "2b", -2);
	WHERRY_PASS(delayed_does.drop_key(f->queue, "c", NULL, &err));
	for (int i = 0; i < 3; i++)
		tokens[i] = got.tokens[i];
	tokens[3] = of_read;
	WHERRY_PASS(delayed_does.ack(f->queue, tokens, 4, out, &err));
	assert_int_equal(out[0], WHERRY_ACKNOWLEDGED);
	assert_int_equal(out[1], WHERRY_SUPERSEDED);
	assert_int_equal(out[2], WHERRY_LEASE_LOST);
	assert_int_equal(out[3], WHERRY_ACKNOWLEDGED);
	(void)delayed_polls(f, 9, "2b");
	assert_false(delayed_has(f, "d"));
}

WHERRY_CASE(messages_of_several_polls_are_settled_together, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char first[80], second[80];
	const char *tokens[] = {first, second};
	wherry_ack_outcome out[2];

	(void)delayed_offer(f, "a", "1", -2);
	(void)delayed_offer(f, "b", "2", -1);
	poll_one(f, "1", first);
	poll_one(f, "2", second);
	WHERRY_PASS(delayed_does.ack(f->queue, tokens, 2, out, &err));
	assert_int_equal(out[0], WHERRY_ACKNOWLEDGED);
	assert_int_equal(out[1], WHERRY_ACKNOWLEDGED);
	delayed_counts(f, "0 0 0 0");
}

/* A27 of the checklist; with `pass` 0 it is defect 12 of the reference: versions were times. */
static void read_ack(delayed_fixture *f, double pass)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char first[80], second[80], third[80];
	int64_t n = -7;

	(void)delayed_offer(f, "k1", "1", 1);
	(void)delayed_offer(f, "k2", "2", 1);
	(void)delayed_offer(f, "k3", "3", 1);
	assert_null(delayed_body(f, "k4"));
	read_one(f, "k1", first);
	read_one(f, "k2", second);
	read_one(f, "k3", third);
	delayed_pass(f, pass);
	(void)delayed_offer(f, "k2", "2b", 1 - pass);
	(void)delayed_offer(f, "k3", "3", 2 - pass);
	delayed_acks(f, first, WHERRY_ACKNOWLEDGED);
	delayed_acks(f, second, WHERRY_SUPERSEDED);
	delayed_acks(f, third, WHERRY_SUPERSEDED);
	assert_false(delayed_has(f, "k1"));
	WHERRY_PASS(wherry_delayed_drop_all(f->queue, WHERRY_DELAYED_DROP_ALL, &n, &err));
	assert_int_equal(n, 2);
}

static void an_acknowledgement_of_a_message_read_before_an_update_deletes_nothing(
	void **state)
{
	read_ack(*state, 1);
}

static void
an_acknowledgement_of_a_message_read_before_an_update_in_the_same_millisecond_deletes_nothing(
	void **state)
{
	read_ack(*state, 0);
}

WHERRY_CASE(a_message_given_back_waits_and_says_why, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char token[80];
	const char *tokens[] = {token};
	wherry_ack_outcome out;
	const delayed_got *got;

	(void)delayed_offer(f, "k", "a", 0);
	poll_one(f, "a", token);
	WHERRY_PASS(delayed_does.nack(f->queue, tokens, 1, 3LL * SECOND_US, "no route",
				      &out, &err));
	assert_int_equal(out, WHERRY_ACKNOWLEDGED);
	delayed_counts(f, "0 0 1 0");
	assert_int_equal(
		delayed_int(f, f->layout ? "SELECT count(*) FROM later_tries WHERE "
					   "last_error = 'no route'"
					 : "SELECT count(*) FROM later WHERE "
					   "last_error = 'no route'"),
		1);
	delayed_pass(f, 2.999);
	(void)delayed_polls(f, 1, "");
	delayed_pass(f, 0.001);
	got = delayed_polls(f, 1, "a");
	assert_int_equal(got->attempts[0], 2);
	assert_true(got->redelivery[0]);
	WHERRY_PASS(delayed_does.nack(f->queue, tokens, 1, 0, NULL, &out, &err));
	assert_int_equal(out, WHERRY_LEASE_LOST);
}

WHERRY_CASE(a_message_given_back_without_a_delay_is_due_at_once, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char token[80];
	const char *tokens[] = {token};
	wherry_ack_outcome out;

	(void)delayed_offer(f, "k", "a", 0);
	poll_one(f, "a", token);
	WHERRY_PASS(delayed_does.nack(f->queue, tokens, 1, 0, NULL, &out, &err));
	assert_true(delayed_polls(f, 1, "a")->redelivery[0]);
}

WHERRY_CASE(an_extended_lease_lasts, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char token[80];
	const char *tokens[] = {token};
	wherry_ack_outcome out;

	(void)delayed_offer(f, "k", "a", 0);
	poll_one(f, "a", token);
	WHERRY_PASS(
		delayed_does.extend(f->queue, tokens, 1, 60LL * SECOND_US, &out, &err));
	assert_int_equal(out, WHERRY_ACKNOWLEDGED);
	delayed_pass(f, 59);
	(void)delayed_polls(f, 1, "");
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
	WHERRY_PASS(
		delayed_does.extend(f->queue, tokens, 1, 60LL * SECOND_US, &out, &err));
	assert_int_equal(out, WHERRY_LEASE_LOST);
	WHERRY_FAILS(WHERRY_INVALID,
		     delayed_does.extend(f->queue, tokens, 1, 0, &out, &err));
}

/* As when a command could not print it. */
WHERRY_CASE(a_poll_that_nobody_saw_counts_no_attempt, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char token[80];
	const char *tokens[] = {token};
	const delayed_got *got;
	wherry_ack_outcome out;

	(void)delayed_offer(f, "k", "a", 0);
	for (int32_t tried = 1; tried < 4; tried++) {
		for (int i = 0; i < 2; i++) {
			poll_one(f, "a", token);
			WHERRY_PASS(wh_delayed_unpoll(f->queue, tokens, 1, &out, &err));
			assert_int_equal(out, WHERRY_ACKNOWLEDGED);
			delayed_counts(f, "1 0 0 0");
		}
		got = delayed_polls(f, 1, "a");
		(void)snprintf(token, sizeof(token), "%s", got->tokens[0]);
		assert_int_equal(got->attempts[0], tried);
		WHERRY_PASS(delayed_does.nack(f->queue, tokens, 1, 0, "x", &out, &err));
	}
	WHERRY_PASS(wh_delayed_unpoll(f->queue, tokens, 1, &out, &err));
	assert_int_equal(out, WHERRY_LEASE_LOST);
}

WHERRY_CASE(a_superseded_message_cannot_be_given_back_or_kept, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char token[80];
	const char *tokens[] = {token};
	wherry_ack_outcome out;

	(void)delayed_offer(f, "k", "1", 0);
	poll_one(f, "1", token);
	(void)delayed_offer(f, "k", "2", 0);
	WHERRY_PASS(delayed_does.nack(f->queue, tokens, 1, SECOND_US, "x", &out, &err));
	assert_int_equal(out, WHERRY_SUPERSEDED);
	WHERRY_PASS(delayed_does.extend(f->queue, tokens, 1, SECOND_US, &out, &err));
	assert_int_equal(out, WHERRY_SUPERSEDED);
	WHERRY_PASS(delayed_does.dead_letter(f->queue, tokens, 1, "x", &out, &err));
	assert_int_equal(out, WHERRY_SUPERSEDED);
	(void)delayed_polls(f, 1, "2");
}

/* The JVM library may write two offers of a key in one millisecond, with one "createdAt". */
static void an_acknowledgement_of_a_message_read_before_its_time_changed_deletes_nothing(
	void **state)
{
	delayed_fixture *f = *state;
	char token[80];

	(void)delayed_offer(f, "k", "1", 0);
	read_one(f, "k", token);
	delayed_raw(f,
		    "UPDATE later SET \"scheduledAtInitially\" = \"scheduledAt\" + 5000");
	delayed_acks(f, token, WHERRY_SUPERSEDED);
	assert_true(delayed_has(f, "k"));
}

WHERRY_CASE(a_token_that_is_none_is_refused, delayed_fixture *f)
{
	static const char *const wrong[] = {"",
					    "x",
					    "1",
					    "1.",
					    "1.2.",
					    "1.2.x y",
					    ".2.x",
					    "1.2.x.y",
					    "1.2.0123456789012345678901234567890123456",
					    "1.2",
					    "1.2:",
					    "1.2:3.x",
					    "1234567890123456789.1:1"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome out = WHERRY_LEASE_LOST;
	char of_read[80];
	const char *tokens[] = {of_read};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     delayed_does.ack(f->queue, &wrong[i], 1, &out, &err));
	(void)delayed_offer(f, "k", "1", 0);
	read_one(f, "k", of_read);
	WHERRY_FAILS(WHERRY_INVALID,
		     delayed_does.nack(f->queue, tokens, 1, 0, NULL, &out, &err));
	assert_non_null(strstr(err.message, "was read and not polled"));
	assert_int_equal(out, WHERRY_LEASE_LOST);
}

WHERRY_CASE(a_token_of_another_queue_settles_nothing, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *other = NULL;
	char token[80];
	const char *tokens[] = {token};
	wherry_ack_outcome out;

	(void)delayed_offer(f, "k", "1", 0);
	poll_one(f, "1", token);
	WHERRY_PASS(wherry_delayed_open(f->db, "later", "other", NULL, &other, &err));
	WHERRY_PASS(delayed_does.ack(other, tokens, 1, &out, &err));
	assert_int_equal(out, WHERRY_LEASE_LOST);
	wherry_delayed_close(other);
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
}

WHERRY_CASE(a_rolled_back_settlement_never_was, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char token[80];

	(void)delayed_offer(f, "k", "1", 0);
	poll_one(f, "1", token);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
	wherry_db_rollback(f->db);
	delayed_counts(f, "0 1 0 0");
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
}

const delayed_case delayed_settle_cases[] = {
	DELAYED_CASE(an_acknowledged_message_is_gone),
	DELAYED_CASE(a_second_acknowledgement_says_that_the_lease_is_lost),
	DELAYED_CASE(an_update_supersedes_a_leased_message),
	DELAYED_CASE(a_superseded_message_can_be_polled_at_once),
	DELAYED_CASE(a_lease_that_ended_is_good_until_another_polls),
	DELAYED_CASE(a_batch_says_of_each_message_what_became_of_it),
	DELAYED_CASE(messages_of_several_polls_are_settled_together),
	DELAYED_CASE(
		an_acknowledgement_of_a_message_read_before_an_update_deletes_nothing),
	DELAYED_CASE(
		an_acknowledgement_of_a_message_read_before_an_update_in_the_same_millisecond_deletes_nothing),
	DELAYED_CASE(a_message_given_back_waits_and_says_why),
	DELAYED_CASE(a_poll_that_nobody_saw_counts_no_attempt),
	DELAYED_CASE(a_message_given_back_without_a_delay_is_due_at_once),
	DELAYED_CASE(an_extended_lease_lasts),
	DELAYED_CASE(a_superseded_message_cannot_be_given_back_or_kept),
	DELAYED_CASE(
		an_acknowledgement_of_a_message_read_before_its_time_changed_deletes_nothing),
	DELAYED_CASE(a_token_that_is_none_is_refused),
	DELAYED_CASE(a_token_of_another_queue_settles_nothing),
	DELAYED_CASE(a_rolled_back_settlement_never_was),
	{NULL, NULL, false, false},
};
