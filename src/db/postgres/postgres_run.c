/*
 * Running statements.  They are prepared once, values and rows are binary.  Rows are
 * visited one by one as they arrive, so that a batch of large bodies is never in memory
 * as a whole.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "db/postgres/postgres.h"

/* PostgreSQL's epoch, 2000-01-01, in Unix time. */
enum { EPOCH_S = 946684800 };

/* A row, valid during the visit. */
typedef struct postgres_row {
	PGresult *res;
	const wh_postgres_text *text;
	wh_arena copies;
	bool failed;
} postgres_row;

/* The values of one call, in libpq's form. */
typedef struct bound {
	const char *values[WH_STMT_PARAMS];
	int lengths[WH_STMT_PARAMS];
	int formats[WH_STMT_PARAMS];
	char numbers[WH_STMT_PARAMS][24];
	wh_arena copies;
} bound;

/* ---- statements ---- */

void wh_postgres_clear(postgres_db *s)
{
	free(s->stmts);
	s->stmts = NULL;
	s->n_stmts = 0;
}

/* Free a prepared statement.  Failures are ignored: the server then only keeps a plan for
 * some time. */
static void deallocate(postgres_db *s, postgres_stmt *c)
{
	char sql[48];

	if (!*c->name || s->visiting || s->base.closing ||
	    PQstatus(s->conn) != CONNECTION_OK ||
	    PQtransactionStatus(s->conn) != PQTRANS_IDLE)
		return;
	(void)snprintf(sql, sizeof(sql), "DEALLOCATE %s", c->name);
	PQclear(wh_postgres_query(s, sql));
}

void wh_postgres_forget(wherry_db *db, const wh_sql *sql)
{
	postgres_db *s = (postgres_db *)db;
	size_t kept = 0;

	for (size_t i = 0; i < s->n_stmts; i++) {
		postgres_stmt *c = &s->stmts[i];

		if (c->stmt < sql->stmts || c->stmt >= sql->stmts + sql->n) {
			s->stmts[kept++] = *c;
			continue;
		}
		deallocate(s, c);
	}
	s->n_stmts = kept;
}

/*
 * Call it after the server refused a prepared statement: the table was altered, or the
 * session's statements were dropped.  Makes every statement be prepared again, with the
 * types that its parameters have by then.
 */
static void forget_plans(postgres_db *s)
{
	for (size_t i = 0; i < s->n_stmts; i++) {
		s->stmts[i].name[0] = 0;
		s->stmts[i].described = false;
	}
	wh_postgres_forget_types(s);
	s->stale = true;
}

