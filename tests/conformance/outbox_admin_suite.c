/*
 * What operators do to rows: retry, purge.
 */
#include "outbox_suite.h"

#include "outbox/outbox.h"

static wherry_outbox_filter sized(wherry_outbox_filter filter)
{
	filter.size = sizeof(filter);
	return filter;
}

#define BIT(state) (1u << (state))

static int64_t control_version(outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t out = 0;
	bool paused;

	WHERRY_PASS(wh_store_control(&f->outbox->store, &paused, &out, &err));
	return out;
}

static void lists_state(outbox_fixture *f, wherry_state state, const char *ids)
{
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = BIT(state)), ids);
}

/* ---- retry ---- */

static int64_t retry_dead(outbox_fixture *f, wherry_outbox_filter filter)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_retry(f->outbox, &filter, &n, &err));
	return n;
}

/* Dead: 1 (a, topic t, key k), 2 (b, t, l), 3 (c, u, k), 4 (d, u, l).  Open or done: 5 to
 * 8, pending, failed, processing, done. */
static void four_dead(outbox_fixture *f)
{
	assert_int_equal(fixture_send_named(f, "a", "t", "k"), 1);
	fixture_send_named(f, "b", "t", "l");
	fixture_send_named(f, "c", "u", "k");
	fixture_send_named(f, "d", "u", "l");
	fixture_send_many(f, 4);
	for (int64_t id = 1; id <= 4; id++)
		fixture_kill(f, id);
	fixture_fail(f, 6, 60000000);
	fixture_try(f, 7);
	fixture_done(f, 8);
}

static void dead_messages_are_retried_and_no_others(void **state)
{
	outbox_fixture *f = *state;
	int64_t before;

	four_dead(f);
	before = control_version(f);
	assert_int_equal(retry_dead(f, WHERRY_OUTBOX_FILTER()), 4);
	assert_true(control_version(f) > before);
	lists_state(f, WHERRY_PENDING, "1 2 3 4 5");
	lists_state(f, WHERRY_FAILED, "6");
	lists_state(f, WHERRY_PROCESSING, "7");
	lists_state(f, WHERRY_DONE, "8");
	assert_int_equal(fixture_int(f, "SELECT sum(attempts) FROM outbox WHERE id <= 4"),
			 0);
	assert_int_equal(
		fixture_int(
			f,
			"SELECT count(*) FROM outbox WHERE id <= 4 AND next_retry_at IS NULL "
			"AND claimed_at IS NULL"),
		4);
	before = control_version(f);
	assert_int_equal(retry_dead(f, WHERRY_OUTBOX_FILTER()), 0);
	assert_int_equal(control_version(f),
			 before); /* nothing changed: nobody is woken */
}

static void messages_are_retried_by_what_the_filter_says(void **state)
{
	static const struct {
		wherry_outbox_filter filter;
		const char *dead_then;
	} rows[] = {
		{{.ident = "2"}, "1 3 4"},
		{{.ident = "c"}, "1 2 4"},
		{{.ident = "nobody"}, "1 2 3 4"},
		{{.topic = "t"}, "3 4"},
		{{.key = "k"}, "2 4"},
		{{.topic = "t", .key = "k"}, "2 3 4"},
		{{.after_id = 3}, "1 2 3"},
		{{.since_us = 1000000000}, ""},
		{{.limit = 3}, "4"},
		{{.limit = 1, .key = "l"}, "1 3 4"},
		{{.states = BIT(WHERRY_DEAD)}, ""},
		{{.states = BIT(WHERRY_FAILED)}, "1 2 3 4"},
		{{.ident = "5"}, "1 2 3 4"}, /* pending: there is nothing to retry */
	};
	outbox_fixture *f = *state;

	four_dead(f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		(void)retry_dead(f, sized(rows[i].filter));
		lists_state(f, WHERRY_DEAD, rows[i].dead_then);
		fixture_raw(f,
			    "UPDATE outbox SET status = 4, attempts = 1 WHERE id <= 4");
	}
}

