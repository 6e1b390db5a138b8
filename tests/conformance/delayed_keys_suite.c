/*
 * Messages by their keys, and the tables themselves.
 */
#include "delayed_suite.h"

#include "db/driver.h"
#include "delayed/delayed.h"

static void a_read_shows_a_future_message_and_locks_nothing(void **state)
{
	(void)delayed_offer(*state, "k", "a", 10);
	assert_string_equal(delayed_body(*state, "k"), "a");
	assert_true(delayed_has(*state, "k"));
	assert_null(delayed_body(*state, "other"));
	delayed_pass(*state, 10);
	assert_int_equal(delayed_polls(*state, 1, "a")->attempts[0], 1);
	assert_string_equal(delayed_body(*state, "k"), "a");
}

WHERRY_CASE(a_dropped_message_is_gone_also_if_it_is_leased, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool found = false;
	char token[80];

	(void)delayed_offer(f, "a", "1", 10);
	(void)delayed_offer(f, "b", "2", 0);
	(void)snprintf(token, sizeof(token), "%s", delayed_polls(f, 1, "2")->tokens[0]);
	WHERRY_PASS(delayed_does.drop_key(f->queue, "a", &found, &err));
	assert_true(found);
	WHERRY_PASS(delayed_does.drop_key(f->queue, "b", &found, &err));
	assert_true(found);
	assert_false(delayed_has(f, "a") || delayed_has(f, "b"));
	WHERRY_PASS(delayed_does.drop_key(f->queue, "a", &found, &err));
	assert_false(found);
	delayed_acks(f, token, WHERRY_LEASE_LOST);
}

/* Another program may write keys that no offer takes. */
WHERRY_CASE(a_key_that_no_offer_takes_is_listed_read_and_dropped, delayed_fixture *f)
{
	wherry_delayed_filter one = WHERRY_DELAYED_FILTER(.limit = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	bool found = false;
	char key[1000], sql[1600];
	/* The library's table on SQLite has no limit; others have one of 200 characters. */
	int most = strcmp(f->queue->store.layout.name, "funfix") == 0 &&
				   strcmp(f->db->driver->scheme, "sqlite") == 0
			   ? 900
			   : 200;

	(void)delayed_offer(f, "a", "1", 0);
	for (int n = 0; n <= most; n += most) {
		delayed_got got = {.n = 0};

		(void)snprintf(key, sizeof(key), "%.*s", n, "");
		memset(key, 'k', (size_t)n);
		key[n] = 0;
		(void)snprintf(
			sql, sizeof(sql),
			"INSERT INTO later(\"pKey\", \"pKind\", payload, \"scheduledAt\", "
			"\"scheduledAtInitially\", \"createdAt\") SELECT '%s', \"pKind\", "
			"payload, \"scheduledAt\", \"scheduledAtInitially\", \"createdAt\" "
			"FROM later",
			key);
		delayed_raw(f, sql);
		assert_true(delayed_has(f, key));
		assert_string_equal(delayed_body(f, key), "1");
		one.after = n ? "a" : NULL;
		WHERRY_PASS(
			wherry_delayed_list(f->queue, &one, delayed_note, &got, &err));
		assert_string_equal(got.keys, key);
		one.after = key;
		got = (delayed_got){.n = 0};
		WHERRY_PASS(
			wherry_delayed_list(f->queue, &one, delayed_note, &got, &err));
		assert_string_equal(got.keys, n ? "" : "a");
		WHERRY_PASS(delayed_does.drop_key(f->queue, key, &found, &err));
		assert_true(found);
	}
}

WHERRY_CASE(dropping_all_needs_the_text_word_for_word, delayed_fixture *f)
{
	static const char *const wrong[] = {NULL, "", "yes",
					    "Yes, please, I know what I'm doing"};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	(void)delayed_offer(f, "a", "1", 0);
	(void)delayed_offer(f, "b", "2", 10);
	for (int i = 0; i < 4; i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_delayed_drop_all(f->queue, wrong[i], &n, &err));
	assert_non_null(strstr(err.message, WHERRY_DELAYED_DROP_ALL));
	delayed_counts(f, "1 0 1 0");
	WHERRY_PASS(wherry_delayed_drop_all(
		f->queue, "Yes, please, I know what I'm doing!", &n, &err));
	assert_int_equal(n, 2);
	delayed_counts(f, "0 0 0 0");
}

static void lists(delayed_fixture *f, const wherry_delayed_filter *filter,
		  const char *keys)
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	WHERRY_PASS(wherry_delayed_list(f->queue, filter, delayed_note, &got, &err));
	assert_string_equal(got.keys, keys);
}

