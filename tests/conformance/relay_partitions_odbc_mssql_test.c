/*
 * Several relays share a subscription of a log on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_log.h"
#include "relay_partitions.h"

#include "mssql/backend.h"
#include "outbox/outbox.h"
#include "tsql.h"
#include "tsql_log.h"

#include "db/driver.h"

static int64_t partition(relay_fixture *f, char key)
{
	char sql[120];

	(void)snprintf(
		sql, sizeof(sql),
		"SELECT CAST(SUBSTRING(HASHBYTES('SHA2_256', N'%c'), 1, 1) AS INT) & 63",
		key);
	return relay_number(f, sql);
}

static void *begin_put(relay_fixture *f, char key)
{
	wherry_db *db = tsql_connect();
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[120];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(topic, partition_key, payload) "
		       "VALUES (N't', N'%c', N'{}')",
		       key);
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(db, sql, &err));
	return db;
}

static void end(void *transaction, bool commit)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (commit)
		WHERRY_PASS(wherry_db_commit(transaction, &err));
	else
		wherry_db_rollback(transaction);
	tsql_disconnect(transaction);
}

/* Of all shares, and of all keys. */
WHERRY_CASE(an_open_producer_holds_up_every_share, relay_fixture *f)
{
	void *open;

	shares_of_log(f);
	shares_start_two(f);
	open = begin_put(f, shares_key(f, 0, 0));
	shares_put(f, shares_key(f, 0, 0), 2);
	shares_put(f, shares_key(f, 0, 1), 2);
	shares_put(f, shares_key(f, 1, 0), 2);
	for (int i = 0; i < 10; i++)
		shares_turn(f, relay_deadline(), "turns", __LINE__, __FILE__);
	assert_int_equal(relay_delivered(f), 0);
	end(open, true);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 7);
	relay_check_once(f, 7);
	relay_check_order(f);
}

static const relay_test own[] = {
	RELAY_TEST(an_open_producer_holds_up_every_share, 0),
	RELAY_TESTS_END,
};

static void enter(char *url, size_t cap)
{
	tsql_log_clear();
	tsql_enter(url, cap);
}

#define TARGET(tests, extras_)                                                           \
	{                                                                                \
		.name = "log, partitions",                                               \
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, TSQL_RELAYS,              \
		.own = (tests), .own_only = true, .extras = (extras_), .layout = "log",  \
		.views = tsql_log_view, .translate = tsql_log_translate,                 \
	}

int main(void)
{
	static const relay_shares_words spoken = {
		.lives = "expires_at > SYSUTCDATETIME()",
		.partition = partition,
		.begin_put = begin_put,
		.end = end,
		.positions = "SELECT COUNT(DISTINCT high) FROM outbox_progress",
		.highest =
			"SELECT MAX(w.n) FROM (SELECT (SELECT COUNT(*) FROM outbox AS t WHERE CONVERT(BIGINT, t.rv) "
			"<= p.high) AS n FROM outbox_progress AS p) AS w",
		.bits = "SELECT COUNT(*) FROM outbox_progress AS p CROSS JOIN (SELECT TOP (64) ROW_NUMBER() OVER "
			"(ORDER BY object_id) - 1 AS n FROM sys.all_columns) AS b WHERE p.mask & CASE b.n WHEN 63 THEN "
			"CAST(-9223372036854775808 AS BIGINT) ELSE POWER(CAST(2 AS BIGINT), b.n % 63) END <> 0",
		.alone = "UPDATE outbox_progress SET shared = 0",
	};
	static const char *const except[] = {
		/* 800 messages of one key, one after the other, take minutes on Babelfish. */
		"a_hot_key_that_is_stuck_stops_nobody_else",
		/* An open producer holds up what comes after it. */
		"a_lower_id_that_is_committed_late_is_delivered_by_its_relay",
		"late_ids_of_a_share_leave_before_higher_ones", NULL};
	static relay_target targets[] = {
		TARGET(relay_partitions_tests, WH_PARTITIONS_SHARED),
		TARGET(relay_log_shares_tests, 0),
		TARGET(own, 0),
	};
	int failed;

	if (!tsql_start())
		return 0;
	shares_of_log_speak(&spoken);
	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		targets[i].make = enter;
		targets[i].except = mssql_is_babelfish() ? except : except + 1;
		targets[i].drop = tsql_log_clear;
	}
	failed = relay_suite(targets, sizeof(targets) / sizeof(*targets));
	tsql_end();
	return failed;
}
