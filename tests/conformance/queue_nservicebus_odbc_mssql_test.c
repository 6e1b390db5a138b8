/*
 * Queues of NServiceBus on SQL Server: the cases of every layout, and statements such as its
 * transport has on the same tables.
 */
#include "queue_suite.h"

#include "mssql/backend.h"
#include "queue/queue.h"

/* What the transport does, in statements that Babelfish runs as well: send with a time to live in
 * milliseconds, store what is due after so many seconds, receive, move what is due. */
#define THEY_SEND                                                                        \
	"INSERT INTO jobs(Id, Recoverable, Expires, Headers, Body) VALUES (NEWID(), 1, " \
	"DATEADD(MILLISECOND, %s, GETUTCDATE()), N'%s', CAST('%s' AS VARBINARY(MAX)))"
#define THEY_STORE                                                                       \
	"INSERT INTO \"jobs.Delayed\"(Headers, Body, Due) VALUES (N'%s', CAST('%s' "     \
	"AS VARBINARY(MAX)), DATEADD(SECOND, %d, GETUTCDATE()))"
#define THEY_RECEIVE                                                                         \
	"DECLARE @got TABLE(body VARBINARY(MAX)); DELETE t OUTPUT deleted.Body INTO @got "   \
	"FROM jobs AS t JOIN (SELECT TOP (1) RowVersion FROM jobs WITH (UPDLOCK, READPAST, " \
	"ROWLOCK) ORDER BY RowVersion) AS d ON d.RowVersion = t.RowVersion; SELECT "         \
	"CAST(body AS VARCHAR(100)) FROM @got"
#define THEY_MOVE                                                                        \
	"DELETE t OUTPUT NEWID(), 1, deleted.Headers, deleted.Body INTO jobs(Id, "       \
	"Recoverable, Headers, Body) FROM \"jobs.Delayed\" AS t JOIN (SELECT TOP (100) " \
	"RowVersion FROM \"jobs.Delayed\" WITH (UPDLOCK, READPAST, ROWLOCK) WHERE Due "  \
	"< GETUTCDATE()) AS d ON d.RowVersion = t.RowVersion"

static const mssql_word words[] = {
	{"available_at - interval '1 min'", "DATEADD(MINUTE, -1, available_at)"},
	{"due - interval '1 min'", "DATEADD(MINUTE, -1, due)"},
	{"expires - interval '1 min'", "DATEADD(MINUTE, -1, expires)"},
	{NULL, NULL},
};

static outbox_backend backend = {MSSQL_BACKEND};

static int make(void **state)
{
	*state = queue_fixture_make_layout(&backend, "nservicebus");
	return 0;
}

static int drop(void **state)
{
	queue_fixture_drop(*state);
	return 0;
}

/* Their tables, as an old installer made them: without Recoverable, and none of ours is there. */
static int make_old(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_fixture *f;

	(void)make(state);
	f = *state;
	wherry_queue_close(f->queue);
	queue_raw(f,
		  "DROP TABLE jobs; DROP TABLE \"jobs.Delayed\"; DROP TABLE "
		  "\"SubscriptionRouting\"; DROP TABLE jobs_received; "
		  "CREATE TABLE jobs(Id UNIQUEIDENTIFIER NOT NULL, CorrelationId "
		  "VARCHAR(255), ReplyToAddress VARCHAR(255), Expires DATETIME, Headers "
		  "VARCHAR(8000) NOT NULL, Body VARBINARY(MAX), RowVersion BIGINT "
		  "IDENTITY(1,1) NOT NULL)");
	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &f->queue, &err));
	return 0;
}

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
	static const char wanted[] =
		"{\"a\\/b\":\"\\uD83D\\uDE80 \\\" \xc3\xa9\",\"n\":null,"
		"\"NServiceBus.CorrelationId\":\"c1\","
		"\"NServiceBus.ReplyToAddress\":\"web\","
		"\"NServiceBus.EnclosedMessageTypes\":\"Shop.OrderPlaced\","
		"\"NServiceBus.MessageId\":\"m1\",\"NServiceBus.TimeSent\":\"20";
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
	assert_int_equal(strncmp(headers, wanted, strlen(wanted)), 0);
	assert_string_equal(headers + strlen(headers) - 4, " Z\"}");
	assert_int_equal(queue_int(f,
				   "SELECT COUNT(*) FROM jobs WHERE Recoverable = 1 AND "
				   "DATEDIFF(SECOND, GETUTCDATE(), Expires) BETWEEN 40 "
				   "AND 60"),
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
	queue_raw(f, "INSERT INTO jobs(Id, Recoverable, Headers) VALUES "
		     "('11111111-2222-3333-4444-555555555555', 1, '')");
	assert_string_equal(receive(f, &s),
			    "11111111-2222-3333-4444-555555555555|-|-|-|");
	queue_raw(f, THEY_SEND, "NULL", "null", "3");
	(void)queue_lease(f->queue, 1, "3");
	queue_raw(f, THEY_SEND, "NULL", "{}", "4");
	queue_takes(f, 1, "4");
}

