#include "postgres/unseen.h"

#include "wherry_test.h"

#include "postgres/server.h"

static void run(const char *sql)
{
	assert_true(postgres_raw(postgres_here.url, sql, NULL, 0));
}

static void name_standby(const char *name)
{
	char sql[120];

	(void)snprintf(sql, sizeof(sql), "ALTER SYSTEM %s synchronous_standby_names%s",
		       *name ? "SET" : "RESET", name);
	run(sql);
}

/* The process that tells the others to wait reads the setting. */
static void await_waiting(void)
{
	/* The first one may have begun before it was told. */
	run("CHECKPOINT");
	run("CHECKPOINT");
}

/* No other process reads the setting: so nobody knows why commits wait. */
static void stand_by(const char *name)
{
	name_standby(name);
	run("DO $$ BEGIN EXECUTE (SELECT format('COPY (SELECT 1) TO PROGRAM %L', 'cat >/dev/null; kill -HUP ' || pid) "
	    "FROM pg_stat_activity WHERE backend_type = 'checkpointer'); END $$");
	await_waiting();
}

/* All read it. */
static void stand_by_known(const char *name)
{
	static const char sql[] = "SELECT (setting <> '')::int FROM pg_settings WHERE "
				  "name = 'synchronous_standby_names'";
	char same[8] = "";

	name_standby(name);
	run("SELECT pg_reload_conf()");
	while (strcmp(same, *name ? "1" : "0") != 0)
		assert_true(postgres_raw(postgres_here.url, sql, same, sizeof(same)));
	await_waiting();
}

PGconn *postgres_unseen(void)
{
	PGconn *conn;

	run("ALTER ROLE wherry SET synchronous_commit = local");
	conn = PQconnectdb(postgres_here.url);
	assert_true(postgres_exec(conn, "SET synchronous_commit = on", NULL, 0));
	return conn;
}

void postgres_hold_commits(void)
{
	stand_by(" = 'nobody'");
}

void postgres_name_standby(bool named)
{
	stand_by_known(named ? " = 'nobody'" : "");
}

void postgres_put_unseen(PGconn *conn, const char *sql)
{
	char waits[8] = "0";

	assert_int_equal(PQsendQuery(conn, sql), 1);
	while (strcmp(waits, "1") != 0)
		assert_true(postgres_raw(postgres_here.url,
					 "SELECT count(*) FROM pg_stat_activity WHERE "
					 "wait_event = 'SyncRep'",
					 waits, sizeof(waits)));
}

void postgres_let_be_seen(PGconn *conn)
{
	stand_by("");
	for (PGresult *res; (res = PQgetResult(conn));) {
		assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
		PQclear(res);
	}
	PQfinish(conn);
}

void postgres_forget_unseen(void)
{
	stand_by_known("");
	run("ALTER ROLE wherry RESET synchronous_commit");
}
