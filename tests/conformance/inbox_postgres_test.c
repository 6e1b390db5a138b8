/*
 * The inbox on PostgreSQL, where several accept at once, and from SQL.
 */
#include "inbox_suite.h"

#include <pthread.h>

#include "postgres/backends.h"
#include "postgres/functions.h"
#include "postgres/server.h"

static wherry_db *connect(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open(postgres_here.url, NULL, &db, &err));
	return db;
}

static wherry_inbox *enter(wherry_db **out_db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *inbox = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	*out_db = connect();
	WHERRY_PASS(wherry_inbox_create(*out_db, NULL, &err));
	WHERRY_PASS(wherry_inbox_open(*out_db, NULL, &inbox, &err));
	return inbox;
}

static void leave(wherry_db *db, wherry_inbox *inbox)
{
	wherry_inbox_close(inbox);
	wherry_db_close(db);
	postgres_leave();
}

static void answers(const char *sql, const char *wanted)
{
	char out[100] = "";

	assert_true(postgres_raw(postgres_here.url, sql, out, sizeof(out)));
	assert_string_equal(out, wanted);
}

/* The second waits for the first: if that commits, the message was seen; else it is new. */
static void second_of_two(const char *end, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;
	wherry_inbox *inbox = enter(&db);
	PGconn *other = postgres_begin("SELECT 1");
	PGresult *res;
	bool new = false;

	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wherry_inbox_accept(inbox, "c", "m1", &new, &err));
	assert_true(new);
	assert_int_equal(PQsendQuery(other, "SELECT wherry_accept('m1', 'c')"), 1);
	postgres_await_lock();
	if (strcmp(end, "COMMIT") == 0)
		WHERRY_PASS(wherry_db_commit(db, &err));
	else
		wherry_db_rollback(db);
	res = PQgetResult(other);
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	assert_string_equal(PQgetvalue(res, 0, 0), wanted);
	PQclear(res);
	assert_null(PQgetResult(other));
	postgres_end(other, "COMMIT");
	answers("SELECT count(*) FROM inbox", "1");
	leave(db, inbox);
}

static void a_message_is_accepted_by_one_of_two_at_once(void **state)
{
	second_of_two("COMMIT", "f");
}

static void a_message_is_left_to_the_second_if_the_first_rolls_back(void **state)
{
	second_of_two("ROLLBACK", "t");
}

enum { N_IDS = 20, N_ROUNDS = 60 };

typedef struct consumer {
	bool backwards;
	wherry_code code;
	int n_new;
} consumer;

static void *consume(void *ctx)
{
	consumer *c = ctx;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wherry_inbox *inbox = NULL;
	char texts[N_IDS][24];
	const char *ids[N_IDS];
	bool new[N_IDS];

	c->code = wherry_db_open(postgres_here.url, NULL, &db, &err);
	if (c->code == WHERRY_OK)
		c->code = wherry_inbox_open(db, NULL, &inbox, &err);
	for (int round = 0; c->code == WHERRY_OK && round < N_ROUNDS; round++) {
		for (int i = 0; i < N_IDS; i++) {
			int place = c->backwards ? N_IDS - 1 - i : i;

			(void)snprintf(texts[place], sizeof(texts[place]), "%d-%d", round,
				       i);
			ids[place] = texts[place];
		}
		c->code = wherry_db_begin(db, &err);
		if (c->code == WHERRY_OK)
			c->code = wherry_inbox_accept_many(inbox, NULL, ids, N_IDS, new,
							   &err);
		if (c->code == WHERRY_OK)
			c->code = wherry_db_commit(db, &err);
		for (int i = 0; c->code == WHERRY_OK && i < N_IDS; i++)
			c->n_new += new[i];
	}
	if (c->code != WHERRY_OK)
		print_error("%s\n", err.message);
	wherry_inbox_close(inbox);
	wherry_db_close(db);
	return NULL;
}

static void two_that_accept_the_same_messages_do_not_deadlock(void **state)
{
	consumer consumers[2] = {{.backwards = false}, {.backwards = true}};
	pthread_t threads[2];
	wherry_db *db;
	wherry_inbox *inbox = enter(&db);

	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, consume, &consumers[i]), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(consumers[i].code, WHERRY_OK);
	}
	assert_int_equal(consumers[0].n_new + consumers[1].n_new, N_IDS * N_ROUNDS);
	leave(db, inbox);
}

static void a_program_accepts_by_sql(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;
	wherry_inbox *inbox = enter(&db);

	WHERRY_PASS(wherry_inbox_create(db, "\"Other one\"", &err));
	answers("SELECT wherry_accept('m1')::text", "true");
	answers("SELECT wherry_accept('m1')::text", "false");
	answers("SELECT wherry_accept('m1', consumer => 'billing')::text", "true");
	answers("SELECT wherry_accept('m1', inbox => 'Other one')::text", "true");
	answers("SELECT count(*) FROM inbox", "2");
	answers("SELECT count(*) FROM \"Other one\"", "1");
	assert_false(
		postgres_raw(postgres_here.url, "SELECT wherry_accept('')", NULL, 0));
	assert_false(postgres_raw(postgres_here.url,
				  "SELECT wherry_accept('m', inbox => 'inbox; DROP TABLE "
				  "inbox')",
				  NULL, 0));
	answers("SELECT count(*) FROM inbox", "2");
	leave(db, inbox);
}

