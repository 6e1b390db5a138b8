/*
 * What the PostgreSQL driver does that no suite sees: numbering parameters, telling what
 * went wrong, and going on after it.
 */
#include "wherry_test.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <wherry/postgres.h>

#include "db/postgres/postgres.h"
#include "postgres/server.h"

static postgres_place place;

static int set_up(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	*state = db;
	return 0;
}

static int tear_down(void **state)
{
	wherry_db_close(*state);
	postgres_drop(&place);
	return 0;
}

static void is_numbered(const char *sql, const char *wanted, int n)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_stmt stmt = {0};

	WHERRY_PASS(wh_stmt_make("postgres", "test", sql, &stmt, &err));
	assert_string_equal(stmt.text, wanted);
	assert_int_equal(stmt.n_params, n);
	wh_stmt_clear(&stmt);
}

WHERRY_TEST(parameters_are_numbered_and_nothing_else)
{
	is_numbered("SELECT :a, :b_2, :a::text", "SELECT $1, $2, $1::text", 2);
	is_numbered("SELECT ':a', 'it''s :b', E'\\':c', \":d\"",
		    "SELECT ':a', 'it''s :b', E'\\':c', \":d\"", 0);
	is_numbered("-- :a\n/* :b /* :c */ :d */ :e", "-- :a\n/* :b /* :c */ :d */ $1",
		    1);
	is_numbered("$$:a$$ $x$:b$$ $x$ :c", "$$:a$$ $x$:b$$ $x$ $1", 1);
	is_numbered("x[1:2] a := b 'open :a", "x[1:2] a := b 'open :a", 0);
}

static wherry_code run(wherry_db *db, const char *sql, wherry_error *err)
{
	char name[] = "test", text[512];
	wh_stmt stmt = {.name = name, .text = text};
	wh_sql all = {.stmts = &stmt, .n = 1};
	wherry_code code;

	(void)snprintf(text, sizeof(text), "%s", sql);
	code = wh_db_run(db, &stmt, NULL, 0, NULL, NULL, NULL, err);
	wh_db_forget(db, &all);
	return code;
}

WHERRY_TEST_WITH(each_sqlstate_has_its_code, set_up, tear_down)
{
	static const struct {
		const char *sqlstate;
		wherry_code code;
	} cases[] = {
		{"40001", WHERRY_CONFLICT},  {"40P01", WHERRY_CONFLICT},
		{"55P03", WHERRY_BUSY},      {"53300", WHERRY_BUSY},
		{"53100", WHERRY_FULL},      {"53200", WHERRY_NOMEM},
		{"57P01", WHERRY_CLOSED},    {"08006", WHERRY_CLOSED},
		{"23505", WHERRY_DUPLICATE}, {"42P01", WHERRY_NOTFOUND},
		{"42501", WHERRY_DENIED},    {"28000", WHERRY_DENIED},
		{"25006", WHERRY_READONLY},  {"22012", WHERRY_INVALID},
		{"57014", WHERRY_TIMEOUT},   {"XX001", WHERRY_CORRUPT},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char sql[200];

		(void)snprintf(sql, sizeof(sql),
			       "DO $$BEGIN RAISE 'so it is' USING ERRCODE = '%s'; END$$",
			       cases[i].sqlstate);
		WHERRY_FAILS(cases[i].code, run(*state, sql, &err));
		assert_string_equal(err.sqlstate, cases[i].sqlstate);
		assert_non_null(strstr(err.message, "postgres on "));
	}
}

WHERRY_TEST_WITH(a_lone_statement_that_the_server_undid_is_run_again, set_up, tear_down)
{
	static const char made[] =
		"CREATE TABLE t(id bigint); "
		"CREATE SEQUENCE tries; "
		"CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN IF nextval('tries') % 3 <> 0 THEN RAISE 'undone' "
		"USING ERRCODE = TG_ARGV[0]; END IF; RETURN new; END$$; "
		"CREATE TRIGGER undo BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION "
		"undo('40001')";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = *state;

	WHERRY_PASS(wh_db_script(db, made, &err));
	WHERRY_PASS(run(db, "INSERT INTO t VALUES (1)", &err));
	/* In a transaction the caller decides. */
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_FAILS(WHERRY_CONFLICT, run(db, "INSERT INTO t VALUES (2)", &err));
	wherry_db_rollback(db);
	WHERRY_PASS(run(db, "INSERT INTO t SELECT 3 WHERE (SELECT count(*) FROM t) = 1",
			&err));
}

