/*
 * The outbox in the table of eventferry on SQL Server: what every outbox promises of claims, and what the
 * library's producers and relays see of it.
 */
#include "event_bus.h"
#include "outbox_claims.h"

#include "db/driver.h"
#include "outbox/outbox.h"
#include "mssql/backend.h"
#include "tsql.h"

/* What the library's migration creates, for a table named "outbox". */
static const char tables[] =
	"CREATE TABLE outbox(id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_outbox PRIMARY KEY "
	"CLUSTERED, message_id NVARCHAR(64) NOT NULL CONSTRAINT UQ_outbox_message_id UNIQUE, "
	"topic NVARCHAR(256) NOT NULL, aggregate_type NVARCHAR(128) NOT NULL, aggregate_id "
	"NVARCHAR(128) NOT NULL, [key] NVARCHAR(256) NULL, payload NVARCHAR(MAX) NOT NULL "
	"CONSTRAINT CK_outbox_payload_json CHECK (ISJSON(payload) = 1), headers NVARCHAR(MAX) "
	"NOT NULL DEFAULT '{}' CONSTRAINT CK_outbox_headers_json CHECK (ISJSON(headers) = 1), "
	"trace_id NVARCHAR(64) NULL, status TINYINT NOT NULL DEFAULT 0, attempts INT NOT NULL "
	"DEFAULT 0, next_retry_at DATETIME2(3) NULL, claimed_at DATETIME2(3) NULL, created_at "
	"DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(), processed_at DATETIME2(3) NULL, "
	"CONSTRAINT CK_outbox_claimed_at CHECK (status <> 1 OR claimed_at IS NOT NULL)); "
	"CREATE INDEX IX_outbox_agg_id_id ON outbox(aggregate_id, id) INCLUDE (status); "
	"CREATE INDEX IX_outbox_claim_ready ON outbox(status, next_retry_at, id) INCLUDE "
	"(aggregate_id, claimed_at) WHERE status IN (0, 1, 3); "
	"CREATE INDEX IX_outbox_done_processed_at ON outbox(processed_at, id) WHERE status = "
	"2;";

/* A view with the columns of the native table, and wherry_clock.  A claim lasts a minute, as those of
 * the suites do. */
static const char *const views[] = {
	"IF OBJECT_ID(N'wherry_clock', N'V') IS NULL EXEC(N'CREATE VIEW wherry_clock(ms) AS "
	"SELECT DATEDIFF_BIG(MILLISECOND, ''19700101'', SYSUTCDATETIME())')",
	"CREATE VIEW native AS SELECT id, message_id, topic, aggregate_type, aggregate_id, "
	"[key] AS partition_key, headers, trace_id, status, attempts, claimed_at, "
	"CONVERT(NVARCHAR(30), claimed_at, 121) AS claim_token, CASE WHEN status = 1 THEN "
	"DATEADD(MINUTE, 1, claimed_at) ELSE next_retry_at END AS next_retry_at, created_at, "
	"processed_at, CAST(NULL AS NVARCHAR(100)) AS last_error, payload "
	"FROM outbox",
	"CREATE VIEW outbox_archive AS SELECT * FROM native WHERE 1 = 0",
	"CREATE TRIGGER native_update ON native INSTEAD OF UPDATE AS BEGIN SET NOCOUNT ON; "
	"UPDATE t SET status = n.status, attempts = n.attempts, next_retry_at = CASE WHEN "
	"n.status = 3 THEN n.next_retry_at END, claimed_at = CASE "
	"WHEN n.status = 1 AND (n.next_retry_at <> o.next_retry_at OR o.next_retry_at IS NULL "
	"AND n.next_retry_at IS NOT NULL) THEN CASE WHEN n.next_retry_at >= '1980-01-01' THEN "
	"DATEADD(MINUTE, -1, n.next_retry_at) WHEN o.claimed_at < '1980-01-01' THEN "
	"o.claimed_at ELSE DATEADD(MILLISECOND, CAST(DATEDIFF_BIG(MILLISECOND, '19700101', "
	"n.next_retry_at) AS INT), DATEADD(YEAR, -60, o.claimed_at)) END "
	"WHEN n.claim_token <> o.claim_token THEN DATEADD(MILLISECOND, 1, n.claimed_at) "
	"ELSE n.claimed_at END FROM outbox AS t JOIN inserted AS n ON n.id = t.id JOIN deleted "
	"AS o ON o.id = t.id; END",
	"CREATE TRIGGER native_insert ON native INSTEAD OF INSERT AS BEGIN SET NOCOUNT ON; "
	"INSERT INTO outbox(message_id, topic, aggregate_type, aggregate_id, [key], payload, "
	"status, attempts, next_retry_at, claimed_at) SELECT LOWER(CAST(NEWID() AS "
	"NVARCHAR(36))), topic, N'', COALESCE(partition_key, LOWER(CAST(NEWID() AS "
	"NVARCHAR(36)))), partition_key, COALESCE(NULLIF(payload, N''), N'{}'), "
	"COALESCE(status, 0), COALESCE(attempts, 0), CASE WHEN status = 3 THEN next_retry_at "
	"END, CASE WHEN status = 1 THEN COALESCE(DATEADD(MINUTE, -1, next_retry_at), "
	"'19700101') END FROM inserted; END",
};

