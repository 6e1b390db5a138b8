#include "postgres/unseen.h"

#include "wherry_test.h"

#include "postgres/server.h"

static void run(const char *sql)
{
	assert_true(postgres_raw(postgres_here.url, sql, NULL, 0));
}

static void stand_by(const char *name)
{
	char sql[120], same[8] = "0";

	(void)snprintf(sql, sizeof(sql), "ALTER SYSTEM %s synchronous_standby_names%s",
		       *name ? "SET" : "RESET", name);
	run(sql);
	(void)snprintf(sql, sizeof(sql),
		       "SELECT (setting <> '')::int FROM pg_settings WHERE name = "
		       "'synchronous_standby_names'");
	run("SELECT pg_reload_conf()");
	while (strcmp(same, *name ? "1" : "0") != 0)
		assert_true(postgres_raw(postgres_here.url, sql, same, sizeof(same)));
	run("CHECKPOINT"); /* by the process that tells the others to wait */
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
	stand_by("");
	run("ALTER ROLE wherry RESET synchronous_commit");
}
