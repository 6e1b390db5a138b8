/*
 * PostgreSQL's log, by logical replication: pgoutput at version 1 of its protocol, over COPY
 * BOTH of libpq.  At that version the server sends a transaction when it has committed, and
 * keeps large ones on its own disk until then: so nothing is gathered here.  What is not
 * read stays in the socket, which holds the server back.
 *
 * A server that hears nothing for wal_sender_timeout ends the connection, also one that is
 * held back: so it is told the position often enough, whether anything is read or not.
 */
#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "db/pgoutput.h"
#include "db/postgres_value.h"

enum {
	COLUMNS_MOST = 16,
	COLUMN_NAME = 64,
	RELATIONS_MOST = 64,
	STATUS_US = 10000000, /* how often the position is told, at least */
	EPOCH_S = 946684800   /* 2000-01-01, where its times begin */
};

/* A table of the publication: where the wanted columns are in its rows. */
typedef struct relation {
	uint32_t oid;
	int at[COLUMNS_MOST]; /* -1: nowhere */
	uint32_t types[COLUMNS_MOST];
} relation;

typedef struct postgres_stream {
	wh_stream base;   /* first */
	postgres_db link; /* the replication connection: conn, and what errors need */
	postgres_db
		reads; /* what was visible when the slot was made; conn NULL: nothing */
	char slot[COLUMN_NAME], publication[COLUMN_NAME];
	char schema[COLUMN_NAME], table[COLUMN_NAME];
	char names[COLUMNS_MOST][COLUMN_NAME];
	int n_columns;
	bool creating; /* the slot */
	bool keeps;    /* its snapshot */
	char snapshot[COLUMN_NAME];
	bool declared; /* the cursor that reads it */
	bool streaming;

	relation relations[RELATIONS_MOST];
	size_t n_relations, next_relation;
	char *message;         /* libpq's; what the last event points into */
	bool waiting;          /* there may be more of them in memory */
	bool asked;            /* the server wants an answer */
	bool flushing;         /* what was sent is not all in the socket yet */
	int64_t told, told_us; /* the position that was told, and when */
	int64_t seen;          /* of the server's log */
	int64_t every_us;      /* tell the position so often, */
	int64_t confirm_us;    /* and while it moves so often at most */
	int64_t due_us;

	wh_postgres_value values[COLUMNS_MOST];
	wh_arena copies; /* made of them */
	bool failed;     /* out of memory for one */
} postgres_stream;

/* ---- rows ---- */

static int64_t row_int(const wh_row *row, int column)
{
	const postgres_stream *s = row->handle;

	return column < s->n_columns ? wh_postgres_value_int(&s->values[column]) : 0;
}

static wh_view row_bytes(const wh_row *row, int column)
{
	postgres_stream *s = row->handle;

	if (column >= s->n_columns)
		return (wh_view){NULL, 0};
	return wh_postgres_value_bytes(&s->values[column], &s->copies, &s->failed);
}

static bool row_failed(const wh_row *row)
{
	return ((postgres_stream *)row->handle)->failed;
}

static const wh_db_driver rows_of_log = {
	.scheme = "postgres",
	.row_int = row_int,
	.row_bytes = row_bytes,
	.row_failed = row_failed,
};

static wh_row begin_row(postgres_stream *s)
{
	wh_arena_reset(&s->copies);
	s->failed = false;
	return (wh_row){&rows_of_log, s};
}

/* ---- opening ---- */

/* "id,,topic": names by place. */
static void take_columns(postgres_stream *s, const char *columns)
{
	while (s->n_columns < COLUMNS_MOST) {
		size_t n = strcspn(columns, ",");

		(void)snprintf(s->names[s->n_columns++], COLUMN_NAME, "%.*s", (int)n,
			       columns);
		if (!columns[n])
			return;
		columns += n + 1;
	}
}

