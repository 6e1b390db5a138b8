/*
 * What the SQL functions of every model say to a caller who is wrong: the name of the thing, and
 * the way out; and that nobody else's functions are run for it.
 */
#include "wherry_test.h"

#include <string.h>

#include <wherry/postgres.h>
#include <wherry/wherry.h>

#include "base/json.h"
#include "postgres/server.h"

static postgres_place place;

static int make(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	(void)state;
	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_create(
		db, "nsb", &WHERRY_QUEUE_OPTIONS(.layout = "nservicebus"), &err));
	WHERRY_PASS(wherry_delayed_create(db, "delayed", NULL, &err));
	WHERRY_PASS(wherry_delayed_create(db, "reminders", "funfix", &err));
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
		"send_many('nix', ARRAY['1'])",
		"receive('nix')",
		"ack('nix', 1, 't')",
		"ack_many('nix', ARRAY[1], 't')",
		"nack_many('nix', ARRAY[1], 't')",
		"extend_many('nix', ARRAY[1], 't')",
		"dead_letter_many('nix', ARRAY[1], 't', 'why')",
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
		"offer('mail', 'k', 'b'::text, delayed => 'nix')",
		"offer_many('mail', '{k}', '{b}'::text[], delayed => 'nix')",
		"done_many('mail', '{1.1.a}', delayed => 'nix')",
		"delayed_nack_many('mail', '{1.1.a}', delayed => 'nix')",
		"delayed_extend_many('mail', '{1.1.a}', delayed => 'nix')",
		"delayed_dead_letter_many('mail', '{1.1.a}', 'why', delayed => 'nix')",
		"poll('mail', delayed => 'nix')",
		"done('mail', '1.1.a', delayed => 'nix')",
		"delayed_nack('mail', '1.1.a', delayed => 'nix')",
		"delayed_extend('mail', '1.1.a', delayed => 'nix')",
		"delayed_dead_letter('mail', '1.1.a', 'why', delayed => 'nix')",
		"delayed_drop('mail', 'k', delayed => 'nix')",
	};

	for (size_t i = 0; i < sizeof(of_queues) / sizeof(*of_queues); i++)
		refuses(conn, of_queues[i], "there is no queue 'nix'",
			"`wherry create --kind queue @nix`");
	for (size_t i = 0; i < sizeof(of_delayed) / sizeof(*of_delayed); i++)
		refuses(conn, of_delayed[i], "there is no table of delayed queues 'nix'",
			"`wherry create --kind delayed @nix`");
	refuses(conn, "enqueue('t', '{}'::json, outbox => 'nix')",
		"there is no outbox 'nix'", "`wherry create @nix`");
	refuses(conn, "accept('m', inbox => 'nix')", "there is no inbox 'nix'",
		"`wherry create --kind inbox @nix`");
	refuses(conn, "accept_many('{m}', inbox => 'nix')", "there is no inbox 'nix'",
		"`wherry create --kind inbox @nix`");
	refuses(conn, "send(NULL, '1')", "there is no queue NULL", "Write its name.");
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
	refuses(conn, "receive('jobs', max_attempts => -1)", "max_attempts is -1",
		"any number of attempts");
	refuses(conn, "send('jobs', '1', expires => '-1 h')", "expires is -01:00:00",
		"must not be negative");
	refuses(conn, "send('jobs', '1', delay => '-1 s')", "delay is -00:00:01",
		"must not be negative");
	refuses(conn, "nack('jobs', 1, 't', '-1 s')", "delay is -00:00:01",
		"must not be negative");
	refuses(conn, "send('jobs', '1', message_id => repeat('x', 300))",
		"message_id is 300 bytes", "the limit is 255");
	refuses(conn, "send('jobs', '1', correlation_id => repeat('x', 256))",
		"correlation_id is 256 bytes", "the limit is 255");
	refuses(conn, "send('jobs', '1', json_build_object('h', repeat('x', 262144)))",
		"headers are 2621", "the limit is 262144");
	refuses(conn, "send('jobs', repeat('x', 16777217))", "the body is 16777217 bytes",
		"the limit is 16777216");
	refuses(conn, "send('jobs', convert_to(repeat('x', 16777217), 'UTF8'))",
		"the body is 16777217 bytes", "the limit is 16777216");
	refuses(conn, "subscribe('', 'jobs')", "the topic is empty", "");
	refuses(conn, "subscribe(NULL, 'jobs')", "the topic is NULL", "");
	refuses(conn, "subscribe(repeat('x', 256), 'jobs')", "topic is 256 bytes", "255");
	refuses(conn, "unsubscribe('', 'jobs')", "the topic is empty", "");
	refuses(conn, "publish('', '1')", "the topic is empty", "");
	refuses(conn, "poll('mail', -1)", "n is -1", "how many messages");
	refuses(conn, "poll('mail', lease => NULL)", "lease is NULL", "longer than 0");
	refuses(conn, "delayed_extend('mail', '1.1.a', '0 s')", "lease is 00:00:00",
		"longer than 0");
	refuses(conn, "done('mail', 'x')", "'x' is not a token", "wherry_poll");
	refuses(conn, "done('mail', NULL)", "NULL is not a token", "wherry_poll");
	refuses(conn, "offer('mail', 'k', 'b'::text, at => 'infinity')",
		"the time infinity is not in", "1970 to 9999");
	PQfinish(conn);
}

