/*
 * What the relay of the library eventferry 3 costs on PostgreSQL, and this one does not:
 * counted, not timed.  postgres_defects_test.c has the rest.
 *
 *   25  a claim walks the whole backlog of a hot key, and takes one row of it
 *   26  a row is written three times, its payload with it; of a log, never
 *   27  without statistics a claim reads the whole table
 *   28  one batch at a time, and several statements for each
 *   29  every insert notifies every relay
 *   32  a purge looks for what is old from the beginning, each time
 */
#include "relay_suite.h"

#include <inttypes.h>

#include "outbox/outbox.h"
#include "postgres/server.h"

enum { BACKLOG = 3000, BATCH = 500 };

static void hourly(relay_fixture *f)
{
	relay_hourly(f);
	relay_set(f, "relay.purge_every", "24h");
}

static void fill(relay_fixture *f, int n, const char *key)
{
	char sql[200];

	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox(topic, partition_key, payload) SELECT 't', %s, "
		"'{}' FROM generate_series(1, %d) AS i",
		key, n);
	relay_sql(f, sql);
}

/* ---- counting ---- */

/* Statements that a relay ran. */
typedef struct tally {
	int64_t all, reads;
} tally;

static wherry_code count(void *ctx, const char *op, const char *what, wherry_error *err)
{
	tally *t = ctx;

	t->all += strcmp(op, "run") == 0 || strcmp(op, "begin") == 0 ||
		  strcmp(op, "commit") == 0;
	t->reads += strcmp(what, "read-log") == 0;
	return WHERRY_OK;
}

/* Drain what is there, with batches of 500. */
static void drain(relay_fixture *f, tally *t)
{
	*t = (tally){0};
	hourly(f);
	relay_set(f, "relay.batch", "500");
	relay_wrap(f, &(wh_trace){.before = count, .ctx = t});
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == BACKLOG);
	relay_stop(f, &f->a);
}

/* What the server counted, once it has heard of so many writes; sessions tell when they
 * end. */
static void await_writes(relay_fixture *f, const char *column, int64_t n)
{
	int64_t by_us = relay_deadline();
	char sql[160];

	wherry_publisher_close(f->a.pub);
	wherry_db_close(f->a.db);
	f->a.pub = NULL;
	f->a.db = NULL;
	(void)snprintf(
		sql, sizeof(sql),
		"SELECT %s FROM pg_stat_all_tables WHERE relid = 'outbox'::regclass",
		column);
	while (relay_number(f, sql) < n)
		assert_true(wh_monotonic(&wh_env_system) < by_us);
}

static int64_t counted(relay_fixture *f, const char *column)
{
	char sql[160];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT coalesce(%s, 0) FROM pg_stat_all_tables "
		       "WHERE relid = 'outbox'::regclass",
		       column);
	return relay_number(f, sql);
}

static int64_t number_behind(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	assert_non_null(at);
	return strtoll(at + strlen(word), NULL, 10);
}

static wherry_code take_plan(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t *pages = ctx;
	const char *text = wh_row_text(row, 0);

	*pages = number_behind(text, "\"Shared Hit Blocks\": ") +
		 number_behind(text, "\"Shared Read Blocks\": ");
	return WHERRY_OK;
}

/* Pages that a statement touches, each as often as it does. */
static int64_t pages_of(relay_fixture *f, const wh_stmt *stmt, int64_t after,
			int64_t limit)
{
	static char text[16384], name[] = "explain";
	const wh_param params[] = {WH_INT_PARAM("after", after),
				   WH_INT_PARAM("limit", limit),
				   WH_TEXT_PARAM("gaps", wh_view_of("[]")),
				   WH_INT_PARAM("age", 3600000),
				   WH_INT_PARAM("long", 1 << 20),
				   WH_INT_PARAM("body", 1 << 24)};
	wh_stmt explain = {.name = name,
			   .text = text,
			   .params = stmt->params,
			   .n_params = stmt->n_params};
	wh_sql all = {.stmts = &explain, .n = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t pages = -1;

	(void)snprintf(text, sizeof(text), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) %s",
		       stmt->text);
	WHERRY_PASS(wh_db_run(f->other, &explain, params,
			      sizeof(params) / sizeof(*params), take_plan, &pages, NULL,
			      &err));
	wh_db_forget(f->other, &all);
	return pages;
}

/* ---- 25 ---- */

WHERRY_CASE(defect_25_a_held_key_does_not_slow_the_others, relay_fixture *f)
{
	static tally t;

	fill(f, 20000, "'hot'");
	fill(f, BACKLOG, "'k' || i % 100");
	relay_answers(f, 1, WHERRY_RETRY, 1);
	relay_set(f, "retry.base", "1h");
	relay_set(f, "retry.cap", "1h");
	drain(f, &t);
	assert_in_range(t.reads, 1, 2 * (20000 + BACKLOG) / BATCH);
	assert_int_equal(f->events[1].id, 20001);
}

