/*
 * Queues of NServiceBus: the cases of every layout, and its transport's own statements on the same
 * tables.  Where its transport has a defect, a test is named after what Wherry does instead.
 */
#include "queue_nservicebus_suite.h"

#include "postgres/backends.h"
#include "postgres/server.h"
#include "queue/queue.h"

/* What the transport receives, moves and looks at. */
#define THEY_RECEIVE                                                                       \
	"DELETE FROM jobs rs WHERE rs.id = (SELECT id FROM jobs ORDER BY Seq LIMIT 1 FOR " \
	"UPDATE SKIP LOCKED) RETURNING rs.Body, CASE WHEN Expires IS NULL THEN 0 WHEN "    \
	"Expires > now() AT TIME ZONE 'UTC' THEN 0 ELSE 1 END Expired, rs.Headers, rs.id"
#define THEY_MOVE                                                                           \
	"WITH message AS (DELETE FROM \"jobs.Delayed\" WHERE id IN (SELECT id FROM "        \
	"\"jobs.Delayed\" WHERE \"jobs.Delayed\".Due < now() AT TIME ZONE 'UTC' LIMIT 100)" \
	" RETURNING id, headers, body) INSERT INTO jobs(id, expires, headers, body) "       \
	"SELECT id, NULL, headers, body FROM message"
#define THEY_PEEK                                                                          \
	"SELECT COALESCE(cast((SELECT seq FROM jobs ORDER BY seq DESC LIMIT 1 FOR UPDATE " \
	"SKIP LOCKED) - (SELECT seq FROM jobs ORDER BY seq ASC LIMIT 1 FOR UPDATE SKIP "   \
	"LOCKED) + 1 AS int), 0)"

/* Their tables, as their installer makes them: none of ours is there. */
static int make_theirs(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_fixture *f;

	(void)nservicebus_make(state);
	f = *state;
	wherry_queue_close(f->queue);
	queue_raw(f, "DROP TABLE jobs, \"jobs.Delayed\", \"SubscriptionRouting\", "
		     "jobs_received; "
		     "CREATE TABLE jobs(Id uuid NOT NULL PRIMARY KEY, Expires TIMESTAMP, "
		     "Headers TEXT NOT NULL, Body BYTEA, Seq serial NOT NULL UNIQUE)");
	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &f->queue, &err));
	return 0;
}

static void they_send(queue_fixture *f, const char *ttl_ms, const char *headers,
		      const char *body)
{
	queue_raw(f,
		  "INSERT INTO jobs(Id, Expires, Headers, Body) VALUES "
		  "(gen_random_uuid(), (now() AT TIME ZONE 'UTC') + (%s || ' "
		  "ms')::interval, '%s', '%s')",
		  ttl_ms, headers, body);
}

static void they_send_bare(queue_fixture *f, const char *id, const char *headers)
{
	queue_raw(f, "INSERT INTO jobs(id, headers) VALUES ('%s', '%s')", id, headers);
}

static void they_number(queue_fixture *f, int64_t number)
{
	queue_raw(f,
		  "INSERT INTO jobs(id, headers, seq) VALUES (gen_random_uuid(), '{}', "
		  "%lld)",
		  (long long)number);
}

static void they_store(queue_fixture *f, int seconds, const char *headers,
		       const char *body)
{
	queue_raw(f,
		  "WITH params (DueDate) AS (VALUES (timestamptz (now() AT TIME ZONE "
		  "'UTC') + ('%d' || ' s')::interval)) INSERT INTO "
		  "\"jobs.Delayed\"(Headers, Body, Due) SELECT '%s', '%s', DueDate FROM "
		  "params",
		  seconds, headers, body);
}

static void they_move(queue_fixture *f)
{
	queue_raw(f, "SET TimeZone = 'UTC'; " THEY_MOVE);
}

static const char *they_receive(queue_fixture *f)
{
	return queue_text(f, THEY_RECEIVE);
}

static int64_t expiring(queue_fixture *f, int64_t from_s, int64_t to_s)
{
	return queue_int(
		f,
		"SELECT count(*) FROM jobs WHERE headers::json IS NOT NULL AND "
		"extract(epoch FROM expires - (now() AT TIME ZONE 'UTC')) BETWEEN "
		"%lld AND %lld",
		(long long)from_s, (long long)to_s);
}

static const nservicebus_app theirs_is = {they_send,  they_send_bare, they_number,
					  they_store, they_move,      they_receive,
					  expiring};

static PGconn *app(queue_fixture *f)
{
	return PQconnectdb(((postgres_place *)f->place)->url);
}

