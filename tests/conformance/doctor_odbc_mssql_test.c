/*
 * `wherry doctor` on SQL Server: each check runs, and finds what it is for.  Views that a server lacks,
 * and states that cannot be made there, have stand-ins in the schema dbo.
 */
#include "cli/doctor.h"
#include "delayed/delayed.h"
#include "mssql/backend.h"
#include "outbox/outbox.h"
#include "queue/queue.h"

/* A text in a check's statement, and one of the same length instead. */
typedef struct patch {
	const char *was, *is;
} patch;

typedef struct condition {
	const char *check;
	wh_level level;
	const char *make;       /* SQL, also of stand-ins; NULL: nothing */
	const char *undo;       /* afterwards */
	bool again;             /* afterwards create makes what is missing */
	bool still;             /* `wherry status` looks for it, too */
	const char *says;       /* in the finding or its advice */
	const patch patches[4]; /* of the statement */
} condition;

#define ANY_SERVER                                                                       \
	{                                                                                \
		"Babelfish%", "Somebody.%"                                               \
	}
#define DATABASES(columns)                                                               \
	"CREATE VIEW dbo.databases AS SELECT DB_ID() AS database_id, N'shop' AS name, " columns
#define INDEXES(columns)                                                                 \
	"CREATE VIEW dbo.indexes AS SELECT i.object_id, i.index_id, COALESCE(i.name, "   \
	"N'table') AS name, i.is_primary_key, " columns " FROM sys.indexes AS i"

/* A message with an exception, and another one of its key. */
#define EXCEPTION(state)                                                                                      \
	"INSERT INTO outbox(topic, partition_key, payload) VALUES (N't', N'k', N'{}'), (N't', N'k', N'{}'); " \
	"INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at, last_error) "         \
	"SELECT N'relay', MIN(id), " state                                                                    \
	", 2, DATEADD(HOUR, 1, SYSUTCDATETIME()), N'no route' FROM outbox"
#define NO_MESSAGES "DELETE FROM outbox; DELETE FROM outbox_exception"

