#include "queue_suite.h"

enum { MINUTE_US = 60000000 };

WHERRY_CASE(an_acknowledged_message_is_gone, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;
	int64_t n = -7;

	for (int i = 1; i <= 3; i++)
		(void)queue_send(f, i);
	got = queue_lease(f->queue, 2, "1 2");
	queue_ack(f->queue, &got);
	queue_counts(f, "1 0 0 0");
	WHERRY_FAILS(WHERRY_STALE,
		     queue_does.ack(f->queue, got.token, got.ids, 2, &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(queue_does.ack(f->queue, got.token, NULL, 0, &n, &err));
}

WHERRY_CASE(a_settlement_without_a_token_is_refused, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_FAILS(WHERRY_INVALID, queue_does.ack(f->queue, "", got.ids, 1, &n, &err));
}

WHERRY_CASE(a_lease_that_ended_is_good_until_another_receives, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got first, second;
	int64_t n = -7;

	(void)queue_send(f, 1);
	(void)queue_send(f, 2);
	first = queue_lease(f->queue, 2, "1 2");
	queue_minute(f);
	WHERRY_PASS(queue_does.ack(f->queue, first.token, first.ids, 1, &n, &err));
	second = queue_lease(f->queue, 9, "2");
	assert_string_not_equal(first.token, second.token);
	WHERRY_FAILS(WHERRY_STALE,
		     queue_does.ack(f->queue, first.token, &first.ids[1], 1, &n, &err));
	WHERRY_FAILS(WHERRY_STALE, queue_does.nack(f->queue, first.token, &first.ids[1],
						   1, NULL, &n, &err));
	WHERRY_FAILS(WHERRY_STALE, queue_does.extend(f->queue, first.token, &first.ids[1],
						     1, MINUTE_US, &n, &err));
	WHERRY_FAILS(WHERRY_STALE,
		     queue_does.dead_letter(f->queue, first.token, &first.ids[1], 1, "no",
					    &n, &err));
	queue_ack(f->queue, &second);
	queue_counts(f, "0 0 0 0");
}

WHERRY_CASE(an_extended_lease_lasts, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_PASS(queue_does.extend(f->queue, got.token, got.ids, 1, 3LL * MINUTE_US,
				      NULL, &err));
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "");
	queue_ack(f->queue, &got);
}

static queue_got lease_with(queue_fixture *f, int32_t most, const char *bodies)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.limit = 9, .max_attempts = most);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};

	queue_look_at_all(f);
	WHERRY_PASS(queue_does.receive(f->queue, &options, queue_note, &got, NULL, &err));
	assert_string_equal(got.bodies, bodies);
	return got;
}

WHERRY_CASE(a_message_given_back_after_its_last_attempt_is_dead, queue_fixture *f)
{
	const wherry_nack not_counted = WHERRY_NACK(.not_counted = true),
			  later = WHERRY_NACK(.delay_us = MINUTE_US / 2,
					      .error = "no route");
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = lease_with(f, 2, "1");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, NULL, NULL, &err));
	got = lease_with(f, 2, "1");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, &not_counted, NULL,
				    &err));
	/* The maximum is the message's, not that of this call. */
	got = lease_with(f, 0, "1");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, &later, NULL, &err));
	queue_counts(f, "0 0 0 1");
	(void)queue_send(f, 2);
	got = lease_with(f, 1, "2");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, NULL, NULL, &err));
	queue_counts(f, "0 0 0 2");
	(void)queue_send(f, 3);
	got = lease_with(f, 0, "3");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, NULL, NULL, &err));
	/* A maximum that is lower than the attempts it had. */
	(void)lease_with(f, 1, "");
	queue_counts(f, "0 0 0 3");
}

WHERRY_CASE(what_is_given_back_is_first_again, queue_fixture *f)
{
	const wherry_nack not_counted = WHERRY_NACK(.not_counted = true);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	got = queue_lease(f->queue, 3, "1 2 3");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 2, NULL, NULL, &err));
	queue_look_at_all(f);
	got = queue_lease(f->queue, 1, "1");
	assert_int_equal(got.attempts[0], 2);
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, &not_counted, NULL,
				    &err));
	queue_look_at_all(f);
	got = queue_lease(f->queue, 9, "1 2 4");
	assert_int_equal(got.attempts[0], 2);
}

WHERRY_CASE(a_nack_with_a_delay_waits_and_says_why, queue_fixture *f)
{
	const wherry_nack later = WHERRY_NACK(.delay_us = 50000000, .error = "no route");
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, &later, NULL, &err));
	queue_counts(f, "0 0 1 0");
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs"), "no route");
	(void)queue_lease(f->queue, 1, "");
	queue_minute(f);
	got = queue_lease(f->queue, 1, "1");
	assert_int_equal(got.attempts[0], 2);
}

static void a_dead_letter_keeps_its_reason_and_can_be_retried(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;
	int64_t n = -7;

	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	got = queue_lease(f->queue, 2, "1 2");
	WHERRY_PASS(queue_does.dead_letter(f->queue, got.token, got.ids, 2, "bad order",
					   &n, &err));
	assert_int_equal(n, 2);
	queue_counts(f, "2 0 0 2");
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs WHERE state = 4"),
			    "bad order");
	(void)queue_lease(f->queue, 1, "3");
	WHERRY_PASS(wherry_queue_retry(f->queue, got.ids[1], &n, &err));
	assert_int_equal(n, 1);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_retry(f->queue, got.ids[1], &n, &err));
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 1);
	got = queue_lease(f->queue, 9, "1 2 4");
	assert_int_equal(got.attempts[0], 1);
}

