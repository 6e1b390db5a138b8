/*
 * Claims: rows that one of several relays works on.  Each is marked with the relay's
 * token and an expiry by the database's clock.
 *
 * A claim takes the first open messages of a key together, and none of a key that has a
 * claimed message.  So two relays never hold messages of one key at the same time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/claims.h"
#include "store/fields.h"
#include "store/settlement.h"

enum { SCAN_LEAST = 2000, SHARES = 8 };

/* ---- claiming ---- */

typedef struct claiming {
	wh_store *store;
	const wherry_lease *lease;
	const wherry_claim_options *options;
	wh_claim_place *place; /* NULL: start at the beginning each time. */
	const wh_claim_ask *ask;
	int64_t n;    /* rows claimed */
	int64_t scan; /* Number of pending rows to look at. */
	/* Id of the last row to look at; number of rows up to it. */
	int64_t upto, scanned;
	char of[48]; /* Token whose expired claims are taken over; "": of any relay. */
	int64_t expired; /* Number of expired rows with that token. */
	bool more;
	bool full;       /* Look at all rows, not only those behind the scan_start. */
	int64_t last;    /* Id of the last ready row that was claimed; 0: none. */
	int64_t last_at; /* Time of that row, if rows are ordered by time. */
} claiming;

enum { CLAIM_PARAMS = 11 };

void wh_claim_rewind(wh_claim_place *place)
{
	*place = (wh_claim_place){.after = INT64_MIN};
}

static bool has_scan_start(const claiming *w)
{
	return w->place &&
	       (w->store->stmt.claim_behind || w->store->stmt.claim_behind_time);
}

static void fill_params(const claiming *w, wh_param *p, int64_t limit)
{
	p[0] = WH_TEXT_PARAM("token", wh_view_of(w->lease->token));
	p[1] = WH_INT_PARAM("lasts", wh_ms(w->options->lasts_us));
	p[2] = WH_INT_PARAM("unordered", w->options->unordered);
	p[3] = WH_INT_PARAM("limit", limit);
	p[4] = WH_INT_PARAM("after", w->place ? w->place->after : INT64_MIN);
	p[5] = WH_INT_PARAM("upto", w->upto);
	p[6] = WH_INT_PARAM("share", *w->of != 0);
	p[7] = WH_TEXT_PARAM("of", wh_view_of(w->of));
	p[8] = WH_INT_PARAM("long", w->ask->text_most);
	p[9] = WH_INT_PARAM("body", w->ask->body_most);
	p[10] = WH_INT_PARAM("after_at", w->place ? w->place->last_at : 0);
}

/* The columns that the functions below read: id, message id, and in the last column the
 * claim's mark or the time by which rows are ordered. */
enum { ID = 0, MESSAGE_ID = 5, MARK = 13, AT = 13, MARK_MOST = 48 };

/* Remember the highest row: a claim may return rows in any order. */
static void note_last(claiming *w, int64_t id, const wh_row *row)
{
	int64_t at = w->store->stmt.claim_behind_time ? wh_row_int(row, AT) : 0;

	if (at < w->last_at || (at == w->last_at && id <= w->last))
		return;
	w->last = id;
	w->last_at = at;
}

static wherry_code take_claimed(void *ctx, const wh_row *row, wherry_error *err)
{
	claiming *w = ctx;
	int64_t id = wh_row_int(row, ID);
	wherry_code code = WHERRY_OK;

	if (w->store->layout.by_claim)
		code = wh_marks_add(&w->store->marks, w->lease->token,
				    wh_row_bytes(row, MESSAGE_ID),
				    wh_row_bytes(row, MARK), &id, err);
	w->n++;
	note_last(w, id, row);
	return code == WHERRY_OK ? w->ask->visit(w->ask->ctx, id, row, err) : code;
}

static wherry_code take_end(void *ctx, const wh_row *row, wherry_error *err)
{
	claiming *w = ctx;

	(void)err;
	w->upto = wh_row_int(row, 0);
	w->scanned = wh_row_int(row, 1);
	return WHERRY_OK;
}

/* Set where the next claim begins, after one that left rows it could not claim: it looks further on. */
static void move_on(claiming *w)
{
	if (w->scanned < w->scan) {
		wh_claim_rewind(w->place);
		return;
	}
	w->place->after = w->upto;
	w->more = true;
}