static void clear(void)
{
	assert_true(tsql_raw("IF OBJECT_ID(N'native_update', N'TR') IS NOT NULL DROP "
			     "TRIGGER native_update; IF OBJECT_ID(N'native_insert', "
			     "N'TR') IS NOT NULL DROP TRIGGER native_insert; DROP VIEW "
			     "IF EXISTS outbox_archive; DROP VIEW IF EXISTS native",
			     NULL, 0));
	tsql_clear();
}

static void make_table(void)
{
	clear();
	assert_true(tsql_raw(tables, NULL, 0));
}

static void *make(void)
{
	static char place;

	make_table();
	for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++)
		assert_true(tsql_raw(views[i], NULL, 0));
	return &place;
}

static void drop(void *place)
{
	clear();
}

static wherry_db *connect(void *place)
{
	return tsql_connect();
}

static bool disconnect(wherry_db *db)
{
	tsql_disconnect(db);
	return true;
}

/* Numbers come from a table: Babelfish takes no common table expression before an INSERT into a view. */
static void use_numbers(char *sql)
{
	char *insert = strstr(sql, "INSERT INTO native"), *end, make[300];
	int n = 0;

	if (!insert ||
	    sscanf(sql,
		   "WITH c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE "
		   "i < %d)",
		   &n) != 1)
		return;
	memmove(sql, insert, strlen(insert) + 1);
	end = strstr(sql, " OPTION (MAXRECURSION 0)");
	assert_non_null(end);
	*end = 0;
	(void)snprintf(
		make, sizeof(make),
		"DROP TABLE IF EXISTS c; WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
		"FROM n WHERE i < %d) SELECT i INTO c FROM n OPTION (MAXRECURSION 0)",
		n);
	assert_true(tsql_raw(make, NULL, 0));
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	static char tsql[64 * 1024], native[64 * 1024];

	tsql_translate(sql, tsql, sizeof(tsql));
	event_bus_translate(tsql, native, sizeof(native));
	use_numbers(native);
	return tsql_raw(native, out, cap);
}

/* ---- of this table alone ---- */

typedef struct plain {
	wherry_db *db;
	wherry_outbox *outbox;
	char text[4096];
} plain;

static int open_it(void **state)
{
	plain *p = calloc(1, sizeof(*p));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(p);
	make_table();
	p->db = tsql_connect();
	WHERRY_PASS(wherry_outbox_open(p->db, "outbox", &p->outbox, &err));
	*state = p;
	return 0;
}

static int close_it(void **state)
{
	plain *p = *state;

	wherry_outbox_close(p->outbox);
	tsql_disconnect(p->db);
	free(p);
	clear();
	return 0;
}

static const char *text(plain *p, const char *sql)
{
	*p->text = 0;
	assert_true(tsql_raw(sql, p->text, sizeof(p->text)));
	return p->text;
}

/* Columns, and the columns of indexes: names of indexes are the server's on Babelfish. */
#define SCHEMA                                                                                        \
	"SELECT STRING_AGG(CAST(x.line AS NVARCHAR(MAX)), N' ') WITHIN GROUP (ORDER BY x.line) "      \
	"FROM (SELECT CONCAT(t.name, N'.', c.name, N':', TYPE_NAME(c.system_type_id), c.max_length, " \
	"c.is_nullable, c.is_identity) AS line FROM sys.tables AS t JOIN sys.columns AS c ON "        \
	"c.object_id = t.object_id UNION ALL SELECT CONCAT(t.name, N' ', c.name, k.key_ordinal, "     \
	"i.is_unique) FROM sys.tables AS t JOIN sys.indexes AS i ON i.object_id = t.object_id "       \
	"JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id "       \
	"JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id) AS x"

