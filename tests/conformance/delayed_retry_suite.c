/*
 * Retries of transactions, and what errors of the database mean: section H of the checklist of the
 * JVM library.
 */
#include "delayed_suite.h"

#include <wherry/retry.h>

#include "base/env.h"
#include "db/driver.h"

enum { CALLS_MOST = 10 };

/* A transaction that fails as often as it is told. */
typedef struct trial {
	delayed_fixture *f;
	int failures;
	int calls;
	int64_t at_us[CALLS_MOST];
	int32_t left[CALLS_MOST];
	int64_t delays_us[CALLS_MOST];
	int n_asked;
	bool refuses;
	wherry_code code;
} trial;

static wherry_code attempt(void *ctx, wherry_error *err)
{
	trial *t = ctx;
	char text[40], key[20];
	wherry_code code;

	assert_true(t->calls < CALLS_MOST);
	assert_true(wherry_db_in_transaction(t->f->db));
	t->at_us[t->calls++] = wh_monotonic(&wh_env_system);
	(void)snprintf(key, sizeof(key), "call %d", t->calls);
	code = delayed_does.offer(
		t->f->queue,
		&WHERRY_DELAYED_MESSAGE(.key = key, .body = "x", .body_len = 1), NULL,
		err);
	if (code != WHERRY_OK || t->calls > t->failures)
		return code;
	(void)snprintf(text, sizeof(text), "failure %d", t->calls);
	return wherry_error_set(err, t->code, text);
}

static bool note(void *ctx, const wherry_error *err, int32_t left, int64_t delay_us)
{
	trial *t = ctx;

	assert_int_equal(err->code, t->code);
	t->left[t->n_asked] = left;
	t->delays_us[t->n_asked++] = delay_us;
	return !t->refuses;
}

static trial fails(void **state, int failures)
{
	return (trial){.f = *state, .failures = failures, .code = WHERRY_BUSY};
}

static void a_factor_below_1_and_negative_delays_are_rejected(void **state)
{
	const wherry_retry_policy bad[] = {WHERRY_RETRY_POLICY(.factor = 0.9),
					   WHERRY_RETRY_POLICY(.factor = -2),
					   WHERRY_RETRY_POLICY(.initial_us = -1),
					   WHERRY_RETRY_POLICY(.most_us = -1),
					   WHERRY_RETRY_POLICY(.total_us = -1),
					   WHERRY_RETRY_POLICY(.per_try_us = -1),
					   WHERRY_RETRY_POLICY(.retries = -2)};
	wherry_error err = WHERRY_ERROR_INIT;
	trial t = fails(state, 0);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_retry(t.f->db, &bad[i], attempt, &t, NULL, &err));
	assert_int_equal(t.calls, 0);
}

static void delays_grow_by_the_factor_up_to_the_longest(void **state)
{
	trial t = fails(state, 5);
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.initial_us = 10000, .most_us = 100000, .again = note,
				    .again_ctx = &t);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_retry(t.f->db, &policy, attempt, &t, NULL, &err));
	assert_int_equal(t.n_asked, 5);
	for (int i = 0; i < 4; i++)
		assert_int_equal(t.delays_us[i], 10000 << i);
	assert_int_equal(t.delays_us[4], 100000);
}

static void the_delays_are_waited_for(void **state)
{
	trial t = fails(state, 3);
	const wherry_retry_policy policy = WHERRY_RETRY_POLICY(.initial_us = 50000);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_retry(t.f->db, &policy, attempt, &t, NULL, &err));
	for (int i = 0; i < 3; i++)
		assert_true(t.at_us[i + 1] - t.at_us[i] >= 50000 << i);
}

static void the_retries_that_are_left_count_down(void **state)
{
	trial t = fails(state, 9);
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.initial_us = 1, .retries = 3, .again = note,
				    .again_ctx = &t);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_retry(t.f->db, &policy, attempt, &t, NULL, &err));
	assert_int_equal(t.n_asked, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(t.left[i], 3 - i);
}

static void a_call_that_succeeds_is_made_once(void **state)
{
	wherry_retry_report report = WHERRY_RETRY_REPORT();
	wherry_error err = WHERRY_ERROR_INIT;
	trial t = fails(state, 0);

	WHERRY_PASS(wherry_retry(t.f->db, NULL, attempt, &t, &report, &err));
	assert_int_equal(t.calls, 1);
	assert_int_equal(report.retries, 0);
	assert_int_equal(report.n_errors, 0);
	assert_true(delayed_has(t.f, "call 1"));
}