static void old_ones_can_be_left_alone(void **state)
{
	outbox_fixture *f = *state;

	four_dead(f);
	fixture_raw(f,
		    "UPDATE outbox SET created_at = created_at - 3600000 WHERE id < 3");
	assert_int_equal(retry_dead(f, WHERRY_OUTBOX_FILTER(.since_us = 60000000)), 2);
	lists_state(f, WHERRY_DEAD, "1 2");
}

/* By its number and by its own id; what is delivered stays. */
static void a_message_is_discarded_unless_it_was_delivered(void **state)
{
	outbox_fixture *f = *state;
	int64_t id = fixture_send_many(f, 4);
	wherry_error err = WHERRY_ERROR_INIT;
	char number[24], name[64];

	(void)snprintf(name, sizeof(name), "%s",
		       fixture_text(f, "SELECT message_id FROM outbox WHERE id = %d",
				    (int)id + 1));
	fixture_kill(f, id + 1);
	fixture_done(f, id + 2);
	(void)snprintf(number, sizeof(number), "%d", (int)id);
	WHERRY_PASS(wherry_outbox_discard(f->outbox, number, &err));
	WHERRY_PASS(wherry_outbox_discard(f->outbox, name, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(f->outbox, name, &err));
	assert_non_null(strstr(err.message, name));
	(void)snprintf(number, sizeof(number), "%d", (int)id + 2);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(f->outbox, number, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(f->outbox, "none", &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_discard(f->outbox, NULL, &err));
	assert_int_equal(fixture_state(f, id + 2), WHERRY_DONE);
	assert_int_equal(fixture_state(f, id + 3), WHERRY_PENDING);
	assert_int_equal(fixture_count(f), 2);
	/* part of an open transaction */
	(void)snprintf(number, sizeof(number), "%d", (int)id + 3);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_PASS(wherry_outbox_discard(f->outbox, number, &err));
	wherry_db_rollback(f->db);
	assert_int_equal(fixture_count(f), 2);
}

/* By their numbers, as `wherry discard --state` does, whatever has one as its message id. */
static void messages_are_discarded_by_their_numbers_and_states(void **state)
{
	enum { N = 5 };
	outbox_fixture *f = *state;
	int64_t id = fixture_send_many(f, N), before;
	int64_t numbers[N] = {id, id + 1, id + 2, id + 3, id + 1000};
	wherry_error err = WHERRY_ERROR_INIT;
	bool gone[N];

	fixture_kill(f, id + 1);
	fixture_done(f, id + 2);
	fixture_fail(f, id + 3, 60000000);
	before = control_version(f);
	WHERRY_PASS(wh_outbox_discard_numbers(f->outbox, numbers, N, BIT(WHERRY_DONE),
					      gone, &err));
	for (int i = 0; i < N; i++)
		assert_false(gone[i]);
	assert_int_equal(fixture_count(f), N);
	WHERRY_PASS(wh_outbox_discard_numbers(f->outbox, numbers, N,
					      BIT(WHERRY_DEAD) | BIT(WHERRY_FAILED), gone,
					      &err));
	assert_true(!gone[0] && gone[1] && !gone[2] && gone[3] && !gone[4]);
	assert_int_equal(fixture_count(f), 3);
	assert_int_equal(fixture_state(f, id), WHERRY_PENDING);
	assert_int_equal(fixture_state(f, id + 2), WHERRY_DONE);
	assert_int_equal(fixture_state(f, id + 4), WHERRY_PENDING);
	if (f->outbox->store.stmt.raise_control_version)
		assert_true(control_version(f) > before);
	WHERRY_PASS(wh_outbox_discard_numbers(f->outbox, numbers, N, BIT(WHERRY_PENDING),
					      gone, &err));
	assert_true(gone[0] && !gone[1] && !gone[2] && !gone[3] && !gone[4]);
	assert_int_equal(fixture_count(f), 2);
}

static void failed_messages_are_retried_when_asked_for(void **state)
{
	outbox_fixture *f = *state;
	unsigned both = BIT(WHERRY_FAILED) | BIT(WHERRY_DEAD);

	four_dead(f);
	assert_int_equal(
		retry_dead(f, WHERRY_OUTBOX_FILTER(.states = both, .after_id = 3)), 2);
	lists_state(f, WHERRY_PENDING, "4 5 6");
	lists_state(f, WHERRY_DEAD, "1 2 3");
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM outbox WHERE id = 6 AND "
					"next_retry_at IS NULL AND attempts = 0"),
			 1);
	/* states that cannot be retried change nothing */
	assert_int_equal(
		retry_dead(f, WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_DONE) |
							     BIT(WHERRY_PROCESSING) |
							     BIT(WHERRY_PENDING))),
		0);
	lists_state(f, WHERRY_DONE, "8");
	lists_state(f, WHERRY_PROCESSING, "7");
}

