/*
 * Messages that are given up.
 */
#include "delayed_suite.h"

#include <inttypes.h>

#include "delayed/delayed.h"
#include "store/claims.h"
#include "store/leases.h"
#include "store/settlement.h"

/* Poll with a maximum of two attempts under a lease of 5 s. */
static void polls_twice_at_most(delayed_fixture *f, int64_t limit, const char *bodies)
{
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = limit, .lease_us = 5 * SECOND_US,
				    .max_attempts = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	WHERRY_PASS(
		delayed_does.poll(f->queue, &options, delayed_note, &got, NULL, &err));
	assert_string_equal(got.text, bodies);
}

static int64_t dead_id(delayed_fixture *f)
{
	return delayed_int(f, "SELECT max(id) FROM later_dead");
}

WHERRY_CASE(a_message_dies_when_its_attempts_are_used_up, delayed_fixture *f)
{
	(void)delayed_offer(f, "bad", "1", -2);
	(void)delayed_offer(f, "good", "2", 10);
	polls_twice_at_most(f, 1, "1");
	delayed_pass(f, 5);
	polls_twice_at_most(f, 1, "1");
	delayed_pass(f, 5);
	polls_twice_at_most(f, 1, "2"); /* and not an empty poll */
	delayed_counts(f, "0 1 0 1");
	assert_false(delayed_has(f, "bad"));
	assert_int_equal(
		delayed_int(f, "SELECT count(*) FROM later_dead WHERE attempts = 2 AND "
			       "last_error = 'its lease expired before it was "
			       "acknowledged' AND \"pKey\" = 'bad'"),
		1);
}

WHERRY_CASE(a_message_that_was_given_back_dies_with_its_reason, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome out;

	(void)delayed_offer(f, "k", "1", 0);
	for (int i = 0; i < 2; i++) {
		const char *token = delayed_polls(f, 1, "1")->tokens[0];

		WHERRY_PASS(delayed_does.nack(f->queue, &token, 1, 0, "no route", &out,
					      &err));
	}
	polls_twice_at_most(f, 1, "");
	delayed_counts(f, "0 0 0 1");
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later_dead WHERE "
					"last_error = 'no route' AND attempts = 2"),
			 1);
}

/* One after another, each would walk over the index entries of those before it. */
WHERRY_CASE(exhausted_messages_become_dead_as_a_set_and_stop_no_poll, delayed_fixture *f)
{
	enum { MANY = 1250, AT_ONCE = 1000 };
	wherry_error err = WHERRY_ERROR_INIT;
	char key[16];

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(key, sizeof(key), "k%d", i);
		(void)delayed_offer(f, key, "bad", -9);
	}
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	delayed_raw(f, "UPDATE later SET attempts = 2, last_error = 'no route'");
	(void)delayed_offer(f, "good", "good", 0);
	polls_twice_at_most(f, 1, "good");
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later_dead"), AT_ONCE);
	polls_twice_at_most(f, 1, "");
	assert_int_equal(
		delayed_int(f, "SELECT count(*) FROM later_dead WHERE attempts = 2 AND "
			       "last_error = 'no route'"),
		MANY);
}

static void make_all_dead(delayed_fixture *f, int64_t n, const char *bodies)
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = *delayed_polls(f, n, bodies);
	wherry_ack_outcome out[8];
	const char *tokens[8];

	for (int i = 0; i < n; i++)
		tokens[i] = got.tokens[i];
	WHERRY_PASS(delayed_does.dead_letter(f->queue, tokens, (size_t)n, "bad order",
					     out, &err));
	for (int i = 0; i < n; i++)
		assert_int_equal(out[i], WHERRY_ACKNOWLEDGED);
}

WHERRY_CASE(a_dead_letter_is_listed_and_its_key_is_free, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	(void)delayed_offer(f, "a", "1", -2);
	(void)delayed_offer(f, "b", "2", -1);
	make_all_dead(f, 2, "1 2");
	delayed_counts(f, "0 0 0 2");
	assert_int_equal(delayed_offer_absent(f, "a", "new", 10), WHERRY_CREATED);
	WHERRY_PASS(wherry_delayed_list_dead(f->queue, 0, 0, delayed_note, &got, &err));
	assert_string_equal(got.text, "1 2");
	assert_string_equal(got.keys, "a b");
	assert_string_equal(got.tokens[0], "");
	got = (delayed_got){.n = 0};
	WHERRY_PASS(wherry_delayed_list_dead(f->queue, dead_id(f) - 1, 1, delayed_note,
					     &got, &err));
	assert_string_equal(got.text, "2");
}

