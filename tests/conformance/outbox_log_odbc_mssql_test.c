/*
 * The outbox as a log on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "outbox_suite.h"

#include <pthread.h>
#include <unistd.h>

#include "mssql/backend.h"
#include "outbox/outbox.h"
#include "tsql.h"
#include "tsql_log.h"

static void drop(void *place)
{
	tsql_log_clear();
}

static void *make(void)
{
	static char place;

	tsql_log_clear();
	return &place;
}

/* The tables are there. */
static void note(void *place, const void *recipe)
{
	assert_true(mssql_raw(place, NULL, tsql_log_view, NULL, 0));
}

static wherry_db *connect(void *place)
{
	return tsql_connect();
}

static bool disconnect(wherry_db *db)
{
	tsql_disconnect(db);
	return true;
}

/* Time passes: no message gets another place, although its owner changes it.  Babelfish gives all rows of a statement one
 * version. */
static void keep_order(const char *sql, char *out, size_t cap)
{
	const char *value = strstr(sql, "created_at = ") + 13,
		   *where = strstr(value, " WHERE ");

	(void)snprintf(
		out, cap,
		"DECLARE @n INT = (SELECT COUNT(*) FROM outbox AS t JOIN outbox_progress AS p "
		"ON CONVERT(BIGINT, t.rv) <= p.high), @id BIGINT = (SELECT MIN(id) FROM outbox); "
		"WHILE @id IS NOT NULL BEGIN UPDATE outbox SET created_at = CASE WHEN %s THEN "
		"%.*s ELSE created_at END WHERE id = @id; SET @id = (SELECT MIN(id) FROM outbox "
		"WHERE id > @id) END; UPDATE outbox_progress SET high = (SELECT MAX(CONVERT(BIGINT, "
		"r.rv)) FROM (SELECT TOP (@n) rv FROM outbox ORDER BY rv) AS r) WHERE @n > 0",
		where ? where + 7 : "1 = 1",
		(int)(where ? where - value : (ptrdiff_t)strlen(value)), value);
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	char text[16384], ordered[20000];

	if (strstr(sql, "CREATE "))
		return tsql_raw(sql, out, cap);
	tsql_log_translate(sql, text, sizeof(text));
	if (strncmp(sql, "UPDATE outbox SET created_at = ", 31) != 0)
		return mssql_raw(place, NULL, text, out, cap);
	keep_order(text, ordered, sizeof(ordered));
	return mssql_raw(place, NULL, ordered, out, cap);
}

/* ---- what only SQL Server has ---- */

typedef struct settling {
	wherry_outbox *outbox;
	wherry_lease lease;
	wh_settlement what;
	wherry_code code;
	wherry_error err;
} settling;

static void *settle(void *ctx)
{
	settling *s = ctx;

	s->code = wh_store_settle(&s->outbox->store, &s->lease, &s->what, NULL, &s->err);
	return NULL;
}

/* Until a statement waits for the lock of another transaction. */
static void await_waiting(void)
{
	const char *sql =
		mssql_is_babelfish()
			? "SELECT COUNT(*) FROM pg_catalog.pg_stat_activity WHERE wait_event_type = N'Lock'"
			: "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_status = N'WAIT'";
	char n[20] = "0";

	for (int i = 0; i < 10000 && strcmp(n, "0") == 0; i++) {
		(void)usleep(2000);
		assert_true(mssql_raw(NULL, NULL, sql, n, sizeof(n)));
	}
	assert_string_not_equal(n, "0");
}

/* Another transaction makes message 1 an exception, while this one settles it. */
static void settle_meanwhile(const wh_settlement *what, const char *state)
{
	const wherry_outbox_options options = WHERRY_OUTBOX_OPTIONS(.layout = "log");
	wherry_db *db, *other;
	settling s = {.what = *what, .err = WHERRY_ERROR_INIT};
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t thread;
	char got[20];

	(void)make();
	db = tsql_connect();
	other = tsql_connect();
	WHERRY_PASS(wherry_outbox_create(db, "outbox", &options, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &s.outbox, &err));
	assert_true(mssql_raw(NULL, NULL,
			      "INSERT INTO outbox(topic, payload) VALUES (N't', N'')",
			      NULL, 0));
	WHERRY_PASS(wherry_outbox_lease(s.outbox, "a", 600000000, 8, &s.lease, &err));
	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(mssql_run(
		other,
		"INSERT INTO outbox_exception(subscription, id) VALUES (N'relay', 1)",
		NULL, 0, &err));
	assert_int_equal(pthread_create(&thread, NULL, settle, &s), 0);
	await_waiting();
	WHERRY_PASS(wherry_db_commit(other, &err));
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (s.code != WHERRY_OK)
		fail_msg("%s", s.err.message);
	assert_true(mssql_raw(NULL, NULL, "SELECT state FROM outbox_exception", got,
			      sizeof(got)));
	assert_string_equal(got, state);
	wherry_outbox_close(s.outbox);
	tsql_disconnect(db);
	tsql_disconnect(other);
	tsql_log_clear();
}

WHERRY_TEST(a_failure_meets_a_message_that_is_made_an_exception)
{
	const wherry_failure failure =
		WHERRY_FAILURE(.id = 1, .delay_us = 60000000, .error = "no answer");

	settle_meanwhile(&(wh_settlement){.failed = &failure, .n_failed = 1}, "3");
}

WHERRY_TEST(what_a_handler_did_meets_a_message_that_is_made_an_exception)
{
	const int64_t id = 1;

	settle_meanwhile(&(wh_settlement){.done = &id, .n_done = 1}, "2");
}

int main(void)
{
	static outbox_backend backend = {
		.name = "log",
		.layout = "log",
		.several = true,
		.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS |
			 NEEDS_REFUSAL | NEEDS_BYTES,
		.make = make,
		.drop = drop,
		.note = note,
		.connect = connect,
		.disconnect = disconnect,
		.raw = raw,
	};
	static const outbox_backend *const backends[] = {&backend};
	int failed;

	if (!tsql_start())
		return 0;
	if (mssql_is_babelfish())
		backend.lacks |= NEEDS_ESCAPES;
	failed = outbox_suite_run(backends, 1, wherry_tests_of_file()->all,
				  wherry_tests_of_file()->n);
	tsql_end();
	return failed;
}
