/*
 * How many rows each statement reads, whatever the planner believes.
 *
 * The table has 20,000 rows that a statement must not read: delivered ones, or a backlog.
 * The planner's statistics are those of an empty table, of the table before it changed, or
 * right; the plan is made now for the values given, made now for any values, or was made
 * before the table changed.  EXPLAIN ANALYZE counts the rows that each node of the plan
 * returned or threw away.
 *
 * Every statement of the outbox's .sql file is tried, so a new one is, too.  One that needs a
 * value which is not listed here fails the test until it gets one.  WHERRY_PLANS=1 prints the
 * plans that read too much.
 */
#include "wherry_test.h"

#include <wherry/wherry.h>

#include "base/text.h"
#include "db/postgres/postgres.h"
#include "outbox/outbox.h"
#include "postgres/server.h"

enum { MANY = 20000, FEW = 20, BOUND = 6000, PLAN_MAX = 256 * 1024 };

/* For statements that look at the first 10,000 rows that may be late, in up to five nodes of a plan.  Of a position that
 * stands still all rows behind it may be. */
enum { LATE_BOUND = 55000 };

/* ---- what may be read on purpose ---- */

/* Statements that read many rows because they were asked to: no relay runs them. */
static const char *const unbounded[] = {
	"purge-count", /* wherry purge --dry-run counts */
	"late-page",   /* many late rows, page by page */
	"renumber",    /* all rows, once after a restore */
	"first-since", "seek-end",
};

static const char *const reading_late[] = {"count", "held-pending", "oldest-pending",
					   "list",  "list-newest",  "show"};

static bool is_among(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

#define IS_AMONG(names, name) is_among(names, sizeof(names) / sizeof(*(names)), name)

/* What EXPLAIN does not take, and a function, which no relay calls. */
static bool is_script(const char *name)
{
	return strcmp(name, "migrate-1") == 0 || strncmp(name, "drop", 4) == 0 ||
	       strncmp(name, "purge-segments", 14) == 0 ||
	       strcmp(name, "try-drop") == 0 || strcmp(name, "consume") == 0 ||
	       strncmp(name, "add-", 4) == 0;
}

/* ---- values ---- */

enum { VARIANTS = 3 };

/* Of each parameter, as SQL; NULL: as in the first variant. */
static const struct {
	const char *name, *values[VARIANTS];
} values[] = {
	{"after", {"0"}},
	{"before", {"9000000000"}},
	{"older", {"0", "0", "60000"}},
	{"prefix", {"NULL", "'t'", "NULL"}},
	{"text", {"NULL"}},
	{"age", {"3600000"}},
	{"at", {"9000000000000", "1"}},
	{"aggregate_id", {"''"}},
	{"aggregate_type", {"''"}},
	{"before", {"20010"}},
	{"body", {"1000000"}},
	{"change", {"0", "1"}},
	{"count", {"1"}},
	{"dead", {"0", "1"}},
	{"delay", {"1000"}},
	{"done", {"100"}},
	{"engine", {"'log'"}},
	{"ends", {"0"}},
	{"end", {"9000000000000"}},
	{"epoch", {"1"}},
	{"error", {"'why'"}},
	{"headers", {"'{}'"}},
	{"high", {"20100", "20000"}},
	{"holder", {"'token'"}},
	{"id", {"20001"}},
	{"ident", {"NULL", "'m-20005'", "'20005'"}},
	{"ids", {"'[20001,20003,20005,20007,20009]'"}},
	{"key", {"NULL", "'k5'", "NULL"}},
	{"lasts", {"60000"}},
	{"late", {"0"}},
	{"limit", {"10"}},
	{"long", {"1000", "-1"}},
	{"mask", {"-1", "255"}},
	{"mixed", {"0", "1"}},
	{"message_id", {"'new'"}},
	{"most", {"100"}},
	{"name", {"'outbox'"}},
	{"nth", {"1"}},
	{"number", {"20045", "-1", "20005"}},
	{"on", {"1"}},
	{"owner", {"'owner'"}},
	{"process", {"''"}},
	{"state", {"'leading'", "'retrying'"}},
	{"destination", {"'https://example.org'"}},
	{"delivered", {"7"}},
	{"delivered_age", {"-1", "5"}},
	{"error_age", {"-1", "5"}},
	{"payload", {"'{}'"}},
	{"schema", {"'public'"}},
	{"seen", {"pg_current_snapshot()::text"}},
	{"shared", {"0", "1"}},
	{"since", {"0", "0", "60000"}},
	{"number", {"0", "1"}},
	{"partitions", {"'{0,1,2,3,4,5,6,7}'"}},
	{"states", {"31"}},
	{"suspects", {"0"}},
	{"token", {"'gone'"}},
	{"topic", {"'t'"}},
	{"topics", {"NULL"}},
	{"trace_id", {"NULL"}},
	{"unclean", {"0"}},
	{"until", {"pg_current_snapshot()::text"}},
	{"upto", {"100"}}, /* as far as "claim-end" looks */
	{"window", {"1000"}},
};

static const char *value_of(const char *name, int variant)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (strcmp(values[i].name, name) == 0)
			return values[i].values[variant] ? values[i].values[variant]
							 : values[i].values[0];
	fail_msg("parameter :%s has no value in this test: give it one", name);
	return NULL;
}

