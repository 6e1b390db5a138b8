/*
 * A log that is divided into segments: they are made ahead and dropped whole, no INSERT fails without one, and nothing that
 * is needed goes.  The suite of relays runs on such a log in relay_segments_postgres_test.c.
 */
#include "wherry_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "outbox/outbox.h"
#include "postgres/server.h"

enum { WIDTH = 10 };

typedef struct fixture {
	postgres_place place;
	wherry_db *db;
	wherry_outbox *outbox;
	PGconn *conn;
} fixture;

static int enter(void **state)
{
	static fixture f;
	wherry_error err = WHERRY_ERROR_INIT;

	f = (fixture){.db = NULL};
	postgres_make(&f.place);
	postgres_here = f.place; /* For postgres_begin(). */
	WHERRY_PASS(wherry_db_open(f.place.url, NULL, &f.db, &err));
	WHERRY_PASS(wherry_outbox_create(
		f.db, "outbox", &WHERRY_OUTBOX_OPTIONS(.segments = WIDTH), &err));
	WHERRY_PASS(wherry_outbox_open(f.db, "outbox", &f.outbox, &err));
	f.conn = PQconnectdb(f.place.url);
	*state = &f;
	return 0;
}

static int leave(void **state)
{
	fixture *f = *state;

	PQfinish(f->conn);
	wherry_outbox_close(f->outbox);
	wherry_db_close(f->db);
	postgres_drop(&f->place);
	return 0;
}

static void run(const fixture *f, const char *sql)
{
	assert_true(postgres_exec(f->conn, sql, NULL, 0));
}

static int64_t number(const fixture *f, const char *sql)
{
	char text[64] = "";

	assert_true(postgres_exec(f->conn, sql, text, sizeof(text)));
	return strtoll(text, NULL, 10);
}

/* Messages that are two hours old, unless they are new. */
static void put(const fixture *f, int n, const char *when)
{
	char sql[300];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(topic, payload, created_at) "
		       "SELECT 't', '{}', %s FROM generate_series(1, %d)",
		       when, n);
	run(f, sql);
}

#define OLD "now() - interval '2 h'"
#define NEW "now()"

static int64_t consume(const fixture *f, const char *subscription)
{
	char sql[120];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT count(*) FROM wherry_consume('%s', 100000)", subscription);
	return number(f, sql);
}

static int64_t purge(const fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_purge(f->outbox, 3600 * WH_SECOND, 1000, 0, &n, &err));
	return n;
}

static int64_t segments(const fixture *f)
{
	return number(
		f,
		"SELECT count(*) - 1 FROM pg_inherits WHERE inhparent = 'outbox'::regclass");
}

static int64_t in_rest(const fixture *f)
{
	return number(f, "SELECT count(*) FROM outbox_rest");
}

WHERRY_TEST_ON(segments_are_made_ahead_and_dropped_whole, fixture *f, enter, leave)
{
	assert_int_equal(segments(f), 3);
	put(f, 25, OLD);
	assert_int_equal(in_rest(f), 0);
	assert_int_equal(purge(f), 0); /* nobody has read them */
	assert_int_equal(segments(f), 6);
	assert_int_equal(consume(f, "relay"), 25);
	assert_int_equal(purge(f), 20);
	assert_int_equal(segments(f), 4);
	assert_int_equal(number(f, "SELECT min(id) FROM outbox"), 21);
	put(f, 5, NEW);
	assert_int_equal(consume(f, "relay"), 5);
	assert_int_equal(purge(f), 0); /* the segment has new messages, too */
	assert_int_equal(number(f, "SELECT count(*) FROM outbox"), 10);
}