static void a_call_that_fails_twice_is_made_three_times_and_commits_once(void **state)
{
	const wherry_retry_policy policy = WHERRY_RETRY_POLICY(.initial_us = 1);
	wherry_retry_report report = WHERRY_RETRY_REPORT();
	wherry_error err = WHERRY_ERROR_INIT;
	trial t = fails(state, 2);

	WHERRY_PASS(wherry_retry(t.f->db, &policy, attempt, &t, &report, &err));
	assert_int_equal(t.calls, 3);
	assert_int_equal(report.retries, 2);
	assert_false(delayed_has(t.f, "call 1"));
	assert_false(delayed_has(t.f, "call 2"));
	assert_true(delayed_has(t.f, "call 3"));
	assert_false(wherry_db_in_transaction(t.f->db));
}

static void gives_up(trial *t, const wherry_retry_policy *policy, int calls,
		     const char *says)
{
	wherry_retry_report report = WHERRY_RETRY_REPORT();
	wherry_error err = WHERRY_ERROR_INIT;
	char text[40];

	WHERRY_FAILS(t->code, wherry_retry(t->f->db, policy, attempt, t, &report, &err));
	assert_int_equal(t->calls, calls);
	assert_int_equal(report.retries, calls - 1);
	assert_non_null(strstr(err.message, says));
	(void)snprintf(text, sizeof(text), "failure %d", calls);
	assert_non_null(strstr(err.message, text));
	assert_false(delayed_has(t->f, "call 1"));
	assert_false(wherry_db_in_transaction(t->f->db));
}

static void a_call_whose_retry_is_refused_is_made_once(void **state)
{
	trial t = fails(state, 9);
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.again = note, .again_ctx = &t);

	t.refuses = true;
	gives_up(&t, &policy, 1, "giving up after 0 retries");
}

static void after_3_retries_a_call_gives_up(void **state)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.initial_us = 1, .retries = 3);
	trial t = fails(state, 9);

	gives_up(&t, &policy, 4, "giving up after 3 retries");
}

static void without_retries_the_first_failure_is_final(void **state)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.retries = WHERRY_NO_RETRIES);
	trial t = fails(state, 9);

	gives_up(&t, &policy, 1, "giving up after 0 retries");
}

/* The delay before the second retry is 1,000 s. */
static void no_retry_begins_after_the_total_time(void **state)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.initial_us = 1000, .factor = 1e6,
				    .most_us = 3600LL * SECOND_US,
				    .total_us = 600LL * SECOND_US);
	trial t = fails(state, 9);

	gives_up(&t, &policy, 2, "giving up after 1 retry");
}

/* Upstream retries an interrupt, and whatever is not an error of the database. */
static void failures_that_do_not_pass_are_not_tried_again(void **state)
{
	static const wherry_code codes[] = {
		WHERRY_INVALID, WHERRY_NOTFOUND,    WHERRY_DUPLICATE, WHERRY_TOOBIG,
		WHERRY_DENIED,  WHERRY_INTERRUPTED, WHERRY_CLOSED,    WHERRY_INDOUBT};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		trial t = fails(state, 9);

		t.code = codes[i];
		gives_up(&t, NULL, 1, "giving up after 0 retries");
	}
}

static void failures_that_pass_are_tried_again(void **state)
{
	static const wherry_code codes[] = {WHERRY_BUSY, WHERRY_CONFLICT, WHERRY_TIMEOUT,
					    WHERRY_FULL, WHERRY_NOMEM,    WHERRY_STALE};
	const wherry_retry_policy policy = WHERRY_RETRY_POLICY(.initial_us = 1);
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		trial t = fails(state, 1);

		t.code = codes[i];
		WHERRY_PASS(wherry_retry(t.f->db, &policy, attempt, &t, NULL, &err));
		assert_int_equal(t.calls, 2);
	}
}

static void errors_are_reported_newest_first_and_equal_ones_once(void **state)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.initial_us = 1, .retries = 3);
	wherry_retry_report report = WHERRY_RETRY_REPORT();
	wherry_error err = WHERRY_ERROR_INIT;
	trial t = fails(state, 9);

	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_retry(t.f->db, &policy, attempt, &t, &report, &err));
	assert_int_equal(report.n_errors, 4);
	assert_string_equal(report.errors[0].message, "failure 4");
	assert_string_equal(report.errors[3].message, "failure 1");
	t.calls = 0;
	t.code = WHERRY_CONFLICT;
	t.failures = 1;
	WHERRY_PASS(wherry_retry(t.f->db, &policy, attempt, &t, &report, &err));
	assert_int_equal(report.n_errors, 1);
}

