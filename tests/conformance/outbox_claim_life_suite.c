/*
 * Claims that last and expire, and what their holders may write.
 */
#include "outbox_claims.h"

#include "outbox/outbox.h"

/* ---- claims that expire ---- */

static void a_claim_that_expired_is_taken_alone_with_its_attempt_on_record(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "kkx");
	claim_takes(f, &a, &claim_ten, "1 2 3");
	claim_takes_expired(f, &b, "");
	claim_expiry(f);
	claim_takes(f, &b, &claim_ten, ""); /* it is for claim_expired alone */
	claim_takes_expired(f, &b, "1");
	assert_int_equal(fixture_int(f, "SELECT attempts FROM outbox WHERE id = 1"), 1);
	assert_string_equal(
		fixture_text(f, "SELECT claim_token FROM outbox WHERE id = 1"), b.token);
	claim_takes_expired(f, &b, "3");
	claim_takes_expired(f, &b, ""); /* 2 is behind 1 */
	assert_int_equal(fixture_int(f, "SELECT attempts FROM outbox WHERE id = 2"), 0);
	claim_done(f, &b, 1);
	claim_takes_expired(f, &b, "2");
	assert_int_equal(fixture_int(f, "SELECT sum(attempts) FROM outbox"), 3);
}

static wherry_code take_attempts(void *ctx, const wherry_message *msg)
{
	*(int *)ctx = msg->attempts;
	return WHERRY_OK;
}

static void attempts_of_expired_claims_add_up(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_failure failure =
		WHERRY_FAILURE(.id = 1, .counted = true, .error = "no answer");
	wherry_error err = WHERRY_ERROR_INIT;
	int attempts = -7;

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	for (int i = 0; i < 4; i++) {
		claim_expiry(f);
		WHERRY_PASS(wherry_outbox_claim_expired(
			f->outbox, &a, &claim_ten, take_attempts, &attempts, NULL, &err));
		assert_int_equal(attempts, i); /* before this one, as ever */
	}
	WHERRY_PASS(wherry_outbox_fail(f->outbox, &a, &failure, 1, &err));
	assert_int_equal(fixture_int(f, "SELECT attempts FROM outbox"), 4);
	assert_int_equal(fixture_state(f, 1), WHERRY_FAILED);
}

static void what_is_pending_behind_a_expired_claim_waits_for_it(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	claim_send(f, "kj");
	claim_expiry(f);
	claim_takes(f, &b, &claim_ten, "3");
	claim_takes_expired(f, &b, "1");
	claim_done(f, &b, 1);
	claim_takes(f, &b, &claim_ten, "2");
}

static void a_claim_that_lives_is_not_taken(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "k-");
	claim_takes(f, &a, &claim_ten, "1 2");
	claim_takes(f, &b, &claim_ten, "");
	claim_takes_expired(f, &b, "");
	claim_takes_expired(f, &a, "");
}

static void an_extended_claim_lasts(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[] = {1, 2}, n = 0;

	claim_send(f, "k-");
	claim_takes(f, &a, &claim_ten, "1 2");
	fixture_raw(f, "UPDATE outbox SET next_retry_at = next_retry_at - 30000");
	WHERRY_PASS(wherry_outbox_extend(f->outbox, &a, ids, 2, MINUTE_US, &n, &err));
	assert_int_equal(n, 2);
	fixture_raw(f, "UPDATE outbox SET next_retry_at = next_retry_at - 40000");
	claim_takes_expired(f, &b, "");
	fixture_raw(f, "UPDATE outbox SET next_retry_at = next_retry_at - 20001");
	claim_takes_expired(f, &b, "1");
}

static void a_expired_claim_is_not_revived(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[] = {1, 2}, n = -7;

	claim_send(f, "kj");
	claim_takes(f, &a, &claim_ten, "1 2");
	fixture_raw(f, "UPDATE outbox SET next_retry_at = next_retry_at - 3600000 "
		       "WHERE id = 2");
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_extend(f->outbox, &a, ids, 2, MINUTE_US, &n, &err));
	assert_int_equal(n, 1);
	assert_non_null(strstr(err.message, "1 of 2 claims"));
	claim_takes_expired(f, &b, "2");
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_extend(f->outbox, &a, ids, 2, MINUTE_US, &n, &err));
	assert_int_equal(n, 1); /* nor b's */
	WHERRY_PASS(
		wherry_outbox_extend(f->outbox, &b, ids + 1, 1, MINUTE_US, NULL, &err));
}