static void run(PGconn *conn, const char *sql)
{
	assert_true(postgres_exec(conn, sql, NULL, 0));
}

/* ---- both at once ---- */

WHERRY_TEST_ON(both_receive_from_one_queue, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	PGconn *theirs = app(f);
	wherry_error err = WHERRY_ERROR_INIT;
	char body[20] = "";

	for (int i = 1; i <= 5; i++)
		(void)queue_send(f, i);
	run(theirs, "BEGIN");
	assert_true(postgres_exec(theirs, THEY_RECEIVE, body, sizeof(body)));
	assert_string_equal(body, "1");
	(void)queue_lease(f->queue, 1, "2");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_string_equal(queue_receive(f->queue, WHERRY_ATOMIC, 1).bodies, "3");
	assert_true(postgres_exec(theirs, THEY_RECEIVE, body, sizeof(body)));
	assert_string_equal(body, "4");
	wherry_db_rollback(f->db);
	run(theirs, "ROLLBACK");
	f->queue->scan_start.next_full_us = 0;
	queue_takes(f, 9, "1 3 4 5");
	PQfinish(theirs);
}

WHERRY_TEST_ON(a_table_of_theirs_is_recognised, queue_fixture *f, make_theirs,
	       nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	queue_got got = {.n = 0};

	(void)queue_send(f, 1);
	assert_string_equal(they_receive(f), "1");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_queue_receive(f->queue, NULL, queue_note, &got, NULL, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_QUEUE);
	assert_string_equal(err.layout, "nservicebus");
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
	(void)queue_send(f, 2);
	(void)queue_lease(f->queue, 1, "2");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_string_equal(s.layout, "nservicebus");
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_queue_drop(f->queue, &err));
	assert_string_equal(queue_text(f, "SELECT pg_typeof(seq) FROM jobs RIGHT JOIN "
					  "(VALUES (1)) AS v ON true LIMIT 1"),
			    "integer");
}

WHERRY_TEST_ON(an_inspection_finds_what_limits_a_table_of_theirs, queue_fixture *f,
	       make_theirs, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[8000] = "";

	queue_raw(f, "ALTER TABLE jobs DROP CONSTRAINT jobs_seq_key");
	WHERRY_PASS(wherry_queue_inspect(f->queue, nservicebus_note_finding, text, &err));
	assert_non_null(strstr(text, "ALTER COLUMN seq TYPE bigint;"));
	assert_non_null(strstr(text, "jobs_seq_seq AS bigint;"));
	assert_non_null(strstr(text, "jobs_received"));
	queue_raw(f, "%s", text);
	*text = 0;
	WHERRY_PASS(wherry_queue_inspect(f->queue, nservicebus_note_finding, text, &err));
	assert_string_equal(text, "");
	queue_raw(f, "SELECT setval('jobs_seq_seq', 2147483647)");
	(void)queue_send(f, 1);
	(void)queue_lease(f->queue, 1, "1");
}

/* ---- modes ---- */

WHERRY_TEST_ON(a_retried_message_has_its_place_and_its_uuid, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char uuid[40];
	queue_got got;

	for (int i = 1; i <= 3; i++)
		(void)queue_send(f, i);
	(void)snprintf(uuid, sizeof(uuid), "%s",
		       queue_text(f, "SELECT id FROM jobs ORDER BY seq LIMIT 1"));
	got = queue_lease(f->queue, 2, "1 2");
	WHERRY_PASS(wherry_queue_dead_letter(f->queue, got.token, got.ids, 2, "x", NULL,
					     &err));
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, NULL, &err));
	assert_string_equal(queue_text(f, "SELECT id FROM jobs ORDER BY seq LIMIT 1"),
			    uuid);
	(void)queue_lease(f->queue, 9, "1 2 3");
}

/* ---- expiry and delays ---- */

WHERRY_TEST_ON(an_expired_message_is_dropped_by_the_servers_clock, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	they_send(f, "1000", "{}", "1");
	(void)queue_send_so(f, 2, 0, 30000000);
	(void)queue_send_so(f, 3, 0, 120000000);
	queue_raw(f, "INSERT INTO jobs(id, expires, headers, body) SELECT "
		     "gen_random_uuid(), expires, headers, body FROM jobs AS j, "
		     "generate_series(1, 2000) AS i WHERE body = '1' ORDER BY seq");
	they_send(f, "NULL", "{}", "4");
	queue_minute(f);
	queue_counts(f, "2004 0 0 0");
	(void)queue_lease(f->queue, 9, "3 4");
	queue_counts(f, "0 2 0 0");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 0);
	for (int i = 0; i < 5; i++)
		they_send(f, "1000", "{}", "1");
	queue_minute(f);
	WHERRY_PASS(wherry_queue_expire(f->queue, 2, &n, &err));
	assert_int_equal(n, 5);
}

