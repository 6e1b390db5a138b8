/*
 * The outbox on SQLite, in each of its three ways; and the schema that it makes there.
 */
#include "outbox_sqlite.h"

#include <wherry/sqlite.h>

#define SCHEMA                                                                           \
	"SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || "          \
	"ifnull(sql, ''), x'0a') FROM (SELECT * FROM sqlite_schema ORDER BY name)"

static void the_sql_of_create_makes_what_create_makes(void **state)
{
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *first = NULL, *other = NULL;
	wherry_db *db = NULL;
	char *sql = NULL;

	(void)state;
	WHERRY_PASS(wherry_outbox_create_sql("sqlite", "outbox", NATIVE, &sql, &err));
	assert_int_equal(sqlite3_open(":memory:", &first), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(first, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	wherry_db_close(db);
	assert_true(outbox_sqlite_run(first, SCHEMA, made, sizeof(made)));
	assert_int_equal(sqlite3_close(first), SQLITE_OK);
	assert_int_equal(sqlite3_open(":memory:", &other), SQLITE_OK);
	for (int i = 0; i < 2; i++) {
		assert_true(outbox_sqlite_run(other, sql, NULL, 0));
		assert_true(outbox_sqlite_run(other, SCHEMA, run, sizeof(run)));
		assert_true(strlen(run) > 1000);
		assert_string_equal(run, made);
	}
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	free(sql);
}

static void a_refused_create_leaves_no_trace(void **state)
{
	static const char *const names[] = {"events",   "shop", "wherry_lease",
					    "sqlite_x", "1",    NULL};
	static char before[8192], after[8192];
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	assert_true(outbox_sqlite_run(
		handle, "CREATE TABLE events(id, topic); CREATE TABLE shop_archive(id)",
		NULL, 0));
	assert_true(outbox_sqlite_run(handle, SCHEMA, before, sizeof(before)));
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	for (int i = 0; names[i]; i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_create(db, names[i], NATIVE, &err));
		assert_true(outbox_sqlite_run(handle, SCHEMA, after, sizeof(after)));
		assert_string_equal(after, before);
		assert_true(sqlite3_get_autocommit(handle));
	}
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static int count_work(void *ctx)
{
	++*(int64_t *)ctx;
	return 0;
}

static wherry_code see(void *ctx, const wherry_message *msg)
{
	(void)ctx;
	(void)msg;
	return WHERRY_OK;
}

/* What SQLite does for a claim in vain, of either kind, in tens of its instructions. */
static int64_t work_of_claims(sqlite3 *handle, wherry_outbox *outbox)
{
	const wherry_claim_options options =
		WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = 1000000);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};
	int64_t work = 0, n = 0;

	WHERRY_PASS(wherry_outbox_join(outbox, "a", 60000000, &lease, &err));
	sqlite3_progress_handler(handle, 10, count_work, &work);
	WHERRY_PASS(wherry_outbox_claim(outbox, &lease, &options, see, NULL, &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wherry_outbox_claim_expired(outbox, &lease, &options, see, NULL, &n,
						&err));
	assert_int_equal(n, 0);
	sqlite3_progress_handler(handle, 0, NULL, NULL);
	return work;
}

static void what_is_not_due_is_not_looked_at(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;
	int64_t few, many;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	few = work_of_claims(handle, outbox);
	assert_true(outbox_sqlite_run(
		handle,
		"INSERT INTO outbox(topic, payload, status, claim_token, next_retry_at) "
		"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i "
		"< 4000) SELECT 't', '', 1 + 2 * (i % 2), 'a', 9000000000000 FROM c",
		NULL, 0));
	many = work_of_claims(handle, outbox);
	assert_in_range((uint64_t)many, 1, (uint64_t)(2 * few + 100));
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static wherry_code count_visits(void *ctx, const wherry_message *msg)
{
	assert_string_equal(msg->topic, "good");
	++*(int *)ctx;
	return WHERRY_OK;
}

/* A program that claims gets none of the rows that a relay would not handle either. */
static void a_row_that_cannot_be_handled_dies_and_is_not_claimed(void **state)
{
	static const char *const bad[][2] = {
		{"topic) VALUES ('', CAST(x'ff' AS TEXT))", "topic is not UTF-8"},
		{"trace_id, topic) VALUES ('', 'a' || char(0) || 'b', 't')",
		 "trace_id has a NUL character"},
		{"attempts, topic) VALUES ('', -1, 't')",
		 "attempts is -1, the limit is 1000000000"},
		{"generation, topic) VALUES ('', 'x', 't')",
		 "generation is not an integer"},
		{"created_at, topic) VALUES ('', -1, 't')",
		 "created_at is not between the years 1970 and 9999"},
	};
	enum { N_BAD = sizeof(bad) / sizeof(*bad) };
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_lease lease = {.epoch = 0};
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;
	char text[200];
	int visits = 0;
	int64_t n;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	assert_true(outbox_sqlite_run(handle, "PRAGMA ignore_check_constraints = ON",
				      NULL, 0));
	for (int i = 0; i < N_BAD; i++) {
		(void)snprintf(text, sizeof(text), "INSERT INTO outbox(payload, %s",
			       bad[i][0]);
		assert_true(outbox_sqlite_run(handle, text, NULL, 0));
	}
	assert_true(outbox_sqlite_run(
		handle, "INSERT INTO outbox(topic, payload) VALUES ('good', '')", NULL,
		0));
	WHERRY_PASS(wherry_outbox_join(outbox, "one", 60000000, &lease, &err));
	WHERRY_PASS(wherry_outbox_claim(
		outbox, &lease, &WHERRY_CLAIM_OPTIONS(.limit = 100, .lasts_us = 60000000),
		count_visits, &visits, &n, &err));
	assert_int_equal(visits, 1);
	assert_int_equal(n, 1);
	for (int i = 0; i < N_BAD; i++) {
		char sql[100];

		(void)snprintf(
			sql, sizeof(sql),
			"SELECT last_error FROM outbox WHERE status = 4 AND id = %d",
			i + 1);
		assert_true(outbox_sqlite_run(handle, sql, text, sizeof(text)));
		assert_string_equal(text, bad[i][1]);
	}
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static void the_message_of_a_missing_index_names_it(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	sqlite3 *handle = NULL;
	wherry_status status;
	wherry_db *db = NULL;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	assert_true(outbox_sqlite_run(handle, "DROP INDEX outbox_open", NULL, 0));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_status(outbox, &status, sizeof(wherry_status), &err));
	assert_string_equal(err.message,
			    "the index 'outbox_open' of outbox 'outbox' is missing");
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	WHERRY_PASS(wherry_outbox_status(outbox, &status, sizeof(wherry_status), &err));
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

int main(void)
{
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sql_of_create_makes_what_create_makes),
		cmocka_unit_test(a_refused_create_leaves_no_trace),
		cmocka_unit_test(what_is_not_due_is_not_looked_at),
		cmocka_unit_test(a_row_that_cannot_be_handled_dies_and_is_not_claimed),
		cmocka_unit_test(the_message_of_a_missing_index_names_it),
	};

	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends), tests,
				sizeof(tests) / sizeof(*tests));
}
