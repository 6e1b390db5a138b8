#include "tsql_log.h"

#include "mssql/backend.h"
#include "relay_log.h"
#include "tsql.h"

const char tsql_log_view[] = TSQL_LOG_VIEW("outbox", "t.rv", "0 = 1");

void tsql_log_clear(void)
{
	assert_true(mssql_raw(
		NULL, NULL,
		"IF OBJECT_ID(N'native_update', N'TR') IS NOT NULL DROP TRIGGER native_update; "
		"IF OBJECT_ID(N'native_insert', N'TR') IS NOT NULL DROP TRIGGER native_insert; "
		"DROP VIEW IF EXISTS native",
		NULL, 0));
	tsql_clear();
}

/* Positions, which are row versions, as the ids of tests. */
void tsql_log_translate(const char *sql, char *out, size_t cap)
{
	char text[8192];

	if (strcmp(sql, "SELECT high FROM outbox_progress") == 0) {
		(void)snprintf(
			out, cap,
			"SELECT COUNT(*) FROM outbox AS t JOIN outbox_progress AS p "
			"ON CONVERT(BIGINT, t.rv) <= p.high");
		return;
	}
	if (strcmp(sql, "UPDATE outbox_progress SET high = 1") == 0) {
		(void)snprintf(
			out, cap,
			"UPDATE outbox_progress SET high = (SELECT CONVERT(BIGINT, rv) "
			"FROM outbox WHERE id = 1)");
		return;
	}
	/* On SQL Server a view takes its triggers along. */
	if (strncmp(sql, "DROP TABLE outbox", 17) == 0) {
		(void)snprintf(
			out, cap,
			"DROP TRIGGER native_update; DROP TRIGGER native_insert; DROP VIEW native; %s",
			sql);
		return;
	}
	relay_log_translate(sql, text, sizeof(text));
	tsql_translate(text, out, cap);
}
