/*
 * Queues of NServiceBus: the cases of every layout, and its transport's own statements on the same
 * tables.  Where its transport has a defect, a test is named after what Wherry does instead.
 */
#include "queue_suite.h"

#include "postgres/backends.h"
#include "postgres/server.h"
#include "queue/queue.h"

/* What the transport sends, with the headers and the time to live in milliseconds; what it stores
 * to be due after so many seconds, and receives. */
#define THEY_SEND                                                                         \
	"INSERT INTO jobs(Id, Expires, Headers, Body) VALUES (gen_random_uuid(), (now() " \
	"AT TIME ZONE 'UTC') + (%s || ' ms')::interval, '%s', '%s')"
#define THEY_STORE                                                                          \
	"WITH params (DueDate) AS (VALUES (timestamptz (now() AT TIME ZONE 'UTC') + ('%d' " \
	"|| ' s')::interval)) INSERT INTO \"jobs.Delayed\"(Headers, Body, Due) SELECT "     \
	"'%s', '%s', DueDate FROM params"
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

static int make(void **state)
{
	*state = queue_fixture_make_layout(&outbox_postgres_own, "nservicebus");
	return 0;
}

static int drop(void **state)
{
	queue_fixture_drop(*state);
	return 0;
}

/* Their tables, as their installer makes them: none of ours is there. */
static int make_theirs(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_fixture *f;

	(void)make(state);
	f = *state;
	wherry_queue_close(f->queue);
	queue_raw(f, "DROP TABLE jobs, \"jobs.Delayed\", \"SubscriptionRouting\", "
		     "jobs_received; "
		     "CREATE TABLE jobs(Id uuid NOT NULL PRIMARY KEY, Expires TIMESTAMP, "
		     "Headers TEXT NOT NULL, Body BYTEA, Seq serial NOT NULL UNIQUE)");
	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &f->queue, &err));
	return 0;
}

static PGconn *app(queue_fixture *f)
{
	return PQconnectdb(((postgres_place *)f->place)->url);
}

static void run(PGconn *conn, const char *sql)
{
	assert_true(postgres_exec(conn, sql, NULL, 0));
}

/* They receive: the body, "" if there is no message. */
static const char *they_receive(queue_fixture *f)
{
	return queue_text(f, THEY_RECEIVE);
}

/* Fields of the messages that were received. */
typedef struct seen {
	int n;
	char fields[1000];
} seen;

static wherry_code see(void *ctx, const wherry_queue_message *m)
{
	seen *s = ctx;
	size_t len = strlen(s->fields);

	(void)snprintf(s->fields + len, sizeof(s->fields) - len, "%s%s|%s|%s|%s|%.*s",
		       s->n++ ? " " : "", m->message_id, m->topic ? m->topic : "-",
		       m->correlation_id ? m->correlation_id : "-",
		       m->reply_to ? m->reply_to : "-", (int)m->body_len,
		       (const char *)m->body);
	return WHERRY_OK;
}

static const char *receive(queue_fixture *f, seen *s)
{
	const wherry_receive_options options = WHERRY_RECEIVE_OPTIONS(.limit = 9);
	wherry_error err = WHERRY_ERROR_INIT;

	*s = (seen){.n = 0};
	WHERRY_PASS(wherry_queue_receive(f->queue, &options, see, s, NULL, &err));
	return s->fields;
}

/* ---- both at once ---- */

