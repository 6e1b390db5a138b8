/*
 * What a queue promises on PostgreSQL alone: SQL functions, roles, waking and plans.
 */
#include "queue_suite.h"

#include <poll.h>

#include "postgres/backends.h"
#include "postgres/plan.h"
#include "postgres/server.h"
#include "queue/queue.h"
#include "store/grants.h"

static PGconn *owner(queue_fixture *f, const char *sql)
{
	PGconn *conn = PQconnectdb(((postgres_place *)f->place)->url);

	assert_true(postgres_exec(conn, sql, NULL, 0));
	return conn;
}

/* An application's role has the rights that `--grant` gives, and no function is for PUBLIC. */
static PGconn *app(queue_fixture *f, const char *sql)
{
	static const char *const grants[] = {"q_app=operator"};
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *conn = owner(f, "SELECT 1");

	WHERRY_PASS(wh_store_grant(&f->queue->store, grants, 1, &err));
	assert_true(postgres_exec(conn, "SET ROLE q_app", NULL, 0));
	assert_true(postgres_exec(conn, sql, NULL, 0));
	return conn;
}

static void says(PGconn *conn, const char *sql, const char *wanted)
{
	char got[200] = "";

	assert_true(postgres_exec(conn, sql, got, sizeof(got)));
	if (strcmp(got, wanted) != 0)
		print_error("%s\n", sql);
	assert_string_equal(got, wanted);
}

static void refuses(PGconn *conn, const char *sql, const char *why)
{
	PGresult *res = PQexec(conn, sql);

	assert_int_equal(PQresultStatus(res), PGRES_FATAL_ERROR);
	if (!strstr(PQresultErrorMessage(res), why))
		print_error("%s", PQresultErrorMessage(res));
	assert_non_null(strstr(PQresultErrorMessage(res), why));
	PQclear(res);
}

WHERRY_TEST(a_worker_in_sql_and_one_of_ours_share_a_queue)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");
	queue_got got;

	says(conn, "SELECT wherry_send('jobs', '1')", "1");
	says(conn,
	     "SELECT wherry_send('jobs', '2'::jsonb, '{\"a\":\"b\",\"c\":null}', "
	     "reply_to => 'answers')",
	     "2");
	says(conn, "SELECT wherry_send('jobs', '3'::bytea, message_id => 'm3')", "3");
	(void)queue_send(f, 4);
	says(conn, "SELECT wherry_queue_length('jobs')", "4");
	says(conn, "SELECT id || body || attempts FROM wherry_receive('jobs')", "111");
	(void)queue_lease(f->queue, 1, "2");
	says(conn,
	     "SELECT string_agg(id || body || message_id, ' ') FROM "
	     "wherry_receive('jobs', 1, lease => NULL)",
	     "33m3");
	got = queue_lease(f->queue, 9, "4");
	says(conn, "SELECT count(*) FROM wherry_receive('jobs')", "0");
	queue_ack(f->queue, &got);
	says(conn, "SELECT bool_and(wherry_ack('jobs', id, lease_token)) FROM jobs", "1");
	says(conn, "SELECT count(*) FROM jobs", "0");
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* Wait for a notification, for at most ten seconds. */
static bool is_notified(PGconn *conn)
{
	struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
	PGnotify *n = PQnotifies(conn);

	while (!n && poll(&fd, 1, 10000) == 1 && PQconsumeInput(conn))
		n = PQnotifies(conn);
	PQfreemem(n);
	return n != NULL;
}

WHERRY_TEST(a_worker_in_sql_that_waits_is_notified)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *waits = app(f, "SELECT 1"), *sends = app(f, "SELECT 1");

	says(waits, "SELECT wherry_listen('jobs')", "1");
	says(waits, "SELECT count(*) FROM wherry_receive('jobs')", "0");
	says(sends, "SELECT wherry_send('jobs', '1')", "1");
	assert_true(is_notified(waits));
	says(waits, "SELECT id FROM wherry_receive('jobs')", "1");
	says(waits, "SELECT wherry_nack('jobs', 1, (SELECT lease_token FROM jobs))", "1");
	says(waits, "SELECT wherry_unlisten('jobs')", "1");
	says(waits, "SELECT wherry_unlisten('jobs')", "0");
	says(waits, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0");
	refuses(waits, "SELECT wherry_listen('none')", "there is no queue 'none'");
	PQfinish(waits);
	PQfinish(sends);
	queue_fixture_drop(f);
}