/* It runs with the path of the connection that Wherry keeps for itself. */
WHERRY_TEST_WITH(a_function_that_needs_a_search_path_is_named, set_up, tear_down)
{
	static const char *const made[] = {
		"CREATE SCHEMA shop",
		"CREATE TABLE shop.audit(id bigint)",
		"CREATE TABLE shop.orders(id bigint)",
		"CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN INSERT INTO audit VALUES (NEW.id); RETURN NEW; END$$",
		"CREATE TRIGGER note AFTER INSERT ON shop.orders FOR EACH ROW "
		"EXECUTE FUNCTION shop.note()",
		"SET search_path = shop",
	};
	static const char insert[] = "INSERT INTO shop.orders VALUES (1)";
	static const char hint[] =
		"ALTER FUNCTION shop.note() SET search_path FROM CURRENT";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *own = NULL;

	for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
		WHERRY_PASS(run(*state, made[i], &err));
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wh_db_open_own(place.url, config, &own, &err));
	WHERRY_FAILS(WHERRY_INVALID, run(own, insert, &err));
	if (!strstr(err.message, hint))
		fail_msg("%s", err.message);
	WHERRY_PASS(run(*state, hint, &err));
	WHERRY_PASS(run(own, insert, &err));
	wherry_db_close(own);
	wherry_config_free(config);
}

static wherry_code count_row(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t *count = ctx;

	assert_int_equal(wh_row_bytes(row, 0).len, 100000);
	return ++*count == 5 ? wh_fail(err, WHERRY_BUSY, "enough") : WHERRY_OK;
}

WHERRY_TEST_WITH(who_ends_a_statement_early_can_run_the_next, set_up, tear_down)
{
	char name[] = "large",
	     text[] = "SELECT repeat('x', 100000) FROM generate_series(1, 100000)";
	wh_stmt stmt = {.name = name, .text = text};
	wh_sql all = {.stmts = &stmt, .n = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	WHERRY_FAILS(WHERRY_BUSY,
		     wh_db_run(*state, &stmt, NULL, 0, count_row, &n, NULL, &err));
	assert_int_equal(n, 5);
	WHERRY_PASS(run(*state, "SELECT 1", &err));
	wh_db_forget(*state, &all);
}

WHERRY_TEST_WITH(what_is_prepared_no_more_is_prepared_anew, set_up, tear_down)
{
	char name[] = "again", text[] = "SELECT count(*) FROM t";
	wh_stmt stmt = {.name = name, .text = text};
	wh_sql all = {.stmts = &stmt, .n = 1};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(*state, "CREATE TABLE t(a integer)", &err));
	for (int i = 0; i < 3; i++) {
		WHERRY_PASS(wh_db_run(*state, &stmt, NULL, 0, NULL, NULL, NULL, &err));
		WHERRY_PASS(wh_db_script(*state, "DEALLOCATE ALL", &err));
	}
	wh_db_forget(*state, &all);
}

WHERRY_TEST_WITH(a_connection_that_was_ended_says_so, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(*state, &err));
	assert_true(postgres_raw(place.url,
				 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
				 "WHERE state = 'idle in transaction'",
				 NULL, 0));
	WHERRY_FAILS(WHERRY_CLOSED, run(*state, "SELECT 1", &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_REOPEN);
	assert_non_null(strstr(err.message, "terminating connection"));
	assert_int_not_equal(wherry_db_commit(*state, &err), WHERRY_OK);
}

WHERRY_TEST_WITH(a_commit_without_an_answer_is_in_doubt, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(*state, &err));
	WHERRY_PASS(run(*state, "SELECT 1", &err));
	assert_true(postgres_raw(place.url,
				 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
				 "WHERE state = 'idle in transaction'",
				 NULL, 0));
	WHERRY_FAILS(WHERRY_INDOUBT, wherry_db_commit(*state, &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_REOPEN);
}

