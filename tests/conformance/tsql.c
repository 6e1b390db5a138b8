#include "tsql.h"

#include <ctype.h>
#include <pthread.h>
#include <unistd.h>

#include "base/buf.h"
#include "db/driver.h"

static const char *url;
static wherry_db *own; /* of tsql_raw() */

/* FreeTDS keeps some of what it allocates for a connection.  The leak sanitizer asks for this
 * function by its name; tests/postgres/odbc.c may have it as well. */
__attribute__((visibility("default"), weak)) const char *__lsan_default_suppressions(
	void); /* NOLINT(*-reserved-identifier) */

const char *__lsan_default_suppressions(void) /* NOLINT(*-reserved-identifier) */
{
	return "leak:libtdsodbc.so";
}

const char *tsql_url(void)
{
	return url;
}

static wherry_db *open_db(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", "30s", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return db;
}

/* Connecting takes long: a connection is used by one test after the other. */
static wherry_db *idle[8];
static size_t n_idle;
static pid_t idle_of; /* A process that was forked has connections of its own. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

wherry_db *tsql_connect(void)
{
	wherry_db *db = NULL;

	(void)pthread_mutex_lock(&idle_lock);
	if (n_idle && idle_of == getpid())
		db = idle[--n_idle];
	(void)pthread_mutex_unlock(&idle_lock);
	return db ? db : open_db();
}

void tsql_disconnect(wherry_db *db)
{
	(void)pthread_mutex_lock(&idle_lock);
	if (db && idle_of == getpid() && n_idle < sizeof(idle) / sizeof(*idle) &&
	    !wherry_db_in_transaction(db)) {
		idle[n_idle++] = db;
		db = NULL;
	}
	(void)pthread_mutex_unlock(&idle_lock);
	wherry_db_close(db);
}

void tsql_end(void)
{
	while (n_idle)
		wherry_db_close(idle[--n_idle]);
	wherry_db_close(own);
	own = NULL;
}

typedef struct answer {
	char *out;
	size_t cap;
} answer;

static wherry_code take(void *ctx, const wh_row *row, wherry_error *err)
{
	answer *a = ctx;
	const char *text = wh_row_text(row, 0);

	(void)err;
	if (a->out)
		(void)snprintf(a->out, a->cap, "%s", text ? text : "");
	return WHERRY_OK;
}

static bool run(const char *sql, char *out, size_t cap)
{
	wherry_error err = WHERRY_ERROR_INIT;
	answer a = {out, cap};
	wh_stmt stmt;
	wh_sql all = {NULL, &stmt, 1};
	wherry_code code;

	if (!own)
		own = open_db();
	if (!out) {
		code = wh_db_script(own, sql, &err);
	} else {
		WHERRY_PASS(wh_stmt_make("mssql", "raw", sql, &stmt, &err));
		code = wh_db_run(own, &stmt, NULL, 0, take, &a, NULL, &err);
		wh_db_forget(own, &all);
		wh_stmt_clear(&stmt);
	}
	if (code != WHERRY_OK)
		print_error("%s\n%s\n", err.message, sql);
	return code == WHERRY_OK;
}

/* Times as milliseconds; and on Babelfish, which has row versions but does not say which are still
 * open, the function that does. */
static const char helpers[] =
	"IF OBJECT_ID(N'dbo.ms_time') IS NULL EXEC(N'CREATE FUNCTION dbo.ms_time(@ms BIGINT) "
	"RETURNS DATETIME2(3) AS BEGIN RETURN DATEADD(MILLISECOND, CAST(@ms % 86400000 AS INT), "
	"DATEADD(DAY, CAST(@ms / 86400000 AS INT), ''19700101'')); END'); "
	"IF @@VERSION LIKE 'Babelfish%' AND OBJECT_ID(N'dbo.min_active_rowversion') IS NULL "
	"EXEC(N'CREATE FUNCTION dbo.min_active_rowversion() RETURNS BINARY(8) AS BEGIN RETURN "
	"CONVERT(BINARY(8), CAST(pg_catalog.txid_snapshot_xmin("
	"pg_catalog.txid_current_snapshot()) AS BIGINT)); END')";

bool tsql_start(const char *what)
{
	idle_of = getpid();
	url = getenv("WHERRY_TEST_MSSQL");
	if (url && *url)
		return run(helpers, NULL, 0);
	(void)printf("1..1\nok 1 - %s # SKIP WHERRY_TEST_MSSQL names no server\n", what);
	return false;
}

bool tsql_is_babelfish(void)
{
	char version[400] = "";

	assert_true(run("SELECT @@VERSION", version, sizeof(version)));
	return strncmp(version, "Babelfish", 9) == 0;
}

