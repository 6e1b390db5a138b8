/*
 * A relay that reads the WAL, on the table of Debezium's event router, beside pg_recvlogical, which writes the
 * same slot's output away.
 *
 * Messages are written once there is a slot, so that they come by the WAL.
 */
#include "bench.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/wherry.h>

#define FILL                                                                             \
	"INSERT INTO outbox SELECT gen_random_uuid(), 'quakes', 'key-' || i % 1000, "    \
	"'quake', to_jsonb(repeat('earth ', 33) || i) "                                  \
	"FROM generate_series($1::bigint, $2::bigint) AS i"

/* All that is written is on the disk when the clock starts. */
static void fill(PGconn *conn, const bench_job *job)
{
	char from[24], to[24];
	const char *values[] = {from, to};

	bench_libpq_run(conn, "SET synchronous_commit = off");
	bench_libpq_prepare(conn, "fill", FILL);
	for (int64_t i = 0; i < job->messages; i += job->per_transaction) {
		int64_t last = i + job->per_transaction - 1;

		(void)snprintf(from, sizeof(from), "%" PRId64, i);
		(void)snprintf(to, sizeof(to), "%" PRId64,
			       last < job->messages ? last : job->messages - 1);
		bench_libpq_check(conn,
				  PQexecPrepared(conn, "fill", 2, values, NULL, NULL, 0));
	}
	bench_libpq_run(conn, "CHECKPOINT");
}

static int64_t relay_once(const bench_job *job)
{
	wherry_relay *relay = NULL;
	int64_t delivered;

	bench_must(wherry_relay_open(job->url, "null:", NULL, &relay, &bench_error));
	delivered = bench_relay(relay);
	wherry_relay_close(relay);
	return delivered;
}

/* The first run finds nothing and leaves its slot. */
void bench_stream_drain(const bench_job *job, double *out)
{
	PGconn *conn = bench_libpq_open(job->url);
	int64_t delivered, began;

	(void)relay_once(job);
	fill(conn, job);
	began = bench_now();
	delivered = relay_once(job);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	bench_must_be_all(job, delivered);
}

/* ---- pg_recvlogical ---- */

static void get(PGconn *conn, const char *sql, char *out, size_t cap)
{
	PGresult *res = PQexec(conn, sql);

	if (PQntuples(res) == 1)
		(void)snprintf(out, cap, "%s", PQgetvalue(res, 0, 0));
	bench_libpq_check(conn, res);
}

/* It opens its file to append to it, so that /dev/null stays what it is. */
static void receive(const char *program, const char *url, const char *end)
{
	pid_t pid = bench_fork();
	int status = 0;

	if (pid == 0) {
		(void)execl(program, "pg_recvlogical", "-d", url, "--slot", "bench",
			    "--start", "--endpos", end, "--no-loop", "-f", "/dev/null",
			    "-o", "proto_version=1", "-o", "publication_names=bench",
			    "-o", "binary=true", (char *)NULL);
		_exit(1);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("%s failed: install postgresql-client", program);
}

void bench_receive(const bench_job *job, double *out)
{
	PGconn *conn = bench_libpq_open(job->url);
	char end[32] = "", program[256] = "";
	struct rusage children;
	int64_t began;

	bench_libpq_run(conn, "CREATE PUBLICATION bench FOR TABLE outbox "
			      "WITH (publish = 'insert')");
	bench_libpq_run(conn,
			"SELECT pg_create_logical_replication_slot('bench', 'pgoutput')");
	fill(conn, job);
	get(conn, "SELECT pg_current_wal_insert_lsn()", end, sizeof(end));
	get(conn,
	    "SELECT setting || '/pg_recvlogical' FROM pg_config WHERE name = 'BINDIR'",
	    program, sizeof(program));
	PQfinish(conn);
	began = bench_now();
	receive(program, job->url, end);
	out[0] = bench_rate(job->messages, began);
	(void)getrusage(RUSAGE_CHILDREN, &children);
	out[1] = (double)children.ru_maxrss / 1024;
}