static void retrying_one_touches_no_other_whose_number_is_its_name(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "2", "t", NULL);
	fixture_send_named(f, "1", "t", NULL);
	fixture_kill(f, 1);
	fixture_kill(f, 2);
	assert_int_equal(retry_dead(f, WHERRY_OUTBOX_FILTER(.ident = "2")), 1);
	lists_state(f, WHERRY_DEAD, "2");
}

static void a_retry_by_hand_is_part_of_an_open_transaction(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t before;

	four_dead(f);
	before = control_version(f);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(retry_dead(f, WHERRY_OUTBOX_FILTER()), 4);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	wherry_db_rollback(f->db);
	lists_state(f, WHERRY_DEAD, "1 2 3 4");
	assert_int_equal(control_version(f), before);
}

/* ---- purge ---- */

/* Twenty rows: 1 to 10 done long ago, 11 to 15 done now, 16 pending, 17 processing, 18
 * failed, 19 and 20 dead. */
static void twenty(outbox_fixture *f)
{
	fixture_send_many(f, 20);
	fixture_were_done(f, 15, 10);
	fixture_were_done(f, 10, 7200010);
	fixture_try(f, 17);
	fixture_fail(f, 18, 0);
	fixture_kill(f, 19);
	fixture_kill(f, 20);
	/* an old dead letter, that was done once */
	fixture_raw(f, "UPDATE outbox SET created_at = 1 WHERE id > 15");
}

static int64_t purged(outbox_fixture *f, int64_t older_us, int64_t batch,
		      int64_t max_rows)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_purge(f->outbox, older_us, batch, max_rows, &n, &err));
	return n;
}

static void only_what_was_done_long_ago_is_purged(void **state)
{
	outbox_fixture *f = *state;

	twenty(f);
	assert_int_equal(purged(f, 3600000000, 3, 0), 10);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "11 12 13 14 15 16 17 18 19 20");
	assert_int_equal(purged(f, 3600000000, 3, 0), 0);
	assert_int_equal(purged(f, 0, 3, 0), 5);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "16 17 18 19 20");
	assert_int_equal(purged(f, 0, 3, 0), 0);
}

static void a_purge_goes_by_batches_and_stops_at_its_limit(void **state)
{
	static const struct {
		int64_t batch, max_rows, gone;
	} rows[] = {{1, 1, 1}, {4, 0, 10}, {4, 10, 10}, {4, 11, 10},    {4, 4, 4},
		    {4, 5, 5}, {5, 0, 10}, {10, 0, 10}, {100000, 3, 3}, {3, 9, 9}};
	outbox_fixture *f = *state;
	int64_t first;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		fixture_raw(f, "DELETE FROM outbox");
		first = fixture_send_many(f, 10);
		fixture_were_done(f, first + 9, 10000);
		assert_int_equal(purged(f, 1000, rows[i].batch, rows[i].max_rows),
				 rows[i].gone);
		assert_int_equal(fixture_count(f), 10 - rows[i].gone);
	}
}

