/*
 * The SQL functions on PostgreSQL beside the statements that a program writes by hand for the
 * same tables, both prepared.  A rate is for each second of processor time that the server
 * spends on the connection: neither the network nor the disk belongs to it.
 */
#include "bench.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

/* $1 is the number of the call, from 1. */
typedef struct sql_case {
	const char *name;
	const char *before; /* $1: how many calls there will be; NULL: nothing */
	const char *ours, *hand;
} sql_case;

#define TAKEN                                                                               \
	"ARRAY(SELECT * FROM (SELECT id FROM jobs WHERE state = 0 ORDER BY id + 0 LIMIT 1 " \
	"FOR UPDATE SKIP LOCKED) AS ready UNION ALL SELECT * FROM (SELECT id FROM jobs "    \
	"WHERE state IN (1, 3) AND available_at <= now() ORDER BY available_at LIMIT 1 "    \
	"FOR UPDATE SKIP LOCKED) AS due LIMIT 1)"
#define LEASE                                                                            \
	"UPDATE jobs SET state = 1, attempts = attempts + 1, lease_token = "             \
	"gen_random_uuid(), available_at = now() + interval '30 s' WHERE id = "          \
	"ANY (" TAKEN ") RETURNING id, message_id, headers, body, attempts, "            \
	"lease_token, created_at"
#define READY "INSERT INTO jobs(body) SELECT '{}' FROM generate_series(1, $1::bigint)"
#define LEASED_OF(n)                                                                     \
	"INSERT INTO jobs(id, body, state, attempts, lease_token, available_at) "        \
	"SELECT i, '{}', 1, 1, 't', now() + interval '1 h' FROM generate_series(1, " n   \
	" * $1::bigint) AS i"
#define LEASED LEASED_OF("1")
#define LEASED_TEN LEASED_OF("10")
#define TEN "ARRAY(SELECT generate_series(10 * $1::bigint - 9, 10 * $1::bigint))"
#define OWN_TEN "WHERE id = ANY (" TEN ") AND lease_token = 't' AND state + 0 = 1"
#define OWN "WHERE id = $1::bigint AND lease_token = 't' AND state + 0 = 1"
#define KIND "md5('bench|bytes')"
#define POLL                                                                             \
	"UPDATE delayed SET \"lockUuid\" = gen_random_uuid(), due_at = "                 \
	"\"scheduledAt\", \"scheduledAt\" = 9000000000000, attempts = attempts + 1 "     \
	"WHERE id = ANY (ARRAY(SELECT id FROM delayed WHERE \"pKind\" = " KIND           \
	" AND \"scheduledAt\" <= 4000000000000 ORDER BY \"pKind\", \"scheduledAt\", "    \
	"id LIMIT 1 FOR UPDATE SKIP LOCKED)) RETURNING id, \"pKey\", payload, "          \
	"attempts, \"lockUuid\""
#define WAITING                                                                          \
	"INSERT INTO delayed(\"pKey\", \"pKind\", payload, \"scheduledAt\", "            \
	"\"scheduledAtInitially\", \"createdAt\") SELECT i, " KIND                       \
	", 'x', 1000, 1000, 1000 FROM generate_series(1, $1::bigint) AS i"
#define POLLED_OF(n)                                                                     \
	"INSERT INTO delayed(id, \"pKey\", \"pKind\", payload, \"scheduledAt\", "        \
	"\"scheduledAtInitially\", \"createdAt\", \"lockUuid\") SELECT i, i, " KIND      \
	", 'x', 9000000000000, 1000, 1000, 't' FROM generate_series(1, " n               \
	" * $1::bigint) AS i"
#define POLLED POLLED_OF("1")
#define POLLED_TEN POLLED_OF("10")
#define HELD "WHERE id = $1::bigint AND \"pKind\" || '' = " KIND " AND \"lockUuid\" = 't'"
#define HELD_TOKEN "concat($1::bigint, '.1000.t')"
#define HELD_TEN                                                                         \
	"WHERE id = ANY (" TEN ") AND \"pKind\" || '' = " KIND " AND \"lockUuid\" = 't'"
#define TEN_TOKENS                                                                       \
	"ARRAY(SELECT concat(i, '.1000.t') FROM generate_series(10 * $1::bigint - 9, 10 * $1::bigint) AS i)"