static void what_we_send_is_a_row_of_theirs(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(
			.message_id = "m1", .topic = "Shop.OrderPlaced",
			.correlation_id = "c1", .reply_to = "web",
			.headers =
				"{\"a/b\":\"\xf0\x9f\x9a\x80 \\\" \xc3\xa9\",\"n\":null}",
			.body = "{}", .body_len = 2, .expires_us = 60000000);
	const char *headers;

	WHERRY_PASS(wherry_queue_send(f->queue, &msg, NULL, &err));
	headers = queue_text(f, "SELECT headers FROM jobs");
	assert_int_equal(
		strncmp(headers,
			"{\"a\\/b\":\"\\uD83D\\uDE80 \\\" \xc3\xa9\",\"n\":null,"
			"\"NServiceBus.CorrelationId\":\"c1\","
			"\"NServiceBus.ReplyToAddress\":\"web\","
			"\"NServiceBus.EnclosedMessageTypes\":\"Shop.OrderPlaced\","
			"\"NServiceBus.MessageId\":\"m1\",\"NServiceBus.TimeSent\":\"20",
			strlen("{\"a\\/b\":\"\\uD83D\\uDE80 \\\" \xc3\xa9\",\"n\":null,"
			       "\"NServiceBus.CorrelationId\":\"c1\","
			       "\"NServiceBus.ReplyToAddress\":\"web\","
			       "\"NServiceBus.EnclosedMessageTypes\":\"Shop.OrderPlaced\","
			       "\"NServiceBus.MessageId\":\"m1\","
			       "\"NServiceBus.TimeSent\":\"20")),
		0);
	assert_int_equal(
		queue_int(
			f,
			"SELECT count(*) FROM jobs WHERE headers::json IS NOT NULL AND "
			"expires - (now() AT TIME ZONE 'UTC') BETWEEN '50 s' AND '60 s'"),
		1);
	assert_string_equal(they_receive(f), "{}");
	assert_string_equal(they_receive(f), "");
}

static void what_they_send_is_received(void **state)
{
	static const char headers[] = "{\"NServiceBus.MessageId\":\"m1\","
				      "\"NServiceBus.CorrelationId\":\"c1\","
				      "\"NServiceBus.ReplyToAddress\":\"web\","
				      "\"NServiceBus.EnclosedMessageTypes\":\"A, B\","
				      "\"x\":\"a\\/b\"}";
	queue_fixture *f = *state;
	seen s;

	queue_raw(f, THEY_SEND, "NULL", headers, "1");
	assert_string_equal(receive(f, &s), "m1|A, B|c1|web|1");
	queue_raw(f, "INSERT INTO jobs(id, headers) VALUES "
		     "('11111111-2222-3333-4444-555555555555', '')");
	assert_string_equal(receive(f, &s),
			    "11111111-2222-3333-4444-555555555555|-|-|-|");
	queue_raw(f, THEY_SEND, "NULL", "null", "3");
	(void)queue_lease(f->queue, 1, "3");
	queue_raw(f, THEY_SEND, "NULL", "{}", "4");
	queue_takes(f, 1, "4");
}

static void a_message_of_theirs_can_be_sent_on(void **state)
{
	static const char headers[] = "{\"NServiceBus.MessageId\":\"m1\",\"x\":null}";
	queue_fixture *f = *state;
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.headers = headers, .body = "1", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	seen s;

	WHERRY_PASS(wherry_queue_send(f->queue, &msg, NULL, &err));
	WHERRY_PASS(wherry_queue_send_many(f->queue, &msg, 1, NULL, &err));
	assert_string_equal(receive(f, &s), "m1|-|-|-|1 m1|-|-|-|1");
}

static void both_receive_from_one_queue(void **state)
{
	queue_fixture *f = *state;
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
	f->queue->next_full_us = 0;
	queue_takes(f, 9, "1 3 4 5");
	PQfinish(theirs);
}

static void a_table_of_theirs_is_recognised(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	queue_got got = {.n = 0};

	(void)queue_send(f, 1);
	assert_string_equal(they_receive(f), "1");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_queue_receive(f->queue, NULL, queue_note, &got, NULL, &err));
	assert_non_null(strstr(err.message, "wherry queue create --layout nservicebus"));
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

static wherry_code note_finding(void *ctx, const char *what, const char *repair)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)what;
	(void)snprintf(text + len, 8000 - len, "%s\n", repair);
	return WHERRY_OK;
}