static void says(PGconn *conn, const char *sql, const char *wanted)
{
	char got[200] = "";

	assert_true(postgres_exec(conn, sql, got, sizeof(got)));
	assert_string_equal(got, wanted);
}

/* They count from 1, as subscripts of the arrays do. */
static void functions_for_many_name_the_message_that_is_wrong(void **state)
{
	static const char *const calls[][2] = {
		{"send_many('jobs', ARRAY['1', NULL, '3'])",
		 "message 2: a message needs a body"},
		{"send_many('jobs', ARRAY['1', 'x'])",
		 "message 2: invalid input syntax for type json"},
		{"send_many('jobs', ARRAY['1', '2'], expires => '{NULL,-1 h}')",
		 "message 2: expires is -01:00:00"},
		{"send_many('jobs', ARRAY['1', '2'], headers => ARRAY['{}', '[]']::json[])",
		 "message 2: headers are not"},
		{"send_many('jobs', ARRAY['1', '2'], headers => ARRAY['{}']::json[])",
		 "the arrays have different lengths"},
		{"enqueue_many('{t,\"\"}', ARRAY['1', '2'])",
		 "message 2: a message needs a topic"},
		{"enqueue_many('{t,t}', ARRAY['1', '2'], headers => ARRAY['{}', '{\"a\":1}']::json[])",
		 "message 2: headers are not"},
		{"enqueue_many('{t,t}', ARRAY['1', '2'], keys => '{k}')",
		 "the arrays have different lengths"},
		{"offer_many('mail', '{k,\"\"}', '{b,b}'::text[])",
		 "message 2: a delayed message needs a key"},
		{"offer_many('mail', '{k,l}', '{b,b}'::text[], ats => '{NULL,infinity}')",
		 "message 2: the time infinity"},
		{"offer_many('mail', '{k,l}', '{b}'::text[])",
		 "the arrays have different lengths"},
		{"accept_many('{m,\"\"}')", "message 2: a message needs an id"},
		{"done_many('mail', '{1.1.a,x}')", "message 2: 'x' is not a token"},
		{"delayed_nack_many('mail', '{1.1.a,2.1:1}')",
		 "message 2: the message of token 2.1:1 was read"},
		{"delayed_extend_many('mail', '{1.1.a}', '0 s')", "lease is 00:00:00"},
	};
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		refuses(conn, calls[i][0], calls[i][1], "");
	refuses(conn, "send_many('jobs', ARRAY['1', '2'], expires => '{NULL,-1 h}')",
		"message 2", "0 and NULL mean");
	says(conn,
	     "SELECT concat((SELECT count(*) FROM jobs), (SELECT count(*) FROM outbox), (SELECT count(*) FROM delayed))",
	     "000");
	says(conn,
	     "SELECT concat(wherry_send_many('jobs', '{}'::text[]), wherry_enqueue_many('{}', '{}'::text[]), "
	     "wherry_offer_many('mail', '{}', '{}'::text[]), wherry_done_many('mail', '{}'))",
	     "{}{}{}{}");
	/* A key again, a token again and one that is too old. */
	says(conn, "SELECT wherry_offer_many('mail', '{k,l,k}', '{1,2,3}'::text[])",
	     "{created,created,updated}");
	says(conn,
	     "SELECT wherry_offer_many('mail', '{k,m}', '{4,4}'::text[], if_absent => true)",
	     "{ignored,created}");
	says(conn,
	     "SELECT string_agg(concat(key, convert_from(body, 'UTF8')), ' ' ORDER BY id) FROM wherry_poll('mail', 9)",
	     "k3 l2 m4");
	says(conn,
	     "SELECT wherry_delayed_nack_many('mail', array_agg(t.token ORDER BY id)) FROM (SELECT id, concat(id, '.', "
	     "\"createdAt\", '.', CASE \"pKey\" WHEN 'l' THEN 'old' ELSE \"lockUuid\" END) AS token FROM delayed) AS t",
	     "{acknowledged,\"lease lost\",acknowledged}");
	says(conn,
	     "SELECT wherry_done_many('mail', array_agg(t.token ORDER BY t.id) || array_agg(t.token)) FROM wherry_poll('mail', 1) AS t",
	     "{acknowledged,\"lease lost\"}");
	assert_true(postgres_exec(conn, "DELETE FROM delayed", NULL, 0));
	PQfinish(conn);
}