static wherry_code claim_pending(claiming *w, int64_t limit, wherry_error *err)
{
	bool in_parts = w->place && !has_scan_start(w);
	wh_param params[CLAIM_PARAMS];
	int64_t before = w->n;
	wherry_code code = WHERRY_OK;

	fill_params(w, params, limit);
	if (in_parts) {
		w->scan = w->options->limit > SCAN_LEAST / 2 ? 2 * w->options->limit
							     : SCAN_LEAST;
		params[5] = WH_INT_PARAM("scan", w->scan);
		code = wh_db_run(w->store->db, w->store->stmt.claim_end, params,
				 CLAIM_PARAMS, take_end, w, NULL, err);
	} else { /* Look at all pending rows. */
		w->upto = w->scanned = INT64_MAX;
	}
	if (code == WHERRY_OK && w->scanned) {
		fill_params(w, params, limit);
		code = wh_db_run(w->store->db, w->store->stmt.claim, params, CLAIM_PARAMS,
				 take_claimed, w, NULL, err);
	}
	w->more = w->n - before == limit;
	if (code == WHERRY_OK && !w->more && in_parts)
		move_on(w);
	return code;
}

/* On a database with several writers, claims run one after the other, so that each sees
 * the rows of the one before. */
static wherry_code take_turns(const claiming *w, wherry_error *err)
{
	if (!w->store->stmt.claim_lock)
		return WHERRY_OK;
	return wh_db_run(w->store->db, w->store->stmt.claim_lock, NULL, 0, NULL, NULL,
			 NULL, err);
}

/* Claim from all rows: first failed ones that are due, then ready ones. */
static wherry_code claim_all(claiming *w, wherry_error *err)
{
	wh_param params[CLAIM_PARAMS];
	int64_t due = w->options->limit - w->n, most = w->options->failed_most;
	int64_t last = w->last, last_at = w->last_at;
	int64_t before = wh_monotonic(w->store->db->env);
	wherry_code code = WHERRY_OK;

	if (most && most < due)
		due = most;
	fill_params(w, params, due);
	if (due > 0)
		code = wh_db_run(w->store->db, w->store->stmt.claim_due, params,
				 CLAIM_PARAMS, take_claimed, w, NULL, err);
	w->last = last;
	w->last_at = last_at;
	w->more = w->n == w->options->limit;
	if (code == WHERRY_OK && !w->more)
		code = claim_pending(w, w->options->limit - w->n, err);
	if (has_scan_start(w))
		wh_scan_start_looked(&w->place->scan_start, w->store->db, before);
	return code;
}

/* Claim only ready rows behind the scan_start. */
static wherry_code claim_behind(claiming *w, wherry_error *err)
{
	const wh_store_stmts *stmt = &w->store->stmt;
	wh_param params[CLAIM_PARAMS];
	wherry_code code;

	fill_params(w, params, w->options->limit);
	params[4] = WH_INT_PARAM("after", w->place->last);
	code = wh_db_run(w->store->db,
			 stmt->claim_behind_time ? stmt->claim_behind_time
						 : stmt->claim_behind,
			 params, CLAIM_PARAMS, take_claimed, w, NULL, err);
	w->more = w->n == w->options->limit;
	return code;
}

static wherry_code claim(void *ctx, wherry_error *err)
{
	claiming *w = ctx;
	wherry_code code = take_turns(w, err);

	w->n = w->last = w->last_at = 0;
	w->full = !has_scan_start(w) ||
		  wh_scan_start_is_due(&w->place->scan_start, w->store->db);
	if (code == WHERRY_OK && !w->full) {
		code = claim_behind(w, err);
		w->full = !w->more && wh_scan_start_is_cheap(&w->place->scan_start);
	}
	return code == WHERRY_OK && w->full ? claim_all(w, err) : code;
}

/* Set where the next claim begins. */
static void move_scan_start(const claiming *w)
{
	if (!has_scan_start(w))
		return;
	w->place->partial = !w->full;
	if (!w->last)
		return;
	w->place->last = w->last;
	w->place->last_at = w->last_at;
}

/* ---- what is held by claims ---- */

wherry_code wh_store_claim_ids(wh_store *store, const wherry_lease *lease,
			       const int64_t *ids, size_t n, wh_param *out,
			       wherry_error *err)
{
	wh_view message_id, mark;
	wherry_code code;

	if (!store->layout.by_claim)
		return wh_store_ids(store, ids, n, out, err);
	wh_buf_reset(&store->ids);
	wh_buf_putc(&store->ids, '[');
	for (size_t i = 0; i < n; i++) {
		if (!wh_marks_find(&store->marks, lease->token, ids[i], &message_id,
				   &mark))
			continue;
		wh_buf_puts(&store->ids, store->ids.len > 1 ? ",[" : "[");
		wh_buf_json(&store->ids, message_id.ptr, message_id.len);
		wh_buf_putc(&store->ids, ',');
		wh_buf_json(&store->ids, mark.ptr, mark.len);
		wh_buf_printf(&store->ids, ",%" PRId64 "]", ids[i]);
	}
	wh_buf_putc(&store->ids, ']');
	code = wh_buf_check(&store->ids, err);
	if (code == WHERRY_OK)
		*out = WH_TEXT_PARAM("ids", ((wh_view){store->ids.ptr, store->ids.len}));
	return code;
}

