/*
 * The table that Debezium reads, for tests of relays that stream from the WAL: ids are numbers
 * as text, in the order in which rows were written.
 */
#ifndef RELAY_POSTGRES_DEBEZIUM_H
#define RELAY_POSTGRES_DEBEZIUM_H

#include "relay_suite.h"

#include "postgres/server.h"

#define DEBEZIUM_TABLE                                                                   \
	"CREATE SEQUENCE outbox_numbers; "                                               \
	"CREATE TABLE outbox(id text PRIMARY KEY DEFAULT nextval('outbox_numbers'), "    \
	"aggregatetype text NOT NULL DEFAULT 't', aggregateid text NOT NULL, "           \
	"type text NOT NULL DEFAULT 'Made', payload text DEFAULT '{}');"
#define DEBEZIUM_PUT "INSERT INTO outbox(aggregateid) VALUES ('a')"

static inline void debezium_make(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(db, DEBEZIUM_TABLE, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
}

/* A row without a key has an aggregate of its own. */
static inline void debezium_put(relay_fixture *f, const char *keys)
{
	char sql[400];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(aggregateid) SELECT CASE WHEN k = '-' THEN "
		       "md5(random()::text) ELSE k END FROM unnest(string_to_array('%s', "
		       "NULL)) WITH ORDINALITY AS t(k, n) ORDER BY n",
		       keys);
	relay_sql(f, sql);
}

static inline void debezium_hourly(relay_fixture *f)
{
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
}

static inline void debezium_start(relay_fixture *f, relay_side *side)
{
	relay_stream(f, side);
	relay_quiet(f, side);
}

#define DEBEZIUM_TARGET                                                                  \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .make = postgres_enter,           \
	.adopt = debezium_make, .put = debezium_put, .numbers = true, .own_only = true

/* A whole program: these tests on Debezium's table. */
static inline int debezium_run(const relay_test *own)
{
	const relay_target target = {.name = "stream",
				     DEBEZIUM_TARGET,
				     .drop = postgres_leave_slots,
				     .own = own};

	return postgres_start_logical() ? relay_suite(&target, 1) : 0;
}

#endif
