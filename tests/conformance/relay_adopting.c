/*
 * Tables that are adopted: with rows, beside their programs, and by runs that fail.
 */
#include "relay_adopted.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "outbox/adopt.h"

static const char make_table[] =
	"CREATE TABLE older(id INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition_key TEXT, "
	"payload TEXT NOT NULL, sent_at TIMESTAMP); "
	"INSERT INTO older(id, topic, payload) VALUES (3, 't', 'a'), (5, 't', 'b'), (9, 't', 'c')";

/* Adopt the table "older" as the outbox "second". */
static wherry_code adopt(wherry_db *db, const char *done, const char *from,
			 wherry_error *err)
{
	const wh_adopt_options options = {.as = "second", .done = done, .from = from};
	wh_adoption *adoption = calloc(1, sizeof(*adoption));
	bool made;
	wherry_code code;

	assert_non_null(adoption);
	code = wh_adoption_plan(db, "older", &options, adoption, err);
	if (code == WHERRY_OK)
		code = wh_adoption_run(adoption, &made, err);
	wh_adoption_clear(adoption);
	free(adoption);
	return code;
}

/* On a connection that really waits for others. */
static void adopt_older(relay_fixture *f, const char *done, const char *from)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open(f->url, f->config, &db, &err));
	WHERRY_PASS(adopt(db, done, from, &err));
	wherry_db_close(db);
	relay_set(f, "relay.table", "second");
}

WHERRY_CASE(rows_from_before_are_delivered_with_those_that_come, relay_fixture *f)
{
	relay_sql(f, make_table);
	adopt_older(f, "nothing", "start");
	adopt_older(f, "nothing", "start");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 3);
	relay_sql(
		f,
		"INSERT INTO older(id, topic, payload) VALUES (4, 't', 'd'), (12, 't', 'e')");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 5);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).delivered, 5);
	assert_false(relay_logged(f, "log-restored"));
	for (size_t i = 0; i < f->n_events; i++)
		assert_int_equal(relay_told(f, f->events[i].id, WHERRY_DELIVERED), 1);
}

WHERRY_CASE(of_rows_from_before_those_that_are_not_done_are_delivered, relay_fixture *f)
{
	relay_sql(f, make_table);
	relay_sql(f, "UPDATE older SET sent_at = '2026-01-01 00:00:00' WHERE id = 5");
	adopt_older(f, "sent_at", NULL);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 2);
	relay_sql(
		f,
		"INSERT INTO older(id, topic, payload) VALUES (4, 't', 'd'), (12, 't', 'e')");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 4);
	relay_stop(f, &f->a);
	assert_int_equal(relay_told(f, 5, WHERRY_DELIVERED), 0);
	assert_int_equal(
		relay_number(f, "SELECT count(*) FROM older WHERE sent_at IS NULL"), 0);
}

/* Ids of messages begin at 1. */
WHERRY_CASE(a_table_with_lower_ids_is_refused, relay_fixture *f)
{
	wh_adopt_options options = {.as = "second"};
	static wh_adoption adoption;
	wherry_error err = WHERRY_ERROR_INIT;

	relay_sql(f, make_table);
	relay_sql(f, "INSERT INTO older(id, topic, payload) VALUES (-7, 't', 'd')");
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_adoption_plan(f->other, "older", &options, &adoption, &err));
	assert_non_null(strstr(err.message, "'id' has the value -7"));
	wh_adoption_clear(&adoption);
	options.where = "id > 0";
	WHERRY_PASS(wh_adoption_plan(f->other, "older", &options, &adoption, &err));
	wh_adoption_clear(&adoption);
}

WHERRY_CASE(headers_that_are_no_object_are_left_out, relay_fixture *f)
{
	static const char *const texts[] = {
		"''", "NULL", "'[1]'", "'7'", "' {\"a\": 1}'", "'{'", "'none'"};
	const size_t n = sizeof(texts) / sizeof(*texts);

	relay_sql(f, make_table);
	relay_sql(f, "ALTER TABLE older ADD COLUMN headers TEXT");
	for (size_t i = 0; i < n; i++) {
		char sql[160];

		(void)snprintf(
			sql, sizeof(sql),
			"INSERT INTO older(id, topic, payload, headers) VALUES (%zu, 't', 'x', %s)",
			100 + i, texts[i]);
		relay_sql(f, sql);
	}
	adopt_older(f, "nothing", "start");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == (int64_t)n + 3);
}

/* ---- runs that fail ---- */

