/*
 * Several exclusive relays share an outbox on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_partitions.h"

#include "outbox/outbox.h"

#include "mssql/backend.h"
#include "tsql.h"

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

	(void)f;
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

static const relay_shares_words spoken = {
	.lives = "expires_at > SYSUTCDATETIME()",
	.partition = partition,
	.begin_put = begin_put,
	.end = end,
};

/* More messages wait behind a locked one of their key than a relay reads at once. */
static void a_key_of_a_share_that_waits_stops_no_other(void **state)
{
	relay_fixture *f = *state;
	void *open;
	char key, other;

	relay_set(f, "relay.batch", "4");
	relay_set(f, "relay.name", "relay0");
	relay_start(f, &f->a);
	tsql_pass_over_locked(f->a.relay, TSQL_BY_ENTRIES);
	relay_set(f, "relay.name", "relay1");
	relay_start(f, &f->b);
	SHARES_UNTIL(
		f,
		relay_number(f,
			     "SELECT COUNT(*) FROM wherry_lease AS a JOIN "
			     "wherry_lease AS b ON a.owner = 'relay0' AND "
			     "b.owner = 'relay1' AND a.mask = ~b.mask AND b.mask <> 0") ==
			1);
	key = shares_key(f, 0, 0);
	other = shares_key(f, 0, 1);
	open = begin_put(f, shares_key(f, 1, 0));
	relay_sql(f, "INSERT INTO locked VALUES (2)");
	shares_put(f, key, 30);
	shares_put(f, other, 10);
	SHARES_UNTIL(f, relay_delivered(f) == 10);
	shares_put(f, key, 30);
	shares_put(f, other, 10);
	SHARES_UNTIL(f, relay_delivered(f) == 20);
	end(open, false);
	relay_sql(f, "DELETE FROM locked");
	shares_put(f, key, 1);
	SHARES_UNTIL(f, relay_count(f, WHERRY_DONE) == 81);
	relay_check_order(f);
}

/* The suite's tests, and one more. */
static const relay_test *tests(void)
{
	static relay_test all[40];
	size_t n = 0;

	while (relay_partitions_tests[n].name)
		n++;
	assert_true(n + 1 < sizeof(all) / sizeof(*all));
	memcpy(all, relay_partitions_tests, n * sizeof(*all));
	all[n] = (relay_test)RELAY_TEST(a_key_of_a_share_that_waits_stops_no_other, 0);
	return all;
}

int main(void)
{
	relay_target target = {
		.name = "mssql, partitions",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		TSQL_RELAYS,
		.own = tests(),
		.own_only = true,
		.extras = WH_PARTITIONS_SHARED,
		.translate = tsql_translate,
	};

	shares_speak(&spoken);
	return tsql_relays(&target);
}
