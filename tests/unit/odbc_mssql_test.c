/*
 * The driver for SQL Server on the server that WHERRY_TEST_MSSQL names, an mssql: URL of a
 * database in which tables may be made and dropped.
 */
#include "wherry_test.h"

#include <pthread.h>
#include <sched.h>
#include <sql.h>
#include <sqlext.h>
#include <stdatomic.h>

#include <wherry/odbc.h>

#include "db/driver.h"
#include "db/odbc/odbc.h"

static const char *url;

/* unixODBC and FreeTDS keep some of what they allocate for a connection.  The leak sanitizer
 * asks for this function by its name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(
	void); /* NOLINT(*-reserved-identifier) */

const char *__lsan_default_suppressions(void) /* NOLINT(*-reserved-identifier) */
{
	return "leak:libtdsodbc.so";
}

static wherry_db *open_it(const char *wait)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", wait, &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return db;
}

/* The values of the last row that was visited. */
typedef struct seen {
	int n;
	int64_t number;
	bool null;
	char *bytes;
	size_t len;
} seen;

static wherry_code see(void *ctx, const wh_row *row, wherry_error *err)
{
	seen *s = ctx;
	wh_view v = wh_row_bytes(row, 0);

	free(s->bytes);
	s->n++;
	s->number = wh_row_int(row, 0);
	s->null = !v.ptr;
	s->len = v.len;
	s->bytes = v.ptr ? malloc(v.len + 1) : NULL;
	if (s->bytes)
		memcpy(s->bytes, v.ptr, v.len);
	return WHERRY_OK;
}

static wherry_code run(wherry_db *db, const char *sql, const wh_param *params, size_t n,
		       seen *out, int64_t *changed, wherry_error *err)
{
	wh_stmt stmt;
	wh_sql all = {.stmts = &stmt, .n = 1};
	wherry_code code = wh_stmt_make("mssql", "test", sql, &stmt, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_db_run(db, &stmt, params, n, out ? see : NULL, out, changed, err);
	wh_db_forget(db, &all);
	wh_stmt_clear(&stmt);
	return code;
}

static int64_t count(wherry_db *db, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {0};

	WHERRY_PASS(run(db, sql, NULL, 0, &s, NULL, &err));
	free(s.bytes);
	return s.number;
}

static int set_up(void **state)
{
	static const char sql[] =
		"DROP TABLE IF EXISTS wherry_probe; "
		"CREATE TABLE wherry_probe(id BIGINT PRIMARY KEY, t NVARCHAR(MAX), "
		"b VARBINARY(MAX), d DATETIME2(3), o DATETIMEOFFSET(3))";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = open_it("200ms");

	WHERRY_PASS(wh_db_script(db, sql, &err));
	*state = db;
	return 0;
}

static int tear_down(void **state)
{
	(void)wh_db_script(*state, "DROP TABLE IF EXISTS wherry_probe", NULL);
	wherry_db_close(*state);
	return 0;
}

static void text_comes_back(wherry_db *db, const char *text, size_t len)
{
	const wh_param params[] = {WH_TEXT_PARAM("t", ((wh_view){text, len}))};
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {0};

	WHERRY_PASS(run(db,
			"DELETE FROM wherry_probe; "
			"INSERT INTO wherry_probe(id, t) VALUES (1, :t); "
			"SELECT t FROM wherry_probe",
			params, 1, &s, NULL, &err));
	assert_int_equal(s.n, 1);
	assert_int_equal(s.len, len);
	assert_memory_equal(s.bytes, text, len);
	free(s.bytes);
}

WHERRY_TEST_WITH(texts_come_back_as_they_were, set_up, tear_down)
{
	enum { LONG = 300000 };
	char *many = malloc(LONG);

	assert_non_null(many);
	text_comes_back(*state, "", 0);
	text_comes_back(*state, "Grüße, 世界", strlen("Grüße, 世界"));
	text_comes_back(*state, "🚣 \xf4\x8f\xbf\xbd", strlen("🚣 \xf4\x8f\xbf\xbd"));
	for (size_t i = 0; i < LONG; i += 4) /* pieces end within a pair */
		memcpy(many + i, i == 0 ? "abcd" : "\xf0\x9f\x9a\xa3", 4);
	memcpy(many, "abc\n", 4);
	text_comes_back(*state, many, LONG);
	text_comes_back(*state, many + 3, 4001);
	free(many);
}

WHERRY_TEST_WITH(bytes_come_back_as_they_were, set_up, tear_down)
{
	static const size_t lengths[] = {0, 1, 256, 8000, 8001, 300000};
	wherry_error err = WHERRY_ERROR_INIT;
	char *bytes = malloc(300000);

	assert_non_null(bytes);
	for (size_t i = 0; i < 300000; i++)
		bytes[i] = (char)(i * 7);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		const wh_param params[] = {
			WH_BLOB_PARAM("b", ((wh_view){bytes, lengths[i]}))};
		seen s = {0};

		WHERRY_PASS(run(*state,
				"DELETE FROM wherry_probe; "
				"INSERT INTO wherry_probe(id, b) VALUES (1, :b); "
				"SELECT b FROM wherry_probe",
				params, 1, &s, NULL, &err));
		assert_false(s.null);
		assert_int_equal(s.len, lengths[i]);
		assert_memory_equal(s.bytes, bytes, s.len);
		free(s.bytes);
	}
	free(bytes);
}