/* One text, and whether a worker can read it as headers: the library and the functions agree. */
static void judges_headers(PGconn *conn, const char *text, bool readable)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[400];
	PGresult *res;

	assert_int_equal(wh_json_headers(text, strlen(text), &err) == WHERRY_OK,
			 readable);
	(void)snprintf(sql, sizeof(sql),
		       "DELETE FROM jobs; INSERT INTO jobs(body, headers) VALUES "
		       "('1', $h$%s$h$), ('2', '{}')",
		       text);
	assert_true(postgres_exec(conn, sql, NULL, 0));
	says(conn, "SELECT count(*) FROM wherry_receive('jobs', 9)",
	     readable ? "2" : "1");
	says(conn,
	     "SELECT concat(count(*), max(last_error)) FROM jobs WHERE state = 4 AND "
	     "body::text = '1' AND lease_token IS NULL AND available_at IS NULL",
	     readable ? "0" : "1headers are not a JSON object of strings");
	assert_true(postgres_exec(conn, "UPDATE jobs SET state = 0, available_at = NULL",
				  NULL, 0));
	says(conn, "SELECT count(*) FROM wherry_receive('jobs', 9, lease => NULL)",
	     readable ? "2" : "1");
	says(conn, "SELECT concat(count(*), max(state)) FROM jobs",
	     readable ? "0" : "14");
	(void)snprintf(sql, sizeof(sql), "SELECT wherry_send('jobs', '1', $h$%s$h$)",
		       text);
	res = PQexec(conn, sql);
	assert_int_equal(PQresultStatus(res),
			 readable ? PGRES_TUPLES_OK : PGRES_FATAL_ERROR);
	assert_true(readable || strstr(PQresultErrorMessage(res),
				       "headers are not a JSON object of strings"));
	PQclear(res);
}

static void unreadable_headers_die_in_sql_as_in_the_library(void **state)
{
	static const char *const readable[] = {
		"{}",
		" { } ",
		"{\"a\":\"b\"}",
		"{\"a\":null,\n\t\"b\" : \"\"}",
		"{\"\\u00e4\\n\\\"\":\"[{\\\\\\/}] 1 true\"}",
		"{\"a\":\"\\ud83d\\uDE00 \\ue000 \\uD7ff \\u0001\"}",
		"{\"a\":\"Ã¤ð\"}",
	};
	static const char *const unreadable[] = {
		"[]",
		"\"{}\"",
		"null",
		"1",
		"{\"a\":1}",
		"{\"a\":true}",
		"{\"a\":{}}",
		"{\"a\":\"b\",\"c\":[\"d\"]}",
		"{\"a\":\"\\u0000\"}",
		"{\"\\u0000\":\"b\"}",
		"{\"a\":\"\\ud83d\"}",
		"{\"a\":\"\\ude00\"}",
		"{\"a\":\"\\ud83d\\ud83d\"}",
		"{\"a\":\"\\ud83dx\"}",
	};
	PGconn *conn = PQconnectdb(place.url);
	char path[200];

	(void)state;
	(void)snprintf(path, sizeof(path), "SET search_path = %s", place.name);
	assert_true(postgres_exec(conn, path, NULL, 0));
	for (size_t i = 0; i < sizeof(readable) / sizeof(*readable); i++)
		judges_headers(conn, readable[i], true);
	for (size_t i = 0; i < sizeof(unreadable) / sizeof(*unreadable); i++)
		judges_headers(conn, unreadable[i], false);
	assert_true(postgres_exec(conn, "DELETE FROM jobs", NULL, 0));
	PQfinish(conn);
}

