/*
 * The relay on a log on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_log.h"

#include "mssql/backend.h"
#include "tsql.h"

#include "db/driver.h"

/* ---- the state of messages ---- */

/* A log as a native table.  An update that changes nothing of a message gives it no new row version. */
static const char view[] =
	"EXEC(N'CREATE VIEW native AS SELECT t.id, t.topic, t.partition_key, t.created_at, t.payload, "
	"COALESCE(x.state, CASE WHEN CONVERT(BIGINT, t.rv) > p.high THEN 0 ELSE 2 END) AS status, "
	"COALESCE(x.attempts, 0) AS attempts, x.next_retry_at, x.changed_at AS claimed_at, x.claim_token, "
	"x.last_error FROM outbox_progress AS p CROSS JOIN outbox AS t "
	"LEFT JOIN outbox_exception AS x ON x.id = t.id');"
	"EXEC(N'CREATE TRIGGER native_update ON native INSTEAD OF UPDATE AS BEGIN SET NOCOUNT ON; "
	"UPDATE t SET created_at = n.created_at FROM outbox AS t JOIN inserted AS n ON n.id = t.id "
	"WHERE t.created_at <> n.created_at; "
	"UPDATE x SET state = n.status, attempts = n.attempts, next_retry_at = n.next_retry_at, "
	"changed_at = COALESCE(n.claimed_at, SYSUTCDATETIME()), claim_token = n.claim_token, "
	"last_error = n.last_error FROM outbox_exception AS x JOIN inserted AS n ON n.id = x.id; "
	"INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at, changed_at, claim_token, "
	"last_error) SELECT N''relay'', n.id, n.status, n.attempts, n.next_retry_at, "
	"COALESCE(n.claimed_at, SYSUTCDATETIME()), n.claim_token, n.last_error FROM inserted AS n "
	"WHERE NOT EXISTS (SELECT 1 FROM outbox_exception AS x WHERE x.id = n.id); END');"
	"EXEC(N'CREATE TRIGGER native_insert ON native INSTEAD OF INSERT AS BEGIN SET NOCOUNT ON; "
	"INSERT INTO outbox(topic, partition_key, payload) SELECT topic, partition_key, payload FROM inserted; "
	"INSERT INTO outbox_exception(subscription, id, state, attempts) SELECT N''relay'', "
	"(SELECT MAX(t.id) FROM outbox AS t), COALESCE(n.status, 0), COALESCE(n.attempts, 0) FROM inserted AS n; "
	"END');";

static void clear(void)
{
	assert_true(mssql_raw(
		NULL, NULL,
		"IF OBJECT_ID(N'native_update', N'TR') IS NOT NULL DROP TRIGGER native_update; "
		"IF OBJECT_ID(N'native_insert', N'TR') IS NOT NULL DROP TRIGGER native_insert; "
		"DROP VIEW IF EXISTS native",
		NULL, 0));
	tsql_clear();
}

static void enter(char *url, size_t cap)
{
	clear();
	tsql_enter(url, cap);
}

/* Positions, which are row versions, as the ids of tests. */
static void translate(const char *sql, char *out, size_t cap)
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

/* ---- what only SQL Server has ---- */

/* Its owner gives it a new row version. */
static void a_message_that_its_owner_changes_is_delivered_again(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "10ms");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_sql(f, "UPDATE outbox SET topic = 'u' WHERE id = 1");
	assert_int_equal(relay_count(f, WHERRY_PENDING), 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 2);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 1);
}

static void a_dead_message_that_its_owner_changes_stays_dead(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "10ms");
	relay_put(f, "ab");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	relay_sql(f, "UPDATE outbox SET topic = 'u' WHERE id IN (1, 2)");
	RELAY_UNTIL(f, &f->a, relay_told(f, 2, WHERRY_DELIVERED) == 2);
	assert_int_equal(relay_state(f, 1), WHERRY_DEAD);
	assert_int_equal(relay_told(f, 1, WHERRY_REJECTED), 1);
}

/* What is committed behind it is pending until its transaction ends. */
static void an_open_producer_holds_up_what_comes_after_it(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *open = tsql_connect();

	relay_start(f, &f->a);
	WHERRY_PASS(wherry_db_begin(open, &err));
	WHERRY_PASS(wh_db_script(
		open, "INSERT INTO outbox(topic, payload) VALUES (N't', N'')", &err));
	relay_put(f, "a");
	for (int i = 0; i < 10; i++)
		relay_turn(f, &f->a, relay_deadline(), "turns", __LINE__, __FILE__);
	assert_int_equal(relay_delivered(f), 0);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 1);
	WHERRY_PASS(wherry_db_commit(open, &err));
	tsql_disconnect(open);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

static const relay_test own[] = {
	RELAY_TEST(a_message_that_its_owner_changes_is_delivered_again, 0),
	RELAY_TEST(a_dead_message_that_its_owner_changes_stays_dead, 0),
	RELAY_TEST(an_open_producer_holds_up_what_comes_after_it, 0),
	RELAY_TESTS_END,
};

/* Tests that do not run on a log, and those that do not run on SQL Server; see relay_odbc_mssql_test.c. */
static const char *except[64] = {
	"an_infinite_time_stops_nothing",
	"the_destination_of_dead_letters_may_ask_for_patience",
	/* Nobody consumes a log there in SQL. */
	"consumers_and_relays_go_on_where_the_other_ended",
	"a_consumer_takes_what_a_relay_left_and_no_dead_message",
};

#define ON_A_LOG                                                                         \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, TSQL_RELAYS, .layout = "log",     \
	.leads = true, .views = view, .translate = translate

int main(void)
{
	static relay_target targets[] = {
		{
			.name = "log",
			ON_A_LOG,
			.own = relay_log_tests,
			.except = except,
			.schedules = 2,
		},
		{
			.name = "versions",
			ON_A_LOG,
			.own = own,
			.own_only = true,
		},
	};
	int failed;

	if (!tsql_start())
		return 0;
	for (size_t i = 0; relay_log_except[i]; i++)
		except[i + 4] = relay_log_except[i];
	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		targets[i].make = enter;
		targets[i].drop = clear;
	}
	failed = relay_suite(targets, sizeof(targets) / sizeof(*targets));
	tsql_end();
	return failed;
}