WHERRY_TEST_ON(create_adds_nothing_to_it, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;
	char before[sizeof(p->text)];

	(void)snprintf(before, sizeof(before), "%s", text(p, SCHEMA));
	assert_true(strlen(before) > 500);
	WHERRY_PASS(wherry_outbox_create(p->db, "outbox", NULL, &err));
	assert_string_equal(text(p, SCHEMA), before);
	WHERRY_PASS(wherry_outbox_get_status(p->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_string_equal(status.layout, "eventferry");
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_outbox_make(p->db, &(wh_make){.layout = "log"}, "outbox", &err));
	assert_string_equal(text(p, SCHEMA), before);
}

WHERRY_TEST_ON(create_makes_what_the_library_makes, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char before[sizeof(p->text)];

	(void)snprintf(before, sizeof(before), "%s", text(p, SCHEMA));
	assert_true(tsql_raw("DROP TABLE outbox", NULL, 0));
	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(wh_outbox_make(p->db, &(wh_make){.layout = "eventferry"},
					   "outbox", &err));
		assert_string_equal(text(p, SCHEMA), before);
	}
}

static wherry_code put(plain *p, wherry_message msg, wherry_error *err)
{
	return wherry_outbox_enqueue(p->outbox, &msg,
				     WHERRY_OWN_TRANSACTION | WHERRY_LOCK_KEY, NULL, err);
}

#define BODY .topic = "t", .body = "{\"n\":1}", .body_len = 7

WHERRY_TEST_ON(enqueue_writes_rows_of_the_library, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(put(p,
			WHERRY_MESSAGE(BODY, .key = "k", .aggregate_type = "order",
				       .aggregate_id = "7", .message_id = "m",
				       .headers = "{\"a\":\"b\"}", .trace_id = "x"),
			&err));
	assert_string_equal(
		text(p,
		     "SELECT CONCAT_WS(N'|', message_id, topic, aggregate_type, "
		     "aggregate_id, [key], payload, headers, trace_id, status, attempts) "
		     "FROM outbox"),
		"m|t|order|7|k|{\"n\":1}|{\"a\":\"b\"}|x|0|0");
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     put(p, WHERRY_MESSAGE(BODY, .message_id = "m"), &err));
	WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .key = "k"), &err));
	assert_string_equal(text(p,
				 "SELECT CONCAT(aggregate_id, N'|', [key]) FROM outbox "
				 "WHERE aggregate_id <> N'7'"),
			    "k|k");
	WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY), &err));
	assert_string_equal(text(p, "SELECT COUNT(*) FROM outbox WHERE aggregate_id = "
				    "message_id AND [key] IS NULL"),
			    "1");
}

WHERRY_TEST_ON(what_it_has_no_place_for_is_refused, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	WHERRY_FAILS(
		WHERRY_INVALID,
		put(p, WHERRY_MESSAGE(.topic = "t", .body = "x", .body_len = 1), &err));
	assert_non_null(strstr(err.message, "JSON"));
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_outbox_pause(p->outbox, &err));
	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_outbox_lease(p->outbox, "x", MINUTE_US, 1, &lease, &err));
	WHERRY_PASS(wherry_outbox_join(p->outbox, "x", MINUTE_US, &lease, &err));
}

/* The library's claim, as its store sends it. */
#define LIBRARY_CLAIM                                                                               \
	"DECLARE @claimed TABLE (id BIGINT); UPDATE t SET status = 1, claimed_at = "                \
	"SYSUTCDATETIME() OUTPUT inserted.id INTO @claimed FROM outbox AS t JOIN (SELECT "          \
	"TOP (10) o.id FROM outbox AS o WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK) "      \
	"WHERE (o.status = 0 AND (o.next_retry_at IS NULL OR o.next_retry_at <= SYSUTCDATETIME()) " \
	"OR o.status = 3 AND (o.next_retry_at IS NULL OR o.next_retry_at <= SYSUTCDATETIME()) OR "  \
	"o.status = 1 AND o.claimed_at <= DATEADD(SECOND, -60, SYSUTCDATETIME())) AND NOT EXISTS "  \
	"(SELECT 1 FROM outbox AS e WITH (READCOMMITTEDLOCK) WHERE e.aggregate_id = "               \
	"o.aggregate_id AND e.id < o.id AND e.status IN (0, 1, 3)) ORDER BY o.id) AS due ON "       \
	"due.id = t.id; SELECT STRING_AGG(CAST(id AS NVARCHAR(20)), N' ') WITHIN GROUP (ORDER BY "  \
	"id) FROM @claimed"

