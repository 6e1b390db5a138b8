/*
 * A cursor over a log on a model of SQL Server, for many schedules; see log_schedule.c.
 *
 * The model is a driver: it runs the statements of the cursor by their names, over rows with row
 * versions.  Between the two statements of a look, of which one reads the horizon and the other one
 * the rows, writers go on.
 *
 *     log_cursor_versions_model_test FIRST..LAST   these seeds alone
 */
#include "wherry_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/log_schedule.h"

enum { SCHEDULES = 10000, BREAK_SCHEDULES = 2000, ROWS = 1000 };

typedef struct row {
	int64_t id, version;
	int key, body;
	int writer;     /* Its transaction is open; -1: committed. */
	int savepoints; /* It came after so many of its transaction. */
} row;

typedef struct server {
	row rows[ROWS];
	int n;
	int64_t last_id;
	int64_t dbts; /* The last row version. */
	int table;    /* Its identity. */
	bool open[LOG_WRITERS];
	int64_t first
		[LOG_WRITERS]; /* First row version of the open transaction; 0: none. */
	int savepoints[LOG_WRITERS];
} server;

static server now, past;
static log_break broken;
static wherry_db db;

/* MIN_ACTIVE_ROWVERSION() */
static int64_t min_active(void)
{
	int64_t out = now.dbts + 1;

	for (int i = 0; i < LOG_WRITERS; i++)
		if (now.open[i] && now.first[i] && now.first[i] < out)
			out = now.first[i];
	return out;
}

/* ---- the reader's statements ---- */

/* A row that a statement returns. */
typedef struct result {
	int64_t id, at;
	bool restored;
	int table;
	const row *of; /* NULL: the first row. */
	char text[16];
} result;

static int64_t result_int(const wh_row *r, int column)
{
	const result *x = r->handle;
	const int64_t all[] = {x->id, x->at, 1, 0, 0, x->restored};

	return all[column];
}

static wh_view result_bytes(const wh_row *r, int column)
{
	result *x = r->handle;

	if (column == 3 && !x->of)
		(void)snprintf(x->text, sizeof(x->text), "%d", x->table);
	else if (!x->of)
		return (wh_view){NULL, 0};
	else
		(void)snprintf(x->text, sizeof(x->text), column == 6 ? "k%d" : "%d",
			       column == 6 ? x->of->key : x->of->body);
	return wh_view_of(x->text);
}

static const wh_row_driver result_driver = {.integer = result_int, .bytes = result_bytes};

typedef struct params {
	int64_t high, limit;
	bool no_high;
	const char *seen;
} params;

static params read_params(const wh_param *all, size_t n)
{
	params p = {.high = 0};

	for (size_t i = 0; i < n; i++) {
		if (strcmp(all[i].name, "high") == 0) {
			p.high = all[i].number;
			p.no_high = all[i].type == WH_NULL;
		} else if (strcmp(all[i].name, "limit") == 0) {
			p.limit = all[i].number;
		} else {
			p.seen = all[i].bytes.ptr;
		}
	}
	return p;
}

/* The next committed row in the order of versions, or of ids; NULL: none. */
static const row *next_row(const server *s, const params *p, int64_t upto,
			   const row *after)
{
	bool by_id = broken == LOG_BY_ID;
	const row *out = NULL;

	for (int i = 0; i < s->n; i++) {
		const row *r = &s->rows[i];
		bool from = r->version > p->high ||
			    (broken == LOG_LAST_AGAIN && r->version == p->high),
		     later = !after ||
			     (by_id ? r->id > after->id : r->version > after->version),
		     before = !out ||
			      (by_id ? r->id < out->id : r->version < out->version);

		if (r->writer < 0 && from && r->version < upto && later && before)
			out = r;
	}
	return out;
}

static wherry_code look(const params *p, wh_row_fn visit, void *ctx, wherry_error *err)
{
	static server seen; /* By the statement that reads the rows. */
	result x = {.id = INT64_MIN, .at = INT64_MIN};
	wh_row out = {&result_driver, &x};
	const row *r = NULL;
	wherry_code code;
	int64_t upto;

	seen = now;
	if (broken == LOG_LATE_HORIZON)
		log_meanwhile();
	upto = broken == LOG_NO_HORIZON ? now.dbts + 1 : min_active();
	if (broken != LOG_LATE_HORIZON) {
		log_meanwhile();
		seen = now;
	}
	x.table = seen.table;
	x.restored = p->high > 0 && (p->high >= upto || atoi(p->seen) != seen.table) &&
		     broken != LOG_NO_RENUMBER;
	code = visit(ctx, &out, err);
	for (int64_t n = 0; code == WHERRY_OK && n < p->limit; n++) {
		r = next_row(&seen, p, upto, r);
		if (!r)
			break;
		x = (result){.id = r->id, .at = r->version, .of = r};
		code = visit(ctx, &out, err);
	}
	return code;
}

static wherry_code run(wherry_db *conn, const wh_stmt *stmt, const wh_param *all,
		       size_t n, wh_row_fn visit, void *ctx, int64_t *out_changed,
		       wherry_error *err)
{
	params p = read_params(all, n);

	(void)conn;
	(void)out_changed;
	assert_string_equal(stmt->name, "read-log");
	return look(&p, visit, ctx, err);
}

