/*
 * How many rows each statement reads on SQLite, whatever ANALYZE has written.
 *
 * The counterpart of plans_postgres_test.c.  The table has 20,000 delivered rows, or a backlog of as
 * many.  The steps of SQLite's virtual machine are counted, of which a row takes ten at least.
 */
#include "wherry_test.h"

#include <sqlite3.h>

#include <wherry/sqlite.h>
#include <wherry/wherry.h>

#include "outbox/outbox.h"

enum { BOUND = 20000, VARIANTS = 3 };

enum { SHOW_BOUND = 100000 }; /* It compares the keys of 1,000 messages. */

enum { ANY = -1 };

/* A statement that reads many rows on purpose, or because no index could help. */
typedef struct exception {
	const char *name;
	int variant; /* of the values, or ANY */
} exception;

/* A relay runs none of these. */
static const exception unbounded[] = {
	{"purge-count", ANY},
	{"first-since", 1},
	/* Keys and message ids are in no index, unless message ids are unique. */
	{"list", 1},
	{"list", 2},
	{"list-newest", 1},
	{"list-newest", 2},
	{"list-any", 1},
	{"list-any", 2},
	{"list-any-newest", 1},
	{"list-any-newest", 2},
};

static bool is_unbounded(const char *name, int variant)
{
	for (size_t i = 0; i < sizeof(unbounded) / sizeof(*unbounded); i++)
		if (strcmp(unbounded[i].name, name) == 0 &&
		    (unbounded[i].variant == ANY || unbounded[i].variant == variant))
			return true;
	return false;
}

/* Of each parameter; NULL: as in the first variant, "": NULL.  Texts that are numbers are bound
 * as such. */
static const struct {
	const char *name, *values[VARIANTS];
} values[] = {
	{":after", {"0"}},
	{":age", {"3600000"}},
	{":at", {"1", "9000000000000"}},
	{":before", {"9000000000"}},
	{":count", {"1"}},
	{":dead", {"0", "1"}},
	{":delay", {"1000"}},
	{":done", {"100"}},
	{":engine", {"log"}},
	{":end", {"9000000000000"}},
	{":epoch", {"1"}},
	{":error", {"why"}},
	{":headers", {"{}"}},
	{":high", {"20100", "20000"}},
	{":holder", {"token"}},
	{":id", {"20001"}},
	{":ident", {"", "m-20005", "m-none"}},
	{":ids", {"[20001,20003,20005,20007,20009]"}},
	{":key", {"", "k5", ""}},
	{":last", {"20010"}},
	{":lasts", {"60000"}},
	{":limit", {"10"}},
	{":message_id", {"new"}},
	{":most", {"100"}},
	{":n", {"10"}},
	{":name", {"outbox"}},
	{":names", {"", "[\"6D2D3230303035\"]"}},
	{":nth", {"1"}},
	{":number", {"20045", "-1", "20005"}},
	{":of", {"gone"}},
	{":on", {"1"}},
	{":older", {"0", "0", "60000"}},
	{":owner", {"owner"}},
	{":process", {"p"}},
	{":state", {"leading", "retrying"}},
	{":destination", {"https://example.org"}},
	{":delivered", {"7"}},
	{":delivered_age", {"-1", "5"}},
	{":error_age", {"-1", "5"}},
	{":payload", {"{}"}},
	{":prefix", {"", "t"}},
	{":shared", {"0", "1"}},
	{":since", {"0", "0", "60000"}},
	{":number", {"0"}},
	{":states", {"31"}},
	{":suspects", {"0"}},
	{":text", {""}},
	{":timeout", {"60000"}},
	{":token", {"gone"}},
	{":topic", {"t"}},
	{":topics", {""}},
	{":trace_id", {""}},
	{":aggregate_id", {"-"}},
	{":aggregate_type", {"-"}},
	{":upto", {"100"}},
	{":window", {"1000"}},
};

static const char *value_of(const char *name, int variant)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (strcmp(values[i].name, name) == 0)
			return values[i].values[variant] ? values[i].values[variant]
							 : values[i].values[0];
	fail_msg("parameter %s has no value in this test: give it one", name);
	return NULL;
}

