#include "queue_suite.h"

enum { SECOND_US = 1000000, MINUTE_US = 60 * SECOND_US };

typedef struct seen {
	bool right;
	int n;
} seen;

static wherry_code see_full(void *ctx, const wherry_queue_message *m)
{
	seen *s = ctx;

	s->n++;
	s->right = strcmp(m->message_id, "m1") == 0 && strcmp(m->topic, "paid") == 0 &&
		   strcmp(m->correlation_id, "c1") == 0 &&
		   strcmp(m->reply_to, "answers") == 0 &&
		   strcmp(m->headers, "{\"b\":\"1\",\"a\":null}") == 0 &&
		   m->body_len == 8 && memcmp(m->body, "{\"a\": 1}", 8) == 0 &&
		   m->id > 0 && m->attempts == 1 && m->state == WHERRY_PROCESSING &&
		   m->token && *m->token && m->created_at_us > 0 &&
		   m->available_at_us > m->created_at_us && m->expires_at_us > 0;
	return WHERRY_OK;
}

static const wherry_queue_message full = {
	.size = sizeof(full),
	.message_id = "m1",
	.topic = "paid",
	.correlation_id = "c1",
	.reply_to = "answers",
	.headers = "{\"b\":\"1\",\"a\":null}",
	.body = "{\"a\": 1}",
	.body_len = 8,
	.expires_us = MINUTE_US,
};

WHERRY_CASE(a_message_is_received_as_it_was_sent, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {.n = 0};

	WHERRY_PASS(queue_does.send(f->queue, &full, NULL, &err));
	WHERRY_PASS(queue_does.receive(f->queue, NULL, see_full, &s, NULL, &err));
	assert_int_equal(s.n, 1);
	assert_true(s.right);
}

WHERRY_CASE(the_library_measures_a_body_that_is_text, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_message msgs[] = {full, full};
	seen s = {.n = 0};

	msgs[0].body_len = msgs[1].body_len = WHERRY_TEXT;
	msgs[1].message_id = "m2";
	WHERRY_PASS(queue_does.send_many(f->queue, msgs, 2, NULL, &err));
	WHERRY_PASS(queue_does.receive(f->queue, NULL, see_full, &s, NULL, &err));
	assert_int_equal(s.n, 1);
	assert_true(s.right);
}

WHERRY_CASE(many_messages_are_received_as_they_were_sent, queue_fixture *f)
{
	static const char odd[] = "\"a \\\"quote\\\", a back\\\\slash, {braces}, NULL\"";
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_queue_message msgs[] = {
		WHERRY_QUEUE_MESSAGE(.body = odd, .body_len = sizeof(odd) - 1,
				     .correlation_id = "a\"b\\c{d},NULL"),
		WHERRY_QUEUE_MESSAGE(.body = "2", .body_len = 1, .delay_us = MINUTE_US),
		WHERRY_QUEUE_MESSAGE(.body = "3", .body_len = 1, .correlation_id = "",
				     .reply_to = "NULL"),
		full,
	};
	queue_got got;
	int64_t ids[4] = {0};
	seen s = {.n = 0};

	WHERRY_PASS(queue_does.send_many(f->queue, msgs, 4, ids, &err));
	assert_true(ids[0] > 0 && ids[0] < ids[1] && ids[1] < ids[2] && ids[2] < ids[3]);
	got = queue_receive(f->queue, WHERRY_LEASE, 2);
	assert_int_equal(got.ids[0], ids[0]);
	assert_int_equal(got.ids[1], ids[2]);
	assert_int_equal(strncmp(got.bodies, odd, sizeof(odd) - 1), 0);
	assert_string_equal(queue_text(f,
				       "SELECT correlation_id FROM jobs WHERE id = %lld",
				       (long long)ids[0]),
			    "a\"b\\c{d},NULL");
	assert_string_equal(queue_text(f, "SELECT reply_to FROM jobs WHERE id = %lld",
				       (long long)ids[2]),
			    "NULL");
	WHERRY_PASS(queue_does.receive(f->queue, NULL, see_full, &s, NULL, &err));
	assert_true(s.right);
	queue_counts(f, "0 3 1 0");
}