WHERRY_TEST_WITH(numbers_have_64_bits, set_up, tear_down)
{
	static const int64_t numbers[] = {0, -1, INT64_MAX, INT64_MIN,
					  INT64_C(9007199254740993)};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const wh_param params[] = {WH_INT_PARAM("n", numbers[i])};
		seen s = {0};

		WHERRY_PASS(run(*state,
				"INSERT INTO wherry_probe(id) VALUES (:n); "
				"SELECT id FROM wherry_probe WHERE id = :n",
				params, 1, &s, NULL, &err));
		assert_int_equal(s.n, 1);
		assert_true(s.number == numbers[i]);
		free(s.bytes);
	}
}

WHERRY_TEST_WITH(nulls_are_none, set_up, tear_down)
{
	const wh_param params[] = {WH_TEXT_PARAM("t", wh_view_of(NULL)),
				   WH_BLOB_PARAM("b", wh_view_of(NULL))};
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {0};

	WHERRY_PASS(run(*state,
			"INSERT INTO wherry_probe(id, t, b) "
			"VALUES (1, :t, CAST(:b AS VARBINARY(MAX))); "
			"SELECT t FROM wherry_probe WHERE b IS NULL AND d IS NULL",
			params, 2, &s, NULL, &err));
	assert_int_equal(s.n, 1);
	assert_true(s.null);
}

WHERRY_TEST_WITH(times_are_unix_milliseconds, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(
		*state,
		"INSERT INTO wherry_probe(id, d, o) VALUES (1, '1970-01-01T00:00:01.234', "
		"CAST('1970-01-01 02:00:01.234 +02:00' AS DATETIMEOFFSET(3)))",
		&err));
	assert_int_equal(count(*state, "SELECT d FROM wherry_probe"), 1234);
	assert_int_equal(count(*state, "SELECT o FROM wherry_probe"), 1234);
	assert_int_equal(count(*state, "SELECT CAST('1969-12-31T23:59:59.999' AS "
				       "DATETIME2(3))"),
			 -1);
}

WHERRY_TEST_WITH(changed_rows_are_counted, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t changed = -1;

	WHERRY_PASS(run(*state, "INSERT INTO wherry_probe(id) VALUES (1), (2), (3)", NULL,
			0, NULL, &changed, &err));
	assert_int_equal(changed, 3);
	WHERRY_PASS(run(*state, "UPDATE wherry_probe SET t = N'x' WHERE id > 5", NULL, 0,
			NULL, &changed, &err));
	assert_int_equal(changed, 0);
}

/* FreeTDS does not say how many rows the first statement of such a batch changed. */
WHERRY_TEST_WITH(a_batch_returns_the_rows_of_its_query, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {0};

	WHERRY_PASS(wh_db_script(
		*state, "INSERT INTO wherry_probe(id) VALUES (1), (2), (3)", &err));
	WHERRY_PASS(run(*state,
			"DECLARE @t TABLE (id BIGINT); "
			"UPDATE wherry_probe SET t = N'x' OUTPUT inserted.id INTO @t "
			"WHERE id < 3; SELECT id FROM @t ORDER BY id",
			NULL, 0, &s, NULL, &err));
	assert_int_equal(s.n, 2);
	assert_int_equal(s.number, 2);
	free(s.bytes);
}