static const condition conditions[] = {
	{.check = "relay",
	 .level = WH_BAD,
	 .make = "INSERT INTO outbox(topic, payload) VALUES (N't', N'{}')",
	 .undo = NO_MESSAGES,
	 .says = "no relay is running while messages are ready"},
	{.check = "kept",
	 .level = WH_WARN,
	 .make = "INSERT INTO outbox(topic, payload, created_at) VALUES (N't', N'{}', "
		 "DATEADD(HOUR, -2, SYSUTCDATETIME())); INSERT INTO outbox_progress(subscription, "
		 "high, seen, moved_at) VALUES (N'audit', 0, N'', DATEADD(HOUR, -3, SYSUTCDATETIME()))",
	 .says = "subscription audit has not moved for 3h 0m, and no relay or consumer reads it"},
	{.check = "kept",
	 .level = WH_WARN,
	 .make = "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, "
		 "clean, unclean, win, suspects) VALUES (N'outbox\\audit', 0, N'log', N'boat', 3, "
		 "DATEADD(HOUR, 1, SYSUTCDATETIME()), 0, 0, 1, 0)",
	 .undo = "DELETE FROM wherry_lease; DELETE FROM outbox_progress WHERE subscription = "
		 "N'audit'; " NO_MESSAGES,
	 .says = "subscription audit has not moved for 3h 0m, and its relay makes no progress"},
	{.check = "paused",
	 .level = WH_BAD,
	 .make = "UPDATE wherry_outbox SET paused_at = DATEADD(HOUR, -2, SYSUTCDATETIME())",
	 .undo = "UPDATE wherry_outbox SET paused_at = NULL",
	 .says = "paused for 2h"},
	{.check = "held",
	 .level = WH_WARN,
	 .make = EXCEPTION("3"),
	 .undo = NO_MESSAGES,
	 .says = "(key k) failed 2 times: no route; it is due in 59m 5"},
	{.check = "parked",
	 .level = WH_WARN,
	 .make = EXCEPTION("4"),
	 .undo = NO_MESSAGES,
	 .says = "(key k) is dead after 2 attempts"},
	{.check = "backlog",
	 .level = WH_WARN,
	 .make = "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, "
		 "clean, unclean, win, suspects) VALUES (N'outbox', 0, N'log', N'boat', 3, "
		 "DATEADD(HOUR, 1, SYSUTCDATETIME()), 0, 0, 1, 0); INSERT INTO outbox(topic, "
		 "payload, created_at) VALUES (N't', N'{}', DATEADD(HOUR, -1, "
		 "SYSUTCDATETIME()))",
	 .says = "has been ready for 1h"},
	{.check = "backlog",
	 .level = WH_WARN,
	 .make = "INSERT INTO outbox_exception(subscription, id, state) SELECT N'relay', id, 0 FROM "
		 "outbox", /* As of one that was retried. */
	 .says = "has been ready for 1h"},
	{.check = "relay",
	 .level = WH_WELL,
	 .says = "boat relays the outbox (log, epoch 3)"},
	{.check = "destination",
	 .level = WH_BAD,
	 .make = "UPDATE wherry_lease SET state = N'retrying', state_since = SYSUTCDATETIME(), "
		 "destination = N'https://shop', error = N'503'",
	 .undo = "DELETE FROM wherry_lease; " NO_MESSAGES,
	 .says = "destination refuses: 503, to https://shop"},
	{.check = "partitions",
	 .level = WH_WELL,
	 .make = "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, "
		 "clean, unclean, win, suspects, mask) VALUES (N'outbox', 0, N'log', "
		 "N'boat', 3, DATEADD(HOUR, 1, SYSUTCDATETIME()), 0, 0, 1, 0, 65535), "
		 "(N'outbox', 1, N'log', N'ship', 3, DATEADD(HOUR, 1, "
		 "SYSUTCDATETIME()), 0, 0, 1, 0, -9223372036854775808)",
	 .says = "boat has 16 of 64 partitions"},
	{.check = "partitions",
	 .level = WH_WARN,
	 .undo = "DELETE FROM wherry_lease",
	 .says = "47 of 64 partitions have no relay"},
	{.check = "indexes",
	 .level = WH_BAD,
	 .make = "DROP INDEX outbox_rv ON outbox",
	 .undo = "CREATE INDEX again ON outbox(rv)",
	 .says = "the index on rv is missing"},
	{.check = "tables",
	 .level = WH_BAD,
	 .make = "DROP TABLE outbox_exception",
	 .again = true,
	 .says = "outbox_exception"},
	{.check = "tables",
	 .level = WH_BAD,
	 .make = "SELECT * INTO kept FROM wherry_lease; DROP TABLE wherry_lease",
	 .again = true,
	 .says = "| sqlcmd -I -S "},
	{.check = "procedures",
	 .level = WH_BAD,
	 .make = "EXEC sp_updateextendedproperty N'wherry', N'Wherry 0', N'SCHEMA', N'dbo', "
		 "N'PROCEDURE', N'wherry_enqueue'",
	 .says = "`wherry create`"},
	{.check = "procedures",
	 .level = WH_BAD,
	 .make = "DROP PROCEDURE wherry_enqueue",
	 .again = true,
	 .says = "1 procedure is missing"},
	{.check = "acknowledgements",
	 .level = WH_WARN,
	 .make = "CREATE TRIGGER swallow ON outbox INSTEAD OF DELETE AS SELECT 1",
	 .undo = "DROP TRIGGER swallow",
	 .says = "the trigger swallow can ignore"},
	{.check = "sql-server",
	 .level = WH_BAD,
	 .make = DATABASES("120 AS compatibility_level"),
	 .undo = "DROP VIEW dbo.databases",
	 .says = "compatibility level 120, and relays need OPENJSON",
	 .patches = {{"sys.databases", "dbo.databases"}, ANY_SERVER}},
	{.check = "row-versions",
	 .level = WH_WARN,
	 .make = DATABASES("CAST(0 AS BIT) AS is_read_committed_snapshot_on"),
	 .undo = "DROP VIEW dbo.databases",
	 .says = "READ_COMMITTED_SNAPSHOT is off in shop",
	 .patches = {{"sys.databases", "dbo.databases"}}},
	{.check = "durability",
	 .level = WH_WARN,
	 .make = DATABASES("2 AS delayed_durability"),
	 .undo = "DROP VIEW dbo.databases",
	 .says = "SET DELAYED_DURABILITY = DISABLED",
	 .patches = {{"sys.databases", "dbo.databases"}}},
	{.check = "isolation",
	 .level = WH_WARN,
	 .make = "SELECT 1000 AS session_id, N'shop' AS program_name, N'ann' AS login_name, 4 AS "
		 "transaction_isolation_level, DB_ID() AS database_id, 1 AS "
		 "open_transaction_count INTO dbo.dm_exec_sessions",
	 .undo = "DROP TABLE dbo.dm_exec_sessions",
	 .says = "session 1000 (shop, login ann) has a transaction open at the level "
		 "SERIALIZABLE",
	 .patches = {{"sys.dm_exec", "dbo.dm_exec"}}},
	{.check = "open-transactions",
	 .level = WH_WARN,
	 .make = "SELECT 1000 AS session_id, 7 AS transaction_id INTO "
		 "dbo.dm_tran_session_transactions; SELECT 7 AS transaction_id INTO "
		 "dbo.dm_tran_active_transactions; SELECT 7 AS transaction_id, DB_ID() AS "
		 "database_id, DATEADD(HOUR, -1, GETDATE()) AS database_transaction_begin_time "
		 "INTO dbo.dm_tran_database_transactions; SELECT 1000 AS session_id, N'shop' AS "
		 "program_name, N'ann' AS login_name, N'sleeping' AS status INTO "
		 "dbo.dm_exec_sessions",
	 .undo = "DROP TABLE dbo.dm_exec_sessions",
	 .says = "session 1000 (shop, login ann, sleeping) wrote to this database and has kept "
		 "its transaction open for 1h 0m: all messages that were written since wait",
	 .patches = {{"sys.dm_", "dbo.dm_"}}},
	{.check = "row-locks",
	 .level = WH_WARN,
	 .make = "DROP TABLE dbo.dm_tran_session_transactions, dbo.dm_tran_active_transactions, "
		 "dbo.dm_tran_database_transactions; "
		 "SELECT 1000 AS session_id, 7 AS transaction_id INTO "
		 "dbo.dm_tran_session_transactions; SELECT 7 AS transaction_id, DATEADD(HOUR, "
		 "-1, GETDATE()) AS transaction_begin_time INTO "
		 "dbo.dm_tran_active_transactions; SELECT 8 AS transaction_id, DB_ID() AS "
		 "database_id, GETDATE() AS database_transaction_begin_time INTO "
		 "dbo.dm_tran_database_transactions; SELECT 1000 AS session_id, N'shop' AS "
		 "program_name, N'ann' AS login_name, N'sleeping' AS status, DATEADD(MINUTE, -5, "
		 "GETDATE()) AS last_request_end_time INTO dbo.dm_exec_sessions; SELECT "
		 "CAST(N'OBJECT' AS NVARCHAR(60)) AS resource_type, CAST(N'' AS NVARCHAR(256)) AS "
		 "resource_description, DB_ID() AS resource_database_id, OBJECT_ID(N'outbox') AS "
		 "resource_associated_entity_id, N'GRANT' AS request_status, CAST(N'IS' AS "
		 "NVARCHAR(60)) AS request_mode, 1000 AS request_session_id INTO dbo.dm_tran_locks",
	 .still = true,
	 .says = "session 1000 (shop, login ann, sleeping) has locked rows of the table in a "
		 "transaction that is open for 1h",
	 .patches = {{"sys.dm_", "dbo.dm_"}}},
	{.check = "locks",
	 .level = WH_BAD,
	 .make = "UPDATE dbo.dm_tran_locks SET request_mode = N'X'",
	 .undo = "DROP TABLE dbo.dm_exec_sessions, dbo.dm_tran_locks",
	 .still = true,
	 .says = "let it finish, or `KILL 1000`",
	 .patches = {{"sys.dm_", "dbo.dm_"}}},
	{.check = "unseen",
	 .level = WH_WARN,
	 .says = "may not see what others do",
	 .patches = {{"VIEW SERVER STATE') END = 1", "VIEW SERVER STATE') END = 2"}}},
	{.check = "azure-tier",
	 .level = WH_WARN,
	 .make = "SELECT DB_ID() AS database_id, N'S0' AS service_objective INTO "
		 "dbo.database_service_objectives",
	 .undo = "DROP TABLE dbo.database_service_objectives",
	 .says = "the tier S0 has less than one core and at most 60 requests",
	 .patches = {{"sys.database_service", "dbo.database_service"},
		     {"INT) = 5", "INT) > 0"}}},
	{.check = "azure-limits",
	 .level = WH_WARN,
	 .make = "SELECT CAST(12 AS DECIMAL(5, 2)) AS avg_cpu_percent, CAST(1 AS DECIMAL(5, 2)) "
		 "AS avg_data_io_percent, CAST(97.5 AS DECIMAL(5, 2)) AS avg_log_write_percent, "
		 "CAST(3 AS DECIMAL(5, 2)) AS max_worker_percent, CAST(4 AS DECIMAL(5, 2)) AS "
		 "max_session_percent INTO dbo.dm_db_resource_stats",
	 .undo = "DROP TABLE dbo.dm_db_resource_stats",
	 .says = "the log writes reached 97 % of what the tier allows, for 15s",
	 .patches = {{"sys.dm_", "dbo.dm_"}}},
	{.check = "altered-indexes",
	 .level = WH_BAD,
	 .make = INDEXES(
		 "CAST(1 AS BIT) AS is_disabled, i.is_unique, CAST(1 AS BIT) AS has_filter, "
		 "CAST(1 AS BIT) AS allow_row_locks"),
	 .undo = "DROP VIEW dbo.indexes",
	 .says = "REBUILD",
	 .patches = {{"sys.indexes", "dbo.indexes"}}},
	{.check = "altered-indexes",
	 .level = WH_BAD,
	 .make = INDEXES(
		 "CAST(0 AS BIT) AS is_disabled, CAST(0 AS BIT) AS is_unique, CAST(1 AS BIT) "
		 "AS has_filter, CAST(1 AS BIT) AS allow_row_locks"),
	 .undo = "DROP VIEW dbo.indexes",
	 .says = "is not unique: a message id may be there twice",
	 .patches = {{"sys.indexes", "dbo.indexes"}}},
	{.check = "altered-indexes",
	 .level = WH_BAD,
	 .make = INDEXES(
		 "CAST(0 AS BIT) AS is_disabled, i.is_unique, CAST(1 AS BIT) AS has_filter, "
		 "CAST(0 AS BIT) AS allow_row_locks"),
	 .undo = "DROP VIEW dbo.indexes",
	 .says = "ALLOW_ROW_LOCKS = ON",
	 .patches = {{"sys.indexes", "dbo.indexes"}}},
	{.check = "columnstore",
	 .level = WH_BAD,
	 .make = INDEXES("5 AS type"),
	 .undo = "DROP VIEW dbo.indexes",
	 .says = "is a columnstore",
	 .patches = {{"sys.indexes", "dbo.indexes"}}},
	{.check = "escalation",
	 .level = WH_WARN,
	 .make = "SELECT OBJECT_ID(N'outbox') AS object_id, 0 AS lock_escalation, N'TABLE' AS "
		 "lock_escalation_desc INTO dbo.tables",
	 .undo = "DROP TABLE dbo.tables",
	 .says = "SET (LOCK_ESCALATION = DISABLE)",
	 .patches = {{"sys.tables", "dbo.tables"}, ANY_SERVER}},
	{.check = "identity",
	 .level = WH_BAD,
	 .make = "SET IDENTITY_INSERT outbox ON; INSERT INTO outbox(id, topic, payload) VALUES "
		 "(9, N't', N'{}'); SET IDENTITY_INSERT outbox OFF",
	 .says = "which is below the last, 5000: producers will fail",
	 .patches = {{"MAX(id)", "(5000) "}}},
};