static void an_inspection_finds_what_limits_a_table_of_theirs(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	char text[8000] = "";

	queue_raw(f, "ALTER TABLE jobs DROP CONSTRAINT jobs_seq_key");
	WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
	assert_non_null(strstr(text, "ALTER COLUMN seq TYPE bigint;"));
	assert_non_null(strstr(text, "jobs_seq_seq AS bigint;"));
	assert_non_null(strstr(text, "jobs_received"));
	queue_raw(f, "%s", text);
	*text = 0;
	WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
	assert_string_equal(text, "");
	queue_raw(f, "SELECT setval('jobs_seq_seq', 2147483647)");
	(void)queue_send(f, 1);
	(void)queue_lease(f->queue, 1, "1");
}

/* ---- modes ---- */

static void a_lease_is_kept_beside_the_queue(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	assert_string_equal(they_receive(f), "");
	queue_counts(f, "0 1 0 0");
	WHERRY_PASS(wherry_queue_dead_letter(f->queue, got.token, got.ids, 1, "bad order",
					     NULL, &err));
	queue_counts(f, "0 0 0 1");
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs_received"),
			    "bad order");
	WHERRY_PASS(wherry_queue_return(f->queue, got.ids[0], NULL, &err));
	assert_string_equal(they_receive(f), "1");
}

static void a_returned_message_has_its_place_and_its_uuid(void **state)
{
	queue_fixture *f = *state;
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
	WHERRY_PASS(wherry_queue_return(f->queue, 0, NULL, &err));
	assert_string_equal(queue_text(f, "SELECT id FROM jobs ORDER BY seq LIMIT 1"),
			    uuid);
	(void)queue_lease(f->queue, 9, "1 2 3");
}

static void a_nack_keeps_the_attempts(void **state)
{
	const wherry_nack later = WHERRY_NACK(.delay_us = 50000000, .error = "no route");
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_PASS(
		wherry_queue_nack(f->queue, got.token, got.ids, 1, &later, NULL, &err));
	queue_counts(f, "0 0 1 0");
	(void)queue_lease(f->queue, 1, "");
	queue_minute(f);
	got = queue_lease(f->queue, 1, "1");
	assert_int_equal(got.attempts[0], 2);
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs_received"),
			    "no route");
}

static void a_message_that_kills_its_receivers_dies(void **state)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.limit = 9, .max_attempts = 2);
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};

	(void)queue_send(f, 1);
	(void)queue_lease(f->queue, 1, "1");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "1");
	queue_minute(f);
	(void)queue_send(f, 2);
	WHERRY_PASS(
		wherry_queue_receive(f->queue, &options, queue_note, &got, NULL, &err));
	assert_string_equal(got.bodies, "2");
	queue_counts(f, "0 1 0 1");
}

static void poison_dies_in_every_mode(void **state)
{
	static const wherry_receive_mode modes[] = {WHERRY_LEASE, WHERRY_ATOMIC,
						    WHERRY_AT_MOST_ONCE};
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < 3; i++) {
		queue_got got;

		(void)queue_send(f, 1);
		queue_raw(f, THEY_SEND, "NULL", "{\"a\":", "2");
		queue_raw(f, THEY_SEND, "NULL", "[]", "3");
		queue_raw(
			f,
			"INSERT INTO jobs(id, headers) VALUES (gen_random_uuid(), '7')");
		(void)queue_send(f, 4);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_begin(f->db, &err));
		got = queue_receive(f->queue, modes[i], 9);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_commit(f->db, &err));
		assert_string_equal(got.bodies, "1 4");
		assert_string_equal(
			queue_text(f,
				   "SELECT string_agg(body::text || headers, ' ' ORDER "
				   "BY id) FROM jobs_received WHERE state = 4 AND "
				   "last_error LIKE '%%headers%%'"),
			"\\x32{\"a\": \\x33[]");
		queue_raw(f, "DELETE FROM jobs_received; DELETE FROM jobs");
	}
}

/* ---- expiry and delays ---- */

