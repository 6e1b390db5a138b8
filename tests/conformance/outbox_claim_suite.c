/*
 * Claims: several work on one outbox at once, and none on another's messages or keys.
 */
#include "outbox_claims.h"

#include "outbox/outbox.h"

/* ---- what a claim takes ---- */

static void a_claim_is_in_id_order(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options three =
		WHERRY_CLAIM_OPTIONS(.limit = 3, .lasts_us = MINUTE_US);

	claim_send(f, "a-bca-");
	claim_takes(f, &a, &three, "1 2 3");
	claim_takes(f, &b, &three, "4 6");
	claim_takes(f, &a, &three, "");
}

static void a_key_is_claimed_as_a_run(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");

	claim_send(f, "kxkkyk");
	claim_takes(f, &a, &claim_ten, "1 2 3 4 5 6");
}

static void two_claims_never_hold_messages_of_one_key(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options two =
		WHERRY_CLAIM_OPTIONS(.limit = 2, .lasts_us = MINUTE_US);

	claim_send(f, "kkkk");
	claim_takes(f, &a, &two, "1 2");
	claim_takes(f, &b, &two, "");
	claim_takes(f, &a, &two, ""); /* its holder neither */
	claim_done(f, &a, 1);
	claim_takes(f, &b, &two, "");
	claim_done(f, &a, 2);
	claim_takes(f, &b, &two, "3 4");
}

static void a_settled_key_is_free_for_others(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	for (int i = 0; i < 2; i++) {
		int64_t id = fixture_send(f, "t", "k"), n = 0;
		wherry_error err = WHERRY_ERROR_INIT;
		char ids[24];

		(void)snprintf(ids, sizeof(ids), "%lld", (long long)id);
		claim_takes(f, &a, &claim_ten, ids);
		(void)snprintf(ids, sizeof(ids), "%lld",
			       (long long)fixture_send(f, "t", "k"));
		claim_takes(f, &b, &claim_ten, "");
		WHERRY_PASS(wherry_outbox_done(f->outbox, &a, &id, 1, &n, &err));
		assert_int_equal(n, 1);
		claim_takes(f, &b, &claim_ten, ids);
		claim_done(f, &b, id + 1);
	}
}

typedef struct expectation {
	int64_t id;
	int n;
} expectation;

static wherry_code check_message(void *ctx, const wherry_message *msg)
{
	expectation *e = ctx;

	assert_int_equal(msg->id, e->id);
	assert_int_equal(msg->size, sizeof(*msg));
	assert_string_equal(msg->message_id, "m");
	assert_string_equal(msg->topic, "t");
	assert_string_equal(msg->key, "k");
	assert_string_equal(msg->aggregate_type, "order");
	assert_string_equal(msg->aggregate_id, "42");
	assert_string_equal(msg->headers, "{\"a\":\"b\"}");
	assert_string_equal(msg->trace_id, "x");
	assert_int_equal(msg->body_len, 4);
	assert_memory_equal(msg->body, "body", 4);
	assert_int_equal(msg->attempts, 1);
	assert_int_equal(msg->generation, 0);
	assert_true(msg->created_at_us > 0);
	e->n++;
	return WHERRY_OK;
}

static void a_claimed_message_is_marked_and_has_all_its_fields(void **state)
{
	outbox_fixture *f = *state;
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .message_id = "m", .aggregate_type = "order",
			       .aggregate_id = "42", .key = "k",
			       .headers = "{\"a\":\"b\"}", .trace_id = "x",
			       .body = "body", .body_len = 4);
	wherry_error err = WHERRY_ERROR_INIT;
	expectation e = {0};
	wherry_lease a;

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &e.id,
					  &err));
	fixture_fail(f, e.id, 0);
	a = claim_join(f, "a");
	WHERRY_PASS(wherry_outbox_claim(f->outbox, &a, &claim_ten, check_message, &e,
					NULL, &err));
	assert_int_equal(e.n, 1);
	assert_int_equal(fixture_state(f, e.id), WHERRY_PROCESSING);
	assert_string_equal(fixture_text(f, "SELECT claim_token FROM outbox"), a.token);
	assert_in_range(
		(uint64_t)fixture_int(f, "SELECT next_retry_at - claimed_at FROM outbox"),
		60000, 60000);
}

static void keys_that_differ_only_in_where_type_ends_are_two(void **state)
{
	static const char *const parts[][2] = {
		{"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", ""}};
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options one =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US);

	for (size_t i = 0; i < 8; i++)
		fixture_raw(f,
			    "INSERT INTO outbox(topic, aggregate_type, aggregate_id, "
			    "payload) VALUES ('t', '%s', '%s', '')",
			    parts[i % 4][0], parts[i % 4][1]);
	fixture_send(f, "t", "abc"); /* nor is an explicit key one of them */
	claim_takes(f, &a, &one, "1");
	claim_takes(f, &b, &claim_ten, "2 3 4 6 7 8 9");
}