WHERRY_CASE(a_dead_letter_is_retried_in_its_old_place, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const delayed_got *got;
	int64_t n = -7;

	(void)delayed_offer(f, "a", "1", -2);
	make_all_dead(f, 1, "1");
	(void)delayed_offer(f, "b", "2", -1);
	WHERRY_PASS(wherry_delayed_retry(f->queue, dead_id(f), &n, &err));
	assert_int_equal(n, 1);
	got = delayed_polls(f, 9, "1 2");
	assert_int_equal(got->attempts[0], 1);
	assert_false(got->redelivery[0]);
	delayed_counts(f, "0 2 0 0");
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_delayed_retry(f->queue, 99999, &n, &err));
	assert_non_null(strstr(err.message, "no dead message 99999"));
	WHERRY_PASS(wherry_delayed_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 0);
}

WHERRY_CASE(a_dead_letter_whose_key_was_offered_again_stays_dead, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7, id;

	(void)delayed_offer(f, "a", "1", -3);
	make_all_dead(f, 1, "1");
	id = dead_id(f);
	(void)delayed_offer(f, "a", "new", -2);
	(void)delayed_offer(f, "b", "2", -4);
	make_all_dead(f, 1, "2");
	WHERRY_FAILS(WHERRY_DUPLICATE, wherry_delayed_retry(f->queue, id, &n, &err));
	WHERRY_PASS(wherry_delayed_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 1);
	delayed_counts(f, "2 0 0 1");
	(void)delayed_polls(f, 9, "2 new");
}

WHERRY_CASE(of_two_dead_letters_of_one_key_one_is_retried, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	(void)delayed_offer(f, "a", "1", 0);
	make_all_dead(f, 1, "1");
	(void)delayed_offer(f, "a", "2", 0);
	make_all_dead(f, 1, "2");
	WHERRY_PASS(wherry_delayed_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 1);
	delayed_counts(f, "1 0 0 1");
}

/* A role that may write dead messages can write any times and any keys there. */
WHERRY_CASE(a_dead_row_that_others_wrote_stops_no_other, delayed_fixture *f)
{
	static const char *const times[] = {"-9223372036854775807 - 1", "-1",
					    "253402300799999", "253402300800000",
					    "9223372036854775807"};
	enum { TIMES = sizeof(times) / sizeof(times[0]), ROWS = 2 * TIMES + 1 };
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};
	char sql[1024];
	int64_t n = -7, id;

	(void)delayed_offer(f, "b", "2", 10);
	(void)delayed_offer(f, "a", "1", 0);
	make_all_dead(f, 1, "1");
	id = dead_id(f);
	/* The first of them has a key that most tables have no room for. */
	for (int i = 0; i < ROWS; i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"INSERT INTO later_dead(id, \"pKey\", \"pKind\", payload, "
			"\"scheduledAtInitially\", \"createdAt\", attempts, died_at) "
			"SELECT %" PRId64 ", '%0*d', \"pKind\", payload, %s, %s, 1, 1 "
			"FROM later_dead WHERE \"pKey\" = 'a'",
			i ? id + i : id - 1, i ? 3 : 201, i,
			i % 2 ? times[i / 2 % TIMES] : "1",
			i % 2 || !i ? "1" : times[i / 2 % TIMES]);
		delayed_raw(f, sql);
	}
	WHERRY_PASS(wherry_delayed_list_dead(f->queue, 0, 0, delayed_note, &got, &err));
	WHERRY_PASS(wherry_delayed_retry(f->queue, 0, &n, &err));
	assert_true(delayed_has(f, "a"));
	if (delayed_int(f, "SELECT count(*) FROM later_dead") == 0) {
		assert_int_equal(n, ROWS + 1);
		return;
	}
	assert_int_equal(n, ROWS);
	assert_int_equal(delayed_int(f, "SELECT id FROM later_dead"), id - 1);
	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_delayed_retry(f->queue, id - 1, &n, &err));
	assert_non_null(strstr(err.message, "has no place for dead message"));
}

/* Dead messages under the ids of those that live: ids that began again, or a copy of old rows. */
static void leave_dead(delayed_fixture *f)
{
	delayed_raw(f, "INSERT INTO later_dead(id, \"pKey\", \"pKind\", payload, "
		       "\"scheduledAtInitially\", \"createdAt\", attempts, died_at, "
		       "last_error) SELECT id, 'stale', \"pKind\", payload, 1, 1, 9, 1, "
		       "'stale' FROM later");
}