static void an_expired_message_is_dropped_by_the_servers_clock(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	queue_raw(f, THEY_SEND, "1000", "{}", "1");
	(void)queue_send_so(f, 2, 0, 30000000);
	(void)queue_send_so(f, 3, 0, 120000000);
	queue_raw(f, "INSERT INTO jobs(id, expires, headers, body) SELECT "
		     "gen_random_uuid(), expires, headers, body FROM jobs AS j, "
		     "generate_series(1, 2000) AS i WHERE body = '1' ORDER BY seq");
	queue_raw(f, THEY_SEND, "NULL", "{}", "4");
	queue_minute(f);
	queue_counts(f, "2 0 0 0");
	(void)queue_lease(f->queue, 9, "3 4");
	queue_counts(f, "0 2 0 0");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs"), 0);
	for (int i = 0; i < 5; i++)
		queue_raw(f, THEY_SEND, "1000", "{}", "1");
	queue_minute(f);
	WHERRY_PASS(wherry_queue_expire(f->queue, 2, &n, &err));
	assert_int_equal(n, 5);
}

static void an_expiry_of_25_days_is_kept(void **state)
{
	queue_fixture *f = *state;

	(void)queue_send_so(f, 1, 0, 25LL * 86400 * 1000000);
	(void)queue_send_so(f, 2, 0, INT64_MAX);
	assert_int_equal(queue_int(f,
				   "SELECT count(*) FROM jobs WHERE expires > (now() AT "
				   "TIME ZONE 'UTC') + interval '24 d 23 h'"),
			 2);
	(void)queue_lease(f->queue, 9, "1 2");
}

static void a_delay_with_an_expiry_is_refused_by_name(void **state)
{
	queue_fixture *f = *state;
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1, .delay_us = 1000000,
				     .expires_us = 1000000);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_queue_send(f->queue, &msg, NULL, &err));
	assert_non_null(strstr(err.message,
			       "nservicebus, which has no place for the expiry "
			       "of a delayed message"));
}

static void a_delayed_message_of_either_is_received_by_either(void **state)
{
	queue_fixture *f = *state;

	(void)queue_send_so(f, 1, 50000000, 0);
	queue_raw(f, THEY_STORE, 40, "{}", "2");
	(void)queue_lease(f->queue, 9, "");
	queue_counts(f, "0 0 2 0");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "2"); /* it is due first */
	queue_raw(f, "SET TimeZone = 'UTC'; " THEY_MOVE);
	assert_string_equal(they_receive(f), "1");
}