static void sql(const char *text)
{
	if (text)
		assert_true(mssql_raw(NULL, NULL, text, NULL, 0));
}

static void examine(wh_doctor *d, wh_session *session, wh_store *store)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*d = (wh_doctor){
		.session = session, .store = store, .older_us = 60 * (int64_t)1000000};
	WHERRY_PASS(wh_doctor_begin(d, &err));
}

static void apply(wh_doctor *d, const condition *c)
{
	for (size_t i = 0; i < d->sql.n; i++)
		for (const patch *p = c->patches; p->was; p++) {
			char *at = d->sql.stmts[i].text;

			assert_int_equal(strlen(p->was), strlen(p->is));
			if (strcmp(d->sql.stmts[i].name, c->check) == 0)
				while ((at = strstr(at, p->was)) != NULL)
					memcpy(at, p->is, strlen(p->is));
		}
}

static bool is_said(const wh_doctor *d, const condition *c)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->findings[i].check, c->check) == 0 &&
		    d->findings[i].level == c->level &&
		    (strstr(d->findings[i].what, c->says) ||
		     strstr(d->findings[i].advice, c->says)))
			return true;
	return false;
}

static void print(const wh_doctor *d)
{
	for (size_t i = 0; i < d->n; i++)
		print_error("%s %s: %s\n", wh_level_name(d->findings[i].level),
			    d->findings[i].check, d->findings[i].what);
}

