/*
 * The outbox on SQL Server, as programs in T-SQL see it: the procedure wherry_enqueue, bodies of bytes, and
 * the lock of those that make tables.
 */
#include "outbox_suite.h"

#include "mssql/backend.h"
#include "outbox/outbox.h"
#include "tsql.h"

typedef struct place {
	wherry_db *db;
	wherry_outbox *outbox;
	char text[400];
} place;

static void enter(place *p, const char *payload)
{
	wherry_error err = WHERRY_ERROR_INIT;

	tsql_clear();
	p->db = tsql_connect();
	WHERRY_PASS(wherry_outbox_create(
		p->db, "outbox",
		&WHERRY_OUTBOX_OPTIONS(.payload = payload, .unique_ids = true), &err));
	WHERRY_PASS(wherry_outbox_open(p->db, "outbox", &p->outbox, &err));
}

static void leave(place *p)
{
	wherry_outbox_close(p->outbox);
	tsql_disconnect(p->db);
	tsql_clear();
}

static void says(place *p, const char *sql, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*p->text = 0;
	if (mssql_run(p->db, sql, p->text, sizeof(p->text), &err) != WHERRY_OK)
		print_error("%s: %s\n", sql, err.message);
	assert_string_equal(p->text, wanted);
}

static void refuses(place *p, const char *sql, const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_int_not_equal(mssql_run(p->db, sql, NULL, 0, &err), WHERRY_OK);
	if (!strstr(err.message, why))
		print_error("%s: %s\n", sql, err.message);
	assert_non_null(strstr(err.message, why));
}

#define ENQUEUE "DECLARE @id BIGINT; EXEC wherry_enqueue @id = @id OUTPUT, "

WHERRY_TEST(the_procedure_adds_what_it_is_given)
{
	place p;

	enter(&p, NULL);
	says(&p, ENQUEUE "@topic = N'orders', @payload = N'{\"n\":1}'; SELECT @id", "1");
	says(&p,
	     ENQUEUE "@topic = N't', @payload = N'', @key = N'k', @message_id = N'm', "
		     "@headers = N'{\"a\":\"b\"}', @aggregate_type = N'order', "
		     "@aggregate_id = N'7', @trace_id = N'x'; SELECT @id",
	     "2");
	says(&p,
	     "SELECT CONCAT_WS(N'|', topic, aggregate_type, aggregate_id, partition_key, "
	     "message_id, headers, trace_id, DATALENGTH(payload)) FROM outbox WHERE "
	     "id = 2",
	     "t|order|7|k|m|{\"a\":\"b\"}|x|0");
	says(&p,
	     "SELECT CONCAT_WS(N'|', LEN(message_id), headers, payload) FROM outbox WHERE id "
	     "= 1",
	     "36|{}|{\"n\":1}");
	/* A duplicate adds nothing, and leaves the transaction open. */
	says(&p,
	     "BEGIN TRANSACTION; " ENQUEUE
	     "@topic = N't', @payload = N'2', @message_id = N'm'; DECLARE @open INT = "
	     "@@TRANCOUNT; COMMIT TRANSACTION; SELECT CONCAT(N'none', @id, N' ', @open)",
	     "none 1");
	says(&p, "SELECT COUNT(*) FROM outbox", "2");
	refuses(&p, "EXEC wherry_enqueue @topic = N'', @payload = N'1'", "needs a topic");
	refuses(&p, "EXEC wherry_enqueue @topic = N't'", "needs a payload");
	refuses(&p,
		"EXEC wherry_enqueue @topic = N't', @payload = N'1', @headers = N'[]'",
		"headers are not a JSON object");
	refuses(&p,
		"EXEC wherry_enqueue @topic = N't', @payload = N'1', @headers = N'{\"a\":1}'",
		"headers are not a JSON object");
	refuses(&p,
		"EXEC wherry_enqueue @topic = N't', @payload = N'1', @outbox = N'no; DROP "
		"TABLE outbox'",
		"no");
	refuses(&p,
		"EXEC wherry_enqueue @topic = N't', @payload = N'1', @key = N'k', "
		"@lock_key = 1",
		"begin one");
	says(&p, "SELECT COUNT(*) FROM outbox", "2");
	leave(&p);
}

WHERRY_TEST(the_procedure_cuts_nothing)
{
	static const struct {
		const char *name;
		int most;
	} names[] = {{"topic", 255},        {"message_id", 255}, {"aggregate_type", 255},
		     {"aggregate_id", 255}, {"trace_id", 255},   {"key", 1024},
		     {"outbox", 128}};
	char sql[400];
	place p;

	enter(&p, NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"DECLARE @id BIGINT, @long NVARCHAR(4000) = "
			"REPLICATE(N'x', %d) + N'y'; EXEC wherry_enqueue @id = @id "
			"OUTPUT, @payload = N'{}', %s@%s = @long",
			names[i].most, i ? "@topic = N't', " : "", names[i].name);
		/* Babelfish measures in UTF-8, and refuses instead of cutting. */
		refuses(&p, sql, mssql_is_babelfish() ? "" : names[i].name);
	}
	says(&p, "SELECT COUNT(*) FROM outbox", "0");
	says(&p,
	     "DECLARE @long NVARCHAR(4000) = REPLICATE(N'x', 255); " ENQUEUE
	     "@topic = @long, @message_id = @long, @payload = N'{}'; SELECT @id",
	     "1");
	leave(&p);
}