/* As often as needed: a request that comes too early has no effect. */
static void *interrupt(void *db)
{
	char busy[8] = "0";

	while (strcmp(busy, "1") != 0)
		(void)postgres_raw(
			place.url,
			"SELECT count(*) FROM pg_stat_activity WHERE query LIKE "
			"'%pg_sleep(60)%' AND state = 'active' AND pid <> "
			"pg_backend_pid()",
			busy, sizeof(busy));
	wherry_db_interrupt(db);
	return NULL;
}

WHERRY_TEST_WITH(a_call_is_interrupted_from_another_thread, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, interrupt, *state), 0);
	WHERRY_FAILS(WHERRY_INTERRUPTED, run(*state, "SELECT pg_sleep(60)", &err));
	assert_int_equal(pthread_join(thread, NULL), 0);
	WHERRY_PASS(run(*state, "SELECT 1", &err));
}

/* ---- large values ---- */

static wherry_code take_len(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(int64_t *)ctx = wh_row_int(row, 0);
	return WHERRY_OK;
}

static wherry_code measure(wherry_db *db, const char *bytes, size_t n, wherry_error *err)
{
	const wh_param given = WH_BLOB_PARAM("bytes", ((wh_view){bytes, n}));
	wh_stmt stmt = {0};
	wh_sql all = {.stmts = &stmt, .n = 1};
	int64_t len = 0;
	wherry_code code = wh_stmt_make("postgres", "test",
					"SELECT octet_length(:bytes::bytea)", &stmt, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, &stmt, &given, 1, take_len, &len, NULL, err);
	wh_db_forget(db, &all);
	wh_stmt_clear(&stmt);
	if (code == WHERRY_OK)
		assert_int_equal(len, n);
	return code;
}

/* The processor time of this process in which it sends so many values of so many bytes. */
static clock_t sending(wherry_db *db, const char *bytes, size_t n, size_t times)
{
	wherry_error err = WHERRY_ERROR_INIT;
	clock_t began = clock();

	for (size_t i = 0; i < times; i++)
		WHERRY_PASS(measure(db, bytes, n, &err));
	return clock() - began;
}

/* libpq moved the rest of its buffer whenever the socket had taken a part: 600 MB took minutes, and a value of this
 * test 70 times as long as the small ones.  It takes 7 times as long, since its memory is new. */
WHERRY_TEST_WITH(a_large_value_is_sent_without_being_moved, set_up, tear_down)
{
	enum { LARGE = 200 * 1000 * 1000, TIMES = 50, MOST = 20 };
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *own = NULL;
	char *bytes = calloc(1, LARGE);
	clock_t small, large;

	assert_non_null(bytes);
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wh_db_open_own(place.url, config, &own, &err));
	small = sending(own, bytes, LARGE / TIMES, TIMES);
	large = sending(own, bytes, LARGE, 1);
	if (large > MOST * small)
		fail_msg("%.2f s for one value, %.2f s for %d of as many bytes together",
			 (double)large / CLOCKS_PER_SEC, (double)small / CLOCKS_PER_SEC,
			 TIMES);
	wherry_db_close(own);
	wherry_config_free(config);
	free(bytes);
}

WHERRY_TEST_WITH(a_server_that_stops_reading_a_large_value_is_left, set_up, tear_down)
{
	enum { LARGE = 20 * 1000 * 1000 };
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *own = NULL;
	char *bytes = calloc(1, LARGE);
	pid_t server;

	assert_non_null(bytes);
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.answer_timeout", "200ms", &err));
	WHERRY_PASS(wh_db_open_own(place.url, config, &own, &err));
	server = PQbackendPID(((postgres_db *)own)->conn);
	if (kill(server, SIGSTOP) == 0) {
		WHERRY_FAILS(WHERRY_CLOSED, measure(own, bytes, LARGE, &err));
		(void)kill(server, SIGCONT);
	} else {
		print_message("this user may not stop the server's process\n");
	}
	wherry_db_close(own);
	wherry_config_free(config);
	free(bytes);
}

WHERRY_TEST(nothing_is_borrowed_that_is_none)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_postgres_borrow(NULL, &db, &err));
	assert_null(db);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
