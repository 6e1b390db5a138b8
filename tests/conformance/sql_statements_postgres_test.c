/*
 * The statements inside the SQL functions: static, one for each table, with plans that a session
 * keeps.
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

	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_delayed_create(db, "delayed", NULL, &err));
	WHERRY_PASS(wherry_inbox_create(db, "inbox", &err));
	wherry_db_close(db);
	return 0;
}

static int drop(void **state)
{
	postgres_drop(&place);
	return 0;
}

static void says(PGconn *conn, const char *sql, const char *expected)
{
	char got[300] = "";

	assert_true(postgres_exec(conn, sql, got, sizeof(got)));
	if (strcmp(got, expected) != 0)
		print_error("%s\n", sql);
	assert_string_equal(got, expected);
}

/* But those that are asked for a refusal, and LISTEN, which takes no parameter. */
WHERRY_TEST(functions_put_no_statement_together_and_look_up_no_table)
{
	PGconn *conn = PQconnectdb(place.url);

	says(conn,
	     "SELECT coalesce(string_agg(DISTINCT proname, ' ' ORDER BY proname), '') FROM pg_proc "
	     "WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'wherry_') "
	     "AND prosrc ~ 'EXECUTE|to_regclass|pg_attribute|pg_class' AND proname NOT IN ("
	     "'wherry_missing', 'wherry_delayed_kind', 'wherry_unreadable', 'wherry_publish', "
	     "'wherry_listen', 'wherry_unlisten', 'wherry_consume', 'wherry_own_row', 'wherry_wake_control')",
	     "");
	PQfinish(conn);
}

/* Which versions made the functions of queues. */
#define MARKS                                                                              \
	"SELECT string_agg(DISTINCT split_part(obj_description(oid, 'pg_proc'), ' ', 2), " \
	"' ') FROM pg_proc WHERE proname IN ('wherry_send', 'wherry_receive', "            \
	"'wherry_ack') AND pronamespace = current_schema()::regnamespace"

