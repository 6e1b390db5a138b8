#include "wherry_test.h"

#include "cron/groups.h"
#include "delayed/groups.h"
#include "inbox/groups.h"
#include "outbox/groups.h"
#include "queue/groups.h"

static const char *const layouts[] = {
	"native", "log", "event-bus", "eventferry", "debezium", "nservicebus", "funfix"};

static void parse(const wh_sql_file *file, const char *text, wh_sql *out)
{
	const wh_sql_names names = {.dialect = file->dialect,
				    .table = "shop",
				    .payload = "bytea",
				    .role = "clerk"};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_sql_parse_as(text, &names, out, &err));
}

static bool is_layout(const wh_sql_file *file)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (strcmp(file->layout, layouts[i]) == 0)
			return true;
	return false;
}

static const wh_group *groups_of(const char *model)
{
	if (strcmp(model, "inbox") == 0)
		return wh_inbox_groups;
	if (strcmp(model, "cron") == 0)
		return wh_cron_groups;
	if (strcmp(model, "delayed") == 0)
		return wh_delayed_groups;
	return strcmp(model, "queue") == 0 ? wh_queue_groups : wh_outbox_groups;
}

static wherry_code bind(const wh_sql *sql, const wh_group *groups, wherry_error *err)
{
	wh_store_stmts stmts;
	union {
		wh_outbox_stmts outbox;
		wh_queue_stmts queue;
		wh_inbox_stmts inbox;
		wh_delayed_stmts delayed;
		wh_cron_stmts cron;
	} own;
	wherry_code code = wh_groups_check(sql, wh_store_groups, groups, err);

	if (code == WHERRY_OK)
		code = wh_groups_bind(sql, wh_store_groups, &stmts, err);
	if (code == WHERRY_OK)
		code = wh_groups_bind(sql, groups, &own, err);
	return code;
}

WHERRY_TEST(every_layout_has_whole_groups_and_uses_what_it_is_given)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int n = 0;

	for (const wh_sql_file *f = wh_sql_files; f->model; f++) {
		wh_sql sql = {0};

		if (!is_layout(f))
			continue;
		parse(f, f->text, &sql);
		if (bind(&sql, groups_of(f->model), &err) != WHERRY_OK)
			fail_msg("%s.%s: %s", f->layout, f->dialect, err.message);
		wh_sql_clear(&sql);
		n++;
	}
	assert_true(n >= 2);
}

/* Texts of procedures have the names of the tables many times. */
WHERRY_TEST(every_layout_takes_the_longest_names)
{
	char name[64] = ""; /* Each byte is written several times. */

	memset(name, '\'', 32);
	memset(name + 32, '"', 31);
	for (const wh_sql_file *f = wh_sql_files; f->model; f++) {
		const wh_sql_names names = {.dialect = f->dialect,
					    .schema = name,
					    .table = name,
					    .payload = "bytea",
					    .role = name,
					    .topic = name,
					    .kind = name};
		wherry_error err = WHERRY_ERROR_INIT;
		wh_sql sql = {0};

		if (wh_sql_parse_as(f->text, &names, &sql, &err) != WHERRY_OK)
			fail_msg("%s.%s: %s", f->layout, f->dialect, err.message);
		wh_sql_clear(&sql);
	}
}

/* A copy of the file of a layout on SQLite with one text in place of another. */
static char *changed(const char *layout, const char *old, const char *new)
{
	const char *text = wh_sql_embedded("outbox", layout, "sqlite");
	const char *at = strstr(text, old);
	wh_buf out = WH_BUF_INIT(1 << 20);

	assert_non_null(at);
	wh_buf_put(&out, text, (size_t)(at - text));
	wh_buf_puts(&out, new);
	wh_buf_puts(&out, at + strlen(old));
	return wh_buf_take(&out);
}

static void is_refused(const char *layout, const char *old, const char *new,
		       const char *says)
{
	const wh_sql_file file = {"outbox", layout, "sqlite", NULL};
	char *text = changed(layout, old, new);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {0};

	parse(&file, text, &sql);
	WHERRY_FAILS(WHERRY_INVALID, bind(&sql, wh_outbox_groups, &err));
	if (!strstr(err.message, says))
		fail_msg("'%s' does not say '%s'", err.message, says);
	wh_sql_clear(&sql);
	free(text);
}

