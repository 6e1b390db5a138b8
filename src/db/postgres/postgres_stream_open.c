/*
 * Opens the connection of a stream, creates the replication slot, and reads the rows that
 * were visible at that moment.
 */
#include "db/postgres/postgres_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Longest time between two messages with the position. */
enum { STATUS_US = 10000000 };

/* ---- opening ---- */

/* Read the names of the columns from "id,,topic". */
static void take_columns(postgres_stream *s, const char *columns)
{
	while (s->n_columns < WH_PG_COLUMNS_MOST) {
		size_t n = strcspn(columns, ",");

		(void)snprintf(s->names[s->n_columns++], WH_PG_NAME, "%.*s", (int)n,
			       columns);
		if (!columns[n])
			return;
		columns += n + 1;
	}
}

static wherry_code run(postgres_db *link, const char *sql, char *out, size_t cap,
		       int column, wherry_error *err)
{
	PGresult *res = wh_postgres_query(link, sql);
	ExecStatusType status = PQresultStatus(res);
	wherry_code code = WHERRY_OK;

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		code = wh_postgres_fail(link, res, err);
	else if (out && PQntuples(res) == 1 && PQnfields(res) > column)
		(void)snprintf(out, cap, "%s", PQgetvalue(res, 0, column));
	PQclear(res);
	return code;
}

wherry_code wh_postgres_stream_raw(postgres_stream *s, postgres_db *link,
				   wherry_error *err)
{
	const char *name = wh_postgres_text_open(&s->text, link->conn);

	if (name && PQsetClientEncoding(link->conn, name) != 0)
		return wh_postgres_fail(link, NULL, err);
	return WHERRY_OK;
}

static wherry_code set_up(postgres_stream *s, wherry_error *err)
{
	char ms[24] = "";
	int64_t limit_ms = 0;
	wherry_code code = run(
		&s->link,
		"SET search_path = pg_catalog, pg_temp; SET row_security = off; SET DateStyle = ISO; SET TimeZone = 'UTC'; SET bytea_output = hex; "
		"SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'",
		ms, sizeof(ms), 0, err);

	if (code == WHERRY_OK)
		code = wh_postgres_stream_raw(s, &s->link, err);
	s->every_us = STATUS_US;
	if (code == WHERRY_OK && wh_parse_int(ms, &limit_ms) && limit_ms > 0 &&
	    limit_ms * 1000 / 4 < s->every_us)
		s->every_us = limit_ms * 1000 / 4;
	return code;
}

/* Ask for the slot.  From version 17 on, standbys can keep a copy of it (FAILOVER), so that
 * the relay continues on a standby that became the primary. */
static wherry_code begin_slot(postgres_stream *s, const wh_stream_options *options,
			      wherry_error *err)
{
	enum { HAS_FAILOVER = 170000, PREFIX = WH_PG_NAME - 12 };
	bool snapshot = options->snapshot;
	bool follows = PQserverVersion(s->link.conn) >= HAS_FAILOVER;
	char *name, sql[200];
	int sent;

	if (options->temporary)
		(void)snprintf(s->slot, sizeof(s->slot), "%.*s_%d", PREFIX, options->slot,
			       PQbackendPID(s->link.conn));
	name = PQescapeIdentifier(s->link.conn, s->slot, strlen(s->slot));
	if (!name)
		return wh_oom(err);
	if (options->temporary)
		(void)snprintf(sql, sizeof(sql),
			       "CREATE_REPLICATION_SLOT %s TEMPORARY LOGICAL pgoutput "
			       "NOEXPORT_SNAPSHOT",
			       name);
	else if (follows)
		(void)snprintf(sql, sizeof(sql),
			       "CREATE_REPLICATION_SLOT %s LOGICAL pgoutput "
			       "(SNAPSHOT '%s', FAILOVER)",
			       name, snapshot ? "export" : "nothing");
	else
		(void)snprintf(sql, sizeof(sql),
			       "CREATE_REPLICATION_SLOT %s LOGICAL pgoutput %s", name,
			       snapshot ? "EXPORT_SNAPSHOT" : "NOEXPORT_SNAPSHOT");
	PQfreemem(name);
	sent = PQsendQuery(s->link.conn, sql);
	s->creating = sent;
	s->keeps = snapshot;
	return sent ? WHERRY_OK : wh_postgres_fail(&s->link, NULL, err);
}

void wh_postgres_stream_close(wh_stream *base)
{
	postgres_stream *s = (postgres_stream *)base;

	PQfreemem(s->message);
	PQfinish(s->link.conn);
	PQfinish(s->reads.conn);
	wh_postgres_text_close(&s->text);
	wh_arena_clear(&s->copies);
	free(s);
}