/* A check that failed says so. */
static void all_could_be_checked(const wh_doctor *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (strstr(d->findings[i].advice, "this could not be checked")) {
			print(d);
			fail();
		}
}

typedef struct place {
	wherry_outbox *outbox;
	wh_session session;
} place;

static void enter(place *p)
{
	const wherry_outbox_options options = WHERRY_OUTBOX_OPTIONS(.unique_ids = true);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;

	mssql_drop(NULL);
	db = mssql_connect(NULL);
	*p = (place){.session = {.target = "", .table = "outbox", .db = db}};
	(void)snprintf(p->session.url, sizeof(p->session.url), "%s",
		       getenv("WHERRY_TEST_MSSQL"));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", &options, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &p->outbox, &err));
	p->session.outbox = p->outbox;
}

static void leave(place *p)
{
	wherry_outbox_close(p->outbox);
	assert_true(mssql_disconnect(p->session.db));
	mssql_drop(NULL);
}

WHERRY_TEST(every_check_runs_on_a_new_outbox_and_finds_no_fault)
{
	wh_doctor d;
	place p;

	enter(&p);
	examine(&d, &p.session, &p.outbox->store);
	wh_doctor_check(&d);
	all_could_be_checked(&d);
	for (size_t i = 0; i < d.n; i++)
		if (d.findings[i].level == WH_BAD) {
			print(&d);
			fail();
		}
	assert_true(d.n >= 20);
	wh_doctor_clear(&d);
	leave(&p);
}

