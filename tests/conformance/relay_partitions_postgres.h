/*
 * What the suite of shares says to PostgreSQL.
 */
#ifndef RELAY_PARTITIONS_POSTGRES_H
#define RELAY_PARTITIONS_POSTGRES_H

#include "relay_partitions.h"

#include "postgres/server.h"

static int64_t shares_postgres_partition(relay_fixture *f, char key)
{
	char sql[80];

	(void)snprintf(sql, sizeof(sql), "SELECT hashtextextended('=%c', 0) & 63", key);
	return relay_number(f, sql);
}

static void *shares_postgres_begin(relay_fixture *f, char key)
{
	return postgres_begin_put("READ COMMITTED", (const char[]){key, 0});
}

static void shares_postgres_end(void *transaction, bool commit)
{
	postgres_end(transaction, commit ? "COMMIT" : "ROLLBACK");
}

static const relay_shares_words shares_postgres_words = {
	.lives = "expires_at > clock_timestamp()",
	.partition = shares_postgres_partition,
	.begin_put = shares_postgres_begin,
	.end = shares_postgres_end,
	.positions = "SELECT count(DISTINCT (high, seen::text)) FROM outbox_progress",
	.highest = "SELECT max(high) FROM outbox_progress",
	.bits = "SELECT sum(length(replace(mask::bit(64)::text, '0', ''))) FROM outbox_progress",
	.alone = "UPDATE outbox_progress SET shared = false",
};

#endif