static void sql_functions_print_commands_that_can_be_pasted(void **state)
{
	PGconn *conn = PQconnectdb(place.url);
	char hint[200];

	(void)state;
	refuses(conn, "send('jobs; drop table jobs', '1')",
		"there is no queue 'jobs; drop",
		"`wherry create --kind queue @jobs%3B%20drop%20table%20jobs`");
	refuses(conn, "accept('m', inbox => 'it''s')", "there is no inbox",
		"`wherry create --kind inbox @it%27s`");
	refuses(conn, "poll('mail', delayed => 'a.b c')", "'a.b c'",
		"`wherry create --kind delayed @%22a.b%20c%22`");
	refuses(conn, "send('s2.tasks', '1')", "there is no queue 's2.tasks'",
		"`wherry create --kind queue @s2.tasks`. Then call s2.wherry_send('tasks', ...)");
	refuses(conn, "send(E'a\\tb', '1')", "there is no queue", "has such a name");
	refuses(conn, "send(repeat('x', 49), '1')", "there is no queue",
		"has such a name");
	(void)snprintf(hint, sizeof(hint), "Call %s.wherry_send('jobs', ...)",
		       place.name);
	refuses(conn, "send(concat(current_schema, '.jobs'), '1')", "there is no queue",
		hint);
	refuses(conn, "ack(concat(current_schema, '.jobs'), 1, 't')", "there is no queue",
		hint);
	PQfinish(conn);
}

static void functions_of_queues_name_the_layout_that_they_do_not_serve(void **state)
{
	static const char *const calls[] = {
		"send('nsb', '1')",          "receive('nsb')",      "ack('nsb', 1, 't')",
		"nack('nsb', 1, 't')",       "queue_length('nsb')", "listen('nsb')",
		"subscribe('topic', 'nsb')",
	};
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		refuses(conn, calls[i], "queue 'nsb' has the layout nservicebus",
			"`wherry send`");
	PQfinish(conn);
}

/* Nobody is left out silently. */
static void wherry_publish_refuses_a_topic_of_other_queues(void **state)
{
	PGconn *conn = PQconnectdb(place.url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wherry_db *db = NULL;
	int64_t n = 0;

	(void)state;
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_topics_open(db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "both", "jobs", &err));
	assert_true(postgres_exec(conn, "SELECT wherry_publish('both', '1')", NULL, 0));
	WHERRY_PASS(wherry_topics_subscribe(topics, "both", "nsb", &err));
	refuses(conn, "publish('both', '2')",
		"NServiceBus have subscribed to topic 'both'", "`wherry queue publish`");
	WHERRY_PASS(wherry_topics_publish(
		topics, "both", &WHERRY_QUEUE_MESSAGE(.body = "3", .body_len = 1), &n,
		&err));
	assert_int_equal(n, 2);
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "both", "nsb", &err));
	assert_true(postgres_exec(conn, "SELECT wherry_publish('both', '4')", NULL, 0));
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "both", "jobs", &err));
	assert_true(postgres_exec(conn, "DELETE FROM jobs", NULL, 0));
	wherry_topics_close(topics);
	wherry_db_close(db);
	PQfinish(conn);
}

