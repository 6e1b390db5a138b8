/*
 * A cursor over a log on a model of PostgreSQL, for many schedules; see log_schedule.c.
 *
 * The model is a driver: it runs the statements of the cursor by their names, over rows, and
 * transactions that have numbers once they write.  What a statement sees and what its snapshot
 * says are two things here, as they are where a table was restored.
 *
 *     log_cursor_model_test FIRST..LAST   these seeds alone
 */
#include "log_model.h"

#include "base/error.h"

enum { TEXT_LEN = 400 };

typedef struct snapshot {
	int64_t xmin, xmax;
	int64_t xip[LOG_WRITERS];
	int n;
} snapshot;

/* ---- snapshots ---- */

static snapshot take_snapshot(void)
{
	snapshot s = {.xmin = now.next_tx, .xmax = now.next_tx};

	for (int i = 0; i < LOG_WRITERS; i++) {
		if (!now.open[i] || !now.first[i])
			continue;
		s.xip[s.n++] = now.first[i];
		if (now.first[i] < s.xmin)
			s.xmin = now.first[i];
	}
	return s;
}

static void print_snapshot(const snapshot *s, char out[TEXT_LEN])
{
	int len = snprintf(out, TEXT_LEN, "%" PRId64 ":%" PRId64 ":", s->xmin, s->xmax);

	for (int i = 0; i < s->n; i++)
		len += snprintf(out + len, (size_t)(TEXT_LEN - len), "%s%" PRId64,
				i ? "," : "", s->xip[i]);
}

static snapshot parse_snapshot(const char *text)
{
	snapshot s = {.n = 0};
	char *at;

	s.xmin = strtoll(text, &at, 10);
	s.xmax = strtoll(at + 1, &at, 10);
	while (*at && at[1])
		s.xip[s.n++] = strtoll(at + 1, &at, 10);
	return s;
}

static bool is_running(const snapshot *s, int64_t tx)
{
	for (int i = 0; i < s->n; i++)
		if (s->xip[i] == tx)
			return true;
	return false;
}

static bool sees(const snapshot *s, int64_t tx)
{
	return tx < s->xmin || (tx < s->xmax && !is_running(s, tx));
}

/* ---- the reader's statements ---- */

/* A row that a statement returns. */
typedef struct result {
	int64_t id;
	bool visible, many, restored;
	const char *now;
	const row *of; /* NULL: the first row. */
	char key[16], body[16];
} result;

static int64_t result_int(const wh_row *r, int column)
{
	const result *x = r->handle;
	const int64_t all[] = {x->id, x->id, x->visible, 0, x->many, x->restored};

	return all[column];
}

static wh_view result_bytes(const wh_row *r, int column)
{
	result *x = r->handle;

	if (column == 3)
		return x->now ? wh_view_of(x->now) : (wh_view){NULL, 0};
	if (!x->of)
		return (wh_view){NULL, 0};
	(void)snprintf(x->key, sizeof(x->key), "k%d", x->of->key);
	(void)snprintf(x->body, sizeof(x->body), "%d", x->of->body);
	return wh_view_of(column == 6 ? x->key : column == 7 ? "t" : x->body);
}

static const wh_row_driver result_driver = {.integer = result_int, .bytes = result_bytes};

/* A single row of an integer and a text. */
typedef struct pair {
	int64_t number;
	const char *text;
	bool text_first;
} pair;

static int64_t pair_int(const wh_row *r, int column)
{
	return ((const pair *)r->handle)->number;
}

static wh_view pair_bytes(const wh_row *r, int column)
{
	return wh_view_of(((const pair *)r->handle)->text);
}

static const wh_row_driver pair_driver = {.integer = pair_int, .bytes = pair_bytes};

typedef struct params {
	int64_t high, late, limit;
	bool no_high;
	snapshot seen, until;
	bool has_until;
} params;

static params read_params(const wh_param *all, size_t n)
{
	params p = {.high = 0};

	for (size_t i = 0; i < n; i++) {
		const char *name = all[i].name, *text = all[i].bytes.ptr;

		if (strcmp(name, "high") == 0) {
			p.high = all[i].number;
			p.no_high = all[i].type == WH_NULL;
		} else if (strcmp(name, "late") == 0) {
			p.late = all[i].number;
		} else if (strcmp(name, "limit") == 0) {
			p.limit = all[i].number;
		} else if (strcmp(name, "seen") == 0) {
			p.seen = parse_snapshot(text);
		} else if (text) {
			p.until = parse_snapshot(text);
			p.has_until = true;
		}
	}
	return p;
}

