/*
 * The inbox on the SQL Server that WHERRY_TEST_MSSQL names.  The tables of these tests are dropped
 * from its database.
 */
#include "inbox_suite.h"

#include <poll.h>
#include <pthread.h>

#include "db/driver.h"
#include "mssql/backend.h"

/* The suite subtracts milliseconds from a time, which T-SQL writes otherwise. */
static const mssql_word words[] = {
	{"accepted_at - 3600000", "DATEADD(MILLISECOND, -3600000, accepted_at)"},
	{NULL, NULL},
};

/* ---- two at once ---- */

typedef struct second {
	wherry_db *db;
	wherry_inbox *inbox;
	wherry_code code;
	bool new;
} second;

static void *accept_second(void *ctx)
{
	second *s = ctx;
	wherry_error err = WHERRY_ERROR_INIT;

	s->code = wherry_db_begin(s->db, &err);
	if (s->code == WHERRY_OK)
		s->code = wherry_inbox_accept(s->inbox, "c", "m1", &s->new, &err);
	if (s->code == WHERRY_OK)
		s->code = wherry_db_commit(s->db, &err);
	if (s->code != WHERRY_OK)
		print_error("%s\n", err.message);
	return NULL;
}

/* The result does not depend on whether the second was waiting already when the first ended. */
static void second_of_two(bool commits, bool wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);
	wherry_inbox *inbox = NULL;
	second s = {.db = mssql_connect(place)};
	pthread_t thread;
	bool new = false;

	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(wherry_inbox_open(db, NULL, &inbox, &err));
	WHERRY_PASS(wherry_inbox_open(s.db, NULL, &s.inbox, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wherry_inbox_accept(inbox, "c", "m1", &new, &err));
	assert_true(new);
	assert_int_equal(pthread_create(&thread, NULL, accept_second, &s), 0);
	(void)poll(NULL, 0, 50);
	if (commits)
		WHERRY_PASS(wherry_db_commit(db, &err));
	else
		wherry_db_rollback(db);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(s.code, WHERRY_OK);
	assert_int_equal(s.new, wanted);
	wherry_inbox_close(s.inbox);
	wherry_inbox_close(inbox);
	wherry_db_close(s.db);
	wherry_db_close(db);
	mssql_drop(place);
}

WHERRY_TEST(a_message_is_accepted_by_one_of_two_at_once)
{
	second_of_two(true, false);
}

WHERRY_TEST(a_message_is_left_to_the_second_if_the_first_rolls_back)
{
	second_of_two(false, true);
}

/* As many_are_accepted_at_once, without characters that JSON escapes. */
WHERRY_TEST(many_are_accepted_at_once_without_escapes)
{
	wherry_error err = WHERRY_ERROR_INIT;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);
	wherry_inbox *inbox = NULL;
	const char *const ids[] = {"z", "b ", "a", "b ", "\xc3\xab", "b"};
	const bool wanted[] = {true, true, false, false, true, true};
	bool new[6] = {false};

	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(wherry_inbox_open(db, NULL, &inbox, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wherry_inbox_accept(inbox, "c", "a", &new[0], &err));
	assert_true(new[0]);
	WHERRY_PASS(wherry_inbox_accept_many(inbox, "c", ids, 6, new, &err));
	assert_memory_equal(new, wanted, sizeof(wanted));
	WHERRY_PASS(wherry_inbox_accept_many(inbox, "c", ids, 6, new, &err));
	for (int i = 0; i < 6; i++)
		assert_false(new[i]);
	WHERRY_PASS(wherry_db_commit(db, &err));
	wherry_inbox_close(inbox);
	wherry_db_close(db);
	mssql_drop(place);
}

static void says(const char *sql, const char *wanted)
{
	char answer[64] = "";

	assert_true(mssql_raw(NULL, NULL, sql, answer, sizeof(answer)));
	assert_string_equal(answer, wanted);
}

/* The number of ids that the procedure deletes with these arguments. */
static void purges(const char *arguments, const char *wanted)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "DECLARE @n BIGINT; EXEC wherry_inbox_purge %s, @n = @n OUTPUT; "
		       "SELECT @n",
		       arguments);
	says(sql, wanted);
}

static void refuses(wherry_db *db, const char *sql, const char *reason)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_int_not_equal(wh_db_script(db, sql, &err), WHERRY_OK);
	assert_non_null(strstr(err.message, reason));
}

WHERRY_TEST(a_program_purges_by_sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);

	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(wherry_inbox_create(db, "Other one", &err));
	WHERRY_PASS(wh_db_script(
		db,
		"WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 2500) "
		"INSERT INTO inbox(message_id, accepted_at) SELECT CONCAT('old ', i), "
		"DATEADD(DAY, -31, SYSUTCDATETIME()) FROM n OPTION (MAXRECURSION 0); "
		"INSERT INTO inbox(message_id) VALUES ('new 1'), ('new 2'); "
		"SELECT * INTO no_inbox FROM inbox; INSERT INTO \"Other one\"(message_id, "
		"accepted_at) SELECT message_id, accepted_at FROM inbox",
		&err));
	purges("3153600000000", "0");
	purges("9000000000000000000", "0");
	purges("2592000000", "2500");
	purges("2592000000", "0");
	says("SELECT COUNT(*) FROM inbox", "2");
	purges("0, 'Other one'", "2502");
	refuses(db, "EXEC wherry_inbox_purge NULL", "must be 0 or more");
	refuses(db, "EXEC wherry_inbox_purge -1", "must be 0 or more");
	refuses(db, "EXEC wherry_inbox_purge 0, 'no_inbox'", "no inbox");
	refuses(db, "EXEC wherry_inbox_purge 0, 'inbox; DROP TABLE inbox'", "no inbox");
	says("SELECT COUNT(*) FROM no_inbox", "2502");
	wherry_db_close(db);
	mssql_drop(place);
}

/* As part of the caller's transaction. */
WHERRY_TEST(a_purge_by_sql_is_rolled_back)
{
	wherry_error err = WHERRY_ERROR_INIT;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);

	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(
		wh_db_script(db, "INSERT INTO inbox(message_id) VALUES ('m1')", &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "EXEC wherry_inbox_purge 0", &err));
	wherry_db_rollback(db);
	says("SELECT COUNT(*) FROM inbox", "1");
	wherry_db_close(db);
	mssql_drop(place);
}

/* An inbox that was made before it had the procedure; and the last inbox takes it along. */
WHERRY_TEST(a_procedure_that_is_missing_is_made)
{
	wherry_error err = WHERRY_ERROR_INIT;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);
	wherry_inbox *inbox = NULL;

	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(wh_db_script(db, "DROP PROCEDURE wherry_inbox_purge", &err));
	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	purges("0", "0");
	WHERRY_PASS(wherry_inbox_open(db, NULL, &inbox, &err));
	WHERRY_PASS(wherry_inbox_drop(inbox, &err));
	wherry_inbox_close(inbox);
	says("SELECT COUNT(*) FROM sys.procedures WHERE name = 'wherry_inbox_purge'",
	     "0");
	wherry_db_close(db);
	mssql_drop(place);
}

int main(void)
{
	static outbox_backend backend = {MSSQL_BACKEND};
	static const outbox_backend *const backends[] = {&backend};
	if (!mssql_start(words))
		return 0;
	if (mssql_is_babelfish())
		backend.lacks |= NEEDS_ESCAPES;
	return inbox_suite_run(backends, 1, wherry_tests_of_file()->all,
			       wherry_tests_of_file()->n);
}
