#include "postgres/claim_costs.h"

#include "wherry_test.h"

#include <wherry/postgres.h>

#include "base/env.h"
#include "postgres/plan.h"
#include "postgres/server.h"
#include "store/leases.h"

/* A wh_claimed_fn that counts. */
static wherry_code count_claimed(void *ctx, int64_t id, const wh_row *row,
				 wherry_error *err)
{
	++*(int64_t *)ctx;
	return WHERRY_OK;
}

/* On the connection that claims, so that what it reads is not counted late. */
static void run(const claim_costs *c, const char *sql)
{
	assert_true(postgres_exec(wherry_postgres_handle(c->store->db), sql, NULL, 0));
}

/* Claim so many, and delete them; returns how many index entries the claim read. */
static int64_t claim_some(claim_costs *c, int64_t limit)
{
	const wherry_claim_options options =
		WHERRY_CLAIM_OPTIONS(.limit = limit, .lasts_us = 3600 * WH_SECOND);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0, before = postgres_entries_read(c->store->db, c->table), after;
	const wh_claim_ask ask = {.lease = &c->lease,
				  .options = &options,
				  .place = &c->place,
				  .text_most = 1000,
				  .body_most = 1000,
				  .visit = count_claimed,
				  .ctx = &n};
	bool more;

	WHERRY_PASS(wh_store_claim(c->store, &ask, &more, &err));
	after = postgres_entries_read(c->store->db, c->table);
	assert_int_equal(n, limit);
	run(c, c->remove);
	return after - before;
}

/* What a claim of one reads: the least of some, since the first one pays for what was deleted. */
static int64_t cost(claim_costs *c, bool anchored)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t n;

		c->place.scan_start.next_full_us = anchored ? INT64_MAX : 0;
		n = claim_some(c, 1);
		best = n < best ? n : best;
	}
	return best;
}

void claim_costs_check(claim_costs *c)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t before, anchored, unanchored;
	PGconn *report;
	char sql[200];

	wh_claim_rewind(&c->place);
	c->lease = (wherry_lease){.epoch = 0};
	WHERRY_PASS(wh_store_join_as(c->store, "a", WH_SECOND, &c->lease, &err));
	run(c, c->fill);
	before = cost(c, true);
	(void)snprintf(sql, sizeof(sql),
		       "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM %s",
		       c->table);
	report = PQconnectdb(c->url);
	assert_true(postgres_exec(report, sql, NULL, 0));
	for (int i = 0; i < 19; i++) {
		c->place.scan_start.next_full_us = INT64_MAX;
		(void)claim_some(c, 1000);
	}
	unanchored = cost(c, false);
	anchored = cost(c, true);
	print_message(
		"# a claim reads %lld entries before, %lld under an old snapshot, %lld "
		"from the beginning\n",
		(long long)before, (long long)anchored, (long long)unanchored);
	assert_true(anchored <= before + 10);
	assert_true(unanchored > 10000); /* The snapshot is in the way. */
	/* What a look behind the scan_start passes over is found by a look at all. */
	c->place.scan_start.next_full_us = 0;
	run(c, c->one_before);
	(void)claim_some(c, 1);
	wh_claim_rewind(&c->place);
	PQfinish(report);
}