static wherry_code ignore(void *ctx, const wherry_message *msg)
{
	(void)ctx;
	(void)msg;
	return WHERRY_OK;
}

static void a_claim_needs_a_lease_a_limit_and_a_time(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), none = {.epoch = a.epoch};
	wherry_claim_options no_limit = WHERRY_CLAIM_OPTIONS(.lasts_us = MINUTE_US),
			     no_time = WHERRY_CLAIM_OPTIONS(.limit = 1);
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_send(f, "t", "a");
#define REFUSED(lease, options)                                                          \
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_claim(f->outbox, lease, options,      \
							 ignore, NULL, NULL, &err))
	REFUSED(&a, &no_limit);
	REFUSED(&a, &no_time);
	REFUSED(&none, &claim_ten);
	REFUSED(NULL, &claim_ten);
	REFUSED(&a, NULL);
#undef REFUSED
	assert_int_equal(fixture_state(f, 1), WHERRY_PENDING);
}

/* A claim is kept as long as it was asked for, or refused; it is not cut. */
static void no_claim_over_36500_days_is_cut(void **state)
{
	const int64_t most = INT64_C(36500) * 86400 * 1000000, ids[] = {1};
	const int64_t spans[] = {most + 1, INT64_MAX};
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_send(f, "t", "a");
#define REFUSED(call)                                                                    \
	do {                                                                             \
		WHERRY_FAILS(WHERRY_INVALID, call);                                      \
		assert_non_null(strstr(err.message, "the limit is 36500 days"));         \
	} while (0)
	for (size_t i = 0; i < 2; i++) {
		wherry_claim_options long_one =
			WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = spans[i]);
		wherry_lease b = {0};

		REFUSED(wherry_outbox_join(f->outbox, "b", spans[i], &b, &err));
		REFUSED(wherry_outbox_claim(f->outbox, &a, &long_one, ignore, NULL, NULL,
					    &err));
		REFUSED(wherry_outbox_claim_expired(f->outbox, &a, &long_one, ignore,
						    NULL, NULL, &err));
	}
	assert_int_equal(fixture_state(f, 1), WHERRY_PENDING);
	claim_takes(f, &a, &claim_ten, "1");
	for (size_t i = 0; i < 2; i++)
		REFUSED(wherry_outbox_extend(f->outbox, &a, ids, 1, spans[i], NULL,
					     &err));
	for (size_t i = 0; i < 2; i++)
		REFUSED(wherry_outbox_fail(f->outbox, &a,
					   &WHERRY_FAILURE(.id = 1, .delay_us = spans[i]),
					   1, &err));
#undef REFUSED
	claim_is_of(f, &a, 1);
}

static void an_explicit_key_is_the_key_whatever_the_aggregate(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options one =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US);

	fixture_raw(f, "INSERT INTO outbox(topic, aggregate_type, aggregate_id, "
		       "partition_key, payload) VALUES ('t', 'o', '1', 'k', ''), "
		       "('t', 'p', '2', 'k', ''), ('t', 'o', '1', '', ''), "
		       "('t', 'o', '1', NULL, '')");
	claim_takes(f, &a, &one, "1");
	claim_takes(f, &b, &one, "3");
	claim_takes(f, &a, &claim_ten, "");
}

static void messages_without_a_key_hold_nothing_back(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options one =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US);

	claim_send(f, "---");
	claim_takes(f, &a, &one, "1");
	claim_fail(f, &a, 1, MINUTE_US, false);
	claim_takes(f, &b, &one, "2");
	claim_takes(f, &a, &one, "3");
}

static void unordered_claims_ignore_keys(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options one = WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US,
							.unordered = true, .park = true);

	claim_send(f, "kkkk");
	claim_takes(f, &a, &one, "1");
	claim_takes(f, &b, &one, "2");
	claim_fail(f, &a, 1, MINUTE_US, false);
	claim_fail(f, &b, 2, 0, true);
	claim_takes(f, &a, &one, "3");
	claim_expiry(f);
	claim_takes(f, &b, &one, "1");
	claim_takes(f, &b, &one, "4");
}

/* ---- failures ---- */

