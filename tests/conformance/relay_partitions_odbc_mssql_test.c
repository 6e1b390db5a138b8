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

int main(void)
{
	static const relay_target target = {
		.name = "mssql, partitions",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		TSQL_RELAYS,
		.own = relay_partitions_tests,
		.own_only = true,
		.extras = WH_SHARED,
		.translate = tsql_translate,
	};

	shares_speak(&spoken);
	return tsql_relays(&target);
}
