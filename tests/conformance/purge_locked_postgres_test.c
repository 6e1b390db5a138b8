/*
 * Purges of PostgreSQL's tables while another session has locked one of the rows, or a whole segment: what it has
 * locked stays, everything else goes, and nobody waits.
 */
#include "wherry_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/delayed.h>
#include <wherry/inbox.h>
#include <wherry/queue.h>
#include <wherry/wherry.h>

#include "base/env.h"
#include "outbox/adopt.h"
#include "outbox/outbox.h"
#include "postgres/eventferry.h"
#include "postgres/server.h"

enum { ROWS = 35, BATCH = 10 };

static wherry_db *db;

static int enter(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_config_new(&config, &err));
	/* A purge that waits fails. */
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", "100ms", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return 0;
}

static int leave(void **state)
{
	wherry_db_close(db);
	postgres_leave();
	return 0;
}

static void run_sql(const char *sql)
{
	assert_true(postgres_raw(postgres_here.url, sql, NULL, 0));
}

static int64_t number(const char *sql)
{
	char got[40] = "";

	assert_true(postgres_raw(postgres_here.url, sql, got, sizeof(got)));
	return strtoll(got, NULL, 10);
}

/* ---- outboxes ---- */

static int64_t purge(wherry_outbox *outbox)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -1;

	WHERRY_PASS(wherry_outbox_purge(outbox, WH_SECOND, BATCH, 0, &n, &err));
	return n;
}

/* All messages are delivered and old.  Several are locked, and one of them is in the first batch. */
static void purge_beside(const char *name, const char *lock, int locked)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	PGconn *other;

	WHERRY_PASS(wherry_outbox_open(db, name, &outbox, &err));
	other = postgres_begin(lock);
	assert_int_equal(purge(outbox), ROWS - locked);
	assert_int_equal(purge(outbox), 0);
	postgres_end(other, "COMMIT");
	assert_int_equal(purge(outbox), locked);
	wherry_outbox_close(outbox);
}

static void fill_log(int64_t segments)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_create(
		db, "outbox", &WHERRY_OUTBOX_OPTIONS(.segments = segments), &err));
	run_sql("INSERT INTO outbox(topic, payload, created_at) SELECT 't', '{}', "
		"now() - interval '2 h' FROM generate_series(1, 35)");
	run_sql("SELECT count(*) FROM wherry_consume('relay', 1000)");
}

WHERRY_TEST_WITH(a_purge_of_a_log_passes_over_locked_rows, enter, leave)
{
	fill_log(0);
	purge_beside("outbox", "SELECT 1 FROM outbox WHERE id IN (3, 4, 24) FOR UPDATE",
		     3);
}

/* More than a batch. */
WHERRY_TEST_WITH(a_purge_of_a_log_passes_over_many_locked_rows, enter, leave)
{
	fill_log(0);
	purge_beside("outbox",
		     "SELECT 1 FROM outbox WHERE id BETWEEN 2 AND 26 FOR UPDATE", 25);
}

/* A foreign key of another table makes such a lock. */
WHERRY_TEST_WITH(a_purge_passes_over_rows_that_are_only_shared, enter, leave)
{
	fill_log(0);
	purge_beside("outbox", "SELECT 1 FROM outbox WHERE id = 1 FOR KEY SHARE", 1);
}

/* 30 ids have a segment, and 5 have none.  To drop a segment PostgreSQL locks the whole table that has these. */
WHERRY_TEST_WITH(a_purge_of_segments_passes_over_locked_rows, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	PGconn *other;

	fill_log(10);
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	other = postgres_begin(
		"SELECT 1 FROM outbox_rest WHERE id IN (31, 33) FOR UPDATE");
	assert_int_equal(purge(outbox), 3);
	postgres_end(other, "COMMIT");
	assert_int_equal(purge(outbox), 30 + 2);
	wherry_outbox_close(outbox);
}

/* Message 25 is dead, and the others of its segment go one by one. */
WHERRY_TEST_WITH(a_purge_passes_over_locked_rows_beside_a_dead_one, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	PGconn *other;

	fill_log(10);
	run_sql("INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 25, 4)");
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	other = postgres_begin("SELECT 1 FROM outbox_s3 WHERE id = 21 FOR UPDATE");
	(void)purge(outbox);
	(void)purge(outbox);
	assert_int_equal(number("SELECT sum(id) FROM outbox"), 21 + 25);
	postgres_end(other, "COMMIT");
	assert_int_equal(purge(outbox), 1);
	wherry_outbox_close(outbox);
}

/* As VACUUM FULL or REINDEX of one segment does. */
WHERRY_TEST_WITH(a_purge_passes_over_a_locked_segment, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	PGconn *other;

	fill_log(10);
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	other = postgres_begin("LOCK TABLE outbox_s2 IN ACCESS EXCLUSIVE MODE");
	assert_int_equal(purge(outbox), 5 + 10);
	assert_int_equal(number("SELECT count(*) FROM outbox_rest"), 0);
	postgres_end(other, "COMMIT");
	assert_int_equal(purge(outbox), 20);
	wherry_outbox_close(outbox);
}