/* As the relay's own connection, with other settings where libpq takes the last. */
static wherry_code connect_as(postgres_db *link, const postgres_db *like,
			      const char *replication, wherry_error *err)
{
	enum { MOST = 80 };
	PQconninfoOption *all = PQconninfo(like->conn);
	const char *keywords[MOST + 2], *values[MOST + 2];
	size_t n = 0;
	wherry_code code;

	if (!all)
		return wh_oom(err);
	link->base = (wherry_db){.driver = like->base.driver, .env = like->base.env};
	for (const PQconninfoOption *o = all; o->keyword && n < MOST; o++) {
		if (!o->val || strcmp(o->keyword, "replication") == 0)
			continue;
		keywords[n] = o->keyword;
		values[n++] = o->val;
	}
	keywords[n] = "replication";
	values[n++] = replication;
	keywords[n] = NULL;
	values[n] = NULL;
	code = wh_postgres_connect(link, keywords, values, err);
	PQconninfoFree(all);
	return code;
}

static wherry_code run(postgres_db *link, const char *sql, char *out, size_t cap,
		       int column, wherry_error *err)
{
	PGresult *res = PQexec(link->conn, sql);
	ExecStatusType status = PQresultStatus(res);
	wherry_code code = WHERRY_OK;

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		code = wh_postgres_fail(link, res, err);
	else if (out && PQntuples(res) == 1)
		(void)snprintf(out, cap, "%s", PQgetvalue(res, 0, column));
	PQclear(res);
	return code;
}

static wherry_code set_up(postgres_stream *s, wherry_error *err)
{
	char ms[24] = "";
	int64_t limit_ms = 0;
	wherry_code code =
		run(&s->link,
		    "SET DateStyle = ISO; SET TimeZone = 'UTC'; SET bytea_output = hex; "
		    "SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'",
		    ms, sizeof(ms), 0, err);

	s->every_us = STATUS_US;
	if (code == WHERRY_OK && wh_parse_int(ms, &limit_ms) && limit_ms > 0 &&
	    limit_ms * 1000 / 4 < s->every_us)
		s->every_us = limit_ms * 1000 / 4;
	return code;
}

static wherry_code begin_slot(postgres_stream *s, bool snapshot, wherry_error *err)
{
	char *name = PQescapeIdentifier(s->link.conn, s->slot, strlen(s->slot));
	char sql[200];
	int sent;

	if (!name)
		return wh_oom(err);
	(void)snprintf(sql, sizeof(sql), "CREATE_REPLICATION_SLOT %s LOGICAL pgoutput %s",
		       name, snapshot ? "EXPORT_SNAPSHOT" : "NOEXPORT_SNAPSHOT");
	PQfreemem(name);
	sent = PQsendQuery(s->link.conn, sql);
	s->creating = sent;
	s->keeps = snapshot;
	return sent ? WHERRY_OK : wh_postgres_fail(&s->link, NULL, err);
}

static void stream_close(wh_stream *base)
{
	postgres_stream *s = (postgres_stream *)base;

	PQfreemem(s->message);
	PQfinish(s->link.conn);
	PQfinish(s->reads.conn);
	wh_arena_clear(&s->copies);
	free(s);
}

static const wh_stream_driver driver;

wherry_code wh_postgres_stream(wherry_db *db, const wh_stream_options *options,
			       wh_stream **out, wherry_error *err)
{
	postgres_stream *s = calloc(1, sizeof(*s));
	wherry_code code;

	if (!s)
		return wh_oom(err);
	s->base.driver = &driver;
	(void)snprintf(s->slot, sizeof(s->slot), "%s", options->slot);
	(void)snprintf(s->publication, sizeof(s->publication), "%s",
		       options->publication);
	(void)snprintf(s->schema, sizeof(s->schema), "%s", options->schema);
	(void)snprintf(s->table, sizeof(s->table), "%s", options->table);
	s->confirm_us = options->confirm_us;
	take_columns(s, options->columns);
	code = connect_as(&s->link, (postgres_db *)db, "database", err);
	if (code == WHERRY_OK)
		code = set_up(s, err);
	if (code == WHERRY_OK && options->create)
		code = begin_slot(s, options->snapshot, err);
	if (code != WHERRY_OK) {
		stream_close(&s->base);
		return code;
	}
	*out = &s->base;
	return WHERRY_OK;
}

