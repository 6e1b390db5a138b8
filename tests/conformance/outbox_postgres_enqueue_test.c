/*
 * The function wherry_enqueue(), with which programs in any language add messages; and the
 * lock on a key, which the library has as well.  Most connections have no search path.
 */
#include "wherry_test.h"

#include "any_body.h"

#include <wherry/postgres.h>
#include <wherry/wherry.h>

#include "postgres/server.h"

static postgres_place place;
static char bare_url[200]; /* leads to no schema */

static int make(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(make_any_body(db, 0, "outbox", &err));
	wherry_db_close(db);
	return 0;
}

static int drop(void **state)
{
	postgres_drop(&place);
	return 0;
}

static PGconn *connect(void)
{
	PGconn *conn = PQconnectdb(bare_url);

	assert_int_equal(PQstatus(conn), CONNECTION_OK);
	return conn;
}

/* "SELECT SCHEMA.wherry_enqueue(ARGUMENTS)"; its answer: 0 for NULL. */
static int64_t put(PGconn *conn, const char *arguments)
{
	char sql[1024], out[32] = "";

	(void)snprintf(sql, sizeof(sql), "SELECT %s.wherry_enqueue(%s)", place.name,
		       arguments);
	assert_true(postgres_exec(conn, sql, out, sizeof(out)));
	return strtoll(out, NULL, 10);
}

static void run(PGconn *conn, const char *sql)
{
	assert_true(postgres_exec(conn, sql, NULL, 0));
}

static const char *text(const char *expression, int64_t id)
{
	static char out[1024];
	char sql[1024];

	(void)snprintf(sql, sizeof(sql), "SELECT %s FROM outbox WHERE id = %lld",
		       expression, (long long)id);
	*out = 0;
	assert_true(postgres_raw(place.url, sql, out, sizeof(out)));
	return out;
}

WHERRY_TEST_WITH(a_message_has_the_fields_that_are_named, make, drop)
{
	PGconn *conn = connect();
	int64_t id;

	id = put(conn, "topic => 'orders', payload => '{\"n\":1}', key => 'k', "
		       "message_id => 'm-1', headers => '{\"a\":\"b\"}', "
		       "aggregate_type => 'order', aggregate_id => '7', trace_id => 't', "
		       "lock_key => true, outbox => 'outbox'");
	assert_int_equal(id, 1);
	assert_string_equal(
		text("concat_ws('|', topic, payload, partition_key, message_id, headers, "
		     "aggregate_type, aggregate_id, trace_id)",
		     id),
		"orders|\\x7b226e223a317d|k|m-1|{\"a\":\"b\"}|order|7|t");
	id = put(conn, "'orders', ''");
	assert_int_equal(id, 2);
	assert_string_equal(
		text("concat_ws('|', topic, payload, coalesce(partition_key, 'none'), "
		     "headers, aggregate_type, aggregate_id, coalesce(trace_id, 'none'))",
		     id),
		"orders|\\x|none|{}|||none");
	assert_string_equal(text("length(message_id)::text", id), "36");
	id = put(conn, "'orders', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL");
	assert_int_equal(id, 3);
	PQfinish(conn);
}

WHERRY_TEST_WITH(a_key_is_a_text_a_number_or_a_uuid, make, drop)
{
	static const struct {
		const char *given, *kept;
	} rows[] = {
		{"'k'", "k"},
		{"7", "7"},
		{"7::smallint", "7"},
		{"9223372036854775807", "9223372036854775807"},
		{"'0b41c0de-0000-7000-8000-000000000001'::uuid",
		 "0b41c0de-0000-7000-8000-000000000001"},
		{"'k'::varchar", "k"},
		{"NULL", "none"},
	};
	static const char *const bodies[] = {"'{}'", "'{}'::json", "'{}'::jsonb",
					     "'{}'::bytea", "'{}'::text"};
	PGconn *conn = connect();
	char call[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (size_t b = 0; b < sizeof(bodies) / sizeof(*bodies); b++) {
			(void)snprintf(call, sizeof(call), "'t', %s, key => %s",
				       bodies[b], rows[i].given);
			assert_string_equal(
				text("coalesce(partition_key, 'none')", put(conn, call)),
				rows[i].kept);
		}
	PQfinish(conn);
}

WHERRY_TEST_WITH(texts_bytes_and_json_are_bodies, make, drop)
{
	static const struct {
		const char *given, *kept;
	} rows[] = {
		{"'\\x41 is no \\\\'", "5c783431206973206e6f205c5c"},
		{"'\\x4100ff'::bytea", "4100ff"},
		{"json_build_object('a', 1)", "7b226122203a20317d"},
		{"'[1, 2]'::jsonb", "5b312c20325d"},
		{"to_json('x'::text)", "227822"},
	};
	const char *const values[] = {"orders", "{\"n\": 1}"};
	PGconn *conn = connect();
	char sql[200];
	PGresult *res;
	int64_t id;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		(void)snprintf(sql, sizeof(sql), "'t', %s", rows[i].given);
		id = put(conn, sql);
		assert_string_equal(text("encode(payload, 'hex')", id), rows[i].kept);
	}
	/* As drivers send them: without a type. */
	(void)snprintf(sql, sizeof(sql), "SELECT %s.wherry_enqueue($1, $2, key => 'k')",
		       place.name);
	res = PQexecParams(conn, sql, 2, NULL, values, NULL, NULL, 0);
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	id = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
	PQclear(res);
	assert_string_equal(text("convert_from(payload, 'UTF8')", id), values[1]);
	PQfinish(conn);
}

