/*
 * Reads PostgreSQL's WAL by logical replication: pgoutput at version 1 of its protocol,
 * over libpq's COPY BOTH.  At that version the server sends a transaction after its
 * commit, and keeps large ones on its own disk until then.  So nothing is collected here.
 * Rows that are not read stay in the socket, and the server waits.
 *
 * If the server receives nothing for wal_sender_timeout it ends the connection, also
 * while it waits.  So the position is sent often enough, whether anything is read or not.
 */
#include "db/postgres/postgres_stream.h"

#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/postgres/pgoutput.h"

/* PostgreSQL's epoch, 2000-01-01, in Unix time. */
enum { EPOCH_S = 946684800 };

/* ---- rows ---- */

static int64_t row_int(const wh_row *row, int column)
{
	const postgres_stream *s = row->handle;

	return column < s->n_columns ? wh_postgres_value_int(&s->values[column]) : 0;
}

static wh_view row_bytes(const wh_row *row, int column)
{
	postgres_stream *s = row->handle;

	wh_view bytes;

	if (column >= s->n_columns)
		return (wh_view){NULL, 0};
	bytes = wh_postgres_value_bytes(&s->values[column], &s->copies, &s->failed);
	if (s->values[column].type == WH_PG_BYTEA)
		return bytes;
	return wh_postgres_text_utf8(&s->text, bytes, &s->copies, &s->failed);
}

static bool row_failed(const wh_row *row)
{
	return ((postgres_stream *)row->handle)->failed;
}

static const wh_row_driver rows_of_log = {
	.integer = row_int,
	.bytes = row_bytes,
	.failed = row_failed,
};

wh_row wh_postgres_stream_row(postgres_stream *s)
{
	wh_arena_reset(&s->copies);
	s->failed = false;
	return (wh_row){&rows_of_log, s};
}

/* ---- streaming ---- */

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
	res = wh_postgres_query(&s->link, sql);
	if (PQresultStatus(res) != PGRES_COPY_BOTH)
		code = wh_postgres_fail(&s->link, res, err);
	PQclear(res);
	if (code == WHERRY_OK && PQsetnonblocking(conn, 1) != 0)
		code = wh_postgres_fail(&s->link, NULL, err);
	if (code == WHERRY_OK)
		PQfinish(s->reads.conn);
	if (code == WHERRY_OK)
		s->reads.conn = NULL;
	s->streaming = s->waiting = code == WHERRY_OK;
	s->sent = 0; /* Events after `from` may not be delivered yet. */
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

/* Send the position.  Flushed and applied are what is delivered, since nothing else
 * survives a crash here. */
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
	s->sent = delivered;
	s->sent_us = now_us;
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
	/* Do not send another message while the socket is full. */
	if (s->flushing)
		return flush(s, err);
	if (delivered < s->sent)
		delivered = s->sent;
	if (delivered > s->sent && wh_later(s->sent_us, s->confirm_us) < s->due_us)
		s->due_us = wh_later(s->sent_us, s->confirm_us);
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

static postgres_relation *find_relation(postgres_stream *s, uint32_t oid)
{
	for (size_t i = 0; i < s->n_relations; i++)
		if (s->relations[i].oid == oid)
			return &s->relations[i];
	return NULL;
}

/* A wanted column that is not sent would look like NULL in every row. */
static wherry_code check_columns(const postgres_stream *s, const postgres_relation *r,
				 wherry_error *err)
{
	for (int i = 0; i < s->n_columns; i++)
		if (*s->names[i] && r->at[i] < 0)
			return wh_fail(err, WHERRY_INVALID,
				       "%s: publication '%s' does not send the column "
				       "'%s' of %s.%s: publish the table without a list "
				       "of columns",
				       s->link.name, s->publication, s->names[i],
				       s->schema, s->table);
	return WHERRY_OK;
}

