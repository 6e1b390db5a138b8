/*
 * The queue on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "queue_suite.h"

#include <pthread.h>

#include "mssql/backend.h"
#include "queue/queue.h"

static const mssql_word words[] = {
	{"available_at - 60000", "DATEADD(MILLISECOND, -60000, available_at)"},
	{"expires_at - 60000", "DATEADD(MILLISECOND, -60000, expires_at)"},
	{"created_at - 5000", "DATEADD(MILLISECOND, -5000, created_at)"},
	{"expires_at - 2147483648", "DATEADD(MILLISECOND, -2147483647, expires_at)"},
	{"length(message_id)", "LEN(message_id)"},
	{"INSERT INTO jobs(id,", "SET IDENTITY_INSERT jobs ON; INSERT INTO jobs(id,"},
	{"INSERT INTO jobs(body", "SET IDENTITY_INSERT jobs OFF; INSERT INTO jobs(body"},
	{"INSERT INTO jobs(message_id",
	 "SET IDENTITY_INSERT jobs OFF; INSERT INTO jobs(message_id"},
	{" || ", " + "},
	{NULL, NULL},
};

static outbox_backend backend = {MSSQL_BACKEND};

/* ---- on SQL Server alone ---- */

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

static int64_t publish(wherry_topics *topics, const char *topic)
{
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_topics_publish(topics, topic, &msg, &n, &err));
	return n;
}

/* SQL Server ignores blanks at the end of a text when it compares. */
WHERRY_CASE(topics_compare_byte_for_byte, queue_fixture *f)
{
	static const char *const all[] = {"a", "a ", "A", "\xc3\xa4"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;

	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	for (int i = 0; i < 4; i++) {
		assert_int_equal(publish(topics, all[i]), 0);
		WHERRY_PASS(wherry_topics_subscribe(topics, all[i], "jobs", &err));
		WHERRY_PASS(wherry_topics_subscribe(topics, all[i], "jobs", &err));
		assert_int_equal(publish(topics, all[i]), 1);
	}
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "a", "jobs", &err));
	assert_int_equal(publish(topics, "a"), 0);
	assert_int_equal(publish(topics, "a "), 1);
	wherry_topics_close(topics);
}

/* A subscription that is there does not end the transaction of the caller. */
WHERRY_CASE(a_second_subscription_leaves_the_transaction_open, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;

	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	(void)queue_send(f, 1);
	WHERRY_PASS(wherry_topics_subscribe(topics, "a", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "a", "jobs", &err));
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	(void)queue_lease(f->queue, 9, "1");
	wherry_topics_close(topics);
}

static wherry_code see_bytes(void *ctx, const wherry_queue_message *m)
{
	int *n = ctx;

	*n += m->body_len == 4 && memcmp(m->body, "a\0\"\xff", 4) == 0;
	return WHERRY_OK;
}

WHERRY_CASE(bodies_are_texts_or_bytes, queue_fixture *f)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = "a\0\"\xff", .body_len = 4);
	const wherry_queue_message text =
		WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.payload = "bytea");
	const wherry_receive_options two = WHERRY_RECEIVE_OPTIONS(.limit = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *bytes = NULL;
	int n = 0;

	WHERRY_FAILS(WHERRY_INVALID, wherry_queue_send(f->queue, &msg, NULL, &err));
	assert_non_null(strstr(err.message, "--payload bytea"));
	WHERRY_PASS(wherry_queue_create(f->db, "bytes", &how, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "bytes", &bytes, &err));
	WHERRY_PASS(wherry_queue_send(bytes, &msg, NULL, &err));
	WHERRY_PASS(wherry_queue_send(bytes, &text, NULL, &err));
	WHERRY_PASS(wherry_queue_receive(bytes, &two, see_bytes, &n, NULL, &err));
	assert_int_equal(n, 1);
	assert_int_equal(queue_int(f, "SELECT COUNT(*) FROM bytes WHERE body = 0x31"), 1);
	WHERRY_PASS(wherry_queue_drop(bytes, &err));
	wherry_queue_close(bytes);
}

static wherry_code count(void *ctx, const wherry_queue_message *m)
{
	++*(int64_t *)ctx;
	return WHERRY_OK;
}

/* With 5,000 locks SQL Server would lock the table instead. */
WHERRY_CASE(a_statement_locks_a_limited_number_of_rows, queue_fixture *f)
{
	enum { N = 2500 };
	const wherry_receive_options many = WHERRY_RECEIVE_OPTIONS(.limit = 10000);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0, out_n = -7;
	static int64_t ids[N + 1];

	queue_raw(f,
		  "INSERT INTO jobs(body) SELECT TOP (%d) N'1' FROM sys.columns AS a, "
		  "sys.columns AS b",
		  N);
	WHERRY_PASS(wherry_queue_receive(f->queue, &many, count, &n, &out_n, &err));
	assert_int_equal(n, 2000);
	WHERRY_PASS(wherry_queue_receive(f->queue, &many, count, &n, &out_n, &err));
	assert_int_equal(n, N);
	queue_raw(f, "UPDATE jobs SET lease_token = N't'");
	for (int i = 0; i <= N; i++)
		ids[i] = i + 1;
	WHERRY_FAILS(WHERRY_STALE, wherry_queue_dead_letter(f->queue, "t", ids, N + 1,
							    "x", &out_n, &err));
	assert_int_equal(out_n, N);
	queue_counts(f, "0 0 0 2500");
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, N);
	WHERRY_PASS(wherry_queue_purge(f->queue, 0, 100000, &n, &err));
	assert_int_equal(n, N);
}

