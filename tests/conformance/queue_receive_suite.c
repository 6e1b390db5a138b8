#include "queue_suite.h"

#include <pthread.h>

#include "queue/queue.h"

static void send_some(queue_fixture *f, int n)
{
	for (int i = 1; i <= n; i++)
		(void)queue_send(f, i);
}

WHERRY_CASE(one_receiver_gets_messages_in_their_order, queue_fixture *f)
{
	send_some(f, 7);
	(void)queue_lease(f->queue, 1, "1");
	(void)queue_lease(f->queue, 3, "2 3 4");
	queue_takes(f, 2, "5 6");
	(void)queue_lease(f->queue, 9, "7");
	(void)queue_lease(f->queue, 9, "");
}

WHERRY_CASE(a_leased_message_is_hidden_until_its_lease_ends, queue_fixture *f)
{
	wherry_queue *other = queue_again(f);
	queue_got got;

	send_some(f, 2);
	(void)queue_lease(f->queue, 1, "1");
	(void)queue_lease(other, 9, "2");
	(void)queue_lease(other, 9, "");
	queue_counts(f, "0 2 0 0");
	queue_minute(f);
	other->scan_start.next_full_us = 0;
	got = queue_lease(other, 1, "1");
	assert_int_equal(got.attempts[0], 2);
	got = queue_lease(f->queue, 1, "2");
	assert_int_equal(got.attempts[0], 2);
	wherry_queue_close(other);
}

/* Neither messages that fail again and again nor a backlog keeps the others waiting for ever. */
WHERRY_CASE(messages_given_back_and_ready_ones_take_turns, queue_fixture *f)
{
	const wherry_nack later = WHERRY_NACK(.delay_us = 50000000);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	send_some(f, 5);
	got = queue_lease(f->queue, 2, "1 2");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 2, &later, NULL, &err));
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "1");
	f->queue->scan_start.next_full_us = 0;
	queue_takes(f, 1, "3");
	f->queue->scan_start.next_full_us = 0;
	(void)queue_lease(f->queue, 2, "2 4");
	queue_takes(f, 9, "5");
}

/* Missing upstream: it counts attempts in the process. */
/* A worker that gives back what it cannot do, without a delay, got the same messages again and again. */
WHERRY_CASE(a_message_given_back_at_once_keeps_no_other_waiting, queue_fixture *f)
{
	const wherry_nack failed = WHERRY_NACK(.error = "no");
	const wherry_nack not_counted = WHERRY_NACK(.not_counted = true);
	wherry_error err = WHERRY_ERROR_INIT;
	int handled = 0;
	queue_got got;

	send_some(f, 6);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, &not_counted, NULL,
				    &err));
	/* With NServiceBus it is due, and so first in every second look at all. */
	f->queue->scan_start.next_full_us = 0;
	f->queue->due_first = false;
	got = queue_receive(f->queue, WHERRY_LEASE, 1);
	assert_string_equal(got.bodies, "1"); /* Nobody has tried it. */
	WHERRY_PASS(
		queue_does.nack(f->queue, got.token, got.ids, 1, &failed, NULL, &err));
	for (int i = 0; i < 20; i++) {
		/* A server looks at due ones for a share of the time. */
		f->queue->scan_start.next_full_us = 0;
		got = queue_receive(f->queue, WHERRY_LEASE, 1);
		assert_int_equal(got.n, 1);
		if (*got.bodies > '3') {
			handled++;
			queue_ack(f->queue, &got);
			continue;
		}
		WHERRY_PASS(queue_does.nack(f->queue, got.token, got.ids, 1, &failed,
					    NULL, &err));
	}
	assert_int_equal(handled, 3);
	queue_raw(f, "DELETE FROM jobs");
}

WHERRY_CASE(a_restart_keeps_attempts, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	if (!f->backend->several)
		return;
	send_some(f, 1);
	for (int i = 1; i <= 3; i++) {
		got = queue_lease(f->queue, 1, "1");
		assert_int_equal(got.attempts[0], i);
		queue_minute(f);
		wherry_queue_close(f->queue);
		f->queue = NULL;
		assert_true(f->backend->disconnect(f->db));
		f->db = queue_connect(f);
		WHERRY_PASS(wherry_queue_open(f->db, "jobs", &f->queue, &err));
	}
}