/* Does any parameter differ from the first variant? */
static bool differs(const wh_stmt *s, int variant)
{
	for (int i = 0; i < s->n_params; i++)
		if (strcmp(value_of(s->params[i], variant), value_of(s->params[i], 0)) !=
		    0)
			return true;
	return variant == 0;
}

/* ---- plans ---- */

typedef struct plans {
	postgres_place place;
	wherry_db *db;
	wherry_outbox *outbox;
	PGconn *conn;
	const char *world;
	bool stands_still; /* the many rows were written after the position was */
	bool unindexed;    /* no index has message ids, and none is given */
	int n_failed;
} plans;

static void run(const plans *p, const char *sql)
{
	assert_true(postgres_exec(p->conn, sql, NULL, 0));
}

/* "Actual Rows": 3 and the like; moves *text behind it. */
static bool take_number(const char **text, const char *until, const char *word,
			double *out)
{
	const char *at = strstr(*text, word);
	char *end;

	if (!at || (until && at > until))
		return false;
	*out = strtod(at + strlen(word), &end);
	*text = end;
	return true;
}

/* Rows that all nodes of a plan saw; each time a node was asked counts as one. */
static double rows_in(const char *plan)
{
	static const char *const removed[] = {
		"\"Rows Removed by Filter\": ", "\"Rows Removed by Join Filter\": ",
		"\"Rows Removed by Index Recheck\": "};
	double sum = 0, rows, loops, more;

	while (take_number(&plan, NULL, "\"Actual Rows\": ", &rows) &&
	       take_number(&plan, NULL, "\"Actual Loops\": ", &loops)) {
		const char *next = strstr(plan, "\"Actual Rows\": ");

		for (size_t i = 0; i < sizeof(removed) / sizeof(*removed); i++) {
			const char *at = plan;

			if (take_number(&at, next, removed[i], &more))
				rows += more;
		}
		sum += (rows > 1 ? rows : 1) * loops;
	}
	return sum;
}

#define NEVER 1e18 /* rows of a statement that failed, or took too long */

/* Rows that a prepared statement reads; what it writes is taken back. */
static double explain(plans *p, size_t i, int variant, const char *analyze, char *plan)
{
	const char *name = p->outbox->store.sql.stmts[i].name;
	wh_buf sql = WH_BUF_INIT(65536);
	bool done;

	wh_buf_printf(&sql, "BEGIN; EXPLAIN (%s, FORMAT JSON) EXECUTE \"%s\"", analyze,
		      name);
	for (int n = 0; n < p->outbox->store.sql.stmts[i].n_params; n++)
		wh_buf_printf(&sql, "%s%s", n ? ", " : "(",
			      value_of(p->outbox->store.sql.stmts[i].params[n], variant));
	wh_buf_printf(&sql, "%s", p->outbox->store.sql.stmts[i].n_params ? ")" : "");
	done = postgres_exec(p->conn, sql.ptr, plan, PLAN_MAX);
	run(p, "ROLLBACK");
	wh_buf_clear(&sql);
	return done ? rows_in(plan) : NEVER;
}