static wherry_code find(postgres_db *s, const wh_stmt *stmt, postgres_stmt **out,
			wherry_error *err)
{
	postgres_stmt *grown;

	for (size_t i = 0; i < s->n_stmts; i++) {
		if (s->stmts[i].stmt == stmt) {
			*out = &s->stmts[i];
			return WHERRY_OK;
		}
	}
	grown = realloc(s->stmts, (s->n_stmts + 1) * sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	s->stmts = grown;
	s->stmts[s->n_stmts] = (postgres_stmt){.stmt = stmt};
	*out = &s->stmts[s->n_stmts++];
	wh_postgres_recall(s, *out);
	return WHERRY_OK;
}

static wherry_code check_done(postgres_db *s, PGresult *res, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		code = wh_postgres_fail(s, res, err);
	PQclear(res);
	return code;
}

/* Prepare a statement and read the types of its parameters.  On a borrowed connection and
 * behind a pooler nothing stays prepared, but the types are remembered. */
static wherry_code plan(postgres_db *s, postgres_stmt *c, wherry_error *err)
{
	char name[sizeof(c->name)] = "";
	wherry_code code;
	PGresult *res;

	if (!s->borrowed && !s->pooled)
		(void)snprintf(name, sizeof(name), "wherry%u", s->n_named++);
	/* Only on an own connection, where all prepared statements are the driver's. */
	if (s->stale && *name)
		PQclear(wh_postgres_query(s, "DEALLOCATE ALL"));
	s->stale = false;
	code = check_done(s, wh_postgres_prepare(s, name, c->stmt->text), err);
	if (code != WHERRY_OK)
		return code;
	if (!c->described) {
		res = wh_postgres_describe(s, name);
		for (int i = 0; i < c->stmt->n_params && i < PQnparams(res); i++)
			c->types[i] = PQparamtype(res, i);
		code = check_done(s, res, err);
		if (code == WHERRY_OK)
			wh_postgres_remember(s, c);
	}
	if (code == WHERRY_OK) {
		memcpy(c->name, name, sizeof(name));
		c->described = true;
	}
	return code;
}

/* Prepare a statement if it is not known yet; an unnamed one in a transaction.  Otherwise
 * a pooler may prepare and describe it in two sessions. */
static wherry_code prepare(postgres_db *s, postgres_stmt *c, wherry_error *err)
{
	enum { UNNAMED_RUNS = 2 };
	bool unnamed = s->borrowed || s->pooled;
	wherry_code code;

	if (*c->name || (unnamed && c->described))
		return WHERRY_OK;
	if (s->many_tables && c->described && c->runs++ < UNNAMED_RUNS)
		return WHERRY_OK;
	if (!unnamed || PQtransactionStatus(s->conn) != PQTRANS_IDLE)
		return plan(s, c, err);
	code = wh_postgres_begin(s, err);
	if (code != WHERRY_OK)
		return code;
	code = plan(s, c, err);
	PQclear(wh_postgres_query(s, "ROLLBACK"));
	return code;
}

/* ---- parameters ---- */

/* Index of the statement's parameter for the i-th given one.  It is remembered by the
 * address of its name, since a statement is always run from the same place. */
static int slot_of(postgres_stmt *c, size_t i, const char *name)
{
	if (c->given[i] == name)
		return c->slot[i];
	c->given[i] = name;
	c->slot[i] = -1;
	for (int slot = 0; slot < c->stmt->n_params; slot++)
		if (strcmp(c->stmt->params[slot], name) == 0)
			c->slot[i] = slot;
	return c->slot[i];
}

static void bind_number(bound *b, int slot, Oid type, int64_t number)
{
	char *to = b->numbers[slot];
	uint64_t wide = htobe64((uint64_t)number);
	uint32_t middle = htobe32((uint32_t)number);
	uint16_t narrow = htobe16((uint16_t)number);
	int len = 0;

	if (type == WH_PG_INT8)
		memcpy(to, &wide, (size_t)(len = 8));
	else if (type == WH_PG_INT4 && number == (int32_t)number)
		memcpy(to, &middle, (size_t)(len = 4));
	else if (type == WH_PG_INT2 && number == (int16_t)number)
		memcpy(to, &narrow, (size_t)(len = 2));
	else if (type == WH_PG_BOOL)
		to[0] = number != 0, len = 1;
	else
		(void)snprintf(to, sizeof(b->numbers[slot]), "%lld", (long long)number);
	b->values[slot] = to;
	b->lengths[slot] = len;
	b->formats[slot] = len > 0;
}

/* Pass a text or blob.  Types whose binary form is the text itself are passed in binary,
 * others as C strings. */
static bool bind_bytes(bound *b, int slot, Oid type, wh_view bytes)
{
	bool as_is = type == WH_PG_BYTEA || type == WH_PG_TEXT || type == WH_PG_VARCHAR ||
		     type == WH_PG_JSON;

	b->values[slot] = bytes.ptr;
	b->lengths[slot] = (int)bytes.len;
	b->formats[slot] = as_is;
	if (!as_is)
		b->values[slot] = wh_arena_copy(&b->copies, bytes.ptr, bytes.len);
	return b->values[slot];
}

/* The bytes that are sent of a parameter. */
static wherry_code bytes_of(postgres_db *s, bound *b, Oid type, const wh_param *param,
			    wh_view *out, wherry_error *err)
{
	bool failed = false;

	*out = param->bytes;
	if (type == WH_PG_BYTEA ||
	    wh_postgres_text_server(&s->text, param->bytes, &b->copies, out, &failed))
		return WHERRY_OK;
	return failed ? wh_oom(err) : wh_postgres_fail_encoding(s, err);
}

static wherry_code bind(postgres_db *s, postgres_stmt *c, const wh_param *params,
			size_t n, bound *b, wherry_error *err)
{
	enum { MUCH = 1000000 };
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int slot = slot_of(c, i, params[i].name);
		wherry_code code = WHERRY_OK;
		wh_view bytes;

		if (slot < 0 || params[i].type == WH_NULL)
			/* The statement does not use it, or it is NULL. */
			continue;
		if (params[i].type == WH_INT) {
			bind_number(b, slot, c->types[slot], params[i].number);
			continue;
		}
		code = bytes_of(s, b, c->types[slot], &params[i], &bytes, err);
		if (code != WHERRY_OK)
			return code;
		if (bytes.len > INT32_MAX)
			return wh_fail(err, WHERRY_TOOBIG, "a value is over 2 GB");
		if (!bind_bytes(b, slot, c->types[slot], bytes))
			return wh_oom(err);
		len += bytes.len;
	}
	s->sends_much = len > MUCH;
	return WHERRY_OK;
}

/* ---- rows ---- */