/* Until others take it over, a expired claim can be settled: what was delivered was. */
static void a_claim_that_expired_can_be_settled_until_it_is_taken(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	claim_expiry(f);
	claim_done(f, &a, 1);
	assert_int_equal(fixture_state(f, 1), WHERRY_DONE);
}

/* ---- shares of what expired ---- */

static void what_expired_together_is_shared_out(void **state)
{
	const wherry_claim_options all =
		WHERRY_CLAIM_OPTIONS(.limit = 30, .lasts_us = MINUTE_US);
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "--------------------");
	claim_takes(f, &a, &all, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
	claim_takes_share(f, &b, "");
	claim_expiry(f);
	claim_takes_share(f, &b, "1 2 3");
	claim_takes_share(f, &a, "4 5 6"); /* several at once */
	claim_takes_share(f, &b, "7 8");
	claim_takes_share(f, &b, "9 10");
	claim_takes_share(f, &b, "11 12");
	assert_int_equal(fixture_int(f, "SELECT sum(attempts) FROM outbox"), 0);
	claim_takes_share(f, &b, "13"); /* eight are left: each alone */
	claim_takes_share(f, &b, "14");
	assert_int_equal(fixture_int(f, "SELECT sum(attempts) FROM outbox"), 2);
}

static void what_expires_again_is_shared_out_smaller(void **state)
{
	const wherry_claim_options all =
		WHERRY_CLAIM_OPTIONS(.limit = 30, .lasts_us = MINUTE_US);
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "--------------------");
	claim_takes(f, &a, &all, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
	claim_expiry(f);
	claim_takes_share(f, &b, "1 2 3");
	fixture_raw(f, "UPDATE outbox SET next_retry_at = 1 WHERE id <= 3");
	fixture_raw(f, "UPDATE outbox SET next_retry_at = 2 WHERE id > 3");
	claim_takes_share(f, &a, "1");
	claim_takes_share(f, &a, "2");
	assert_int_equal(fixture_int(f, "SELECT sum(attempts) FROM outbox"), 2);
}

static void a_share_has_the_messages_of_a_key_in_order(void **state)
{
	const wherry_claim_options all =
		WHERRY_CLAIM_OPTIONS(.limit = 30, .lasts_us = MINUTE_US);
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "xkkkkjjkkkkjjkkkkk");
	claim_takes(f, &a, &all, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18");
	claim_expiry(f);
	claim_takes_share(f, &b, "1 2 3");
	claim_takes_share(f, &a, "6 7"); /* of k nothing, b has it */
	claim_done(f, &b, 2);
	claim_fail(f, &b, 3, MINUTE_US, false);
	claim_takes_share(f, &b, ""); /* of neither */
	claim_done(f, &a, 6);
	claim_done(f, &a, 7);
	claim_takes_share(f, &b, "12 13");
	claim_done(f, &b, 12);
	claim_done(f, &b, 13);
	claim_takes_share(f, &b, ""); /* what is left waits for 3 */
	claim_expiry(f);
	claim_takes(f, &b, &claim_ten, "3");
	claim_done(f, &b, 3);
	claim_takes_share(f, &b, "4 5");
	assert_int_equal(fixture_int(f, "SELECT max(attempts) FROM outbox WHERE id <> 3"),
			 0);
}

/* ---- the fence ---- */