/* Upstream stores a delay so that it depends on the session's time zone. */
WHERRY_TEST_ON(our_delays_do_not_depend_on_the_session_time_zone, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	static const char *const zones[] = {"America/New_York", "Asia/Kolkata", "UTC"};

	for (int i = 0; i < 3; i++) {
		char sql[100];

		(void)snprintf(sql, sizeof(sql), "SET TimeZone = '%s'", zones[i]);
		run(backend_conn(f->db), sql);
		(void)queue_send_so(f, i, 10000000, 0);
		(void)queue_send_so(f, 10 + i, 0, 10000000);
	}
	assert_int_equal(queue_int(f, "SELECT count(*) FROM \"jobs.Delayed\" WHERE due - "
				      "now() BETWEEN '5 s' AND '10 s'"),
			 3);
	run(backend_conn(f->db), "SET TimeZone = 'America/New_York'");
	(void)queue_lease(f->queue, 9, "10 11 12");
	/* a change of the clocks lies between, wherever the session thinks it is */
	queue_raw(f, "UPDATE \"jobs.Delayed\" SET due = now() - interval '1 s'");
	run(backend_conn(f->db), "SET TimeZone = 'Pacific/Apia'");
	assert_int_equal(queue_receive(f->queue, WHERRY_LEASE, 9).n, 3);
}

/* Upstream's second mover waits for the first, and moves nothing. */
WHERRY_TEST_ON(receivers_take_due_messages_beside_two_movers, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	PGconn *theirs = app(f);

	for (int i = 1; i <= 4; i++)
		(void)queue_send_so(f, i, i * 1000000, 0);
	queue_minute(f);
	run(theirs, "BEGIN; SET TimeZone = 'UTC'");
	run(theirs, "SELECT id FROM \"jobs.Delayed\" ORDER BY due LIMIT 2 FOR UPDATE");
	(void)queue_lease(f->queue, 1, "3");
	run(theirs, THEY_MOVE);
	(void)queue_lease(f->queue, 9, ""); /* the mover has them */
	run(theirs, "COMMIT");
	assert_int_equal(queue_receive(f->queue, WHERRY_LEASE, 9).n, 3);
	PQfinish(theirs);
}

WHERRY_TEST_ON(a_delayed_message_is_cancelled_also_after_it_moved, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t a = queue_send_so(f, 1, 50000000, 0), b = queue_send_so(f, 2, 1000, 0);
	int64_t c = queue_send(f, 3);

	(void)queue_send_so(f, 4, 50000000, 0);
	queue_minute(f);
	queue_raw(f,
		  "UPDATE \"jobs.Delayed\" SET due = now() + interval '1 h' WHERE body = "
		  "'1'");
	they_move(f);
	WHERRY_PASS(wherry_queue_cancel(f->queue, a, &err));
	WHERRY_PASS(wherry_queue_cancel(f->queue, b, &err));
	WHERRY_PASS(wherry_queue_cancel(f->queue, c, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_cancel(f->queue, a, &err));
	(void)queue_lease(f->queue, 9, "4");
}

/* ---- forwarding ---- */

WHERRY_TEST_WITH(a_message_for_another_queue_is_forwarded, nservicebus_make,
		 nservicebus_drop)
{
	queue_fixture *f = *state;
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.layout = "nservicebus");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *mails = NULL;
	char headers[300];
	const char *schema = ((postgres_place *)f->place)->name;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", &how, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	for (int i = 0; i < 3; i++) {
		static const char *const to[] = {"mails", "jobs", "nowhere"};

		(void)snprintf(
			headers, sizeof(headers),
			"{\"NServiceBus.MessageId\":\"m%d\",\"NServiceBus.SqlServer."
			"ForwardDestination\":\"\\\"%s\\\".\\\"%s\\\"\",\"x\":\"y\"}",
			i, schema, to[i]);
		they_store(f, 0, headers, "7");
	}
	queue_minute(f);
	(void)queue_lease(f->queue, 9, "7"); /* its own; the others are gone */
	assert_string_equal(queue_text(f, "SELECT left(headers, 38) FROM mails"),
			    "{\"NServiceBus.MessageId\":\"m0\",\"x\":\"y\",");
	(void)queue_lease(mails, 9, "7");
	queue_counts(f, "0 1 0 1");
	assert_int_equal(
		queue_int(f, "SELECT count(*) FROM jobs_received WHERE state = 4 AND "
			     "last_error LIKE '%%nowhere%%' AND headers LIKE "
			     "'%%ForwardDestination%%'"),
		1);
	wherry_queue_close(mails);
}