static void a_message_that_kills_its_receivers_dies_alone(void **state)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.limit = 9, .max_attempts = 2);
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};

	send_some(f, 1);
	(void)queue_lease(f->queue, 1, "1");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "1");
	queue_minute(f);
	(void)queue_send(f, 2);
	WHERRY_PASS(queue_does.receive(f->queue, &options, queue_note, &got, NULL, &err));
	assert_string_equal(got.bodies, "2");
	queue_counts(f, "0 1 0 1");
	assert_int_equal(queue_int(f, "SELECT attempts FROM jobs WHERE state = 4"), 2);
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs WHERE state = 4"),
			    "its lease expired before it was acknowledged");
}

WHERRY_CASE(a_rollback_brings_atomic_messages_back_to_their_place, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	send_some(f, 5);
	queue_takes(f, 1, "1");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	got = queue_receive(f->queue, WHERRY_ATOMIC, 2);
	assert_string_equal(got.bodies, "2 3");
	assert_string_equal(got.token, "");
	wherry_db_rollback(f->db);
	queue_counts(f, "4 0 0 0");
	queue_takes(f, 1, "2");
	queue_takes(f, 9, "3 4 5");
	queue_counts(f, "0 0 0 0");
}

WHERRY_CASE(an_atomic_receive_commits_with_its_sends, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	send_some(f, 1);
	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(wherry_db_begin(f->db, &err));
		assert_int_equal(queue_receive(f->queue, WHERRY_ATOMIC, 1).n, 1);
		(void)queue_send(f, 9);
		if (i == 0)
			wherry_db_rollback(f->db);
		else
			WHERRY_PASS(wherry_db_commit(f->db, &err));
	}
	(void)queue_lease(f->queue, 9, "9");
}

WHERRY_CASE(at_most_once_is_gone_before_it_is_seen, queue_fixture *f)
{
	send_some(f, 3);
	assert_string_equal(queue_receive(f->queue, WHERRY_AT_MOST_ONCE, 2).bodies,
			    "1 2");
	queue_counts(f, "1 0 0 0");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 1);
}

WHERRY_CASE(modes_ask_for_the_transaction_they_need, queue_fixture *f)
{
	wherry_receive_options options = WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_ATOMIC);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};

	send_some(f, 1);
	WHERRY_FAILS(WHERRY_INVALID, queue_does.receive(f->queue, &options, queue_note,
							&got, NULL, &err));
	options.mode = WHERRY_AT_MOST_ONCE;
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, queue_does.receive(f->queue, &options, queue_note,
							&got, NULL, &err));
	wherry_db_rollback(f->db);
	options = WHERRY_RECEIVE_OPTIONS(.limit = 10001);
	WHERRY_FAILS(WHERRY_INVALID, queue_does.receive(f->queue, &options, queue_note,
							&got, NULL, &err));
	options = WHERRY_RECEIVE_OPTIONS(.lease_us = -1);
	WHERRY_FAILS(WHERRY_INVALID, queue_does.receive(f->queue, &options, queue_note,
							&got, NULL, &err));
	queue_counts(f, "1 0 0 0");
}

static wherry_code send_and_refuse(void *ctx, const wherry_queue_message *msg)
{
	queue_fixture *f = ctx;

	(void)queue_send(f, 100 + (int)msg->attempts);
	return WHERRY_TIMEOUT;
}

WHERRY_CASE(a_visitor_may_use_the_queue_and_end_the_call, queue_fixture *f)
{
	const wherry_receive_options two = WHERRY_RECEIVE_OPTIONS(.limit = 2);
	wherry_error err = WHERRY_ERROR_INIT;

	send_some(f, 2);
	WHERRY_FAILS(WHERRY_TIMEOUT,
		     queue_does.receive(f->queue, &two, send_and_refuse, f, NULL, &err));
	queue_counts(f, "1 2 0 0");
	(void)queue_lease(f->queue, 9, "101");
}

/* Upstream's corrupt headers. */
static void poison_dies_and_its_neighbours_are_received(void **state)
{
	static const wherry_receive_mode modes[] = {WHERRY_LEASE, WHERRY_ATOMIC,
						    WHERRY_AT_MOST_ONCE};
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	for (int i = 0; i < 3; i++) {
		(void)queue_send(f, 1);
		queue_raw(f, "INSERT INTO jobs(message_id, body, headers, correlation_id)"
			     " VALUES ('bad', '2', '[\"x\"]', 'c')");
		(void)queue_send(f, 3);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_begin(f->db, &err));
		got = queue_receive(f->queue, modes[i], 9);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_commit(f->db, &err));
		assert_string_equal(got.bodies, "1 3");
		assert_string_equal(
			queue_text(f, "SELECT message_id || body || headers || "
				      "correlation_id FROM jobs WHERE state = 4"),
			"bad2[\"x\"]c");
		assert_int_equal(
			queue_int(f, "SELECT count(*) FROM jobs WHERE state = 4 AND "
				     "last_error LIKE '%%headers%%'"),
			1);
		queue_raw(f, "DELETE FROM jobs");
	}
}

