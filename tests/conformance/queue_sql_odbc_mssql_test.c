/*
 * The procedures of queues on SQL Server.
 */
#include "queue_suite.h"

#include "db/driver.h"
#include "mssql/backend.h"

static const mssql_word words[] = {
	{"available_at - 60000", "DATEADD(MILLISECOND, -60000, available_at)"},
	{"expires_at - 60000", "DATEADD(MILLISECOND, -60000, expires_at)"},
	{NULL, NULL},
};

static outbox_backend backend = {MSSQL_BACKEND};

static int make(void **state)
{
	*state = queue_fixture_make(&backend);
	return 0;
}

static int drop(void **state)
{
	queue_fixture_drop(*state);
	return 0;
}

/* Runs on a connection of another program, as T-SQL that ends in a SELECT. */
static void says(queue_fixture *f, const char *sql, const char *wanted)
{
	const char *got = queue_text(f, "%s", sql);

	if (strcmp(got, wanted) != 0)
		print_error("%s\n", sql);
	assert_string_equal(got, wanted);
}

static void refuses(queue_fixture *f, const char *sql, const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = queue_connect(f);

	assert_int_not_equal(mssql_run(db, sql, NULL, 0, &err), WHERRY_OK);
	if (!strstr(err.message, why))
		print_error("%s\n", err.message);
	assert_non_null(strstr(err.message, why));
	wherry_db_close(db);
}

WHERRY_TEST_WITH(a_worker_in_sql_and_one_of_ours_share_a_queue, make, drop)
{
	queue_fixture *f = *state;
	queue_got got;

	says(f,
	     "DECLARE @id BIGINT; EXEC wherry_send @queue = 'jobs', @body = N'1', @id = "
	     "@id OUTPUT; SELECT @id",
	     "1");
	queue_raw(f, "EXEC wherry_send 'jobs', N'2', N'{\"a\":\"b\",\"c\":null}', "
		     "@reply_to = 'answers'");
	queue_raw(f, "EXEC wherry_send 'jobs', N'3', @message_id = 'm3'");
	(void)queue_send(f, 4);
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_queue_length 'jobs', @n OUTPUT; SELECT @n",
	     "4");
	says(f, "EXEC wherry_receive 'jobs'", "1");
	says(f,
	     "SELECT CONCAT(id, body, attempts, LEN(lease_token)) FROM jobs WHERE state "
	     "= 1",
	     "11136");
	(void)queue_lease(f->queue, 1, "2");
	says(f, "SELECT message_id FROM jobs WHERE id = 3", "m3");
	says(f, "EXEC wherry_receive 'jobs', 1, @lease_ms = NULL", "3");
	says(f, "SELECT COUNT(*) FROM jobs WHERE id = 3", "0");
	got = queue_lease(f->queue, 9, "4");
	says(f, "EXEC wherry_receive 'jobs'", "");
	queue_ack(f->queue, &got);
	queue_counts(f, "0 2 0 0");
}

WHERRY_TEST_WITH(procedures_settle_as_the_library_does, make, drop)
{
	queue_fixture *f = *state;

	for (int i = 1; i <= 4; i++)
		(void)queue_send(f, i);
	queue_raw(f, "EXEC wherry_receive 'jobs', 4, 60000");
	queue_raw(f, "UPDATE jobs SET lease_token = 't'");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_ack 'jobs', 1, 't', @n = @n OUTPUT; SELECT @n",
	     "1");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_ack 'jobs', 1, 't', @n = @n OUTPUT; SELECT @n",
	     "0");
	says(f,
	     "DECLARE @n BIGINT, @long NVARCHAR(600) = REPLICATE(N'x', 600); EXEC "
	     "wherry_nack 'jobs', 2, 't', @error = @long, @n = @n OUTPUT; SELECT @n",
	     "1");
	says(f, "SELECT LEN(last_error) FROM jobs WHERE id = 2", "500");
	queue_raw(f, "EXEC wherry_nack 'jobs', 3, 't', 10000");
	queue_raw(f, "EXEC wherry_extend 'jobs', 4, 't', 7200000");
	queue_counts(f, "0 1 2 0");
	queue_minute(f);
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_dead_letter 'jobs', 4, 't', 'no', @n = @n "
	     "OUTPUT; SELECT @n",
	     "1");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_ack 'jobs', @token = 'none', @ids = "
	     "'[1,2,3,4]', @n = @n OUTPUT; SELECT @n",
	     "0");
	(void)queue_lease(f->queue, 9, "2 3");
	queue_counts(f, "0 2 0 1");
	says(f,
	     "DECLARE @id BIGINT; EXEC wherry_send 'jobs', '5', @delay_ms = 3600000, "
	     "@expires_ms = 3600000, @id = @id OUTPUT; SELECT @id",
	     "5");
	says(f,
	     "SELECT DATEDIFF(MINUTE, available_at, expires_at) FROM jobs WHERE id = 5 "
	     "AND state = 3 AND available_at > DATEADD(MINUTE, 50, SYSUTCDATETIME())",
	     "60");
	says(f, "DECLARE @n BIGINT; EXEC wherry_cancel 'jobs', 5, @n OUTPUT; SELECT @n",
	     "1");
	says(f, "DECLARE @n BIGINT; EXEC wherry_cancel 'jobs', 2, @n OUTPUT; SELECT @n",
	     "0");
}