WHERRY_TEST(the_procedure_adds_to_another_outbox_of_its_schema)
{
	wherry_error err = WHERRY_ERROR_INIT;
	place p;

	enter(&p, NULL);
	WHERRY_PASS(wherry_outbox_create(p.db, "other", NULL, &err));
	says(&p, ENQUEUE "@topic = N't', @payload = N'1', @outbox = N'other'; SELECT @id",
	     "1");
	says(&p,
	     "SELECT CONCAT((SELECT COUNT(*) FROM outbox), (SELECT COUNT(*) FROM other))",
	     "01");
	leave(&p);
}

typedef struct seen {
	char body[64];
	size_t len;
	int n;
} seen;

static wherry_code note(void *ctx, const wherry_row *row)
{
	seen *s = ctx;

	s->len = row->message->body_len;
	memcpy(s->body, row->message->body, s->len);
	s->n++;
	return WHERRY_OK;
}

WHERRY_TEST(bytes_are_kept_as_they_are)
{
	static const char body[] = "\x00\xff\xfe{\"n\"";
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .body = body, .body_len = sizeof(body));
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {.n = 0};
	place p;

	enter(&p, "bytea");
	says(&p,
	     "SELECT TYPE_NAME(system_type_id) FROM sys.columns WHERE object_id = "
	     "OBJECT_ID(N'outbox') AND name = N'payload'",
	     "varbinary");
	WHERRY_PASS(wherry_outbox_enqueue(p.outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					  &err));
	says(&p, ENQUEUE "@topic = N't', @bytes = 0x00FFFE7B226E2200; SELECT @id", "2");
	says(&p, "SELECT COUNT(DISTINCT payload) FROM outbox", "1");
	WHERRY_PASS(wherry_outbox_show(p.outbox, "2", note, &s, &err));
	assert_int_equal(s.len, sizeof(body));
	assert_memory_equal(s.body, body, sizeof(body));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(p.db, "outbox",
					  &WHERRY_OUTBOX_OPTIONS(.payload = "text"),
					  &err));
	leave(&p);
}

/* Who makes tables waits for another that does, and then gives up. */
WHERRY_TEST(making_ends_when_the_lock_is_not_granted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *holder = NULL, *db = NULL;

	tsql_clear();
	WHERRY_PASS(wherry_db_open(getenv("WHERRY_TEST_MSSQL"), NULL, &holder, &err));
	WHERRY_PASS(wherry_db_begin(holder, &err));
	WHERRY_PASS(
		mssql_run(holder,
			  "EXEC sp_getapplock @Resource = N'wherry_migrate', @LockMode "
			  "= 'Exclusive', @LockOwner = 'Transaction'",
			  NULL, 0, &err));
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", "100ms", &err));
	WHERRY_PASS(wherry_db_open(getenv("WHERRY_TEST_MSSQL"), config, &db, &err));
	WHERRY_FAILS(WHERRY_BUSY, wherry_outbox_create(db, "outbox", NULL, &err));
	wherry_db_close(holder);
	wherry_db_close(db);
	wherry_config_free(config);
	tsql_clear();
}

#define ENQUEUED                                                                         \
	ENQUEUE "@topic = N't', @payload = N'{}'; SELECT CASE WHEN @id > 0 THEN 'yes' END"

/* One of an older version, one that is marked otherwise, and one that is missing. */
WHERRY_TEST(a_procedure_of_another_version_is_made_again)
{
	static const char *const breaks[] = {
		"EXEC sp_dropextendedproperty N'wherry', N'SCHEMA', N'dbo', N'PROCEDURE', "
		"N'wherry_enqueue'; EXEC (N'ALTER PROCEDURE wherry_enqueue AS RETURN')",
		"EXEC sp_updateextendedproperty N'wherry', N'Wherry 0', N'SCHEMA', N'dbo', "
		"N'PROCEDURE', N'wherry_enqueue'; EXEC (N'ALTER PROCEDURE wherry_enqueue AS "
		"RETURN')",
		"DROP PROCEDURE wherry_enqueue",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	place p;

	enter(&p, NULL);
	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		WHERRY_PASS(wh_db_script(p.db, breaks[i], &err));
		WHERRY_PASS(wherry_outbox_create(p.db, "outbox", NULL, &err));
		says(&p, ENQUEUED, "yes");
	}
	leave(&p);
}

int main(void)
{
	int failed;

	if (!tsql_start())
		return 0;
	cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	failed = wherry_run_tests(NULL, NULL);
	tsql_end();
	return failed;
}
