/*
 * What a relay writes: all of it fenced by its lease.
 */
#include "outbox_suite.h"

#include "outbox/outbox.h"

/* A row by its id, with its texts copied. */
typedef struct seen_row {
	wherry_row row;
	char last_error[600];
} seen_row;

static wherry_code take_row(void *ctx, const wherry_row *row)
{
	static wherry_message message; /* until the next row is shown */
	seen_row *out = ctx;

	out->row = *row;
	message = *row->message;
	out->row.message = &message;
	(void)snprintf(out->last_error, sizeof(out->last_error), "%s",
		       row->last_error ? row->last_error : "(none)");
	return WHERRY_OK;
}

static seen_row look(outbox_fixture *f, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen_row out = {0};
	char ident[24];

	(void)snprintf(ident, sizeof(ident), "%lld", (long long)id);
	WHERRY_PASS(wherry_outbox_show(f->outbox, ident, take_row, &out, &err));
	return out;
}

/* A time in a row is now, but for what the clocks' units differ. */
static void is_now(int64_t time_us, int64_t plus_us)
{
	int64_t now = wh_now(&wh_env_system) + plus_us;

	assert_in_range((uint64_t)time_us, (uint64_t)(now - 20000000),
			(uint64_t)(now + 2000));
}

/* ---- done ---- */

static void done_marks_a_message(void **state)
{
	outbox_fixture *f = *state;
	int64_t id = fixture_send_many(f, 3), n = 0;
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	seen_row row;

	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, &id, 1, &n, &err));
	assert_int_equal(n, 1);
	row = look(f, id);
	assert_int_equal(row.row.state, WHERRY_DONE);
	assert_int_equal(row.row.message->attempts, 0);
	assert_int_equal(fixture_state(f, id + 1), WHERRY_PENDING);
	assert_int_equal(fixture_count(f), 3);
}

WHERRY_CASE(more_ids_than_a_statement_takes_change_nothing, outbox_fixture *f)
{
	enum { MANY = 300000 };
	int64_t id = fixture_send(f, "t", NULL), n = -7;
	int64_t *ids = calloc(MANY, sizeof(*ids));
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(ids);
	ids[0] = id;
	for (int i = 1; i < MANY; i++)
		ids[i] = INT64_MAX - i;
	WHERRY_FAILS(WHERRY_TOOBIG,
		     wherry_outbox_done(f->outbox, &lease, ids, MANY, &n, &err));
	assert_int_equal(n, -7);
	assert_int_equal(fixture_state(f, id), WHERRY_PENDING);
	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, ids, 2, &n, &err));
	assert_int_equal(n, 1);
	free(ids);
}

/* Ids that follow one another are settled by another statement. */
WHERRY_CASE(ids_in_any_order_and_with_gaps_are_done_alike, outbox_fixture *f)
{
	static const struct {
		int64_t ids[4];
		size_t n;
		const char *left;
	} table[] = {
		{{2, 3, 4}, 3, "1 5 6 7 8 9 10 11 12"},
		{{7, 6}, 2, "1 5 8 9 10 11 12"},
		{{8, 10}, 2, "1 5 9 11 12"},
		{{11, 11, 12, 12}, 2, "1 5 9"},
		{{1, INT64_MAX, INT64_MIN}, 1, "5 9"},
		{{INT64_MAX, INT64_MIN, 9}, 1, "5"},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	(void)fixture_send_many(f, 12);
	lease = fixture_lease(f, "a");
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		size_t n_ids = 0;
		int64_t n = 0;

		while (n_ids < 4 && table[i].ids[n_ids])
			n_ids++;
		WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, table[i].ids, n_ids, &n,
					       &err));
		assert_int_equal(n, table[i].n);
		fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = 1u << WHERRY_PENDING),
			      table[i].left);
	}
}

WHERRY_CASE(done_passes_over_what_is_not_open, outbox_fixture *f)
{
	int64_t first = fixture_send_many(f, 4), n = 0;
	int64_t ids[] = {first + 3, -1, first + 1, 987654, 0, first + 2, first + 2};
	wherry_lease lease;
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_kill(f, first + 1);
	fixture_fail(f, first + 2, 60000000);
	fixture_try(f, first + 3);
	lease = fixture_lease(f, "a");
	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, ids, 7, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(fixture_state(f, first), WHERRY_PENDING);
	assert_int_equal(fixture_state(f, first + 1), WHERRY_DEAD);
	assert_int_equal(fixture_state(f, first + 2), WHERRY_DONE);
	assert_int_equal(fixture_state(f, first + 3), WHERRY_DONE);
}