static void an_acknowledgement_of_a_lost_claim_changes_nothing_and_says_so(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	int64_t ids[] = {1, 2, 3};

	claim_send(f, "kkx");
	claim_takes(f, &a, &claim_ten, "1 2 3");
	claim_all_refused(f, &b, ids, 3); /* never had them */
	claim_expiry(f);
	claim_takes_expired(f, &b, "1");
	claim_all_refused(f, &a, ids, 1); /* taken over */
	claim_all_refused(f, &a, ids, 3); /* in part */
	claim_done(f, &b, 1);
	claim_all_refused(f, &a, ids, 1); /* and settled */
	claim_all_refused(f, &a, ids, 3);
	claim_requeue(f, &a, 2);
	claim_all_refused(f, &a, ids + 1, 1); /* given back */
	claim_takes(f, &b, &claim_ten, "2");
	claim_all_refused(f, &a, ids + 1, 2);
	claim_done(f, &a, 3);
}

static void an_attempt_at_a_message_that_others_claimed_is_refused(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_error err = WHERRY_ERROR_INIT;

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	WHERRY_PASS(wherry_outbox_try(f->outbox, &a, 1, &err));
	assert_int_equal(fixture_int(f, "SELECT attempts FROM outbox"), 1);
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_try(f->outbox, &b, 1, &err));
	assert_int_equal(fixture_int(f, "SELECT attempts FROM outbox"), 1);
	claim_is_of(f, &a, 1);
}

static void what_an_operator_took_from_a_claim_is_lost_to_it(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_filter failed = WHERRY_FILTER(.states = 1u << WHERRY_FAILED);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 1, n = 0;

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	claim_fail(f, &a, 1, MINUTE_US, false);
	WHERRY_PASS(wherry_outbox_retry(f->outbox, &failed, &n, &err));
	assert_int_equal(n, 1);
	claim_all_refused(f, &a, &id, 1);
}