void tsql_clear(void)
{
	static const char sql[] =
		"DROP VIEW IF EXISTS dbo.seen; DECLARE @sql NVARCHAR(MAX); "
		"SELECT @sql = STRING_AGG(N'DROP TABLE dbo.' + QUOTENAME(t.name), N'; ') FROM "
		"sys.tables AS t JOIN (VALUES (N'outbox'), (N'outbox_archive'), (N'other'), "
		"(N'other_archive'), (N'second'), (N'second_archive'), (N'events'), "
		"(N'events_archive'), (N'business'), (N'audit'), (N'got'), (N'before'), "
		"(N'was'), (N'a'), (N'a_archive'), (N'a_archive_archive'), (N'fresh'), (N'fresh_archive'), (N'wherry_schema'), "
		"(N'wherry_outbox'), (N'wherry_lease'), (N'wherry_clock')) AS n(name) "
		"ON n.name = t.name WHERE t.schema_id = SCHEMA_ID(N'dbo'); EXEC(@sql); "
		"DROP VIEW IF EXISTS dbo.wherry_clock; "
		"DROP PROCEDURE IF EXISTS dbo.wherry_enqueue;";

	assert_true(run(sql, NULL, 0));
}

/* ---- words ---- */

/* clang-format off */
static const struct {
	const char *said, *meant;
} dialect[] = {
	{"SELECT paused_at IS NOT NULL", "SELECT CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END"},
	{"length(members)", "LEN(members)"},
	{"printf('k%d', i)", "CONCAT(N'k', i)"},
	{"printf('%d', i) || replace(hex(zeroblob(500)), '0', char(1))",
	 "CONCAT(i, REPLICATE(NCHAR(1), 1000))"},
	{"90000000000000 END", "dbo.ms_time(90000000000000) END"},
	{"next_retry_at - claimed_at", "DATEDIFF_BIG(MILLISECOND, claimed_at, next_retry_at)"},
	{"SELECT min(next_retry_at) - (SELECT ms FROM wherry_clock) FROM outbox",
	 "SELECT DATEDIFF_BIG(MILLISECOND, SYSUTCDATETIME(), min(next_retry_at)) FROM outbox"},
	{"INSERT INTO audit VALUES (1000, '')",
	 "SET IDENTITY_INSERT audit ON; INSERT INTO audit(id, name) VALUES (1000, ''); "
	 "SET IDENTITY_INSERT audit OFF"},
	{"CREATE TRIGGER before BEFORE INSERT ON outbox BEGIN INSERT INTO audit(name) VALUES ('before'); END",
	 "CREATE TRIGGER first_insert ON outbox AFTER INSERT AS INSERT INTO audit(name) VALUES ('before')"},
	{"CREATE TRIGGER after AFTER INSERT ON outbox BEGIN INSERT INTO audit(name) VALUES (new.message_id); END",
	 "CREATE TRIGGER second_insert ON outbox AFTER INSERT AS INSERT INTO audit(name) SELECT message_id "
	 "FROM inserted"},
	{"CREATE TRIGGER watch_delete AFTER DELETE ON outbox BEGIN INSERT INTO audit VALUES (old.id); END",
	 "CREATE TRIGGER watch_delete ON outbox AFTER DELETE AS INSERT INTO audit SELECT id FROM deleted"},
	{"CREATE TRIGGER watch_update AFTER UPDATE ON outbox BEGIN INSERT INTO audit VALUES (old.id); END",
	 "CREATE TRIGGER watch_update ON outbox AFTER UPDATE AS INSERT INTO audit SELECT id FROM deleted"},
	{"CREATE TRIGGER watch_insert AFTER INSERT ON outbox BEGIN INSERT INTO audit VALUES (new.id); END",
	 "CREATE TRIGGER watch_insert ON outbox AFTER INSERT AS INSERT INTO audit SELECT id FROM inserted"},
	{"CREATE TRIGGER refuse BEFORE UPDATE ON outbox WHEN old.id = 3 BEGIN SELECT RAISE(FAIL, 'not this one'); END",
	 "CREATE TRIGGER refuse ON outbox AFTER UPDATE AS IF EXISTS (SELECT 1 FROM deleted WHERE id = 3) "
	 "THROW 50000, 'not this one', 1"},
	{"INTEGER PRIMARY KEY AUTOINCREMENT, id)", "BIGINT IDENTITY PRIMARY KEY, id BIGINT)"},
	{"audit(id INTEGER PRIMARY KEY,", "audit(id BIGINT IDENTITY PRIMARY KEY,"},
	{"name TEXT)", "name NVARCHAR(100))"},
	{"x'ff00'", "N'ff00'"},
	{"outbox INDEXED BY outbox_busy", "outbox"},
	{"ordering_key = '=k'", "partition_key = 'k'"},
	{"INSERT INTO outbox_archive SELECT * FROM was",
	 "INSERT INTO outbox_archive(id, message_id, topic, aggregate_type, aggregate_id, partition_key, headers, "
	 "trace_id, attempts, created_at, processed_at, generation, last_error, payload) SELECT id, message_id, "
	 "topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, attempts, created_at, processed_at, "
	 "generation, last_error, payload FROM was"},
};

static const char *const times[] = {"created_at", "processed_at", "next_retry_at", "claimed_at", "expires_at",
				    "paused_at", NULL};
/* clang-format on */

