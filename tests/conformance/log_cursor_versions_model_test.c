/*
 * A cursor over a log on a model of SQL Server, for many schedules; see log_schedule.c.
 *
 * The model is a driver: it runs the statements of the cursor by their names, over rows with row
 * versions.  Between the two statements of a look, of which one reads the horizon and the other one
 * the rows, writers go on.
 *
 *     log_cursor_versions_model_test FIRST..LAST   these seeds alone
 */
#include "log_model.h"

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
		bool from = r->mark > p->high ||
			    (broken == LOG_LAST_AGAIN && r->mark == p->high),
		     later = !after ||
			     (by_id ? r->id > after->id : r->mark > after->mark),
		     before = !out || (by_id ? r->id < out->id : r->mark < out->mark);

		if (r->writer < 0 && from && r->mark < upto && later && before)
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
		x = (result){.id = r->id, .at = r->mark, .of = r};
		code = visit(ctx, &out, err);
	}
	return code;
}

static wherry_code run(wherry_db *conn, const wh_stmt *stmt, const wh_param *all,
		       size_t n, wh_row_fn visit, void *ctx, int64_t *out_changed,
		       wherry_error *err)
{
	params p = read_params(all, n);

	assert_string_equal(stmt->name, "read-log");
	return look(&p, visit, ctx, err);
}

static void forget(wherry_db *conn, const wh_sql *sql)
{
}

static const wh_db_driver driver = {
	.scheme = "mssql",
	.row = &result_driver,
	.statement = {.run = run, .forget = forget},
};

/* ---- the writers ---- */

static void world_begin(uint64_t seed, wherry_db **out)
{
	model_begin(&(server){.dbts = 2000 + (int64_t)(seed % 5), .table = 1}, out);
}

static int64_t new_mark(int writer)
{
	now.dbts++;
	if (!now.first[writer])
		now.first[writer] = now.dbts;
	return now.dbts;
}

static void world_lose(const log_rows *rows)
{
	lose_rows(rows);
}

static void world_change(void)
{
	for (int i = 0; i < now.n; i++)
		if (now.rows[i].writer < 0 && now.rows[i].id % 3 == 1)
			now.rows[i].mark = ++now.dbts;
}

/* The rows are copied into a table of another database, whose row versions are lower, about the
 * same, or higher. */
static bool world_move(wh_position *at, unsigned how)
{
	const int64_t next[] = {0, now.dbts - now.n, now.dbts + 5000};

	now.dbts = next[how];
	now.table++;
	for (int i = 0; i < now.n; i++)
		now.rows[i].mark = ++now.dbts;
	return true;
}

static const log_world world = {.versions = true, MODEL_OF_WORLD};

/* ---- the tests ---- */

static void every_message_is_read_once_for_each_version_and_in_order(void **state)
{
	log_play_seeds(&world, SCHEDULES);
}

static void every_break_is_noticed(void **state)
{
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

	if (log_take_seeds(argc, argv))
		return cmocka_run_group_tests(one, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