/* No relay ran for long. */
WHERRY_TEST_ON(no_insert_fails_without_a_segment, fixture *f, enter, leave)
{
	put(f, 75, OLD);
	run(f,
	    "INSERT INTO outbox(id, topic, payload) VALUES (93, 't', '{}'), (5, 't', '{}') ON CONFLICT DO NOTHING");
	assert_int_equal(in_rest(f), 46);
	assert_int_equal(purge(f), 0);
	/* From the next range of ids on, and beside an id that was written ahead. */
	assert_int_equal(segments(f), 6);
	assert_int_equal(number(f, "SELECT count(*) FROM outbox"), 76);
	put(f, 12, OLD);
	assert_int_equal(consume(f, "relay"), 88);
	assert_int_equal(purge(f), 80);
	assert_int_equal(consume(f, "relay"), 0);
	/* An id below all segments. */
	run(f,
	    "INSERT INTO outbox(id, topic, payload, created_at) VALUES (3, 't', '{}', " OLD
	    ")");
	assert_int_equal(number(f, "SELECT count(*) FROM outbox_rest WHERE id = 3"), 1);
	assert_int_equal(consume(f, "relay"), 1);
	purge(f);
	assert_int_equal(number(f, "SELECT count(*) FROM outbox_rest WHERE id = 3"), 0);
}

WHERRY_TEST_ON(a_subscription_that_stands_still_keeps_segments, fixture *f, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_subscription_create(f->db, "outbox", "audit", NULL, &err));
	put(f, 30, OLD);
	assert_int_equal(consume(f, "relay"), 30);
	assert_int_equal(purge(f), 0);
	assert_int_equal(number(f, "SELECT count(*) FROM outbox"), 30);
	assert_int_equal(consume(f, "audit"), 30);
	assert_int_equal(purge(f), 30);
}

WHERRY_TEST_WITH(a_dead_message_keeps_its_own_row_alone, enter, leave)
{
	fixture *f = *state;

	put(f, 30, OLD);
	assert_int_equal(consume(f, "relay"), 30);
	run(f,
	    "INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 4, 4), ('relay', 15, 3)");
	assert_int_equal(purge(f), 28);
	assert_int_equal(number(f, "SELECT sum(id) FROM outbox"), 19);
	run(f, "DELETE FROM outbox_exception");
	assert_int_equal(purge(f), 2);
	assert_int_equal(
		number(f,
		       "SELECT count(*) FROM pg_class WHERE relname IN ('outbox_s1', 'outbox_s2')"),
		0);
}

/* Its row has an id in a segment that all others have passed. */
WHERRY_TEST_ON(a_segment_with_a_row_that_is_not_committed_stays, fixture *f, enter, leave)
{
	PGconn *late;

	put(f, 5, OLD);
	late = postgres_begin(
		"INSERT INTO outbox(topic, payload, created_at) VALUES ('t', '{}', " OLD
		")");
	put(f, 20, OLD);
	assert_int_equal(consume(f, "relay"), 25);
	assert_int_equal(purge(f), 0);
	put(f, 1, OLD); /* Producers do not wait. */
	postgres_end(late, "COMMIT");
	assert_int_equal(purge(f), 0);
	assert_int_equal(consume(f, "relay"), 2);
	assert_int_equal(purge(f), 20);
}

/* A lock is for the next purge, and is waited for 100 ms: one to make segments, one to drop one. */
WHERRY_TEST_ON(a_purge_waits_for_no_long_transaction, fixture *f, enter, leave)
{
	PGconn *reader;
	int64_t began, took, least = INT64_MAX;

	put(f, 30, OLD);
	assert_int_equal(consume(f, "relay"), 30);
	reader = postgres_begin("SELECT count(*) FROM outbox");
	for (int i = 0; i < 5; i++) { /* The machine may be busy. */
		began = wh_env_system.monotonic_us(wh_env_system.ctx);
		assert_int_equal(purge(f), 0);
		put(f, 1, OLD);
		took = wh_env_system.monotonic_us(wh_env_system.ctx) - began;
		least = took < least ? took : least;
	}
	assert_true(least >= WH_SECOND / 10);
	assert_true(least < WH_SECOND / 2);
	postgres_end(reader, "COMMIT");
	assert_int_equal(purge(f), 30);
}

/* Making a segment locks the default partition: a producer that waits for it while the purge waits for the producer would be
 * ended by the server as part of a deadlock. */