/* Upstream stores a delay so that it depends on the session's time zone. */
static void our_delays_do_not_depend_on_the_session_time_zone(void **state)
{
	static const char *const zones[] = {"America/New_York", "Asia/Kolkata", "UTC"};
	queue_fixture *f = *state;

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
static void receivers_take_due_messages_beside_two_movers(void **state)
{
	queue_fixture *f = *state;
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

static void a_delayed_message_is_cancelled_also_after_it_moved(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t a = queue_send_so(f, 1, 50000000, 0), b = queue_send_so(f, 2, 1000, 0);
	int64_t c = queue_send(f, 3);

	(void)queue_send_so(f, 4, 50000000, 0);
	queue_minute(f);
	queue_raw(f,
		  "UPDATE \"jobs.Delayed\" SET due = now() + interval '1 h' WHERE body = "
		  "'1'");
	queue_raw(f, "SET TimeZone = 'UTC'; " THEY_MOVE);
	WHERRY_PASS(wherry_queue_cancel(f->queue, a, &err));
	WHERRY_PASS(wherry_queue_cancel(f->queue, b, &err));
	WHERRY_PASS(wherry_queue_cancel(f->queue, c, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_cancel(f->queue, a, &err));
	(void)queue_lease(f->queue, 9, "4");
}

/* ---- forwarding ---- */

static void a_message_for_another_queue_is_forwarded(void **state)
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
		queue_raw(f, THEY_STORE, 0, headers, "7");
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

static void a_rolled_back_receive_forwards_nothing(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *mails = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err)); /* native */
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	queue_raw(f, THEY_SEND, "NULL",
		  "{\"NServiceBus.SqlServer.ForwardDestination\":\"mails\"}", "7");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(queue_receive(f->queue, WHERRY_ATOMIC, 9).n, 0);
	wherry_db_rollback(f->db);
	queue_counts(f, "1 0 0 0");
	queue_takes(f, 9, "");
	(void)queue_lease(mails, 9, "7");
	wherry_queue_close(mails);
}

/* ---- defects of the transport that Wherry has not ---- */

/* Upstream's peek locks the first and the last row, and a receive meanwhile takes later ones. */
static void order_with_one_consumer_while_we_peek(void **state)
{
	queue_fixture *f = *state;
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

/* Upstream's length is the distance of the last number from the first. */
static void the_length_counts_messages(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	int64_t due = -7;

	queue_raw(f, "INSERT INTO jobs(id, headers, seq) VALUES (gen_random_uuid(), "
		     "'{\"NServiceBus.TimeSent\":\"2020-02-31 10:00:00:000001 Z\"}', 1), "
		     "(gen_random_uuid(), '{}', 4000000000000)");
	queue_counts(f, "2 0 0 0");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_true(s.oldest_ready_us > 5LL * 365 * 86400 * 1000000);
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_int_equal(due, 0);
	queue_raw(f, "DELETE FROM jobs");
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_int_equal(due, -1);
	(void)queue_send_so(f, 1, 50000000, 0);
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_in_range((uint64_t)due, 1000000, 50000000);
}

/* Upstream's sequence ends at 2147483647. */
static void a_queue_of_ours_goes_on_behind_2_to_the_31(void **state)
{
	queue_fixture *f = *state;

	queue_raw(f, "SELECT setval('jobs_seq_seq', 2147483646)");
	for (int i = 1; i <= 3; i++)
		(void)queue_send(f, i);
	assert_string_equal(they_receive(f), "1");
	(void)queue_lease(f->queue, 9, "2 3");
}

static void a_sequence_of_theirs_that_ended_says_what_to_do(void **state)
{
	queue_fixture *f = *state;
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;

	queue_raw(f, "SELECT setval('jobs_seq_seq', 2147483647)");
	assert_int_not_equal(wherry_queue_send(f->queue, &msg, NULL, &err), WHERRY_OK);
	if (!strstr(err.message, "has given out its last number"))
		print_error("%s\n", err.message);
	assert_non_null(strstr(err.message, "has given out its last number"));
}

static void any_number_is_received(void **state)
{
	queue_fixture *f = *state;
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
static void a_sequence_that_was_set_back_loses_nothing(void **state)
{
	queue_fixture *f = *state;
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
	WHERRY_PASS(wherry_queue_return(f->queue, 0, NULL, &err));
	(void)queue_lease(f->queue, 9, "3 1");
}

static void an_open_snapshot_does_not_stop_the_anchor(void **state)
{
	queue_fixture *f = *state;

	for (int i = 1; i <= 6; i++)
		(void)queue_send(f, i);
	f->queue->next_full_us = INT64_MAX;
	(void)queue_lease(f->queue, 2, "1 2");
	assert_int_equal(f->queue->after, 2);
	queue_takes(f, 2, "3 4");
	assert_int_equal(f->queue->after,
			 2); /* a rollback might have brought them back */
	(void)queue_lease(f->queue, 2, "5 6");
	assert_int_equal(f->queue->after, 6);
}

static void purge_under_load_leaves_what_others_have(void **state)
{
	queue_fixture *f = *state;
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

static int64_t publish(wherry_topics *topics, const char *topic, const char *body)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = body, .body_len = strlen(body));
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_topics_publish(topics, topic, &msg, &n, &err));
	return n;
}

static wherry_code note(void *ctx, const char *topic, const char *queue)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)snprintf(text + len, 300 - len, "%s>%s ", topic,
		       strrchr(queue, '.') ? strrchr(queue, '.') : queue);
	return WHERRY_OK;
}