/* A receive answered "no message" after it had made one dead that it could not read: a worker then
 * slept beside good ones. */
static void a_message_that_no_worker_gets_hides_none_behind_it(void **state)
{
	static const wherry_receive_mode modes[] = {WHERRY_LEASE, WHERRY_ATOMIC,
						    WHERRY_AT_MOST_ONCE};
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 3; j++)
			queue_raw(f,
				  "INSERT INTO jobs(body, headers) VALUES ('0', '[]')");
		(void)queue_send(f, 1);
		queue_raw(f, "INSERT INTO jobs(body, headers) VALUES ('0', '7')");
		(void)queue_send(f, 2);
		(void)queue_send(f, 3);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_begin(f->db, &err));
		got = queue_receive(f->queue, modes[i], 1);
		assert_string_equal(got.bodies, "1");
		got = queue_receive(f->queue, modes[i], 2);
		assert_string_equal(got.bodies, "2 3");
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_commit(f->db, &err));
		assert_int_equal(
			queue_int(f, "SELECT count(*) FROM jobs WHERE state = 4"), 4);
		queue_raw(f, "DELETE FROM jobs");
	}
}

/* Defect 4: upstream's peek locks rows, and a receive meanwhile takes later ones first. */
WHERRY_CASE(order_with_one_consumer_while_peeking, queue_fixture *f)
{
	wherry_queue_filter some = WHERRY_QUEUE_FILTER(.limit = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *other = NULL;
	wherry_db *db = NULL;
	queue_got got = {.n = 0};

	if (!f->backend->several)
		return;
	send_some(f, 3);
	db = queue_connect(f);
	WHERRY_PASS(wherry_queue_open(db, "jobs", &other, &err));
	if (strcmp(f->backend->name, "own") == 0) /* a reader's transaction stays open */
		WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wherry_queue_peek(other, &some, queue_note, &got, &err));
	assert_string_equal(got.bodies, "1 2");
	(void)queue_lease(f->queue, 1, "1");
	queue_takes(f, 1, "2");
	some.after_id = got.ids[1];
	some.states = 1u << WHERRY_PENDING;
	got = (queue_got){.n = 0};
	WHERRY_PASS(wherry_queue_peek(other, &some, queue_note, &got, &err));
	assert_string_equal(got.bodies, "3");
	wherry_db_rollback(db);
	wherry_queue_close(other);
	assert_true(f->backend->disconnect(db));
}

/* Defect 5: upstream's length is the distance of the last from the first. */
WHERRY_CASE(a_length_is_not_a_distance, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	queue_raw(f, "INSERT INTO jobs(id, body) VALUES (1, '1')");
	queue_raw(f, "INSERT INTO jobs(id, body) VALUES (4000000000000, '2')");
	queue_counts(f, "2 0 0 0");
	WHERRY_PASS(wherry_queue_estimate(f->queue, &n, &err));
	/* A server's statistics may still know of rows of the case before. */
	assert_in_range((uint64_t)n, 0, 1000);
}

WHERRY_CASE(the_oldest_age_is_that_of_the_first_ready_message, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	int64_t due = -7;

	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_int_equal(s.oldest_ready_us, 0);
	assert_string_equal(s.layout, "native");
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_int_equal(due, -1);
	send_some(f, 2);
	queue_raw(f, "UPDATE jobs SET created_at = created_at - 5000");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_in_range((uint64_t)s.oldest_ready_us, 5000000, 65000000);
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_int_equal(due, 0);
	(void)queue_lease(f->queue, 2, "1 2");
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_in_range((uint64_t)due, 1000000, 60000000);
}

static bool waits(wherry_queue *queue, int64_t timeout_us)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool any = false;

	WHERRY_PASS(wherry_queue_wait(queue, timeout_us, &any, &err));
	return any;
}

