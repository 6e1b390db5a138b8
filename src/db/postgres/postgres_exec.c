/*
 * Running SQL without parameters or rows, and the begin and end of transactions.
 */
#include <stdio.h>
#include <string.h>

#include "db/postgres/postgres.h"

static wherry_code check_result(postgres_db *s, PGresult *res, wherry_error *err)
{
	ExecStatusType status = PQresultStatus(res);
	wherry_code code = WHERRY_OK;

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		code = wh_postgres_fail(s, res, err);
	PQclear(res);
	return code;
}

wherry_code wh_postgres_check_free(const postgres_db *s, wherry_error *err)
{
	if (s->visiting)
		return wh_fail(err, WHERRY_INVALID,
			       "a statement's rows are being visited on this connection: "
			       "use another one");
	return WHERRY_OK;
}

wherry_code wh_postgres_exec(postgres_db *s, const char *sql, wherry_error *err)
{
	wherry_code code = wh_postgres_check_free(s, err);

	if (code == WHERRY_OK)
		code = check_result(s, wh_postgres_query(s, sql), err);
	wh_postgres_heard(s);
	return code;
}

static void set_encoding(postgres_db *s, const char *name)
{
	char sql[80];

	(void)snprintf(sql, sizeof(sql), "SET client_encoding = '%.40s'", name);
	PQclear(wh_postgres_query(s, sql));
}

static bool has_encoding(const postgres_db *s, const char *name)
{
	const char *now = PQparameterStatus(s->conn, "client_encoding");

	return now && strcmp(now, name) == 0;
}

/* postgres_text.c says why.  An aborted transaction takes no setting, and its end takes back the one that was made in it.  Behind a
 * pooler a setting is for the transaction that is open. */
bool wh_postgres_text_begin(postgres_db *s)
{
	const char *name = PQparameterStatus(s->conn, "server_encoding");
	const char *app = PQparameterStatus(s->conn, "client_encoding");
	PGTransactionStatusType state = PQtransactionStatus(s->conn);

	if (!s->text_of_calls.raw || s->text.raw || !name || !app ||
	    state == PQTRANS_INERROR || (s->pooled && state == PQTRANS_IDLE))
		return false;
	(void)snprintf(s->app_encoding, sizeof(s->app_encoding), "%s", app);
	set_encoding(s, name);
	if (!has_encoding(s, name))
		return false;
	s->text = s->text_of_calls;
	return true;
}

void wh_postgres_text_end(postgres_db *s, bool begun)
{
	if (!begun)
		return;
	s->text = (wh_postgres_text){.raw = false};
	if (PQtransactionStatus(s->conn) != PQTRANS_INERROR)
		set_encoding(s, s->app_encoding);
}

bool wh_postgres_is_open(const postgres_db *s)
{
	PGTransactionStatusType status = PQtransactionStatus(s->conn);

	return status == PQTRANS_INTRANS || status == PQTRANS_INERROR ||
	       status == PQTRANS_ACTIVE;
}

/* If a setting of the transaction fails, roll it back. */
static wherry_code begin_with(postgres_db *s, const char *sync, wherry_error *err)
{
	char sql[sizeof(s->begin) + 128];
	wherry_code code;

	(void)snprintf(sql, sizeof(sql), "%s%s", s->begin, sync);
	code = wh_postgres_exec(s, sql, err);
	if (code != WHERRY_OK && wh_postgres_is_open(s))
		PQclear(wh_postgres_query(s, "ROLLBACK"));
	return code;
}

wherry_code wh_postgres_begin(postgres_db *s, wherry_error *err)
{
	return begin_with(s, s->no_sync, err);
}

wherry_code wh_postgres_begin_synced(postgres_db *s, wherry_error *err)
{
	return begin_with(s, "", err);
}

/* After a failed statement the server answers COMMIT with ROLLBACK.  Without an answer it
 * is unknown whether the transaction was committed. */
wherry_code wh_postgres_end(postgres_db *s, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	PGresult *res;

	if (PQstatus(s->conn) == CONNECTION_BAD || !wh_postgres_is_open(s))
		return wh_fail(err, WHERRY_CLOSED,
			       "%s: the connection was lost before the commit", s->name);
	res = wh_postgres_query(s, "COMMIT");
	if (PQresultStatus(res) == PGRES_COMMAND_OK) {
		if (strcmp(PQcmdStatus(res), "COMMIT") != 0)
			code = wh_fail(
				err, WHERRY_CONFLICT,
				"%s: a statement of the transaction had failed: it "
				"was rolled back",
				s->name);
	} else {
		code = wh_postgres_fail(s, res, err);
		if (code == WHERRY_CLOSED)
			code = wh_postgres_fail_indoubt(s, err);
	}
	PQclear(res);
	return code;
}