/* The one dead message is that of the key, and no longer the one that was left. */
static void is_dead(delayed_fixture *f, const char *key, const char *error)
{
	char sql[300];

	delayed_counts(f, "0 0 0 1");
	(void)snprintf(sql, sizeof(sql),
		       "SELECT count(*) FROM later_dead WHERE \"pKey\" = '%s' AND "
		       "attempts = 1 AND died_at > 1 AND last_error = '%s'",
		       key, error);
	assert_int_equal(delayed_int(f, sql), 1);
	delayed_raw(f, "DELETE FROM later_dead");
}

static wherry_code take_id(void *ctx, int64_t id, const wh_row *row, wherry_error *err)
{
	*(int64_t *)ctx = id;
	return WHERRY_OK;
}

/* As a relay does. */
static void claim_and_give_up(delayed_fixture *f)
{
	const wherry_claim_options options =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = 3600LL * SECOND_US);
	wherry_failure failure = WHERRY_FAILURE(.dead = true, .error = "no route");
	const wh_settlement s = {.failed = &failure, .n_failed = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};
	wh_claim_ask ask = {.lease = &lease,
			    .options = &options,
			    .text_most = 1000,
			    .body_most = 1000,
			    .visit = take_id,
			    .ctx = &failure.id};
	wh_settled settled = {0};
	bool more;

	WHERRY_PASS(wh_store_join_as(&f->queue->store, "a", SECOND_US, &lease, &err));
	WHERRY_PASS(wh_store_claim(&f->queue->store, &ask, &more, &err));
	leave_dead(f);
	WHERRY_PASS(wh_store_settle(&f->queue->store, &lease, &s, &settled, &err));
	assert_int_equal(settled.n, 1);
}

WHERRY_CASE(a_message_that_dies_replaces_a_dead_one_of_its_id, delayed_fixture *f)
{
	const wherry_poll_options once =
		WHERRY_POLL_OPTIONS(.limit = 1, .lease_us = 5 * SECOND_US,
				    .max_attempts = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	(void)delayed_offer(f, "a consumer", "1", 0);
	leave_dead(f);
	make_all_dead(f, 1, "1");
	is_dead(f, "a consumer", "bad order");
	(void)delayed_offer(f, "its attempts", "2", 0);
	(void)delayed_polls(f, 1, "2");
	leave_dead(f);
	delayed_pass(f, 5);
	WHERRY_PASS(delayed_does.poll(f->queue, &once, delayed_note, &got, NULL, &err));
	assert_string_equal(got.text, "");
	is_dead(f, "its attempts", "its lease expired before it was acknowledged");
	(void)delayed_offer(f, "a relay", "3", 0);
	claim_and_give_up(f);
	is_dead(f, "a relay", "no route");
}

WHERRY_CASE(dead_letters_are_purged_and_nothing_else, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	(void)delayed_offer(f, "a", "1", -3);
	(void)delayed_offer(f, "b", "2", -2);
	(void)delayed_offer(f, "c", "3", -1);
	make_all_dead(f, 2, "1 2");
	WHERRY_PASS(wherry_delayed_purge_dead(f->queue, dead_id(f), &n, &err));
	assert_int_equal(n, 1);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_purge_dead(f->queue, 99999, &n, &err));
	WHERRY_PASS(wherry_delayed_purge_dead(f->queue, 0, &n, &err));
	assert_int_equal(n, 1);
	delayed_counts(f, "1 0 0 0");
}

WHERRY_CASE(a_rolled_back_death_never_was, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)delayed_offer(f, "a", "1", 0);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	make_all_dead(f, 1, "1");
	wherry_db_rollback(f->db);
	delayed_counts(f, "1 0 0 0");
}

const delayed_case delayed_dead_cases[] = {
	DELAYED_CASE(a_message_dies_when_its_attempts_are_used_up),
	DELAYED_CASE(a_message_that_was_given_back_dies_with_its_reason),
	DELAYED_CASE(exhausted_messages_become_dead_as_a_set_and_stop_no_poll),
	DELAYED_CASE(a_dead_letter_is_listed_and_its_key_is_free),
	DELAYED_CASE(a_dead_letter_is_retried_in_its_old_place),
	DELAYED_CASE(a_dead_letter_whose_key_was_offered_again_stays_dead),
	DELAYED_CASE(of_two_dead_letters_of_one_key_one_is_retried),
	DELAYED_CASE(a_dead_row_that_others_wrote_stops_no_other),
	DELAYED_CASE(a_message_that_dies_replaces_a_dead_one_of_its_id),
	DELAYED_CASE(dead_letters_are_purged_and_nothing_else),
	DELAYED_CASE(a_rolled_back_death_never_was),
	{NULL, NULL, false, false},
};
