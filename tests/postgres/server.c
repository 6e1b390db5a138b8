#include "postgres/server.h"

#include "wherry_test.h"

#include "outbox/outbox.h"
#include "store/grants.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>

static char folder[64];
static int n_places;

/* The script of the server, the end of its standard input that is here, and who started it. */
static pid_t server, starter;
static int server_in = -1;

const char *postgres_folder(void)
{
	return folder;
}

/* Wait for the end of the server, for ten seconds at most: then its processor time counts as this
 * program's in ./dev. */
static void end_server(void)
{
	const struct timespec moment = {0, 5000000};

	if (getpid() != starter)
		return;
	(void)close(server_in);
	for (int i = 0; i < 2000 && waitpid(server, NULL, WNOHANG) == 0; i++)
		(void)nanosleep(&moment, NULL);
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
	if (n) {
		server = child;
		starter = getpid();
		server_in = in[1];
		(void)atexit(end_server);
		return true;
	}
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
	(void)snprintf(out->app_url, sizeof(out->app_url),
		       "postgresql://app@/postgres?host=%s"
		       "&options=-csearch_path%%3Dstrange,%s,public",
		       folder, out->name);
	out->lowered = false;
	assert_true(administer("CREATE SCHEMA", out->name, ""));
}

static void let_strangers_in(void)
{
	/* What tests/postgres/hostile.sql makes many of, a few: that takes a minute, and this no time. */
	static const char lobby[] =
		"CREATE ROLE app LOGIN; CREATE ROLE stranger; CREATE ROLE app_producer; "
		"CREATE ROLE app_enqueuer; CREATE ROLE app_relay; CREATE ROLE app_operator; "
		"CREATE ROLE app_sender; CREATE ROLE app_receiver; CREATE ROLE app_consumer; "
		"GRANT app_producer, app_enqueuer, app_relay, app_operator, app_sender, "
		"app_receiver, app_consumer TO app; "
		"CREATE SCHEMA strange AUTHORIZATION stranger; "
		"GRANT USAGE ON SCHEMA strange TO PUBLIC; SET ROLE stranger; "
		"DO $do$ DECLARE body CONSTANT text := 'BEGIN RAISE ''a stranger''''s %s''; END'; "
		"op text; l text; r text; name text; n integer := 0; BEGIN "
		"FOREACH op IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>=', '+', '-', '||', '~', '->>'] LOOP "
		"FOREACH l IN ARRAY ARRAY['text', 'varchar', 'bigint', 'integer', 'numeric', 'timestamptz', 'jsonb'] LOOP "
		"FOREACH r IN ARRAY ARRAY['text', 'varchar', 'bigint', 'integer', 'numeric', 'interval', 'jsonb'] LOOP "
		"CONTINUE WHEN EXISTS (SELECT 1 FROM pg_operator WHERE oprname = op AND oprleft = l::regtype AND "
		"oprright = r::regtype AND oprnamespace = 'pg_catalog'::regnamespace); "
		"n := n + 1; EXECUTE format('CREATE FUNCTION strange.op%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', n, l, "
		"r, CASE WHEN op IN ('+', '-', '||', '->>') THEN 'text' ELSE 'boolean' END, format(body, 'operator')); "
		"EXECUTE format('CREATE OPERATOR strange.%s (leftarg = %s, rightarg = %s, function = strange.op%s)', op, l, "
		"r, n); END LOOP; END LOOP; END LOOP; "
		"FOREACH name IN ARRAY ARRAY['length', 'octet_length', 'lower', 'left', 'concat', 'format', 'floor', 'ceil', "
		"'round', 'quote_ident', 'quote_literal', 'to_regclass', 'to_timestamp', 'jsonb_typeof', 'json_typeof', "
		"'convert_to', 'nextval', 'hashtextextended', 'pg_notify', 'md5', 'replace', 'split_part', 'max', 'min', "
		"'count', 'sum', 'statement_timestamp', 'clock_timestamp', 'now', 'gen_random_uuid'] LOOP "
		"FOREACH l IN ARRAY ARRAY['', 'varchar', 'integer', 'smallint', 'varchar, varchar', 'varchar, text', "
		"'integer, integer'] LOOP CONTINUE WHEN EXISTS (SELECT 1 FROM pg_proc WHERE proname = name AND "
		"oidvectortypes(proargtypes) = replace(l, 'varchar', 'character varying') "
		"AND pronamespace = 'pg_catalog'::regnamespace); "
		"EXECUTE format('CREATE FUNCTION strange.%I(%s) RETURNS text LANGUAGE plpgsql AS %L', name, l, format(body, "
		"'function')); END LOOP; END LOOP; "
		"FOREACH name IN ARRAY ARRAY['wherry_schema', 'wherry_outbox', 'wherry_lease', 'wherry_clock', "
		"'wherry_stream', 'wherry_dead', 'wherry_subscription', 'outbox_archive', 'outbox_progress', 'outbox_exception', 'pg_class', 'pg_proc', 'pg_locks', "
		"'pg_stat_activity', 'pg_roles'] LOOP EXECUTE format('CREATE TABLE strange.%I(name text, version integer); "
		"GRANT ALL ON strange.%I TO PUBLIC', name, name); END LOOP; "
		"CREATE TYPE strange.trap AS ENUM ('sprung'); EXECUTE format('CREATE FUNCTION strange.trap(text) RETURNS "
		"strange.trap LANGUAGE plpgsql AS %L', format(body, 'cast')); END $do$; RESET ROLE; "
		"CREATE CAST (text AS strange.trap) WITH FUNCTION strange.trap(text) AS IMPLICIT";
	static bool here;
	char url[160];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s", folder);
	if (!here)
		assert_true(postgres_raw(url, lobby, NULL, 0));
	here = true;
}

