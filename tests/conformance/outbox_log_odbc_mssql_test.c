/*
 * The outbox as a log on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "outbox_suite.h"

#include "mssql/backend.h"
#include "tsql.h"
#include "tsql_log.h"

static void drop(void *place)
{
	(void)place;
	tsql_log_clear();
}

static void *make(void)
{
	static char place;

	tsql_log_clear();
	return &place;
}

/* The tables are there. */
static void note(void *place, const void *recipe)
{
	(void)recipe;
	assert_true(mssql_raw(place, NULL, tsql_log_view, NULL, 0));
}

static wherry_db *connect(void *place)
{
	(void)place;
	return tsql_connect();
}

static bool disconnect(wherry_db *db)
{
	tsql_disconnect(db);
	return true;
}

/* Time passes: no message gets another place, although its owner changes it.  Babelfish gives all rows of a statement one
 * version. */
static void keep_order(const char *sql, char *out, size_t cap)
{
	const char *value = strstr(sql, "created_at = ") + 13,
		   *where = strstr(value, " WHERE ");

	(void)snprintf(
		out, cap,
		"DECLARE @n INT = (SELECT COUNT(*) FROM outbox AS t JOIN outbox_progress AS p "
		"ON CONVERT(BIGINT, t.rv) <= p.high), @id BIGINT = (SELECT MIN(id) FROM outbox); "
		"WHILE @id IS NOT NULL BEGIN UPDATE outbox SET created_at = CASE WHEN %s THEN "
		"%.*s ELSE created_at END WHERE id = @id; SET @id = (SELECT MIN(id) FROM outbox "
		"WHERE id > @id) END; UPDATE outbox_progress SET high = (SELECT MAX(CONVERT(BIGINT, "
		"r.rv)) FROM (SELECT TOP (@n) rv FROM outbox ORDER BY rv) AS r) WHERE @n > 0",
		where ? where + 7 : "1 = 1",
		(int)(where ? where - value : (ptrdiff_t)strlen(value)), value);
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	char text[16384], ordered[20000];

	(void)db;
	if (strstr(sql, "CREATE "))
		return tsql_raw(sql, out, cap);
	tsql_log_translate(sql, text, sizeof(text));
	if (strncmp(sql, "UPDATE outbox SET created_at = ", 31) != 0)
		return mssql_raw(place, NULL, text, out, cap);
	keep_order(text, ordered, sizeof(ordered));
	return mssql_raw(place, NULL, ordered, out, cap);
}

int main(void)
{
	static outbox_backend backend = {
		.name = "log",
		.layout = "log",
		.several = true,
		.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS |
			 NEEDS_REFUSAL | NEEDS_BYTES | NEEDS_MARKS,
		.make = make,
		.drop = drop,
		.note = note,
		.connect = connect,
		.disconnect = disconnect,
		.raw = raw,
	};
	static const outbox_backend *const backends[] = {&backend};
	int failed;

	if (!tsql_start())
		return 0;
	if (mssql_is_babelfish())
		backend.lacks |= NEEDS_ESCAPES;
	failed = outbox_suite_run(backends, 1, NULL, 0);
	tsql_end();
	return failed;
}