WHERRY_TEST_ON(no_purge_ends_a_transaction_of_a_producer, fixture *f, enter, leave)
{
	PGconn *producer, *purger = PQconnectdb(f->place.url);
	int64_t waits = 0;

	put(f, 25, OLD);
	assert_int_equal(consume(f, "relay"), 25);
	producer =
		postgres_begin("INSERT INTO outbox(topic, payload) VALUES ('t', '{}')");
	assert_true(
		postgres_exec(producer, "SET LOCAL deadlock_timeout = '5ms'", NULL, 0));
	assert_int_equal(PQsendQuery(purger, "SELECT outbox_segments(3600000, 1000)"), 1);
	while (!waits && PQisBusy(purger)) {
		waits = number(f, "SELECT count(*) FROM pg_locks WHERE NOT granted "
				  "AND relation = 'outbox'::regclass");
		assert_int_equal(PQconsumeInput(purger), 1);
	}
	assert_true(postgres_exec(
		producer,
		"INSERT INTO outbox(id, topic, payload) VALUES (999, 't', '{}')", NULL,
		0));
	postgres_end(producer, "COMMIT");
	PQclear(PQgetResult(purger));
	PQfinish(purger);
	purge(f);
	assert_int_equal(segments(f), 4);
	assert_int_equal(number(f, "SELECT count(*) FROM outbox WHERE id > 25"), 2);
}

/* They wait from the lock on the table to the end of the transaction. */
WHERRY_TEST_ON(producers_do_not_wait_while_rows_are_deleted, fixture *f, enter, leave)
{
	run(f,
	    "CREATE FUNCTION not_locked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
	    "IF EXISTS (SELECT 1 FROM pg_locks AS l JOIN pg_inherits AS i ON l.relation = i.inhparent "
	    "WHERE i.inhrelid = TG_RELID AND l.granted AND l.mode = 'AccessExclusiveLock') THEN "
	    "RAISE 'producers wait'; END IF; RETURN OLD; END $$");
	run(f,
	    "CREATE TRIGGER not_locked BEFORE DELETE ON outbox_rest FOR EACH ROW EXECUTE FUNCTION not_locked()");
	put(f, 35, OLD);
	assert_int_equal(in_rest(f), 5);
	assert_int_equal(consume(f, "relay"), 35);
	assert_int_equal(purge(f), 35);
}

/* Message 1 is dead.  A segment has such times alone. */
WHERRY_TEST_WITH(a_time_in_the_future_says_nothing_about_age, enter, leave)
{
	fixture *f = *state;

	put(f, 1, "now() + interval '100 y'");
	put(f, 10, OLD);
	put(f, 1, "'infinity'");
	put(f, 8, OLD);
	put(f, 10, "now() + interval '100 y'");
	put(f, 1, "now() + interval '100 y'"); /* This and the next have no segment. */
	put(f, 4, OLD);
	assert_int_equal(consume(f, "relay"), 35);
	run(f,
	    "INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 1, 4)");
	assert_int_equal(number(f, "SELECT outbox_segments(9223372036854775807, 1000)"),
			 0);
	assert_int_equal(number(f, "SELECT outbox_segments(3600000, 0)"), 34);
	assert_int_equal(purge(f), 34);
	assert_int_equal(number(f, "SELECT max(id) FROM outbox"), 1);
	/* A clock may be ahead a little. */
	put(f, 40, "now() + interval '1 h'");
	assert_int_equal(consume(f, "relay"), 40);
	assert_int_equal(purge(f), 0);
}

WHERRY_TEST_WITH(a_dry_purge_counts_what_a_purge_deletes, enter, leave)
{
	fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	put(f, 45, OLD);
	assert_int_equal(consume(f, "relay"), 45);
	run(f,
	    "INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 4, 4)");
	WHERRY_PASS(wh_outbox_count_old(f->outbox, 3600 * WH_SECOND, &n, &err));
	assert_int_equal(number(f, "SELECT count(*) FROM outbox"), 45);
	assert_int_equal(purge(f), n);
	assert_int_equal(n, 44);
}