/* ---- making the slot ---- */

/* The snapshot lives while the replication connection does nothing else, and then in the
 * transaction that took it over. */
static wherry_code take_snapshot(postgres_stream *s, wherry_error *err)
{
	char sql[160];
	wherry_code code = connect_as(&s->reads, &s->link, "false", err);

	(void)snprintf(sql, sizeof(sql),
		       "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
		       "SET TRANSACTION SNAPSHOT '%s'",
		       s->snapshot);
	if (code == WHERRY_OK)
		code = run(&s->reads, sql, NULL, 0, 0, err);
	return code;
}

static wherry_code stream_ready(wh_stream *base, bool *out_ready, wherry_error *err)
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
			else if (code == WHERRY_OK && s->keeps)
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

static bool stream_has_rows(const wh_stream *base)
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

/* Values of a result's row, as those of the log. */
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

static wherry_code stream_rows(wh_stream *base, const char *select, int64_t limit,
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
	res = PQexecParams(s->reads.conn, sql, 0, NULL, NULL, NULL, NULL, 1);
	n = PQntuples(res);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		code = wh_postgres_fail(&s->reads, res, err);
	for (int i = 0; code == WHERRY_OK && i < n; i++) {
		wh_row row = begin_row(s);

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

/* ---- streaming ---- */

static wherry_code start_failed(postgres_stream *s, const PGresult *res,
				wherry_error *err)
{
	return wh_postgres_fail(&s->link, res, err);
}

static wherry_code stream_start(wh_stream *base, int64_t from, wherry_error *err)
{
	postgres_stream *s = (postgres_stream *)base;
	PGconn *conn = s->link.conn;
	char *slot = PQescapeIdentifier(conn, s->slot, strlen(s->slot));
	char *publication =
		PQescapeIdentifier(conn, s->publication, strlen(s->publication));
	char *list = publication ? PQescapeLiteral(conn, publication, strlen(publication))
				 : NULL;
	wherry_code code = WHERRY_OK;
	PGresult *res;
	char sql[400];

	if (!slot || !list) {
		code = wh_oom(err);
		goto out;
	}
	(void)snprintf(sql, sizeof(sql),
		       "START_REPLICATION SLOT %s LOGICAL %X/%X (proto_version '1', "
		       "publication_names %s%s)",
		       slot, (unsigned)((uint64_t)from >> 32), (unsigned)from, list,
		       PQserverVersion(conn) >= 140000 ? ", binary 'true'" : "");
	res = PQexec(conn, sql);
	if (PQresultStatus(res) != PGRES_COPY_BOTH)
		code = start_failed(s, res, err);
	PQclear(res);
	if (code == WHERRY_OK && PQsetnonblocking(conn, 1) != 0)
		code = wh_postgres_fail(&s->link, NULL, err);
	if (code == WHERRY_OK)
		PQfinish(s->reads.conn);
	if (code == WHERRY_OK)
		s->reads.conn = NULL;
	s->streaming = s->waiting = code == WHERRY_OK;
	s->told = 0; /* behind `from` there may be what is not delivered yet */
	s->seen = from;
out:
	PQfreemem(slot);
	PQfreemem(publication);
	PQfreemem(list);
	return code;
}

static wherry_code flush(postgres_stream *s, wherry_error *err)
{
	int left = PQflush(s->link.conn);

	s->flushing = left > 0;
	return left < 0 ? wh_postgres_fail(&s->link, NULL, err) : WHERRY_OK;
}

static void put64(char *out, int64_t n)
{
	uint64_t big = htobe64((uint64_t)n);

	memcpy(out, &big, sizeof(big));
}

/* The three positions of the protocol: of what is delivered all three, since nothing else
 * here outlives a crash. */
static wherry_code tell(postgres_stream *s, int64_t now_us, int64_t delivered, bool ask,
			wherry_error *err)
{
	int64_t clock_us = wh_now(s->link.base.env) - EPOCH_S * WH_SECOND;
	char status[34] = "r";

	put64(status + 1, s->seen > delivered ? s->seen : delivered);
	put64(status + 9, delivered);
	put64(status + 17, delivered);
	put64(status + 25, clock_us);
	status[33] = ask;
	if (PQputCopyData(s->link.conn, status, sizeof(status)) < 0)
		return wh_postgres_fail(&s->link, NULL, err);
	s->told = delivered;
	s->told_us = now_us;
	s->due_us = wh_later(now_us, s->every_us);
	s->asked = false;
	return flush(s, err);
}

static wherry_code stream_confirm(wh_stream *base, int64_t now_us, int64_t delivered,
				  bool ask, wherry_error *err)
{
	postgres_stream *s = (postgres_stream *)base;

	if (!s->streaming)
		return WHERRY_OK;
	if (s->flushing) /* no second one into a socket that is full */
		return flush(s, err);
	if (delivered < s->told)
		delivered = s->told;
	if (delivered > s->told && wh_later(s->told_us, s->confirm_us) < s->due_us)
		s->due_us = wh_later(s->told_us, s->confirm_us);
	if (ask || s->asked || now_us >= s->due_us)
		return tell(s, now_us, delivered, ask, err);
	return WHERRY_OK;
}

static int64_t get64(const char *at)
{
	uint64_t big;

	memcpy(&big, at, sizeof(big));
	return (int64_t)be64toh(big);
}

static relation *find_relation(postgres_stream *s, uint32_t oid)
{
	for (size_t i = 0; i < s->n_relations; i++)
		if (s->relations[i].oid == oid)
			return &s->relations[i];
	return NULL;
}

static void note_relation(postgres_stream *s, const wh_pgo_message *m)
{
	const char *names[COLUMNS_MOST];
	relation *r = find_relation(s, m->oid);
	wh_pgo_list columns = m->columns;
	wh_pgo_column column;

	bool wanted = wh_view_eq(m->schema, wh_view_of(s->schema)) &&
		      wh_view_eq(m->name, wh_view_of(s->table));

	if (!wanted) { /* of others there may be any number */
		if (r)
			*r = s->relations[--s->n_relations];
		return;
	}
	if (!r && s->n_relations < RELATIONS_MOST)
		r = &s->relations[s->n_relations++];
	else if (!r)
		r = &s->relations[s->next_relation++ % RELATIONS_MOST];
	*r = (relation){.oid = m->oid};
	for (int i = 0; i < s->n_columns; i++)
		names[i] = s->names[i];
	wh_pgo_find(columns, names, (size_t)s->n_columns, r->at);
	for (int nth = 0; wh_pgo_next_column(&columns, &column); nth++)
		for (int i = 0; i < s->n_columns; i++)
			if (r->at[i] == nth)
				r->types[i] = column.type;
}

/* False: another table's. */
static bool take_row(postgres_stream *s, const wh_pgo_message *m)
{
	wh_pgo_value values[COLUMNS_MOST];
	const relation *r = find_relation(s, m->oid);

	if (!r)
		return false;
	wh_pgo_pick(m->row, r->at, (size_t)s->n_columns, values);
	for (int i = 0; i < s->n_columns; i++) {
		bool there =
			values[i].form == WH_PGO_TEXT || values[i].form == WH_PGO_BINARY;

		s->values[i] = (wh_postgres_value){
			.data = there ? values[i].data : (wh_view){NULL, 0},
			.type = r->types[i],
			.binary = values[i].form == WH_PGO_BINARY,
		};
	}
	return true;
}

/* 'w', where it begins, the end of the log, the time; then the message. */
static wherry_code take_message(postgres_stream *s, const char *bytes, size_t len,
				wh_stream_event *out, wherry_error *err)
{
	enum { HEAD = 25 };
	wh_pgo_message m;
	wherry_code code;

	if (len < HEAD)
		return wh_fail(err, WHERRY_CORRUPT, "%s: a message of %zu bytes",
			       s->link.name, len);
	code = wh_pgo_decode(bytes + HEAD, len - HEAD, &m, err);
	if (code != WHERRY_OK)
		return wh_prefix(err, code, "%s: replication slot '%s'", s->link.name,
				 s->slot);
	out->at = get64(bytes + 1);
	if (out->at > s->seen)
		s->seen = out->at;
	if (m.kind == WH_PGO_RELATION) {
		note_relation(s, &m);
	} else if (m.kind == WH_PGO_INSERT) {
		out->row = begin_row(s);
		out->kind = take_row(s, &m) ? WH_STREAM_ROW : WH_STREAM_OTHERS;
	} else if (m.kind == WH_PGO_BEGIN) {
		out->kind = WH_STREAM_BEGIN;
		out->at = (int64_t)m.lsn;
		out->xid = m.xid;
		out->committed_us = m.at_us;
	} else if (m.kind == WH_PGO_COMMIT) {
		out->kind = WH_STREAM_END;
		out->at = (int64_t)m.end_lsn;
		out->committed_us = m.at_us;
	}
	return WHERRY_OK;
}

/* Between transactions the server tells how far it has sent. */
static wherry_code take_keepalive(postgres_stream *s, const char *bytes, size_t len,
				  wh_stream_event *out, wherry_error *err)
{
	if (len < 18)
		return wh_fail(err, WHERRY_CORRUPT, "%s: a keepalive of %zu bytes",
			       s->link.name, len);
	out->kind = WH_STREAM_PLACE;
	out->at = get64(bytes + 1);
	s->asked |= bytes[17] != 0;
	if (out->at > s->seen)
		s->seen = out->at;
	return WHERRY_OK;
}

/* The stream has ended: with an error, or since the server shuts down. */
static wherry_code ended(postgres_stream *s, wherry_error *err)
{
	wherry_code code;
	PGresult *res;

	(void)PQsetnonblocking(s->link.conn, 0);
	res = PQgetResult(s->link.conn);
	s->streaming = false;
	if (PQresultStatus(res) == PGRES_FATAL_ERROR)
		code = wh_postgres_fail(&s->link, res, err);
	else
		code = wh_fail(err, WHERRY_CLOSED, "%s: the server ended the stream%s%s",
			       s->link.name, *s->link.notice ? ": " : "", s->link.notice);
	PQclear(res);
	return code;
}

static wherry_code stream_next(wh_stream *base, wh_stream_event *out, wherry_error *err)
{
	postgres_stream *s = (postgres_stream *)base;
	int n;

	*out = (wh_stream_event){.kind = WH_STREAM_NOTHING};
	PQfreemem(s->message);
	s->message = NULL;
	n = PQgetCopyData(s->link.conn, &s->message, 1);
	if (n == 0) {
		if (!PQconsumeInput(s->link.conn))
			return wh_postgres_fail(&s->link, NULL, err);
		n = PQgetCopyData(s->link.conn, &s->message, 1);
	}
	s->waiting = n > 0;
	if (n < 0)
		return ended(s, err);
	if (n == 0)
		return WHERRY_OK;
	out->kind = WH_STREAM_OTHERS;
	out->len = (size_t)n;
	if (*s->message == 'w')
		return take_message(s, s->message, (size_t)n, out, err);
	if (*s->message == 'k')
		return take_keepalive(s, s->message, (size_t)n, out, err);
	return WHERRY_OK;
}

static int64_t stream_deadline(const wh_stream *base)
{
	const postgres_stream *s = (const postgres_stream *)base;

	return s->streaming ? s->due_us : WH_NEVER;
}

static int stream_fd(const wh_stream *base, short *out_events)
{
	const postgres_stream *s = (const postgres_stream *)base;

	*out_events = s->flushing ? (POLLIN | POLLOUT) : POLLIN;
	return PQsocket(s->link.conn);
}

static bool stream_waiting(const wh_stream *base)
{
	return ((const postgres_stream *)base)->waiting;
}

static const wh_stream_driver driver = {
	.close = stream_close,
	.ready = stream_ready,
	.has_rows = stream_has_rows,
	.rows = stream_rows,
	.start = stream_start,
	.next = stream_next,
	.confirm = stream_confirm,
	.deadline = stream_deadline,
	.fd = stream_fd,
	.waiting = stream_waiting,
};