static void subscriptions_are_shared(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	char text[300] = "";
	seen s;

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
	assert_int_equal(publish(topics, "Shop.Paid", "1"), 1);
	assert_int_equal(publish(topics, "Sent", "2"), 1);
	assert_int_equal(publish(topics, "Lost", "3"), 0);
	assert_non_null(strstr(receive(f, &s), "|Shop.Paid|-|-|1 "));
	assert_non_null(strstr(s.fields, "|Sent|-|-|2"));
	WHERRY_PASS(wherry_topics_list(topics, NULL, note, text, &err));
	assert_string_equal(text, "Sent>jobs Shop.Paid>.\"jobs\" ");
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	assert_int_equal(publish(topics, "Shop.Paid", "4"), 0);
	wherry_topics_close(topics);
}

static void one_publication_reaches_both_layouts_or_none(void **state)
{
	queue_fixture *f = *state;
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "9", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wherry_queue *mails = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "mails", &err));
	assert_int_equal(publish(topics, "paid", "1"), 2);
	(void)queue_lease(f->queue, 9, "1");
	(void)queue_lease(mails, 9, "1");
	queue_raw(f,
		  "INSERT INTO \"SubscriptionRouting\" VALUES ('nowhere', 'x', 'paid')");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_publish(topics, "paid", &msg, NULL, &err));
	(void)queue_lease(f->queue, 9, "");
	(void)queue_lease(mails, 9, "");
	wherry_topics_close(topics);
	wherry_queue_close(mails);
}

#define OURS(run) cmocka_unit_test_setup_teardown(run, make, drop)
#define THEIRS(run) cmocka_unit_test_setup_teardown(run, make_theirs, drop)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		OURS(what_we_send_is_a_row_of_theirs),
		OURS(what_they_send_is_received),
		OURS(a_message_of_theirs_can_be_sent_on),
		OURS(both_receive_from_one_queue),
		THEIRS(a_table_of_theirs_is_recognised),
		THEIRS(an_inspection_finds_what_limits_a_table_of_theirs),
		OURS(a_lease_is_kept_beside_the_queue),
		OURS(a_returned_message_has_its_place_and_its_uuid),
		OURS(a_nack_keeps_the_attempts),
		OURS(a_message_that_kills_its_receivers_dies),
		OURS(poison_dies_in_every_mode),
		OURS(an_expired_message_is_dropped_by_the_servers_clock),
		OURS(an_expiry_of_25_days_is_kept),
		OURS(a_delay_with_an_expiry_is_refused_by_name),
		OURS(a_delayed_message_of_either_is_received_by_either),
		OURS(our_delays_do_not_depend_on_the_session_time_zone),
		OURS(receivers_take_due_messages_beside_two_movers),
		OURS(a_delayed_message_is_cancelled_also_after_it_moved),
		OURS(a_message_for_another_queue_is_forwarded),
		OURS(a_rolled_back_receive_forwards_nothing),
		OURS(order_with_one_consumer_while_we_peek),
		OURS(the_length_counts_messages),
		OURS(a_queue_of_ours_goes_on_behind_2_to_the_31),
		THEIRS(a_sequence_of_theirs_that_ended_says_what_to_do),
		OURS(any_number_is_received),
		OURS(a_sequence_that_was_set_back_loses_nothing),
		OURS(an_open_snapshot_does_not_stop_the_anchor),
		OURS(purge_under_load_leaves_what_others_have),
		OURS(subscriptions_are_shared),
		OURS(one_publication_reaches_both_layouts_or_none),
	};
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};

	if (!postgres_start())
		return 0;
	return queue_suite_run_layout("nservicebus", backends,
				      sizeof(backends) / sizeof(*backends), tests,
				      sizeof(tests) / sizeof(*tests));
}
