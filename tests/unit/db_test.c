#include "wherry_test.h"

#include <pthread.h>
#include <sys/stat.h>

#include "db/driver.h"

static const char statements[] =
	"-- layout: name=test\n"
	"-- name: put\nINSERT INTO t(a, b) VALUES (:a, :b);\n"
	"-- name: get\nSELECT a, b FROM t ORDER BY a;\n"
	"-- name: count\nSELECT count(*) FROM t;\n"
	"-- name: clear\nDELETE FROM t;\n"
	"-- name: mode\nSELECT journal_mode, (SELECT synchronous FROM pragma_synchronous) "
	"FROM pragma_journal_mode;\n"
	"-- name: wrong\nSELECT nonsense FROM nowhere;\n";

typedef struct fixture {
	wherry_temp temp;
	char url[160];
	wherry_config *config;
	wherry_db *db, *other;
	wh_sql sql;
} fixture;

static int make(void **state)
{
	fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	wherry_temp_make(&f->temp, "test.db");
	(void)snprintf(f->url, sizeof(f->url), "sqlite:%s", f->temp.path);
	return wherry_config_new(&f->config, NULL) == WHERRY_OK &&
			       wherry_config_set(f->config, "db.create", "on", NULL) ==
				       WHERRY_OK &&
			       wherry_db_open(f->url, f->config, &f->db, NULL) ==
				       WHERRY_OK &&
			       wherry_db_open(f->url, f->config, &f->other, NULL) ==
				       WHERRY_OK &&
			       wh_sql_parse(statements, "t", &f->sql, NULL) ==
				       WHERRY_OK &&
			       wh_db_script(f->db, "CREATE TABLE t(a, b)", NULL) ==
				       WHERRY_OK
		       ? 0
		       : -1;
}

static int drop(void **state)
{
	fixture *f = *state;

	wherry_db_close(f->db);
	wherry_db_close(f->other);
	wh_sql_clear(&f->sql);
	wherry_config_free(f->config);
	wherry_temp_clear(&f->temp);
	free(f);
	return 0;
}

static void put(fixture *f, wherry_db *db, int64_t a)
{
	const wh_param params[] = {WH_INT_PARAM("a", a),
				   WH_TEXT_PARAM("b", wh_view_of("x"))};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_run(db, wh_sql_find(&f->sql, "put"), params, 2, NULL, NULL,
			      NULL, &err));
}

static wherry_code take_int(void *ctx, const wh_row *row, wherry_error *err)
{
	*(int64_t *)ctx = wh_row_int(row, 0);
	return WHERRY_OK;
}

static int64_t count(fixture *f, wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wh_db_run(db, wh_sql_find(&f->sql, "count"), NULL, 0, take_int, &n,
			      NULL, &err));
	return n;
}

/* ---- opening ---- */

static void refuse(const char *url, wherry_code code, const char *says)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_FAILS(code, wherry_db_open(url, NULL, &db, &err));
	assert_null(db);
	if (!strstr(err.message, says)) {
		print_error("'%s' does not say '%s'\n", err.message, says);
		fail();
	}
}

WHERRY_TEST(urls_that_cannot_be_say_why)
{
	wherry_error err = WHERRY_ERROR_INIT;

	refuse(NULL, WHERRY_INVALID, "URL");
	refuse("", WHERRY_INVALID, "");
	refuse("shop.db", WHERRY_INVALID, "");
	refuse("sqlite:", WHERRY_INVALID, "sqlite:shop.db");
	refuse("sqlit:shop.db", WHERRY_INVALID, "did you mean 'sqlite:'?");
	refuse("oracle:x", WHERRY_INVALID, "known here: sqlite:");
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_open("sqlite::memory:", NULL, NULL, &err));
	wherry_db_close(NULL);
}

WHERRY_TEST_ON(a_file_that_is_not_there_is_not_made, fixture *f, make, drop)
{
	char url[200];

	(void)snprintf(url, sizeof(url), "sqlite:%s/none.db", f->temp.dir);
	refuse(url, WHERRY_NOTFOUND, "no such file");
	(void)snprintf(url, sizeof(url), "%s/none.db", f->temp.dir);
	assert_int_not_equal(access(url, F_OK), 0);
	(void)snprintf(url, sizeof(url), "sqlite:%s/none/none.db", f->temp.dir);
	refuse(url, WHERRY_NOTFOUND, "none.db");
	(void)snprintf(url, sizeof(url), "sqlite:%s", f->temp.dir);
	refuse(url, WHERRY_NOTFOUND, f->temp.dir);
}

