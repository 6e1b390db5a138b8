/*
 * Asks which parts of PostgreSQL the server has.  Engines that speak PostgreSQL's protocol lack some of it, and some have functions of these
 * names that do nothing.  So the driver tries what it needs, and goes by no version.
 */
#include <string.h>

#include "db/postgres/postgres.h"

/* Advisory locks and notifications.  A lock that is not in pg_locks is not there; one that is refused is.
 * Notifications need both halves. */
static const char signals_sql[] =
	"LISTEN wherry_asks; UNLISTEN wherry_asks; "
	"SELECT (NOT l.got OR EXISTS (SELECT 1 FROM pg_catalog.pg_locks AS k "
	"WHERE l.got AND k.locktype OPERATOR(pg_catalog.=) 'advisory' "
	"AND k.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())) "
	"AND pg_catalog.to_regprocedure('pg_catalog.pg_notify(text, text)') IS NOT NULL "
	"FROM (SELECT pg_catalog.pg_try_advisory_xact_lock_shared(1673, 0) AS got "
	"OFFSET 0) AS l";

/* Snapshots, and rows that have a transaction which these can contain. */
static const char snapshots_sql[] =
	"SELECT pg_catalog.pg_visible_in_snapshot('3'::pg_catalog.xid8, "
	"pg_catalog.pg_current_snapshot()) "
	"AND (SELECT c.xmin FROM pg_catalog.pg_class AS c LIMIT 1) IS NOT NULL";

/* Does the server say that it lacks something?  The role may lack a right instead, and statements will say so. */
static bool is_lack(const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	return state && strcmp(state, "42501") != 0 &&
	       (strncmp(state, "42", 2) == 0 || strncmp(state, "0A", 2) == 0);
}

/* A question that fails must not end a transaction that is open. */
static bool answer(postgres_db *s, const char *sql)
{
	bool inside = PQtransactionStatus(s->conn) == PQTRANS_INTRANS;
	PGresult *res;
	bool has;

	if (inside)
		PQclear(wh_postgres_query(s, "SAVEPOINT wherry_asks"));
	res = wh_postgres_query(s, sql);
	has = !is_lack(res);
	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1)
		has = strcmp(PQgetvalue(res, 0, 0), "t") == 0;
	PQclear(res);
	if (inside)
		PQclear(wh_postgres_query(s, "ROLLBACK TO SAVEPOINT wherry_asks; "
					     "RELEASE SAVEPOINT wherry_asks"));
	return has;
}

bool wh_postgres_has(wherry_db *db, wh_db_part part)
{
	static const char *const questions[WH_DB_PARTS] = {
		[WH_DB_SIGNALS] = signals_sql,
		[WH_DB_SNAPSHOTS] = snapshots_sql,
	};
	postgres_db *s = (postgres_db *)db;

	if (s->asked[part])
		return s->has[part];
	if (s->visiting || PQtransactionStatus(s->conn) == PQTRANS_INERROR)
		return true;
	s->has[part] = answer(s, questions[part]);
	s->asked[part] = PQstatus(s->conn) == CONNECTION_OK;
	return s->has[part];
}