#define TEN_TEXTS                                                                        \
	"ARRAY(SELECT i::text FROM generate_series(10 * $1::bigint - 9, 10 * $1::bigint) AS i)"
#define TEN_JSON                                                                         \
	"ARRAY(SELECT i::text::json FROM generate_series(10 * $1::bigint - 9, 10 * $1::bigint) AS i)"
#define TEN_BYTES                                                                        \
	"ARRAY(SELECT convert_to(i::text, 'UTF8') FROM generate_series(10 * $1::bigint - 9, 10 * $1::bigint) AS i)"
#define TEN_OF(text) "array_fill(" text "::text, ARRAY[10])"

#define DEAD                                                                             \
	"INSERT INTO delayed_dead(id, \"pKey\", \"pKind\", payload, "                    \
	"\"scheduledAtInitially\", \"createdAt\", attempts, died_at, last_error) "       \
	"SELECT id, \"pKey\", \"pKind\", payload, \"scheduledAtInitially\", "            \
	"\"createdAt\", attempts, 1000, 'it failed' FROM gone"

static const sql_case cases[] = {
	{"wherry_send", NULL, "SELECT wherry_send('jobs', $1::bigint::text::json)",
	 "INSERT INTO jobs(body) VALUES ($1::bigint::text::json) RETURNING id"},
	{"wherry_send_many, 10", NULL, "SELECT wherry_send_many('jobs', " TEN_JSON ")",
	 "INSERT INTO jobs(body) SELECT unnest(" TEN_JSON ") RETURNING id"},
	{"wherry_publish",
	 "INSERT INTO wherry_subscription SELECT 'bench', 'jobs' WHERE $1::bigint > 0",
	 "SELECT wherry_publish('bench', $1::bigint::text::json)",
	 "INSERT INTO jobs(topic, body) SELECT topic, $1::bigint::text::json FROM "
	 "wherry_subscription WHERE topic = 'bench' AND queue = 'jobs'"},
	{"wherry_receive", READY, "SELECT * FROM wherry_receive('jobs')", LEASE},
	{"wherry_receive, no message", NULL, "SELECT * FROM wherry_receive('jobs')",
	 LEASE},
	{"wherry_receive, deleting", READY,
	 "SELECT * FROM wherry_receive('jobs', lease => NULL)",
	 "DELETE FROM jobs WHERE id = ANY (" TAKEN
	 ") RETURNING id, message_id, headers, body, created_at"},
	{"wherry_ack", LEASED, "SELECT wherry_ack('jobs', $1::bigint, 't')",
	 "DELETE FROM jobs " OWN},
	{"wherry_nack", LEASED, "SELECT wherry_nack('jobs', $1::bigint, 't')",
	 "UPDATE jobs SET state = 3, available_at = now(), lease_token = NULL " OWN},
	{"wherry_extend", LEASED, "SELECT wherry_extend('jobs', $1::bigint, 't')",
	 "UPDATE jobs SET available_at = now() + interval '30 s' " OWN},
	{"wherry_dead_letter", LEASED,
	 "SELECT wherry_dead_letter('jobs', $1::bigint, 't', 'it failed')",
	 "UPDATE jobs SET state = 4, available_at = NULL, lease_token = NULL, "
	 "last_error = 'it failed' " OWN},
	{"wherry_ack_many, 10", LEASED_TEN,
	 "SELECT wherry_ack_many('jobs', " TEN ", 't')", "DELETE FROM jobs " OWN_TEN},
	{"wherry_nack_many, 10", LEASED_TEN,
	 "SELECT wherry_nack_many('jobs', " TEN ", 't')",
	 "UPDATE jobs SET state = 3, available_at = now(), lease_token = NULL " OWN_TEN},
	{"wherry_extend_many, 10", LEASED_TEN,
	 "SELECT wherry_extend_many('jobs', " TEN ", 't')",
	 "UPDATE jobs SET available_at = now() + interval '30 s' " OWN_TEN},
	{"wherry_dead_letter_many, 10", LEASED_TEN,
	 "SELECT wherry_dead_letter_many('jobs', " TEN ", 't', 'it failed')",
	 "UPDATE jobs SET state = 4, available_at = NULL, lease_token = NULL, "
	 "last_error = 'it failed' " OWN_TEN},
	{"wherry_cancel", READY, "SELECT wherry_cancel('jobs', $1::bigint)",
	 "DELETE FROM jobs WHERE id = $1::bigint AND state IN (0, 3)"},
	{"wherry_queue_length", NULL, "SELECT wherry_queue_length('jobs')",
	 "SELECT count(*) FROM jobs WHERE state = 0"},
	{"wherry_enqueue", NULL,
	 "SELECT wherry_enqueue('bench', convert_to($1::bigint::text, 'UTF8'), 'key')",
	 "INSERT INTO outbox(topic, payload, partition_key) VALUES ('bench', "
	 "convert_to($1::bigint::text, 'UTF8'), 'key') RETURNING id"},
	{"wherry_enqueue_many, 10", NULL,
	 "SELECT wherry_enqueue_many(" TEN_OF("'bench'") ", " TEN_BYTES
							 ", " TEN_OF("'key'") ")",
	 "INSERT INTO outbox(topic, payload, partition_key) SELECT * FROM unnest(" TEN_OF(
		 "'bench'") ", " TEN_BYTES ", " TEN_OF("'key'") ") RETURNING id"},
	{"wherry_consume, by 10",
	 "INSERT INTO outbox(topic, payload) SELECT 'bench', '{}' FROM generate_series(1, "
	 "10 * $1::bigint)",
	 "SELECT * FROM wherry_consume('bench', 10) WHERE $1::bigint > 0",
	 "WITH at AS (SELECT high FROM outbox_progress WHERE subscription = 'bench' FOR "
	 "UPDATE), got AS (SELECT o.id, o.message_id, o.topic, o.partition_key, o.headers, "
	 "o.payload, o.created_at FROM at, outbox AS o WHERE o.id > at.high AND $1::bigint > "
	 "0 ORDER BY o.id LIMIT 10), moved AS (UPDATE outbox_progress SET high = "
	 "greatest(high, (SELECT max(id) FROM got)) WHERE subscription = 'bench') SELECT * "
	 "FROM got ORDER BY id"},
	{"wherry_accept", NULL, "SELECT wherry_accept($1::bigint::text)",
	 "INSERT INTO inbox(message_id) VALUES ($1::bigint::text) ON CONFLICT DO NOTHING"},
	{"wherry_offer", NULL,
	 "SELECT wherry_offer('bench', $1::bigint::text, 'x'::text)",
	 "INSERT INTO delayed(\"pKey\", \"pKind\", payload, \"scheduledAt\", "
	 "\"scheduledAtInitially\", \"createdAt\") VALUES ($1::bigint, " KIND
	 ", 'x', 1000, "
	 "1000, 1000) ON CONFLICT (\"pKind\", \"pKey\") DO UPDATE SET payload = "
	 "excluded.payload, \"scheduledAt\" = excluded.\"scheduledAt\", \"lockUuid\" = NULL"},
	{"wherry_offer_many, 10", NULL,
	 "SELECT wherry_offer_many('bench', " TEN_TEXTS ", " TEN_OF("'x'") ")",
	 "INSERT INTO delayed(\"pKey\", \"pKind\", payload, \"scheduledAt\", "
	 "\"scheduledAtInitially\", \"createdAt\") SELECT k, " KIND
	 ", convert_to(b, 'UTF8'), 1000, 1000, "
	 "1000 FROM unnest(" TEN_TEXTS ", " TEN_OF(
		 "'x'") ") AS m(k, b) ON CONFLICT (\"pKind\", \"pKey\") DO "
			"UPDATE SET payload = excluded.payload, \"scheduledAt\" = excluded.\"scheduledAt\", \"lockUuid\" = NULL "
			"RETURNING updates"},
	{"wherry_poll", WAITING, "SELECT * FROM wherry_poll('bench')", POLL},
	{"wherry_poll, no message", NULL, "SELECT * FROM wherry_poll('bench')", POLL},
	{"wherry_done", POLLED, "SELECT wherry_done('bench', " HELD_TOKEN ")",
	 "DELETE FROM delayed " HELD},
	{"wherry_delayed_nack", POLLED,
	 "SELECT wherry_delayed_nack('bench', " HELD_TOKEN ")",
	 "UPDATE delayed SET \"scheduledAt\" = 1000, \"lockUuid\" = NULL " HELD},
	{"wherry_delayed_extend", POLLED,
	 "SELECT wherry_delayed_extend('bench', " HELD_TOKEN ")",
	 "UPDATE delayed SET \"scheduledAt\" = 9000000030000 " HELD},
	{"wherry_delayed_dead_letter", POLLED,
	 "SELECT wherry_delayed_dead_letter('bench', " HELD_TOKEN ", 'it failed')",
	 "WITH gone AS (DELETE FROM delayed " HELD " RETURNING *) " DEAD},
	{"wherry_done_many, 10", POLLED_TEN,
	 "SELECT wherry_done_many('bench', " TEN_TOKENS ")",
	 "DELETE FROM delayed " HELD_TEN},
	{"wherry_delayed_nack_many, 10", POLLED_TEN,
	 "SELECT wherry_delayed_nack_many('bench', " TEN_TOKENS ")",
	 "UPDATE delayed SET \"scheduledAt\" = 1000, \"lockUuid\" = NULL " HELD_TEN},
	{"wherry_delayed_extend_many, 10", POLLED_TEN,
	 "SELECT wherry_delayed_extend_many('bench', " TEN_TOKENS ")",
	 "UPDATE delayed SET \"scheduledAt\" = 9000000030000 " HELD_TEN},
	{"wherry_delayed_dead_letter_many, 10", POLLED_TEN,
	 "SELECT wherry_delayed_dead_letter_many('bench', " TEN_TOKENS ", 'it failed')",
	 "WITH gone AS (DELETE FROM delayed " HELD_TEN " RETURNING *) " DEAD},
	{"wherry_delayed_drop", WAITING,
	 "SELECT wherry_delayed_drop('bench', $1::bigint::text)",
	 "DELETE FROM delayed WHERE \"pKind\" = " KIND
	 " AND \"pKey\" = $1::bigint::text"},
};