static int64_t read_number(const char *value, int len)
{
	uint64_t wide;
	uint32_t middle;
	uint16_t narrow;

	switch (len) {
	case 8:
		memcpy(&wide, value, 8);
		return (int64_t)be64toh(wide);
	case 4:
		memcpy(&middle, value, 4);
		return (int32_t)be32toh(middle);
	case 2:
		memcpy(&narrow, value, 2);
		return (int16_t)be16toh(narrow);
	case 1:
		return *value;
	default:
		return 0;
	}
}

/* Times are returned as Unix milliseconds; infinity as the latest possible time. */
static int64_t row_int(const wh_row *row, int column)
{
	const PGresult *res = ((postgres_row *)row->handle)->res;
	int64_t number;

	if (PQgetisnull(res, 0, column))
		return 0;
	number = read_number(PQgetvalue(res, 0, column), PQgetlength(res, 0, column));
	if (PQftype(res, column) != WH_PG_TIMESTAMPTZ)
		return number;
	if (number > INT64_MAX - EPOCH_S * 1000000LL)
		return INT64_MAX / 1000;
	number += EPOCH_S * 1000000LL;
	return number / 1000 - (number % 1000 < 0);
}

static wh_view row_bytes(const wh_row *row, int column)
{
	postgres_row *r = row->handle;
	const PGresult *res = r->res;
	wh_view view = {NULL, 0};

	if (PQgetisnull(res, 0, column))
		return view;
	view.ptr = PQgetvalue(res, 0, column); /* libpq appends a NUL. */
	view.len = (size_t)PQgetlength(res, 0, column);
	/* Skip the version byte. */
	if (PQftype(res, column) == WH_PG_JSONB && view.len) {
		view.ptr++;
		view.len--;
	}
	if (PQftype(res, column) == WH_PG_BYTEA)
		return view;
	return wh_postgres_text_utf8(r->text, view, &r->copies, &r->failed);
}

static bool row_failed(const wh_row *row)
{
	return ((postgres_row *)row->handle)->failed;
}

const wh_row_driver wh_postgres_rows = {
	.integer = row_int,
	.bytes = row_bytes,
	.failed = row_failed,
};

/* ---- running ---- */

typedef struct running {
	postgres_db *s;
	wh_row_fn visit;
	void *ctx;
	int64_t changed;
	bool alone; /* No transaction is open. */
	/* The statement may be cancelled when the visitor ends it: nothing follows it. */
	bool cuts;
	bool any;  /* A row was visited. */
	bool gone; /* The prepared statement does not exist any more. */
	/* The server has undone its transaction, because of another one's. */
	bool undone;
} running;

static wherry_code send(postgres_db *s, postgres_stmt *c, bound *b, wherry_error *err)
{
	int sent;

	if (*c->name)
		sent = PQsendQueryPrepared(s->conn, c->name, c->stmt->n_params, b->values,
					   b->lengths, b->formats, 1);
	else
		sent = PQsendQueryParams(
			s->conn, wh_postgres_text_sql(s, c->stmt->text, &b->copies),
			c->stmt->n_params, c->types, b->values, b->lengths, b->formats,
			1);
	return sent ? WHERRY_OK : wh_postgres_fail(s, NULL, err);
}

static wherry_code bind_and_send(postgres_db *s, postgres_stmt *c, const wh_param *params,
				 size_t n_params, wherry_error *err)
{
	bound b = {.copies = WH_ARENA_INIT};
	wherry_code code = bind(s, c, params, n_params, &b, err);

	if (code == WHERRY_OK)
		code = send(s, c, &b, err);
	wh_arena_clear(&b.copies);
	return code;
}

static wherry_code take_row(running *w, PGresult *res, wherry_error *err)
{
	postgres_row seen = {.res = res, .text = &w->s->text, .copies = WH_ARENA_INIT};
	wh_row row = {.driver = &wh_postgres_rows, .handle = &seen};
	wherry_code code = WHERRY_OK;

	w->any = true;
	if (PQftype(res, 0) == WH_PG_INT8) /* From INSERT … RETURNING id. */
		w->s->last_id = row_int(&row, 0);
	if (w->visit)
		code = w->visit(w->ctx, &row, err);
	wh_arena_clear(&seen.copies);
	return code;
}

/* Rows that a SELECT returns do not count as changed. */
static void count_changed(running *w, PGresult *res)
{
	int64_t n = 0;

	if (strncmp(PQcmdStatus(res), "SELECT", 6) != 0)
		(void)wh_parse_int(PQcmdTuples(res), &n);
	w->changed = n;
}

static bool is_gone(const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	return (state && strcmp(state, "26000") == 0) || wh_postgres_outdated(res);
}