/* Also defect 11 of the reference: prefixes were patterns, and on SQLite without case. */
WHERRY_CASE(keys_are_listed_by_a_prefix_that_is_no_pattern, delayed_fixture *f)
{
	static const char *const keys[] = {"job_1/a", "job_1/b", "jobX1/c", "Job_1/d",
					   "job%/e",  "job_1",   "job_10/f"};

	for (int i = 0; i < 7; i++)
		(void)delayed_offer(f, keys[i], "x", i);
	lists(f, NULL, "Job_1/d job%/e jobX1/c job_1 job_1/a job_1/b job_10/f");
	lists(f, &WHERRY_DELAYED_FILTER(.prefix = "job_1/"), "job_1/a job_1/b");
	lists(f, &WHERRY_DELAYED_FILTER(.prefix = "job%"), "job%/e");
	lists(f, &WHERRY_DELAYED_FILTER(.prefix = "job", .except = "job_1/"),
	      "job%/e jobX1/c job_1 job_10/f");
	lists(f, &WHERRY_DELAYED_FILTER(.after = "job_1", .limit = 2), "job_1/a job_1/b");
	lists(f, &WHERRY_DELAYED_FILTER(.prefix = "nothing"), "");
}

WHERRY_CASE(the_last_character_there_is_may_be_in_a_key, delayed_fixture *f)
{
	char key[900] = "p/";

	for (int i = 2; i < 200; i++)
		(void)strcat(key, "\xf4\x8f\xbf\xbf");
	(void)delayed_offer(f, key, "x", 0);
	(void)delayed_offer(f, "q", "y", 0);
	lists(f, &WHERRY_DELAYED_FILTER(.prefix = "p/"), key);
}

WHERRY_CASE(messages_are_dropped_by_prefix_but_for_those_that_were_polled,
	    delayed_fixture *f)
{
	const wherry_delayed_filter mine =
		WHERRY_DELAYED_FILTER(.prefix = "job/", .except = "job/new/",
				      .untouched = true);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	(void)delayed_offer(f, "job/old/1", "1", -3);
	(void)delayed_offer(f, "job/old/2", "2", 10);
	(void)delayed_offer(f, "job/new/3", "3", 10);
	(void)delayed_offer(f, "joe/old/4", "4", 10);
	(void)delayed_polls(f, 1, "1");
	WHERRY_PASS(wherry_delayed_drop_many(f->queue, &mine, &n, &err));
	assert_int_equal(n, 1);
	lists(f, NULL, "job/new/3 job/old/1 joe/old/4");
	delayed_pass(f, 6);
	WHERRY_PASS(wherry_delayed_drop_many(f->queue, &mine, &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wherry_delayed_drop_many(
		f->queue, &WHERRY_DELAYED_FILTER(.prefix = "job/"), &n, &err));
	assert_int_equal(n, 2);
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_delayed_drop_many(
			     f->queue, &WHERRY_DELAYED_FILTER(.prefix = NULL), &n, &err));
}

WHERRY_CASE(the_status_says_what_is_late_and_what_is_next, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status s;

	WHERRY_PASS(wherry_delayed_get_status(f->queue, &s, sizeof(s), &err));
	assert_int_equal(s.next_us, -1);
	assert_string_equal(s.layout, f->layout ? f->layout : "native");
	(void)delayed_offer(f, "a", "1", 20);
	(void)delayed_offer(f, "b", "2", 10);
	WHERRY_PASS(wherry_delayed_get_status(f->queue, &s, sizeof(s), &err));
	assert_int_equal(s.next_us, 10 * SECOND_US);
	assert_int_equal(s.oldest_due_us, 0);
	delayed_pass(f, 12);
	WHERRY_PASS(wherry_delayed_get_status(f->queue, &s, sizeof(s), &err));
	assert_int_equal(s.next_us, 0);
	assert_int_equal(s.oldest_due_us, 2 * SECOND_US);
	delayed_counts(f, "1 0 1 0");
}

/* ---- tables ---- */

/* Also defect 23 of the reference: a second one that created at once failed. */
WHERRY_CASE(creating_twice_changes_nothing, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)delayed_offer(f, "k", "a", 0);
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	(void)delayed_polls(f, 1, "a");
}

