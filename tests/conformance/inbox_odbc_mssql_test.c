/*
 * The inbox on the SQL Server that WHERRY_TEST_MSSQL names.  The tables of these tests are dropped
 * from its database.
 */
#include "inbox_suite.h"

#include <poll.h>
#include <pthread.h>

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

static void a_message_is_accepted_by_one_of_two_at_once(void **state)
{
	(void)state;
	second_of_two(true, false);
}

static void a_message_is_left_to_the_second_if_the_first_rolls_back(void **state)
{
	(void)state;
	second_of_two(false, true);
}

/* As many_are_accepted_at_once, without characters that JSON escapes. */
static void many_are_accepted_at_once_without_escapes(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);
	wherry_inbox *inbox = NULL;
	const char *const ids[] = {"z", "b ", "a", "b ", "\xc3\xab", "b"};
	const bool wanted[] = {true, true, false, false, true, true};
	bool new[6] = {false};

	(void)state;
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

int main(void)
{
	static outbox_backend backend = {MSSQL_BACKEND};
	static const outbox_backend *const backends[] = {&backend};
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(a_message_is_accepted_by_one_of_two_at_once),
		cmocka_unit_test(a_message_is_left_to_the_second_if_the_first_rolls_back),
		cmocka_unit_test(many_are_accepted_at_once_without_escapes),
	};

	if (!mssql_start(words))
		return 0;
	if (mssql_is_babelfish())
		backend.lacks |= NEEDS_ESCAPES;
	return inbox_suite_run(backends, 1, more, sizeof(more) / sizeof(*more));
}