WHERRY_CASE(waiting_ends_when_a_message_is_due_or_the_time_is_over, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool any = false;

	assert_false(waits(f->queue, 0));
	assert_false(waits(f->queue, 60000));
	(void)queue_send_so(f, 1, 300000, 0);
	assert_false(waits(f->queue, 1000));
	assert_true(waits(f->queue, 300000000));
	(void)queue_lease(f->queue, 1, "1");
	(void)queue_send(f, 2);
	assert_true(waits(f->queue, 300000000));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_queue_wait(f->queue, 1, &any, &err));
	wherry_db_rollback(f->db);
}

/* Sends from another connection once the receiver has begun to wait. */
static void *send(queue_fixture *f, wherry_queue_message msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	wherry_db *db = f->backend->connect(f->place);
	bool sent = db && wherry_queue_open(db, "jobs", &queue, &err) == WHERRY_OK &&
		    queue_does.send(queue, &msg, NULL, &err) == WHERRY_OK;

	wherry_queue_close(queue);
	return sent && f->backend->disconnect(db) ? f : NULL;
}

static void *send_soon(void *ctx)
{
	return send(ctx, WHERRY_QUEUE_MESSAGE(.body = "7", .body_len = 1));
}

WHERRY_CASE(a_waiting_receiver_sees_what_another_sends, queue_fixture *f)
{
	void *sent = NULL;
	pthread_t sender;

	assert_false(waits(f->queue, 100000)); /* by now it would sleep */
	assert_int_equal(pthread_create(&sender, NULL, send_soon, f), 0);
	assert_true(waits(f->queue, 300000000));
	assert_int_equal(pthread_join(sender, &sent), 0);
	assert_non_null(sent);
	(void)queue_lease(f->queue, 9, "7");
}

static void *send_due_earlier(void *ctx)
{
	return send(ctx, WHERRY_QUEUE_MESSAGE(.body = "8", .body_len = 1,
					      .delay_us = 200000, .expires_us = 6000000));
}

/* A receiver looks again after 10 s by itself: by then the message has expired. */
WHERRY_CASE(a_waiting_receiver_wakes_for_an_earlier_time, queue_fixture *f)
{
	void *sent = NULL;
	pthread_t sender;

	(void)queue_send_so(f, 1, 3600000000, 0);
	assert_false(waits(f->queue, 100000)); /* by now it would sleep */
	assert_int_equal(pthread_create(&sender, NULL, send_due_earlier, f), 0);
	assert_true(waits(f->queue, 300000000));
	assert_int_equal(pthread_join(sender, &sent), 0);
	assert_non_null(sent);
	(void)queue_lease(f->queue, 9, "8");
}

const queue_case queue_receive_cases[] = {
	QUEUE_CASE(one_receiver_gets_messages_in_their_order),
	QUEUE_CASE(a_leased_message_is_hidden_until_its_lease_ends),
	QUEUE_CASE(messages_given_back_and_ready_ones_take_turns),
	QUEUE_CASE(a_message_given_back_at_once_keeps_no_other_waiting),
	QUEUE_CASE(a_restart_keeps_attempts),
	QUEUE_NATIVE_CASE(a_message_that_kills_its_receivers_dies_alone),
	QUEUE_CASE(a_rollback_brings_atomic_messages_back_to_their_place),
	QUEUE_CASE(an_atomic_receive_commits_with_its_sends),
	QUEUE_NATIVE_CASE(at_most_once_is_gone_before_it_is_seen),
	QUEUE_CASE(modes_ask_for_the_transaction_they_need),
	QUEUE_CASE(a_visitor_may_use_the_queue_and_end_the_call),
	QUEUE_NATIVE_CASE(poison_dies_and_its_neighbours_are_received),
	QUEUE_NATIVE_CASE(a_message_that_no_worker_gets_hides_none_behind_it),
	QUEUE_CASE(order_with_one_consumer_while_peeking),
	QUEUE_NATIVE_CASE(a_length_is_not_a_distance),
	QUEUE_NATIVE_CASE(the_oldest_age_is_that_of_the_first_ready_message),
	QUEUE_CASE(waiting_ends_when_a_message_is_due_or_the_time_is_over),
	{"a_waiting_receiver_sees_what_another_sends",
	 a_waiting_receiver_sees_what_another_sends, true, false, false, false},
	{"a_waiting_receiver_wakes_for_an_earlier_time",
	 a_waiting_receiver_wakes_for_an_earlier_time, true, true, false, false},
	{NULL, NULL, false, false, false, false},
};
