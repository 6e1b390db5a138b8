/*
 * A queue is claimed as the relay claims the rows of any model.
 */
#include "queue_suite.h"

#include "queue/queue.h"
#include "store/leases.h"
#include "store/settlement.h"

enum { MINUTE_US = 60000000 };

static wherry_code take(void *ctx, int64_t id, const wh_row *row, wherry_error *err)
{
	enum { TOPIC = 6, PAYLOAD = 12 };
	wh_view body = wh_row_bytes(row, PAYLOAD);
	const wherry_queue_message msg = {
		.id = id, .body = body.ptr, .body_len = body.len};

	assert_string_equal(wh_row_text(row, TOPIC), "jobs");
	return queue_note(ctx, &msg);
}

static queue_got claim(queue_fixture *f, const wherry_lease *lease, int64_t limit,
		       bool expired, const char *bodies)
{
	const wherry_claim_options options =
		WHERRY_CLAIM_OPTIONS(.limit = limit, .lasts_us = MINUTE_US);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};
	const wh_claim_ask ask = {.lease = lease,
				  .options = &options,
				  .text_most = 1000,
				  .body_most = 1000,
				  .visit = take,
				  .ctx = &got};
	bool more;

	if (expired)
		WHERRY_PASS(wh_store_claim_expired(&f->queue->store, &ask, &err));
	else
		WHERRY_PASS(wh_store_claim(&f->queue->store, &ask, &more, &err));
	assert_string_equal(got.bodies, bodies);
	return got;
}

static wherry_lease join(queue_fixture *f, const char *owner)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = 0};

	WHERRY_PASS(wh_store_join_as(&f->queue->store, owner, MINUTE_US, &lease, &err));
	return lease;
}

static int64_t settle(queue_fixture *f, const wherry_lease *lease, const wh_settlement *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_settled settled = {.n = -7};

	WHERRY_PASS(wh_store_settle(&f->queue->store, lease, s, &settled, &err));
	return settled.n;
}

WHERRY_CASE(a_queue_is_claimed_as_an_outbox_is, queue_fixture *f)
{
	wherry_lease a = join(f, "a"), b = join(f, "b");
	wh_settlement s = {.n_done = 1, .n_failed = 1};
	wherry_failure failure = WHERRY_FAILURE(.error = "no", .delay_us = 50000000);
	queue_got of_a;

	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	of_a = claim(f, &a, 2, false, "1 2");
	(void)claim(f, &b, 1, false, "3");
	(void)queue_lease(f->queue, 9, "4"); /* a receiver beside relays */
	s.done = of_a.ids;
	failure.id = of_a.ids[1];
	s.failed = &failure;
	assert_int_equal(settle(f, &b, &s), 0);
	assert_int_equal(settle(f, &a, &s), 2);
	queue_counts(f, "0 2 1 0");
	(void)claim(f, &b, 9, false, "");
	queue_minute(f);
	(void)claim(f, &b, 9, false, "2");
	assert_int_equal(queue_int(f, "SELECT max(attempts) FROM jobs WHERE body || '' = "
				      "'2'"),
			 1);
}

WHERRY_CASE(claims_that_expired_are_taken_over, queue_fixture *f)
{
	wherry_lease a = join(f, "a"), b = join(f, "b");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_settlement s = {.n_done = 1};
	int64_t due = 0, lapse = 0;
	queue_got of_a;

	(void)queue_send(f, 1);
	of_a = claim(f, &a, 1, false, "1");
	(void)claim(f, &b, 1, true, "");
	WHERRY_PASS(wh_store_claim_next(&f->queue->store, MINUTE_US, &lapse, &due, &err));
	assert_in_range((uint64_t)lapse, 1, MINUTE_US);
	assert_true(due == WH_NEVER);
	queue_minute(f);
	(void)claim(f, &b, 1, true, "1");
	s.done = of_a.ids;
	assert_int_equal(settle(f, &a, &s), 0);
	s = (wh_settlement){.back = of_a.ids, .n_back = 1};
	assert_int_equal(settle(f, &b, &s), 1);
	(void)queue_lease(f->queue, 1, "1");
}

const queue_case queue_claim_cases[] = {
	QUEUE_NATIVE_CASE(a_queue_is_claimed_as_an_outbox_is),
	QUEUE_NATIVE_CASE(claims_that_expired_are_taken_over),
	{NULL, NULL, false, false, false, false},
};
