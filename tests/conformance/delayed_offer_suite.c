/*
 * Offering: groups A and D of the portable checklist, and what is refused.
 */
#include "delayed_suite.h"

#include "base/env.h"

static void an_offer_if_absent_creates_a_message(void **state)
{
	assert_int_equal(delayed_offer_absent(*state, "k", "a", 10), WHERRY_CREATED);
	assert_true(delayed_has(*state, "k"));
}

static void an_offer_if_absent_leaves_a_message_alone(void **state)
{
	(void)delayed_offer_absent(*state, "k", "a", 10);
	assert_int_equal(delayed_offer_absent(*state, "k", "b", 20), WHERRY_IGNORED);
	assert_string_equal(delayed_body(*state, "k"), "a");
}

static void an_offer_creates_a_message(void **state)
{
	assert_int_equal(delayed_offer(*state, "k", "a", 10), WHERRY_CREATED);
	assert_true(delayed_has(*state, "k"));
}

static void an_offer_replaces_a_message(void **state)
{
	(void)delayed_offer(*state, "k", "a", 10);
	assert_int_equal(delayed_offer(*state, "k", "b", 20), WHERRY_UPDATED);
	assert_int_equal(delayed_offer(*state, "k", "b", 30), WHERRY_UPDATED);
	assert_int_equal(delayed_offer(*state, "k", "c", 30), WHERRY_UPDATED);
	assert_string_equal(delayed_body(*state, "k"), "c");
}

static void an_offer_of_the_same_message_is_ignored(void **state)
{
	(void)delayed_offer(*state, "k", "a", 10);
	assert_int_equal(delayed_offer(*state, "k", "a", 10), WHERRY_IGNORED);
}

/* Defect 13 of the reference: it compared times that were not cut with the stored ones. */
static void the_same_time_below_a_millisecond_is_ignored_and_a_lease_survives(
	void **state)
{
	delayed_fixture *f = *state;
	char token[80];

	delayed_pass(f, 0.000123);
	assert_int_equal(delayed_offer(f, "k", "a", 0), WHERRY_CREATED);
	(void)snprintf(token, sizeof(token), "%s", delayed_polls(f, 1, "a")->tokens[0]);
	assert_int_equal(delayed_offer(f, "k", "a", 0), WHERRY_IGNORED);
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
	assert_false(delayed_has(f, "k"));
}

/* A batch of keys with their number as text; if_absent for all. */
static void offer_many(delayed_fixture *f, const char *const *keys, size_t n,
		       bool if_absent, wherry_offer_outcome *out)
{
	wherry_delayed_message msgs[8] = {{.size = 0}};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < n; i++)
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = &"01234567"[i],
						 .body_len = 1, .at_us = f->now_us,
						 .if_absent = if_absent);
	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs, n, out, &err));
}

