/*
 * A foreign transaction keeps a row locked on SQL Server, while its message is in flight: others go on, and the
 * relay says so.  A TDS server at hand makes an acknowledgement wait for the row, as SQL Server does, but passes
 * over no locked row: where the relay asks which rows are locked, a view hides this one.
 */
#include "relay_suite.h"

#include "relay_delayed.h"
#include "relay_funfix.h"
#include "relay_queue.h"
#include "tsql.h"

#include "db/driver.h"

static wherry_db *lock_row(const relay_fixture *f, int64_t id)
{
	wherry_db *db = tsql_connect();
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[100];

	WHERRY_PASS(wherry_db_begin(db, &err));
	(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s WHERE id = %lld",
		       f->queue     ? "jobs"
		       : f->delayed ? "later"
				    : "outbox",
		       f->delayed ? "payload = payload" : "attempts = attempts",
		       (long long)id);
	WHERRY_PASS(wh_db_script(db, sql, &err));
	return db;
}

WHERRY_CASE(a_delivered_row_that_is_locked_holds_up_no_other, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	wherry_db *other;

	fake->by_hand = true;
	relay_set(f, "db.busy_timeout", "500ms");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	tsql_pass_over_locked(f->a.relay, TSQL_BY_LOCKS);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	relay_sql(f, "INSERT INTO locked VALUES (1)");
	other = lock_row(f, 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	fake->by_hand = false;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=row-locked"));
	wherry_db_rollback(other);
	tsql_disconnect(other);
	relay_sql(f, "DELETE FROM locked");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_check_once(f, 2);
}

static const relay_test tests[] = {
	RELAY_TEST(a_delivered_row_that_is_locked_holds_up_no_other, 0),
	RELAY_TESTS_END,
};

int main(void)
{
#define PLACE TSQL_RELAYS, .own = tests, .own_only = true, .is = RELAY_OTHERS
#define OF_OTHERS(tables_, views_)                                                       \
	.tables = (tables_), .views = (views_), .translate = tsql_translate_native,      \
	.keeps_ids = true
	static const relay_target targets[] = {
		{.name = "eventferry",
		 PLACE,
		 .layout = "eventferry",
		 .translate = tsql_translate},
		{.name = "queue",
		 PLACE,
		 .queue = true,
		 OF_OTHERS(relay_queue_mssql_tables, relay_queue_mssql_views)},
		{.name = "delayed",
		 PLACE,
		 .delayed = true,
		 OF_OTHERS(relay_delayed_mssql_tables, relay_delayed_mssql_views)},
		{.name = "funfix",
		 PLACE,
		 .delayed = true,
		 .layout = "funfix",
		 OF_OTHERS(relay_funfix_mssql_tables, relay_funfix_mssql_views)},
	};
	int failed;

	if (!tsql_start())
		return 0;
	failed = relay_suite(targets, sizeof(targets) / sizeof(*targets));
	tsql_end();
	return failed;
}