static void refuses(const char *sql, const char *why)
{
	PGconn *conn = PQconnectdb(postgres_here.url);
	PGresult *res = PQexec(conn, sql);

	assert_non_null(strstr(PQresultErrorMessage(res), why));
	PQclear(res);
	PQfinish(conn);
}

static void a_program_purges_by_sql(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;
	wherry_inbox *inbox = enter(&db);

	WHERRY_PASS(wherry_inbox_create(db, "\"Other one\"", &err));
	assert_true(postgres_raw(
		postgres_here.url,
		"INSERT INTO inbox SELECT '', 'old ' || n, now() - interval '31 days' "
		"FROM generate_series(1, 2500) AS n; INSERT INTO inbox SELECT '', 'new ' || n "
		"FROM generate_series(1, 10) AS n; CREATE TABLE no_inbox(LIKE inbox); "
		"INSERT INTO no_inbox TABLE inbox; INSERT INTO \"Other one\" TABLE inbox",
		NULL, 0));
	answers("SELECT wherry_inbox_purge('100 years')", "0");
	answers("SELECT wherry_inbox_purge('1000000 years')", "0");
	answers("SELECT wherry_inbox_purge('30 days')", "2500");
	answers("SELECT wherry_inbox_purge('30 days')", "0");
	answers("SELECT count(*) FROM inbox", "10");
	answers("SELECT wherry_inbox_purge('0', inbox => 'Other one')", "2510");
	answers("SELECT wherry_accept('old 1')::text", "true");
	refuses("SELECT wherry_inbox_purge(NULL)", "older than null");
	refuses("SELECT wherry_inbox_purge('-1 day')", "older than -1 days");
	refuses("SELECT wherry_inbox_purge('0', 'no_inbox')", "no inbox");
	refuses("SELECT wherry_inbox_purge('0', 'inbox; DROP TABLE inbox')", "no inbox");
	answers("SELECT count(*) FROM no_inbox", "2510");
	leave(db, inbox);
}

static void functions_of_an_older_inbox_are_made_again(void **state)
{
	static const char *const breaks[] = {
		"COMMENT ON FUNCTION wherry_accept IS NULL",
		"DROP FUNCTION wherry_inbox_purge",
		"CREATE FUNCTION wherry_accept(message_id text) RETURNS integer LANGUAGE plpgsql AS $$BEGIN\nRETURN 1; END$$; COMMENT ON FUNCTION wherry_accept(text) IS 'Wherry 0'",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;
	wherry_inbox *inbox = enter(&db);

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		assert_true(postgres_raw(postgres_here.url, breaks[i], NULL, 0));
		WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
		answers("SELECT count(*) FROM pg_proc WHERE proname IN ('wherry_accept', "
			"'wherry_accept_many', 'wherry_inbox_purge') AND pronamespace = "
			"current_schema()::regnamespace AND obj_description(oid, 'pg_proc') "
			"LIKE 'Wherry %'",
			"3");
	}
	leave(db, inbox);
}

/* A consumer needs the right to insert, and no other. */
static void a_consumer_needs_one_right(void **state)
{
	wherry_db *db;
	wherry_inbox *inbox = enter(&db);
	char sql[400];

	(void)snprintf(sql, sizeof(sql),
		       "CREATE ROLE inbox_consumer; GRANT USAGE ON SCHEMA %s TO "
		       "inbox_consumer; GRANT INSERT ON inbox TO inbox_consumer; "
		       "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %s TO inbox_consumer",
		       postgres_here.name, postgres_here.name);
	assert_true(postgres_raw(postgres_here.url, sql, NULL, 0));
	answers("SET ROLE inbox_consumer; SELECT wherry_accept('m1')::text", "true");
	answers("SET ROLE inbox_consumer; SELECT wherry_accept('m1')::text", "false");
	assert_false(postgres_raw(postgres_here.url,
				  "SET ROLE inbox_consumer; DELETE FROM inbox", NULL, 0));
	assert_true(postgres_raw(postgres_here.url,
				 "DROP OWNED BY inbox_consumer; DROP ROLE inbox_consumer",
				 NULL, 0));
	leave(db, inbox);
}

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed,
							 &outbox_postgres_functions};
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(a_message_is_accepted_by_one_of_two_at_once),
		cmocka_unit_test(a_message_is_left_to_the_second_if_the_first_rolls_back),
		cmocka_unit_test(two_that_accept_the_same_messages_do_not_deadlock),
		cmocka_unit_test(a_program_accepts_by_sql),
		cmocka_unit_test(a_program_purges_by_sql),
		cmocka_unit_test(functions_of_an_older_inbox_are_made_again),
		cmocka_unit_test(a_consumer_needs_one_right),
	};

	if (!postgres_start())
		return 0;
	return inbox_suite_run(backends, sizeof(backends) / sizeof(*backends), more,
			       sizeof(more) / sizeof(*more));
}