WHERRY_TEST_ON(a_message_dies_or_expires_in_sql_as_well, queue_fixture *f, make, drop)
{
	(void)queue_send_so(f, 1, 0, 30000000);
	(void)queue_send(f, 2);
	queue_minute(f);
	says(f, "EXEC wherry_receive 'jobs', 9", "2");
	says(f, "SELECT COUNT(*) FROM jobs", "1");
	queue_minute(f);
	says(f, "EXEC wherry_receive 'jobs', 9, @max_attempts = 1", "");
	queue_counts(f, "0 0 0 1");
}

WHERRY_TEST_ON(procedures_refuse_bad_input_by_name, queue_fixture *f, make, drop)
{
	refuses(f, "EXEC wherry_send 'tasks', '1'", "there is no queue tasks");
	refuses(f, "EXEC wherry_receive 'tasks'", "there is no queue tasks");
	refuses(f, "EXEC wherry_send 'x\"; DROP TABLE jobs; --', '1'",
		"there is no queue x");
	refuses(f, "EXEC wherry_send 'jobs', '1', '[]'", "headers");
	refuses(f, "EXEC wherry_send 'jobs', '1', '{\"a\":1}'", "headers");
	refuses(f, "EXEC wherry_send 'jobs', '1', 'nonsense'", "headers");
	refuses(f,
		"DECLARE @long NVARCHAR(MAX) = REPLICATE(CAST(N'x' AS NVARCHAR(MAX)), "
		"16777217); EXEC wherry_send 'jobs', @long",
		"at most 16777216 characters");
	refuses(f, "EXEC wherry_send 'jobs'", "needs a body");
	refuses(f, "EXEC wherry_subscribe 't', 'tasks'", "there is no queue tasks");
	refuses(f, "EXEC wherry_subscribe '', 'jobs'", "the topic is empty");
	refuses(f, "EXEC wherry_publish '', '1'", "the topic is empty");
	for (int more = 1; more <= 1000; more += 999) {
		static const char *const of_topics[] = {"subscribe @t, 'jobs'",
							"unsubscribe @t, 'jobs'",
							"publish @t, '1'"};

		for (int i = 0; i < 3; i++) {
			char sql[200];

			(void)snprintf(sql, sizeof(sql),
				       "DECLARE @t NVARCHAR(4000) = REPLICATE(N'x', %d); "
				       "EXEC wherry_%s",
				       255 + more, of_topics[i]);
			refuses(f, sql, "topic has at most 255 characters");
		}
	}
	refuses(f, "EXEC wherry_send 'jobs', '1', @delay_ms = -1", "@delay_ms");
	refuses(f, "EXEC wherry_send 'jobs', '1', @expires_ms = -1", "@expires_ms");
	refuses(f,
		"DECLARE @long NVARCHAR(300) = REPLICATE(N'x', 256); EXEC wherry_send "
		"'jobs', '1', @message_id = @long",
		"at most 255 characters");
	refuses(f, "EXEC wherry_receive 'jobs', -1", "@n must be");
	refuses(f, "EXEC wherry_receive 'jobs', @lease_ms = 0", "@lease_ms");
	refuses(f, "EXEC wherry_receive 'jobs', @max_attempts = -1", "@max_attempts");
	refuses(f, "EXEC wherry_extend 'jobs', 1, 't', NULL", "@lease_ms");
	refuses(f, "EXEC wherry_nack 'jobs', 1, 't', -1", "@delay_ms");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_subscribe 't', 'jobs', @n OUTPUT; SELECT @n",
	     "1");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_subscribe 't', 'jobs', @n OUTPUT; SELECT @n",
	     "0");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_publish 't', '1', @n = @n OUTPUT; SELECT @n",
	     "1");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_unsubscribe 't', 'jobs', @n OUTPUT; SELECT @n",
	     "1");
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_publish 't', '1', @n = @n OUTPUT; SELECT @n",
	     "0");
	queue_counts(f, "1 0 0 0");
}