WHERRY_TEST(a_difference_is_named_when_a_file_is_loaded)
{
	is_refused("log", "-- name: renew\n", "-- part: renew\n",
		   "the group 'lease' is there without its statement 'renew'");
	is_refused("log", "-- name: renew\n", "-- name: renewed\n",
		   "the statement 'renewed' is of no group");
	is_refused("event-bus", "LIMIT :limit", "LIMIT :limes", "uses :limes");
	is_refused("event-bus", "last_error = :error, expire", "last_error = 'x', expire",
		   "statement 'fail' is given :error");
	is_refused("event-bus", "-- name: claim-end\n",
		   "-- name: claim-end\n-- unused: scan\n",
		   "statement 'claim-end' lists :scan as unused, which is optional");
	is_refused("event-bus", "-- unused: aggregate_id ",
		   "-- unused: error aggregate_id ", "which its file lists as unused");
}

enum { MOST_FILES = 64 };

/* The files of all layouts, read. */
typedef struct layout_files {
	wh_sql sql[MOST_FILES];
	const wh_group *groups[MOST_FILES];
	int n;
	bool whole; /* With those of SQL Server, which a build may leave out. */
} layout_files;

static int read_layouts(void **state)
{
	layout_files *all = calloc(1, sizeof(*all));

	assert_non_null(all);
	for (const wh_sql_file *f = wh_sql_files; f->model; f++) {
		if (!is_layout(f))
			continue;
		assert_true(all->n < MOST_FILES);
		parse(f, f->text, &all->sql[all->n]);
		all->whole = all->whole || strcmp(f->dialect, "mssql") == 0;
		all->groups[all->n++] = groups_of(f->model);
	}
	*state = all;
	return 0;
}

static int clear_layouts(void **state)
{
	layout_files *all = *state;

	for (int i = 0; i < all->n; i++)
		wh_sql_clear(&all->sql[i]);
	free(all);
	return 0;
}

/* Files whose statement of that name leaves the value out, or uses it. */
static void count_uses(const layout_files *all, const wh_group *groups,
		       const char *statement, const char *value, int uses[2])
{
	for (int i = 0; i < all->n; i++) {
		const wh_stmt *stmt = wh_sql_find(&all->sql[i], statement);
		bool used = false;

		if (!stmt || (groups != wh_store_groups && groups != all->groups[i]))
			continue;
		for (int k = 0; k < stmt->n_params; k++)
			used = used || strcmp(stmt->params[k], value) == 0;
		uses[used]++;
	}
}

/* A value that the table of tests/sim uses alone, whose rows have tokens. */
static bool is_of_simulator(const char *statement, const char *value)
{
	return strcmp(statement, "done-mark") == 0 && strcmp(value, "token") == 0;
}

static void check_uses(const layout_files *all, const wh_group *groups,
		       const wh_stmt_spec *spec)
{
	char given[512], *rest = NULL;

	assert_true(strlen(spec->given) < sizeof(given));
	(void)snprintf(given, sizeof(given), "%s", spec->given);
	for (char *w = strtok_r(given, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		bool optional = w[strlen(w) - 1] == '?';
		int uses[2] = {0, 0};

		if (optional)
			w[strlen(w) - 1] = '\0';
		count_uses(all, groups, spec->name, w, uses);
		/* A layout of SQL Server may use it. */
		if (uses[0] && !uses[1] && (all->whole || !optional) &&
		    !is_of_simulator(spec->name, w))
			fail_msg("'%s' is given :%s, which no layout uses", spec->name,
				 w);
		if (all->whole && optional && uses[1] && !uses[0])
			fail_msg("'%s' is given :%s, optional, and every layout uses it",
				 spec->name, w);
	}
}

static void check_all_uses(const layout_files *all, const wh_group *groups)
{
	for (const wh_group *g = groups; g->name; g++)
		for (size_t i = 0; i < g->n; i++)
			check_uses(all, groups, &g->specs[i]);
}

WHERRY_TEST_WITH(every_value_is_used_by_some_layout_and_optional_ones_not_by_all,
		 read_layouts, clear_layouts)
{
	check_all_uses(*state, wh_store_groups);
	check_all_uses(*state, wh_outbox_groups);
	check_all_uses(*state, wh_queue_groups);
	check_all_uses(*state, wh_delayed_groups);
	check_all_uses(*state, wh_inbox_groups);
	check_all_uses(*state, wh_cron_groups);
}

WHERRY_TEST_MAIN