WHERRY_TEST_ON(a_file_that_is_no_database_says_so, fixture *f, make, drop)
{
	char path[160], url[200];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/text", f->temp.dir);
	(void)snprintf(url, sizeof(url), "sqlite:%s", path);
	file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < 200; i++)
		assert_true(fputs("this is no database\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	refuse(url, WHERRY_CORRUPT, path);
}

WHERRY_TEST_ON(both_ways_to_write_an_absolute_path_open_it, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char url[200];

	put(f, f->db, 1);
	(void)snprintf(url, sizeof(url), "sqlite://%s", f->temp.path);
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	assert_int_equal(count(f, db), 1);
	wh_db_forget(db, &f->sql);
	wherry_db_close(db);
}

static wherry_code take_mode(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)snprintf(ctx, 32, "%s %d", wh_row_text(row, 0), (int)wh_row_int(row, 1));
	return WHERRY_OK;
}

WHERRY_TEST_ON(a_file_is_put_into_WAL_with_full_synchronisation, fixture *f, make, drop)
{
	const wh_stmt *mode = wh_sql_find(&f->sql, "mode");
	wherry_error err = WHERRY_ERROR_INIT;
	char seen[32];

	WHERRY_PASS(wh_db_run(f->db, mode, NULL, 0, take_mode, seen, NULL, &err));
	assert_string_equal(seen, "wal 3"); /* EXTRA: FULL, and more without WAL */
	wherry_db_close(f->other);
	f->other = NULL;
	WHERRY_PASS(wherry_config_set(f->config, "db.synchronous", "normal", &err));
	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->other, &err));
	WHERRY_PASS(wh_db_run(f->other, mode, NULL, 0, take_mode, seen, NULL, &err));
	assert_string_equal(seen, "wal 1");
}

/* As someone who may not write there: root may, so become nobody for a while. */
WHERRY_TEST_ON(a_file_that_may_not_be_written_says_so, fixture *f, make, drop)
{
	wh_db_options options = wh_db_options_of(NULL, &wh_env_system);
	wherry_error err = WHERRY_ERROR_INIT;
	bool root = geteuid() == 0;
	wherry_db *db = NULL;

	wherry_db_close(f->other);
	f->other = NULL;
	WHERRY_PASS(wh_db_script(f->db, "PRAGMA journal_mode=DELETE", &err));
	assert_int_equal(chmod(f->temp.path, 0444), 0);
	assert_int_equal(chmod(f->temp.dir, 0555), 0);
	assert_true(!root || seteuid(65534) == 0);

	WHERRY_PASS(wh_db_open(f->url, &options, &db, &err));
	WHERRY_FAILS(WHERRY_READONLY, wherry_db_begin(db, &err));
	assert_non_null(strstr(err.message, f->temp.path));
	WHERRY_FAILS(WHERRY_READONLY, wh_db_script(db, "DELETE FROM t", &err));
	assert_int_equal(count(f, db), 0);
	wh_db_forget(db, &f->sql);
	wherry_db_close(db);
	options.must_write = true;
	WHERRY_FAILS(WHERRY_READONLY, wh_db_open(f->url, &options, &db, &err));

	assert_true(!root || seteuid(0) == 0);
	assert_int_equal(chmod(f->temp.path, 0), 0);
	assert_int_equal(chmod(f->temp.dir, 0755), 0);
	assert_true(!root || seteuid(65534) == 0);
	db = NULL;
	WHERRY_FAILS(WHERRY_DENIED, wh_db_open(f->url, &options, &db, &err));
	assert_null(db);
	assert_true(!root || seteuid(0) == 0);
}

/* ---- transactions ---- */

WHERRY_TEST_ON(what_is_committed_is_seen_by_others_and_the_rest_is_not, fixture *f, make,
	       drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_false(wherry_db_in_transaction(f->db));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_true(wherry_db_in_transaction(f->db));
	put(f, f->db, 1);
	assert_int_equal(count(f, f->other), 0);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_false(wherry_db_in_transaction(f->db));
	assert_int_equal(count(f, f->other), 1);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	put(f, f->db, 2);
	wherry_db_rollback(f->db);
	assert_false(wherry_db_in_transaction(f->db));
	assert_int_equal(count(f, f->db), 1);
}

WHERRY_TEST_ON(transactions_do_not_nest_and_need_a_beginning, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID, wherry_db_commit(f->db, &err));
	wherry_db_rollback(f->db);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_begin(f->db, &err));
	put(f, f->db, 1);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_commit(f->db, &err));
	assert_int_equal(count(f, f->other), 1);
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_begin(NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_db_commit(NULL, &err));
	wherry_db_rollback(NULL);
	wherry_db_interrupt(NULL);
	assert_false(wherry_db_in_transaction(NULL));
}

WHERRY_TEST_ON(closing_rolls_back, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	put(f, f->db, 1);
	wherry_db_close(f->db);
	f->db = NULL;
	assert_int_equal(count(f, f->other), 0);
}

