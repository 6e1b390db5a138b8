/*
 * The relay on a log on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_log.h"

#include "tsql.h"
#include "tsql_log.h"

#include "db/driver.h"

/* ---- what only SQL Server has ---- */

/* Its owner gives it a new row version. */
WHERRY_CASE(a_message_that_its_owner_changes_is_delivered_again, relay_fixture *f)
{
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

WHERRY_CASE(a_dead_message_that_its_owner_changes_stays_dead, relay_fixture *f)
{
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
WHERRY_CASE(an_open_producer_holds_up_what_comes_after_it, relay_fixture *f)
{
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

static void kill_others(relay_fixture *f)
{
	relay_sql(f, "DECLARE @sql NVARCHAR(MAX) = (SELECT STRING_AGG(CONCAT(N'KILL ', "
		     "session_id), N'; ') FROM sys.dm_exec_sessions WHERE session_id <> "
		     "@@SPID AND database_id = DB_ID()); EXEC (@sql)");
}

WHERRY_CASE(a_relay_whose_session_is_killed_connects_again, relay_fixture *f)
{
	relay_put(f, "ab");
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	kill_others(f);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_stats(&f->a).delivered, 4);
}

/* By its own connection, which has the setting. */
WHERRY_CASE(an_idle_relay_looks_as_rarely_as_db_look_says, relay_fixture *f)
{
	relay_hourly(f);
	relay_set(f, "db.poll_interval", "1h");
	relay_put(f, "a");
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 2 * WH_SECOND);
	relay_put(f, "b");
	for (int i = 0; i < 10; i++)
		relay_turn(f, &f->a, relay_deadline(), "turns", __LINE__, __FILE__);
	assert_int_equal(relay_stats(&f->a).delivered, 1);
}

/* They may have one row version, as on Babelfish, and then no position is between them. */
static void rows_of_one_statement_are_delivered_whatever_the_window(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.window", "3");
	relay_set(f, "relay.batch", "2");
	for (int i = 0; i < 3; i++)
		relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload) VALUES "
			     "(N't', N'a', N'1'), (N't', N'b', N'2'), "
			     "(N't', N'a', N'3'), (N't', N'c', N'4'), "
			     "(N't', N'a', N'5')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 15);
	relay_check_once(f, 15);
	relay_check_order(f);
}

static void enter(char *url, size_t cap)
{
	tsql_log_clear();
	tsql_enter(url, cap);
}

static const relay_test own[] = {
	RELAY_TEST(a_message_that_its_owner_changes_is_delivered_again, 0),
	RELAY_TEST(a_dead_message_that_its_owner_changes_stays_dead, 0),
	RELAY_TEST(an_open_producer_holds_up_what_comes_after_it, 0),
	RELAY_TEST(a_relay_whose_session_is_killed_connects_again, 0),
	RELAY_TEST(an_idle_relay_looks_as_rarely_as_db_look_says, 0),
	RELAY_TEST(rows_of_one_statement_are_delivered_whatever_the_window, 0),
	RELAY_TESTS_END,
};

/* Tests that do not run on a log, and those that do not run on SQL Server: it has no infinite times, and one test adds a
 * number to a time. */
static const char *except[64] = {
	"an_infinite_time_stops_nothing",
	"the_destination_of_dead_letters_may_ask_for_patience",
};

#define ON_A_LOG                                                                         \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, TSQL_RELAYS, .layout = "log",     \
	.leads = true, .views = tsql_log_view, .translate = tsql_log_translate

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
		except[i + 2] = relay_log_except[i];
	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		targets[i].make = enter;
		targets[i].drop = tsql_log_clear;
	}
	failed = relay_suite(targets, sizeof(targets) / sizeof(*targets));
	tsql_end();
	return failed;
}