/* As in C (no_span_over_36500_days_is_cut). */
static void functions_refuse_the_spans_that_the_library_refuses(void **state)
{
	static const char *const calls[] = {
		"send('jobs', '1', delay => ",
		"send('jobs', '1', expires => ",
		"publish('spans', '1', delay => ",
		"publish('spans', '1', expires => ",
		"receive('jobs', 9, ",
		"nack('jobs', 1, 't', ",
		"extend('jobs', 1, 't', ",
		"offer('mail', 'k', 'b'::text, delay => ",
		"poll('mail', lease => ",
		"delayed_nack('mail', '1.1.a', ",
		"delayed_extend('mail', '1.1.a', ",
	};
	static const char *const spans[] = {"'36500 days 1 second'", "'20000 years'"};
	PGconn *conn = PQconnectdb(place.url);
	char call[100], subscribed[200];

	(void)state;
	(void)snprintf(subscribed, sizeof(subscribed),
		       "SELECT %s.wherry_subscribe('spans', 'jobs')", place.name);
	assert_true(postgres_exec(conn, subscribed, NULL, 0));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		for (size_t s = 0; s < 2; s++) {
			(void)snprintf(call, sizeof(call), "%s%s)", calls[i], spans[s]);
			refuses(conn, call,
				s ? " is 20000 years, " : " is 36500 days 00:00:01, ",
				"the limit is 36500 days");
		}
	PQfinish(conn);
}

/* What is left out, NULL or the longest there is means the same as in C. */
static void functions_of_queues_take_times_as_the_library_does(void **state)
{
	char got[100] = "";
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_send('jobs', '1', expires => '0'), wherry_send('jobs', "
		"'2', delay => '36500 days', expires => '36500 days'), "
		"wherry_send('jobs', '3', expires => '36500 days')",
		NULL, 0));
	assert_true(postgres_exec(
		conn,
		"SELECT string_agg(concat(body, ': ', round(extract(epoch FROM available_at "
		"- created_at) / 3153600000), ' ', round(extract(epoch FROM expires_at - "
		"created_at) / 3153600000)), ', ' ORDER BY id) FROM jobs",
		got, sizeof(got)));
	/* in centuries */
	assert_string_equal(got, "1:  , 2: 1 2, 3:  1");
	assert_true(postgres_exec(
		conn,
		"SELECT count(wherry_nack('jobs', id, token, '36500 days')) FROM "
		"wherry_receive('jobs', 9, '36500 days', NULL, NULL)",
		got, sizeof(got)));
	assert_string_equal(got, "2");
	assert_true(postgres_exec(conn, "UPDATE jobs SET available_at = '2020-01-01'",
				  NULL, 0));
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_extend('jobs', id, token, '36500 days') FROM "
		"wherry_receive('jobs', max_attempts => NULL)",
		got, sizeof(got)));
	assert_string_equal(got, "1");
	assert_true(postgres_exec(conn, "UPDATE jobs SET available_at = '2020-01-01'",
				  NULL, 0));
	assert_true(postgres_exec(
		conn,
		"SELECT count(*) FROM wherry_receive('jobs', 9, max_attempts => NULL)",
		got, sizeof(got)));
	assert_string_equal(got, "3");
	assert_true(postgres_exec(conn, "DELETE FROM jobs", NULL, 0));
	PQfinish(conn);
}

static void functions_of_delayed_queues_refuse_what_the_library_refuses(void **state)
{
	PGconn *conn = PQconnectdb(place.url);

	(void)state;
	refuses(conn, "offer('mail', repeat('x', 201), 'b'::text)",
		"the key has 201 characters", "limit is 200");
	refuses(conn, "offer('mail', 'k', repeat('x', 16777217))",
		"the body is 16777217 bytes", "limit is 16777216");
	refuses(conn, "offer('mail', 'k', 'b'::text, delay => '-5 minutes')",
		"delay is -00:05:00", "not negative");
	refuses(conn, "offer('mail', 'k', 'b'::text, delay => '1 h', at => '2030-01-01')",
		"delay is 01:00:00", "0 where at is given");
	refuses(conn, "offer('mail', '', 'b'::text)", "needs a key", "");
	refuses(conn, "offer(repeat('x', 256), 'k', 'b'::text)",
		"name of the queue is 256 bytes", "limit is 255");
	refuses(conn, "offer('mail', 'k', 'b'::text, type => repeat('x', 256))",
		"type is 256 bytes", "limit is 255");
	refuses(conn, "offer('mail', 'k', 'b'::text, delayed => 'delayed_dead')",
		"'delayed_dead' is a table of dead messages", "delayed names the table");
	refuses(conn, "poll('mail', delayed => 'outbox')",
		"'outbox' is not a table of delayed queues", "delayed names the table");
	refuses(conn, "poll('mail', delayed => 'reminders')",
		"'reminders' is a table of the JVM library", "`wherry offer`");
	refuses(conn, "poll('')", "a delayed queue needs a name", "");
	refuses(conn, "poll(NULL)", "a delayed queue needs a name", "");
	refuses(conn, "poll('mail', max_attempts => -3)", "max_attempts is -3",
		"0 or more");
	refuses(conn, "delayed_nack('mail', '1.1.a', '-1 s')", "delay is -00:00:01",
		"0 or more");
	refuses(conn, "delayed_drop('mail', NULL)", "the key is NULL", "");
	PQfinish(conn);
}

