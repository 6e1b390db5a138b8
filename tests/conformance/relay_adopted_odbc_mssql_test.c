/*
 * The relay on a table of another program on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_adopted.h"
#include "relay_log.h"

#include <stdio.h>
#include <string.h>

#include "tsql.h"
#include "tsql_log.h"

static const char views[] =
	TSQL_LOG_VIEW("events", "t.wherry_rv", "t.published_at IS NOT NULL");

/* The table "older" of relay_adopting_tests. */
static const char make_older[] =
	"CREATE TABLE older(id BIGINT PRIMARY KEY, topic NVARCHAR(255) NOT NULL, partition_key NVARCHAR(255), "
	"payload NVARCHAR(MAX) NOT NULL, sent_at DATETIME2(3)); "
	"INSERT INTO older(id, topic, payload) VALUES (3, 't', 'a'), (5, 't', 'b'), (9, 't', 'c')";

static void translate(const char *sql, char *out, size_t cap)
{
	char text[8192];

	if (strncmp(sql, "CREATE TABLE older", 18) == 0) {
		(void)snprintf(out, cap, "%s", make_older);
	} else if (strcmp(sql, "ALTER TABLE older ADD COLUMN headers TEXT") == 0) {
		(void)snprintf(out, cap, "ALTER TABLE older ADD headers NVARCHAR(MAX)");
	} else if (strcmp(sql, "SELECT high FROM outbox_progress") == 0) {
		(void)snprintf(
			out, cap,
			"SELECT COUNT(*) FROM events AS t JOIN outbox_progress AS p "
			"ON t.published_at IS NOT NULL OR CONVERT(BIGINT, t.wherry_rv) <= p.high");
	} else if (strcmp(sql, "UPDATE outbox_progress SET high = 1") == 0) {
		(void)snprintf(
			out, cap,
			"UPDATE outbox_progress SET high = (SELECT CONVERT(BIGINT, "
			"wherry_rv) FROM events WHERE id = 1)");
	} else if (strcmp(sql, "DROP TABLE outbox") == 0) {
		(void)snprintf(
			out, cap,
			"DROP TRIGGER native_update; DROP TRIGGER native_insert; DROP VIEW native; "
			"DROP TRIGGER outbox_keep; DROP VIEW outbox; DROP TABLE events");
	} else {
		relay_adopted_translate(sql, text, sizeof(text));
		tsql_translate(text, out, cap);
	}
}

static void enter(char *url, size_t cap)
{
	tsql_log_clear();
	tsql_enter(url, cap);
}

/* As on a log on SQL Server; see relay_log_odbc_mssql_test.c. */
static const char *const more[] = {"an_infinite_time_stops_nothing",
				   "the_destination_of_dead_letters_may_ask_for_patience",
				   NULL};

/* They may have one row version, as on Babelfish, and then no position is between them. */
static void rows_of_one_statement_are_delivered_whatever_the_window(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.window", "3");
	relay_set(f, "relay.batch", "2");
	for (int i = 0; i < 3; i++)
		relay_sql(
			f,
			"INSERT INTO events(topic, partition_key, payload) VALUES "
			"(N't', N'a', N'1'), (N't', N'b', N'2'), (N't', N'a', N'3'), (N't', N'c', N'4'), (N't', N'a', N'5')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 15);
	relay_check_once(f, 15);
	relay_check_order(f);
}

/* An update gives it a new row version. */
static void a_row_that_its_owner_changes_is_delivered_again_until_it_is_done(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "retry.attempts", "1");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(
		f, &f->a,
		relay_number(
			f,
			"SELECT count(*) FROM events WHERE published_at IS NOT NULL") ==
			1);
	relay_sql(f, "UPDATE events SET topic = N'u'");
	relay_quiet(f, &f->a);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 1);
	assert_int_equal(relay_state(f, 1), WHERRY_DEAD);
	relay_sql(f, "UPDATE events SET published_at = NULL WHERE id = 2");
	RELAY_UNTIL(f, &f->a, relay_told(f, 2, WHERRY_DELIVERED) == 2);
}

static const relay_test own[] = {
	RELAY_TEST(rows_of_one_statement_are_delivered_whatever_the_window, 0),
	RELAY_TEST(a_row_that_its_owner_changes_is_delivered_again_until_it_is_done, 0),
	RELAY_TESTS_END,
};

#define ON_EVENTS                                                                        \
	TSQL_RELAYS, .is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .leads = true,       \
		     .views = views, .translate = translate, .put = relay_adopted_put,   \
		     .schedules = 2

int main(void)
{
	relay_target targets[] = {
		{
			.name = "adopted",
			ON_EVENTS,
			.adopt = relay_adopt_deleted,
			.own = relay_log_tests,
			.own_only = true, /* The others run on rows that are marked. */
		},
		{
			.name = "marked",
			ON_EVENTS,
			.adopt = relay_adopt_marked,
			.own = relay_adopted_tests,
			.check = relay_adopted_check,
			.hides_done = true,
		},
		{
			.name = "adopting",
			ON_EVENTS,
			.adopt = relay_adopt_marked,
			.own = relay_adopting_tests,
			.own_only = true,
		},
		{
			.name = "versions",
			ON_EVENTS,
			.adopt = relay_adopt_marked,
			.own = own,
			.own_only = true,
			.hides_done = true,
		},
	};
	int failed;

	if (!tsql_start())
		return 0;
	targets[1].except = relay_adopted_except(true, more);
	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		targets[i].make = enter;
		targets[i].drop = tsql_log_clear;
	}
	failed = relay_suite(targets, sizeof(targets) / sizeof(*targets));
	tsql_end();
	return failed;
}