static void a_failed_message_holds_its_key_until_it_is_due(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "kkx");
	claim_takes(f, &a, &claim_ten, "1 2 3");
	claim_fail(f, &a, 1, MINUTE_US, false);
	claim_requeue(f, &a, 2);
	claim_takes(f, &b, &claim_ten, "");
	claim_expiry(f); /* 3 expires as well: it is another matter */
	claim_takes(f, &b, &claim_ten, "1");
	claim_takes(f, &a, &claim_ten, "");
	claim_done(f, &b, 1);
	claim_takes(f, &a, &claim_ten, "2");
}

static void a_due_message_is_claimed_before_pending_ones(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_claim_options two =
		WHERRY_CLAIM_OPTIONS(.limit = 2, .lasts_us = MINUTE_US);

	claim_send(f, "abcdef");
	fixture_raw(f, "UPDATE outbox SET status = 3, attempts = 1, next_retry_at = 1 "
		       "WHERE id IN (4, 6)");
	claim_takes(f, &a, &two, "4 6");
	claim_takes(f, &a, &two, "1 2");
	claim_takes(f, &a, &claim_ten, "3 5");
}

static void of_two_that_failed_in_one_key_the_first_is_claimed(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	claim_send(f, "kkk");
	fixture_raw(f, "UPDATE outbox SET status = 3, attempts = 1, next_retry_at = "
		       "10 - id WHERE id < 3");
	claim_takes(f, &a, &claim_ten, "1");
	claim_takes(f, &b, &claim_ten, "");
	claim_done(f, &a, 1);
	claim_takes(f, &b, &claim_ten, "2");
	claim_done(f, &b, 2);
	claim_takes(f, &b, &claim_ten, "3");
}

static void a_dead_message_parks_its_key_only_where_asked(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options park = claim_ten;

	park.park = true;
	claim_send(f, "akkb");
	claim_takes(f, &a, &claim_ten, "1 2 3 4");
	claim_fail(f, &a, 2, 0, true);
	claim_requeue(f, &a, 3);
	claim_takes(f, &b, &park, "");
	claim_send(f, "kc");
	claim_takes(f, &b, &park, "6");
	claim_takes(f, &b, &claim_ten, "3 5");
}

static void parked_failed_messages_wait_as_well(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_claim_options park = claim_ten;

	park.park = true;
	claim_send(f, "kkj");
	fixture_raw(f, "UPDATE outbox SET status = 4 WHERE id = 1");
	fixture_raw(f, "UPDATE outbox SET status = 3, next_retry_at = 1 WHERE id > 1");
	claim_takes(f, &a, &park, "3");
	claim_takes(f, &a, &claim_ten, "2");
}

/* ---- rows that come back ---- */

static void a_requeued_message_comes_before_later_ones_of_its_key(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	wherry_claim_options one =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US);

	claim_send(f, "kkk");
	claim_takes(f, &a, &claim_ten, "1 2 3");
	claim_done(f, &a, 1);
	claim_requeue(f, &a, 2);
	claim_takes(f, &b, &one, ""); /* 3 is still a's */
	claim_requeue(f, &a, 3);
	claim_takes(f, &b, &one, "2");
	claim_takes(f, &a, &claim_ten, "");
	claim_done(f, &b, 2);
	claim_takes(f, &a, &claim_ten, "3");
	assert_int_equal(fixture_int(f, "SELECT sum(attempts) FROM outbox"), 0);
}

/* A failed one behind it, which is due, waits for it too. */
static void a_retry_by_handn_message_comes_before_later_ones_of_its_key(void **state)
{
	outbox_fixture *f = *state;
	wherry_lease a = claim_join(f, "a");
	wherry_claim_options one =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	claim_send(f, "kkk");
	claim_takes(f, &a, &claim_ten, "1 2 3");
	claim_fail(f, &a, 1, 0, true);
	claim_fail(f, &a, 2, 0, false);
	claim_requeue(f, &a, 3);
	WHERRY_PASS(wherry_outbox_retry(f->outbox, &WHERRY_FILTER(), &n, &err));
	assert_int_equal(n, 1);
	for (int id = 1; id <= 3; id++) {
		char ids[24];

		(void)snprintf(ids, sizeof(ids), "%d", id);
		claim_takes(f, &a, &one, ids);
		claim_takes(f, &a, &one, "");
		claim_done(f, &a, id);
	}
}

/* ---- several ---- */

static wherry_code keep_id(void *ctx, const wherry_message *msg)
{
	int64_t *ids = ctx;

	ids[++ids[0]] = msg->id;
	return WHERRY_OK;
}

/* Claims until nothing is open, writing each message down before it is done.  Claims take turns: one that waits
 * too long for its turn, as where each new session parses a claim for seconds, is tried again. */