static void both_receive_from_one_queue(void **state)
{
	queue_fixture *f = *state;

	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	assert_string_equal(they_receive(f), "1");
	(void)queue_lease(f->queue, 1, "2");
	assert_string_equal(they_receive(f), "3");
	queue_takes(f, 9, "4");
}

static wherry_code note_finding(void *ctx, const char *what, const char *repair)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)what;
	(void)snprintf(text + len, 8000 - len, "%s\n", repair);
	return WHERRY_OK;
}

static void an_old_table_of_theirs_is_shared(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	queue_got got = {.n = 0};
	char text[8000] = "";

	(void)queue_send(f, 1);
	assert_string_equal(they_receive(f), "1");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_queue_receive(f->queue, NULL, queue_note, &got, NULL, &err));
	assert_non_null(strstr(err.message, "wherry queue create --layout nservicebus"));
	WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
	assert_non_null(strstr(text, "jobs_received"));
	assert_non_null(strstr(text, "Index_RowVersion"));
	assert_non_null(strstr(text, "Index_Expires"));
	assert_non_null(strstr(text, "ALTER COLUMN Headers NVARCHAR(MAX) NOT NULL;"));
	if (mssql_is_babelfish()) /* it cannot alter a column to NOT NULL */
		memset(strstr(text, "ALTER COLUMN Headers") + 34, ' ', 9);
	WHERRY_PASS(mssql_run(f->db, text, NULL, 0, &err));
	*text = 0;
	WHERRY_PASS(wherry_queue_inspect(f->queue, note_finding, text, &err));
	assert_string_equal(text, "");
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
	(void)queue_send(f, 2);
	got = queue_lease(f->queue, 1, "2");
	WHERRY_PASS(wherry_queue_dead_letter(f->queue, got.token, got.ids, 1, "x", NULL,
					     &err));
	WHERRY_PASS(wherry_queue_return(f->queue, 0, NULL, &err));
	assert_string_equal(they_receive(f), "2");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_string_equal(s.layout, "nservicebus");
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_queue_drop(f->queue, &err));
}

/* The column may be dropped while we send. */
static void recoverable_may_be_dropped(void **state)
{
	queue_fixture *f = *state;

	(void)queue_send(f, 1);
	queue_raw(f, "ALTER TABLE jobs DROP COLUMN Recoverable");
	(void)queue_send(f, 2);
	(void)queue_lease(f->queue, 9, "1 2");
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
	queue_minute(f);
	got = queue_lease(f->queue, 1, "1");
	assert_int_equal(got.attempts[0], 2);
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
		queue_raw(f,
			  "INSERT INTO jobs(Id, Recoverable, Headers) VALUES (NEWID(), "
			  "1, '7')");
		(void)queue_send(f, 4);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_begin(f->db, &err));
		got = queue_receive(f->queue, modes[i], 9);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_commit(f->db, &err));
		assert_string_equal(got.bodies, "1 4");
		assert_int_equal(queue_int(f, "SELECT COUNT(*) FROM jobs_received WHERE "
					      "state = 4 AND last_error LIKE "
					      "'%%headers%%'"),
				 2);
		queue_raw(f, "DELETE FROM jobs_received; DELETE FROM jobs");
	}
}