WHERRY_CASE(a_batch_creates_messages, delayed_fixture *f)
{
	static const char *const keys[] = {"k2", "k1"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_offer_outcome out[2] = {WHERRY_IGNORED, WHERRY_IGNORED};

	offer_many(f, keys, 2, false, out);
	assert_int_equal(out[0], WHERRY_CREATED);
	assert_int_equal(out[1], WHERRY_CREATED);
	assert_true(delayed_has(f, "k1") && delayed_has(f, "k2"));
	WHERRY_PASS(delayed_does.offer_many(f->queue, NULL, 0, NULL, &err));
}

WHERRY_CASE(a_batch_replaces_what_is_there, delayed_fixture *f)
{
	static const char *const keys[] = {"k2", "k1", "k3"};
	wherry_offer_outcome out[3];

	(void)delayed_offer(f, "k1", "old", 10);
	(void)delayed_offer(f, "k2", "old", 10);
	offer_many(f, keys, 3, false, out);
	assert_int_equal(out[0], WHERRY_UPDATED);
	assert_int_equal(out[1], WHERRY_UPDATED);
	assert_int_equal(out[2], WHERRY_CREATED);
	assert_string_equal(delayed_body(f, "k1"), "1");
}

WHERRY_CASE(a_batch_if_absent_leaves_what_is_there, delayed_fixture *f)
{
	static const char *const keys[] = {"k1", "k2", "k3", "k4"};
	wherry_offer_outcome out[4];

	(void)delayed_offer(f, "k1", "old", -10);
	(void)delayed_offer(f, "k3", "old", -10);
	offer_many(f, keys, 4, true, out);
	assert_int_equal(out[0], WHERRY_IGNORED);
	assert_int_equal(out[1], WHERRY_CREATED);
	assert_int_equal(out[2], WHERRY_IGNORED);
	assert_int_equal(out[3], WHERRY_CREATED);
	(void)delayed_polls(f, 9, "old old 1 3");
}

/* Defect 7 of the reference: the same key twice in a batch failed it. */
WHERRY_CASE(the_same_key_twice_in_a_batch_is_as_two_offers, delayed_fixture *f)
{
	static const char *const keys[] = {"b", "a", "b", "c", "b"};
	wherry_offer_outcome out[5];

	(void)delayed_offer(f, "a", "old", 10);
	offer_many(f, keys, 5, false, out);
	assert_int_equal(out[0], WHERRY_CREATED);
	assert_int_equal(out[1], WHERRY_UPDATED);
	assert_int_equal(out[2], WHERRY_UPDATED);
	assert_int_equal(out[3], WHERRY_CREATED);
	assert_int_equal(out[4], WHERRY_UPDATED);
	assert_string_equal(delayed_body(f, "b"), "4");
}

WHERRY_CASE(a_batch_mixes_offers_of_both_kinds, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_message msgs[] = {
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = "1", .body_len = 1),
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = "2", .body_len = 1,
				       .if_absent = true),
		WHERRY_DELAYED_MESSAGE(.key = "j", .body = "3", .body_len = 1,
				       .if_absent = true),
		WHERRY_DELAYED_MESSAGE(.key = "j", .body = "4", .body_len = 1),
	};
	wherry_offer_outcome out[4];

	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs, 4, out, &err));
	assert_int_equal(out[0], WHERRY_CREATED);
	assert_int_equal(out[1], WHERRY_IGNORED);
	assert_int_equal(out[2], WHERRY_CREATED);
	assert_int_equal(out[3], WHERRY_UPDATED);
	assert_string_equal(delayed_body(f, "k"), "1");
	assert_string_equal(delayed_body(f, "j"), "4");
}

/* Defect 8 of the reference: a list of keys in a statement had a limit. */
WHERRY_CASE(a_batch_may_have_five_thousand_keys, delayed_fixture *f)
{
	enum { MANY = 5000 };
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_message *msgs = calloc(MANY, sizeof(*msgs));
	wherry_offer_outcome *out = calloc(MANY, sizeof(*out));
	char(*keys)[16] = calloc(MANY, sizeof(*keys));
	int n_created = 0, n_ignored = 0;

	for (int i = 0; i < MANY; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "key-%d", i);
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = "new",
						 .body_len = 3, .at_us = f->now_us,
						 .if_absent = true);
	}
	for (int i = 0; i < 10; i++)
		(void)delayed_offer(f, keys[i], "old", 0);
	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs, MANY, out, &err));
	for (int i = 0; i < MANY; i++) {
		n_created += out[i] == WHERRY_CREATED;
		n_ignored += out[i] == WHERRY_IGNORED;
	}
	assert_int_equal(n_ignored, 10);
	assert_int_equal(n_created, MANY - 10);
	assert_string_equal(delayed_body(f, "key-0"), "old");
	free(keys);
	free(out);
	free(msgs);
}

WHERRY_CASE(a_failed_batch_offers_nothing, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_message msgs[] = {
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = "1", .body_len = 1),
		WHERRY_DELAYED_MESSAGE(.key = "", .body = "2", .body_len = 1),
	};
	wherry_offer_outcome out[2] = {WHERRY_UPDATED, WHERRY_UPDATED};

	WHERRY_FAILS(WHERRY_INVALID,
		     delayed_does.offer_many(f->queue, msgs, 2, out, &err));
	assert_non_null(strstr(err.message, "message 1"));
	assert_int_equal(out[0], WHERRY_UPDATED);
	assert_false(delayed_has(f, "k"));
}