static void functions_of_delayed_queues_take_what_the_library_takes(void **state)
{
	static const char far[] =
		"SELECT \"scheduledAt\" BETWEEN extract(epoch FROM now()) * 1000 + 3153599000000 "
		"AND extract(epoch FROM now()) * 1000 + 3153601000000 FROM delayed";
	PGconn *conn = PQconnectdb(place.url);
	char path[100];

	(void)state;
	(void)snprintf(path, sizeof(path), "SET search_path = %s", place.name);
	says(conn, path, "");
	says(conn,
	     "SELECT wherry_offer('mail', 'k', 'b'::text, delay => '0', at => '2020-01-01')",
	     "created");
	says(conn,
	     "SELECT key FROM wherry_poll('mail', lease => '36500 days', type => NULL)",
	     "k");
	says(conn, far, "1");
	says(conn,
	     "SELECT wherry_delayed_extend('mail', concat(id, '.1.', \"lockUuid\"), '36500 days') "
	     "FROM delayed",
	     "acknowledged");
	says(conn, far, "1");
	says(conn,
	     "SELECT wherry_delayed_nack('mail', concat(id, '.1.', \"lockUuid\"), '36500 days') "
	     "FROM delayed",
	     "acknowledged");
	says(conn, far, "1");
	PQfinish(conn);
}

/* A year, a month and a day are those of the calendar in UTC, whatever the zone of the session, and no delay is
 * over early. */
static void delays_do_not_depend_on_the_zone_of_the_session(void **state)
{
	static const char *const zones[] = {"UTC", "America/New_York", "Asia/Kolkata",
					    "Pacific/Apia"};
	static const char *const delays[] = {"1 year",   "1 month",    "6 months",
					     "200 days", "1 year 3 s", "7 ms"};
	PGconn *conn = PQconnectdb(place.url);
	char sql[2000];

	(void)state;
	(void)snprintf(sql, sizeof(sql), "SET search_path = %s", place.name);
	says(conn, sql, "");
	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++) {
		for (size_t k = 0; k < sizeof(delays) / sizeof(*delays); k++) {
			(void)snprintf(
				sql, sizeof(sql),
				"SET TimeZone = '%s'; DO $$ DECLARE begun timestamptz; due timestamptz; until timestamptz; "
				"ms bigint; made bigint; BEGIN FOR i IN 1 .. 20 LOOP begun := clock_timestamp(); "
				"PERFORM wherry_offer('zones', 'k', i::text, delay => '%s'); "
				"SELECT \"scheduledAt\" INTO ms FROM delayed WHERE \"pKey\" = 'k'; "
				"made := wherry_send('jobs', i::text, delay => '%s', expires => '%s'); "
				"SELECT available_at, expires_at INTO due, until FROM jobs WHERE id = made; "
				"due := least(due, to_timestamp(ms / 1000.0)); "
				"IF due < (begun AT TIME ZONE 'UTC' + interval '%s') AT TIME ZONE 'UTC' "
				"OR due > (begun AT TIME ZONE 'UTC' + interval '%s') AT TIME ZONE 'UTC' + interval '1 minute' "
				"OR until < due + (due - begun) - interval '4 days' OR until > due + (due - begun) + interval '4 days' "
				"THEN RAISE '%%: due %%, until %%', begun, due, until; END IF; END LOOP; END $$",
				zones[i], delays[k], delays[k], delays[k], delays[k],
				delays[k]);
			assert_true(postgres_exec(conn, sql, NULL, 0));
		}
	}
	assert_true(postgres_exec(
		conn, "DELETE FROM jobs; DELETE FROM delayed WHERE \"pKey\" = 'k'", NULL,
		0));
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

