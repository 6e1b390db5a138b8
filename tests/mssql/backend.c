#include "mssql/backend.h"

#include "db/driver.h"

static const char *url;
static const mssql_word *words;
static wherry_db *aside; /* Connection of the program that knows nothing of Wherry. */

/* FreeTDS keeps some of what it allocates for a connection.  The leak sanitizer asks for this
 * function by its name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(
	void); /* NOLINT(*-reserved-identifier) */

const char *__lsan_default_suppressions(void) /* NOLINT(*-reserved-identifier) */
{
	return "leak:libtdsodbc.so";
}

static void close_aside(void)
{
	wherry_db_close(aside);
	aside = NULL;
}

static wherry_db *open_aside(void)
{
	/* A test may have ended its session. */
	if (aside && wh_db_script(aside, "SET NOCOUNT OFF", NULL) != WHERRY_OK) {
		wherry_db_close(aside);
		aside = mssql_connect(NULL);
	}
	if (!aside) {
		aside = mssql_connect(NULL);
		assert_int_equal(atexit(close_aside), 0);
	}
	return aside;
}

bool mssql_start(const mssql_word *list)
{
	words = list;
	url = getenv("WHERRY_TEST_MSSQL");
	if (url && *url)
		return true;
	(void)printf("1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no "
		     "server\n");
	return false;
}

const char *mssql_url(void)
{
	return url;
}

bool mssql_is_babelfish(void)
{
	char version[400] = "";

	assert_true(mssql_raw(NULL, NULL, "SELECT @@VERSION", version, sizeof(version)));
	return strncmp(version, "Babelfish", 9) == 0;
}

bool mssql_as_owner(void)
{
	static const char sql[] =
		"DO $$ DECLARE p regprocedure; BEGIN FOR p IN SELECT oid FROM pg_proc "
		"WHERE prokind = 'p' AND NOT prosecdef AND (proname LIKE 'consume\\_%' OR proname LIKE '%\\_delivered') LOOP "
		"EXECUTE format('ALTER PROCEDURE %s SECURITY DEFINER', p); END LOOP; END $$";
	const char *at = getenv("WHERRY_TEST_BABELFISH");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	if (!mssql_is_babelfish())
		return true;
	if (!at || !*at)
		return false;
	WHERRY_PASS(wherry_db_open(at, NULL, &db, &err));
	WHERRY_PASS(wh_db_script(db, sql, &err));
	wherry_db_close(db);
	return true;
}

wherry_db *mssql_connect(void *place)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	/* Several programs may make tables at once.  Each waits for the others, for a minute on a busy machine. */
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", "120s", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return db;
}

bool mssql_disconnect(wherry_db *db)
{
	wherry_db_close(db);
	return true;
}

/* A script of this folder. */
static bool run_file(const char *name)
{
	char path[512], sql[4096];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", WHERRY_TEST_MSSQL_FOLDER, name);
	file = fopen(path, "re");
	assert_non_null(file);
	n = fread(sql, 1, sizeof(sql) - 1, file);
	(void)fclose(file);
	sql[n] = 0;
	code = wh_db_script(open_aside(), sql, &err);
	if (code != WHERRY_OK)
		print_error("%s: %s\n", name, err.message);
	return code == WHERRY_OK;
}

bool mssql_make_functions(void)
{
	return run_file("babelfish.sql");
}

void mssql_drop(void *place)
{
	assert_true(run_file("drop.sql"));
}

void *mssql_make(void)
{
	static char place;

	mssql_drop(&place);
	return &place;
}

typedef struct answer {
	char *out;
	size_t cap;
} answer;

static wherry_code take(void *ctx, const wh_row *row, wherry_error *err)
{
	answer *a = ctx;
	const char *text = wh_row_text(row, 0);

	(void)snprintf(a->out, a->cap, "%s", text ? text : "");
	return WHERRY_OK;
}

wherry_code mssql_run(wherry_db *db, const char *sql, char *out, size_t cap,
		      wherry_error *err)
{
	answer a = {out, cap};
	wh_stmt stmt;
	wh_sql all = {.stmts = &stmt, .n = 1};
	wherry_code code;

	if (!out)
		return wh_db_script(db, sql, err);
	code = wh_stmt_make("mssql", "raw", sql, &stmt, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_db_run(db, &stmt, NULL, 0, take, &a, NULL, err);
	wh_db_forget(db, &all);
	wh_stmt_clear(&stmt);
	return code;
}

/* The SQL with each of the words replaced wherever it stands. */
static void translate(const char *sql, wh_buf *out)
{
	const mssql_word *w;

	while (*sql) {
		for (w = words; w && w->text; w++)
			if (strncmp(sql, w->text, strlen(w->text)) == 0)
				break;
		if (w && w->text) {
			wh_buf_puts(out, w->tsql);
			sql += strlen(w->text);
		} else {
			wh_buf_putc(out, *sql++);
		}
	}
}

bool mssql_raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	translate(sql, &text);
	code = mssql_run(open_aside(), wh_buf_str(&text), out, cap, &err);
	if (code != WHERRY_OK)
		print_error("%s\n%s\n", wh_buf_str(&text), err.message);
	wh_buf_clear(&text);
	return code == WHERRY_OK;
}