static void refuse(PGconn *conn, const char *arguments, const char *state,
		   const char *says)
{
	char sql[1024];
	PGresult *res;

	(void)snprintf(sql, sizeof(sql), "SELECT %s.wherry_enqueue(%s)", place.name,
		       arguments);
	res = PQexec(conn, sql);
	assert_int_equal(PQresultStatus(res), PGRES_FATAL_ERROR);
	assert_string_equal(PQresultErrorField(res, PG_DIAG_SQLSTATE), state);
	if (!strstr(PQerrorMessage(conn), says))
		fail_msg("%s: %s", arguments, PQerrorMessage(conn));
	PQclear(res);
}

WHERRY_TEST_WITH(what_is_no_message_is_refused, make, drop)
{
	PGconn *conn = connect();

	refuse(conn, "'', '{}'", "22023", "a message needs a topic");
	refuse(conn, "NULL, '{}'", "22023", "a message needs a topic");
	refuse(conn, "'t', NULL", "22023", "a message needs a payload");
	refuse(conn, "'t', '{}', headers => '[]'", "22023", "not a JSON object");
	refuse(conn, "'t', '{}', headers => '{\"a\":1}'", "22023", "not a JSON object");
	refuse(conn, "'t', '{}', headers => 'x'", "22P02", "json");
	refuse(conn, "'t', '{}', outbox => 'nowhere'", "42P01", "nowhere");
	assert_int_equal(put(conn, "'t', '{}'"), 1);
	PQfinish(conn);
}

/* As whoever calls it. */
WHERRY_TEST_WITH(it_needs_the_rights_of_an_insert_and_gives_none, make, drop)
{
	PGconn *conn = connect();
	char sql[512];

	(void)snprintf(sql, sizeof(sql),
		       "CREATE ROLE producer; GRANT USAGE ON SCHEMA %s TO "
		       "producer; SET ROLE producer",
		       place.name);
	run(conn, sql);
	refuse(conn, "'t', '{}'", "42501", "permission denied");
	(void)snprintf(
		sql, sizeof(sql),
		"RESET ROLE; GRANT INSERT, SELECT (id, message_id) ON %s.outbox TO "
		"producer; SET ROLE producer",
		place.name);
	run(conn, sql);
	assert_int_equal(put(conn, "'t', '{}', key => 'k', lock_key => true"), 1);
	run(conn, "RESET ROLE; DROP OWNED BY producer; DROP ROLE producer");
	PQfinish(conn);
}

WHERRY_TEST_WITH(outboxes_of_its_schema_are_named, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *conn = connect();
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "\"Other \"\"outbox\"\"\"", NULL, &err));
	wherry_db_close(db);
	assert_int_equal(put(conn, "'t', '{}', outbox => 'Other \"outbox\"'"), 1);
	assert_int_equal(put(conn, "'t', '{}', outbox => 'Other \"outbox\"'"), 2);
	assert_int_equal(put(conn, "'t', '{}'"), 1);
	PQfinish(conn);
}

/* ---- the lock on a key ---- */

/* Until that session waits for a lock. */
static void await_waiting(PGconn *who)
{
	char sql[200], out[8] = "";
	int pid = PQbackendPID(who);

	(void)snprintf(sql, sizeof(sql),
		       "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND "
		       "wait_event_type = 'Lock' AND wait_event = 'advisory'",
		       pid);
	while (strcmp(out, "1") != 0)
		assert_true(postgres_raw(place.url, sql, out, sizeof(out)));
}

static void send(PGconn *conn, const char *arguments)
{
	char sql[1024];

	(void)snprintf(sql, sizeof(sql), "SELECT %s.wherry_enqueue(%s)", place.name,
		       arguments);
	assert_int_equal(PQsendQuery(conn, sql), 1);
}

