/*
 * The inbox on the SQL Server that WHERRY_TEST_MSSQL names.  The tables of these tests are dropped
 * from its database.
 */
#include "inbox_suite.h"

#include <poll.h>
#include <pthread.h>

#include "db/driver.h"

static const char *url;

/* FreeTDS keeps some of what it allocates for a connection.  The leak sanitizer asks for this
 * function by its name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(
	void); /* NOLINT(*-reserved-identifier) */

const char *__lsan_default_suppressions(void) /* NOLINT(*-reserved-identifier) */
{
	return "leak:libtdsodbc.so";
}

static wherry_db *connect(void *place)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;

	(void)place;
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", "30s", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return db;
}

static bool disconnect(wherry_db *db)
{
	wherry_db_close(db);
	return true;
}

static void drop(void *place)
{
	static const char sql[] =
		"DROP TABLE IF EXISTS inbox; DROP TABLE IF EXISTS other; "
		"DROP TABLE IF EXISTS seen; DROP TABLE IF EXISTS wherry_schema; "
		"DROP TABLE IF EXISTS wherry_clock";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = connect(place);

	WHERRY_PASS(wh_db_script(db, sql, &err));
	wherry_db_close(db);
}

static void *make(void)
{
	static char place;

	drop(&place);
	return &place;
}

typedef struct answer {
	char *out;
	size_t cap;
} answer;

static wherry_code take(void *ctx, const wh_row *row, wherry_error *err)
{
	answer *a = ctx;
	const char *text = wh_row_text(row, 0);

	(void)err;
	if (a->out)
		(void)snprintf(a->out, a->cap, "%s", text ? text : "");
	return WHERRY_OK;
}

/* The suite subtracts milliseconds from a time, which T-SQL writes otherwise. */
static const char *in_tsql(const char *sql)
{
	return strstr(sql, "accepted_at - 3600000")
		       ? "UPDATE inbox SET accepted_at = DATEADD(MILLISECOND, -3600000, "
			 "accepted_at) WHERE message_id < N'm3'"
		       : sql;
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	wherry_db *other = connect(place);
	wherry_error err = WHERRY_ERROR_INIT;
	answer a = {out, cap};
	wh_stmt stmt;
	wh_sql all = {NULL, &stmt, 1};
	wherry_code code;

	(void)db;
	WHERRY_PASS(wh_stmt_make("mssql", "raw", in_tsql(sql), &stmt, &err));
	code = wh_db_run(other, &stmt, NULL, 0, take, &a, NULL, &err);
	if (code != WHERRY_OK)
		print_error("%s\n", err.message);
	wh_db_forget(other, &all);
	wh_stmt_clear(&stmt);
	wherry_db_close(other);
	return code == WHERRY_OK;
}

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
	void *place = make();
	wherry_db *db = connect(place);
	wherry_inbox *inbox = NULL;
	second s = {.db = connect(place)};
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
	drop(place);
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
	void *place = make();
	wherry_db *db = connect(place);
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
	drop(place);
}

/* Babelfish 4.3 leaves the escapes \" and \\ in what OPENJSON returns. */
static bool is_babelfish(void)
{
	char version[400] = "";

	assert_true(raw(NULL, NULL, "SELECT @@VERSION", version, sizeof(version)));
	return strncmp(version, "Babelfish", 9) == 0;
}

int main(void)
{
	static outbox_backend backend = {
		.name = "mssql",
		.several = true,
		.lacks = NEEDS_MODELS,
		.make = make,
		.drop = drop,
		.connect = connect,
		.disconnect = disconnect,
		.raw = raw,
	};
	static const outbox_backend *const backends[] = {&backend};
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(a_message_is_accepted_by_one_of_two_at_once),
		cmocka_unit_test(a_message_is_left_to_the_second_if_the_first_rolls_back),
		cmocka_unit_test(many_are_accepted_at_once_without_escapes),
	};

	url = getenv("WHERRY_TEST_MSSQL");
	if (!url || !*url) {
		(void)printf("1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no "
			     "server\n");
		return 0;
	}
	if (is_babelfish())
		backend.lacks |= NEEDS_ESCAPES;
	return inbox_suite_run(backends, 1, more, sizeof(more) / sizeof(*more));
}