static bool is_late(const params *p, const row *r)
{
	bool running = is_running(&p->seen, r->mark) && broken != LOG_NO_XIP,
	     later = r->mark >= p->seen.xmax && broken != LOG_NO_XMAX;

	return r->id <= p->high && r->writer < 0 && (running || later) &&
	       broken != LOG_IDS_ALONE;
}

/* The committed row with the lowest id above `after` that a test takes; NULL: none. */
typedef bool (*row_test)(const params *p, const snapshot *s, const row *r);

static const row *next_row(const params *p, const snapshot *s, int64_t after,
			   row_test test)
{
	const row *out = NULL;

	for (int i = 0; i < now.n; i++) {
		const row *r = &now.rows[i];

		if (r->writer < 0 && r->id > after && (!out || r->id < out->id) &&
		    test(p, s, r))
			out = r;
	}
	return out;
}

static bool late_row(const params *p, const snapshot *s, const row *r)
{
	return is_late(p, r);
}

static bool fresh_row(const params *p, const snapshot *s, const row *r)
{
	return r->id > p->high && (broken != LOG_HORIZON || r->mark < s->xmin);
}

static bool round_row(const params *p, const snapshot *s, const row *r)
{
	return r->id > p->late && r->id <= p->high && !sees(&p->seen, r->mark) &&
	       (sees(&p->until, r->mark) || broken == LOG_NO_ROUND_END);
}

/* Return the first row, then at most `limit` rows of each test. */
static wherry_code give(result *head, const params *p, const snapshot *s,
			const row_test *tests, wh_row_fn visit, void *ctx,
			wherry_error *err)
{
	wh_row out = {&result_driver, head};
	wherry_code code = visit(ctx, &out, err);

	for (; *tests; tests++) {
		const row *r = NULL;

		for (int64_t n = 0; code == WHERRY_OK && n < p->limit; n++) {
			result x = {.many = false};

			r = next_row(p, s, r ? r->id : INT64_MIN, *tests);
			if (!r)
				break;
			x.id = r->id;
			x.of = r;
			x.visible = *tests != fresh_row || sees(s, r->mark);
			out.handle = &x;
			code = visit(ctx, &out, err);
		}
	}
	return code;
}

static wherry_code look(const params *p, wh_row_fn visit, void *ctx, wherry_error *err)
{
	static const row_test both[] = {late_row, fresh_row, NULL}, none[] = {NULL};
	snapshot s = take_snapshot();
	result head = {
		.id = INT64_MIN, .visible = true, .restored = s.xmax < p->seen.xmax};
	char text[TEXT_LEN];
	int64_t n_late = 0;

	for (int i = 0; i < now.n; i++) {
		if (!is_late(p, &now.rows[i]))
			continue;
		n_late++;
		head.restored = head.restored || !sees(&s, now.rows[i].mark);
	}
	print_snapshot(&s, text);
	head.now = text;
	head.many = n_late > p->limit && broken != LOG_NO_ROUND;
	return give(&head, p, &s,
		    !head.many                  ? both
		    : broken == LOG_FRESH_FIRST ? both + 1
						: none,
		    visit, ctx, err);
}

static wherry_code page(const params *p, wh_row_fn visit, void *ctx, wherry_error *err)
{
	static const row_test tests[] = {round_row, NULL};
	snapshot s = take_snapshot();
	result head = {.id = INT64_MIN, .restored = s.xmax < p->until.xmax};

	return give(&head, p, &s, tests, visit, ctx, err);
}

static wherry_code late_start(const params *p, wh_row_fn visit, void *ctx,
			      wherry_error *err)
{
	const row *first = next_row(p, NULL, INT64_MIN, late_row);
	pair x = {.number = first ? first->id - 1 : p->high};
	wh_row out = {&pair_driver, &x};

	return visit(ctx, &out, err);
}