WHERRY_TEST_ON(segments_go_with_no_other_kind_of_outbox, fixture *f, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *lite = NULL;

	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(
			     f->db, "other",
			     &WHERRY_OUTBOX_OPTIONS(.segments = 10, .unique_ids = true),
			     &err));
	assert_non_null(strstr(err.message, "leave --unique-ids or --segments out"));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(f->db, "other",
					  &WHERRY_OUTBOX_OPTIONS(.segments = 9), &err));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox",
					 &WHERRY_OUTBOX_OPTIONS(.segments = 20), &err));
	assert_int_not_equal(
		wherry_outbox_create(f->db, "outbox",
				     &WHERRY_OUTBOX_OPTIONS(.unique_ids = true), &err),
		WHERRY_OK);
	assert_non_null(strstr(err.message, "message ids cannot be unique"));
	WHERRY_PASS(wherry_outbox_create(f->db, "plain", NULL, &err));
	run(f, "INSERT INTO plain(topic, payload) VALUES ('t', '{}')");
	assert_int_not_equal(wherry_outbox_create(f->db, "plain",
						  &WHERRY_OUTBOX_OPTIONS(.segments = 10),
						  &err),
			     WHERRY_OK);
	assert_non_null(strstr(err.message, "has no segments"));
	WHERRY_PASS(wherry_db_open("sqlite::memory:", NULL, &lite, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(lite, "outbox",
					  &WHERRY_OUTBOX_OPTIONS(.segments = 10), &err));
	assert_non_null(strstr(err.message, "leave --segments out"));
	wherry_db_close(lite);
}

static void refuses_segments(const fixture *f, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_create(f->db, "plain", NULL, &err));
	run(f, sql);
	assert_int_not_equal(wherry_outbox_create(f->db, "plain",
						  &WHERRY_OUTBOX_OPTIONS(.segments = 10),
						  &err),
			     WHERRY_OK);
	assert_non_null(strstr(err.message, "has no segments"));
	run(f, "DROP TABLE plain");
	run(f, "DELETE FROM wherry_schema WHERE name = 'plain'");
	run(f, "DROP TABLE plain_progress, plain_exception");
}

/* An empty table that its owner has changed is refused, and stays.  Rights that each new table of the schema gets are not such a change. */
WHERRY_TEST_ON(segments_are_made_unless_the_owner_changed_the_table, fixture *f, enter,
	       leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	run(f,
	    "DO $$ BEGIN EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES TO PUBLIC', "
	    "current_schema()); END $$");
	WHERRY_PASS(wherry_outbox_create(f->db, "other",
					 &WHERRY_OUTBOX_OPTIONS(.segments = 10), &err));
	assert_int_equal(
		number(f,
		       "SELECT count(*) FROM pg_inherits WHERE inhparent = 'other'::regclass"),
		4);
	refuses_segments(f, "GRANT DELETE ON plain TO PUBLIC");
	refuses_segments(f, "CREATE INDEX ON plain(topic)");
	refuses_segments(f, "CREATE TRIGGER own BEFORE UPDATE ON plain EXECUTE FUNCTION "
			    "suppress_redundant_updates_trigger()");
	run(f, "CREATE PUBLICATION own_of_the_test");
	refuses_segments(f, "ALTER PUBLICATION own_of_the_test ADD TABLE plain");
	run(f, "DROP PUBLICATION own_of_the_test");
}

/* Who may delete rows may drop segments, also after it was dropped and made again. */
WHERRY_TEST_ON(the_function_that_is_made_again_has_its_rights, fixture *f, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;

	run(f, "DROP ROLE IF EXISTS segments_relay");
	run(f, "DROP ROLE IF EXISTS segments_producer");
	run(f, "CREATE ROLE segments_relay");
	run(f, "CREATE ROLE segments_producer");
	run(f, "GRANT SELECT, DELETE ON outbox TO segments_relay");
	run(f, "GRANT INSERT ON outbox TO segments_producer");
	run(f, "DROP FUNCTION outbox_segments");
	WHERRY_PASS(wherry_outbox_create(
		f->db, "outbox", &WHERRY_OUTBOX_OPTIONS(.segments = WIDTH), &err));
	assert_int_equal(
		number(f,
		       "SELECT has_function_privilege('segments_relay', 'outbox_segments'::regproc, 'EXECUTE')::int"),
		1);
	assert_int_equal(
		number(f,
		       "SELECT has_function_privilege('segments_producer', 'outbox_segments'::regproc, 'EXECUTE')::int"),
		0);
	run(f, "DROP OWNED BY segments_relay, segments_producer");
	run(f, "DROP ROLE segments_relay, segments_producer");
}