void wh_store_claim_params(const wh_store *store, const wherry_lease *lease, int64_t id,
			   wh_param out[2])
{
	wh_view message_id = {NULL, 0}, mark = {NULL, 0};

	if (store->layout.by_claim)
		(void)wh_marks_find(&store->marks, lease->token, id, &message_id, &mark);
	out[0] = WH_TEXT_PARAM("message_id", message_id);
	out[1] = WH_TEXT_PARAM("started", mark);
}

void wh_store_claim_forget(wh_store *store, const wherry_lease *lease,
			   const wh_settlement *s)
{
	if (!store->marks.n)
		return;
	for (size_t i = 0; i < s->n_done; i++)
		wh_marks_drop(&store->marks, lease->token, s->done[i]);
	for (size_t i = 0; i < s->n_failed; i++)
		wh_marks_drop(&store->marks, lease->token, s->failed[i].id);
	for (size_t i = 0; i < s->n_back; i++)
		wh_marks_drop(&store->marks, lease->token, s->back[i]);
}

/* ---- claiming them ---- */

wherry_code wh_store_claim_check(const wh_store *store, const wherry_lease *lease,
				 const wherry_claim_options *options, wherry_error *err)
{
	wherry_code code;

	if (!lease || !options || !*lease->token || options->limit < 1 ||
	    options->lasts_us <= 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"a claim needs a lease that competing relays hold, a limit and "
			"a time");
	code = wh_span_check("the claim", options->lasts_us, err);
	if (code != WHERRY_OK)
		return code;
	return store->stmt.claim
		       ? WHERRY_OK
		       : wh_store_cannot(store, "whose rows are not claimed", err);
}

static claiming begin(wh_store *store, const wh_claim_ask *ask)
{
	return (claiming){.store = store,
			  .ask = ask,
			  .lease = ask->lease,
			  .options = ask->options,
			  .place = ask->place};
}