/* What a test made for itself, such as the tables of its triggers, is for everyone. */
static const char grant_of_tests[] =
	"; DO $$ DECLARE r regclass; BEGIN FOR r IN SELECT oid FROM pg_class AS c WHERE "
	"relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v') AND NOT "
	"starts_with(relname, 'wherry_') AND NOT EXISTS (SELECT 1 FROM wherry_schema AS s WHERE "
	"c.relname IN (s.name, s.name || '_dead', s.name || '_archive', s.name || '_progress', "
	"s.name || '_exception')) LOOP "
	"EXECUTE format('GRANT ALL ON %s TO PUBLIC', r); END LOOP; EXECUTE format('ALTER DEFAULT "
	"PRIVILEGES IN SCHEMA %I GRANT ALL ON TABLES TO PUBLIC', current_schema()); END $$";

void postgres_lower(postgres_place *place, const wh_model *model, const char *table)
{
	wh_store store = {.model = model};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf sql = WH_BUF_INIT(64 * 1024);
	const char *grants[4];
	char texts[4][40], probe[300], layout[16] = "";
	size_t n = 0;

	(void)snprintf(
		probe, sizeof(probe),
		"SELECT CASE WHEN to_regclass('%s_progress') IS NULL THEN 'native' "
		"WHEN relkind = 'v' THEN 'adopted' ELSE 'log' END FROM pg_class WHERE oid = '%s'::regclass",
		table, table);
	assert_true(postgres_raw(place->url, probe, layout, sizeof(layout)));
	(void)snprintf(store.layout.name, sizeof(store.layout.name), "%s",
		       *layout ? layout : "native");
	for (const char *const *role = model->roles; *role; role++) {
		if (model == &wh_outbox_model && strcmp(*role, "consumer") == 0)
			continue; /* Of a log. */
		if (strcmp(layout, "adopted") == 0 && strcmp(*role, "relay") != 0 &&
		    strcmp(*role, "operator") != 0)
			continue; /* The owner says who writes. */
		assert_true(n < 4);
		(void)snprintf(texts[n], sizeof(texts[n]), "app_%s=%s", *role, *role);
		grants[n] = texts[n];
		n++;
	}
	let_strangers_in();
	wh_buf_printf(&sql, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %s FROM PUBLIC; ",
		      place->name);
	(void)snprintf(store.names.table, sizeof(store.names.table), "%s", table);
	(void)snprintf(store.names.schema, sizeof(store.names.schema), "%s", place->name);
	WHERRY_PASS(wh_store_grant_sql(&store, "postgres", grants, n, &sql, &err));
	wh_buf_puts(&sql, grant_of_tests);
	assert_true(postgres_raw(place->url, wh_buf_str(&sql), NULL, 0));
	wh_buf_clear(&sql);
	place->lowered = true;
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

void postgres_lower_here(const wh_model *model, const char *table, char *url, size_t cap)
{
	if (!postgres_here.lowered)
		postgres_lower(&postgres_here, model, table);
	(void)snprintf(url, cap, "%s", postgres_here.app_url);
}

bool postgres_enter_again(const void *recipe, char *url, size_t cap)
{
	if (!postgres_again(recipe, &postgres_here))
		return false;
	(void)snprintf(url, cap, "%s", postgres_here.url);
	return true;
}

void postgres_note_here(const void *recipe)
{
	postgres_note(recipe, &postgres_here);
}

void postgres_leave(void)
{
	postgres_leave_place(&postgres_here);
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
