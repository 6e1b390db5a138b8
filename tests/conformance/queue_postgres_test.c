/*
 * The queue on PostgreSQL, on connections of its own and on the application's.
 */
#include "queue_suite.h"

#include <wherry/postgres.h>

#include "postgres/backends.h"
#include "postgres/functions.h"
#include "postgres/server.h"
#include "queue/queue.h"

/* A statement of the queue with values in the place of $1 and $2. */
static void fill_in(const char *stmt, const char *first, const char *second, char *out,
		    size_t cap)
{
	size_t n = 0;

	for (const char *p = stmt; *p; p++) {
		const char *value = *p != '$' ? NULL : p[1] == '1' ? first : second;

		if (value) {
			n += (size_t)snprintf(out + n, cap - n, "%s", value);
			p++;
		} else {
			out[n++] = *p;
		}
		assert_true(n + 1 < cap);
	}
	out[n] = 0;
}

/* The index of leased rows keeps an entry for each row that was acknowledged, until it is vacuumed:
 * an acknowledgement that walks over it takes longer and longer.  The planner would choose it where
 * its statistics know of no leased row. */
WHERRY_TEST(a_settlement_reads_no_rows_but_its_own)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	char sql[2048];
	const char *plan;

	queue_raw(f, "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, 20000);"
		     "ANALYZE jobs");
	assert_string_equal(f->queue->own.ack->params[0], "ids");
	fill_in(f->queue->own.ack->text, "'[1,2,3]'", "'tk'", sql, sizeof(sql));
	plan = queue_text(f, "EXPLAIN (FORMAT JSON) %s", sql);
	assert_non_null(strstr(plan, "jobs_pkey"));
	assert_null(strstr(plan, "jobs_timed"));
	queue_fixture_drop(f);
}

WHERRY_TEST(topics_in_two_schemas_of_the_path_must_be_named)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *conn = PQconnectdb(((postgres_place *)f->place)->url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wherry_db *db = NULL;

	assert_true(postgres_exec(conn,
				  "CREATE SCHEMA east; CREATE SCHEMA west;"
				  "SET search_path = east, west",
				  NULL, 0));
	WHERRY_PASS(wherry_queue_create(f->db, "west.mails", NULL, &err));
	WHERRY_PASS(wherry_postgres_borrow(conn, &db, &err));
	WHERRY_PASS(wherry_topics_open(db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "mails", &err));
	wherry_topics_close(topics);
	WHERRY_PASS(wherry_queue_create(f->db, "east.bills", NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_topics_open(db, NULL, &topics, &err));
	assert_non_null(strstr(err.message, "2 schemas of the search path"));
	WHERRY_PASS(wherry_topics_open(db, "east", &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "bills", &err));
	wherry_topics_close(topics);
	assert_int_equal(queue_int(f, "SELECT count(*) FROM west.wherry_subscription"),
			 1);
	assert_int_equal(queue_int(f, "SELECT count(*) FROM east.wherry_subscription"),
			 1);
	wherry_db_close(db);
	assert_true(postgres_exec(conn, "DROP SCHEMA east, west CASCADE", NULL, 0));
	PQfinish(conn);
	queue_fixture_drop(f);
}

WHERRY_TEST(two_that_subscribe_do_not_wait_for_each_other)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	PGconn *first = PQconnectdb(((postgres_place *)f->place)->url);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err));
	WHERRY_PASS(wherry_queue_create(f->db, "bills", NULL, &err));
	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	assert_true(postgres_exec(first, "BEGIN; SELECT wherry_subscribe('paid', 'jobs')",
				  NULL, 0));
	/* Where it had to wait, it would fail. */
	assert_true(
		postgres_exec(backend_conn(f->db), "SET lock_timeout = '5s'", NULL, 0));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "mails", &err));
	assert_true(postgres_exec(backend_conn(f->db),
				  "SELECT wherry_subscribe('paid', 'bills')", NULL, 0));
	assert_true(postgres_exec(first, "COMMIT", NULL, 0));
	assert_int_equal(queue_int(f, "SELECT count(*) FROM wherry_subscription"), 3);
	wherry_topics_close(topics);
	PQfinish(first);
	queue_fixture_drop(f);
}

WHERRY_TEST(a_purge_leaves_what_an_open_receive_has)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_db *db = queue_connect(f);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *other = NULL;
	int64_t n = 0;

	for (int i = 1; i <= 6; i++)
		(void)queue_send(f, i);
	(void)queue_send_so(f, 7, 50000000, 0);
	WHERRY_PASS(wherry_queue_open(db, "jobs", &other, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	assert_string_equal(queue_receive(other, WHERRY_ATOMIC, 1).bodies, "1");
	(void)queue_lease(f->queue, 1, "2");
	WHERRY_PASS(wherry_queue_purge(f->queue, 0, 2, &n, &err));
	assert_int_equal(n, 5);
	wherry_db_rollback(db);
	queue_counts(f, "1 1 0 0");
	wherry_queue_close(other);
	wherry_db_close(db);
	queue_fixture_drop(f);
}

/* Make the trigger that gives another receiver the lease of each message without good headers, as
 * if it had expired at once. */
static void let_another_have_what_is_bad(queue_fixture *f, const char *when)
{
	queue_raw(
		f,
		"CREATE FUNCTION another_has() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN IF NEW.headers::text <> '{}' THEN NEW.lease_token := 'another'; END "
		"IF; RETURN NEW; END$$;"
		"CREATE TRIGGER another_has BEFORE %s FOR EACH ROW WHEN (NEW.state = 1) "
		"EXECUTE FUNCTION another_has()",
		when);
}

/* A receive failed with WHERRY_STALE if the lease of a message that it cannot hand out, or sends on,
 * ended before it had dealt with it: a worker on a slow machine ended. */
WHERRY_TEST(a_receive_leaves_what_another_has_leased_meanwhile)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	wherry_error err = WHERRY_ERROR_INIT;

	let_another_have_what_is_bad(f, "UPDATE ON jobs");
	queue_raw(f, "INSERT INTO jobs(body, headers) VALUES ('1', '[]'), ('2', '{}')");
	(void)queue_lease(f->queue, 9, "2");
	queue_counts(f, "0 2 0 0");
	queue_fixture_drop(f);

	f = queue_fixture_make_layout(&outbox_postgres_own, "nservicebus");
	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err)); /* native */
	let_another_have_what_is_bad(f, "INSERT ON jobs_received");
	queue_raw(
		f,
		"INSERT INTO jobs(id, headers, body) VALUES (gen_random_uuid(), '[]', '1'),"
		"(gen_random_uuid(), '{\"NServiceBus.SqlServer.ForwardDestination\":"
		"\"mails\"}', '2'), (gen_random_uuid(), '{}', '3')");
	(void)queue_lease(f->queue, 9, "3");
	queue_counts(f, "0 3 0 0");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM mails"), 0);
	queue_fixture_drop(f);
}

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed,
							 &outbox_postgres_functions};

	if (!postgres_start())
		return 0;
	return queue_suite_run(backends, sizeof(backends) / sizeof(*backends),
			       wherry_tests_of_file()->all, wherry_tests_of_file()->n);
}