static int claim_all(wherry_db *db, int which)
{
	wherry_claim_options seven =
		WHERRY_CLAIM_OPTIONS(.limit = 7, .lasts_us = MINUTE_US);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_lease lease = {0};
	int64_t count[WHERRY_STATE_COUNT] = {1};
	wherry_code code = wherry_outbox_open(db, "outbox", &outbox, &err);
	int waits = 0;

	if (code == WHERRY_OK)
		code = wherry_outbox_join(outbox, "w", MINUTE_US, &lease, &err);
	while (code == WHERRY_OK && count[WHERRY_PENDING] + count[WHERRY_PROCESSING]) {
		int64_t ids[8] = {0};
		char sql[80];

		code = wherry_outbox_claim(outbox, &lease, &seven, keep_id, ids, NULL,
					   &err);
		if (code == WHERRY_BUSY && ++waits < 20) {
			code = WHERRY_OK;
			continue;
		}
		for (int64_t i = 1; code == WHERRY_OK && i <= ids[0]; i++) {
			(void)snprintf(sql, sizeof(sql),
				       "INSERT INTO got(id) VALUES (%lld)",
				       (long long)ids[i]);
			code = wh_db_script(db, sql, &err);
		}
		if (code == WHERRY_OK && ids[0])
			code = wherry_outbox_done(outbox, &lease, ids + 1, (size_t)ids[0],
						  NULL, &err);
		if (code == WHERRY_OK)
			code = wherry_outbox_count(outbox, count, &err);
	}
	if (code != WHERRY_OK)
		print_error("claimer %d: %s\n", which, err.message);
	wherry_outbox_close(outbox);
	return code == WHERRY_OK ? 0 : 1;
}

static void of_many_that_claim_at_once_each_message_has_one_and_keys_their_order(
	void **state)
{
	outbox_fixture *f = *state;

	fixture_raw(f, "CREATE TABLE got(n INTEGER PRIMARY KEY AUTOINCREMENT, id)");
	fixture_raw(f, "INSERT INTO outbox(topic, partition_key, payload) WITH RECURSIVE "
		       "c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300) "
		       "SELECT 't', CASE WHEN i %% 12 <> 0 THEN i %% 12 END, '' FROM c");
	fixture_threads(f, 5, claim_all);
	fixture_reopen(f);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM outbox WHERE status = 2"),
			 300);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM got"), 300);
	assert_int_equal(fixture_int(f, "SELECT count(DISTINCT id) FROM got"), 300);
	assert_int_equal(
		fixture_int(f, "SELECT count(*) FROM got a JOIN got b ON a.n < b.n AND "
			       "a.id > b.id JOIN outbox x ON x.id = a.id JOIN outbox y "
			       "ON y.id = b.id WHERE x.partition_key = y.partition_key"),
		0);
}

const outbox_case outbox_claim_cases[] = {
	CASE_THAT_NEEDS(a_claim_is_in_id_order, NEEDS_KEYS),
	CASE_THAT_NEEDS(a_key_is_claimed_as_a_run, NEEDS_KEYS),
	CASE_THAT_NEEDS(two_claims_never_hold_messages_of_one_key, NEEDS_KEYS),
	CASE_THAT_NEEDS(a_settled_key_is_free_for_others, NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(a_claimed_message_is_marked_and_has_all_its_fields,
			NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(keys_that_differ_only_in_where_type_ends_are_two,
			NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(an_explicit_key_is_the_key_whatever_the_aggregate,
			NEEDS_KEYS | NEEDS_NATIVE),
	CASE(a_claim_needs_a_lease_a_limit_and_a_time),
	CASE(no_claim_over_36500_days_is_cut),
	CASE(messages_without_a_key_hold_nothing_back),
	CASE(unordered_claims_ignore_keys),
	CASE_THAT_NEEDS(a_failed_message_holds_its_key_until_it_is_due, NEEDS_KEYS),
	CASE(a_due_message_is_claimed_before_pending_ones),
	CASE_THAT_NEEDS(of_two_that_failed_in_one_key_the_first_is_claimed, NEEDS_KEYS),
	CASE_THAT_NEEDS(a_dead_message_parks_its_key_only_where_asked,
			NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(parked_failed_messages_wait_as_well, NEEDS_KEYS | NEEDS_NATIVE),
	CASE_THAT_NEEDS(a_requeued_message_comes_before_later_ones_of_its_key,
			NEEDS_KEYS),
	CASE_THAT_NEEDS(a_retry_by_handn_message_comes_before_later_ones_of_its_key,
			NEEDS_KEYS),
	CASE_THAT_NEEDS(
		of_many_that_claim_at_once_each_message_has_one_and_keys_their_order,
		NEEDS_SEVERAL | NEEDS_KEYS),
	{NULL, NULL, 0},
};