static void check_told(const char *what, wherry_code code, const wherry_error *err)
{
	if (code != WHERRY_INVALID || !strstr(err->message, "own_log") ||
	    !strstr(err->message, "own_note()") || strstr(err->message, "`wherry"))
		print_error("%s: %s\n", what, err->message);
	assert_int_equal(code, WHERRY_INVALID);
	assert_non_null(strstr(err->message, "own_log"));
	assert_non_null(strstr(err->message, "own_note()"));
	assert_null(strstr(err->message, "`wherry"));
}

/* It was told as a table of Wherry's, with a command that makes it. */
static void a_name_that_a_trigger_does_not_find_is_told_as_such(void **state)
{
	static const char *const tables[] = {"outbox", "jobs", "delayed", "inbox"};
	const wherry_queue_message job = WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .body = "1", .body_len = 1);
	const wherry_delayed_message later =
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = "1", .body_len = 1);
	PGconn *conn = PQconnectdb(place.url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wherry_outbox *outbox = NULL;
	wherry_queue *queue = NULL;
	wherry_delayed *delayed = NULL;
	wherry_inbox *inbox = NULL;
	bool fresh;
	char sql[300];

	(void)state;
	(void)snprintf(
		sql, sizeof(sql),
		"SET search_path = %s; CREATE FUNCTION own_note() RETURNS trigger LANGUAGE "
		"plpgsql AS $$ BEGIN INSERT INTO own_log VALUES (1); RETURN NEW; END $$",
		place.name);
	assert_true(postgres_exec(conn, sql, NULL, 0));
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"CREATE TRIGGER own_note BEFORE INSERT ON %s FOR EACH ROW EXECUTE "
			"FUNCTION own_note()",
			tables[i]);
		assert_true(postgres_exec(conn, sql, NULL, 0));
	}
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	WHERRY_PASS(wherry_delayed_open(db, "delayed", "mail", NULL, &delayed, &err));
	WHERRY_PASS(wherry_inbox_open(db, "inbox", &inbox, &err));
	check_told("send", wherry_queue_send(queue, &job, NULL, &err), &err);
	check_told("offer", wherry_delayed_offer(delayed, &later, NULL, &err), &err);
	WHERRY_PASS(wherry_db_begin(db, &err));
	check_told("enqueue", wherry_outbox_enqueue(outbox, &msg, 0, NULL, &err), &err);
	wherry_db_rollback(db);
	WHERRY_PASS(wherry_db_begin(db, &err));
	check_told("accept", wherry_inbox_accept(inbox, "", "m", &fresh, &err), &err);
	wherry_db_rollback(db);
	wherry_outbox_close(outbox);
	wherry_queue_close(queue);
	wherry_delayed_close(delayed);
	wherry_inbox_close(inbox);
	wherry_db_close(db);
	assert_true(postgres_exec(
		conn,
		"SET client_min_messages = warning; DROP FUNCTION own_note() CASCADE",
		NULL, 0));
	PQfinish(conn);
}

static void make_tables(const char *schema)
{
	char queue[80], delayed[80], inbox[80], outbox[80];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	(void)snprintf(queue, sizeof(queue), "%s.jobs", schema);
	(void)snprintf(delayed, sizeof(delayed), "%s.delayed", schema);
	(void)snprintf(inbox, sizeof(inbox), "%s.inbox", schema);
	(void)snprintf(outbox, sizeof(outbox), "%s.outbox", schema);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_queue_create(db, queue, NULL, &err));
	WHERRY_PASS(wherry_delayed_create(db, delayed, NULL, &err));
	WHERRY_PASS(wherry_inbox_create(db, inbox, &err));
	WHERRY_PASS(wherry_outbox_create(db, outbox, NULL, &err));
	wherry_db_close(db);
}