static char *replace(char *text, const char *said, const char *meant)
{
	char *at = strstr(text, said), *next = NULL;

	if (!at || asprintf(&next, "%.*s%s%s", (int)(at - text), text, meant,
			    at + strlen(said)) < 0)
		return text;
	free(text);
	return next;
}

/* The end of an expression: a comma outside of parentheses, WHERE, or the end. */
static const char *end_of(const char *p)
{
	for (int depth = 0; *p; p++) {
		depth += (*p == '(') - (*p == ')');
		if (!depth && (*p == ',' || strncmp(p, " WHERE ", 7) == 0))
			break;
	}
	return p;
}

/* "COLUMN = EXPRESSION" at p, in SET: a column of times gets milliseconds. */
static const char *put_time(const char *p, wh_buf *out)
{
	for (size_t i = 0; times[i]; i++) {
		size_t len = strlen(times[i]);
		const char *value, *end;

		if (strncmp(p, times[i], len) != 0 || strncmp(p + len, " = ", 3) != 0)
			continue;
		value = p + len + 3;
		end = end_of(value);
		wh_buf_put(out, p, len + 3);
		if (strncmp(value, times[i], len) == 0 && value[len] == ' ')
			wh_buf_printf(
				out, "DATEADD(MILLISECOND, CAST(0 %.*s AS INT), %s)",
				(int)(end - value - (int)len), value + len, times[i]);
		else if (isdigit((unsigned char)*value) || *value == '(')
			wh_buf_printf(out, "dbo.ms_time(%.*s)", (int)(end - value),
				      value);
		else
			wh_buf_put(out, value, (size_t)(end - value));
		return end;
	}
	return p;
}

static char *set_times(char *text)
{
	wh_buf out = WH_BUF_INIT(256 * 1024);
	const char *p = text;
	bool set = false, begins = false;

	while (*p) {
		const char *next = begins ? put_time(p, &out) : p;

		begins = false;
		if (next != p) {
			p = next;
			continue;
		}
		if (strncmp(p, " SET ", 5) == 0) {
			wh_buf_put(&out, p, 5);
			p += 5;
			set = begins = true;
			continue;
		}
		set = set && strncmp(p, " WHERE ", 7) != 0;
		begins = set && strncmp(p, ", ", 2) == 0;
		wh_buf_put(&out, p, begins ? 2 : 1);
		p += begins ? 2 : 1;
	}
	free(text);
	return wh_buf_take(&out);
}

/* "INSERT … WITH RECURSIVE c(i) AS (…) SELECT …": the common table comes first. */
static char *put_first(char *text)
{
	char *at = strstr(text, "WITH RECURSIVE "), *end = at, *next = NULL;
	int depth = 0;

	if (!at)
		return text;
	end = strstr(at, " AS (") + 4;
	do
		depth += (*end == '(') - (*end == ')');
	while (*end++ && depth);
	if (asprintf(&next, "WITH %.*s %.*s%s OPTION (MAXRECURSION 0)",
		     (int)(end - at - 15), at + 15, (int)(at - text), text, end) < 0)
		return text;
	free(text);
	return next;
}

/* "CREATE TABLE a AS SELECT * FROM b" */
static char *copy_table(char *text)
{
	char name[64], *next = NULL;
	const char *from = strstr(text, " AS SELECT * FROM ");

	if (!from || sscanf(text, "CREATE TABLE %63s", name) != 1)
		return text;
	if (asprintf(&next, "SELECT * INTO \"%s\" FROM %s", name, from + 18) < 0)
		return text;
	free(text);
	return next;
}

/* "DROP INDEX outbox_open": an index is named with its table. */
static char *name_table(char *text)
{
	bool archive = strncmp(text, "DROP INDEX outbox_archive", 25) == 0;
	char *next = NULL;

	if (strncmp(text, "DROP INDEX ", 11) != 0 ||
	    asprintf(&next, "%s ON outbox%s", text, archive ? "_archive" : "") < 0)
		return text;
	free(text);
	return next;
}

/* Ids that are given. */
static char *give_ids(char *text)
{
	char table[64], *next = NULL;

	if (sscanf(text, "INSERT INTO %63[a-z_](id,", table) != 1 ||
	    !strstr(text, "(id, ") || strcmp(table, "outbox_archive") == 0)
		return text;
	if (asprintf(&next, "SET IDENTITY_INSERT %s ON; %s; SET IDENTITY_INSERT %s OFF",
		     table, text, table) < 0)
		return text;
	free(text);
	return next;
}

void tsql_translate(const char *sql, char *out, size_t cap)
{
	char *text = strdup(sql);

	for (size_t i = 0; i < sizeof(dialect) / sizeof(*dialect); i++)
		text = replace(text, dialect[i].said, dialect[i].meant);
	text = name_table(give_ids(copy_table(put_first(set_times(text)))));
	(void)snprintf(out, cap, "%s", text);
	free(text);
}

bool tsql_raw(const char *sql, char *out, size_t cap)
{
	static char text[256 * 1024];

	tsql_translate(sql, text, sizeof(text));
	return run(text, out, cap);
}