typedef struct work {
	fixture *f;
	int64_t first;
	int deeper; /* works inside this one */
	wherry_code code;
} work;

/* Puts its number, and has works inside put the next ones. */
static wherry_code do_work(void *ctx, wherry_error *err)
{
	work *w = ctx;
	work inner = {w->f, w->first + 1, w->deeper - 1, w->code};

	put(w->f, w->f->db, w->first);
	if (w->deeper && wh_db_transact(w->f->db, do_work, &inner, err) != w->code)
		return WHERRY_IO;
	return w->deeper ? WHERRY_OK : w->code;
}

WHERRY_TEST_ON(work_is_all_or_nothing_also_inside_other_work, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	work good = {f, 1, 3, WHERRY_OK}, bad = {f, 10, 1, WHERRY_TIMEOUT},
	     alone = {f, 20, 0, WHERRY_TIMEOUT};

	WHERRY_PASS(wh_db_transact(f->db, do_work, &good, &err));
	assert_int_equal(count(f, f->other), 4);
	/* the inner one fails, the outer one goes on */
	WHERRY_PASS(wh_db_transact(f->db, do_work, &bad, &err));
	assert_int_equal(count(f, f->other), 5);
	WHERRY_FAILS(WHERRY_TIMEOUT, wh_db_transact(f->db, do_work, &alone, &err));
	assert_int_equal(count(f, f->other), 5);
	/* in a transaction of the caller's */
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	put(f, f->db, 30);
	WHERRY_FAILS(WHERRY_TIMEOUT, wh_db_transact(f->db, do_work, &alone, &err));
	assert_true(wherry_db_in_transaction(f->db));
	WHERRY_PASS(wh_db_transact(f->db, do_work, &good, &err));
	assert_int_equal(count(f, f->other), 5);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_int_equal(count(f, f->other), 10);
	assert_false(wherry_db_in_transaction(f->db));
}

WHERRY_TEST_ON(who_waits_longer_than_the_time_out_is_told_busy, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *hasty = NULL;
	int64_t began;

	WHERRY_PASS(wherry_config_set(f->config, "db.busy_timeout", "100ms", &err));
	WHERRY_PASS(wherry_db_open(f->url, f->config, &hasty, &err));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	began = wh_monotonic(&wh_env_system);
	WHERRY_FAILS(WHERRY_BUSY, wherry_db_begin(hasty, &err));
	assert_true(wh_monotonic(&wh_env_system) - began >= 99000);
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_RETRY);
	assert_false(wherry_db_in_transaction(hasty));
	wherry_db_rollback(f->db);
	WHERRY_PASS(wherry_db_begin(hasty, &err));
	wherry_db_close(hasty);
}

static void *commit_later(void *ctx)
{
	wh_sleep(&wh_env_system, 50000);
	if (wherry_db_commit(ctx, NULL) != WHERRY_OK)
		print_error("no commit\n");
	return NULL;
}

WHERRY_TEST_ON(who_waits_gets_its_turn, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t thread;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	put(f, f->db, 1);
	assert_int_equal(pthread_create(&thread, NULL, commit_later, f->db), 0);
	WHERRY_PASS(wherry_db_begin(f->other, &err));
	assert_int_equal(pthread_join(thread, NULL), 0);
	put(f, f->other, 2);
	WHERRY_PASS(wherry_db_commit(f->other, &err));
	assert_int_equal(count(f, f->db), 2);
}

/* ---- statements ---- */

typedef struct pair {
	wh_type type;
	wh_view b;
	int n;
} pair;

static wherry_code compare(void *ctx, const wh_row *row, wherry_error *err)
{
	pair *p = ctx;
	wh_view seen = wh_row_bytes(row, 1);

	p->n++;
	assert_true(wh_view_eq(seen, p->b));
	if (seen.ptr)
		assert_int_equal(seen.ptr[seen.len], 0);
	return WHERRY_OK;
}

WHERRY_TEST_ON(parameters_of_every_type_come_back, fixture *f, make, drop)
{
	static const pair rows[] = {
		{WH_TEXT, {"text", 4}, 0},      {WH_TEXT, {"", 0}, 0},
		{WH_TEXT, {NULL, 0}, 0},        {WH_BLOB, {"a\0b\xff", 4}, 0},
		{WH_BLOB, {"", 0}, 0},          {WH_BLOB, {NULL, 0}, 0},
		{WH_TEXT, {"cut short", 3}, 0},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t changed = -7;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		pair seen = rows[i];
		const wh_param params[] = {WH_INT_PARAM("a", INT64_MIN + (int64_t)i),
					   wh_bytes_param("b", rows[i].type, rows[i].b),
					   WH_INT_PARAM("not_in_the_statement", 1)};

		WHERRY_PASS(wh_db_run(f->db, wh_sql_find(&f->sql, "put"), params, 3, NULL,
				      NULL, &changed, &err));
		assert_int_equal(changed, 1);
		WHERRY_PASS(wh_db_run(f->db, wh_sql_find(&f->sql, "get"), NULL, 0,
				      compare, &seen, &changed, &err));
		assert_int_equal(changed, 0);
		assert_int_equal(seen.n, 1);
		WHERRY_PASS(wh_db_run(f->db, wh_sql_find(&f->sql, "clear"), NULL, 0, NULL,
				      NULL, NULL, &err));
	}
}