static void refused(delayed_fixture *f, wherry_code code, wherry_delayed_message msg,
		    const char *why)
{
	wherry_offer_outcome out = WHERRY_UPDATED;
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(code, delayed_does.offer(f->queue, &msg, &out, &err));
	if (!strstr(err.message, why)) {
		print_error("%s\n", err.message);
		fail();
	}
	assert_int_equal(out, WHERRY_UPDATED);
}

WHERRY_CASE(what_is_out_of_range_is_refused_by_name, delayed_fixture *f)
{
	char key[900] = "";
	wherry_delayed_message sizeless = {.key = "k"};

	for (int i = 0; i < 200; i++)
		(void)strcat(key, "\xc3\xa9");
	assert_int_equal(delayed_offer(f, key, "a", 0), WHERRY_CREATED);
	assert_string_equal(delayed_body(f, key), "a");
	(void)strcat(key, "x");
	refused(f, WHERRY_TOOBIG, WHERRY_DELAYED_MESSAGE(.key = key), "201 characters");
	refused(f, WHERRY_INVALID, WHERRY_DELAYED_MESSAGE(.key = NULL), "key");
	refused(f, WHERRY_INVALID, WHERRY_DELAYED_MESSAGE(.key = "\xff"), "UTF-8");
	refused(f, WHERRY_INVALID, WHERRY_DELAYED_MESSAGE(.key = "k", .at_us = -1),
		"at_us");
	refused(f, WHERRY_INVALID, WHERRY_DELAYED_MESSAGE(.key = "k", .at_us = INT64_MAX),
		"at_us");
	refused(f, WHERRY_INVALID, WHERRY_DELAYED_MESSAGE(.key = "k", .delay_us = -1),
		"delay_us");
	refused(f, WHERRY_INVALID,
		WHERRY_DELAYED_MESSAGE(.key = "k", .delay_us = 1, .at_us = 1),
		"delay_us");
	refused(f, WHERRY_TOOBIG,
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = key,
				       .body_len = 16 * 1024 * 1024 + 1),
		"16777216");
	refused(f, WHERRY_INVALID, sizeless, "WHERRY_DELAYED_MESSAGE");
}

