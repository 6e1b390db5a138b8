/*
 * A run whose disk is recorded: producers, a relay, an operator and checkpoints, one after
 * the other as the seed says; and what is to be known of it afterwards.
 */
#ifndef POWER_RUN_H
#define POWER_RUN_H

#include "wherry_test.h"

#include <sqlite3.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "db/driver.h"
#include "disk.h"

/* How everybody commits. */
typedef struct power_plan {
	const char *name;
	bool wal;                /* or a rollback journal */
	const char *synchronous; /* of the producer that uses SQLite alone */
	const char *own,
		*relay; /* db.synchronous of the producer that uses Wherry, and of
				  * the relay */
} power_plan;

enum { POWER_KEYS = 5 };

typedef struct power_message {
	int tx;
	int key; /* POWER_KEYS: none */
	int n;   /* its place within its key */
} power_message;

typedef struct power_tx {
	int n; /* messages, and rows of the ledger */
	bool committed;
	bool full;    /* with synchronous=FULL */
	size_t ended; /* the moment at which COMMIT had returned */
} power_tx;

typedef struct power_delivery {
	int message;
	size_t moment;
} power_delivery;

/* What the database held after a commit, by anyone. */
typedef struct power_shot {
	uint64_t hash;
	size_t moment;
	bool full; /* and everything before it is on disk */
} power_shot;

enum { POWER_MESSAGES = 4096, POWER_TXS = 2048, POWER_SHOTS = 8192 };

/* One connection of Wherry's own. */
typedef struct power_side {
	struct power_run *run;
	wherry_db *db, *inner;
	bool full;
} power_side;

typedef struct power_run {
	const power_plan *plan;
	uint64_t random;
	disk *disk;
	wherry_temp temp;
	char url[160];
	wh_env env;
	wherry_config *config;

	sqlite3 *watcher;  /* looks at what was committed */
	sqlite3 *app;      /* a producer without Wherry */
	power_side own;    /* a producer with Wherry, and the operator */
	power_side relays; /* the relay's */
	wherry_outbox *outbox;
	wherry_publisher *pub;
	wherry_relay *relay;
	int64_t seen; /* the watcher's data_version */

	power_message messages[POWER_MESSAGES];
	power_tx txs[POWER_TXS];
	power_delivery deliveries[POWER_MESSAGES * 2];
	power_shot shots[POWER_SHOTS];
	int n_messages, n_txs, n_deliveries, n_shots;
	int next[POWER_KEYS + 1]; /* of each key */
} power_run;

/* Record a run.  given: power_clear() it. */
void power_record(power_run *run, const power_plan *plan, uint64_t seed, int steps);
void power_clear(power_run *run);

/* ---- looking into a database ---- */

/* Everything in all tables. */
uint64_t power_hash(sqlite3 *handle);
void power_sql(sqlite3 *handle, const char *sql);
int64_t power_number(sqlite3 *handle, const char *sql); /* the first column */
void power_text(sqlite3 *handle, const char *sql, char *out, size_t cap);

#endif
