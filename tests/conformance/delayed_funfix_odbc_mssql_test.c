/*
 * The table of the JVM library DelayedQueue on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "delayed_funfix.h"
#include "mssql/backend.h"

#include "db/driver.h"

static const mssql_word words[] = {
	{"length(payload)", "DATALENGTH(payload)"},
	{"length(\"lockUuid\")", "LEN(\"lockUuid\")"},
	{"DROP INDEX later_time", "DROP INDEX later_time ON later"},
	{"'\\x00'", "0x00"},
	{NULL, NULL},
};

static const outbox_backend backend = {MSSQL_BACKEND};

static int make(void **state)
{
	*state = delayed_fixture_make(&backend, "funfix");
	return 0;
}

/* As the library makes it, in the database's collation, which here ignores case. */
static void the_library_makes_it(delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(f, "DROP TABLE later");
	delayed_raw(
		f,
		"CREATE TABLE [later] ([id] BIGINT IDENTITY(1,1) NOT NULL, [pKey] "
		"NVARCHAR(200) NOT NULL, [pKind] NVARCHAR(100) NOT NULL, [payload] "
		"VARBINARY(MAX) NOT NULL, [scheduledAt] BIGINT NOT NULL, "
		"[scheduledAtInitially] BIGINT NOT NULL, [lockUuid] VARCHAR(36) NULL, "
		"[createdAt] BIGINT NOT NULL); "
		"ALTER TABLE [later] ADD PRIMARY KEY ([id]); "
		"CREATE UNIQUE INDEX [later__PKindPKeyUniqueIndex] ON [later] ([pKind], [pKey]); "
		"CREATE INDEX [later__KindPlusScheduledAtIndex] ON [later]([pKind], "
		"[scheduledAt]); "
		"CREATE INDEX [later__LockUuidPlusIdIndex] ON [later]([lockUuid], [id])");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
}

static wherry_code offers(delayed_fixture *f, const char *const *keys, size_t n,
			  wherry_error *err)
{
	wherry_delayed_message msgs[8];

	for (size_t i = 0; i < n; i++)
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = "x",
						 .body_len = 1, .at_us = f->now_us);
	return n == 1 ? wherry_delayed_offer(f->queue, msgs, NULL, err)
		      : wherry_delayed_offer_many(f->queue, msgs, n, NULL, err);
}

/* An update would replace a message of another key. */
WHERRY_CASE(an_offer_of_a_key_that_the_table_takes_for_another_is_refused,
	    delayed_fixture *f)
{
	static const char *const both[] = {"new", "NEW"}, *const one[] = {"k", "j", "K"};
	wherry_error err = WHERRY_ERROR_INIT;

	the_library_makes_it(f);
	assert_int_equal(delayed_offer(f, "k", "a", 0), WHERRY_CREATED);
	WHERRY_FAILS(WHERRY_DUPLICATE, offers(f, (const char *[]){"K"}, 1, &err));
	assert_non_null(strstr(err.message, "choose another key"));
	WHERRY_FAILS(WHERRY_DUPLICATE, offers(f, (const char *[]){"k "}, 1, &err));
	WHERRY_FAILS(WHERRY_DUPLICATE, offers(f, both, 2, &err));
	assert_non_null(strstr(err.message, "choose another key"));
	WHERRY_FAILS(WHERRY_DUPLICATE, offers(f, one, 3, &err));
	assert_int_equal(delayed_int(f, "SELECT COUNT(*) FROM later"), 1);
	assert_string_equal(delayed_body(f, "k"), "a");
	assert_int_equal(delayed_offer(f, "k", "b", 0), WHERRY_UPDATED);
}

/* And where it is not there, it is not: no look at it and no drop finds another one. */
WHERRY_CASE(a_key_finds_no_message_of_a_key_that_is_equal_to_the_table,
	    delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};
	bool found = true;
	int64_t n = -1;

	the_library_makes_it(f);
	(void)delayed_offer(f, "Key", "a", 9);
	assert_false(delayed_has(f, "key"));
	assert_false(delayed_has(f, "Key "));
	assert_null(delayed_body(f, "KEY"));
	WHERRY_PASS(wherry_delayed_drop_key(f->queue, "key", &found, &err));
	assert_false(found);
	WHERRY_PASS(wherry_delayed_list(f->queue, &WHERRY_DELAYED_FILTER(.prefix = "k"),
					delayed_note, &got, &err));
	assert_int_equal(got.n, 0);
	WHERRY_PASS(wherry_delayed_drop_many(
		f->queue, &WHERRY_DELAYED_FILTER(.prefix = "ke"), &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wherry_delayed_drop_many(
		f->queue, &WHERRY_DELAYED_FILTER(.prefix = "Ke"), &n, &err));
	assert_int_equal(n, 1);
}