static wherry_code note_relation(postgres_stream *s, const wh_pgo_message *m,
				 wherry_error *err)
{
	const char *names[WH_PG_COLUMNS_MOST];
	postgres_relation *r = find_relation(s, m->oid);
	wh_pgo_list columns = m->columns;
	wh_pgo_column column;

	bool wanted = wh_view_eq(m->schema, wh_view_of(s->schema)) &&
		      wh_view_eq(m->name, wh_view_of(s->table));

	/* There may be any number of other tables. */
	if (!wanted) {
		if (r)
			*r = s->relations[--s->n_relations];
		return WHERRY_OK;
	}
	if (!r && s->n_relations < WH_PG_RELATIONS_MOST)
		r = &s->relations[s->n_relations++];
	else if (!r)
		r = &s->relations[s->next_relation++ % WH_PG_RELATIONS_MOST];
	*r = (postgres_relation){.oid = m->oid};
	for (int i = 0; i < s->n_columns; i++)
		names[i] = s->names[i];
	wh_pgo_find(columns, names, (size_t)s->n_columns, r->at);
	for (int nth = 0; wh_pgo_next_column(&columns, &column); nth++)
		for (int i = 0; i < s->n_columns; i++)
			if (r->at[i] == nth)
				r->types[i] = column.type;
	return check_columns(s, r, err);
}

/* Was this value sent, as NULL or not? */
static bool was_sent(const wh_pgo_message *m, int at, const wh_pgo_value *value)
{
	return at < 0 || (at < (int)m->row.n && value->form != WH_PGO_UNCHANGED);
}

static wherry_code take_row(postgres_stream *s, const wh_pgo_message *m,
			    wh_stream_kind *out, wherry_error *err)
{
	wh_pgo_value values[WH_PG_COLUMNS_MOST];
	const postgres_relation *r = find_relation(s, m->oid);

	*out = WH_STREAM_OTHERS;
	if (!r)
		return WHERRY_OK;
	wh_pgo_pick(m->row, r->at, (size_t)s->n_columns, values);
	for (int i = 0; i < s->n_columns; i++) {
		bool there;

		if (!was_sent(m, r->at[i], &values[i]))
			return wh_fail(err, WHERRY_CORRUPT,
				       "%s: a row of %s.%s came without its column '%s'",
				       s->link.name, s->schema, s->table, s->names[i]);
		there = values[i].form == WH_PGO_TEXT || values[i].form == WH_PGO_BINARY;

		s->values[i] = (wh_postgres_value){
			.data = there ? values[i].data : (wh_view){NULL, 0},
			.type = r->types[i],
			.binary = values[i].form == WH_PGO_BINARY,
		};
	}
	*out = WH_STREAM_ROW;
	return WHERRY_OK;
}

/* Read a message 'w': its position, the end of the WAL, the time, then a message of
 * pgoutput. */
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
		return note_relation(s, &m, err);
	} else if (m.kind == WH_PGO_INSERT) {
		out->row = wh_postgres_stream_row(s);
		return take_row(s, &m, &out->kind, err);
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

/* Read a keepalive: between transactions the server reports how far it has sent. */
static wherry_code take_keepalive(postgres_stream *s, const char *bytes, size_t len,
				  wh_stream_event *out, wherry_error *err)
{
	if (len < 18)
		return wh_fail(err, WHERRY_CORRUPT, "%s: a keepalive of %zu bytes",
			       s->link.name, len);
	out->kind = WH_STREAM_POSITION;
	out->at = get64(bytes + 1);
	s->asked |= bytes[17] != 0;
	if (out->at > s->seen)
		s->seen = out->at;
	return WHERRY_OK;
}

/* The stream has ended: with an error, or because the server shuts down. */
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

static const char *stream_slot(const wh_stream *base)
{
	return ((const postgres_stream *)base)->slot;
}

static bool stream_waiting(const wh_stream *base)
{
	return ((const postgres_stream *)base)->waiting;
}

const wh_stream_driver wh_postgres_stream_driver = {
	.close = wh_postgres_stream_close,
	.ready = wh_postgres_stream_ready,
	.slot = stream_slot,
	.has_rows = wh_postgres_stream_has_rows,
	.rows = wh_postgres_stream_rows,
	.start = stream_start,
	.next = stream_next,
	.confirm = stream_confirm,
	.deadline = stream_deadline,
	.fd = stream_fd,
	.waiting = stream_waiting,
};
