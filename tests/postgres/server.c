#include "postgres/server.h"

#include "wherry_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

static char folder[64];
static int n_places;

const char *postgres_folder(void)
{
	return folder;
}

/* The server lives as long as the other end of its standard input is open. */
static bool spawn(const char *const *settings, char *line, size_t cap)
{
	char *argv[7] = {(char *)(uintptr_t) "bash",
			 (char *)(uintptr_t)WHERRY_TEST_SERVER};
	int in[2], out[2], status = 0;
	ssize_t n = 0, got;
	pid_t child;

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return false;
	child = fork();
	if (child == 0) {
		if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
			_exit(1);
		for (int i = 0; i < 4 && settings && settings[i]; i++)
			argv[2 + i] = (char *)(uintptr_t)settings[i];
		(void)execv("/bin/bash", argv);
		_exit(1);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	while ((got = read(out[0], line + n, cap - 1 - (size_t)n)) > 0)
		n += got;
	line[n] = 0;
	(void)close(out[0]);
	if (n)
		return true;
	(void)waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		line[0] = '?';
	return false;
}

static bool prepare(void)
{
	static const char ops[] =
		"CREATE FUNCTION ms_minus(timestamptz, bigint) RETURNS timestamptz "
		"LANGUAGE sql IMMUTABLE AS $$SELECT $1 - $2 * interval '1 ms'$$;"
		"CREATE FUNCTION ms_plus(timestamptz, bigint) RETURNS timestamptz "
		"LANGUAGE sql IMMUTABLE AS $$SELECT $1 + $2 * interval '1 ms'$$;"
		"CREATE OPERATOR - (leftarg = timestamptz, rightarg = bigint, "
		"function = ms_minus);"
		"CREATE OPERATOR + (leftarg = timestamptz, rightarg = bigint, "
		"function = ms_plus);"
		"CREATE FUNCTION ms_time(numeric) RETURNS timestamptz LANGUAGE sql IMMUTABLE "
		"AS $$SELECT to_timestamp($1::float8 / 1000)$$;"
		"CREATE FUNCTION ms_time(bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE "
		"AS $$SELECT to_timestamp($1::float8 / 1000)$$;"
		"CREATE FUNCTION ms_time(integer) RETURNS timestamptz LANGUAGE sql IMMUTABLE "
		"AS $$SELECT to_timestamp($1::float8 / 1000)$$;"
		"CREATE CAST (numeric AS timestamptz) WITH FUNCTION ms_time(numeric) "
		"AS ASSIGNMENT;"
		"CREATE CAST (bigint AS timestamptz) WITH FUNCTION ms_time(bigint) "
		"AS ASSIGNMENT;"
		"CREATE CAST (integer AS timestamptz) WITH FUNCTION ms_time(integer) "
		"AS ASSIGNMENT;"
		"CREATE FUNCTION json_same(json, json) RETURNS boolean LANGUAGE sql "
		"IMMUTABLE AS $$SELECT $1::text = $2::text$$;"
		"CREATE OPERATOR = (leftarg = json, rightarg = json, function = json_same);"
		"CREATE FUNCTION not_this_one() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN RAISE 'not this one'; END$$;"
		"CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
		"EXECUTE format('INSERT INTO %I.audit(%I) SELECT %s', TG_TABLE_SCHEMA, "
		"TG_ARGV[0], TG_ARGV[1]) "
		"USING new, old; RETURN new; END$$;";
	char url[160];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s", folder);
	return postgres_raw(url, ops, NULL, 0);
}

bool postgres_start(void)
{
	return postgres_start_with(NULL);
}

bool postgres_start_with(const char *const *settings)
{
	char line[256] = "";

	if (*folder)
		return true;
	if (spawn(settings, line, sizeof(line))) {
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(line, "\n"),
			       line);
		if (prepare())
			return true;
	}
	if (*line == '?')
		(void)printf("1..1\nok 1 - PostgreSQL # SKIP no server is installed\n");
	else
		(void)printf("1..1\nnot ok 1 - a PostgreSQL server can be started\n");
	*folder = 0;
	return false;
}

bool postgres_start_logical(void)
{
	static const char *const settings[] = {"wal_level=logical", "max_wal_senders=10",
					       "max_replication_slots=10", NULL};

	return postgres_start_with(settings);
}

bool postgres_let_in(void)
{
	char command[512];

	(void)snprintf(command, sizeof(command),
		       "psql -X -q -h %s -U wherry -v ON_ERROR_STOP=1 -f "
		       "\"$(dirname '%s')/hostile.sql\" postgres",
		       folder, WHERRY_TEST_SERVER);
	return system(command) == 0;
}

static bool administer(const char *before, const char *name, const char *behind)
{
	char url[160], sql[320];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s", folder);
	(void)snprintf(sql, sizeof(sql), "%s %s %s", before, name, behind);
	return postgres_raw(url, sql, NULL, 0);
}

void postgres_make(postgres_place *out)
{
	(void)snprintf(out->name, sizeof(out->name), "test%d", ++n_places);
	(void)snprintf(out->url, sizeof(out->url),
		       "postgresql://wherry@/postgres?host=%s"
		       "&options=-csearch_path%%3D%s,public",
		       folder, out->name);
	assert_true(administer("CREATE SCHEMA", out->name, ""));
}

/* Who is still connected, after a test that failed, must not hold it up. */
void postgres_drop(const postgres_place *place)
{
	assert_true(
		administer("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
			   "backend_type = 'client backend' AND pid <> "
			   "pg_backend_pid(); DROP SCHEMA",
			   place->name, "CASCADE"));
}

postgres_place postgres_here;

void postgres_enter(char *url, size_t cap)
{
	postgres_make(&postgres_here);
	(void)snprintf(url, cap, "%s", postgres_here.url);
}

void postgres_leave(void)
{
	postgres_drop(&postgres_here);
}

void postgres_leave_slots(void)
{
	char left[8] = "1";

	while (strcmp(left, "0") != 0)
		assert_true(
			postgres_raw(postgres_here.url,
				     "SELECT pg_terminate_backend(active_pid) FROM "
				     "pg_replication_slots WHERE active; "
				     "SELECT pg_drop_replication_slot(slot_name) FROM "
				     "pg_replication_slots WHERE NOT active; "
				     "SELECT count(*) FROM pg_replication_slots",
				     left, sizeof(left)));
	postgres_leave();
}

PGconn *postgres_begin(const char *sql)
{
	PGconn *conn = PQconnectdb(postgres_here.url);

	assert_true(postgres_exec(conn, "BEGIN", NULL, 0));
	assert_true(postgres_exec(conn, sql, NULL, 0));
	return conn;
}

PGconn *postgres_begin_put(const char *isolation, const char *key)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "SET TRANSACTION ISOLATION LEVEL %s; INSERT INTO outbox(topic, "
		       "partition_key, payload) VALUES ('t', '%s', '{}')",
		       isolation, key);
	return postgres_begin(sql);
}

void postgres_end(PGconn *conn, const char *how)
{
	assert_true(postgres_exec(conn, how, NULL, 0));
	PQfinish(conn);
}

void postgres_await_lock(void)
{
	char n[8] = "";

	do {
		assert_true(postgres_raw(
			postgres_here.url,
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
			n, sizeof(n)));
		(void)poll(NULL, 0, 5);
	} while (strcmp(n, "0") == 0);
}
