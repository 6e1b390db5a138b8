/*
 * Queues of NServiceBus on SQL Server: the cases of every layout, and statements such as its
 * transport has on the same tables.
 */
#include "queue_nservicebus_suite.h"

#include "mssql/backend.h"
#include "db/driver.h"
#include "queue/queue.h"

static const mssql_word words[] = {
	{"available_at - interval '1 min'", "DATEADD(MINUTE, -1, available_at)"},
	{"due - interval '1 min'", "DATEADD(MINUTE, -1, due)"},
	{"expires - interval '1 min'", "DATEADD(MINUTE, -1, expires)"},
	{"SELECT seq, id,", "SELECT RowVersion, Id,"},
	{NULL, NULL},
};

static outbox_backend backend = {MSSQL_BACKEND};

/* ---- what the transport does, in statements that Babelfish runs as well ---- */

static void they_send(queue_fixture *f, const char *ttl_ms, const char *headers,
		      const char *body)
{
	queue_raw(f,
		  "INSERT INTO jobs(Id, Recoverable, Expires, Headers, Body) VALUES "
		  "(NEWID(), 1, DATEADD(MILLISECOND, %s, GETUTCDATE()), N'%s', CAST('%s' "
		  "AS VARBINARY(MAX)))",
		  ttl_ms, headers, body);
}

static void they_send_bare(queue_fixture *f, const char *id, const char *headers)
{
	queue_raw(f, "INSERT INTO jobs(Id, Recoverable, Headers) VALUES ('%s', 1, N'%s')",
		  id, headers);
}

static void they_number(queue_fixture *f, int64_t number)
{
	queue_raw(f,
		  "SET IDENTITY_INSERT jobs ON; INSERT INTO jobs(Id, Recoverable, "
		  "Headers, RowVersion) VALUES (NEWID(), 1, N'{}', %lld); SET "
		  "IDENTITY_INSERT jobs OFF",
		  (long long)number);
}

static void they_store(queue_fixture *f, int seconds, const char *headers,
		       const char *body)
{
	queue_raw(f,
		  "INSERT INTO \"jobs.Delayed\"(Headers, Body, Due) VALUES (N'%s', "
		  "CAST('%s' AS VARBINARY(MAX)), DATEADD(SECOND, %d, GETUTCDATE()))",
		  headers, body, seconds);
}

static void they_move(queue_fixture *f)
{
	queue_raw(f,
		  "DELETE t OUTPUT NEWID(), 1, deleted.Headers, deleted.Body INTO "
		  "jobs(Id, Recoverable, Headers, Body) FROM \"jobs.Delayed\" AS t JOIN "
		  "(SELECT TOP (100) RowVersion FROM \"jobs.Delayed\" WITH (UPDLOCK, "
		  "READPAST, ROWLOCK) WHERE Due < GETUTCDATE()) AS d ON d.RowVersion = "
		  "t.RowVersion");
}

static const char *they_receive(queue_fixture *f)
{
	return queue_text(
		f,
		"DECLARE @got TABLE(body VARBINARY(MAX)); DELETE t OUTPUT deleted.Body "
		"INTO @got FROM jobs AS t JOIN (SELECT TOP (1) RowVersion FROM jobs "
		"WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY RowVersion) AS d ON "
		"d.RowVersion = t.RowVersion; SELECT CAST(body AS VARCHAR(100)) FROM "
		"@got");
}

static int64_t expiring(queue_fixture *f, int64_t from_s, int64_t to_s)
{
	return queue_int(f,
			 "SELECT COUNT(*) FROM jobs WHERE Recoverable = 1 AND "
			 "DATEDIFF_BIG(SECOND, GETUTCDATE(), Expires) BETWEEN %lld AND "
			 "%lld",
			 (long long)from_s, (long long)to_s);
}

static const nservicebus_app theirs_is = {they_send,  they_send_bare, they_number,
					  they_store, they_move,      they_receive,
					  expiring};

/* Their tables, as an old installer made them: without Recoverable, and none of ours is there. */
static int make_old(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_fixture *f;

	(void)nservicebus_make(state);
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

/* ---- both at once ---- */

WHERRY_TEST_ON(both_receive_from_one_queue, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	assert_string_equal(they_receive(f), "1");
	(void)queue_lease(f->queue, 1, "2");
	assert_string_equal(they_receive(f), "3");
	queue_takes(f, 9, "4");
}

WHERRY_TEST_ON(an_old_table_of_theirs_is_shared, queue_fixture *f, make_old,
	       nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	queue_got got = {.n = 0};
	char text[8000] = "";

	(void)queue_send(f, 1);
	assert_string_equal(they_receive(f), "1");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_queue_receive(f->queue, NULL, queue_note, &got, NULL, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_QUEUE);
	assert_string_equal(err.layout, "nservicebus");
	WHERRY_PASS(wherry_queue_inspect(f->queue, nservicebus_note_finding, text, &err));
	assert_non_null(strstr(text, "jobs_received"));
	assert_non_null(strstr(text, "Index_RowVersion"));
	assert_non_null(strstr(text, "Index_Expires"));
	assert_non_null(strstr(text, "ALTER COLUMN Headers NVARCHAR(MAX) NOT NULL;"));
	if (mssql_is_babelfish()) /* it cannot alter a column to NOT NULL */
		memset(strstr(text, "ALTER COLUMN Headers") + 34, ' ', 9);
	WHERRY_PASS(mssql_run(f->db, text, NULL, 0, &err));
	*text = 0;
	WHERRY_PASS(wherry_queue_inspect(f->queue, nservicebus_note_finding, text, &err));
	assert_string_equal(text, "");
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
	(void)queue_send(f, 2);
	got = queue_lease(f->queue, 1, "2");
	WHERRY_PASS(wherry_queue_dead_letter(f->queue, got.token, got.ids, 1, "x", NULL,
					     &err));
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, NULL, &err));
	assert_string_equal(they_receive(f), "2");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_string_equal(s.layout, "nservicebus");
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_queue_drop(f->queue, &err));
}