WHERRY_TEST_ON(the_sql_of_create_makes_segments_twice, fixture *f, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	postgres_place other;
	char text[64] = "", *sql = NULL;

	WHERRY_PASS(wherry_outbox_create_sql("postgresql", "outbox",
					     &WHERRY_OUTBOX_OPTIONS(.segments = WIDTH),
					     &sql, &err));
	postgres_make(&other);
	for (int i = 0; i < 2; i++) {
		assert_true(postgres_raw(other.url, sql, NULL, 0));
		assert_true(postgres_raw(
			other.url,
			"SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox'::regclass",
			text, sizeof(text)));
		assert_string_equal(text, "4");
	}
	free(sql);
	WHERRY_PASS(wh_store_drop(&f->outbox->store, &err));
	assert_int_equal(
		number(f,
		       "SELECT count(*) FROM pg_proc WHERE proname = 'outbox_segments' AND pronamespace = current_schema()::regnamespace"),
		0);
	assert_int_equal(
		number(f,
		       "SELECT count(*) FROM pg_class WHERE relname LIKE 'outbox\\_%' AND relnamespace = current_schema()::regnamespace"),
		0);
	postgres_drop(&other);
}

/* The value of a parameter of a look, as SQL. */
static const char *value_of(const char *name)
{
	static const struct {
		const char *name, *value;
	} given[] = {{"seen", "pg_current_snapshot()::text"},
		     {"limit", "20"},
		     {"long", "1000"},
		     {"body", "100000"},
		     {"mask", "-1"},
		     {"mixed", "0"}};

	for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++)
		if (strcmp(given[i].name, name) == 0)
			return given[i].value;
	return "NULL";
}

/* How many rows the nodes of the plan of a look saw; each time a node was asked counts as one. */
static double rows_of_look(const fixture *f, const wh_stmt *look, int high)
{
	static char plan[1024 * 1024];
	wh_buf sql = WH_BUF_INIT(65536);
	const char *at = plan;
	double sum = 0, rows;

	wh_buf_puts(&sql, "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look(");
	for (int i = 0; i < look->n_params; i++)
		if (strcmp(look->params[i], "high") == 0)
			wh_buf_printf(&sql, "%s%d", i ? ", " : "", high);
		else
			wh_buf_printf(&sql, "%s%s", i ? ", " : "",
				      value_of(look->params[i]));
	wh_buf_puts(&sql, ")");
	assert_true(postgres_exec(f->conn, wh_buf_str(&sql), plan, sizeof(plan)));
	wh_buf_clear(&sql);
	while ((at = strstr(at, "\"Actual Rows\": "))) {
		rows = strtod(at + strlen("\"Actual Rows\": "), NULL);
		at = strstr(at, "\"Actual Loops\": ");
		sum += (rows > 1 ? rows : 1) *
		       strtod(at + strlen("\"Actual Loops\": "), NULL);
	}
	return sum;
}

/* At the start, in the middle and near the end. */
WHERRY_TEST_ON(a_look_walks_few_of_a_hundred_segments, fixture *f, enter, leave)
{
	wh_buf sql = WH_BUF_INIT(65536);
	const wh_stmt *look = wh_sql_find(&f->outbox->store.sql, "read-log");

	for (int i = 0; i < 50; i++) {
		put(f, 20, OLD);
		purge(f);
	}
	assert_true(segments(f) >= 100);
	run(f,
	    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; "
	    "SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan");
	wh_buf_printf(&sql, "PREPARE look AS %s", look->text);
	run(f, wh_buf_str(&sql));
	wh_buf_clear(&sql);
	for (int high = 0; high <= 1000; high += 500) {
		const double rows = rows_of_look(f, look, high);

		print_message("# behind %d a look reads %.0f rows\n", high, rows);
		assert_true(rows < 1000);
	}
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
