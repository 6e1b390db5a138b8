/*
 * Old snapshots do not slow receivers and relays of a queue on PostgreSQL, although they keep deleted
 * rows.
 */
#include "queue_suite.h"

#include <time.h>

#include "postgres/backends.h"
#include "postgres/claim_costs.h"
#include "postgres/server.h"
#include "queue/queue.h"

/* A session with a snapshot that sees every message. */
static PGconn *take_snapshot(queue_fixture *f)
{
	PGconn *conn = PQconnectdb(((postgres_place *)f->place)->url);

	assert_true(postgres_exec(
		conn, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs",
		NULL, 0));
	return conn;
}

static int64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

/* How long a receive of one takes, and its acknowledgement, by the fastest of some. */
static int64_t cost(wherry_queue *queue, bool anchored)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		int64_t before, after;
		queue_got got;

		if (!anchored)
			queue->anchor.next_full_us = 0;
		before = now_us();
		got = queue_receive(queue, WHERRY_LEASE, 1);
		after = now_us();
		assert_int_equal(got.n, 1);
		queue_ack(queue, &got);
		best = after - before < best ? after - before : best;
	}
	return best;
}

static wherry_code drop_it(void *ctx, const wherry_queue_message *msg)
{
	(void)ctx;
	(void)msg;
	return WHERRY_OK;
}

/* Defect 1: upstream walks over every message received since the oldest snapshot began. */
static void an_open_snapshot_does_not_slow_a_drain(void **state)
{
	const wherry_receive_options many =
		WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_AT_MOST_ONCE, .limit = 1000);
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *report;
	int64_t before, anchored, unanchored;

	(void)state;
	queue_raw(f, "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, 30000)");
	before = cost(f->queue, true);
	report = take_snapshot(f);
	for (int i = 0; i < 29; i++)
		WHERRY_PASS(
			wherry_queue_receive(f->queue, &many, drop_it, NULL, NULL, &err));
	unanchored = cost(f->queue, false);
	f->queue->anchor.next_full_us = INT64_MAX;
	anchored = cost(f->queue, true);
	print_message(
		"# a receive: %lld us before, %lld us under an old snapshot, %lld us "
		"from the beginning\n",
		(long long)before, (long long)anchored, (long long)unanchored);
	assert_true(anchored < 3 * before + 1000);
	assert_true(unanchored > 3 * anchored);
	PQfinish(report);
	queue_fixture_drop(f);
}

/* The same of claims by relays. */
static void an_open_snapshot_does_not_slow_claims(void **state)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	claim_costs c = {
		.store = &f->queue->store,
		.url = ((postgres_place *)f->place)->url,
		.table = "jobs",
		.fill = "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, 20000)",
		.remove = "DELETE FROM jobs WHERE state = 1",
		.one_before =
			"DELETE FROM jobs; INSERT INTO jobs(id, body) VALUES (1, '1')",
	};

	(void)state;
	claim_costs_check(&c);
	queue_fixture_drop(f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_snapshot_does_not_slow_a_drain),
		cmocka_unit_test(an_open_snapshot_does_not_slow_claims),
	};

	if (!postgres_start())
		return 0;
	return cmocka_run_group_tests_name("queue, snapshots", tests, NULL, NULL);
}