wherry_code wh_store_claim(wh_store *store, const wh_claim_ask *ask, bool *out_more,
			   wherry_error *err)
{
	claiming w = begin(store, ask);
	wherry_code code = wh_store_claim_check(store, ask->lease, ask->options, err);

	/* The relay has seen the rows, and begins again itself. */
	if (code == WHERRY_OK)
		code = wh_db_transact_once(store->db, true, claim, &w, err);
	if (code == WHERRY_OK) {
		store->rows_read += w.n;
		*out_more = w.more;
		move_scan_start(&w);
	} else if (ask->place) {
		wh_claim_rewind(ask->place);
	}
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

static wherry_code take_expired(void *ctx, const wh_row *row, wherry_error *err)
{
	claiming *w = ctx;
	wh_view token = wh_row_bytes(row, 0);

	(void)err;
	/* Wherry made no such token: claim its rows one by one. */
	if (token.len >= sizeof(w->of))
		return WHERRY_OK;
	(void)snprintf(w->of, sizeof(w->of), "%s", token.len ? token.ptr : "");
	w->expired = wh_row_int(row, 1);
	return WHERRY_OK;
}

/* How many rows to claim at once, an eighth of those that expired.  Small shares find a
 * message that crashes relays in few steps; large shares deliver the others soon. */
static int64_t share_of(const claiming *w)
{
	int64_t n = (w->expired + SHARES - 1) / SHARES;

	return n < w->options->limit ? n : w->options->limit;
}

/* Rows that expired with the token w->of; or, without one, one row of any relay, whose attempt is
 * recorded. */
static wherry_code claim_some_expired(claiming *w, wherry_error *err)
{
	const wh_store_stmts *stmt = &w->store->stmt;
	wh_param params[CLAIM_PARAMS];
	wherry_code code = WHERRY_OK;

	if (!*w->of && stmt->note_expired)
		code = wh_db_run(w->store->db, stmt->note_expired, NULL, 0, NULL, NULL,
				 NULL, err);
	fill_params(w, params, *w->of ? share_of(w) : 1);
	if (code == WHERRY_OK)
		code = wh_db_run(w->store->db,
				 *w->of ? stmt->claim_share : stmt->claim_expired, params,
				 CLAIM_PARAMS, take_claimed, w, NULL, err);
	return code;
}

/* Runs in a transaction, so that the claim is rolled back if visiting its row fails. */
static wherry_code claim_expired(void *ctx, wherry_error *err)
{
	claiming *w = ctx;
	wh_param params[CLAIM_PARAMS];
	wherry_code code = take_turns(w, err);

	if (code == WHERRY_OK && w->options->limit > 1) {
		fill_params(w, params, 1);
		code = wh_db_run(w->store->db, w->store->stmt.expired, params,
				 CLAIM_PARAMS, take_expired, w, NULL, err);
	}
	if (*w->of && share_of(w) <= 1)
		*w->of = 0;
	if (code == WHERRY_OK)
		code = claim_some_expired(w, err);
	if (code != WHERRY_OK || !*w->of || w->n)
		return code;
	*w->of = 0; /* All of these are locked, or behind a locked one. */
	return claim_some_expired(w, err);
}

wherry_code wh_store_claim_expired(wh_store *store, const wh_claim_ask *ask,
				   wherry_error *err)
{
	claiming w = begin(store, ask);
	wherry_code code = wh_store_claim_check(store, ask->lease, ask->options, err);

	if (code == WHERRY_OK)
		code = wh_db_transact_once(store->db, true, claim_expired, &w, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

static wherry_code take_next(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t *out = ctx;

	(void)err;
	for (int i = 0; i < 2; i++) {
		int64_t ms = wh_row_int(row, i);

		if (!wh_row_text(row, i))
			out[i] = WH_NEVER;
		else
			out[i] = ms > 0 ? wh_us(ms) : 0;
	}
	return WHERRY_OK;
}

wherry_code wh_store_claim_next(wh_store *store, int64_t lasts_us, int64_t *out_expiry_us,
				int64_t *out_due_us, wherry_error *err)
{
	const wh_param lasts = WH_INT_PARAM("lasts", wh_ms(lasts_us));
	int64_t next[2] = {WH_NEVER, WH_NEVER};
	wherry_code code = wh_db_run(store->db, store->stmt.claim_next, &lasts, 1,
				     take_next, next, NULL, err);

	if (code != WHERRY_OK)
		return code;
	*out_expiry_us = next[0];
	*out_due_us = next[1];
	return WHERRY_OK;
}

/* All rows of one call of "extend" get the same mark, in layouts with marks. */
static wherry_code take_mark(void *ctx, const wh_row *row, wherry_error *err)
{
	char *mark = ctx;

	(void)err;
	(void)snprintf(mark, MARK_MOST, "%s", wh_row_text(row, 1));
	return WHERRY_OK;
}

wherry_code wh_store_extend(wh_store *store, const wherry_lease *lease,
			    const int64_t *ids, const wh_view *names, size_t n,
			    int64_t lasts_us, int64_t *out_n, wherry_error *err)
{
	wh_param params[3 + WH_NAME_PARAMS] = {{.name = "ids"}};
	char mark[MARK_MOST] = "";
	int64_t changed = 0;
	wherry_code code;

	if (!lease || !*lease->token || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "to extend claims takes their lease and a time");
	code = wh_span_check("the claim", lasts_us, err);
	if (code != WHERRY_OK)
		return code;
	if (!store->stmt.extend)
		return wh_store_cannot(store, "whose rows are not claimed", err);
	code = wh_store_claim_ids(store, lease, ids, n, &params[0], err);
	if (code != WHERRY_OK)
		return code;
	params[1] = WH_TEXT_PARAM("token", wh_view_of(lease->token));
	params[2] = WH_INT_PARAM("lasts", wh_ms(lasts_us));
	code = wh_store_names(store, names, n, &params[3], err);
	if (code != WHERRY_OK)
		return code;
	code = wh_db_run(store->db, store->stmt.extend, params, 3 + WH_NAME_PARAMS,
			 take_mark, mark, &changed, err);
	if (code != WHERRY_OK)
		return wh_store_missing(store->model, store->name.ptr, code, err);
	for (size_t i = 0; *mark && i < n; i++)
		wh_marks_change(&store->marks, lease->token, ids[i], wh_view_of(mark));
	if (out_n)
		*out_n = changed;
	if (changed < (int64_t)n)
		return wh_fail(err, WHERRY_STALE,
			       "%" PRId64 " of %zu claims had expired or were taken over",
			       (int64_t)n - changed, n);
	return WHERRY_OK;
}