typedef struct failing {
	int left; /* Calls until one fails; below 0: none does. */
	bool answer_is_lost;
} failing;

static wherry_code fail_now(failing *x, wherry_error *err)
{
	return x->left-- == 0 ? wh_fail(err, WHERRY_FULL, "the test fails a call")
			      : WHERRY_OK;
}

static wherry_code fail_before(void *ctx, const char *op, const char *what,
			       wherry_error *err)
{
	failing *x = ctx;

	return x->answer_is_lost ? WHERRY_OK : fail_now(x, err);
}

static wherry_code fail_after(void *ctx, const char *op, const char *what,
			      wherry_code code, int64_t took_us, wherry_error *err)
{
	failing *x = ctx;

	return code == WHERRY_OK && x->answer_is_lost ? fail_now(x, err) : code;
}

/* False: fewer calls were made. */
static bool fail_nth(relay_fixture *f, int n, bool answer_is_lost)
{
	static failing x; /* Outlives the connection. */
	wherry_error err = WHERRY_ERROR_INIT;
	bool failed;

	relay_fresh(f);
	relay_sql(f, make_table);
	relay_sql(f, "UPDATE older SET sent_at = '2026-01-01 00:00:00' WHERE id = 5");
	x = (failing){.left = -1, .answer_is_lost = answer_is_lost};
	relay_wrap(f, &(wh_trace){.before = fail_before, .after = fail_after, .ctx = &x});
	x.left = n;
	failed = adopt(f->a.db, "sent_at", NULL, &err) != WHERRY_OK;
	failed = failed || x.left < 0;
	x.left = -1;
	WHERRY_PASS(adopt(f->a.db, "sent_at", NULL, &err));
	relay_start(f, &f->a);
	relay_sql(f, "INSERT INTO older(id, topic, payload) VALUES (4, 't', 'd')");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 3);
	relay_stop(f, &f->a);
	assert_int_equal(relay_told(f, 5, WHERRY_DELIVERED), 0);
	assert_int_equal(relay_delivered(f), 3);
	assert_int_equal(
		relay_number(f, "SELECT count(*) FROM older WHERE sent_at IS NULL"), 0);
	return failed;
}

/* On SQLite, where a database is made quickly, also with answers that are lost. */
WHERRY_CASE(what_a_failed_run_left_is_done_by_the_next, relay_fixture *f)
{
	const int ways = strncmp(f->url, "sqlite", 6) == 0 ? 2 : 1;
	int n = 0, all = 0;

	relay_set(f, "relay.table", "second");
	for (int lost = 0; lost < ways; lost++) {
		for (n = 0; fail_nth(f, n, lost); n++)
			all++;
		assert_true(n > 10);
	}
	print_message("# %d calls failed\n", all);
}

/* As of a run that was killed while it made an index, or could not make it unique. */
WHERRY_CASE(an_index_that_was_not_made_to_the_end_is_made_again, relay_fixture *f)
{
	static const char broken[] =
		"SELECT count(*) FROM pg_index WHERE indrelid = 'older'::regclass "
		"AND NOT indisvalid";

	if (strncmp(f->url, "postgres", 8) != 0)
		return;
	relay_sql(f, make_table);
	adopt_older(f, "sent_at", NULL);
	relay_sql(
		f,
		"UPDATE pg_index SET indisvalid = false WHERE indrelid = 'older'::regclass AND NOT indisprimary");
	assert_int_equal(relay_number(f, broken), 2);
	adopt_older(f, "sent_at", NULL);
	assert_int_equal(relay_number(f, broken), 0);
	assert_int_equal(
		relay_number(
			f,
			"SELECT count(*) FROM pg_index WHERE indrelid = 'older'::regclass"),
		3);
}

/* ---- at the same time ---- */

typedef struct beside {
	wherry_db *db;
	atomic_bool ends;
	wherry_code code;
	wherry_error err;
	atomic_llong n;
	int64_t longest_us;
} beside;

static void open_beside(relay_fixture *f, beside *b)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*b = (beside){.err = WHERRY_ERROR_INIT};
	WHERRY_PASS(wherry_db_open(f->url, f->config, &b->db, &err));
}

static void *adopt_beside(void *arg)
{
	beside *b = arg;

	b->code = adopt(b->db, "sent_at", NULL, &b->err);
	return NULL;
}