static void run(sqlite3 *handle, const char *sql)
{
	if (sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
}

static void bind_all(sqlite3_stmt *stmt, int variant)
{
	for (int i = 1; i <= sqlite3_bind_parameter_count(stmt); i++) {
		const char *value =
			value_of(sqlite3_bind_parameter_name(stmt, i), variant);
		char *end = NULL;
		long long number = strtoll(value, &end, 10);

		if (*value && !*end)
			(void)sqlite3_bind_int64(stmt, i, number);
		else if (*value)
			(void)sqlite3_bind_text(stmt, i, value, -1, SQLITE_STATIC);
	}
}

/* Steps that a statement takes; what it writes is taken back. */
static int steps_of(sqlite3 *handle, const char *text, int variant)
{
	sqlite3_stmt *stmt = NULL;
	int code, steps;

	run(handle, "BEGIN");
	if (sqlite3_prepare_v2(handle, text, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(handle));
	bind_all(stmt, variant);
	do
		code = sqlite3_step(stmt);
	while (code == SQLITE_ROW);
	steps = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 0);
	if (code != SQLITE_DONE)
		print_error("%s: %s\n", text, sqlite3_errmsg(handle));
	assert_int_equal(code, SQLITE_DONE);
	(void)sqlite3_finalize(stmt);
	run(handle, "ROLLBACK");
	return steps;
}

static int try_all(sqlite3 *handle, const wh_sql *sql, const char *world)
{
	int n_failed = 0;

	for (size_t i = 0; i < sql->n; i++) {
		const wh_stmt *stmt = &sql->stmts[i];

		for (int v = 0; !stmt->part && v < VARIANTS; v++) {
			int steps;

			if (is_unbounded(stmt->name, v) ||
			    strcmp(stmt->name, "migrate-1") == 0)
				continue;
			steps = steps_of(handle, stmt->text, v);
			if (steps <=
			    (strcmp(stmt->name, "show") == 0 ? SHOW_BOUND : BOUND))
				continue;
			n_failed++;
			print_error("%s: %s takes %d steps with values %d\n", world,
				    stmt->name, steps, v);
		}
	}
	return n_failed;
}

/* Without an index of message ids: they are not searched if none is given. */
static int try_numbers(sqlite3 *handle, const wh_sql *sql, const char *world)
{
	static const char *const names[] = {
		"discard",     "discard-here", "retry-dead",     "list",
		"list-newest", "list-any",     "list-any-newest"};
	int n_failed = 0;

	run(handle, "DROP INDEX outbox_message_id");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int steps = steps_of(handle, wh_sql_find(sql, names[i])->text, 0);

		if (steps <= BOUND)
			continue;
		n_failed++;
		print_error("%s: %s takes %d steps without an index\n", world, names[i],
			    steps);
	}
	return n_failed;
}

#define MANY                                                                             \
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "

/* The first half is old enough to be purged. */
static const char add_many[] = MANY
	"INSERT INTO outbox(id, message_id, topic, partition_key, payload, created_at) "
	"SELECT i, 'm-' || i, 't', 'k' || (i % 1000), '{}', (SELECT ms FROM wherry_clock) - "
	"iif(i > 10000, 1800000, 7200000) FROM n";
static const char deliver[] = "UPDATE outbox_progress SET high = 20000";
/* Twenty messages of each state, behind the many; those above the position are pending. */
static const char add_few[] =
	"WITH RECURSIVE n(i) AS (SELECT 20001 UNION ALL SELECT i + 1 FROM n WHERE i < 20120) "
	"INSERT INTO outbox(id, message_id, topic, partition_key, payload) "
	"SELECT i, 'm-' || i, 't', 'k' || (i % 7), '{}' FROM n; "
	"UPDATE outbox_progress SET high = 20100 WHERE high = 20000; "
	"INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at, claim_token) "
	"SELECT 'relay', id, (id - 20001) / 20, 1, 1000, 'gone' FROM outbox "
	"WHERE id BETWEEN 20001 AND 20100";

typedef struct world {
	const char *name;
	const char *steps[6]; /* SQL */
} world;

static void test_world(const world *w)
{
	const wherry_outbox_options options = WHERRY_OUTBOX_OPTIONS(.unique_ids = true);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;
	int n_failed;

	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", &options, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	for (int i = 0; w->steps[i]; i++)
		run(handle, w->steps[i]);
	n_failed = try_all(handle, &outbox->store.sql, w->name);
	n_failed += try_numbers(handle, &outbox->store.sql, w->name);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	(void)sqlite3_close(handle);
	assert_int_equal(n_failed, 0);
}

WHERRY_TEST(no_statement_reads_what_is_done)
{
	static const world worlds[] = {
		{"no statistics", {add_many, deliver, add_few}},
		{"statistics of an empty table", {"ANALYZE", add_many, deliver, add_few}},
		{"statistics of a backlog", {add_many, "ANALYZE", deliver, add_few}},
		{"statistics that are right", {add_many, deliver, add_few, "ANALYZE"}},
	};

	for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++)
		test_world(&worlds[i]);
}

WHERRY_TEST(no_statement_reads_a_backlog)
{
	static const world worlds[] = {
		{"a backlog, no statistics", {add_many, add_few}},
		{"a backlog, statistics of a few rows",
		 /* Else the many are exceptions, since their ids are lower. */
		 {"DROP TRIGGER outbox_by_hand", add_few, "ANALYZE", add_many}},
		{"a backlog of some topics",
		 {add_many, add_few, "UPDATE outbox_progress SET topics = 't,u.*'"}},
	};

	for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++)
		test_world(&worlds[i]);
}

WHERRY_TEST_MAIN