static int64_t answer(PGconn *conn)
{
	PGresult *res = PQgetResult(conn);
	int64_t id;

	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	id = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
	PQclear(res);
	assert_null(PQgetResult(conn));
	return id;
}

WHERRY_TEST_WITH(transactions_that_lock_a_key_commit_in_id_order, make, drop)
{
	PGconn *first = connect(), *second = connect(), *other = connect();

	run(first, "BEGIN");
	assert_int_equal(put(first, "'t', '1', key => 'a', lock_key => true"), 1);
	run(second, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	send(second, "'t', '2', key => 'a', lock_key => true");
	await_waiting(second);
	/* Nobody else waits: another key, the same name as an aggregate, no key, no lock. */
	assert_int_equal(put(other, "'t', '3', key => 'b', lock_key => true"), 2);
	assert_int_equal(put(other, "'t', '4', aggregate_id => 'a', lock_key => true"),
			 3);
	assert_int_equal(put(other, "'t', '5', lock_key => true"), 4);
	assert_int_equal(put(other, "'t', '6', key => 'a'"), 5);
	assert_int_equal(put(first, "'t', '7', key => 'a', lock_key => true"), 6);
	run(first, "COMMIT");
	assert_int_equal(answer(second), 7);
	run(second, "COMMIT");
	PQfinish(first);
	PQfinish(second);
	PQfinish(other);
}

WHERRY_TEST_WITH(aggregates_are_keys_whose_parts_do_not_mix, make, drop)
{
	PGconn *first = connect(), *second = connect();

	run(first, "BEGIN");
	put(first, "'t', '', aggregate_type => 'ab', aggregate_id => 'c', "
		   "lock_key => true");
	assert_int_equal(put(second, "'t', '', aggregate_type => 'a', "
				     "aggregate_id => 'bc', lock_key => true"),
			 2);
	send(second, "'t', '', aggregate_type => 'ab', aggregate_id => 'c', "
		     "lock_key => true");
	await_waiting(second);
	run(first, "ROLLBACK");
	assert_int_equal(answer(second), 3);
	PQfinish(first);
	PQfinish(second);
}

WHERRY_TEST_WITH(a_savepoint_that_is_rolled_back_frees_the_keys_locked_in_it, make, drop)
{
	PGconn *first = connect(), *second = connect(), *third = connect();

	run(first, "BEGIN");
	assert_int_equal(put(first, "'t', '', key => 'a', lock_key => true"), 1);
	run(first, "SAVEPOINT s");
	put(first, "'t', '', key => 'a', lock_key => true");
	put(first, "'t', '', key => 'b', lock_key => true");
	send(second, "'t', '', key => 'b', lock_key => true");
	send(third, "'t', '', key => 'a', lock_key => true");
	await_waiting(second);
	await_waiting(third);
	run(first, "ROLLBACK TO SAVEPOINT s");
	assert_int_equal(answer(second), 4); /* of b nothing is left */
	assert_int_equal(put(first, "'t', '', key => 'a', lock_key => true"), 5);
	await_waiting(third);
	run(first, "COMMIT");
	assert_int_equal(answer(third), 6);
	PQfinish(first);
	PQfinish(second);
	PQfinish(third);
}

/* A program with the library and one without. */
WHERRY_TEST_WITH(the_library_takes_the_same_lock, make, drop)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .key = "a", .body = "");
	wherry_message named = WHERRY_MESSAGE(.topic = "t", .aggregate_type = "order",
					      .aggregate_id = "7", .body = "");
	PGconn *first = connect(), *second = PQconnectdb(place.url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	int64_t id = 0;

	WHERRY_PASS(wherry_postgres_borrow(second, &db, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	run(second, "BEGIN");
	WHERRY_PASS(wherry_outbox_enqueue(outbox, &msg, WHERRY_LOCK_KEY, &id, &err));
	assert_int_equal(id, 1);
	WHERRY_PASS(wherry_outbox_enqueue(outbox, &named, WHERRY_LOCK_KEY, &id, &err));
	send(first, "'t', '', key => 'a', lock_key => true");
	await_waiting(first);
	run(second, "COMMIT");
	assert_int_equal(answer(first), 3);
	WHERRY_PASS(wherry_outbox_enqueue_many(
		outbox, (wherry_message[]){msg, named, msg}, 3,
		WHERRY_OWN_TRANSACTION | WHERRY_LOCK_KEY, NULL, &err));
	assert_string_equal(text("(SELECT count(*)::text FROM outbox)", 1), "6");
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	PQfinish(first);
	PQfinish(second);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	(void)snprintf(bare_url, sizeof(bare_url),
		       "postgres://wherry@/postgres?host=%s&options=-csearch_path%%3D",
		       postgres_folder());
	return wherry_run_tests(NULL, NULL);
}