static void adopt_table(const char *done)
{
	const wh_adopt_options options = {.as = "second", .done = done, .from = "start"};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_adoption *adoption = calloc(1, sizeof(*adoption));
	bool made;

	assert_non_null(adoption);
	run_sql("CREATE TABLE older(id bigint PRIMARY KEY, topic text NOT NULL, "
		"partition_key text, payload text NOT NULL, sent_at timestamptz)");
	WHERRY_PASS(wh_adoption_plan(db, "older", &options, adoption, &err));
	WHERRY_PASS(wh_adoption_run(adoption, &made, &err));
	wh_adoption_clear(adoption);
	free(adoption);
	run_sql("INSERT INTO older(id, topic, payload) SELECT i, 't', '{}' "
		"FROM generate_series(1, 35) AS i");
	run_sql("SELECT count(*) FROM wherry_consume('relay', 1000, 'second')");
	purge_beside("second", "SELECT 1 FROM older WHERE id IN (3, 4, 24) FOR UPDATE",
		     3);
}

WHERRY_TEST_WITH(rows_of_an_adopted_table_are_marked_beside_locked_ones, enter, leave)
{
	adopt_table("sent_at");
	assert_int_equal(number("SELECT count(sent_at) FROM older"), ROWS);
}

WHERRY_TEST_WITH(rows_of_an_adopted_table_are_deleted_beside_locked_ones, enter, leave)
{
	adopt_table("delete");
	assert_int_equal(number("SELECT count(*) FROM older"), 0);
}

WHERRY_TEST_WITH(a_purge_of_eventferrys_table_passes_over_locked_rows, enter, leave)
{
	run_sql(eventferry_tables);
	run_sql("INSERT INTO outbox(topic, aggregate_type, aggregate_id, payload, status, processed_at) "
		"SELECT 't', '', i, '{}', 2, now() - interval '2 h' FROM generate_series(1, 35) AS i");
	purge_beside("outbox", "SELECT 1 FROM outbox WHERE id IN (3, 4, 24) FOR UPDATE",
		     3);
}

WHERRY_TEST_WITH(expired_claims_are_taken_back_beside_locked_ones, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	int64_t n = 0;
	PGconn *other;

	run_sql(eventferry_tables);
	run_sql("INSERT INTO outbox(topic, aggregate_type, aggregate_id, payload, status, claimed_at) "
		"SELECT 't', '', i, '{}', 1, now() - interval '2 h' FROM generate_series(1, 35) AS i");
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	other = postgres_begin("SELECT 1 FROM outbox WHERE id = 3 FOR UPDATE");
	WHERRY_PASS(wherry_outbox_reap(outbox, WH_SECOND, &n, &err));
	assert_int_equal(n, ROWS - 1);
	postgres_end(other, "COMMIT");
	WHERRY_PASS(wherry_outbox_reap(outbox, WH_SECOND, &n, &err));
	assert_int_equal(n, 1);
	wherry_outbox_close(outbox);
}

/* ---- other models ---- */

WHERRY_TEST_WITH(a_purge_of_a_queue_passes_over_locked_messages, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	int64_t n = 0;
	PGconn *other;

	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	run_sql("SELECT wherry_send('jobs', '{}') FROM generate_series(1, 35)");
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	other = postgres_begin("SELECT 1 FROM jobs ORDER BY id LIMIT 1 FOR UPDATE");
	WHERRY_PASS(wherry_queue_purge(queue, 0, BATCH, &n, &err));
	assert_int_equal(n, ROWS - 1);
	postgres_end(other, "COMMIT");
	WHERRY_PASS(wherry_queue_purge(queue, 0, BATCH, &n, &err));
	assert_int_equal(n, 1);
	wherry_queue_close(queue);
}

WHERRY_TEST_WITH(dead_messages_of_a_delayed_queue_go_beside_locked_ones, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *delayed = NULL;
	int64_t n = 0;
	PGconn *other;

	WHERRY_PASS(wherry_delayed_create(db, "later", NULL, &err));
	run_sql("INSERT INTO later_dead SELECT i, i, md5('mail|bytes'), 'x', 1, 1, 5, 1, 'e' "
		"FROM generate_series(1, 35) AS i");
	WHERRY_PASS(wherry_delayed_open(db, "later", "mail", NULL, &delayed, &err));
	other = postgres_begin("SELECT 1 FROM later_dead WHERE id = 3 FOR UPDATE");
	/* A message that is named is waited for. */
	WHERRY_FAILS(WHERRY_BUSY, wherry_delayed_purge_dead(delayed, 3, &n, &err));
	WHERRY_PASS(wherry_delayed_purge_dead(delayed, 4, &n, &err));
	WHERRY_PASS(wherry_delayed_purge_dead(delayed, 0, &n, &err));
	assert_int_equal(n, ROWS - 2);
	postgres_end(other, "COMMIT");
	WHERRY_PASS(wherry_delayed_purge_dead(delayed, 3, &n, &err));
	wherry_delayed_close(delayed);
}

WHERRY_TEST_WITH(a_purge_of_an_inbox_passes_over_locked_ids, enter, leave)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *inbox = NULL;
	int64_t n = 0;
	PGconn *other;

	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	run_sql("INSERT INTO inbox(consumer, message_id, accepted_at) "
		"SELECT 'c', i, now() - interval '2 h' FROM generate_series(1, 36) AS i");
	WHERRY_PASS(wherry_inbox_open(db, NULL, &inbox, &err));
	other = postgres_begin(
		"SELECT 1 FROM inbox WHERE message_id IN ('1', '2') FOR UPDATE");
	WHERRY_PASS(wherry_inbox_purge(inbox, WH_SECOND, BATCH, 0, &n, &err));
	assert_int_equal(n, 34);
	assert_int_equal(
		number("SET lock_timeout = '1s'; SELECT wherry_inbox_purge(interval '1 s')"),
		0);
	postgres_end(other, "COMMIT");
	assert_int_equal(number("SELECT wherry_inbox_purge(interval '1 s')"), 2);
	wherry_inbox_close(inbox);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
