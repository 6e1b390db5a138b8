/*
 * Leases that relays share, and those that keep them out.
 */
#include "outbox_claims.h"

/* ---- joining ---- */

static void competing_and_exclusive_leases_keep_each_other_out(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "host-1/42"), other = {.epoch = -7}, alone;

	WHERRY_FAILS(WHERRY_BUSY, wherry_outbox_lease(f->outbox, "host-2", MINUTE_US, 8,
						      &other, &err));
	assert_non_null(strstr(err.message, "host-1/42"));
	assert_non_null(strstr(err.message, "'outbox'"));
	assert_int_equal(other.epoch, -7);
	fixture_expire(f);
	alone = fixture_lease(f, "host-3");
	assert_int_equal(alone.epoch, a.epoch + 1);
	other = a;
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_join(f->outbox, "host-1/42", MINUTE_US, &other, &err));
	assert_non_null(strstr(err.message, "host-3"));
	assert_non_null(strstr(err.message, "'outbox'"));
	assert_memory_equal(&other, &a, sizeof(a));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &alone, &err));
	WHERRY_PASS(wherry_outbox_join(f->outbox, "host-1/42", MINUTE_US, &other, &err));
	assert_int_equal(other.epoch, alone.epoch + 1);
}

static void what_was_claimed_before_a_lease_of_another_kind_is_fenced(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), alone;
	int64_t id = 1;

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	fixture_expire(f);
	alone = fixture_lease(f, "alone");
	claim_all_refused(f, &a, &id, 1);
	WHERRY_PASS(wherry_outbox_done(f->outbox, &alone, &id, 1, NULL, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &alone, &err));
	claim_join(f, "b");
	claim_all_refused(f, &a, &id, 1);
}

static void a_joined_lease_keeps_its_token(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b"), first = a;

	assert_true(*a.token);
	assert_string_not_equal(a.token, b.token);
	assert_int_equal(a.epoch, b.epoch);
	fixture_raw(f, "UPDATE wherry_lease SET expires_at = expires_at - 50000");
	WHERRY_PASS(wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err));
	assert_string_equal(a.token, first.token);
	assert_int_equal(a.epoch, first.epoch);
	fixture_expire(f); /* nobody else was there meanwhile */
	WHERRY_PASS(wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err));
	assert_string_equal(a.token, first.token);
	assert_int_equal(a.epoch, first.epoch);
}

static void a_short_lease_does_not_cut_a_longer_one(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), b = {0}, other;
	wherry_status status;

	WHERRY_PASS(wherry_outbox_join(f->outbox, "b", 1000, &b, &err));
	WHERRY_PASS(
		wherry_outbox_status(f->outbox, &status, sizeof(wherry_status), &err));
	assert_in_range((uint64_t)status.lease_left_us, 50000000, MINUTE_US);
	assert_string_equal(status.engine, "competing");
	assert_int_equal(status.epoch, a.epoch);
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "c", MINUTE_US, 8, &other, &err));
}

/* One that leaves must not let a relay of another kind in beside those that stay. */
static void the_last_to_release_a_joined_lease_gives_it_back(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b"), other;

	WHERRY_PASS(
		wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err)); /* renewed */
	WHERRY_PASS(wherry_outbox_release(f->outbox, &a, &err));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "c", MINUTE_US, 8, &other, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &b, &err));
	WHERRY_PASS(wherry_outbox_lease(f->outbox, "c", MINUTE_US, 8, &other, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, &a, &err));
}

static void who_leaves_twice_is_counted_once(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b"),
		     c = claim_join(f, "c"), other;

	WHERRY_PASS(wherry_outbox_release(f->outbox, &b, &err));
	for (int i = 0; i < 3; i++)
		WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, &b, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &a, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, &a, &err));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "d", MINUTE_US, 8, &other, &err));
	WHERRY_PASS(wherry_outbox_join(f->outbox, "b", MINUTE_US, &b, &err)); /* again */
	WHERRY_PASS(wherry_outbox_release(f->outbox, &c, &err));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "d", MINUTE_US, 8, &other, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &b, &err));
	WHERRY_PASS(wherry_outbox_lease(f->outbox, "d", MINUTE_US, 8, &other, &err));
}