WHERRY_TEST(a_worker_in_sql_learns_of_senders_that_may_not_notify)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *waits = app(f, "SELECT 1"), *other = app(f, "SELECT 1"),
	       *sends = app(f, "BEGIN");

	says(sends, "SELECT wherry_send('jobs', '1')", "1");
	says(waits, "SELECT wherry_listen('jobs')", "0");
	says(sends, "COMMIT; SELECT 1", "1");
	says(waits, "SELECT wherry_listen('jobs')", "1");

	/* A second one that waits is notified because of the first, and of its end. */
	says(other, "SELECT wherry_listen('jobs')", "1");
	says(sends, "SELECT wherry_send('jobs', '2')", "2");
	assert_true(is_notified(waits));
	assert_true(is_notified(other));
	says(waits, "SELECT wherry_unlisten('jobs')", "1");
	assert_true(is_notified(other));
	PQfinish(waits);
	PQfinish(other);
	PQfinish(sends);
	queue_fixture_drop(f);
}

WHERRY_TEST(functions_refuse_bad_input_by_name)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");

	refuses(conn, "SELECT wherry_send('tasks', '1')", "there is no queue 'tasks'");
	refuses(conn, "SELECT * FROM wherry_receive('tasks')",
		"there is no queue 'tasks'");
	refuses(conn, "SELECT wherry_send('x\"; DROP TABLE jobs; --', '1')",
		"there is no queue 'x\"");
	refuses(conn, "SELECT wherry_ack('x\"; DROP TABLE jobs; --', 1, 't')",
		"there is no queue 'x\"");
	refuses(conn, "SELECT wherry_send('jobs', '1', '[]')", "headers");
	refuses(conn, "SELECT wherry_send('jobs', '1', '{\"a\":1}')", "headers");
	refuses(conn, "SELECT wherry_send('jobs', 'no json')", "json");
	refuses(conn, "SELECT wherry_send('jobs', NULL::text)", "needs a body");
	refuses(conn, "SELECT wherry_subscribe('t', 'tasks')",
		"there is no queue 'tasks'");
	says(conn, "SELECT wherry_subscribe('t', 'jobs')", "1");
	says(conn, "SELECT wherry_subscribe('t', 'jobs')", "0");
	says(conn, "SELECT wherry_publish('t', '1')", "1");
	says(conn, "SELECT wherry_unsubscribe('t', 'jobs')", "1");
	says(conn, "SELECT wherry_publish('t', '1')", "0");
	queue_counts(f, "1 0 0 0");
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* Defect 2: upstream's delays depend on the session's time zone. */
WHERRY_TEST(a_delay_does_not_depend_on_the_session_time_zone)
{
	static const char *const zones[] = {"America/New_York", "Asia/Kolkata", "UTC"};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");
	char sql[100];

	for (int i = 0; i < 3; i++) {
		(void)snprintf(sql, sizeof(sql), "SET TimeZone = '%s'", zones[i]);
		assert_true(postgres_exec(conn, sql, NULL, 0));
		assert_true(postgres_exec(
			conn, "SELECT wherry_send('jobs', '1', delay => '10 s')", NULL,
			0));
		assert_true(postgres_exec(backend_conn(f->db), sql, NULL, 0));
		(void)queue_send_so(f, 2, 10000000, 0);
	}
	says(conn,
	     "SELECT count(*) FROM jobs WHERE extract(epoch FROM available_at - "
	     "created_at) BETWEEN 9.9 AND 11",
	     "6");
	/* a day is 24 hours, also where a zone's clocks change */
	assert_true(postgres_exec(conn,
				  "SET TimeZone = 'America/New_York'; SELECT "
				  "wherry_send('jobs', '3', delay => '365 days')",
				  NULL, 0));
	says(conn,
	     "SELECT round(extract(epoch FROM available_at - created_at) / 86400)"
	     "::int FROM jobs ORDER BY id DESC LIMIT 1",
	     "365");
	queue_raw(f, "UPDATE jobs SET available_at = available_at - 10000");
	(void)queue_lease(f->queue, 9, "1 2 1 2 1 2");
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* In a block the time of the statement stands still: a lease that began then could be over. */
WHERRY_TEST(functions_in_a_long_block_lease_from_their_call_on)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");

	says(conn,
	     "DO $do$ DECLARE t timestamptz; held text; BEGIN "
	     "WHILE clock_timestamp() < statement_timestamp() + interval '10 ms' LOOP END LOOP; "
	     "t := clock_timestamp(); "
	     "PERFORM wherry_send('jobs', '1'); "
	     "SELECT token INTO held FROM wherry_receive('jobs', lease => '1 ms'); "
	     "ASSERT (SELECT available_at FROM jobs) > t, 'receive'; "
	     "PERFORM wherry_extend('jobs', 1, held, '1 ms'); "
	     "ASSERT (SELECT available_at FROM jobs) > t, 'extend'; "
	     "PERFORM wherry_nack('jobs', 1, held, '1 ms'); "
	     "ASSERT (SELECT available_at FROM jobs) > t, 'nack'; "
	     "DELETE FROM jobs; "
	     "PERFORM wherry_send('jobs', '2', delay => '1 ms'); "
	     "ASSERT (SELECT available_at FROM jobs) > t, 'send'; "
	     "END $do$",
	     "");
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* Defect 3: upstream's sequence ends at 2147483647. */
WHERRY_TEST(a_queue_goes_on_behind_2_to_the_31)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);

	queue_raw(f, "ALTER TABLE jobs ALTER COLUMN id RESTART WITH 2147483646");
	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	(void)queue_lease(f->queue, 2, "1 2");
	queue_takes(f, 2, "3 4");
	queue_fixture_drop(f);
}