static void reaping_leaves_claims_that_live(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	claim_send(f, "kj");
	claim_takes(f, &a, &claim_ten, "1 2");
	/* claimed long ago, and extended ever since */
	fixture_raw(f, "UPDATE outbox SET claimed_at = claimed_at - 3600000");
	fixture_raw(f, "UPDATE outbox SET next_retry_at = 1 WHERE id = 2");
	WHERRY_PASS(wherry_outbox_reap(f->outbox, MINUTE_US, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(fixture_state(f, 1), WHERRY_PROCESSING);
	assert_int_equal(fixture_state(f, 2), WHERRY_PENDING);
	claim_done(f, &a, 1);
}

/* ---- transactions and visitors ---- */

static void a_claim_inside_the_callers_transaction_is_rolled_back_with_it(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_error err = WHERRY_ERROR_INIT;
	char before[sizeof(f->text)];

	claim_send(f, "kj");
	claim_takes(f, &a, &WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = 1000), "1");
	claim_expiry(f);
	(void)snprintf(before, sizeof(before), "%s", fixture_digest(f));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	claim_takes(f, &a, &claim_ten, "2");
	claim_takes_expired(f, &a, "1");
	assert_true(wherry_db_in_transaction(f->db));
	wherry_db_rollback(f->db);
	assert_string_equal(fixture_digest(f), before);
	claim_takes(f, &b, &claim_ten, "2");
	claim_takes_expired(f, &b, "1");
}

/* Its id was taken by another message, which the same relay claimed. */
static void a_claim_is_extended_and_given_back_by_its_message_id(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	const int64_t ids[] = {1, 2};
	char first[64], second[64];
	wh_view names[2] = {wh_view_of("gone"), {NULL, 0}};
	wh_settlement back = {.back = ids, .back_names = names, .n_back = 2};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_settled settled = {0};
	int64_t n = -7;

	claim_send(f, "kj");
	(void)snprintf(first, sizeof(first), "%s",
		       fixture_text(f, "SELECT message_id FROM outbox WHERE id = 1"));
	(void)snprintf(second, sizeof(second), "%s",
		       fixture_text(f, "SELECT message_id FROM outbox WHERE id = 2"));
	names[1] = wh_view_of(second);
	claim_takes(f, &a, &claim_ten, "1 2");
	WHERRY_FAILS(WHERRY_STALE, wh_store_extend(&f->outbox->store, &a, ids, names, 2,
						   MINUTE_US, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wh_store_settle(&f->outbox->store, &a, &back, &settled, &err));
	assert_int_equal(settled.n, 1);
	assert_int_equal(fixture_state(f, 1), WHERRY_PROCESSING);
	assert_int_equal(fixture_state(f, 2), WHERRY_PENDING);
	names[0] = wh_view_of(first);
	back.n_back = 1;
	WHERRY_PASS(wh_store_extend(&f->outbox->store, &a, ids, names, 1, MINUTE_US, &n,
				    &err));
	WHERRY_PASS(wh_store_settle(&f->outbox->store, &a, &back, &settled, &err));
	assert_int_equal(fixture_state(f, 1), WHERRY_PENDING);
}

static void a_visitor_that_fails_claims_nothing(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	char before[sizeof(f->text)];
	int64_t n = -7;

	claim_send(f, "kjl");
	fixture_raw(f, "UPDATE outbox SET status = 3, next_retry_at = 1 WHERE id = 3");
	(void)snprintf(before, sizeof(before), "%s", fixture_digest(f));
	for (int after = 0; after < 3; after++) {
		claim_refusal r = {after, 0};

		WHERRY_FAILS(WHERRY_NOMEM,
			     wherry_outbox_claim(f->outbox, &a, &claim_ten, claim_refuse,
						 &r, &n, &err));
		assert_string_equal(fixture_digest(f), before);
		assert_false(wherry_db_in_transaction(f->db));
	}
	assert_int_equal(n, -7);
	claim_takes(f, &a, &claim_ten, "3 1 2");
}

static void a_visitor_that_fails_takes_no_expired_claim(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_error err = WHERRY_ERROR_INIT;
	claim_refusal r = {0, 0};
	int64_t n = -7;

	claim_send(f, "k");
	claim_takes(f, &a, &claim_ten, "1");
	claim_expiry(f);
	WHERRY_FAILS(WHERRY_NOMEM,
		     wherry_outbox_claim_expired(f->outbox, &b, &claim_ten, claim_refuse,
						 &r, &n, &err));
	assert_int_equal(n, -7);
	assert_int_equal(fixture_int(f, "SELECT attempts FROM outbox"), 0);
	assert_string_equal(fixture_text(f, "SELECT claim_token FROM outbox"), a.token);
	claim_takes_expired(f, &b, "1");
}

const outbox_case outbox_claim_life_cases[] = {
	CASE_THAT_NEEDS(a_claim_that_expired_is_taken_alone_with_its_attempt_on_record,
			NEEDS_KEYS | NEEDS_TOKEN),
	CASE(attempts_of_expired_claims_add_up),
	CASE_THAT_NEEDS(what_is_pending_behind_a_expired_claim_waits_for_it, NEEDS_KEYS),
	CASE(a_claim_that_lives_is_not_taken),
	CASE_THAT_NEEDS(an_extended_claim_lasts, NEEDS_NATIVE),
	CASE(a_expired_claim_is_not_revived),
	CASE(what_expired_together_is_shared_out),
	CASE_THAT_NEEDS(what_expires_again_is_shared_out_smaller, NEEDS_NATIVE),
	CASE_THAT_NEEDS(a_share_has_the_messages_of_a_key_in_order, NEEDS_KEYS),
	CASE_THAT_NEEDS(a_claim_that_expired_can_be_settled_until_it_is_taken,
			NEEDS_NATIVE),
	CASE_THAT_NEEDS(an_acknowledgement_of_a_lost_claim_changes_nothing_and_says_so,
			NEEDS_NATIVE),
	CASE(an_attempt_at_a_message_that_others_claimed_is_refused),
	CASE(what_an_operator_took_from_a_claim_is_lost_to_it),
	CASE_THAT_NEEDS(reaping_leaves_claims_that_live, NEEDS_TOKEN),
	CASE(a_claim_inside_the_callers_transaction_is_rolled_back_with_it),
	CASE_THAT_NEEDS(a_claim_is_extended_and_given_back_by_its_message_id,
			NEEDS_TOKEN),
	CASE(a_visitor_that_fails_claims_nothing),
	CASE_THAT_NEEDS(a_visitor_that_fails_takes_no_expired_claim, NEEDS_TOKEN),
	{NULL, NULL, 0},
};
