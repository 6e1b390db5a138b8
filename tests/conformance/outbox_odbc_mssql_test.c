/*
 * The outbox on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "outbox_suite.h"

#include "mssql/backend.h"
#include "tsql.h"

static void drop(void *place)
{
	(void)place;
	tsql_clear();
}

static void *make(void)
{
	static char place;

	tsql_clear();
	return &place;
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

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	(void)place;
	(void)db;
	return tsql_raw(sql, out, cap);
}

int main(void)
{
	static outbox_backend backend = {
		.name = "mssql",
		.several = true,
		.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS |
			 NEEDS_REFUSAL | NEEDS_BYTES,
		.make = make,
		.drop = drop,
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