/* A call takes the ones or the others first, by chance. */
WHERRY_TEST(messages_given_back_in_sql_keep_no_ready_one_waiting)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");

	says(conn, "SELECT count(wherry_send('jobs', '0')) FROM generate_series(1, 9)",
	     "9");
	says(conn, "SELECT count(wherry_send('jobs', '1')) FROM generate_series(1, 5)",
	     "5");
	says(conn,
	     "DO $$ DECLARE m record; BEGIN FOR i IN 1..150 LOOP "
	     "SELECT * INTO m FROM wherry_receive('jobs'); "
	     "IF m.body = '0' THEN PERFORM wherry_nack('jobs', m.id, m.token, '1 us'); "
	     "ELSE PERFORM wherry_ack('jobs', m.id, m.token); END IF; "
	     "END LOOP; END $$",
	     "");
	says(conn, "SELECT string_agg(body::text, '') FROM jobs", "000000000");
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* Upstream's second mover waits for the first, and delivers nothing. */
/* A call made what it could not hand out dead and returned nothing: the worker slept beside good ones. */
WHERRY_TEST(a_call_that_makes_messages_dead_returns_those_behind_them)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");

	says(conn,
	     "INSERT INTO jobs(body, headers, attempts) VALUES ('0', '[]', 0), ('0', '{}', 3), "
	     "('1', '{}', 0), ('0', '7', 0), ('2', '{}', 0), ('0', '[]', 0), ('3', '{}', 0)",
	     "");
	says(conn, "SELECT body FROM wherry_receive('jobs', 1, max_attempts => 3)", "1");
	says(conn,
	     "SELECT concat(string_agg(body, ' ' ORDER BY id), ' ', count(DISTINCT token)) FROM "
	     "wherry_receive('jobs', 2, max_attempts => 3)",
	     "2 3 1");
	says(conn, "SELECT count(*) FROM jobs WHERE state = 4", "4");
	says(conn, "INSERT INTO jobs(body, headers) VALUES ('0', '[]'), ('4', '{}')", "");
	says(conn, "SELECT body FROM wherry_receive('jobs', 1, NULL)", "4");
	/* A call ends after 1,000: others wait for the rows that it has changed. */
	says(conn,
	     "INSERT INTO jobs(body, headers) SELECT '0', '[]' FROM generate_series(1, 1500)",
	     "");
	(void)queue_send(f, 5);
	says(conn, "SELECT count(*) FROM wherry_receive('jobs', 100)", "0");
	says(conn, "SELECT body FROM wherry_receive('jobs', 100)", "5");
	PQfinish(conn);
	queue_fixture_drop(f);
}

