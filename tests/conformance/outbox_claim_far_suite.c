/*
 * Claims that go on where the last one passed over rows it could not have.
 */
#include "outbox_claims.h"

#include "outbox/outbox.h"

typedef struct far_claim {
	wherry_lease lease;
	wh_claim_place place;
	int64_t ids[16];
	int n;
	bool more;
} far_claim;

static wherry_code keep(void *ctx, const wh_open_row *row, wherry_error *err)
{
	far_claim *c = ctx;

	(void)err;
	assert_true(c->n < 16);
	c->ids[c->n++] = row->id;
	return WHERRY_OK;
}

static far_claim begin(outbox_fixture *f)
{
	far_claim c = {.lease = claim_join(f, "a")};

	wh_claim_rewind(&c.place);
	return c;
}

static void go_on(outbox_fixture *f, far_claim *c)
{
	wherry_error err = WHERRY_ERROR_INIT;

	c->n = 0;
	WHERRY_PASS(wh_store_claim_rows(&f->outbox->store, &c->lease, &claim_ten,
					&c->place, keep, c, &c->more, &err));
}

static void end(far_claim *c)
{
	wh_claim_rewind(&c->place);
}

/* Rows whose key is this expression of i, from 1 to n. */
static void fill(outbox_fixture *f, int n, int state, const char *key)
{
	fixture_raw(f,
		    "INSERT INTO outbox(topic, payload, status, next_retry_at, "
		    "partition_key) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT "
		    "i + 1 FROM c WHERE i < %d) SELECT 't', '', %d, CASE %d WHEN 3 THEN "
		    "90000000000000 END, %s FROM c",
		    n, state, state, key);
}

/* No claimed row has an earlier one of its key that waits. */
static void nobody_was_overtaken(outbox_fixture *f)
{
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM outbox c JOIN outbox b ON "
					"b.partition_key = c.partition_key AND b.id < "
					"c.id WHERE c.status = 1 AND b.status = 0"),
			 0);
}

static void claims_look_past_a_key_that_is_blocked_by_thousands_of_rows(void **state)
{
	outbox_fixture *f = *state;
	far_claim c = begin(f);
	int calls = 0;

	fill(f, 1, WHERRY_FAILED, "'hot'");
	fill(f, 5000, WHERRY_PENDING, "'hot'");
	fill(f, 1, WHERRY_PENDING, "'cool'");
	do {
		go_on(f, &c);
		calls++;
	} while (c.more && !c.n);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.ids[0], 5002);
	assert_in_range(calls, 1, 4);
	end(&c);
	fixture_raw(f, "UPDATE outbox SET status = 0, claim_token = '' WHERE id = 5002");
	claim_takes(f, &c.lease, &claim_ten, "5002"); /* a program's at once */
}

/* Each of thousands of keys is held back, and what is free comes behind all of them. */
static void claims_look_past_thousands_of_keys_that_are_blocked(void **state)
{
	outbox_fixture *f = *state;
	far_claim c = begin(f);
	int calls = 0;

	fill(f, 9000, WHERRY_FAILED, "printf('k%d', i)");
	fill(f, 9000, WHERRY_PENDING, "printf('k%d', i)");
	fill(f, 1, WHERRY_PENDING, "'cool'");
	fill(f, 9000, WHERRY_PENDING, "printf('k%d', i)");
	fill(f, 1, WHERRY_PENDING, "'free'");
	do {
		go_on(f, &c);
		calls++;
	} while (c.more && !c.n);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.ids[0], 18001);
	/* these are free since, their first ones among those passed over */
	fixture_raw(f, "UPDATE outbox SET status = 2 WHERE status = 3 AND id > 8990");
	do {
		go_on(f, &c);
		calls++;
	} while (c.more && !c.n);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.ids[0], 27002);
	assert_in_range(calls, 1, 10);
	end(&c);
	do
		go_on(f, &c);
	while (c.more && !c.n);
	assert_int_equal(c.n, 10);
	assert_int_equal(c.ids[0], 17991);
	nobody_was_overtaken(f);
	end(&c);
}