WHERRY_CASE(a_rolled_back_settlement_never_was, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	queue_ack(f->queue, &got);
	wherry_db_rollback(f->db);
	queue_counts(f, "0 1 0 0");
	queue_ack(f->queue, &got);
}

WHERRY_CASE(a_purge_leaves_what_is_leased, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;
	int64_t n = -7;

	for (int i = 1; i <= 5; i++)
		(void)queue_send(f, i);
	(void)queue_send_so(f, 6, MINUTE_US, 0);
	got = queue_lease(f->queue, 2, "1 2");
	WHERRY_PASS(
		queue_does.dead_letter(f->queue, got.token, got.ids, 1, "x", NULL, &err));
	WHERRY_PASS(wherry_queue_purge(f->queue, 1u << WHERRY_DEAD, 10, &n, &err));
	assert_int_equal(n, 1);
	queue_counts(f, "3 1 1 0");
	WHERRY_PASS(wherry_queue_purge(f->queue, 0, 2, &n, &err));
	assert_int_equal(n, 4);
	queue_counts(f, "0 1 0 0");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_queue_purge(f->queue, 0, 2, &n, &err));
	wherry_db_rollback(f->db);
}

static wherry_code note_one(void *ctx, const wherry_queue_message *msg)
{
	queue_got *got = ctx;

	got->ids[got->n++] = msg->id;
	(void)snprintf(got->bodies, sizeof(got->bodies), "%.*s %d", (int)msg->body_len,
		       (const char *)msg->body, (int)msg->state);
	return WHERRY_OK;
}

static void shows(queue_fixture *f, const char *ident, int64_t id, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};

	WHERRY_PASS(wherry_queue_show(f->queue, ident, note_one, &got, &err));
	assert_int_equal(got.n, 1);
	assert_int_equal(got.ids[0], id);
	assert_string_equal(got.bodies, wanted);
}

static wherry_code copy_message_id(void *ctx, const wherry_queue_message *msg)
{
	(void)snprintf(ctx, 64, "%s", msg->message_id);
	return WHERRY_OK;
}

WHERRY_CASE(one_message_is_shown_by_its_id_or_its_message_id, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char number[24], message_id[64] = "";
	int64_t id = 0;
	queue_got got;

	for (int i = 1; i <= 250; i++) /* more than are read at once */
		id = queue_send(f, i);
	got = queue_lease(f->queue, 1, "1");
	(void)snprintf(number, sizeof(number), "%d", (int)got.ids[0]);
	shows(f, number, got.ids[0], "1 1");
	(void)snprintf(number, sizeof(number), "%d", (int)id);
	WHERRY_PASS(
		wherry_queue_show(f->queue, number, copy_message_id, message_id, &err));
	shows(f, message_id, id, "250 0");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_queue_show(f->queue, "424242", note_one, &got, &err));
	assert_non_null(strstr(err.message, "'424242'"));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_queue_show(f->queue, "none", note_one, &got, &err));
}

WHERRY_CASE(a_discarded_message_is_gone_in_any_state, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ready, delayed, n = -7;
	queue_got leased, dead;

	(void)queue_send(f, 1);
	leased = queue_lease(f->queue, 1, "1");
	(void)queue_send(f, 2);
	dead = queue_lease(f->queue, 1, "2");
	WHERRY_PASS(queue_does.dead_letter(f->queue, dead.token, dead.ids, 1, "x", NULL,
					   &err));
	ready = queue_send(f, 3);
	(void)queue_send(f, 4);
	delayed = queue_send_so(f, 5, MINUTE_US, 0);
	queue_counts(f, "2 1 1 1");
	WHERRY_PASS(wherry_queue_discard(f->queue, leased.ids[0], &err));
	WHERRY_PASS(wherry_queue_discard(f->queue, dead.ids[0], &err));
	WHERRY_PASS(wherry_queue_discard(f->queue, ready, &err));
	WHERRY_PASS(wherry_queue_discard(f->queue, delayed, &err));
	queue_counts(f, "1 0 0 0");
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_discard(f->queue, ready, &err));
	WHERRY_FAILS(WHERRY_STALE,
		     queue_does.ack(f->queue, leased.token, leased.ids, 1, &n, &err));
}

const queue_case queue_settle_cases[] = {
	QUEUE_CASE(an_acknowledged_message_is_gone),
	QUEUE_CASE(a_settlement_without_a_token_is_refused),
	QUEUE_CASE(a_lease_that_ended_is_good_until_another_receives),
	QUEUE_CASE(an_extended_lease_lasts),
	QUEUE_CASE(a_message_given_back_after_its_last_attempt_is_dead),
	QUEUE_CASE(what_is_given_back_is_first_again),
	QUEUE_NATIVE_CASE(a_nack_with_a_delay_waits_and_says_why),
	QUEUE_NATIVE_CASE(a_dead_letter_keeps_its_reason_and_can_be_retried),
	QUEUE_CASE(a_rolled_back_settlement_never_was),
	QUEUE_CASE(a_purge_leaves_what_is_leased),
	QUEUE_CASE(one_message_is_shown_by_its_id_or_its_message_id),
	QUEUE_CASE(a_discarded_message_is_gone_in_any_state),
	{NULL, NULL, false, false, false, false},
};