static bool is_undone(const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	return state && (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0);
}

/* Cancel a statement that the visitor ended, so that the server does not send the
 * remaining rows.  Not inside a transaction, which that would abort. */
static void cut_short(running *w)
{
	char why[256];

	if (w->s->cancel && w->cuts && !w->s->borrowed)
		(void)PQcancel(w->s->cancel, why, sizeof(why));
}

/* Read the answer to one statement. */
static wherry_code collect(running *w, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	PGresult *res;

	(void)PQsetSingleRowMode(w->s->conn);
	w->s->visiting = true;
	while ((res = wh_postgres_result(w->s))) {
		ExecStatusType status = PQresultStatus(res);

		if (code != WHERRY_OK) {
			; /* Skip the remaining results. */
		} else if (status == PGRES_SINGLE_TUPLE) {
			code = take_row(w, res, err);
			if (code != WHERRY_OK)
				cut_short(w);
		} else if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
			count_changed(w, res);
		} else {
			w->gone = is_gone(res);
			w->undone = is_undone(res);
			code = wh_postgres_fail(w->s, res, err);
		}
		PQclear(res);
	}
	w->s->visiting = false;
	return code;
}

static wherry_code run_once(running *w, postgres_stmt *c, const wh_param *params,
			    size_t n_params, wherry_error *err)
{
	wherry_code code = prepare(w->s, c, err);

	if (code == WHERRY_OK)
		code = bind_and_send(w->s, c, params, n_params, err);
	if (code == WHERRY_OK)
		code = collect(w, err);
	return code;
}

static void begin_call(postgres_db *s)
{
	atomic_store(&s->interrupted, false);
	atomic_store(&s->running, true);
}

static void end_call(postgres_db *s)
{
	atomic_store(&s->running, false);
	wh_postgres_heard(s);
}

/* Run a statement.  Behind a pooler a lone statement gets a transaction, which makes the
 * settings. */
static wherry_code run_lone(running *w, postgres_stmt *c, const wh_param *params,
			    size_t n_params, wherry_error *err)
{
	wherry_code code;
	bool begun;

	if (!w->alone || !w->s->pooled)
		return run_once(w, c, params, n_params, err);
	code = wh_postgres_begin_synced(w->s, err);
	if (code != WHERRY_OK)
		return code;
	begun = wh_postgres_text_begin(w->s);
	code = run_once(w, c, params, n_params, err);
	wh_postgres_text_end(w->s, begun);
	if (code == WHERRY_OK)
		return wh_postgres_end(w->s, err);
	PQclear(wh_postgres_query(w->s, "ROLLBACK"));
	return code;
}

/* A lone statement is a whole transaction, so it is run again if the server undid it before it gave a row. */
static wherry_code run_again(running *w, postgres_stmt *c, const wh_param *params,
			     size_t n_params, wherry_code code, wherry_error *err)
{
	enum { TRIES = 5, REST_US = 2000 };

	for (int i = 0; i < TRIES && w->undone && w->alone && !w->any &&
			!w->s->borrowed && !atomic_load(&w->s->interrupted);
	     i++) {
		wh_sleep(w->s->base.env, REST_US << i);
		wh_error_clear(err);
		w->undone = false;
		code = run_lone(w, c, params, n_params, err);
	}
	return code;
}

wherry_code wh_postgres_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			    size_t n_params, wh_row_fn visit, void *ctx,
			    int64_t *out_changed, wherry_error *err)
{
	running w = {.s = (postgres_db *)db, .visit = visit, .ctx = ctx};
	postgres_stmt *c = NULL;
	wherry_code code = wh_postgres_check_free(w.s, err);
	int64_t began_us = wh_monotonic(db->env);
	bool begun;

	if (code == WHERRY_OK)
		code = find(w.s, stmt, &c, err);
	if (code != WHERRY_OK)
		return code;
	begun = wh_postgres_text_begin(w.s);
	w.cuts = w.alone = PQtransactionStatus(w.s->conn) == PQTRANS_IDLE;
	begin_call(w.s);
	code = run_lone(&w, c, params, n_params, err);
	if (w.gone)
		forget_plans(w.s);
	if (w.gone && !w.any && PQtransactionStatus(w.s->conn) == PQTRANS_IDLE)
		code = run_lone(&w, c, params, n_params, err);
	code = run_again(&w, c, params, n_params, code, err);
	w.s->watch.spent_us += wh_monotonic(db->env) - began_us;
	end_call(w.s);
	wh_postgres_text_end(w.s, begun);
	if (code == WHERRY_OK && out_changed)
		*out_changed = w.changed;
	return code;
}