static wherry_code offer_k(void *ctx, wherry_error *err)
{
	return delayed_does.offer(
		((trial *)ctx)->f->queue,
		&WHERRY_DELAYED_MESSAGE(.key = "k", .body = "x", .body_len = 1), NULL,
		err);
}

static void a_try_that_takes_too_long_is_ended(void **state)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.initial_us = 1, .retries = 1, .per_try_us = 100000);
	wherry_retry_report report = WHERRY_RETRY_REPORT();
	wherry_error err = WHERRY_ERROR_INIT;
	trial t = fails(state, 0);
	trial theirs = t;
	delayed_fixture f = *t.f; /* of another program */
	wherry_db *other = f.backend->connect(f.place);

	theirs.f = &f;
	WHERRY_PASS(wherry_delayed_open(other, "later", "my-queue", "java.lang.String",
					&f.queue, &err));
	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(offer_k(&theirs, &err)); /* nobody else can offer this key */
	WHERRY_FAILS(WHERRY_TIMEOUT,
		     wherry_retry(t.f->db, &policy, offer_k, &t, &report, &err));
	assert_non_null(strstr(err.message, "giving up after 1 retry"));
	assert_true(report.took_us >= 200000);
	wherry_db_rollback(other);
	wherry_delayed_close(f.queue);
	assert_true(t.f->backend->disconnect(other));
	WHERRY_PASS(wherry_retry(t.f->db, &policy, offer_k, &t, &report, &err));
	assert_true(delayed_has(t.f, "k"));
}

static void a_retry_inside_a_transaction_is_refused(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	trial t = fails(state, 0);

	WHERRY_PASS(wherry_db_begin(t.f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_retry(t.f->db, NULL, attempt, &t, NULL, &err));
	wherry_db_rollback(t.f->db);
	assert_int_equal(t.calls, 0);
}

static wherry_code run_sql(delayed_fixture *f, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wh_db_begin(f->db, &err);

	if (code == WHERRY_OK)
		code = wh_db_script(f->db, sql, &err);
	if (code == WHERRY_OK)
		return wherry_db_commit(f->db, &err);
	assert_int_equal(
		wherry_error_class(f->db->driver->scheme, err.native, err.sqlstate),
		code);
	wherry_db_rollback(f->db);
	return code;
}

WHERRY_CASE(a_duplicate_key_is_one_and_a_broken_check_is_not, delayed_fixture *f)
{
	assert_int_equal(run_sql(f, "CREATE TABLE dup(a integer PRIMARY KEY, b integer "
				    "UNIQUE, c integer CHECK (c > 0))"),
			 WHERRY_OK);
	assert_int_equal(run_sql(f, "INSERT INTO dup VALUES (1, 1, 1)"), WHERRY_OK);
	assert_int_equal(run_sql(f, "INSERT INTO dup VALUES (1, 2, 1)"),
			 WHERRY_DUPLICATE);
	assert_int_equal(run_sql(f, "INSERT INTO dup VALUES (2, 1, 1)"),
			 WHERRY_DUPLICATE);
	assert_int_equal(run_sql(f, "INSERT INTO dup VALUES (2, 2, 0)"), WHERRY_INVALID);
	assert_int_equal(run_sql(f, "DROP TABLE dup"), WHERRY_OK);
}

const delayed_case delayed_retry_cases[] = {
	DELAYED_CASE(a_factor_below_1_and_negative_delays_are_rejected),
	DELAYED_CASE(delays_grow_by_the_factor_up_to_the_longest),
	DELAYED_CASE(the_delays_are_waited_for),
	DELAYED_CASE(the_retries_that_are_left_count_down),
	DELAYED_CASE(a_call_that_succeeds_is_made_once),
	DELAYED_CASE(a_call_that_fails_twice_is_made_three_times_and_commits_once),
	DELAYED_CASE(a_call_whose_retry_is_refused_is_made_once),
	DELAYED_CASE(after_3_retries_a_call_gives_up),
	DELAYED_CASE(without_retries_the_first_failure_is_final),
	DELAYED_CASE(no_retry_begins_after_the_total_time),
	DELAYED_CASE(failures_that_do_not_pass_are_not_tried_again),
	DELAYED_CASE(failures_that_pass_are_tried_again),
	DELAYED_CASE(errors_are_reported_newest_first_and_equal_ones_once),
	DELAYED_CASE_OF_SEVERAL(a_try_that_takes_too_long_is_ended),
	DELAYED_CASE(a_retry_inside_a_transaction_is_refused),
	DELAYED_OWNER_CASE(a_duplicate_key_is_one_and_a_broken_check_is_not),
	{0},
};