/* It runs in a transaction of its own, whose number is taken after its snapshot. */
static wherry_code renumber(const params *p, wh_row_fn visit, void *ctx,
			    wherry_error *err)
{
	snapshot s = take_snapshot();
	int64_t own = now.next_tx++;
	char text[TEXT_LEN];
	pair x = {.text = text};
	wh_row out = {&pair_driver, &x};

	for (int i = 0; i < now.n; i++) {
		row *r = &now.rows[i];
		bool unread =
			r->id <= p->high && !sees(&p->seen, r->mark) &&
			(!p->has_until || r->id > p->late || !sees(&p->until, r->mark));

		if (r->writer < 0 && (unread || !sees(&s, r->mark)))
			r->mark = unread ? own : 0;
	}
	print_snapshot(&s, text);
	return visit(ctx, &out, err);
}

static wherry_code position_now(const params *p, wh_row_fn visit, void *ctx,
				wherry_error *err)
{
	snapshot s = take_snapshot();
	char text[TEXT_LEN];
	pair x = {.number = p->high, .text = text};
	wh_row out = {&pair_driver, &x};

	for (int i = 0; p->no_high && i < now.n; i++)
		if (now.rows[i].writer < 0 && now.rows[i].id > x.number)
			x.number = now.rows[i].id;
	print_snapshot(&s, text);
	return visit(ctx, &out, err);
}

static wherry_code run(wherry_db *conn, const wh_stmt *stmt, const wh_param *all,
		       size_t n, wh_row_fn visit, void *ctx, int64_t *out_changed,
		       wherry_error *err)
{
	params p = read_params(all, n);

	if (strcmp(stmt->name, "read-log") == 0)
		return look(&p, visit, ctx, err);
	if (strcmp(stmt->name, "late-page") == 0)
		return page(&p, visit, ctx, err);
	if (strcmp(stmt->name, "late-start") == 0)
		return late_start(&p, visit, ctx, err);
	if (strcmp(stmt->name, "renumber") == 0)
		return renumber(&p, visit, ctx, err);
	assert_string_equal(stmt->name, "log-end");
	return position_now(&p, visit, ctx, err);
}

/* ---- the reader's transaction: it renumbers, and nothing else ---- */

static server before;

static wherry_code begin(wherry_db *conn, bool quiet, wherry_error *err)
{
	before = now;
	return WHERRY_OK;
}

static wherry_code commit(wherry_db *conn, wherry_error *err)
{
	return WHERRY_OK;
}

static void rollback(wherry_db *conn)
{
	int64_t next_tx = now.next_tx;

	now = before;
	now.next_tx = next_tx;
}

static bool is_open(wherry_db *conn)
{
	return false;
}

static void forget(wherry_db *conn, const wh_sql *sql)
{
}

static const wh_db_driver driver = {
	.scheme = "postgres",
	.row = &result_driver,
	.transaction = {begin, commit, rollback, is_open},
	.statement = {.run = run, .forget = forget},
};

/* ---- the writers ---- */

static void world_begin(uint64_t seed, wherry_db **out)
{
	model_begin(&(server){.next_tx = 700 + (int64_t)(seed % 5)}, out);
}

static int64_t new_mark(int writer)
{
	if (!now.first[writer])
		now.first[writer] = now.next_tx++;
	return now.first[writer];
}

static void world_lose(const log_rows *rows)
{
	lose_rows(rows);
	now.next_tx++;
}

static void world_change(void)
{
	now.next_tx++; /* tx of the rows stays. */
}

/* The rows and the position stay as they are; the server is another one. */
static bool world_move(wh_position *at, unsigned how)
{
	const int64_t lower = now.next_tx - 3,
		      next[] = {lower < 3 ? 3 : lower, 3, now.next_tx + 5000};

	now.next_tx = next[how];
	return true;
}

static const log_world world = {MODEL_OF_WORLD};

/* ---- the tests ---- */

static void every_message_is_read_once_and_in_order(void **state)
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
		cmocka_unit_test(every_message_is_read_once_and_in_order),
		cmocka_unit_test(every_break_is_noticed),
	};
	const struct CMUnitTest one[] = {tests[0]};

	if (log_take_seeds(argc, argv))
		return cmocka_run_group_tests(one, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