static void a_key_that_was_passed_over_is_not_overtaken(void **state)
{
	outbox_fixture *f = *state;
	far_claim c = begin(f);

	fill(f, 1, WHERRY_FAILED, "'k'");   /* 1 */
	fill(f, 1, WHERRY_PENDING, "'k'");  /* 2 */
	fill(f, 1, WHERRY_FAILED, "'hot'"); /* 3 */
	fill(f, 2500, WHERRY_PENDING, "'hot'");
	claim_send(f, "kx"); /* 2504 and 2505 */
	go_on(f, &c);
	assert_int_equal(c.n, 0);
	assert_true(c.more);
	fixture_raw(f, "UPDATE outbox SET status = 2 WHERE id = 1");
	go_on(f, &c);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.ids[0], 2505);
	end(&c); /* anew */
	go_on(f, &c);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.ids[0], 2);
	end(&c);
}

/* n keys that are held back are passed over; then all of them are free. */
static void pass_over(outbox_fixture *f, int n, const char *key)
{
	far_claim c = begin(f);

	fill(f, n, WHERRY_FAILED, key);
	fill(f, n, WHERRY_PENDING, key);
	fill(f, 1, WHERRY_FAILED, "'hot'");
	fill(f, 2100 - n, WHERRY_PENDING, "'hot'");
	fill(f, n, WHERRY_PENDING, key);
	go_on(f, &c);
	assert_int_equal(c.n, 0);
	fixture_raw(f, "UPDATE outbox SET status = 2 WHERE status = 3 AND "
		       "partition_key <> 'hot'");
	for (int i = 0; i < 4; i++) {
		go_on(f, &c);
		nobody_was_overtaken(f);
	}
	end(&c);
}

static void more_keys_than_are_remembered_are_not_overtaken(void **state)
{
	pass_over(*state, 1900, "printf('k%d', i)");
}

static void long_keys_that_were_passed_over_are_not_overtaken(void **state)
{
	pass_over(*state, 900,
		  "printf('%d', i) || replace(hex(zeroblob(500)), '0', char(1))");
}

static void a_key_with_a_NUL_that_was_passed_over_is_not_overtaken(void **state)
{
	pass_over(*state, 3, "'a' || char(0) || i");
}

static void what_is_next_to_expire_and_to_be_due_is_known(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t expiry_us = -7, due_us = -7;

	WHERRY_PASS(wh_store_claim_next(&f->outbox->store, false, MINUTE_US, &expiry_us,
					&due_us, &err));
	assert_true(expiry_us == WH_NEVER && due_us == WH_NEVER);
	claim_send(f, "ab");
	claim_takes(f, &a, &claim_ten, "1 2");
	claim_fail(f, &a, 1, MINUTE_US / 2, false);
	WHERRY_PASS(wh_store_claim_next(&f->outbox->store, false, MINUTE_US, &expiry_us,
					&due_us, &err));
	assert_in_range((uint64_t)expiry_us, 40000000, 60000000);
	assert_in_range((uint64_t)due_us, 10000000, 30000000);
	claim_expiry(f);
	WHERRY_PASS(wh_store_claim_next(&f->outbox->store, false, MINUTE_US, &expiry_us,
					&due_us, &err));
	assert_int_equal(expiry_us, 0);
	assert_int_equal(due_us, 0);
}

const outbox_case outbox_claim_far_cases[] = {
	CASE_THAT_NEEDS(claims_look_past_a_key_that_is_blocked_by_thousands_of_rows,
			NEEDS_KEYS),
	CASE_THAT_NEEDS(claims_look_past_thousands_of_keys_that_are_blocked,
			NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(a_key_that_was_passed_over_is_not_overtaken, NEEDS_KEYS),
	CASE_THAT_NEEDS(more_keys_than_are_remembered_are_not_overtaken, NEEDS_KEYS),
	CASE_THAT_NEEDS(long_keys_that_were_passed_over_are_not_overtaken,
			NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(a_key_with_a_NUL_that_was_passed_over_is_not_overtaken,
			NEEDS_KEYS | NEEDS_NUL),
	CASE(what_is_next_to_expire_and_to_be_due_is_known),
	{NULL, NULL, 0},
};