typedef struct taken {
	char ids[100];
} taken;

static wherry_code take(void *ctx, const wherry_message *msg)
{
	taken *t = ctx;
	size_t len = strlen(t->ids);

	(void)snprintf(t->ids + len, sizeof(t->ids) - len, "%s%lld", len ? " " : "",
		       (long long)msg->id);
	return WHERRY_OK;
}

static void claims_are(plain *p, const wherry_lease *lease, const char *wanted)
{
	wherry_claim_options how =
		WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = MINUTE_US);
	wherry_error err = WHERRY_ERROR_INIT;
	taken got = {""};
	int64_t n = 0;

	WHERRY_PASS(wherry_outbox_claim(p->outbox, lease, &how, take, &got, &n, &err));
	assert_string_equal(got.ids, wanted);
}

WHERRY_TEST_ON(the_library_and_wherry_claim_no_row_twice, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};
	int64_t n = 0;

	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .aggregate_id = "a"), &err));
		WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .aggregate_id = "b"), &err));
	}
	WHERRY_PASS(wherry_outbox_join(p->outbox, "x", MINUTE_US, &lease, &err));
	assert_string_equal(text(p, LIBRARY_CLAIM), "1 2");
	claims_are(p, &lease, ""); /* 3 and 4 wait behind them */
	assert_true(tsql_raw("UPDATE outbox SET status = 2, processed_at = "
			     "SYSUTCDATETIME() WHERE id = 1",
			     NULL, 0));
	claims_are(p, &lease, "3");
	assert_string_equal(text(p, LIBRARY_CLAIM), "");
	WHERRY_PASS(wherry_outbox_done(p->outbox, &lease, (int64_t[]){3}, 1, &n, &err));
	assert_int_equal(n, 1);
	/* What the library took over is no more Wherry's. */
	WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .aggregate_id = "c"), &err));
	claims_are(p, &lease, "5");
	assert_true(
		tsql_raw("UPDATE outbox SET claimed_at = DATEADD(MINUTE, -2, claimed_at) "
			 "WHERE id = 5",
			 NULL, 0));
	assert_string_equal(text(p, LIBRARY_CLAIM), "5");
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_done(p->outbox, &lease, (int64_t[]){5}, 1, &n, &err));
	assert_string_equal(text(p, "SELECT status FROM outbox WHERE id = 5"), "1");
}

WHERRY_TEST_ON(a_pending_row_with_a_retry_time_waits_for_it, plain *p, open_it, close_it)
{
	wherry_claim_options how =
		WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = MINUTE_US);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};
	taken got = {""};
	int64_t n = 0;

	for (int i = 0; i < 2; i++)
		WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .aggregate_id = "a"), &err));
	assert_true(tsql_raw("UPDATE outbox SET next_retry_at = DATEADD(HOUR, 1, "
			     "SYSUTCDATETIME()) WHERE id = 1",
			     NULL, 0));
	WHERRY_PASS(wherry_outbox_join(p->outbox, "x", MINUTE_US, &lease, &err));
	claims_are(p, &lease, "");
	assert_true(tsql_raw("UPDATE outbox SET next_retry_at = DATEADD(HOUR, -1, "
			     "SYSUTCDATETIME()) WHERE id = 1",
			     NULL, 0));
	WHERRY_PASS(wherry_outbox_claim(p->outbox, &lease, &how, take, &got, &n, &err));
	assert_string_equal(got.ids, "1");
}

int main(void)
{
	static outbox_backend eventferry = {
		.name = "eventferry",
		.several = true,
		.lacks = NEEDS_LEASE | NEEDS_TOKEN | NEEDS_EVENT_BUS | NEEDS_NUL |
			 NEEDS_CASELESS | NEEDS_IDENTS | NEEDS_NATIVE | NEEDS_REFUSAL |
			 NEEDS_BYTES,
		.make = make,
		.drop = drop,
		.connect = connect,
		.disconnect = disconnect,
		.raw = raw,
	};
	static const outbox_backend *const backends[] = {&eventferry};

	int failed;

	if (!tsql_start())
		return 0;
	if (mssql_is_babelfish())
		eventferry.lacks |= NEEDS_ESCAPES;
	failed = outbox_suite_run(backends, 1, wherry_tests_of_file()->all,
				  wherry_tests_of_file()->n);
	tsql_end();
	return failed;
}