/* Each batch goes on behind the one before. */
static void a_purge_goes_on_behind_what_stays(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_many(f, 12);
	fixture_kill(f, 1);
	fixture_kill(f, 2);
	fixture_kill(f, 5);
	fixture_were_done(f, 12, 10000);
	assert_int_equal(purged(f, 1000, 2, 4), 4);
	assert_int_equal(purged(f, 1000, 2, 0), 5);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 2 5");
}

/* Nor may such a message keep the others if it is dead.  A clock may be ahead a little. */
static void a_time_in_the_future_says_nothing_about_age(void **state)
{
	outbox_fixture *f = *state;
	const long long now = (long long)(wh_now(&wh_env_system) / 1000);

	fixture_send_many(f, 12);
	fixture_kill(f, 1);
	fixture_were_done(f, 12, 10000);
	fixture_raw(f, "UPDATE outbox SET created_at = %lld WHERE id IN (1, 2, 6)",
		    now + 50LL * 365 * 86400000);
	fixture_raw(f, "UPDATE outbox SET created_at = %lld WHERE id = 9", now + 3600000);
	assert_int_equal(purged(f, 1000, 3, 0), 7);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 9 10 11 12");
}

static void a_purge_needs_sensible_numbers_and_no_open_transaction(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	twenty(f);
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_purge(f->outbox, -1, 10, 0, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_purge(f->outbox, 0, 0, 0, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_purge(f->outbox, 0, 100001, 0, &n, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_purge(f->outbox, 0, 10, -1, &n, &err));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_purge(f->outbox, 0, 10, 0, &n, &err));
	assert_non_null(strstr(err.message, "transaction"));
	assert_true(wherry_db_in_transaction(f->db));
	wherry_db_rollback(f->db);
	assert_int_equal(n, -7);
	assert_int_equal(fixture_count(f), 20);
	assert_int_equal(purged(f, INT64_MAX, 10, 0), 0);
}

/* An application may watch the table. */
static void triggers_of_the_application_do_not_confuse_a_purge(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 1, n = 0;
	wherry_lease lease;

	fixture_raw(f, "CREATE TABLE audit(id INTEGER)");
	fixture_raw(
		f, "CREATE TRIGGER watch_delete AFTER DELETE ON outbox BEGIN INSERT INTO "
		   "audit VALUES (old.id); END");
	fixture_raw(
		f, "CREATE TRIGGER watch_update AFTER UPDATE ON outbox BEGIN INSERT INTO "
		   "audit VALUES (old.id); END");
	fixture_raw(
		f, "CREATE TRIGGER watch_insert AFTER INSERT ON outbox BEGIN INSERT INTO "
		   "audit VALUES (new.id); END");
	fixture_send_many(f, 10);
	lease = fixture_lease(f, "a");
	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, &id, 1, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	fixture_were_done(f, 10, 10000);
	assert_int_equal(purged(f, 1000, 2, 4), 4);
	assert_int_equal(purged(f, 1000, 2, 0), 6);
	assert_int_equal(fixture_count(f), 0);
}

const outbox_case outbox_admin_cases[] = {
	CASE(dead_messages_are_retried_and_no_others),
	CASE(messages_are_retried_by_what_the_filter_says),
	CASE(old_ones_can_be_left_alone),
	CASE(a_message_is_discarded_unless_it_was_delivered),
	CASE(messages_are_discarded_by_their_numbers_and_states),
	CASE(failed_messages_are_retried_when_asked_for),
	CASE(retrying_one_touches_no_other_whose_number_is_its_name),
	CASE(a_retry_by_hand_is_part_of_an_open_transaction),
	CASE(only_what_was_done_long_ago_is_purged),
	CASE(a_purge_goes_by_batches_and_stops_at_its_limit),
	CASE(a_purge_goes_on_behind_what_stays),
	CASE(a_time_in_the_future_says_nothing_about_age),
	CASE(a_purge_needs_sensible_numbers_and_no_open_transaction),
	CASE(triggers_of_the_application_do_not_confuse_a_purge),
	{NULL, NULL, 0},
};
