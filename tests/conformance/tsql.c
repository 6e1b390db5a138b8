#include "tsql.h"

#include <ctype.h>
#include <pthread.h>
#include <unistd.h>

#include "base/buf.h"
#include "event_bus.h"
#include "mssql/backend.h"
#include "outbox/outbox.h"
#include "relay/relay.h"

static const wh_db_options patient = {
	.env = &wh_env_system,
	.busy_timeout_us = 30 * WH_SECOND,
};

/* Connecting takes long: a connection is used by one test after the other. */
static wherry_db *idle[8];
static size_t n_idle;
static pid_t idle_of; /* A process that was forked has connections of its own. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static wherry_db *take_idle(void)
{
	wherry_db *db = NULL;

	(void)pthread_mutex_lock(&idle_lock);
	if (n_idle && idle_of == getpid())
		db = idle[--n_idle];
	(void)pthread_mutex_unlock(&idle_lock);
	return db;
}

/* For its next user; false: it is lost. */
static bool prepare(wherry_db *db, const wh_db_options *options)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[64];

	(void)snprintf(sql, sizeof(sql), "SET LOCK_TIMEOUT %lld",
		       (long long)(options->busy_timeout_us / 1000));
	wh_db_limit(db, WH_NEVER);
	db->env = options->env;
	return wh_db_script(db, sql, &err) == WHERRY_OK;
}

wherry_db *tsql_connect_as(const wh_db_options *options)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;

	while ((db = take_idle()) && !prepare(db, options))
		wherry_db_close(db);
	if (!db)
		WHERRY_PASS(wh_db_open(mssql_url(), options, &db, &err));
	return db;
}

wherry_db *tsql_connect(void)
{
	return tsql_connect_as(&patient);
}

void tsql_disconnect(wherry_db *db)
{
	(void)pthread_mutex_lock(&idle_lock);
	if (db && db->driver == &wh_db_mssql && idle_of == getpid() &&
	    n_idle < sizeof(idle) / sizeof(*idle) && !wherry_db_in_transaction(db)) {
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
}

/* Times as milliseconds. */
static const char helpers[] =
	"IF OBJECT_ID(N'dbo.ms_time') IS NULL EXEC(N'CREATE FUNCTION dbo.ms_time(@ms BIGINT) "
	"RETURNS DATETIME2(3) AS BEGIN RETURN DATEADD(MILLISECOND, CAST(@ms % 86400000 AS INT), "
	"DATEADD(DAY, CAST(@ms / 86400000 AS INT), ''19700101'')); END')";

bool tsql_start(void)
{
	idle_of = getpid();
	return mssql_start(NULL) && mssql_make_functions() &&
	       mssql_raw(NULL, NULL, helpers, NULL, 0);
}

void tsql_clear(void)
{
	mssql_drop(NULL);
}

int tsql_relays(const relay_target *target)
{
	int failed;

	if (!tsql_start())
		return 0;
	failed = relay_suite(target, 1);
	tsql_end();
	return failed;
}

void tsql_enter(char *to, size_t cap)
{
	tsql_clear();
	(void)snprintf(to, cap, "%s", mssql_url());
}

/* ---- words ---- */

/* clang-format off */
static const struct {
	const char *said, *meant;
} dialect[] = {
	{"SELECT paused_at IS NOT NULL", "SELECT CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END"},
	{"length(members)", "LEN(members)"},
	{"'gone', 7, 0, 0,", "'gone', 7, '19700101', 0,"},
	{"printf('k%d', i)", "CONCAT(N'k', i)"},
	{"printf('%d', i) || replace(hex(zeroblob(500)), '0', char(1))",
	 "CONCAT(i, REPLICATE(NCHAR(1), 1000))"},
	{"90000000000000 END", "dbo.ms_time(90000000000000) END"},
	{"next_retry_at - claimed_at", "DATEDIFF_BIG(MILLISECOND, claimed_at, next_retry_at)"},
	{"SELECT next_retry_at - (SELECT ms FROM wherry_clock)",
	 "SELECT DATEDIFF_BIG(MILLISECOND, SYSUTCDATETIME(), next_retry_at)"},
	{"SELECT last_error FROM outbox LIMIT 1", "SELECT TOP (1) last_error FROM outbox"},
	{"SELECT last_error FROM native LIMIT 1", "SELECT TOP (1) last_error FROM native"},
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
		if (!depth && (*p == ',' || *p == ';' || strncmp(p, " WHERE ", 7) == 0))
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

void tsql_translate_native(const char *sql, char *out, size_t cap)
{
	char text[8192];

	tsql_translate(sql, text, sizeof(text));
	event_bus_translate(text, out, cap);
}

bool tsql_raw(const char *sql, char *out, size_t cap)
{
	static char text[256 * 1024];

	tsql_translate(sql, text, sizeof(text));
	return mssql_raw(NULL, NULL, text, out, cap);
}

void tsql_pass_over_locked(wherry_relay *relay, const char *hint)
{
	const wh_store *store = relay->store;
	const char *name = store->name.ptr;
	char table[40], view[40], sql[200];

	/* The name of the view is as long as that of the table, whose place it takes. */
	(void)snprintf(view, sizeof(view), "\"%.*s\"", (int)strlen(name),
		       "unlocked_rows");
	(void)snprintf(table, sizeof(table), "\"%s\"", name);
	(void)snprintf(sql, sizeof(sql),
		       "CREATE VIEW %s AS SELECT * FROM %s "
		       "WHERE id NOT IN (SELECT id FROM locked)",
		       view, table);
	assert_true(mssql_raw(NULL, NULL, "CREATE TABLE locked(id BIGINT NOT NULL)", NULL,
			      0));
	assert_true(mssql_raw(NULL, NULL, sql, NULL, 0));
	size_t changed = 0;

	for (size_t i = 0; i < store->sql.n; i++) {
		char *at = NULL, *text = store->sql.stmts[i].text;

		for (char *p = text; p && *p; p++) {
			if (strncmp(p, table, strlen(table)) == 0)
				at = p;
			if (at && strncmp(p, hint, strlen(hint)) == 0) {
				memcpy(at, view, strlen(view));
				changed++;
			}
		}
	}
	assert_true(changed > 0);
}