static bool is_tried(const plans *p, size_t i)
{
	static const char *const by_number[] = {
		"discard",     "discard-here", "retry-dead",     "list",
		"list-newest", "list-any",     "list-any-newest"};
	const wh_stmt *stmt = &p->outbox->store.sql.stmts[i];

	if (p->unindexed && !IS_AMONG(by_number, stmt->name))
		return false;
	return !stmt->part && !is_script(stmt->name) && !strstr(stmt->text, "DO $$");
}

static void prepare_all(plans *p)
{
	for (size_t i = 0; i < p->outbox->store.sql.n; i++) {
		wh_buf sql = WH_BUF_INIT(65536);

		if (!is_tried(p, i))
			continue;
		wh_buf_printf(&sql, "PREPARE \"%s\" AS %s",
			      p->outbox->store.sql.stmts[i].name,
			      p->outbox->store.sql.stmts[i].text);
		run(p, sql.ptr);
		wh_buf_clear(&sql);
	}
}

/* Plans for any values, kept. */
static void plan_all(plans *p)
{
	static char plan[PLAN_MAX];

	run(p, "DEALLOCATE ALL; SET plan_cache_mode = force_generic_plan");
	prepare_all(p);
	for (size_t i = 0; i < p->outbox->store.sql.n; i++)
		if (is_tried(p, i))
			(void)explain(p, i, 0, "ANALYZE off", plan);
}

static void try_all(plans *p, const char *when)
{
	static char plan[PLAN_MAX];

	for (size_t i = 0; i < p->outbox->store.sql.n; i++) {
		const char *name = p->outbox->store.sql.stmts[i].name;

		for (int v = 0; is_tried(p, i) && v < VARIANTS; v++) {
			double rows;

			if (IS_AMONG(unbounded, name) || (p->unindexed && v) ||
			    !differs(&p->outbox->store.sql.stmts[i], v))
				continue;
			rows = explain(p, i, v, "ANALYZE", plan);
			if (rows <= (p->stands_still && IS_AMONG(reading_late, name)
					     ? LATE_BOUND
					     : BOUND))
				continue;
			p->n_failed++;
			print_error("%s, %s: %s reads %.0f rows with values %d\n",
				    p->world, when, name, rows, v);
			if (secure_getenv("WHERRY_PLANS"))
				(void)fputs(plan, stderr);
		}
	}
}

/* With the plans that are kept, and with those that are made now. */
static void try_cached(plans *p)
{
	try_all(p, "planned before");
}

static void try_now(plans *p)
{
	plan_all(p);
	try_all(p, "planned now for any values");
	run(p, "SET plan_cache_mode = force_custom_plan");
	try_all(p, "planned now for these values");
}

/* ---- tables ---- */

static void enter(plans *p, const char *world)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wh_make how = {.extras = WH_PARTITIONS_SHARED | WH_UNIQUE_IDS};

	*p = (plans){.world = world};
	postgres_make(&p->place);
	WHERRY_PASS(wherry_db_open(p->place.url, NULL, &p->db, &err));
	WHERRY_PASS(wh_outbox_make(p->db, &how, "outbox", &err));
	WHERRY_PASS(wherry_outbox_open(p->db, "outbox", &p->outbox, &err));
	p->conn = ((postgres_db *)p->db)->conn;
	run(p,
	    "ALTER TABLE outbox SET (autovacuum_enabled = off); "
	    "ALTER TABLE outbox_exception SET (autovacuum_enabled = off); "
	    "SET statement_timeout = '10s'; SELECT setval(pg_get_serial_sequence('outbox', 'id'), 1000000); "
	    "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, "
	    "clean, unclean, win, suspects) VALUES ('outbox', 0, 'log', 'me', 1, "
	    "now() + interval '1 h', 0, 0, 1, 0)");
}