WHERRY_TEST_ON(the_rows_changed_are_counted, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t changed = -7;

	WHERRY_PASS(wh_db_run(f->db, wh_sql_find(&f->sql, "clear"), NULL, 0, NULL, NULL,
			      &changed, &err));
	assert_int_equal(changed, 0);
	for (int i = 0; i < 5; i++)
		put(f, f->db, i);
	WHERRY_PASS(wh_db_run(f->db, wh_sql_find(&f->sql, "clear"), NULL, 0, NULL, NULL,
			      &changed, &err));
	assert_int_equal(changed, 5);
}

static wherry_code stop(void *ctx, const wh_row *row, wherry_error *err)
{
	++*(int *)ctx;
	return wh_fail(err, WHERRY_TIMEOUT, "enough");
}

WHERRY_TEST_ON(a_visitor_s_code_ends_the_statement, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t changed = -7;
	int n = 0;

	put(f, f->db, 1);
	put(f, f->db, 2);
	WHERRY_FAILS(WHERRY_TIMEOUT, wh_db_run(f->db, wh_sql_find(&f->sql, "get"), NULL,
					       0, stop, &n, &changed, &err));
	assert_int_equal(n, 1);
	assert_int_equal(changed, -7);
	assert_string_equal(err.message, "enough");
	put(f, f->db, 3); /* it no longer reads */
	assert_int_equal(count(f, f->db), 3);
}

WHERRY_TEST_ON(a_statement_that_is_wrong_says_so, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_NOTFOUND, wh_db_run(f->db, wh_sql_find(&f->sql, "wrong"),
						NULL, 0, NULL, NULL, NULL, &err));
	assert_non_null(strstr(err.message, "nowhere"));
	assert_int_not_equal(err.native, 0);
	WHERRY_FAILS(WHERRY_INVALID, wh_db_script(f->db, "SELEKT 1", &err));
}

WHERRY_TEST_ON(statements_are_forgotten_before_they_are_freed, fixture *f, make, drop)
{
	for (int i = 0; i < 3; i++) {
		put(f, f->db, i);
		assert_int_equal(count(f, f->db), i + 1);
		wh_db_forget(f->db, &f->sql);
		wh_db_forget(f->other, &f->sql);
		wh_sql_clear(&f->sql);
		assert_int_equal(wh_sql_parse(statements, "t", &f->sql, NULL), WHERRY_OK);
	}
}

static void refuses(const wh_db_driver *driver, const char *message)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID, wh_db_driver_check(driver, &err));
	assert_string_equal(err.message, message);
}

WHERRY_TEST(a_driver_that_lacks_a_function_is_refused)
{
	static const wh_db_driver *const all[] = {
		&wh_db_sqlite,
#ifdef WHERRY_POSTGRES
		&wh_db_postgres,
#endif
	};
	wh_row_driver rows = *wh_db_sqlite.row;
	wh_db_driver d = wh_db_sqlite;
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		WHERRY_PASS(wh_db_driver_check(all[i], &err));
	d.commits.version = NULL;
	WHERRY_PASS(wh_db_driver_check(&d, &err));
	d.commits.changed = NULL;
	refuses(&d, "the database driver 'sqlite:' lacks commits.changed");
	d = wh_db_sqlite;
	d.file.old_log = NULL; /* what is replaced may leave a log */
	refuses(&d, "the database driver 'sqlite:' lacks file.old_log");
	d.file.replaced = NULL;
	WHERRY_PASS(wh_db_driver_check(&d, &err));
	d.meanwhile = true; /* a driver that waits lets its wait be limited */
	refuses(&d, "the database driver 'sqlite:' lacks connection.limit");
	d = wh_db_sqlite;
	rows.bytes = NULL;
	d.row = &rows;
	refuses(&d, "the database driver 'sqlite:' lacks row.bytes");
	d.row = NULL;
	refuses(&d, "the database driver 'sqlite:' lacks row.integer");
	d.scheme = NULL;
	refuses(&d, "a database driver has no scheme");
}

WHERRY_TEST_MAIN