static void members_that_crashed_are_forgotten(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), other;

	for (int i = 0; i < 250; i++) {
		(void)claim_join(f, "b");
		WHERRY_PASS(wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err));
	}
	assert_in_range(fixture_int(f, "SELECT length(members) FROM wherry_lease"), 37,
			4000);
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "d", MINUTE_US, 8, &other, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &a, &err)); /* it is known */
}

/* It slept past its lease, and another began anew meanwhile. */
static void one_that_comes_back_after_a_expire_is_counted_again(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), b, other;

	fixture_expire(f);
	b = claim_join(f, "b");
	WHERRY_PASS(wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &b, &err));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "c", MINUTE_US, 8, &other, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &a, &err));
	WHERRY_PASS(wherry_outbox_lease(f->outbox, "c", MINUTE_US, 8, &other, &err));
}

static void two_that_come_back_after_a_expire_are_both_counted(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b"), other;

	fixture_expire(f);
	WHERRY_PASS(wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err));
	WHERRY_PASS(wherry_outbox_join(f->outbox, "b", MINUTE_US, &b, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &b, &err));
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "c", MINUTE_US, 8, &other, &err));
}

static void a_paused_outbox_says_so_when_joined(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease a = claim_join(f, "a");
	int64_t control_version = a.control_version;

	assert_false(a.paused);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	WHERRY_PASS(wherry_outbox_join(f->outbox, "a", MINUTE_US, &a, &err));
	assert_true(a.paused);
	assert_true(a.control_version > control_version);
	assert_true(claim_join(f, "b").paused);
	WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	assert_false(claim_join(f, "c").paused);
}

static void bad_claims_are_refused(void **state)
{
	static const wherry_claim_options bad[] = {
		{.limit = 0, .lasts_us = MINUTE_US},
		{.limit = -1, .lasts_us = MINUTE_US},
		{.limit = 1, .lasts_us = 0},
		{.limit = 1, .lasts_us = -1},
	};
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease alone = fixture_lease(f, "alone"), a, none = {0};
	claim_refusal r = {0, 0};
	int64_t id = fixture_send(f, "t", "k"), n = -7;

	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_claim(f->outbox, &alone, &claim_ten,
							 claim_refuse, &r, &n, &err));
	assert_non_null(strstr(err.message, "wherry_outbox_join()"));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_claim_expired(f->outbox, &alone, &claim_ten,
						 claim_refuse, &r, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_extend(f->outbox, &alone, &id, 1, 1, &n, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &alone, &err));
	a = claim_join(f, "a");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_claim(f->outbox, &a, &bad[i], claim_refuse, &r,
						 &n, &err));
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_claim_expired(f->outbox, &a, &bad[i],
							 claim_refuse, &r, &n, &err));
	}
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_claim(f->outbox, &a, NULL,
							 claim_refuse, &r, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_claim(NULL, &a, &claim_ten,
							 claim_refuse, &r, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_claim(f->outbox, &a, &claim_ten, NULL,
							 NULL, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_claim_expired(f->outbox, &a, &claim_ten, NULL, NULL,
						 &n, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_extend(f->outbox, &a, &id, 1, 0, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_join(f->outbox, NULL, MINUTE_US, &none, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_join(f->outbox, "a", 0, &none, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_join(f->outbox, "a", -1, &none, &err));
	assert_int_equal(none.epoch, 0);
	assert_string_equal(none.token, "");
	assert_int_equal(n, -7);
	assert_int_equal(r.visits, 0);
	assert_int_equal(fixture_state(f, id), WHERRY_PENDING);
}

const outbox_case outbox_join_cases[] = {
	CASE(competing_and_exclusive_leases_keep_each_other_out),
	CASE(what_was_claimed_before_a_lease_of_another_kind_is_fenced),
	CASE(a_joined_lease_keeps_its_token),
	CASE(a_short_lease_does_not_cut_a_longer_one),
	CASE(the_last_to_release_a_joined_lease_gives_it_back),
	CASE(who_leaves_twice_is_counted_once),
	CASE(members_that_crashed_are_forgotten),
	CASE(one_that_comes_back_after_a_expire_is_counted_again),
	CASE(two_that_come_back_after_a_expire_are_both_counted),
	CASE(a_paused_outbox_says_so_when_joined),
	CASE(bad_claims_are_refused),
	{NULL, NULL, 0},
};
