/*
 * A relay that reads the WAL, on the table of Debezium's event router, beside pg_recvlogical, which writes the
 * same slot's output away.
 *
 * Messages are written once there is a slot, so that they come by the WAL.
 */
#include "bench.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "base/env.h"

#define FILL                                                                             \
	"INSERT INTO outbox SELECT gen_random_uuid(), 'quakes', 'key-' || i % 1000, "    \
	"'quake', to_jsonb(repeat('earth ', 33) || i) "                                  \
	"FROM generate_series($1::bigint, $2::bigint) AS i"

static wherry_code fill_part(PGconn *conn, int64_t first, int64_t last, wherry_error *err)
{
	char from[24], to[24];
	const char *values[] = {from, to};

	(void)snprintf(from, sizeof(from), "%" PRId64, first);
	(void)snprintf(to, sizeof(to), "%" PRId64, last);
	return bench_libpq_check(
		conn, PQexecPrepared(conn, "fill", 2, values, NULL, NULL, 0), err);
}

/* All that is written is on the disk when the clock starts. */
static wherry_code fill(PGconn *conn, const bench_job *job, wherry_error *err)
{
	wherry_code code = bench_libpq_check(
		conn, PQexec(conn, "SET synchronous_commit = off"), err);

	if (code == WHERRY_OK)
		code = bench_libpq_check(conn, PQprepare(conn, "fill", FILL, 0, NULL),
					 err);
	for (int64_t i = 0; code == WHERRY_OK && i < job->messages;
	     i += job->per_transaction) {
		int64_t last = i + job->per_transaction - 1;

		code = fill_part(conn, i, last < job->messages ? last : job->messages - 1,
				 err);
	}
	return code;
}

static wherry_code get(PGconn *conn, const char *sql, char *out, size_t cap,
		       wherry_error *err)
{
	PGresult *res = PQexec(conn, sql);

	if (PQntuples(res) == 1)
		(void)snprintf(out, cap, "%s", PQgetvalue(res, 0, 0));
	return bench_libpq_check(conn, res, err);
}

static wherry_code relay_once(const bench_job *job, int64_t *out_delivered,
			      wherry_error *err)
{
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;
	wherry_relay_stats stats = {.delivered = 0};
	wherry_code code = wherry_config_new(&config, err);

	if (code == WHERRY_OK)
		code = wherry_relay_open(job->url, "null:", config, &relay, err);
	if (code == WHERRY_OK)
		code = wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, err);
	if (code == WHERRY_OK)
		wherry_relay_get_stats(relay, &stats, sizeof(wherry_relay_stats));
	wherry_relay_close(relay);
	wherry_config_free(config);
	*out_delivered = stats.delivered;
	return code;
}

/* The first run finds nothing and leaves its slot. */
wherry_code bench_stream_drain(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	PGconn *conn = PQconnectdb(job->url);
	int64_t delivered = 0, began;
	wherry_code code = relay_once(job, &delivered, err);

	if (code == WHERRY_OK)
		code = fill(conn, job, err);
	if (code == WHERRY_OK)
		code = bench_libpq_check(conn, PQexec(conn, "CHECKPOINT"), err);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = relay_once(job, &delivered, err);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	PQfinish(conn);
	if (code == WHERRY_OK && delivered != job->messages)
		code = wh_fail(err, WHERRY_INVALID,
			       "%" PRId64 " of %" PRId64 " were delivered", delivered,
			       job->messages);
	return code;
}

/* ---- pg_recvlogical ---- */

/* It opens its file to append to it, so that /dev/null stays what it is. */
static wherry_code receive(const char *program, const char *url, const char *end,
			   wherry_error *err)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		(void)execl(program, "pg_recvlogical", "-d", url, "--slot", "bench",
			    "--start", "--endpos", end, "--no-loop", "-f", "/dev/null",
			    "-o", "proto_version=1", "-o", "publication_names=bench",
			    "-o", "binary=true", (char *)NULL);
		_exit(1);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_IO, "%s failed: install postgresql-client", program);
}

wherry_code bench_receive(const bench_job *job, double out[BENCH_VALUES],
			  wherry_error *err)
{
	PGconn *conn = PQconnectdb(job->url);
	char end[32] = "", program[256] = "", said[32];
	struct rusage children;
	int64_t began;
	wherry_code code = bench_libpq_check(
		conn,
		PQexec(conn, "CREATE PUBLICATION bench FOR TABLE outbox "
			     "WITH (publish = 'insert')"),
		err);

	if (code == WHERRY_OK)
		code = get(conn,
			   "SELECT pg_create_logical_replication_slot('bench', "
			   "'pgoutput')",
			   said, sizeof(said), err);
	if (code == WHERRY_OK)
		code = fill(conn, job, err);
	if (code == WHERRY_OK)
		code = get(conn, "SELECT pg_current_wal_insert_lsn()", end, sizeof(end),
			   err);
	if (code == WHERRY_OK)
		code = get(conn,
			   "SELECT setting || '/pg_recvlogical' FROM pg_config WHERE "
			   "name = 'BINDIR'",
			   program, sizeof(program), err);
	if (code == WHERRY_OK)
		code = bench_libpq_check(conn, PQexec(conn, "CHECKPOINT"), err);
	PQfinish(conn);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = receive(program, job->url, end, err);
	out[0] = bench_rate(job->messages, began);
	(void)getrusage(RUSAGE_CHILDREN, &children);
	out[1] = (double)children.ru_maxrss / 1024;
	return code;
}