WHERRY_TEST(receivers_pass_over_what_another_transaction_has)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_db *db = queue_connect(f);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *other = NULL;

	WHERRY_PASS(wherry_queue_open(db, "jobs", &other, &err));
	(void)queue_send(f, 1);
	(void)queue_send(f, 2);
	(void)queue_send_so(f, 3, 50000000, 0);
	(void)queue_send_so(f, 4, 55000000, 0);
	queue_minute(f);
	other->due_first = false;
	WHERRY_PASS(wherry_db_begin(db, &err));
	assert_string_equal(queue_receive(other, WHERRY_ATOMIC, 1).bodies, "3");
	other->scan_start.next_full_us = 0;
	other->due_first = false;
	assert_string_equal(queue_receive(other, WHERRY_ATOMIC, 2).bodies, "1 4");
	queue_look_at_all(f);
	(void)queue_lease(f->queue, 9, "2");
	(void)queue_lease(f->queue, 9, "");
	wherry_db_rollback(db);
	(void)queue_lease(f->queue, 9, "1 3 4");
	wherry_queue_close(other);
	wherry_db_close(db);
	queue_fixture_drop(f);
}

WHERRY_TEST(roles_of_a_queue_may_do_what_they_need)
{
	static const char *const grants[] = {"q_sender=sender", "q_receiver=receiver",
					     "q_operator=operator"};
	static const char *const bad[] = {"q_sender=relay"};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn =
		owner(f, "CREATE ROLE q_sender; CREATE ROLE q_receiver; CREATE ROLE "
			 "q_operator");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_store_grant(&f->queue->store, grants, 3, &err));
	WHERRY_PASS(wh_store_grant(&f->queue->store, grants, 3, &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_store_grant(&f->queue->store, bad, 1, &err));
	assert_non_null(
		strstr(err.message, "ROLE=sender, ROLE=receiver or ROLE=operator"));
	assert_true(postgres_exec(conn, "SET ROLE q_operator", NULL, 0));
	says(conn, "SELECT wherry_subscribe('t', 'jobs')", "1");
	assert_true(postgres_exec(conn, "SET ROLE q_sender", NULL, 0));
	says(conn, "SELECT wherry_send('jobs', '1', delay => '1 s', message_id => 'm')",
	     "1");
	says(conn, "SELECT wherry_publish('t', '2')", "1");
	refuses(conn, "SELECT * FROM wherry_receive('jobs')", "permission denied");
	refuses(conn, "SELECT body FROM jobs", "permission denied");
	refuses(conn, "SELECT wherry_cancel('jobs', 1)", "permission denied");
	refuses(conn, "SELECT wherry_subscribe('u', 'jobs')", "permission denied");
	refuses(conn, "INSERT INTO jobs(body, attempts) VALUES ('1', 5)",
		"permission denied");
	assert_true(postgres_exec(conn, "SET ROLE q_receiver", NULL, 0));
	says(conn,
	     "SELECT bool_and(wherry_ack('jobs', id, token)) FROM "
	     "wherry_receive('jobs', 9)",
	     "1");
	refuses(conn, "SELECT wherry_unsubscribe('t', 'jobs')", "permission denied");
	refuses(conn, "UPDATE wherry_outbox SET paused_at = now()", "permission denied");
	refuses(conn, "UPDATE wherry_schema SET version = 7", "permission denied");
	assert_true(
		postgres_exec(conn,
			      "RESET ROLE; DROP OWNED BY q_sender, q_receiver, "
			      "q_operator; DROP ROLE q_sender, q_receiver, q_operator",
			      NULL, 0));
	PQfinish(conn);
	queue_fixture_drop(f);
}