/* The second may have to be run again. */
WHERRY_CASE(two_runs_at_once_make_one_outbox, relay_fixture *f)
{
	static beside runs[2];

	relay_set(f, "relay.table", "second");
	relay_set(f, "db.busy_timeout", "10s");
	for (int i = 0; i < 5; i++) {
		pthread_t threads[2];

		relay_fresh(f);
		relay_sql(f, make_table);
		for (int k = 0; k < 2; k++)
			open_beside(f, &runs[k]);
		for (int k = 0; k < 2; k++)
			assert_int_equal(
				pthread_create(&threads[k], NULL, adopt_beside, &runs[k]),
				0);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(pthread_join(threads[k], NULL), 0);
			if (runs[k].code != WHERRY_OK && runs[k].code != WHERRY_BUSY)
				fail_msg("%s", runs[k].err.message);
			wherry_db_close(runs[k].db);
		}
		assert_true(runs[0].code == WHERRY_OK || runs[1].code == WHERRY_OK);
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 3);
		relay_stop(f, &f->a);
		assert_int_equal(relay_delivered(f), 3);
	}
}

WHERRY_CASE(a_run_that_was_planned_before_another_forgets_no_position, relay_fixture *f)
{
	const wh_adopt_options options = {.as = "second", .done = "nothing"};
	static wh_adoption late;
	wherry_error err = WHERRY_ERROR_INIT;
	bool made;

	relay_sql(f, make_table);
	WHERRY_PASS(wh_adoption_plan(f->other, "older", &options, &late, &err));
	adopt_older(f, "nothing", NULL);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 3);
	relay_stop(f, &f->a);
	WHERRY_PASS(wh_adoption_run(&late, &made, &err));
	assert_false(made);
	wh_adoption_clear(&late);
	relay_start(f, &f->a);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	assert_int_equal(relay_delivered(f), 3);
}

static void *write_beside(void *arg)
{
	beside *b = arg;

	while (b->code == WHERRY_OK && !b->ends) {
		int64_t from_us = wh_monotonic(&wh_env_system);
		char sql[100];

		(void)snprintf(
			sql, sizeof(sql),
			"INSERT INTO older(id, topic, payload) VALUES (%lld, 't', 'x')",
			100 + b->n);
		b->code = wh_db_script(b->db, sql, &b->err);
		if (b->code == WHERRY_OK)
			b->n++;
		from_us = wh_monotonic(&wh_env_system) - from_us;
		b->longest_us = from_us > b->longest_us ? from_us : b->longest_us;
	}
	return NULL;
}

WHERRY_CASE(rows_that_are_written_meanwhile_are_delivered, relay_fixture *f)
{
	static beside w;
	pthread_t thread;
	int64_t n;

	relay_set(f, "relay.table", "second");
	relay_set(f, "db.busy_timeout", "10s");
	for (int i = 0; i < 3; i++) {
		relay_fresh(f);
		relay_sql(f, make_table);
		open_beside(f, &w);
		assert_int_equal(pthread_create(&thread, NULL, write_beside, &w), 0);
		while (!w.n && w.code == WHERRY_OK)
			(void)sched_yield();
		adopt_older(f, i ? "sent_at" : "nothing", i == 1 ? NULL : "start");
		w.ends = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		if (w.code != WHERRY_OK)
			fail_msg("%s", w.err.message);
		wherry_db_close(w.db);
		n = relay_number(f, "SELECT count(*) FROM older");
		assert_int_equal(n, 3 + w.n);
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered >= n);
		relay_quiet(f, &f->a);
		assert_int_equal(relay_stats(&f->a).delivered, n);
		print_message("# %lld rows written meanwhile, the longest in %lld ms\n",
			      w.n, (long long)w.longest_us / 1000);
	}
}

const relay_test relay_adopting_tests[] = {
	RELAY_TEST(rows_from_before_are_delivered_with_those_that_come, 0),
	RELAY_TEST(of_rows_from_before_those_that_are_not_done_are_delivered, 0),
	RELAY_TEST(a_table_with_lower_ids_is_refused, 0),
	RELAY_TEST(headers_that_are_no_object_are_left_out, 0),
	RELAY_TEST(what_a_failed_run_left_is_done_by_the_next, 0),
	RELAY_TEST(an_index_that_was_not_made_to_the_end_is_made_again, 0),
	RELAY_TEST(a_run_that_was_planned_before_another_forgets_no_position, 0),
	RELAY_TEST(two_runs_at_once_make_one_outbox, RELAY_THREADS),
	RELAY_TEST(rows_that_are_written_meanwhile_are_delivered, RELAY_THREADS),
	RELAY_TESTS_END,
};
