/*
 * What the SQL functions of every model say to a caller who is wrong: the name of the thing, and
 * the way out; and that nobody else's functions are run for it.
 */
#include "wherry_test.h"

#include <string.h>

#include <wherry/postgres.h>
#include <wherry/wherry.h>

#include "postgres/server.h"

static postgres_place place;

static int make(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	(void)state;
	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_init(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_delayed_create(db, "delayed", NULL, &err));
	WHERRY_PASS(wherry_inbox_create(db, "inbox", &err));
	wherry_db_close(db);
	return 0;
}

static int drop(void **state)
{
	(void)state;
	postgres_drop(&place);
	return 0;
}

/* "SELECT * FROM SCHEMA.wherry_CALL" fails with both texts. */
static void refuses(PGconn *conn, const char *call, const char *what, const char *way_out)
{
	char sql[500];
	const char *said;
	PGresult *res;

	(void)snprintf(sql, sizeof(sql), "SELECT * FROM %s.wherry_%s", place.name, call);
	res = PQexec(conn, sql);
	said = PQresultErrorMessage(res);
	if (!strstr(said, what) || !strstr(said, way_out))
		print_error("%s: %s\n", sql, said);
	assert_int_equal(PQresultStatus(res), PGRES_FATAL_ERROR);
	assert_non_null(strstr(said, what));
	assert_non_null(strstr(said, way_out));
	PQclear(res);
}

static void refuse_missing(PGconn *conn)
{
	static const char *const of_queues[] = {
		"send('nix', '1')",
		"receive('nix')",
		"ack('nix', 1, 't')",
		"ack('nix', ARRAY[1], 't')",
		"nack('nix', 1, 't')",
		"extend('nix', 1, 't')",
		"dead_letter('nix', 1, 't', 'why')",
		"cancel('nix', 1)",
		"queue_length('nix')",
		"listen('nix')",
		"unlisten('nix')",
		"subscribe('topic', 'nix')",
	};
	static const char *const of_delayed[] = {
		"offer('mail', 'k', 'b'::text, box => 'nix')",
		"poll('mail', box => 'nix')",
		"done('mail', '1.1.a', box => 'nix')",
		"delayed_nack('mail', '1.1.a', box => 'nix')",
		"delayed_extend('mail', '1.1.a', box => 'nix')",
		"delayed_dead_letter('mail', '1.1.a', 'why', box => 'nix')",
		"delayed_drop('mail', 'k', box => 'nix')",
	};

	for (size_t i = 0; i < sizeof(of_queues) / sizeof(*of_queues); i++)
		refuses(conn, of_queues[i], "there is no queue 'nix'",
			"`wherry queue create URL nix`");
	for (size_t i = 0; i < sizeof(of_delayed) / sizeof(*of_delayed); i++)
		refuses(conn, of_delayed[i], "there is no table of delayed queues 'nix'",
			"`wherry delayed create URL --table nix`");
	refuses(conn, "enqueue('t', '{}'::json, outbox => 'nix')",
		"there is no outbox 'nix'", "`wherry init URL --table nix`");
	refuses(conn, "accept('m', inbox => 'nix')", "there is no inbox 'nix'",
		"`wherry inbox create URL nix`");
	refuses(conn, "send(NULL, '1')", "there is no queue NULL", "create URL NAME`");
}

static void sql_functions_name_what_is_missing_and_the_way_out(void **state)
{
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	refuse_missing(conn);
	PQfinish(conn);
}

static void sql_functions_name_an_argument_that_cannot_be(void **state)
{
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	refuses(conn, "receive('jobs', n => -1)", "n is -1", "how many messages");
	refuses(conn, "receive('jobs', n => NULL)", "n is NULL", "must be 0 or more");
	refuses(conn, "receive('jobs', lease => '-1 s')", "lease is -00:00:01",
		"NULL receives without a lease");
	refuses(conn, "extend('jobs', 1, 't', NULL)", "lease is NULL", "longer than 0");
	refuses(conn, "poll('mail', -1)", "n is -1", "how many messages");
	refuses(conn, "poll('mail', lease => NULL)", "lease is NULL", "longer than 0");
	refuses(conn, "delayed_extend('mail', '1.1.a', '0 s')", "lease is 00:00:00",
		"longer than 0");
	refuses(conn, "done('mail', 'x')", "'x' is not a token", "wherry_poll");
	refuses(conn, "done('mail', NULL)", "NULL is not a token", "wherry_poll");
	refuses(conn, "offer('mail', 'k', 'b'::text, at => 'infinity')",
		"the time infinity is not in", "1970 to 9999");
	refuses(conn, "offer('mail', 'k', 'b'::text, delay => '20000 years')",
		"the time 20000 years is not in", "1970 to 9999");
	PQfinish(conn);
}

/* A schema in front of pg_catalog has a function and an operator for each that is used there. */
static void sql_functions_that_refuse_run_nobody_elses_code(void **state)
{
	static const char evil[] =
		"CREATE SCHEMA evil;"
		"CREATE FUNCTION evil.quote_ident(text) RETURNS text LANGUAGE plpgsql "
		"AS $$ BEGIN RAISE 'interposed'; END $$;"
		"CREATE FUNCTION evil.to_regclass(text) RETURNS regclass LANGUAGE plpgsql "
		"AS $$ BEGIN RAISE 'interposed'; END $$;"
		"CREATE FUNCTION evil.wherry_missing(text, text) RETURNS void LANGUAGE "
		"plpgsql AS $$ BEGIN RAISE 'interposed'; END $$;"
		"CREATE FUNCTION evil.quote_literal(text) RETURNS text LANGUAGE plpgsql "
		"AS $$ BEGIN RAISE 'interposed'; END $$;"
		"CREATE FUNCTION evil.join_texts(text, text) RETURNS text LANGUAGE plpgsql "
		"AS $$ BEGIN RAISE 'interposed'; END $$;"
		"CREATE OPERATOR evil.|| (LEFTARG = text, RIGHTARG = text, "
		"FUNCTION = evil.join_texts);"
		"SET search_path = evil, pg_catalog";
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	assert_true(postgres_exec(conn, evil, NULL, 0));
	refuse_missing(conn);
	PQfinish(conn);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sql_functions_name_what_is_missing_and_the_way_out),
		cmocka_unit_test(sql_functions_name_an_argument_that_cannot_be),
		cmocka_unit_test(sql_functions_that_refuse_run_nobody_elses_code),
	};

	if (!postgres_start())
		return 0;
	return cmocka_run_group_tests_name("SQL functions", tests, make, drop);
}