/* Each of them names its schema, and those that it calls. */
static void functions_of_a_renamed_schema_write_to_no_other(void **state)
{
	/* Every function of both schemas, called with NULL; how many did not say why they refuse. */
	static const char call_all[] =
		"CREATE FUNCTION pg_temp.others() RETURNS bigint LANGUAGE plpgsql AS $$ "
		"DECLARE f record; n bigint := 0; BEGIN FOR f IN SELECT p.oid, "
		"format('SELECT %I.%I(%s)', nspname, proname, (SELECT string_agg('NULL::' || t::regtype, "
		"', ') FROM unnest(proargtypes) AS t)) AS call FROM pg_proc AS p JOIN pg_namespace AS n ON "
		"n.oid = pronamespace WHERE nspname IN ('own_blue', 'own_old') AND proname NOT IN "
		"('wherry_missing', 'wherry_number', 'wherry_own_row', 'wherry_given_id', 'wherry_wake', 'wherry_wake_control') LOOP n := n + 1; "
		"BEGIN EXECUTE f.call; RAISE '%', f.call; EXCEPTION WHEN invalid_schema_name THEN "
		"IF sqlerrm LIKE '%has another name now' THEN n := n - 1; END IF; END; END LOOP; "
		"RETURN n; END $$";
	PGconn *conn = PQconnectdb(place.url);
	char got[80] = "";

	(void)state;
	assert_true(postgres_exec(conn, "CREATE SCHEMA own_blue; CREATE SCHEMA own_green",
				  NULL, 0));
	make_tables("own_blue");
	make_tables("own_green");
	assert_true(postgres_exec(conn,
				  "ALTER SCHEMA own_blue RENAME TO own_old; "
				  "ALTER SCHEMA own_green RENAME TO own_blue",
				  NULL, 0));
	assert_true(postgres_exec(conn, call_all, NULL, 0));
	assert_true(postgres_exec(conn, "SELECT pg_temp.others()", got, sizeof(got)));
	assert_string_equal(got, "0");
	make_tables("own_blue");
	assert_true(postgres_exec(
		conn,
		"SELECT own_blue.wherry_send('jobs', '1'), own_blue.wherry_offer('m', 'k', 'b'), "
		"own_blue.wherry_accept('m'), own_blue.wherry_enqueue('t', '1'::text)",
		NULL, 0));
	assert_true(postgres_exec(
		conn,
		"SELECT concat((SELECT count(*) FROM own_blue.jobs), (SELECT count(*) "
		"FROM own_blue.delayed), (SELECT count(*) FROM own_blue.inbox), (SELECT "
		"count(*) FROM own_blue.outbox), (SELECT count(*) FROM own_old.jobs))",
		got, sizeof(got)));
	assert_string_equal(got, "11110");
	assert_true(postgres_exec(
		conn,
		"SET client_min_messages = warning; DROP SCHEMA own_blue CASCADE; "
		"DROP SCHEMA own_old CASCADE",
		NULL, 0));
	PQfinish(conn);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sql_functions_name_what_is_missing_and_the_way_out),
		cmocka_unit_test(sql_functions_name_an_argument_that_cannot_be),
		cmocka_unit_test(functions_for_many_name_the_message_that_is_wrong),
		cmocka_unit_test(unreadable_headers_die_in_sql_as_in_the_library),
		cmocka_unit_test(sql_functions_print_commands_that_can_be_pasted),
		cmocka_unit_test(
			functions_of_queues_name_the_layout_that_they_do_not_serve),
		cmocka_unit_test(wherry_publish_refuses_a_topic_of_other_queues),
		cmocka_unit_test(functions_refuse_the_spans_that_the_library_refuses),
		cmocka_unit_test(functions_of_queues_take_times_as_the_library_does),

		cmocka_unit_test(
			functions_of_delayed_queues_refuse_what_the_library_refuses),
		cmocka_unit_test(functions_of_delayed_queues_take_what_the_library_takes),
		cmocka_unit_test(delays_do_not_depend_on_the_zone_of_the_session),
		cmocka_unit_test(sql_functions_that_refuse_run_nobody_elses_code),
		cmocka_unit_test(a_name_that_a_trigger_does_not_find_is_told_as_such),
		cmocka_unit_test(functions_of_a_renamed_schema_write_to_no_other),
	};

	if (!postgres_start())
		return 0;
	return cmocka_run_group_tests_name("SQL functions", tests, make, drop);
}