/* Names that a comparison could take for another, or that need quotes. */
WHERRY_TEST(functions_find_each_of_many_tables)
{
	static const char *const names[] = {"A",   "a",       "a_b", "ab",
					    "b'c", "@table@", "z z", "Zed"};
	enum { NAMES = sizeof(names) / sizeof(*names) };
	PGconn *conn = PQconnectdb(place.url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wherry_queue *queue = NULL;
	char before[80] = "";

	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	for (size_t i = 0; i < NAMES; i++)
		WHERRY_PASS(wherry_queue_create(
			db, names[i],
			&WHERRY_QUEUE_OPTIONS(.payload = i % 2 ? "bytea" : "jsonb"),
			&err));
	for (size_t i = 0; i < NAMES; i++) {
		char *quoted = PQescapeLiteral(conn, names[i], strlen(names[i]));
		char *table = PQescapeIdentifier(conn, names[i], strlen(names[i]));
		char sql[300];

		(void)snprintf(sql, sizeof(sql), "SELECT wherry_send(%s, '%zu') > 0",
			       quoted, i);
		says(conn, sql, "1");
		(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
		says(conn, sql, "1");
		(void)snprintf(
			sql, sizeof(sql),
			"SELECT coalesce(body, convert_from(bytes, 'UTF8'))::integer = %zu "
			"AND wherry_ack(%s, id, token) FROM wherry_receive(%s)",
			i, quoted, quoted);
		says(conn, sql, "1");
		PQfreemem(quoted);
		PQfreemem(table);
	}
	assert_true(postgres_exec(conn, MARKS, before, sizeof(before)));
	WHERRY_PASS(wherry_queue_open(db, "ab", &queue, &err));
	WHERRY_PASS(wherry_queue_drop(queue, &err));
	wherry_queue_close(queue);
	says(conn, MARKS, before); /* The functions are of this version still. */
	assert_false(postgres_exec(conn, "SELECT wherry_send('ab', '1')", NULL, 0));
	assert_non_null(strstr(PQerrorMessage(conn), "there is no queue 'ab'"));
	says(conn, "SELECT wherry_send('a_b', '1') > 0", "1");
	wherry_db_close(db);
	PQfinish(conn);
}

WHERRY_TEST(functions_of_a_renamed_table_say_how_to_make_them_again)
{
	PGconn *conn = PQconnectdb(place.url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_queue_create(db, "before", NULL, &err));
	says(conn, "SELECT wherry_send('before', '1') > 0", "1");
	assert_true(postgres_exec(conn, "ALTER TABLE before RENAME TO behind", NULL, 0));
	assert_false(postgres_exec(conn, "SELECT wherry_send('behind', '1')", NULL, 0));
	assert_non_null(
		strstr(PQerrorMessage(conn), "`wherry create --kind queue @behind`"));
	WHERRY_PASS(wherry_queue_create(db, "behind", NULL, &err));
	says(conn,
	     "SELECT count(wherry_ack('behind', id, token)) FROM wherry_receive('behind', 9)",
	     "1");
	wherry_db_close(db);
	PQfinish(conn);
}

/* Rows that this session has read of its tables. */
#define ROWS                                                                             \
	"SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM "            \
	"pg_stat_xact_user_tables WHERE schemaname = current_schema()"

/* A plan that is made while a table is empty would read all of it, if it could. */
WHERRY_TEST(functions_keep_plans_that_read_no_rows_but_theirs)
{
	static const char *const calls[] = {
		"SELECT count(*) FROM wherry_receive('jobs', 2)",
		"SELECT count(*) FROM wherry_receive('jobs', 2, NULL)",
		"SELECT count(*) FROM wherry_receive('jobs', 2, after => 3000)",
		"SELECT wherry_ack_many('jobs', '{1, 2}', 't')",
		"SELECT wherry_nack_many('jobs', '{3, 4}', 't')",
		"SELECT wherry_extend_many('jobs', '{5, 6}', 't')",
		"SELECT wherry_dead_letter_many('jobs', '{7, 8}', 't', 'why')",
		"SELECT wherry_send_many('jobs', ARRAY['1', '2'])",
		"SELECT wherry_ack('jobs', 11, 't')",
		"SELECT wherry_nack('jobs', 12, 't')",
		"SELECT wherry_extend('jobs', 13, 't')",
		"SELECT wherry_dead_letter('jobs', 14, 't', 'why')",
		"SELECT wherry_cancel('jobs', 4000)",
		"SELECT count(*) FROM wherry_poll('q', 2)",
		"SELECT count(*) FROM wherry_poll('q', 2, max_attempts => 3)",
		"SELECT count(*) FROM wherry_poll('q', 2, after => 'epoch')",
		"SELECT wherry_done('q', '1.1000.t')",
		"SELECT wherry_delayed_nack('q', '2.1000.t')",
		"SELECT wherry_delayed_extend('q', '3.1000.t')",
		"SELECT wherry_delayed_dead_letter('q', '4.1000.t', 'why')",
		"SELECT wherry_done_many('q', '{5.1000.t,6.1000.t}')",
		"SELECT wherry_done_many('q', '{5.1000.t,2001.1000:1000}')",
		"SELECT wherry_delayed_nack_many('q', '{7.1000.t,8.1000.t}')",
		"SELECT wherry_delayed_extend_many('q', '{9.1000.t,10.1000.t}')",
		"SELECT wherry_delayed_dead_letter_many('q', '{11.1000.t,12.1000.t}', 'why')",
		"SELECT wherry_delayed_drop('q', '4000')",
		"SELECT wherry_accept('4000')",
		"SELECT wherry_offer('q', '4001', 'b'::text)",
		"SELECT wherry_offer_many('q', '{4001,4002}', ARRAY['b', 'c'])",
		"SELECT wherry_enqueue('t', '1'::json, message_id => '4000')",
		"SELECT wherry_enqueue_many('{t,t}', ARRAY['1', '2'], message_ids => '{4001,4002}')",
	};
	PGconn *conn = PQconnectdb(place.url);

	assert_true(postgres_exec(conn, "TRUNCATE jobs, delayed", NULL, 0));
	assert_true(postgres_exec(conn, "VACUUM ANALYZE jobs, delayed, inbox, outbox",
				  NULL, 0));
	for (int time = 0; time < 8; time++)
		for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
			assert_true(postgres_exec(conn, calls[i], NULL, 0));
	assert_true(postgres_exec(
		conn,
		"TRUNCATE jobs, delayed; INSERT INTO jobs(id, body, state, attempts, "
		"lease_token, available_at) SELECT i, '1', CASE WHEN i <= 2000 THEN 1 ELSE 0 END, 1, "
		"CASE WHEN i <= 2000 THEN 't' END, CASE WHEN i <= 2000 THEN now() + interval '1 h' END "
		"FROM generate_series(1, 5000) AS i; INSERT INTO delayed(id, \"pKey\", \"pKind\", payload, "
		"\"scheduledAt\", \"scheduledAtInitially\", \"createdAt\", \"lockUuid\") SELECT i, i, "
		"md5('q|bytes'), 'x', CASE WHEN i <= 2000 THEN 9000000000000 ELSE 1000 END, 1000, 1000, CASE WHEN i "
		"<= 2000 THEN 't' END FROM generate_series(1, 5000) AS i; INSERT INTO inbox(message_id) SELECT i "
		"FROM generate_series(10001, 15000) AS i; INSERT INTO outbox(topic, message_id, payload) SELECT 't', "
		"i, '1' FROM generate_series(10001, 15000) AS i; SELECT setval('jobs_id_seq', 10000)",
		NULL, 0));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		assert_true(postgres_exec(conn,
					  "BEGIN; SELECT set_config('wherry.rows', (" ROWS
					  ")::text, true)",
					  NULL, 0));
		assert_true(postgres_exec(conn, calls[i], NULL, 0));
		if (!postgres_exec(conn,
				   "SELECT 1 / ((" ROWS
				   ") - current_setting('wherry.rows')::bigint < "
				   "100)::integer",
				   NULL, 0)) {
			print_error("%s reads rows of others\n", calls[i]);
			fail();
		}
		assert_true(postgres_exec(conn, "COMMIT", NULL, 0));
	}
	PQfinish(conn);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(make, drop);
}