static void forget(wherry_db *conn, const wh_sql *sql)
{
	(void)conn;
	(void)sql;
}

static const wh_db_driver driver = {
	.scheme = "mssql",
	.row = &result_driver,
	.statement = {.run = run, .forget = forget},
};

/* ---- the writers ---- */

static void world_begin(uint64_t seed, wherry_db **out)
{
	now = (server){.dbts = 2000 + (int64_t)(seed % 5), .table = 1};
	db = (wherry_db){.driver = &driver};
	broken = LOG_WHOLE;
	*out = &db;
}

static void world_spoil(const wh_cursor *cursor, log_break what)
{
	(void)cursor;
	broken = what;
}

static void world_start(int writer)
{
	now.open[writer] = true;
	now.first[writer] = 0;
	now.savepoints[writer] = 0;
}

static void drop_rows(int writer, int savepoints)
{
	int n = 0;

	for (int i = 0; i < now.n; i++)
		if (now.rows[i].writer != writer || now.rows[i].savepoints < savepoints)
			now.rows[n++] = now.rows[i];
	now.n = n;
}

static void world_end(int writer, bool commits)
{
	if (!commits)
		drop_rows(writer, 0);
	for (int i = 0; i < now.n; i++)
		if (now.rows[i].writer == writer)
			now.rows[i].writer = -1;
	now.open[writer] = false;
	now.first[writer] = 0;
}

static void world_prepare(int writer, int name)
{
	(void)writer; /* It stays open. */
	(void)name;
}

static void world_savepoint(int writer)
{
	now.savepoints[writer] = 1;
}

static void world_back(int writer)
{
	drop_rows(writer, 1);
}

static int64_t world_next_id(int writer)
{
	(void)writer;
	return ++now.last_id;
}

static bool world_insert(int writer, int64_t id, int key, int body)
{
	bool alone = !now.open[writer];

	for (int i = 0; i < now.n; i++)
		if (now.rows[i].id == id)
			return false;
	assert_true(now.n < ROWS);
	if (alone)
		world_start(writer);
	now.dbts++;
	if (!now.first[writer])
		now.first[writer] = now.dbts;
	now.rows[now.n++] = (row){.id = id,
				  .version = now.dbts,
				  .key = key,
				  .body = body,
				  .writer = writer,
				  .savepoints = now.savepoints[writer]};
	if (alone)
		world_end(writer, true);
	return true;
}

static bool matches(const row *r, const log_rows *rows)
{
	if (rows->which == LOG_ALL_ROWS)
		return true;
	if (rows->which == LOG_ABOVE)
		return r->id > rows->above;
	return r->id % rows->by == rows->remainder;
}

static bool world_has(int body, const log_rows *rows)
{
	for (int i = 0; i < now.n; i++)
		if (now.rows[i].body == body && matches(&now.rows[i], rows))
			return true;
	return false;
}

static void world_lose(const log_rows *rows)
{
	int n = 0;

	for (int i = 0; i < now.n; i++)
		if (!matches(&now.rows[i], rows))
			now.rows[n++] = now.rows[i];
	now.n = n;
}

static void world_change(void)
{
	for (int i = 0; i < now.n; i++)
		if (now.rows[i].writer < 0 && now.rows[i].id % 3 == 1)
			now.rows[i].version = ++now.dbts;
}

static int64_t world_last_id(void)
{
	return now.last_id;
}

static void world_set_last_id(int64_t id)
{
	now.last_id = id;
}

/* The rows are copied into a table of another database, whose row versions are lower, about the
 * same, or higher. */
static bool world_move(wh_position *at, unsigned how)
{
	const int64_t next[] = {0, now.dbts - now.n, now.dbts + 5000};

	(void)at;
	now.dbts = next[how];
	now.table++;
	for (int i = 0; i < now.n; i++)
		now.rows[i].version = ++now.dbts;
	return true;
}

static void world_keep(void)
{
	past = now;
}

static void world_go_back(void)
{
	now = past;
}

static const log_world world = {
	.versions = true,
	.begin = world_begin,
	.spoil = world_spoil,
	.start = world_start,
	.end = world_end,
	.prepare = world_prepare,
	.savepoint = world_savepoint,
	.back = world_back,
	.next_id = world_next_id,
	.insert = world_insert,
	.has = world_has,
	.lose = world_lose,
	.change = world_change,
	.last_id = world_last_id,
	.set_last_id = world_set_last_id,
	.move = world_move,
	.keep = world_keep,
	.go_back = world_go_back,
};

/* ---- the tests ---- */

static uint64_t first_seed = 1, last_seed = SCHEDULES;

static void every_message_is_read_once_for_each_version_and_in_order(void **state)
{
	(void)state;
	log_play_seeds(&world, first_seed, last_seed);
}

static void every_break_is_noticed(void **state)
{
	(void)state;
	assert_int_equal(log_play_breaks(&world, BREAK_SCHEDULES), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_message_is_read_once_for_each_version_and_in_order),
		cmocka_unit_test(every_break_is_noticed),
	};
	const struct CMUnitTest one[] = {tests[0]};

	if (argc > 1) {
		first_seed = strtoull(argv[1], NULL, 10);
		last_seed = strstr(argv[1], "..")
				    ? strtoull(strstr(argv[1], "..") + 2, NULL, 10)
				    : first_seed;
		return cmocka_run_group_tests(one, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