/* As in C (no_span_over_36500_days_is_cut). */
WHERRY_TEST_ON(procedures_refuse_the_spans_that_the_library_refuses, queue_fixture *f,
	       make, drop)
{
	static const char *const calls[] = {
		"send 'jobs', '1', @delay_ms = ",
		"send 'jobs', '1', @expires_ms = ",
		"publish 'spans', '1', @delay_ms = ",
		"publish 'spans', '1', @expires_ms = ",
		"receive 'jobs', 9, @lease_ms = ",
		"nack 'jobs', 1, 't', @delay_ms = ",
		"extend 'jobs', 1, 't', @lease_ms = ",
	};
	static const char *const spans[] = {"3153600000001", "9223372036854775807"};
	char call[200];

	queue_raw(f, "EXEC wherry_subscribe 'spans', 'jobs'");
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		for (size_t s = 0; s < 2; s++) {
			(void)snprintf(call, sizeof(call), "EXEC wherry_%s%s", calls[i],
				       spans[s]);
			refuses(f, call,
				"_ms is at most 3153600000000, which are 36500 days");
		}
	queue_counts(f, "0 0 0 0");
}

WHERRY_TEST_WITH(procedures_keep_the_longest_spans, make, drop)
{
	queue_fixture *f = *state;

	queue_raw(f,
		  "EXEC wherry_send 'jobs', '1', @delay_ms = 3153600000000, @expires_ms "
		  "= 3153600000000");
	queue_raw(f, "EXEC wherry_send 'jobs', '2', @expires_ms = 3153600000000");
	says(f,
	     "SELECT CONCAT(DATEDIFF(DAY, created_at, available_at), ' ', DATEDIFF(DAY, "
	     "created_at, expires_at)) FROM jobs WHERE id = 1",
	     "36500 73000");
	says(f, "SELECT DATEDIFF(DAY, created_at, expires_at) FROM jobs WHERE id = 2",
	     "36500");
	queue_raw(f, "EXEC wherry_receive 'jobs', 9, 3153600000000");
	says(f, "SELECT DATEDIFF(DAY, created_at, available_at) FROM jobs WHERE id = 2",
	     "36500");
	queue_raw(f, "DECLARE @t NVARCHAR(64) = (SELECT lease_token FROM jobs WHERE id = "
		     "2); EXEC wherry_nack 'jobs', 2, @t, NULL");
	says(f,
	     "SELECT COUNT(*) FROM jobs WHERE state = 3 AND id = 2 AND available_at <= "
	     "SYSUTCDATETIME()",
	     "1");
}

/* A worker gets the good message; the other one is dead, whether it was leased or deleted. */
static void judges_headers(queue_fixture *f, const char *text, bool readable)
{
	queue_raw(f, "DELETE FROM jobs");
	queue_raw(f, "INSERT INTO jobs(body, headers) VALUES (N'1', N'%s')", text);
	queue_raw(f, "INSERT INTO jobs(body) VALUES (N'2')");
	queue_raw(f, "EXEC wherry_receive 'jobs', 9");
	says(f,
	     "SELECT CONCAT(SUM(CASE WHEN state = 1 THEN 1 ELSE 0 END), ' ', MAX(CASE "
	     "WHEN state = 4 THEN last_error END)) FROM jobs",
	     readable ? "2 " : "1 headers are not a JSON object of strings");
	queue_raw(f,
		  "UPDATE jobs SET state = 0, available_at = NULL, lease_token = NULL, "
		  "last_error = NULL");
	queue_raw(f, "EXEC wherry_receive 'jobs', 9, @lease_ms = NULL");
	says(f, "SELECT CONCAT(COUNT(*), ' ', MAX(state), MAX(last_error)) FROM jobs",
	     readable ? "0 " : "1 4headers are not a JSON object of strings");
}

WHERRY_TEST_ON(unreadable_headers_die_in_procedures, queue_fixture *f, make, drop)
{
	judges_headers(f, "{}", true);
	judges_headers(f, " \t{\"a\" : \"1\",\n\"b\":null}", true);
	judges_headers(f, "{\"a\":1}", false);
	judges_headers(f, "{\"a\":\"b\",\"c\":[\"d\"]}", false);
	judges_headers(f, "[]", false);
	judges_headers(f, "nonsense", false);
	judges_headers(f, "", false);
}

/* Nobody is left out silently. */
WHERRY_TEST_ON(procedures_refuse_queues_of_nservicebus, queue_fixture *f, make, drop)
{
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.layout = "nservicebus");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "nsb", &how, &err));
	refuses(f, "EXEC wherry_send 'nsb', '1'", "layout nservicebus");
	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "t", "jobs", &err));
	says(f,
	     "DECLARE @n BIGINT; EXEC wherry_publish 't', '1', @n = @n OUTPUT; SELECT @n",
	     "1");
	WHERRY_PASS(wherry_topics_subscribe(topics, "t", "nsb", &err));
	refuses(f, "EXEC wherry_publish 't', '2'", "NServiceBus have subscribed");
	queue_counts(f, "1 0 0 0");
	wherry_topics_close(topics);
}