/* Arrays in which no message has a value are not sent. */
static void of_many_messages_some_have_no_fields(void **state)
{
	const wherry_queue_message plain[] = {
		WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1),
		WHERRY_QUEUE_MESSAGE(.body = "2", .body_len = 1),
	};
	wherry_queue_message some[] = {plain[0], plain[1]};
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(queue_does.send_many(f->queue, plain, 2, NULL, &err));
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs WHERE topic IS NULL AND "
				      "correlation_id IS NULL AND reply_to IS NULL AND "
				      "CAST(headers AS text) = '{}' AND state = 0 AND "
				      "available_at IS NULL AND expires_at IS NULL"),
			 2);
	some[1].topic = some[1].reply_to = some[1].correlation_id = "t";
	some[0].headers = "{\"a\":\"b\"}";
	some[0].expires_us = some[1].delay_us = MINUTE_US;
	WHERRY_PASS(queue_does.send_many(f->queue, some, 2, NULL, &err));
	assert_int_equal(
		queue_int(
			f,
			"SELECT count(*) FROM jobs WHERE id > 2 AND (state = 3 "
			"AND topic = 't' AND reply_to = 't' AND "
			"correlation_id = 't' AND CAST(headers AS text) = '{}' "
			"AND expires_at IS NULL OR state = 0 AND topic IS NULL "
			"AND CAST(headers AS text) <> '{}' AND expires_at IS NOT NULL)"),
		2);
}

WHERRY_CASE(a_plain_insert_is_received, queue_fixture *f)
{
	queue_raw(f, "INSERT INTO jobs(body) VALUES ('7')");
	(void)queue_lease(f->queue, 1, "7");
	assert_int_equal(queue_int(f, "SELECT length(message_id) FROM jobs"), 36);
}

WHERRY_CASE(a_rolled_back_send_never_existed, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	(void)queue_send(f, 1);
	wherry_db_rollback(f->db);
	(void)queue_lease(f->queue, 10, "");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	(void)queue_send(f, 2);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	(void)queue_lease(f->queue, 10, "2");
}

WHERRY_CASE(none_of_many_is_sent_if_one_is_invalid, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_queue_message msgs[] = {
		WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1),
		WHERRY_QUEUE_MESSAGE(.body = "2", .body_len = 1, .headers = "[]"),
	};

	WHERRY_FAILS(WHERRY_INVALID, queue_does.send_many(f->queue, msgs, 2, NULL, &err));
	assert_non_null(strstr(err.message, "message 1"));
	queue_counts(f, "0 0 0 0");
}

static void refused(queue_fixture *f, wherry_queue_message msg, wherry_code code,
		    const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = -7;

	WHERRY_FAILS(code, queue_does.send(f->queue, &msg, &id, &err));
	assert_int_equal(id, -7);
	if (!strstr(err.message, why))
		print_error("%s\n", err.message);
	assert_non_null(strstr(err.message, why));
}

