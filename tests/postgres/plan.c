#include "postgres/plan.h"

#include "wherry_test.h"

#include <stdlib.h>

#include <wherry/postgres.h>

#include "base/buf.h"
#include "postgres/server.h"

const char *postgres_generic_plan(wherry_db *db, const wh_sql *sql, const char *name)
{
	static char plan[POSTGRES_PLAN_MAX];
	const wh_stmt *stmt = wh_sql_find(sql, name);
	PGconn *conn = wherry_postgres_handle(db);
	wh_buf text = WH_BUF_INIT(65536);
	size_t len = 0;
	PGresult *res;

	assert_non_null(stmt);
	assert_true(
		postgres_exec(conn, "SET plan_cache_mode = force_generic_plan", NULL, 0));
	wh_buf_printf(&text, "PREPARE it AS %s", stmt->text);
	assert_true(postgres_exec(conn, wh_buf_str(&text), NULL, 0));
	wh_buf_reset(&text);
	wh_buf_puts(&text, "EXPLAIN (COSTS OFF) EXECUTE it");
	for (int i = 0; i < stmt->n_params; i++)
		wh_buf_puts(&text, i ? ", NULL" : "(NULL");
	wh_buf_puts(&text, stmt->n_params ? ")" : "");
	res = PQexec(conn, wh_buf_str(&text));
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	*plan = 0;
	for (int i = 0; i < PQntuples(res) && len < sizeof(plan); i++)
		len += (size_t)snprintf(plan + len, sizeof(plan) - len, "%s\n",
					PQgetvalue(res, i, 0));
	PQclear(res);
	assert_true(postgres_exec(conn, "DEALLOCATE it; RESET plan_cache_mode", NULL, 0));
	wh_buf_clear(&text);
	return plan;
}

void postgres_check_plan(wherry_db *db, const wh_sql *sql, const char *name,
			 const char *const *wanted, const char *const *unwanted)
{
	const char *plan = postgres_generic_plan(db, sql, name);

	for (; *wanted; wanted++)
		if (!strstr(plan, *wanted))
			fail_msg("%s does not use %s:\n%s", name, *wanted, plan);
	for (; *unwanted; unwanted++)
		if (strstr(plan, *unwanted))
			fail_msg("%s has '%s':\n%s", name, *unwanted, plan);
}

int64_t postgres_entries_read(wherry_db *db, const char *table)
{
	PGconn *conn = wherry_postgres_handle(db);
	char sql[200], got[40] = "";

	/* It takes effect when the statement ends.  Before version 15 a connection reports, and
	 * its collector publishes, every half second. */
	if (PQserverVersion(conn) >= 150000) {
		assert_true(postgres_exec(conn, "SELECT pg_stat_force_next_flush()", NULL,
					  0));
	} else {
		assert_true(postgres_exec(conn, "SELECT pg_sleep(0.6)", NULL, 0));
		assert_true(postgres_exec(conn, "SELECT pg_sleep(0.6)", NULL, 0));
	}
	(void)snprintf(sql, sizeof(sql),
		       "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relid = "
		       "'%s'::regclass",
		       table);
	assert_true(postgres_exec(conn, sql, got, sizeof(got)));
	return strtoll(got, NULL, 10);
}