/* Defect 23 of the reference: a table whose indexes were never made stayed so. */
WHERRY_CASE(creating_again_makes_an_index_that_is_missing, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)delayed_offer(f, "k", "a", 0);
	delayed_raw(f, "DROP INDEX later_time");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	(void)delayed_polls(f, 1, "a");
	delayed_raw(f, "DROP INDEX later_time");
}

WHERRY_CASE(a_table_that_is_not_there_is_named, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;

	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_open(f->db, NULL, "q", NULL, &queue, &err));
	assert_string_equal(err.message,
			    "there is no delayed queue 'delayed' in this database");
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_DELAYED);
	assert_string_equal(err.table, "delayed");
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_delayed_open(f->db, "later", "", NULL, &queue, &err));
	assert_null(queue);
}

WHERRY_CASE(a_table_that_is_something_else_is_refused, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(f, "CREATE TABLE orders(id integer)");
	WHERRY_FAILS(WHERRY_INVALID, wherry_delayed_create(f->db, "orders", NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_queue_create(f->db, "later", NULL, &err));
}

WHERRY_CASE(a_dropped_table_takes_everything_along, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *other = NULL;

	WHERRY_PASS(wherry_delayed_create(f->db, "other", f->layout, &err));
	WHERRY_PASS(wherry_delayed_open(f->db, "other", "q", NULL, &other, &err));
	WHERRY_PASS(wherry_delayed_drop(other, &err));
	wherry_delayed_close(other);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_open(f->db, "other", "q", NULL, &other, &err));
	(void)delayed_offer(f, "k", "a", 0);
	WHERRY_PASS(wherry_delayed_drop(f->queue, &err));
	delayed_raw(f, "CREATE TABLE later_dead(id integer)");
	delayed_raw(f, "DROP TABLE later_dead");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	assert_false(delayed_has(f, "k"));
}

WHERRY_CASE(the_sql_that_makes_a_table_can_be_written_out, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *sql = NULL;

	WHERRY_PASS(wherry_delayed_create_sql("sqlite", "other", NULL, &sql, &err));
	assert_non_null(strstr(sql, "CREATE TABLE IF NOT EXISTS \"other\""));
	free(sql);
}

WHERRY_CASE(rows_out_of_range_are_refused_by_the_table, delayed_fixture *f)
{
	static const char *const wrong[] = {"'k', 'x', -1, 0, 0",
					    "'k', 'x', 0, 253402300800000, 0",
					    "'k', 'x', 0, 0, NULL", "NULL, 'x', 0, 0, 0"};
	char sql[400];

	for (int i = 0; i < 4; i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"INSERT INTO later(\"pKey\", \"pKind\", \"scheduledAt\", "
			"\"scheduledAtInitially\", \"createdAt\", payload) VALUES (%s, "
			"'\\x00')",
			wrong[i]);
		assert_false(f->backend->raw(f->place, f->db, sql, NULL, 0));
	}
}

const delayed_case delayed_keys_cases[] = {
	DELAYED_CASE(a_read_shows_a_future_message_and_locks_nothing),
	DELAYED_CASE(a_dropped_message_is_gone_also_if_it_is_leased),
	DELAYED_CASE(a_key_that_no_offer_takes_is_listed_read_and_dropped),
	DELAYED_CASE(dropping_all_needs_the_text_word_for_word),
	DELAYED_CASE(keys_are_listed_by_a_prefix_that_is_no_pattern),
	DELAYED_CASE(the_last_character_there_is_may_be_in_a_key),
	DELAYED_CASE(messages_are_dropped_by_prefix_but_for_those_that_were_polled),
	DELAYED_CASE(the_status_says_what_is_late_and_what_is_next),
	DELAYED_OWNER_CASE(creating_twice_changes_nothing),
	DELAYED_OWNER_CASE(creating_again_makes_an_index_that_is_missing),
	DELAYED_OWNER_CASE(a_table_that_is_not_there_is_named),
	DELAYED_OWNER_CASE(a_table_that_is_something_else_is_refused),
	DELAYED_OWNER_CASE(a_dropped_table_takes_everything_along),
	DELAYED_CASE(the_sql_that_makes_a_table_can_be_written_out),
	DELAYED_CASE(rows_out_of_range_are_refused_by_the_table),
	{NULL, NULL, false, false},
};