/* Names of queues become MD5 sums, of which no two are equal to any collation. */
WHERRY_CASE(queues_whose_names_differ_in_case_or_blanks_are_apart, delayed_fixture *f)
{
	static const char *const names[] = {"My-Queue", "my-queue ", "MY-QUEUE"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *other = NULL;

	the_library_makes_it(f);
	(void)delayed_offer(f, "k", "a", 0);
	for (int i = 0; i < 3; i++) {
		bool found = true;

		WHERRY_PASS(wherry_delayed_open(f->db, "later", names[i],
						"java.lang.String", &other, &err));
		WHERRY_PASS(wherry_delayed_contains(other, "k", &found, &err));
		assert_false(found);
		WHERRY_PASS(wherry_delayed_offer(
			other,
			&WHERRY_DELAYED_MESSAGE(.key = "k", .body = "b", .body_len = 1),
			NULL, &err));
		wherry_delayed_close(other);
	}
	assert_int_equal(delayed_int(f, "SELECT COUNT(*) FROM later"), 4);
	(void)delayed_polls(f, 9, "a");
}

/* Two dead messages whose keys the table cannot tell apart: one of them stays dead. */
WHERRY_CASE(a_dead_message_whose_key_the_table_takes_for_another_stays,
	    delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -1;

	the_library_makes_it(f);
	delayed_raw(f,
		    "INSERT INTO later_dead(id, \"pKey\", \"pKind\", payload, "
		    "\"scheduledAtInitially\", \"createdAt\", attempts, died_at) "
		    "SELECT n, k, N'7ab2b0dfa43e1a1f12169da88468fb53', 0x61, 1, 1, 1, 1 "
		    "FROM (VALUES (1, N'k'), (2, N'K'), (3, N'j')) AS v(n, k)");
	WHERRY_PASS(wherry_delayed_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 2);
	delayed_counts(f, "2 0 0 1");
}

/* The column has 200 units of UTF-16. */
WHERRY_CASE(a_key_that_the_table_has_no_room_for_is_refused, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char wide[4 * 101 + 1] = "", narrow[201];
	const char *keys[] = {"a", wide};

	for (int i = 0; i < 101; i++)
		(void)snprintf(wide + 4 * i, 5, "\xf0\x9f\x98\x80");
	memset(narrow, 'n', 200);
	narrow[200] = 0;
	assert_int_equal(delayed_offer(f, narrow, "a", 0), WHERRY_CREATED);
	WHERRY_FAILS(WHERRY_TOOBIG, offers(f, &keys[1], 1, &err));
	assert_non_null(strstr(err.message, "200 units of UTF-16"));
	WHERRY_FAILS(WHERRY_TOOBIG, offers(f, keys, 2, &err));
	assert_false(delayed_has(f, wide));
	wide[400] = 0;
	assert_int_equal(delayed_offer(f, wide, "b", 0), WHERRY_CREATED);
	assert_string_equal(delayed_body(f, wide), "b");
}

/* Where we make the table, only blanks at the end are ignored. */
WHERRY_CASE(a_table_of_ours_tells_cases_apart, delayed_fixture *f)
{
	static const char *const keys[] = {"k", "K", "\xc3\xab", "\xc3\x8b"};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(offers(f, keys, 4, &err));
	for (int i = 0; i < 4; i++)
		assert_int_equal(delayed_offer(f, keys[i], keys[i], 0), WHERRY_UPDATED);
	assert_string_equal(delayed_body(f, "K"), "K");
	WHERRY_FAILS(WHERRY_DUPLICATE, offers(f, (const char *[]){"k "}, 1, &err));
}

/* A caught error must not end the caller's transaction, nor must one that is returned. */
WHERRY_CASE(an_offer_that_is_refused_leaves_the_transaction_as_it_is, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	the_library_makes_it(f);
	(void)delayed_offer(f, "k", "a", 0);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(delayed_offer(f, "j", "b", 0), WHERRY_CREATED);
	assert_int_equal(delayed_offer_absent(f, "k", "c", 0), WHERRY_IGNORED);
	WHERRY_FAILS(WHERRY_DUPLICATE, offers(f, (const char *[]){"K"}, 1, &err));
	assert_int_equal(delayed_offer(f, "k", "d", 0), WHERRY_UPDATED);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	(void)delayed_polls(f, 9, "d b");
}

/* A poll, an acknowledgement and a return write to two tables, also in a transaction of the caller's. */
WHERRY_CASE(what_a_transaction_polled_and_gave_back_is_rolled_back_with_it,
	    delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const delayed_got *got;
	wherry_ack_outcome out;
	const char *token;

	(void)delayed_offer(f, "a", "1", 0);
	(void)delayed_offer(f, "b", "2", 0);
	(void)delayed_polls(f, 9, "1 2");
	delayed_pass(f, 10);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	got = delayed_polls(f, 9, "1 2");
	assert_int_equal(got->attempts[0], 2);
	delayed_acks(f, got->tokens[0], WHERRY_ACKNOWLEDGED);
	token = got->tokens[1];
	WHERRY_PASS(wherry_delayed_nack(f->queue, &token, 1, 0, "no", &out, &err));
	assert_int_equal(out, WHERRY_ACKNOWLEDGED);
	wherry_db_rollback(f->db);
	assert_int_equal(delayed_int(f, "SELECT COUNT(*) FROM later_tries"), 0);
	assert_int_equal(delayed_polls(f, 9, "1 2")->attempts[1], 2);
}

/* A batch that begins a transaction must not leave it open. */
WHERRY_CASE(a_table_that_is_missing_leaves_no_transaction_open, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};
	char open[20] = "";

	(void)delayed_offer(f, "k", "a", 0);
	delayed_raw(f, "EXEC sp_rename 'later_tries', 'elsewhere', 'OBJECT'");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_poll(f->queue, NULL, delayed_note, &got, NULL, &err));
	WHERRY_PASS(mssql_run(f->db, "SELECT @@TRANCOUNT", open, sizeof(open), &err));
	assert_string_equal(open, "0");
	delayed_raw(f, "EXEC sp_rename 'elsewhere', 'later_tries', 'OBJECT'");
	(void)delayed_polls(f, 9, "a");
}