/* ---- defects of the transport that Wherry has not ---- */

/* Upstream's peek locks the first and the last row, and a receive meanwhile takes later ones. */
WHERRY_TEST_ON(order_with_one_consumer_while_we_peek, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	const wherry_queue_filter all = WHERRY_QUEUE_FILTER();
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *other = NULL;
	wherry_db *db = queue_connect(f);
	queue_got got = {.n = 0};
	PGconn *theirs = app(f);

	for (int i = 1; i <= 3; i++)
		(void)queue_send(f, i);
	(void)queue_send_so(f, 4, 50000000, 0);
	WHERRY_PASS(wherry_queue_open(db, "jobs", &other, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wherry_queue_peek(other, &all, queue_note, &got, &err));
	assert_string_equal(got.bodies, "1 2 3 4");
	assert_string_equal(they_receive(f), "1");
	(void)queue_lease(f->queue, 1, "2");
	wherry_db_rollback(db);
	/* while they peek, we pass over the rows that they have locked, and come back */
	(void)queue_send(f, 5);
	run(theirs, "BEGIN; " THEY_PEEK);
	(void)queue_lease(f->queue, 9, "");
	run(theirs, "COMMIT");
	(void)queue_lease(f->queue, 9, "3 5");
	PQfinish(theirs);
	wherry_queue_close(other);
	wherry_db_close(db);
}

WHERRY_TEST_ON(a_day_that_no_month_has_is_a_time, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;

	they_send(f, "NULL",
		  "{\"NServiceBus.TimeSent\":\"2020-02-31 10:00:00:000001 Z\"}", "1");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_true(s.oldest_ready_us > 5LL * 365 * 86400 * 1000000);
	(void)queue_lease(f->queue, 9, "1");
}

/* Upstream's sequence ends at 2147483647. */
WHERRY_TEST_ON(a_queue_of_ours_goes_on_behind_2_to_the_31, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	queue_raw(f, "SELECT setval('jobs_seq_seq', 2147483646)");
	for (int i = 1; i <= 3; i++)
		(void)queue_send(f, i);
	assert_string_equal(they_receive(f), "1");
	(void)queue_lease(f->queue, 9, "2 3");
}

WHERRY_TEST_ON(a_sequence_of_theirs_that_ended_says_what_to_do, queue_fixture *f,
	       make_theirs, nservicebus_drop)
{
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;

	queue_raw(f, "SELECT setval('jobs_seq_seq', 2147483647)");
	assert_int_not_equal(wherry_queue_send(f->queue, &msg, NULL, &err), WHERRY_OK);
	if (!strstr(err.message, "has given out its last number"))
		print_error("%s\n", err.message);
	assert_non_null(strstr(err.message, "has given out its last number"));
}

WHERRY_TEST_ON(any_number_is_received, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	queue_raw(f, "INSERT INTO jobs(id, headers, body, seq) VALUES "
		     "(gen_random_uuid(), '{}', '1', -9223372036854775808), "
		     "(gen_random_uuid(), '{}', '2', 0), "
		     "(gen_random_uuid(), '{}', '3', 9223372036854775807)");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_string_equal(queue_receive(f->queue, WHERRY_ATOMIC, 1).bodies, "1");
	wherry_db_rollback(f->db);
	(void)queue_lease(f->queue, 9, "1 2 3");
	(void)queue_send(f, 4);
	(void)queue_lease(f->queue, 9, "4");
}

/* Numbers that were given out before: the rows are other ones. */
WHERRY_TEST_ON(a_sequence_that_was_set_back_loses_nothing, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got a, b;

	(void)queue_send(f, 1);
	a = queue_lease(f->queue, 1, "1");
	queue_raw(f, "TRUNCATE jobs RESTART IDENTITY");
	(void)queue_send(f, 2);
	f->queue->after = 0;
	b = queue_lease(f->queue, 1, "2");
	assert_int_equal(a.ids[0], b.ids[0]);
	WHERRY_PASS(wherry_queue_ack(f->queue, b.token, b.ids, 1, NULL, &err));
	queue_counts(f, "0 1 0 0");
	WHERRY_PASS(
		wherry_queue_dead_letter(f->queue, a.token, a.ids, 1, "x", NULL, &err));
	(void)queue_send(f, 3);
	queue_raw(f, "UPDATE jobs SET seq = 1");
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, NULL, &err));
	(void)queue_lease(f->queue, 9, "3 1");
}