/* The owner may have dropped the constraint.  What cannot be handled is dead all the same. */
WHERRY_CASE(times_before_1970_stop_no_receiver, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	queue_raw(f, "ALTER TABLE jobs DROP CONSTRAINT jobs_sane");
	queue_raw(
		f,
		"INSERT INTO jobs(body, headers, created_at) VALUES (N'1', N'[1]', "
		"'0001-01-01'), (N'2', N'[1]', '1752-12-31T23:59:59.999'), (N'3', N'{}', "
		"'9999-12-31T23:59:59.999'), (N'4', N'[1]', '9999-12-31T23:59:59.999')");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_string_equal(queue_receive(f->queue, WHERRY_ATOMIC, 9).bodies, "3");
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	queue_counts(f, "0 0 0 3");
	assert_int_equal(
		queue_int(f, "SELECT COUNT(*) FROM jobs WHERE created_at = '1970-01-01'"),
		2);
	WHERRY_PASS(wherry_queue_purge(f->queue, 0, 9, &n, &err));
}

/* ---- several at once ---- */

enum { WORKERS = 3, MESSAGES = 40 };

static wherry_code apply(void *ctx, const wherry_queue_message *m)
{
	int *seen = ctx;

	seen[strtol(m->body, NULL, 10)]++;
	return WHERRY_OK;
}

/* Receives until nothing is left; a deadlock or a conflict is tried again. */
static void *work(void *ctx)
{
	const wherry_receive_options three =
		WHERRY_RECEIVE_OPTIONS(.limit = 3, .lease_us = 600000000);
	int *seen = ctx;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	wherry_db *db = mssql_connect(NULL);
	int64_t n = 1;
	wherry_code code = wherry_queue_open(db, "jobs", &queue, &err);

	while (code == WHERRY_CONFLICT || (code == WHERRY_OK && n))
		code = wherry_queue_receive(queue, &three, apply, seen, &n, &err);
	if (code != WHERRY_OK)
		print_error("%s\n", err.message);
	wherry_queue_close(queue);
	wherry_db_close(db);
	return code == WHERRY_OK ? seen : NULL;
}

WHERRY_CASE(no_message_is_received_by_two, queue_fixture *f)
{
	static int seen[WORKERS][MESSAGES + 1];
	pthread_t threads[WORKERS];
	void *done;

	for (int i = 1; i <= MESSAGES; i++)
		(void)queue_send(f, i);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, seen[i]), 0);
	for (int i = 0; i < WORKERS; i++) {
		assert_int_equal(pthread_join(threads[i], &done), 0);
		assert_non_null(done);
	}
	for (int i = 1; i <= MESSAGES; i++) {
		int n = 0;

		for (int w = 0; w < WORKERS; w++)
			n += seen[w][i];
		assert_int_equal(n, 1);
	}
}

/* Babelfish ignores READPAST: there a receiver waits for the transaction of another. */
WHERRY_CASE(receivers_pass_over_what_another_transaction_has, queue_fixture *f)
{
	wherry_db *db = queue_connect(f);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *other = NULL;

	WHERRY_PASS(wherry_queue_open(db, "jobs", &other, &err));
	for (int i = 1; i <= 3; i++)
		(void)queue_send(f, i);
	WHERRY_PASS(wherry_db_begin(db, &err));
	assert_string_equal(queue_receive(other, WHERRY_ATOMIC, 1).bodies, "1");
	queue_counts(f, "2 0 0 0");
	(void)queue_lease(f->queue, 1, "2");
	wherry_db_rollback(db);
	f->queue->scan_start.next_full_us = 0;
	(void)queue_lease(f->queue, 9, "1 3");
	wherry_queue_close(other);
	wherry_db_close(db);
}

#define OF_MSSQL(run) cmocka_unit_test_setup_teardown(run, make, drop)

int main(void)
{
	static const outbox_backend *const backends[] = {&backend};
	static const struct CMUnitTest more[] = {
		OF_MSSQL(topics_compare_byte_for_byte),
		OF_MSSQL(a_second_subscription_leaves_the_transaction_open),
		OF_MSSQL(bodies_are_texts_or_bytes),
		OF_MSSQL(a_statement_locks_a_limited_number_of_rows),
		OF_MSSQL(times_before_1970_stop_no_receiver),
		OF_MSSQL(no_message_is_received_by_two),
		OF_MSSQL(receivers_pass_over_what_another_transaction_has),
	};
	size_t n = sizeof(more) / sizeof(*more);

	if (!mssql_start(words))
		return 0;
	return queue_suite_run(backends, 1, more, mssql_is_babelfish() ? n - 1 : n);
}