/* A delay, an expiry or a lease is kept, or refused; it is not cut. */
WHERRY_CASE(no_span_over_36500_days_is_cut, queue_fixture *f)
{
	const int64_t most = INT64_C(36500) * 86400 * SECOND_US;
	const int64_t spans[] = {most + 1, INT64_MAX};
	const int64_t ids[] = {1};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	for (size_t i = 0; i < 2; i++) {
		const wherry_queue_message two[] = {
			WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1),
			WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1,
					     .delay_us = spans[i]),
		};

		refused(f, two[1], WHERRY_INVALID, "the limit is 36500 days");
		WHERRY_FAILS(WHERRY_INVALID,
			     queue_does.send_many(f->queue, two, 2, NULL, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		WHERRY_FAILS(WHERRY_INVALID,
			     queue_does.nack(f->queue, "t", ids, 1,
					     &WHERRY_NACK(.delay_us = spans[i]), &n,
					     &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		WHERRY_FAILS(WHERRY_INVALID, queue_does.extend(f->queue, "t", ids, 1,
							       spans[i], &n, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		WHERRY_FAILS(
			WHERRY_INVALID,
			queue_does.receive(f->queue,
					   &WHERRY_RECEIVE_OPTIONS(.lease_us = spans[i]),
					   queue_note, NULL, &n, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		refused(f,
			WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1,
					     .expires_us = spans[i]),
			WHERRY_INVALID, "the limit is 36500 days");
	}
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 0);
}

WHERRY_CASE(bad_messages_are_refused_by_name, queue_fixture *f)
{
	static char big[300];
	wherry_queue_message m = WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;

	memset(big, 'a', sizeof(big) - 1);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	m.headers = "{\"a\": 1}";
	refused(f, m, WHERRY_INVALID, "header 'a'");
	m.headers = "{";
	refused(f, m, WHERRY_INVALID, "headers");
	m.headers = NULL;
	m.reply_to = big;
	refused(f, m, WHERRY_TOOBIG, "reply_to");
	m.reply_to = "\xff";
	refused(f, m, WHERRY_INVALID, "reply_to is not UTF-8");
	m.reply_to = NULL;
	m.delay_us = -1;
	refused(f, m, WHERRY_INVALID, "delay_us");
	m.delay_us = 0;
	m.expires_us = -1;
	refused(f, m, WHERRY_INVALID, "expires_us");
	m.expires_us = 0;
	m.size = 3;
	refused(f, m, WHERRY_INVALID, "WHERRY_QUEUE_MESSAGE");
	(void)queue_send(f, 5); /* the transaction is intact */
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	(void)queue_lease(f->queue, 1, "5");
}

WHERRY_CASE(a_delayed_message_is_received_when_it_is_due, queue_fixture *f)
{
	(void)queue_send_so(f, 1, MINUTE_US, 0);
	(void)queue_send(f, 2);
	queue_counts(f, "1 0 1 0");
	(void)queue_lease(f->queue, 10, "2");
	(void)queue_lease(f->queue, 10, "");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "1");
}

/* Upstream moves due messages in no order, into the queue's end. */
WHERRY_CASE(late_delayed_messages_come_in_the_order_they_are_due, queue_fixture *f)
{
	(void)queue_send_so(f, 1, 50 * SECOND_US, 0);
	(void)queue_send_so(f, 2, 30 * SECOND_US, 0);
	(void)queue_send_so(f, 3, 40 * SECOND_US, 0);
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "2");
	queue_look_at_all(f);
	(void)queue_lease(f->queue, 1, "3");
	queue_look_at_all(f);
	(void)queue_lease(f->queue, 1, "1");
}

WHERRY_CASE(the_longest_spans_are_kept, queue_fixture *f)
{
	const int64_t most = INT64_C(36500) * 86400 * SECOND_US;

	(void)queue_send_so(f, 1, most, most);
	(void)queue_send_so(f, 2, 0, most);
	(void)queue_lease(f->queue, 10, "2");
	queue_counts(f, "0 1 1 0");
}

WHERRY_CASE(a_cancelled_message_is_never_received, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t later = queue_send_so(f, 1, MINUTE_US, 0), now = queue_send(f, 2);
	int64_t leased = queue_send(f, 3);

	WHERRY_PASS(queue_does.cancel(f->queue, later, &err));
	WHERRY_PASS(queue_does.cancel(f->queue, now, &err));
	(void)queue_lease(f->queue, 10, "3");
	WHERRY_FAILS(WHERRY_NOTFOUND, queue_does.cancel(f->queue, leased, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, queue_does.cancel(f->queue, later, &err));
	queue_counts(f, "0 1 0 0");
}

static void an_expired_message_is_dropped(void **state)
{
	queue_fixture *f = *state;

	(void)queue_send_so(f, 1, 0, 30 * SECOND_US);
	(void)queue_send_so(f, 2, 0, 2 * MINUTE_US);
	queue_minute(f);
	queue_counts(f, "2 0 0 0");
	(void)queue_lease(f->queue, 10, "2");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 1);
	(void)queue_send_so(f, 3, 0, 30 * SECOND_US);
	queue_raw(f, "UPDATE jobs SET expires_at = expires_at - 60000 WHERE state = 0");
	queue_takes(f, 10, "");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 1);
}

/* Upstream refuses a delay with an expiry. */
WHERRY_CASE(expiry_begins_when_a_delayed_message_is_due, queue_fixture *f)
{
	(void)queue_send_so(f, 1, 50 * SECOND_US, 30 * SECOND_US);
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "1");
	(void)queue_send_so(f, 2, 20 * SECOND_US, 30 * SECOND_US);
	queue_minute(f);
	queue_takes(f, 1, "");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 0);
}

