/*
 * A log on the SQL Server that WHERRY_TEST_MSSQL names, in the words of the suites.
 */
#ifndef WHERRY_TEST_TSQL_LOG_H
#define WHERRY_TEST_TSQL_LOG_H

#include <stddef.h>

/* The bit of a message's partition in a mask; of tests, whose messages have no aggregates. */
/* clang-format off */
#define TSQL_LOG_BIT                                                                              \
	"(SELECT CASE b.n WHEN 63 THEN CAST(-9223372036854775808 AS BIGINT) "            \
	"ELSE POWER(CAST(2 AS BIGINT), b.n % 63) END FROM (SELECT COALESCE(CAST("        \
	"SUBSTRING(HASHBYTES(''SHA2_256'', NULLIF(t.partition_key, N'''')), 1, 1) AS "   \
	"BIGINT), t.id) & 63 AS n) AS b)"

/* SQL that makes a view in which it looks like a native table; see relay_log.h.  Messages are rows t of the table, with a row
 * version; some are done whatever the position is.  An update that changes nothing of a message gives it no new row
 * version. */
#define TSQL_LOG_VIEW(rows, version, finished) \
	"EXEC(N'CREATE VIEW native AS SELECT t.id, t.message_id, t.topic, t.aggregate_type, " \
	"t.aggregate_id, t.partition_key, t.headers, t.trace_id, t.created_at, t.payload, " \
	"CAST(NULL AS DATETIME2(3)) AS processed_at, " \
	"COALESCE(x.state, CASE WHEN " finished " THEN 2 WHEN CONVERT(BIGINT, " version ") > p.high THEN 0 ELSE 2 END) AS status, " \
	"COALESCE(x.attempts, 0) AS attempts, x.next_retry_at, " \
	"CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at, x.claim_token, " \
	"x.last_error FROM outbox_progress AS p JOIN " rows " AS t " \
	"ON p.mask = -1 OR p.mask & " TSQL_LOG_BIT " <> 0 " \
	"LEFT JOIN outbox_exception AS x ON x.id = t.id');" \
	"EXEC(N'CREATE TRIGGER native_update ON native INSTEAD OF UPDATE AS BEGIN SET NOCOUNT ON; " \
	"UPDATE t SET created_at = n.created_at FROM " rows " AS t JOIN inserted AS n ON n.id = t.id " \
	"WHERE t.created_at <> n.created_at; " \
	"UPDATE x SET state = n.status, attempts = n.attempts, next_retry_at = n.next_retry_at, " \
	"changed_at = COALESCE(n.claimed_at, SYSUTCDATETIME()), claim_token = n.claim_token, " \
	"last_error = n.last_error FROM outbox_exception AS x JOIN inserted AS n ON n.id = x.id; " \
	"INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at, changed_at, claim_token, " \
	"last_error) SELECT N''relay'', n.id, n.status, n.attempts, n.next_retry_at, " \
	"COALESCE(n.claimed_at, SYSUTCDATETIME()), n.claim_token, n.last_error FROM inserted AS n " \
	"WHERE NOT EXISTS (SELECT 1 FROM outbox_exception AS x WHERE x.id = n.id); END');" \
	"EXEC(N'CREATE TRIGGER native_insert ON native INSTEAD OF INSERT AS BEGIN SET NOCOUNT ON; " \
	"INSERT INTO " rows "(topic, partition_key, payload) SELECT topic, partition_key, payload FROM inserted; " \
	"INSERT INTO outbox_exception(subscription, id, state, attempts) SELECT N''relay'', " \
	"(SELECT MAX(t.id) FROM " rows " AS t), COALESCE(n.status, 0), COALESCE(n.attempts, 0) FROM inserted AS n; " \
	"END');"
/* clang-format on */

extern const char tsql_log_view[];

/* No tables, views and procedures are left. */
void tsql_log_clear(void);

void tsql_log_translate(const char *sql, char *out, size_t cap);

#endif