/* Seconds that a process of the server has used; 0: not known. */
static double processor_time(int pid)
{
	char path[64], text[64] = "";
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "r");
	if (file) {
		if (!fgets(text, sizeof(text), file))
			*text = 0;
		(void)fclose(file);
	}
	return strtod(text, NULL) / 1e9;
}

static void make_tables(const bench_job *job)
{
	wherry_db *db = bench_open(job, NULL);

	bench_must(wherry_outbox_create(db, "outbox", NULL, &bench_error));
	bench_must(wherry_subscription_create(db, "outbox", "bench", NULL, &bench_error));
	bench_must(wherry_queue_create(db, "jobs", NULL, &bench_error));
	bench_must(wherry_delayed_create(db, "delayed", NULL, &bench_error));
	bench_must(wherry_inbox_create(db, "inbox", &bench_error));
	wherry_db_close(db);
}

static void call(PGconn *conn, const char *statement, int64_t number)
{
	char text[24];
	const char *values[] = {text};

	(void)snprintf(text, sizeof(text), "%" PRId64, number);
	bench_libpq_check(conn,
			  PQexecPrepared(conn, statement, 1, values, NULL, NULL, 0));
}

static void prepare(PGconn *conn, const char *name, const char *sql)
{
	static const Oid int8[] = {20};

	bench_libpq_check(conn, PQprepare(conn, name, sql, 1, int8));
}

static void run(const bench_job *job, const char *sql, double *out)
{
	const char *before = cases[job->function].before;
	PGconn *conn;
	double began;

	make_tables(job);
	conn = bench_libpq_open(job->url);
	prepare(conn, "it", sql);
	if (before) {
		prepare(conn, "before", before);
		call(conn, "before", job->messages);
	}
	bench_libpq_run(conn, "VACUUM ANALYZE");
	began = processor_time(PQbackendPID(conn));
	for (int64_t i = 1; i <= job->messages; i++)
		call(conn, "it", i);
	*out = (double)job->messages /
	       (processor_time(PQbackendPID(conn)) - began + 1e-9);
}

void bench_function_call(const bench_job *job, double *out)
{
	run(job, cases[job->function].ours, out);
}

void bench_function_by_hand(const bench_job *job, double *out)
{
	run(job, cases[job->function].hand, out);
}

const char *bench_function(int i)
{
	return i < (int)(sizeof(cases) / sizeof(*cases)) ? cases[i].name : NULL;
}