WHERRY_TEST_ON(savepoints_are_undone_one_by_one, wherry_db *db, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_PASS(wh_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (2)", &err));
	WHERRY_PASS(wh_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (3)", &err));
	WHERRY_PASS(wherry_db_commit(db, &err));
	wherry_db_rollback(db); /* with the inner one, which had ended */
	assert_int_equal(count(db, "SELECT COUNT_BIG(*) FROM wherry_probe"), 1);
	WHERRY_PASS(wherry_db_commit(db, &err));
	assert_false(wherry_db_in_transaction(db));
	assert_int_equal(count(db, "SELECT COUNT_BIG(*) FROM wherry_probe"), 1);
}

/* XACT_ABORT is on: without the check the INSERT after the failure would be committed alone. */
WHERRY_TEST_ON(nothing_runs_outside_of_a_transaction_that_failed, wherry_db *db, set_up,
	       tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_FAILS(WHERRY_CONFLICT,
		     wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (2)", &err));
	WHERRY_FAILS(WHERRY_CONFLICT, wherry_db_commit(db, &err));
	assert_false(wherry_db_in_transaction(db));
	assert_int_equal(count(db, "SELECT COUNT_BIG(*) FROM wherry_probe"), 0);
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (2)", &err));
	WHERRY_PASS(wherry_db_commit(db, &err));
	assert_int_equal(count(db, "SELECT COUNT_BIG(*) FROM wherry_probe"), 1);
}

WHERRY_TEST_WITH(failures_have_their_codes, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(
		wh_db_script(*state, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     run(*state, "INSERT INTO wherry_probe(id) VALUES (1)", NULL, 0, NULL,
			 NULL, &err));
	assert_true(err.native == 2627 || err.native == 2601);
	WHERRY_FAILS(WHERRY_NOTFOUND, run(*state, "SELECT * FROM wherry_no_such_table",
					  NULL, 0, NULL, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     run(*state, "SELECT FROM WHERE", NULL, 0, NULL, NULL, &err));
	assert_int_equal(count(*state, "SELECT COUNT_BIG(*) FROM wherry_probe"), 1);
}

/* FreeTDS took it for prepared, and could not run it again.  Another session holds the lock. */
WHERRY_TEST_WITH(a_statement_whose_first_run_fails_runs_again, set_up, tear_down)
{
	static const char sql[] =
		"DECLARE @r INT; EXEC @r = sp_getapplock @Resource = N'wherry_probe', "
		"@LockMode = 'Exclusive', @LockOwner = 'Transaction'; IF @r < 0 THROW "
		"51222, N'not in time', 1";
	wherry_db *other = open_it("200ms"), *db = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_stmt stmt;
	wh_sql all = {.stmts = &stmt, .n = 1};

	WHERRY_PASS(wh_stmt_make("mssql", "test", sql, &stmt, &err));
	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(wh_db_script(other, sql, &err));
	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(wherry_db_begin(db, &err));
		WHERRY_FAILS(WHERRY_BUSY,
			     wh_db_run(db, &stmt, NULL, 0, NULL, NULL, NULL, &err));
		wherry_db_rollback(db);
	}
	wherry_db_rollback(other);
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_run(db, &stmt, NULL, 0, NULL, NULL, NULL, &err));
	WHERRY_PASS(wherry_db_commit(db, &err));
	wh_db_forget(db, &all);
	wh_stmt_clear(&stmt);
	wherry_db_close(other);
}

WHERRY_TEST_WITH(a_row_that_stays_locked_is_busy, set_up, tear_down)
{
	wherry_db *other = open_it("200ms");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(
		wh_db_script(*state, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(wh_db_script(other, "UPDATE wherry_probe SET t = N'x' WHERE id = 1",
				 &err));
	WHERRY_FAILS(WHERRY_BUSY,
		     wh_db_script(*state, "UPDATE wherry_probe SET t = N'y' WHERE id = 1",
				  &err));
	wherry_db_rollback(other);
	WHERRY_PASS(wh_db_script(*state, "UPDATE wherry_probe SET t = N'y' WHERE id = 1",
				 &err));
	wherry_db_close(other);
}

WHERRY_TEST_WITH(a_session_that_the_server_ends_is_a_lost_connection, set_up, tear_down)
{
	wherry_db *other = open_it("200ms");
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[40];

	(void)snprintf(sql, sizeof(sql), "KILL %lld",
		       (long long)count(other, "SELECT @@SPID"));
	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(wh_db_script(other, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_PASS(wh_db_script(*state, sql, &err));
	WHERRY_FAILS(WHERRY_CLOSED, run(other, "INSERT INTO wherry_probe(id) VALUES (2)",
					NULL, 0, NULL, NULL, &err));
	WHERRY_FAILS(WHERRY_CLOSED, wherry_db_commit(other, &err));
	wherry_db_close(other);
	assert_int_equal(count(*state, "SELECT COUNT_BIG(*) FROM wherry_probe"), 0);
}

/* A wait for a lock that would take half a minute. */
static wherry_db *open_before_a_lock(wherry_db **out_holder)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*out_holder = open_it("200ms");
	WHERRY_PASS(wh_db_script(*out_holder, "INSERT INTO wherry_probe(id) VALUES (1)",
				 &err));
	WHERRY_PASS(wherry_db_begin(*out_holder, &err));
	WHERRY_PASS(wh_db_script(*out_holder,
				 "UPDATE wherry_probe SET t = N'x' WHERE id = 1", &err));
	return open_it("30s");
}

WHERRY_TEST_WITH(a_statement_ends_by_the_limit_of_its_connection, set_up, tear_down)
{
	static const char sql[] = "UPDATE wherry_probe SET t = N'y' WHERE id = 1";
	wherry_db *holder, *db = open_before_a_lock(&holder);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t began_us, took_us;
	wherry_code code;

	WHERRY_PASS(wherry_db_begin(db, &err));
	began_us = wh_monotonic(&wh_env_system);
	wh_db_limit(db, began_us + 1500000);
	code = run(db, sql, NULL, 0, NULL, NULL, &err);
	took_us = wh_monotonic(&wh_env_system) - began_us;
	assert_true(code == WHERRY_TIMEOUT || code == WHERRY_CLOSED);
	assert_in_range(took_us, 900000, 6000000);
	WHERRY_FAILS(WHERRY_CLOSED, run(db, sql, NULL, 0, NULL, NULL, &err));
	wherry_db_close(db);
	wherry_db_rollback(holder);
	assert_int_equal(
		count(holder, "SELECT COUNT_BIG(*) FROM wherry_probe WHERE t IS NULL"),
		1);
	wherry_db_close(holder);
}

/* Babelfish's session is lost then; SQL Server's goes on, without its transaction. */
WHERRY_TEST_WITH(a_statement_that_takes_too_long_takes_its_transaction_along, set_up,
		 tear_down)
{
	wherry_db *holder, *db = open_before_a_lock(&holder);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	((odbc_db *)db)->timeout_s = 1;
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (2)", &err));
	WHERRY_FAILS(WHERRY_TIMEOUT,
		     run(db, "UPDATE wherry_probe SET t = N'y' WHERE id = 1", NULL, 0,
			 NULL, NULL, &err));
	code = wherry_db_commit(db, &err);
	assert_true(code == WHERRY_CLOSED || code == WHERRY_CONFLICT);
	wherry_db_close(db);
	wherry_db_rollback(holder);
	assert_int_equal(
		count(holder, "SELECT COUNT_BIG(*) FROM wherry_probe WHERE t IS NULL"),
		1);
	assert_int_equal(count(holder, "SELECT COUNT_BIG(*) FROM wherry_probe"), 1);
	wherry_db_close(holder);
}

/* Interrupts until the call has returned. */
typedef struct interrupter {
	wherry_db *db;
	atomic_bool returned;
} interrupter;

static void *interrupt(void *ctx)
{
	interrupter *i = ctx;

	while (!atomic_load(&i->returned)) {
		wherry_db_interrupt(i->db);
		(void)sched_yield();
	}
	return NULL;
}

/* With FreeTDS it ends by its time-out. */
WHERRY_TEST_WITH(a_wait_for_a_lock_is_interrupted_from_another_thread, set_up, tear_down)
{
	wherry_db *waits = open_it("2s");
	interrupter i = {.db = waits};
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t thread;
	wherry_code code;

	WHERRY_PASS(
		wh_db_script(*state, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_PASS(wherry_db_begin(*state, &err));
	WHERRY_PASS(wh_db_script(*state, "UPDATE wherry_probe SET t = N'x'", &err));
	assert_int_equal(pthread_create(&thread, NULL, interrupt, &i), 0);
	code = wh_db_script(waits, "UPDATE wherry_probe SET t = N'y'", &err);
	atomic_store(&i.returned, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	wherry_db_rollback(*state);
	WHERRY_FAILS(WHERRY_INTERRUPTED, code);
	wherry_db_close(waits);
}

WHERRY_TEST_WITH(a_table_is_found_in_its_schema, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char schema[64] = "";

	WHERRY_PASS(wh_db_schema_of(*state, "wherry_probe", false, schema, sizeof(schema),
				    &err));
	assert_string_equal(schema, "dbo");
}

WHERRY_TEST(a_wrong_password_is_refused_and_not_shown)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *host = strchr(url, '@');
	wherry_db *db = NULL;
	char wrong[400];

	assert_non_null(host);
	(void)snprintf(wrong, sizeof(wrong), "mssql://wherry:not-this-one%s", host);
	WHERRY_FAILS(WHERRY_DENIED, wherry_db_open(wrong, NULL, &db, &err));
	assert_null(strstr(err.message, "not-this-one"));
	assert_null(db);
}

WHERRY_TEST(nobody_listening_is_a_lost_connection)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_FAILS(WHERRY_CLOSED,
		     wherry_db_open("mssql://u:p@127.0.0.1:1/shop?encrypt=no", NULL, &db,
				    &err));
	assert_null(db);
}

/* ---- a connection of the application's ---- */

static SQLHENV env;

static SQLHDBC connect_dbc(bool by_hand)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf text = WH_BUF_INIT(4096);
	char name[160];
	SQLHDBC dbc = NULL;
	SQLSMALLINT len;
	SQLCHAR full[1024];

	WHERRY_PASS(wh_odbc_mssql_string(url + strlen("mssql:"), "FreeTDS", &text, name,
					 sizeof(name), &err));
	assert_true(SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &env)));
	(void)SQLSetEnvAttr(env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3, 0);
	assert_true(SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, env, &dbc)));
	assert_true(SQL_SUCCEEDED(SQLDriverConnect(dbc, NULL, (SQLCHAR *)text.ptr,
						   SQL_NTS, full, sizeof(full), &len,
						   SQL_DRIVER_NOPROMPT)));
	/* A pool of connections keeps what the last user set. */
	(void)SQLSetConnectAttr(
		dbc, SQL_ATTR_AUTOCOMMIT,
		(SQLPOINTER)(by_hand ? SQL_AUTOCOMMIT_OFF : SQL_AUTOCOMMIT_ON), 0);
	wh_buf_clear(&text);
	return dbc;
}

static void disconnect_dbc(SQLHDBC dbc)
{
	(void)SQLDisconnect(dbc);
	(void)SQLFreeHandle(SQL_HANDLE_DBC, dbc);
	(void)SQLFreeHandle(SQL_HANDLE_ENV, env);
}

WHERRY_TEST_WITH(a_borrowed_connection_keeps_its_transaction, set_up, tear_down)
{
	SQLHDBC dbc = connect_dbc(true);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_odbc_borrow(dbc, &db, &err));
	assert_true(wherry_db_in_transaction(db));
	WHERRY_PASS(wh_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_PASS(wherry_db_commit(db, &err));
	WHERRY_PASS(wh_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (2)", &err));
	wherry_db_rollback(db);
	wherry_db_close(db);
	assert_true(SQL_SUCCEEDED(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT)));
	assert_int_equal(count(*state, "SELECT SUM(id) FROM wherry_probe"), 1);

	WHERRY_PASS(wherry_odbc_borrow(dbc, &db, &err));
	WHERRY_PASS(wh_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (3)", &err));
	WHERRY_PASS(wherry_db_commit(db, &err));
	wherry_db_close(db);
	assert_true(SQL_SUCCEEDED(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_ROLLBACK)));
	assert_int_equal(count(*state, "SELECT SUM(id) FROM wherry_probe"), 1);
	disconnect_dbc(dbc);
}

WHERRY_TEST_WITH(a_borrowed_connection_without_a_transaction_gets_its_own, set_up,
		 tear_down)
{
	SQLHDBC dbc = connect_dbc(false);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_odbc_borrow(dbc, &db, &err));
	assert_false(wherry_db_in_transaction(db));
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, "INSERT INTO wherry_probe(id) VALUES (1)", &err));
	WHERRY_PASS(wherry_db_commit(db, &err));
	assert_false(wherry_db_in_transaction(db));
	wherry_db_close(db);
	disconnect_dbc(dbc);
	assert_int_equal(count(*state, "SELECT COUNT_BIG(*) FROM wherry_probe"), 1);
}

int main(void)
{
	url = getenv("WHERRY_TEST_MSSQL");
	if (!url || !*url) {
		(void)printf("1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no "
			     "server\n");
		return 0;
	}
	return wherry_run_tests(NULL, NULL);
}