static wherry_code note_finding(void *ctx, const char *what, const char *repair)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)snprintf(text + len, 8000 - len, "%s\n", repair);
	return WHERRY_OK;
}

/* Whatever is broken is repaired by the SQL that is printed. */
WHERRY_TEST(an_inspection_repairs_what_it_finds)
{
	static const char *const breaks[] = {
		"DROP INDEX jobs_ready",
		"DROP INDEX jobs_expires",
		"DROP TRIGGER jobs_wake ON jobs",
		"ALTER TABLE jobs DISABLE TRIGGER jobs_wake_back",
		"ALTER TABLE jobs DROP CONSTRAINT jobs_sane",
		"ALTER TABLE jobs ALTER message_id TYPE varchar(20) USING 'x'",
		"ALTER TABLE jobs DROP COLUMN last_error",
		"INSERT INTO jobs(id, body) VALUES (5, '1'); DELETE FROM jobs WHERE id < 5",
	};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;
	char text[8000] = "";

	WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
	assert_string_equal(text, "");
	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		queue_raw(f, "%s", breaks[i]);
		*text = 0;
		WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
		assert_true(*text != 0);
		queue_raw(f, "%s", text);
		*text = 0;
		WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
		assert_string_equal(text, "");
	}
	(void)queue_send(f, 2);
	(void)queue_lease(f->queue, 2, "1 2");
	queue_fixture_drop(f);
}

WHERRY_TEST(functions_of_another_version_are_found)
{
	static const char *const breaks[] = {
		"COMMENT ON FUNCTION wherry_cancel IS NULL",
		"DROP FUNCTION wherry_dead_letter",
		"CREATE FUNCTION wherry_ack(queue text) RETURNS integer LANGUAGE plpgsql AS $$BEGIN\nRETURN 1; END$$; COMMENT ON FUNCTION wherry_ack(text) IS 'Wherry 0'",
	};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;
	char text[8000];

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		queue_raw(f, "%s", breaks[i]);
		*text = 0;
		WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
		assert_string_equal(text, "\n");
		WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
		*text = 0;
		WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
		assert_string_equal(text, "");
	}
	queue_fixture_drop(f);
}

WHERRY_TEST(many_bodies_are_sent_as_their_type)
{
	static const char *const types[] = {"json", "jsonb", "text", "bytea"};
	static const char *const bodies[] = {"\"a\"", "\"a\"", "no JSON", "\x01\\x\xff"};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < 4; i++) {
		const wherry_queue_options how =
			WHERRY_QUEUE_OPTIONS(.payload = types[i]);
		const wherry_queue_message one =
			WHERRY_QUEUE_MESSAGE(.body = bodies[i],
					     .body_len = strlen(bodies[i]));
		const wherry_queue_message msgs[] = {one, one};
		wherry_queue *queue = NULL;

		WHERRY_PASS(wherry_queue_create(f->db, types[i], &how, &err));
		WHERRY_PASS(wherry_queue_open(f->db, types[i], &queue, &err));
		WHERRY_PASS(wherry_queue_send(queue, &one, NULL, &err));
		WHERRY_PASS(wherry_queue_send_many(queue, msgs, 2, NULL, &err));
		assert_string_equal(queue_text(f,
					       "SELECT count(*) FROM %s WHERE "
					       "body::text = (SELECT body::text FROM "
					       "%s ORDER BY id LIMIT 1)",
					       types[i], types[i]),
				    "3");
		WHERRY_PASS(wherry_queue_drop(queue, &err));
		wherry_queue_close(queue);
	}
	queue_fixture_drop(f);
}