/* ---- 28 and 29 ---- */

/* A read, and the acknowledgement: begin, fence, write, commit. */
WHERRY_CASE(defect_28_a_batch_takes_a_handful_of_statements, relay_fixture *f)
{
	static tally t;

	fill(f, BACKLOG, "'k' || i % 100");
	drain(f, &t);
	assert_in_range(t.all, 1, 8 * BACKLOG / BATCH + 20);
}

static int notified(PGconn *conn)
{
	int n = 0;

	assert_true(postgres_exec(conn, "SELECT 1", NULL, 0));
	for (PGnotify *one; (one = PQnotifies(conn)); n++)
		PQfreemem(one);
	return n;
}

#define ASLEEP                                                                           \
	"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND "     \
	"mode = 'ExclusiveLock' AND classid = 1669 AND objid = 'outbox'::regclass"

WHERRY_CASE(defect_29_only_a_relay_that_sleeps_is_notified, relay_fixture *f)
{
	PGconn *conn = PQconnectdb(postgres_here.url);

	hourly(f);
	assert_true(postgres_exec(conn,
				  "DO $$BEGIN EXECUTE 'LISTEN wherry_' || "
				  "'outbox'::regclass::oid; END$$",
				  NULL, 0));
	for (int i = 0; i < 20; i++)
		relay_put(f, "a");
	assert_int_equal(notified(conn), 0); /* none runs */
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 20);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_number(f, ASLEEP) == 1);
	(void)notified(conn);
	relay_put(f, "a");
	assert_int_equal(notified(conn), 1); /* one sleeps */
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 21);
	(void)notified(conn);
	assert_int_equal(relay_number(f, ASLEEP), 0);
	for (int i = 0; i < 20; i++)
		relay_put(f, "a");
	assert_int_equal(notified(conn), 0); /* it is awake */
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 41);
	PQfinish(conn);
}

WHERRY_CASE(defect_25_a_hot_key_is_drained_by_batches, relay_fixture *f)
{
	static tally t; /* outlives the connection */

	fill(f, BACKLOG, "'hot'");
	drain(f, &t);
	assert_in_range(t.reads, 1, 2 * BACKLOG / BATCH);
	for (size_t n = 0; n < BACKLOG; n++)
		assert_int_equal(f->events[n].id, n + 1);
}

WHERRY_CASE(defect_26_a_delivered_row_is_not_written, relay_fixture *f)
{
	static tally t;

	fill(f, BACKLOG, "'k' || i % 100"); /* never analyzed */
	drain(f, &t);
	await_writes(f, "n_tup_ins", BACKLOG);
	assert_int_equal(counted(f, "n_tup_upd"), 0);
	assert_int_equal(counted(f, "n_tup_del"), 0);
}

WHERRY_CASE(defect_27_no_statement_reads_the_whole_table, relay_fixture *f)
{
	static tally t;

	fill(f, BACKLOG, "'k' || i % 100"); /* never analyzed */
	drain(f, &t);
	await_writes(f, "idx_scan", 1);
	assert_int_equal(counted(f, "seq_tup_read"), 0);
}

WHERRY_CASE(defect_28_several_batches_are_in_flight, relay_fixture *f)
{
	relay_fake *fake;

	relay_set(f, "relay.batch", "10");
	relay_set(f, "relay.window", "100");
	fake = relay_use_fake(f, &f->a, 0);
	fake->by_hand = true;
	fill(f, 300, "'k' || i");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 100);
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 300);
	relay_check_once(f, 300);
}

WHERRY_CASE(defect_32_a_purge_in_vain_touches_a_few_pages, relay_fixture *f)
{
	fill(f, 20000, "'k'");
	relay_sql(
		f,
		"UPDATE outbox_progress SET high = 20000, seen = pg_current_snapshot()");
	assert_in_range(pages_of(f, f->outbox->store.stmt.purge, 0, 100), 1, 50);
}

static const relay_test own[] = {
	RELAY_TEST(defect_25_a_hot_key_is_drained_by_batches, 0),
	RELAY_TEST(defect_26_a_delivered_row_is_not_written, 0),
	RELAY_TEST(defect_27_no_statement_reads_the_whole_table, 0),
	RELAY_TEST(defect_28_several_batches_are_in_flight, 0),
	RELAY_TEST(defect_32_a_purge_in_vain_touches_a_few_pages, 0),
	RELAY_TEST(defect_25_a_held_key_does_not_slow_the_others, 0),
	RELAY_TEST(defect_28_a_batch_takes_a_handful_of_statements, 0),
	RELAY_TEST(defect_29_only_a_relay_that_sleeps_is_notified, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "postgres",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		.make = postgres_enter,
		.drop = postgres_leave,
		.own = own,
		.own_only = true,
		.layout = "log",
	};

	return postgres_start() ? relay_suite(&target, 1) : 0;
}