WHERRY_TEST(each_condition_is_found)
{
	size_t missed = 0;
	wh_doctor d;
	place p;

	enter(&p);
	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++) {
		const condition *c = &conditions[i];

		sql(c->make);
		examine(&d, &p.session, &p.outbox->store);
		apply(&d, c);
		if (c->still)
			wh_doctor_check_still(&d, false);
		else
			wh_doctor_check(&d);
		if (!is_said(&d, c)) {
			print_error("%s: %s\n", c->check, c->says);
			print(&d);
			missed++;
		}
		wh_doctor_clear(&d);
		sql(c->undo);
		if (c->again) {
			leave(&p);
			enter(&p);
		}
	}
	leave(&p);
	assert_int_equal(missed, 0);
}

WHERRY_TEST(a_message_that_is_not_there_is_said_to_be_none)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_doctor d;
	place p;

	enter(&p);
	sql("INSERT INTO outbox(topic, payload) VALUES (N't', N'{}')");
	examine(&d, &p.session, &p.outbox->store);
	WHERRY_PASS(wh_doctor_message(&d, "1", &err));
	assert_non_null(strstr(d.findings[0].what, "no relay is running"));
	WHERRY_PASS(wh_doctor_message(&d, "77", &err));
	assert_non_null(strstr(d.findings[1].what, "ids up to 1 have been given out"));
	wh_doctor_clear(&d);
	leave(&p);
}

WHERRY_TEST(the_checks_of_a_queue_run_too)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	wh_doctor d;
	place p;

	enter(&p);
	WHERRY_PASS(wherry_queue_create(p.session.db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_open(p.session.db, "jobs", &queue, &err));
	p.session.table = "jobs";
	examine(&d, &p.session, &queue->store);
	d.on = (const void *)&p; /* not an outbox; only asked whether it is NULL */
	wh_doctor_check(&d);
	all_could_be_checked(&d);
	assert_true(d.n >= 8);
	wh_doctor_clear(&d);
	wherry_queue_close(queue);
	leave(&p);
}

WHERRY_TEST(procedures_of_a_delayed_queue_are_looked_at)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *delayed = NULL;
	char target[] = " @delayed/mail";
	const wh_args args = {.command = &(const wh_command){.name = "doctor"},
			      .target = target,
			      .table = {.table = "delayed", .queue = "mail"}};
	wh_doctor d;
	place p;

	enter(&p);
	WHERRY_PASS(wherry_delayed_create(p.session.db, NULL, NULL, &err));
	WHERRY_PASS(
		wherry_delayed_open(p.session.db, NULL, "mail", NULL, &delayed, &err));
	sql("DROP PROCEDURE wherry_poll; EXEC sp_dropextendedproperty N'wherry', "
	    "N'SCHEMA', N'dbo', N'PROCEDURE', N'wherry_offer'");
	wh_report_on(&args);
	p.session.delayed = delayed;
	examine(&d, &p.session, &delayed->store);
	d.delayed = (const void *)&p; /* only asked whether it is NULL */
	wh_doctor_check(&d);
	all_could_be_checked(&d);
	assert_true(is_said(
		&d, &(condition){.check = "procedures",
				 .level = WH_BAD,
				 .says = "`wherry create --kind delayed @delayed`"}));
	assert_true(is_said(&d, &(condition){.check = "procedures",
					     .level = WH_BAD,
					     .says = "2 procedures are missing"}));
	wh_doctor_clear(&d);
	wh_report_on(NULL);
	wherry_delayed_close(delayed);
	leave(&p);
}

int main(void)
{
	if (!mssql_start(NULL))
		return 0;
	cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_tests(NULL, NULL);
}