/* The column may be dropped while we send. */
WHERRY_TEST_ON(recoverable_may_be_dropped, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	(void)queue_send(f, 1);
	queue_raw(f, "ALTER TABLE jobs DROP COLUMN Recoverable");
	(void)queue_send(f, 2);
	(void)queue_lease(f->queue, 9, "1 2");
}

/* ---- expiry and delays ---- */

WHERRY_TEST_ON(a_delayed_message_is_cancelled_until_it_moves, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t a = queue_send_so(f, 1, 50000000, 0), b = queue_send(f, 2);
	int64_t c = queue_send_so(f, 3, 50000000, 0);

	assert_true(a > 4611686018427387904);
	WHERRY_PASS(wherry_queue_cancel(f->queue, a, &err));
	WHERRY_PASS(wherry_queue_cancel(f->queue, b, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_cancel(f->queue, a, &err));
	queue_minute(f);
	they_move(f);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_cancel(f->queue, c, &err));
	(void)queue_lease(f->queue, 9, "3");
}

/* ---- rows that are there twice ---- */

/* Its tables have no unique index. */
WHERRY_TEST_ON(a_row_that_was_restored_twice_is_received_twice, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	for (int i = 0; i < 2; i++)
		queue_raw(
			f,
			"SET IDENTITY_INSERT jobs ON; INSERT INTO jobs(Id, Recoverable, "
			"Headers, Body, RowVersion) VALUES "
			"('11111111-2222-3333-4444-555555555555', 1, N'{}', "
			"CAST('7' AS VARBINARY(MAX)), 5); SET IDENTITY_INSERT jobs OFF");
	(void)queue_lease(f->queue, 9, "7 7");
	queue_counts(f, "0 2 0 0");
}

/* ---- forwarding ---- */

WHERRY_TEST_WITH(a_message_for_another_queue_is_forwarded, nservicebus_make,
		 nservicebus_drop)
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
		they_store(f, 0, headers, "7");
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

/* ---- subscriptions ---- */

WHERRY_TEST_ON(subscriptions_are_shared, queue_fixture *f, nservicebus_make,
	       nservicebus_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wherry_queue *mails = NULL;
	nservicebus_seen s;

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
	assert_int_equal(nservicebus_publish(topics, "Shop.Paid", "1"), 2);
	assert_int_equal(nservicebus_publish(topics, "Sent", "2"), 1);
	assert_int_equal(nservicebus_publish(topics, "Lost", "3"), 0);
	assert_non_null(strstr(nservicebus_receive(f, &s), "|Shop.Paid|-|-|1 "));
	assert_non_null(strstr(s.fields, "|Sent|-|-|2"));
	(void)queue_lease(mails, 9, "1");
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_unsubscribe(topics, "Shop.Paid", "jobs", &err));
	assert_int_equal(nservicebus_publish(topics, "Shop.Paid", "4"), 1);
	wherry_topics_close(topics);
	wherry_queue_close(mails);
}

/* A program that makes tables waits for another one that does, and gives up without making any. */
WHERRY_TEST_ON(a_queue_is_not_made_while_another_program_makes_tables, queue_fixture *f,
	       nservicebus_make, nservicebus_drop)
{
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.layout = "nservicebus");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *other = mssql_connect(NULL);

	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(wh_db_script(other,
				 "EXEC sp_getapplock @Resource = N'wherry_migrate', "
				 "@LockMode = 'Exclusive', @LockOwner = 'Transaction'",
				 &err));
	WHERRY_PASS(wh_db_script(f->db, "SET LOCK_TIMEOUT 200", &err));
	WHERRY_FAILS(WHERRY_BUSY, wherry_queue_create(f->db, "mails", &how, &err));
	wherry_db_rollback(other);
	wherry_db_close(other);
	WHERRY_PASS(wherry_queue_create(f->db, "mails", &how, &err));
}

int main(void)
{
	static const outbox_backend *const backends[] = {&backend};

	if (!mssql_start(words))
		return 0;
	backend.lacks = NEEDS_MODELS;
	return nservicebus_suite_run(&theirs_is, backends, 1, wherry_tests_of_file()->all,
				     wherry_tests_of_file()->n);
}