/* A delay or a lease is kept, or refused; it is not cut. */
WHERRY_CASE(no_span_over_36500_days_is_cut, delayed_fixture *f)
{
	static const char token[] = "1.1.00000000-0000-4000-8000-000000000000";
	const int64_t most = INT64_C(36500) * 86400 * SECOND_US;
	const int64_t spans[] = {most + 1, INT64_MAX};
	const char *const tokens[] = {token};
	delayed_got got = {.n = 0};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome out;

	for (size_t i = 0; i < 2; i++) {
		const wherry_delayed_message two[] = {
			WHERRY_DELAYED_MESSAGE(.key = "j"),
			WHERRY_DELAYED_MESSAGE(.key = "k", .delay_us = spans[i]),
		};

		refused(f, WHERRY_INVALID, two[1], "the limit is 36500 days");
		WHERRY_FAILS(WHERRY_INVALID,
			     delayed_does.offer_many(f->queue, two, 2, NULL, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		WHERRY_FAILS(WHERRY_INVALID,
			     delayed_does.poll(f->queue,
					       &WHERRY_POLL_OPTIONS(.lease_us = spans[i]),
					       delayed_note, &got, NULL, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		WHERRY_FAILS(WHERRY_INVALID,
			     delayed_does.nack(f->queue, tokens, 1, spans[i], NULL, &out,
					       &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		WHERRY_FAILS(WHERRY_INVALID, delayed_does.extend(f->queue, tokens, 1,
								 spans[i], &out, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
	}
	delayed_counts(f, "0 0 0 0");
	WHERRY_PASS(delayed_does.offer(
		f->queue, &WHERRY_DELAYED_MESSAGE(.key = "k", .delay_us = most), NULL,
		&err));
	delayed_counts(f, "0 0 1 0");
}

WHERRY_CASE(a_rolled_back_offer_never_was, delayed_fixture *f)
{
	static const char *const keys[] = {"a", "b"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_offer_outcome out[2];

	(void)delayed_offer(f, "old", "1", 0);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(delayed_offer(f, "k", "1", 0), WHERRY_CREATED);
	assert_int_equal(delayed_offer(f, "old", "2", 0), WHERRY_UPDATED);
	offer_many(f, keys, 2, false, out);
	wherry_db_rollback(f->db);
	(void)delayed_polls(f, 9, "1");
}

WHERRY_CASE(bodies_are_bytes, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_message msgs[] = {
		WHERRY_DELAYED_MESSAGE(.key = "a", .body = "\0\xff\\x", .body_len = 4),
		WHERRY_DELAYED_MESSAGE(.key = "b", .body = "\"\\\0", .body_len = 3),
		WHERRY_DELAYED_MESSAGE(.key = "c"),
	};

	WHERRY_PASS(delayed_does.offer(f->queue, &msgs[0], NULL, &err));
	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs + 1, 2, NULL, &err));
	assert_int_equal(delayed_int(f, "SELECT sum(length(payload)) FROM later"), 7);
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later WHERE \"pKey\" = 'a' "
					"AND length(payload) = 4"),
			 1);
	assert_memory_equal(delayed_body(f, "b"), "\"\\", 3);
}

static wherry_code is_not_early(void *ctx, const wherry_delayed_message *msg)
{
	const int64_t *least_us = ctx;

	assert_true(msg->available_at_us >= *least_us);
	return WHERRY_OK;
}

/* By the clock of the database.  A delay of 7 ms was over after 6.1. */
WHERRY_CASE(no_delay_is_over_early, delayed_fixture *f)
{
	enum { TRIES = 50, DELAY_US = 7000 };
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_filter all = WHERRY_DELAYED_FILTER(.limit = 2);

	wherry_delayed_set_clock(f->queue, NULL, NULL);
	for (int i = 0; i < TRIES; i++) {
		const char body = (char)('a' + i % 2);
		const wherry_delayed_message msgs[] = {
			WHERRY_DELAYED_MESSAGE(.key = "one", .body = &body, .body_len = 1,
					       .delay_us = DELAY_US),
			WHERRY_DELAYED_MESSAGE(.key = "many", .body = &body,
					       .body_len = 1, .delay_us = DELAY_US),
		};
		int64_t least_us = wh_now(&wh_env_system) + DELAY_US;

		WHERRY_PASS(delayed_does.offer(f->queue, &msgs[0], NULL, &err));
		WHERRY_PASS(delayed_does.offer_many(f->queue, &msgs[1], 1, NULL, &err));
		WHERRY_PASS(wherry_delayed_list(f->queue, &all, is_not_early, &least_us,
						&err));
	}
}

const delayed_case delayed_offer_cases[] = {
	DELAYED_CASE(an_offer_if_absent_creates_a_message),
	DELAYED_CASE(an_offer_if_absent_leaves_a_message_alone),
	DELAYED_CASE(an_offer_creates_a_message),
	DELAYED_CASE(an_offer_replaces_a_message),
	DELAYED_CASE(an_offer_of_the_same_message_is_ignored),
	DELAYED_CASE(the_same_time_below_a_millisecond_is_ignored_and_a_lease_survives),
	DELAYED_CASE(a_batch_creates_messages),
	DELAYED_CASE(a_batch_replaces_what_is_there),
	DELAYED_CASE(a_batch_if_absent_leaves_what_is_there),
	DELAYED_CASE(the_same_key_twice_in_a_batch_is_as_two_offers),
	DELAYED_CASE(a_batch_mixes_offers_of_both_kinds),
	DELAYED_CASE(a_batch_may_have_five_thousand_keys),
	DELAYED_CASE(a_failed_batch_offers_nothing),
	DELAYED_CASE(what_is_out_of_range_is_refused_by_name),
	DELAYED_CASE(no_span_over_36500_days_is_cut),
	DELAYED_CASE(a_rolled_back_offer_never_was),
	DELAYED_CASE(bodies_are_bytes),
	DELAYED_CASE(no_delay_is_over_early),
	{NULL, NULL, false, false},
};