WHERRY_CASE(an_empty_list_of_done_is_fine, outbox_fixture *f)
{
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, NULL, 0, &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, NULL, 0, &err));
	WHERRY_PASS(wherry_outbox_requeue(f->outbox, &lease, NULL, 0, &err));
}

WHERRY_CASE(ten_thousand_are_done_at_once, outbox_fixture *f)
{
	enum { MANY = 10000 };
	int64_t *ids = calloc(MANY, sizeof(*ids)), n = 0;
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_raw(
		f,
		"INSERT INTO outbox(topic, payload) WITH RECURSIVE c(i) AS (SELECT 1 "
		"UNION ALL SELECT i + 1 FROM c WHERE i < 10000) SELECT 't', '' FROM c");
	for (int i = 0; i < MANY; i++)
		ids[i] = i + 1;
	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, ids, MANY, &n, &err));
	assert_int_equal(n, MANY);
	free(ids);
}

/* ---- failures ---- */

static void a_failure_counts_and_waits(void **state)
{
	outbox_fixture *f = *state;
	int64_t id = fixture_send(f, "t", NULL);
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 1; i <= 3; i++) {
		wherry_failure failure = WHERRY_FAILURE(.id = id, .delay_us = 30000000,
							.error = "no answer");
		seen_row row;

		WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, &failure, 1, &err));
		row = look(f, id);
		assert_int_equal(row.row.state, WHERRY_FAILED);
		assert_int_equal(row.row.message->attempts, i);
		assert_string_equal(row.last_error, "no answer");
		is_now(row.row.next_retry_at_us, 30000000);
	}
}

WHERRY_CASE(a_failure_without_a_reason_is_recorded, outbox_fixture *f)
{
	int64_t id = fixture_send(f, "t", NULL);
	wherry_lease lease = fixture_lease(f, "a");
	wherry_failure failure = WHERRY_FAILURE(.id = id);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, &failure, 1, &err));
	assert_int_equal(look(f, id).row.message->attempts, 1);
}

WHERRY_CASE(a_reason_is_cut_at_500_bytes_between_characters, outbox_fixture *f)
{
	int64_t id = fixture_send(f, "t", NULL);
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	char why[700];

	for (int shift = 0; shift < 4; shift++) {
		wherry_failure failure = WHERRY_FAILURE(.id = id, .error = why);
		seen_row row;
		size_t len;

		memset(why, 'x', sizeof(why));
		for (size_t i = (size_t)shift; i + 4 < sizeof(why); i += 4)
			memcpy(why + i, "\xf0\x9f\x98\x80", 4);
		why[sizeof(why) - 1] = 0;
		WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, &failure, 1, &err));
		row = look(f, id);
		len = strlen(row.last_error);
		assert_in_range(len, 497, 500);
		assert_int_equal((len - (size_t)shift) % 4, 0);
		assert_memory_equal(row.last_error, why, len);
	}
}

static void a_dead_message_waits_for_nothing(void **state)
{
	outbox_fixture *f = *state;
	int64_t id = fixture_send(f, "t", NULL);
	wherry_failure failure = WHERRY_FAILURE(.id = id, .delay_us = 5000000,
						.dead = true, .error = "refused");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;
	seen_row row;

	fixture_fail(f, id, 60000000);
	lease = fixture_lease(f, "a");
	WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, &failure, 1, &err));
	row = look(f, id);
	assert_int_equal(row.row.state, WHERRY_DEAD);
	assert_int_equal(row.row.message->attempts, 2);
	assert_int_equal(row.row.next_retry_at_us, 0);
	assert_string_equal(row.last_error, "refused");
	/* and stays so */
	failure.dead = false;
	WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, &failure, 1, &err));
	assert_int_equal(look(f, id).row.state, WHERRY_DEAD);
	assert_int_equal(look(f, id).row.message->attempts, 2);
}

static void an_attempt_is_counted_once(void **state)
{
	static const struct {
		bool tried, counted, not_counted;
		int attempts;
	} rows[] = {
		{false, false, false, 1},
		{true, true, false, 1},
		{false, false, true, 0},
		{true, true, true, 0},
	};
	outbox_fixture *f = *state;
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int64_t id = fixture_send(f, "t", NULL);
		wherry_failure failure =
			WHERRY_FAILURE(.id = id, .counted = rows[i].counted,
				       .not_counted = rows[i].not_counted,
				       .error = "down");

		if (rows[i].tried)
			WHERRY_PASS(wherry_outbox_try(f->outbox, &lease, id, &err));
		WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, &failure, 1, &err));
		assert_int_equal(look(f, id).row.message->attempts, rows[i].attempts);
		assert_int_equal(look(f, id).row.state, WHERRY_FAILED);
	}
}