WHERRY_CASE(the_sql_that_is_printed_makes_a_table, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	char *sql = NULL;

	WHERRY_PASS(wherry_delayed_create_sql("mssql", "printed", "funfix", &sql, &err));
	WHERRY_PASS(wh_db_script(f->db, sql, &err));
	free(sql);
	WHERRY_PASS(wherry_delayed_open(f->db, "printed", "q", NULL, &queue, &err));
	wherry_delayed_close(queue);
}

WHERRY_CASE(an_index_that_is_missing_is_made, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(f, "DROP INDEX \"later__PKindPKeyUniqueIndex\" ON later");
	delayed_raw(f, "DROP INDEX \"later__KindPlusScheduledAtIndex\" ON later");
	delayed_raw(f, "CREATE INDEX another ON later(\"pKind\", \"scheduledAt\")");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	delayed_raw(f, "DROP INDEX \"later__PKindPKeyUniqueIndex\" ON later");
	assert_int_equal(delayed_int(f,
				     "SELECT COUNT(*) FROM sys.indexes WHERE object_id "
				     "= OBJECT_ID(N'later') AND index_id > 0"),
			 3);
}

#define MSSQL_CASE(name) FUNFIX_CASE(name, make)

int main(void)
{
	static const outbox_backend *const backends[] = {&backend};
	static const struct CMUnitTest more[] = {
		FUNFIX_CASES(make) MSSQL_CASE(
			an_offer_of_a_key_that_the_table_takes_for_another_is_refused),
		MSSQL_CASE(a_key_finds_no_message_of_a_key_that_is_equal_to_the_table),
		MSSQL_CASE(queues_whose_names_differ_in_case_or_blanks_are_apart),
		MSSQL_CASE(a_dead_message_whose_key_the_table_takes_for_another_stays),
		MSSQL_CASE(a_key_that_the_table_has_no_room_for_is_refused),
		MSSQL_CASE(a_table_of_ours_tells_cases_apart),
		MSSQL_CASE(an_offer_that_is_refused_leaves_the_transaction_as_it_is),
		MSSQL_CASE(
			what_a_transaction_polled_and_gave_back_is_rolled_back_with_it),
		MSSQL_CASE(a_table_that_is_missing_leaves_no_transaction_open),
		MSSQL_CASE(the_sql_that_is_printed_makes_a_table),
		MSSQL_CASE(an_index_that_is_missing_is_made),
	};
	static const char *const lacks[] = {FUNFIX_LACKS, FUNFIX_MSSQL_LACKS, NULL};
	/* As of native delayed queues. */
	static const char *const of_babelfish[] = {
		FUNFIX_LACKS, FUNFIX_MSSQL_LACKS,
		"of_pollers_at_once_each_gets_a_message_while_there_are_some",
		"a_try_that_takes_too_long_is_ended", NULL};

	if (!mssql_start(words))
		return 0;
	return delayed_suite_run("funfix", mssql_is_babelfish() ? of_babelfish : lacks,
				 backends, 1, more, sizeof(more) / sizeof(*more));
}