/* ---- expiry and delays ---- */

static void an_expired_message_is_dropped(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	queue_raw(f, THEY_SEND, "1000", "{}", "1");
	(void)queue_send_so(f, 2, 0, 30000000);
	(void)queue_send_so(f, 3, 0, 120000000);
	queue_raw(f, THEY_SEND, "NULL", "{}", "4");
	queue_minute(f);
	queue_counts(f, "2 0 0 0");
	(void)queue_lease(f->queue, 9, "3 4");
	assert_int_equal(queue_int(f, "SELECT COUNT(*) FROM jobs"), 0);
	for (int i = 0; i < 5; i++)
		queue_raw(f, THEY_SEND, "1000", "{}", "1");
	queue_minute(f);
	WHERRY_PASS(wherry_queue_expire(f->queue, 2, &n, &err));
	assert_int_equal(n, 5);
}

/* Upstream's time to live is an Int32 of milliseconds. */
static void an_expiry_of_25_days_is_kept(void **state)
{
	queue_fixture *f = *state;

	(void)queue_send_so(f, 1, 0, 25LL * 86400 * 1000000);
	(void)queue_send_so(f, 2, 0, INT64_MAX);
	assert_int_equal(queue_int(f, "SELECT COUNT(*) FROM jobs WHERE Expires > "
				      "DATEADD(HOUR, 599, GETUTCDATE())"),
			 2);
	(void)queue_lease(f->queue, 9, "1 2");
}

static void a_delayed_message_of_either_is_received_by_either(void **state)
{
	queue_fixture *f = *state;

	(void)queue_send_so(f, 1, 50000000, 0);
	queue_raw(f, THEY_STORE, "{}", "2", 40);
	(void)queue_lease(f->queue, 9, "");
	queue_counts(f, "0 0 2 0");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "2");
	queue_raw(f, THEY_MOVE);
	assert_string_equal(they_receive(f), "1");
}

static void a_delayed_message_is_cancelled_until_it_moves(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t a = queue_send_so(f, 1, 50000000, 0), b = queue_send(f, 2);
	int64_t c = queue_send_so(f, 3, 50000000, 0);

	assert_true(a > 4611686018427387904);
	WHERRY_PASS(wherry_queue_cancel(f->queue, a, &err));
	WHERRY_PASS(wherry_queue_cancel(f->queue, b, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_cancel(f->queue, a, &err));
	queue_minute(f);
	queue_raw(f, THEY_MOVE);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_cancel(f->queue, c, &err));
	(void)queue_lease(f->queue, 9, "3");
}

/* ---- forwarding ---- */