/* Defect 9: upstream's time to be received is an Int32 of milliseconds. */
WHERRY_CASE(an_expiry_of_more_than_24_days_is_kept, queue_fixture *f)
{
	const int64_t day_us = 86400LL * SECOND_US;

	(void)queue_send_so(f, 1, 0, 25 * day_us);
	(void)queue_send_so(f, 2, 0, 36500 * day_us);
	(void)queue_lease(f->queue, 10, "1 2");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs WHERE expires_at - "
				      "2147483648 > created_at"),
			 2);
}

static void a_backlog_of_expired_messages_costs_one_receive(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	for (int i = 0; i < 5; i++)
		(void)queue_send_so(f, i, 0, SECOND_US);
	for (int i = 0; i < 10; i++)
		queue_raw(f, "INSERT INTO jobs(body, expires_at) SELECT body, expires_at "
			     "FROM jobs");
	queue_minute(f);
	(void)queue_send(f, 7);
	(void)queue_lease(f->queue, 1, "7");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs WHERE state = 0") > 0 &&
				 queue_int(f, "SELECT count(*) FROM jobs") > 1,
			 0);
	for (int i = 0; i < 5; i++)
		(void)queue_send_so(f, i, 0, SECOND_US);
	queue_minute(f);
	WHERRY_PASS(wherry_queue_expire(f->queue, 2, &n, &err));
	assert_int_equal(n, 5);
}

/* Defect 3: upstream's sequence ends at 2147483647. */
WHERRY_CASE(a_sequence_past_2_to_the_31_is_kept, queue_fixture *f)
{
	queue_raw(f, "INSERT INTO jobs(id, body) VALUES (5000000000, '1')");
	queue_raw(f, "INSERT INTO jobs(id, body) VALUES (5000000001, '2')");
	(void)queue_lease(f->queue, 1, "1");
	(void)queue_lease(f->queue, 1, "2");
}

const queue_case queue_send_cases[] = {
	QUEUE_NATIVE_CASE(a_message_is_received_as_it_was_sent),
	QUEUE_NATIVE_CASE(the_library_measures_a_body_that_is_text),
	QUEUE_NATIVE_CASE(many_messages_are_received_as_they_were_sent),
	QUEUE_NATIVE_CASE(a_plain_insert_is_received),
	QUEUE_CASE(a_rolled_back_send_never_existed),
	QUEUE_NATIVE_CASE(of_many_messages_some_have_no_fields),
	QUEUE_CASE(none_of_many_is_sent_if_one_is_invalid),
	QUEUE_NATIVE_CASE(no_span_over_36500_days_is_cut),
	QUEUE_NATIVE_CASE(bad_messages_are_refused_by_name),
	QUEUE_NATIVE_CASE(a_delayed_message_is_received_when_it_is_due),
	QUEUE_CASE(late_delayed_messages_come_in_the_order_they_are_due),
	QUEUE_NATIVE_CASE(the_longest_spans_are_kept),
	QUEUE_CASE(a_cancelled_message_is_never_received),
	QUEUE_NATIVE_CASE(an_expired_message_is_dropped),
	QUEUE_NATIVE_CASE(expiry_begins_when_a_delayed_message_is_due),
	QUEUE_NATIVE_CASE(an_expiry_of_more_than_24_days_is_kept),
	QUEUE_NATIVE_CASE(a_backlog_of_expired_messages_costs_one_receive),
	QUEUE_NATIVE_CASE(a_sequence_past_2_to_the_31_is_kept),
	{NULL, NULL, false, false, false, false},
};
