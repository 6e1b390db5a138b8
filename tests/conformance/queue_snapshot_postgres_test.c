/*
 * Old snapshots do not slow receivers and relays of a queue on PostgreSQL, although they keep deleted
 * rows.
 */
#include "queue_suite.h"

#include <wherry/postgres.h>

#include "postgres/backends.h"
#include "postgres/claim_costs.h"
#include "postgres/plan.h"
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

/* How many index entries a receive of one reads: the least of some, since the first one pays for what
 * was deleted. */
static int64_t cost(wherry_queue *queue, bool anchored)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t before, after;
		queue_got got;

		queue->scan_start.next_full_us = anchored ? INT64_MAX : 0;
		before = postgres_entries_read(queue->store.db, "jobs");
		got = queue_receive(queue, WHERRY_LEASE, 1);
		after = postgres_entries_read(queue->store.db, "jobs");
		assert_int_equal(got.n, 1);
		queue_ack(queue, &got);
		best = after - before < best ? after - before : best;
	}
	return best;
}

static wherry_code drop_it(void *ctx, const wherry_queue_message *msg)
{
	return WHERRY_OK;
}

/* Defect 1: upstream walks over every message received since the oldest snapshot began. */
WHERRY_TEST(an_open_snapshot_does_not_slow_a_drain)
{
	const wherry_receive_options many =
		WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_AT_MOST_ONCE, .limit = 1000);
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *report;
	int64_t before, anchored, unanchored;

	queue_raw(f, "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, 30000)");
	before = cost(f->queue, true);
	report = take_snapshot(f);
	for (int i = 0; i < 29; i++)
		WHERRY_PASS(
			wherry_queue_receive(f->queue, &many, drop_it, NULL, NULL, &err));
	unanchored = cost(f->queue, false);
	anchored = cost(f->queue, true);
	print_message(
		"# a receive reads %lld entries before, %lld under an old snapshot, %lld "
		"from the beginning\n",
		(long long)before, (long long)anchored, (long long)unanchored);
	assert_true(anchored <= before + 10);
	assert_true(unanchored > 10000); /* The snapshot is in the way. */
	PQfinish(report);
	queue_fixture_drop(f);
}

/* The index of leased rows keeps an entry for each one that was acknowledged. */
WHERRY_TEST(a_receive_after_an_id_reads_no_ended_lease)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = wherry_postgres_handle(f->db), *report;
	int64_t before, after;
	char got[40] = "";

	queue_raw(f, "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, 5001)");
	report = take_snapshot(f);
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_ack_many('jobs', array_agg(id), max(token)) FROM "
		"wherry_receive('jobs', 5000, '1 ms')",
		got, sizeof(got)));
	assert_string_equal(got, "5000");
	before = postgres_entries_read(f->queue->store.db, "jobs");
	assert_true(postgres_exec(conn,
				  "SELECT id FROM wherry_receive('jobs', after => 5000)",
				  got, sizeof(got)));
	after = postgres_entries_read(f->queue->store.db, "jobs");
	assert_string_equal(got, "5001");
	assert_in_range(after - before, 1, 20);
	PQfinish(report);
	queue_fixture_drop(f);
}

/* The same of claims by relays. */
WHERRY_TEST(an_open_snapshot_does_not_slow_claims)
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

	claim_costs_check(&c);
	queue_fixture_drop(f);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