static void a_message_for_another_queue_is_forwarded(void **state)
{
	static const char *const to[] = {"mails@[dbo]@[%s]", "jobs@[dbo]",
					 "nowhere@[dbo]", "mails@[dbo]@[elsewhere]"};
	queue_fixture *f = *state;
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.layout = "nservicebus");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *mails = NULL;
	char headers[300], address[100], catalog[64];

	(void)snprintf(catalog, sizeof(catalog), "%s", queue_text(f, "SELECT DB_NAME()"));
	WHERRY_PASS(wherry_queue_create(f->db, "mails", &how, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	for (int i = 0; i < 4; i++) {
		if (i == 0)
			(void)snprintf(address, sizeof(address), "mails@[dbo]@[%s]",
				       catalog);
		else
			(void)snprintf(address, sizeof(address), "%s", to[i]);
		(void)snprintf(headers, sizeof(headers),
			       "{\"NServiceBus.MessageId\":\"m%d\",\"NServiceBus."
			       "SqlServer.ForwardDestination\":\"%s\",\"x\":\"y\"}",
			       i, address);
		queue_raw(f, THEY_STORE, headers, "7", 0);
	}
	queue_minute(f);
	(void)queue_lease(f->queue, 9, "7"); /* its own; the others are gone */
	assert_int_equal(queue_int(f,
				   "SELECT COUNT(*) FROM mails WHERE headers LIKE "
				   "'{\"NServiceBus.MessageId\":\"m0\",\"x\":\"y\",%%'"),
			 1);
	(void)queue_lease(mails, 9, "7");
	queue_counts(f, "0 1 0 2");
	assert_int_equal(queue_int(f,
				   "SELECT COUNT(*) FROM jobs_received WHERE state = 4 "
				   "AND (last_error LIKE '%%nowhere%%' OR last_error "
				   "LIKE '%%elsewhere%%')"),
			 2);
	wherry_queue_close(mails);
}

/* Upstream's length is the distance of the last number from the first. */
static void the_length_counts_messages(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	int64_t due = -7;

	queue_raw(f, "INSERT INTO jobs(Id, Recoverable, Headers) VALUES (NEWID(), 1, "
		     "N'{\"NServiceBus.TimeSent\":\"2020-02-28 10:00:00:000001 Z\"}')");
	queue_raw(f,
		  "SET IDENTITY_INSERT jobs ON; INSERT INTO jobs(Id, Recoverable, "
		  "Headers, RowVersion) VALUES (NEWID(), 1, N'{}', 4000000000000); SET "
		  "IDENTITY_INSERT jobs OFF");
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

static void subscriptions_are_shared(void **state)
{
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wherry_queue *mails = NULL;
	seen s;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err)); /* native */
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "Shop.Paid", "mails", &err));
	assert_int_equal(queue_int(f,
				   "SELECT COUNT(*) FROM \"SubscriptionRouting\" WHERE "
				   "Topic = 'Shop.Paid' AND Endpoint = 'jobs' AND "
				   "QueueAddress = 'jobs@[dbo]@[' + DB_NAME() + ']'"),
			 1);
	queue_raw(f, "INSERT INTO \"SubscriptionRouting\" VALUES ('jobs@[dbo]', 'other', "
		     "'Sent')");
	assert_int_equal(publish(topics, "Shop.Paid", "1"), 2);
	assert_int_equal(publish(topics, "Sent", "2"), 1);
	assert_int_equal(publish(topics, "Lost", "3"), 0);
	assert_non_null(strstr(receive(f, &s), "|Shop.Paid|-|-|1 "));
	assert_non_null(strstr(s.fields, "|Sent|-|-|2"));
	(void)queue_lease(mails, 9, "1");
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	assert_int_equal(publish(topics, "Shop.Paid", "4"), 1);
	wherry_topics_close(topics);
	wherry_queue_close(mails);
}

#define OURS(run) cmocka_unit_test_setup_teardown(run, make, drop)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		OURS(what_we_send_is_a_row_of_theirs),
		OURS(what_they_send_is_received),
		OURS(both_receive_from_one_queue),
		cmocka_unit_test_setup_teardown(an_old_table_of_theirs_is_shared,
						make_old, drop),
		OURS(recoverable_may_be_dropped),
		OURS(a_lease_is_kept_beside_the_queue),
		OURS(a_nack_keeps_the_attempts),
		OURS(a_message_that_kills_its_receivers_dies),
		OURS(poison_dies_in_every_mode),
		OURS(an_expired_message_is_dropped),
		OURS(an_expiry_of_25_days_is_kept),
		OURS(a_delayed_message_of_either_is_received_by_either),
		OURS(a_delayed_message_is_cancelled_until_it_moves),
		OURS(a_message_for_another_queue_is_forwarded),
		OURS(the_length_counts_messages),
		OURS(subscriptions_are_shared),
	};
	static const outbox_backend *const backends[] = {&backend};

	if (!mssql_start(words))
		return 0;
	backend.lacks = NEEDS_MODELS;
	return queue_suite_run_layout("nservicebus", backends, 1, tests,
				      sizeof(tests) / sizeof(*tests));
}