wherry_code wh_postgres_stream(wherry_db *db, const wh_stream_options *options,
			       wh_stream **out, wherry_error *err)
{
	postgres_stream *s = calloc(1, sizeof(*s));
	wherry_code code;

	if (!s)
		return wh_oom(err);
	s->base.driver = &wh_postgres_stream_driver;
	(void)snprintf(s->slot, sizeof(s->slot), "%s", options->slot);
	(void)snprintf(s->publication, sizeof(s->publication), "%s",
		       options->publication);
	(void)snprintf(s->schema, sizeof(s->schema), "%s", options->schema);
	(void)snprintf(s->table, sizeof(s->table), "%s", options->table);
	s->confirm_us = options->confirm_us;
	take_columns(s, options->columns);
	code = wh_postgres_connect_as(&s->link, (postgres_db *)db, "database", err);
	if (code == WHERRY_OK)
		code = set_up(s, err);
	if (code == WHERRY_OK && options->create)
		code = begin_slot(s, options, err);
	if (code != WHERRY_OK) {
		wh_postgres_stream_close(&s->base);
		return code;
	}
	*out = &s->base;
	return WHERRY_OK;
}

/* ---- making the slot ---- */

/* Open a transaction that uses the exported snapshot.  The snapshot exists only until the
 * replication connection does something else; the transaction keeps it. */
static wherry_code take_snapshot(postgres_stream *s, wherry_error *err)
{
	char sql[220];
	wherry_code code = wh_postgres_connect_as(&s->reads, &s->link, "false", err);

	(void)snprintf(
		sql, sizeof(sql),
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
		"SET TRANSACTION SNAPSHOT '%s'; "
		"SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL row_security = off",
		s->snapshot);
	if (code == WHERRY_OK)
		code = wh_postgres_stream_raw(s, &s->reads, err);
	if (code == WHERRY_OK)
		code = run(&s->reads, sql, NULL, 0, 0, err);
	return code;
}

wherry_code wh_postgres_stream_ready(wh_stream *base, bool *out_ready, wherry_error *err)
{
	postgres_stream *s = (postgres_stream *)base;
	wherry_code code = WHERRY_OK;
	PGresult *res;

	*out_ready = false;
	if (s->creating) {
		if (!PQconsumeInput(s->link.conn))
			return wh_postgres_fail(&s->link, NULL, err);
		if (PQisBusy(s->link.conn))
			return WHERRY_OK;
		s->creating = false;
		while ((res = PQgetResult(s->link.conn))) {
			if (code == WHERRY_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
				code = wh_postgres_fail(&s->link, res, err);
			else if (code == WHERRY_OK && s->keeps && PQntuples(res) == 1 &&
				 PQnfields(res) > 2)
				(void)snprintf(s->snapshot, sizeof(s->snapshot), "%s",
					       PQgetvalue(res, 0, 2));
			PQclear(res);
		}
		if (code == WHERRY_OK && s->keeps)
			code = take_snapshot(s, err);
	}
	*out_ready = code == WHERRY_OK;
	return code;
}

bool wh_postgres_stream_has_rows(const wh_stream *base)
{
	return ((const postgres_stream *)base)->reads.conn != NULL;
}

static wherry_code declare(postgres_stream *s, const char *select, wherry_error *err)
{
	size_t cap = strlen(select) + 64;
	char *sql = malloc(cap);
	wherry_code code;

	if (!sql)
		return wh_oom(err);
	(void)snprintf(sql, cap, "DECLARE wherry_rows NO SCROLL CURSOR FOR %s", select);
	code = run(&s->reads, sql, NULL, 0, 0, err);
	free(sql);
	s->declared = code == WHERRY_OK;
	return code;
}

/* Set s->values from a row of a query. */
static void take_values(postgres_stream *s, const PGresult *res, int nth)
{
	for (int i = 0; i < s->n_columns; i++) {
		s->values[i] = (wh_postgres_value){.binary = true};
		if (i >= PQnfields(res) || PQgetisnull(res, nth, i))
			continue;
		s->values[i].data = (wh_view){PQgetvalue(res, nth, i),
					      (size_t)PQgetlength(res, nth, i)};
		s->values[i].type = PQftype(res, i);
	}
}

wherry_code wh_postgres_stream_rows(wh_stream *base, const char *select, int64_t limit,
				    wh_row_fn visit, void *ctx, bool *out_more,
				    wherry_error *err)
{
	postgres_stream *s = (postgres_stream *)base;
	wherry_code code = WHERRY_OK;
	char sql[80];
	PGresult *res;
	int n;

	*out_more = false;
	if (!s->reads.conn)
		return WHERRY_OK;
	if (!s->declared)
		code = declare(s, select, err);
	if (code != WHERRY_OK)
		return code;
	(void)snprintf(sql, sizeof(sql), "FETCH FORWARD %lld FROM wherry_rows",
		       (long long)limit);
	res = wh_postgres_query_params(&s->reads, sql, 0, NULL, 1);
	n = PQntuples(res);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		code = wh_postgres_fail(&s->reads, res, err);
	for (int i = 0; code == WHERRY_OK && i < n; i++) {
		wh_row row = wh_postgres_stream_row(s);

		take_values(s, res, i);
		code = visit(ctx, &row, err);
	}
	PQclear(res);
	*out_more = n == limit;
	if (code == WHERRY_OK && n < limit) {
		PQfinish(s->reads.conn);
		s->reads.conn = NULL;
	}
	return code;
}