/* As an owner may write them who has dropped the constraint. */
WHERRY_TEST(infinite_times_stop_no_receiver)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status status = {0};
	bool any = false;

	queue_raw(f, "ALTER TABLE jobs DROP CONSTRAINT jobs_sane");
	queue_raw(
		f,
		"INSERT INTO jobs(body, state, available_at) VALUES ('1', 3, '-infinity')");
	WHERRY_PASS(wherry_queue_wait(f->queue, 5000000, &any, &err));
	assert_true(any);
	(void)queue_lease(f->queue, 1, "1");
	queue_raw(
		f,
		"INSERT INTO jobs(body, state, available_at) VALUES ('2', 3, 'infinity')");
	WHERRY_PASS(wherry_queue_wait(f->queue, 0, &any, &err));
	assert_false(any);
	queue_raw(f, "INSERT INTO jobs(body, created_at) VALUES ('3', '-infinity')");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &status, sizeof(status), &err));
	assert_int_equal(status.ready, 1);
	(void)queue_lease(f->queue, 9, "3");
	queue_raw(f, "INSERT INTO jobs(body, headers, attempts, created_at) VALUES "
		     "('4', '[]', 2147483647, '-infinity'), ('5', '{}', 0, 'infinity')");
	queue_takes(f, 9, "5");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &status, sizeof(status), &err));
	assert_int_equal(status.dead, 1);
	queue_fixture_drop(f);
}

/* Asleep it asks nothing: who sends, or gives a message back, wakes it. */
WHERRY_TEST(a_sleeping_receiver_is_woken)
{
	static const char asleep[] =
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = "
		"'ExclusiveLock' AND granted";
	static const char *const wakes[] = {
		"SELECT wherry_send('jobs', '1')",
		"SELECT wherry_nack('jobs', id, lease_token) FROM jobs"};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "SELECT 1");
	wherry_error err = WHERRY_ERROR_INIT;
	bool any = false;

	for (int i = 0; i < 2; i++) {
		char locks[24] = "0";

		while (strcmp(locks, "1") != 0) {
			WHERRY_PASS(wherry_queue_wait(f->queue, 50000, &any, &err));
			assert_false(any);
			assert_true(postgres_exec(conn, asleep, locks, sizeof(locks)));
		}
		assert_true(postgres_exec(conn, wakes[i], NULL, 0));
		/* it is woken now, not when it would look again by itself */
		WHERRY_PASS(wherry_queue_wait(f->queue, 5000000, &any, &err));
		assert_true(any);
		(void)queue_lease(f->queue, 1, "1");
	}
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* A message whose id is lower and whose commit is later is not lost. */
WHERRY_TEST(a_late_commit_is_received)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = app(f, "BEGIN; SELECT wherry_send('jobs', '1')");

	(void)queue_send(f, 2);
	(void)queue_lease(f->queue, 1, "2");
	(void)queue_lease(f->queue, 1, "");
	assert_true(postgres_exec(conn, "COMMIT", NULL, 0));
	(void)queue_lease(f->queue, 1, "1");
	PQfinish(conn);
	queue_fixture_drop(f);
}

/* Plans are made once, perhaps while the queue is empty, and used when it is not. */
WHERRY_TEST(a_plan_for_any_queue_reads_no_row_it_does_not_return)
{
	static const char *const names[] = {"receive", "take"};
	static const char *const wanted[] = {"jobs_ready", "jobs_timed", "jobs_pkey",
					     NULL};
	static const char *const behind[] = {"jobs_ready", "jobs_pkey", NULL};
	static const char *const unwanted[] = {"Seq Scan", "Sort Key: jobs", NULL};
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	const wh_sql *sql = &f->queue->store.sql;

	for (int full = 0; full < 2; full++) {
		for (int i = 0; i < 2; i++)
			postgres_check_plan(f->db, sql, names[i], wanted, unwanted);
		postgres_check_plan(f->db, sql, "claim-behind", behind, unwanted);
		queue_raw(f, "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, "
			     "20000); ANALYZE jobs");
	}
	queue_fixture_drop(f);
}

static bool make_role(void)
{
	char url[200];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s",
		       postgres_folder());
	return postgres_raw(
		url,
		"CREATE ROLE q_app; ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON "
		"FUNCTIONS FROM PUBLIC",
		NULL, 0);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	if (!make_role())
		return 1;
	return wherry_run_tests(NULL, NULL);
}