static void failures_pass_over_what_is_not_open(void **state)
{
	outbox_fixture *f = *state;
	int64_t id = fixture_send_many(f, 2);
	wherry_failure failures[] = {WHERRY_FAILURE(.id = id, .error = "late"),
				     WHERRY_FAILURE(.id = 987654, .error = "unknown"),
				     WHERRY_FAILURE(.id = id + 1, .error = "down")};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	fixture_done(f, id);
	lease = fixture_lease(f, "a");
	WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, failures, 3, &err));
	assert_int_equal(look(f, id).row.state, WHERRY_DONE);
	assert_int_equal(look(f, id).row.message->attempts, 0);
	assert_int_equal(look(f, id + 1).row.state, WHERRY_FAILED);
}

/* ---- try, requeue, reap ---- */

static void an_attempt_on_a_suspect_is_on_record_before_it_is_made(void **state)
{
	outbox_fixture *f = *state;
	int64_t id = fixture_send(f, "t", NULL);
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	seen_row row;

	WHERRY_PASS(wherry_outbox_try(f->outbox, &lease, id, &err));
	row = look(f, id);
	assert_int_equal(row.row.state, WHERRY_PROCESSING);
	assert_int_equal(row.row.message->attempts, 1);
	is_now(row.row.claimed_at_us, 0);
	assert_string_equal(fixture_text(f, "SELECT claim_token FROM outbox"), "epoch:1");
	WHERRY_PASS(wherry_outbox_try(f->outbox, &lease, id, &err));
	assert_int_equal(look(f, id).row.message->attempts, 2);
}

static void requeueing_keeps_the_attempts(void **state)
{
	outbox_fixture *f = *state;
	int64_t first = fixture_send_many(f, 5), ids[5];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	for (int i = 0; i < 5; i++)
		ids[i] = first + i;
	fixture_fail(f, ids[1], 0);
	fixture_try(f, ids[2]);
	fixture_done(f, ids[3]);
	fixture_kill(f, ids[4]);
	lease = fixture_lease(f, "a");
	WHERRY_PASS(wherry_outbox_requeue(f->outbox, &lease, ids, 5, &err));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(look(f, ids[i]).row.state, WHERRY_PENDING);
		assert_int_equal(look(f, ids[i]).row.message->attempts, i > 0);
		assert_int_equal(look(f, ids[i]).row.claimed_at_us, 0);
	}
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM outbox WHERE status = 0 "
					"AND claim_token <> ''"),
			 0);
	assert_int_equal(look(f, ids[3]).row.state, WHERRY_DONE);
	assert_int_equal(look(f, ids[4]).row.state, WHERRY_DEAD);
}

/* ---- several at once ---- */

WHERRY_CASE(a_message_that_took_the_id_of_another_is_not_tried, outbox_fixture *f)
{
	const wherry_message msg = WHERRY_MESSAGE(.topic = "t", .message_id = "new",
						  .body = "{}", .body_len = 2);
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_settlement try = {.try_name = "old"};
	int64_t id = 0;

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id,
					  &err));
	try.try_id = id;
	WHERRY_PASS(wh_store_settle(&f->outbox->store, &lease, &try, NULL, &err));
	assert_int_equal(fixture_state(f, id), WHERRY_PENDING);
	assert_int_equal(look(f, id).row.message->attempts, 0);
	try.try_name = "new";
	WHERRY_PASS(wh_store_settle(&f->outbox->store, &lease, &try, NULL, &err));
	assert_int_equal(look(f, id).row.message->attempts, 1);
}

const outbox_case outbox_settle_cases[] = {
	CASE(done_marks_a_message),
	CASE(more_ids_than_a_statement_takes_change_nothing),
	CASE(ids_in_any_order_and_with_gaps_are_done_alike),
	CASE(done_passes_over_what_is_not_open),
	CASE(an_empty_list_of_done_is_fine),
	CASE(ten_thousand_are_done_at_once),
	CASE(a_failure_counts_and_waits),
	CASE(a_failure_without_a_reason_is_recorded),
	CASE(a_reason_is_cut_at_500_bytes_between_characters),
	CASE(a_dead_message_waits_for_nothing),
	CASE(an_attempt_is_counted_once),
	CASE(failures_pass_over_what_is_not_open),
	CASE(an_attempt_on_a_suspect_is_on_record_before_it_is_made),
	CASE(requeueing_keeps_the_attempts),
	CASE(a_message_that_took_the_id_of_another_is_not_tried),
	{NULL, NULL, 0},
};