/* Two messages have one number: what becomes of one leaves the lease of the other alone. */
WHERRY_TEST_ON(a_number_that_was_given_out_again_does_not_end_a_lease, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_nack how = WHERRY_NACK(.error = "x");
	queue_got a, b;
	int64_t n = 0;

	(void)queue_send(f, 1);
	a = queue_lease(f->queue, 1, "1");
	queue_raw(f, "TRUNCATE jobs RESTART IDENTITY");
	(void)queue_send(f, 2);
	f->queue->after = 0;
	b = queue_lease(f->queue, 1, "2");
	assert_int_equal(a.ids[0], b.ids[0]);
	WHERRY_PASS(wherry_queue_nack(f->queue, b.token, b.ids, 1, &how, NULL, &err));
	b = queue_lease(f->queue, 9, "2");
	WHERRY_PASS(wherry_queue_nack(f->queue, b.token, b.ids, 1, &how, NULL, &err));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_string_equal(queue_receive(f->queue, WHERRY_ATOMIC, 9).bodies, "2");
	wherry_db_rollback(f->db);
	WHERRY_PASS(wherry_queue_purge(f->queue, 0, 9, &n, &err));
	assert_int_equal(n, 1);
	queue_counts(f, "0 1 0 0");
	WHERRY_PASS(wherry_queue_ack(f->queue, a.token, a.ids, 1, &n, &err));
	assert_int_equal(n, 1);
}

WHERRY_TEST_ON(an_open_snapshot_does_not_stop_the_anchor, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	for (int i = 1; i <= 6; i++)
		(void)queue_send(f, i);
	f->queue->scan_start.next_full_us = INT64_MAX;
	(void)queue_lease(f->queue, 2, "1 2");
	assert_int_equal(f->queue->after, 2);
	queue_takes(f, 2, "3 4");
	assert_int_equal(f->queue->after,
			 2); /* a rollback might have brought them back */
	(void)queue_lease(f->queue, 2, "5 6");
	assert_int_equal(f->queue->after, 6);
}

WHERRY_TEST_ON(purge_under_load_leaves_what_others_have, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *theirs = app(f);
	int64_t n = 0;

	for (int i = 1; i <= 6; i++)
		(void)queue_send(f, i);
	(void)queue_send_so(f, 7, 50000000, 0);
	run(theirs, "BEGIN; " THEY_RECEIVE);
	(void)queue_lease(f->queue, 1, "2");
	WHERRY_PASS(wherry_queue_purge(f->queue, 0, 2, &n, &err));
	assert_int_equal(n, 5);
	run(theirs, "ROLLBACK");
	queue_counts(f, "1 1 0 0");
	PQfinish(theirs);
}

/* ---- subscriptions ---- */

static wherry_code note(void *ctx, const char *topic, const char *queue)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)snprintf(text + len, 300 - len, "%s>%s ", topic,
		       strrchr(queue, '.') ? strrchr(queue, '.') : queue);
	return WHERRY_OK;
}

WHERRY_TEST_ON(subscriptions_are_shared, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	char text[300] = "";
	nservicebus_seen s;

	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "Shop.Paid", "jobs", &err));
	/* how they look it up */
	assert_int_equal(
		queue_int(f, "SELECT count(DISTINCT QueueAddress) FROM "
			     "\"SubscriptionRouting\" WHERE Topic IN ('Shop.Paid', "
			     "'System.Object') AND Endpoint = 'jobs' AND QueueAddress "
			     "= '\"' || current_schema() || '\".\"jobs\"'"),
		1);
	queue_raw(f,
		  "INSERT INTO \"SubscriptionRouting\" VALUES ('jobs', 'other', 'Sent')");
	assert_int_equal(nservicebus_publish(topics, "Shop.Paid", "1"), 1);
	assert_int_equal(nservicebus_publish(topics, "Sent", "2"), 1);
	assert_int_equal(nservicebus_publish(topics, "Lost", "3"), 0);
	assert_non_null(strstr(nservicebus_receive(f, &s), "|Shop.Paid|-|-|1 "));
	assert_non_null(strstr(s.fields, "|Sent|-|-|2"));
	WHERRY_PASS(wherry_topics_list(topics, NULL, note, text, &err));
	assert_string_equal(text, "Sent>jobs Shop.Paid>.\"jobs\" ");
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	assert_int_equal(nservicebus_publish(topics, "Shop.Paid", "4"), 0);
	wherry_topics_close(topics);
}

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};

	if (!postgres_start())
		return 0;
	return nservicebus_suite_run(
		&theirs_is, backends, sizeof(backends) / sizeof(*backends),
		wherry_tests_of_file()->all, wherry_tests_of_file()->n);
}