WHERRY_TEST_ON(what_is_null_in_a_receive_means_the_default, queue_fixture *f, make, drop)
{
	(void)queue_send(f, 1);
	says(f, "EXEC wherry_receive 'jobs', @after = NULL, @max_attempts = NULL", "1");
	queue_minute(f);
	says(f, "EXEC wherry_receive 'jobs', @after = NULL, @max_attempts = NULL", "1");
}

/* A receive that lost its lease before it ended returns nothing of the next one's. */
WHERRY_TEST_ON(a_receive_returns_no_lease_of_another, queue_fixture *f, make, drop)
{
	(void)queue_send(f, 1);
	queue_raw(
		f,
		"EXEC(N'CREATE TRIGGER others_receive ON jobs AFTER UPDATE AS IF EXISTS "
		"(SELECT 1 FROM inserted WHERE lease_token <> ''theirs'') UPDATE t SET "
		"lease_token = ''theirs'' FROM jobs AS t JOIN inserted AS i ON i.id = "
		"t.id')");
	says(f, "EXEC wherry_receive 'jobs'", "");
	says(f, "SELECT lease_token FROM jobs", "theirs");
}

/* A second queue, whose name needs quotes and whose bodies are bytes. */
static wherry_queue *odd_queue(queue_fixture *f)
{
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.payload = "bytea");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *odd = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "\"Odd.jobs\"", &how, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "\"Odd.jobs\"", &odd, &err));
	return odd;
}

/* The procedures are made with the first queue of a schema, and serve all. */
WHERRY_TEST_ON(procedures_serve_every_queue, queue_fixture *f, make, drop)
{
	wherry_queue *odd = odd_queue(f);
	wherry_error err = WHERRY_ERROR_INIT;

	queue_raw(f, "EXEC wherry_send N'Odd.jobs', @bytes = 0x37");
	queue_raw(f, "EXEC wherry_send N'Odd.jobs', @bytes = 0x38");
	queue_raw(f, "EXEC wherry_receive N'Odd.jobs', @lease_ms = NULL");
	queue_raw(f, "EXEC wherry_nack N'Odd.jobs', 2, 'none'");
	(void)queue_lease(odd, 9, "8");
	WHERRY_PASS(wherry_queue_drop(odd, &err));
	wherry_queue_close(odd);
	queue_raw(f, "EXEC wherry_send 'jobs', '1'");
	WHERRY_PASS(wherry_queue_drop(f->queue, &err));
	says(f, "SELECT COUNT(*) FROM sys.procedures WHERE name LIKE 'wherry%'", "0");
}

static wherry_code note_finding(void *ctx, const char *what, const char *repair)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)snprintf(text + len, 2000 - len, "%s\n", repair);
	return WHERRY_OK;
}

static void inspects(wherry_queue *queue, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[2000] = "";

	WHERRY_PASS(wherry_queue_inspect(queue, note_finding, text, &err));
	assert_string_equal(text, wanted);
}

/* Those of an older version, those that are marked otherwise, and those that are missing. */
WHERRY_TEST_ON(procedures_of_another_version_are_found, queue_fixture *f, make, drop)
{
	static const char *const breaks[] = {
		"EXEC sp_dropextendedproperty N'wherry', N'SCHEMA', N'dbo', N'PROCEDURE', "
		"N'wherry_cancel'; EXEC (N'ALTER PROCEDURE wherry_cancel AS RETURN')",
		"EXEC sp_updateextendedproperty N'wherry', N'Wherry 0', N'SCHEMA', N'dbo', "
		"N'PROCEDURE', N'wherry_send'",
		"DROP PROCEDURE wherry_dead_letter",
	};
	wherry_error err = WHERRY_ERROR_INIT;

	inspects(f->queue, "");
	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		WHERRY_PASS(wh_db_script(f->db, breaks[i], &err));
		inspects(f->queue, "\n");
		WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
		inspects(f->queue, "");
	}
	(void)queue_send(f, 1);
	says(f, "DECLARE @n BIGINT; EXEC wherry_cancel 'jobs', 1, @n OUTPUT; SELECT @n",
	     "1");
}

/* A second queue, of whatever name and type, makes them from the same text. */
WHERRY_TEST_ON(queues_of_a_schema_agree_on_their_procedures, queue_fixture *f, make, drop)
{
	wherry_queue *odd = odd_queue(f);

	inspects(f->queue, "");
	inspects(odd, "");
	wherry_queue_close(odd);
}

int main(void)
{
	if (!mssql_start(words))
		return 0;
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return wherry_run_tests(NULL, NULL);
}