static void leave(plans *p)
{
	wherry_outbox_close(p->outbox);
	wherry_db_close(p->db);
	postgres_drop(&p->place);
	assert_int_equal(p->n_failed, 0);
}

/* Messages with ids up to MANY, of which half are old enough to purge. */
static void add_many(plans *p)
{
	char sql[400];

	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox(id, message_id, topic, partition_key, payload, created_at) "
		"SELECT i, 'm-' || i, 't', 'k' || i %% 1000, '{}', now() - CASE WHEN i > %d "
		"THEN interval '30 min' ELSE interval '2 h' END FROM generate_series(1, %d) AS i",
		MANY / 2, MANY);
	run(p, sql);
}

static void deliver_many(plans *p)
{
	char sql[100];

	(void)snprintf(
		sql, sizeof(sql),
		"UPDATE outbox_progress SET high = %d, seen = pg_current_snapshot()",
		MANY);
	run(p, sql);
}

/* A few messages of each state that is not done, behind the many; failures are due. */
static void add_few(plans *p)
{
	char sql[600];

	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox(id, message_id, topic, partition_key, payload) "
		"SELECT %d + i, 'm-' || %d + i, 't', 'k' || i %% 7, '{}' "
		"FROM generate_series(1, %d) AS i; "
		"INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at, claim_token) "
		"SELECT 'relay', %d + i, s, s, now() - interval '1 h', 'gone' "
		"FROM (SELECT i, (ARRAY[0, 1, 2, 3, 4])[1 + (i - 1) / %d] AS s FROM generate_series(1, %d) AS i) AS x",
		MANY, MANY, 6 * FEW, MANY, FEW, 5 * FEW);
	run(p, sql);
	(void)snprintf(
		sql, sizeof(sql),
		"UPDATE outbox_progress SET high = %d, seen = pg_current_snapshot() "
		"WHERE high = %d",
		MANY + 5 * FEW, MANY);
	run(p, sql);
}

/* ---- tests ---- */

WHERRY_TEST(statistics_of_an_empty_table_make_no_statement_read_what_is_done)
{
	static plans p;

	enter(&p, "statistics of an empty table");
	run(&p, "VACUUM ANALYZE outbox");
	run(&p, "VACUUM ANALYZE outbox_exception");
	plan_all(&p);
	add_many(&p);
	deliver_many(&p);
	add_few(&p);
	try_cached(&p);
	try_now(&p);
	leave(&p);
}

WHERRY_TEST(statistics_of_a_backlog_make_no_statement_read_what_is_done)
{
	static plans p;

	enter(&p, "statistics of a backlog");
	add_many(&p);
	run(&p, "VACUUM ANALYZE outbox");
	plan_all(&p);
	deliver_many(&p);
	add_few(&p);
	try_cached(&p);
	try_now(&p);
	run(&p, "VACUUM ANALYZE outbox");
	run(&p, "VACUUM ANALYZE outbox_exception");
	p.world = "statistics that are right";
	try_now(&p);
	p.world = "message ids in no index";
	run(&p, "DROP INDEX outbox_message_id");
	p.unindexed = true;
	try_now(&p);
	leave(&p);
}

WHERRY_TEST(statistics_of_a_drained_table_make_no_statement_read_a_backlog)
{
	static plans p;

	enter(&p, "a backlog, statistics of a drained table");
	p.stands_still = true;
	add_few(&p);
	run(&p, "VACUUM ANALYZE outbox");
	run(&p, "DELETE FROM outbox");
	run(&p, "DELETE FROM outbox_exception");
	plan_all(&p);
	add_many(&p);
	add_few(&p);
	try_cached(&p);
	try_now(&p);
	p.world = "a backlog behind a position that moves";
	p.stands_still = false;
	run(&p, "UPDATE outbox_progress SET seen = pg_current_snapshot()");
	try_now(&p);
	p.world = "a backlog of some topics";
	run(&p, "UPDATE outbox_progress SET topics = 't,u.*'");
	try_now(&p);
	leave(&p);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
