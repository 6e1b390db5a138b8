/*
 * Claims: rows that one of several relays works on, marked with its token until a time by
 * the database's clock.
 *
 * A claim takes the first of a key and those behind it as one, and none of a key of which
 * anything is being tried: so two relays never hold two messages of one key.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/uuid.h"
#include "outbox/outbox.h"

enum { SCAN_LEAST = 2000, SCAN_MOST = 50000, SHARES = 8 };

wherry_code wherry_outbox_join(wherry_outbox *box, const char *owner, int64_t lasts_us,
			       wherry_lease *inout, wherry_error *err)
{
	return wh_outbox_join_as(box, false, owner, lasts_us, inout, err);
}

wherry_code wh_outbox_join_as(wherry_outbox *box, bool again, const char *owner,
			      int64_t lasts_us, wherry_lease *inout, wherry_error *err)
{
	wherry_lease lease;
	wherry_code code;

	if (!box || !owner || !inout || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs an outbox, an owner and a time");
	lease = *inout;
	lease.lasts_us = lasts_us;
	lease.epoch = 0;
	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	if (!*lease.token)
		wh_uuid7_now(box->db->env, lease.token);
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", 0),
		WH_TEXT_PARAM("owner", wh_view_of(lease.owner)),
		WH_INT_PARAM("lasts", wh_ms(lasts_us)),
		WH_INT_PARAM("epoch", *inout->token ? inout->epoch : 0),
		WH_TEXT_PARAM("token", wh_view_of(lease.token)),
	};
	if (!box->stmt.claim)
		return wh_outbox_cannot(box, "whose rows are not claimed", err);
	if (!box->stmt.join) {
		lease.epoch = 1; /* nothing is written: who comes may claim */
		*inout = lease;
		return WHERRY_OK;
	}
	if (inout->epoch)
		code = wh_db_run(box->db, box->stmt.join, params,
				 sizeof(params) / sizeof(*params), wh_take_lease, &lease,
				 NULL, err);
	else
		code = wh_slots_guard(box, WH_COMPETING, again, box->stmt.join, params,
				      sizeof(params) / sizeof(*params), &lease, err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	if (lease.epoch) {
		*inout = lease;
		return WHERRY_OK;
	}
	return wh_outbox_held(
		box, ": that relay works alone; run all of an outbox with one engine",
		err);
}

/* ---- claiming ---- */

typedef struct claiming {
	wherry_outbox *box;
	const wherry_lease *lease;
	const wherry_claim_options *options;
	wh_claim_place *place; /* NULL: none is kept */
	wh_open_reader reader;
	wh_open_fn visit; /* of the caller, where claims are noted first */
	void *ctx;
	int64_t scan;          /* so many pending rows to look at */
	int64_t upto, scanned; /* those looked at */
	char of[48];           /* whose claim lapsed; "": nobody's, or any */
	int64_t lapsed;        /* rows that lapsed with it */
	bool more;
} claiming;

enum { CLAIM_PARAMS = 14, PASSED_BYTES_MOST = 8 * 1024 * 1024 };

void wh_claim_rewind(wh_claim_place *place)
{
	wh_buf_clear(&place->passed);
	*place = (wh_claim_place){.passed = WH_BUF_INIT(PASSED_BYTES_MOST),
				  .after = INT64_MIN};
}

static void fill_params(const claiming *w, wh_param *p, int64_t limit)
{
	p[0] = WH_TEXT_PARAM("token", wh_view_of(w->lease->token));
	p[1] = WH_INT_PARAM("lasts", wh_ms(w->options->lasts_us));
	p[2] = WH_INT_PARAM("unordered", w->options->unordered);
	p[3] = WH_INT_PARAM("park", w->options->park);
	p[4] = WH_INT_PARAM("limit", limit);
	p[5] = WH_INT_PARAM("after", w->place ? w->place->after : INT64_MIN);
	p[6] = WH_INT_PARAM("upto", w->upto);
	p[7] = WH_TEXT_PARAM("passed", wh_view_of("[]"));
	p[8] = WH_INT_PARAM("share", *w->of != 0);
	p[9] = WH_TEXT_PARAM("of", wh_view_of(w->of));
	p[10] = WH_INT_PARAM("many", w->place && w->place->many);
	p[11] = WH_INT_PARAM("most",
			     w->options->below_id ? w->options->below_id - 1 : INT64_MAX);
	wh_outbox_limits_of(w->box, &p[12]);
	if (w->box->careful)
		p[12].number = -1;
}

static wherry_code take_end(void *ctx, const wh_row *row, wherry_error *err)
{
	claiming *w = ctx;

	(void)err;
	w->upto = wh_row_int(row, 0);
	w->scanned = wh_row_int(row, 1);
	return WHERRY_OK;
}

/* Looking up the keys that were passed over takes as long as passing over them did: then
 * it is to get further. */
static int64_t scan_of(const claiming *w)
{
	int64_t most = SCAN_LEAST;

	if (w->options->limit > most / 2)
		most = 2 * w->options->limit;
	if (w->place->many && w->place->n_rows > most)
		most = w->place->n_rows < SCAN_MOST ? w->place->n_rows : SCAN_MOST;
	return most;
}

static wherry_code take_passed(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_claim_place *place = ctx;
	wh_view key = wh_row_bytes(row, 0);

	if (place->n_passed++)
		wh_buf_putc(&place->passed, ',');
	wh_buf_put(&place->passed, key.ptr, key.len);
	(void)err;
	return WHERRY_OK; /* there is no room: move_on() sees to it */
}

/* Rows are left that could not be claimed: the next claim looks further on, but takes none
 * of their keys.  Having passed many it begins anew, since others free keys meanwhile, but
 * not if nothing was claimed on the way: then it looks further for once.  Too many keys, or
 * too long ones, are not kept. */
static wherry_code move_on(claiming *w, wh_param *params, wherry_error *err)
{
	wh_claim_place *place = w->place;
	wherry_code code = WHERRY_OK;
	bool deep;

	if (w->scanned < w->scan) {
		wh_claim_rewind(place);
		return WHERRY_OK;
	}
	if (place->n_passed >= WH_PASSED_MOST && !place->deep) {
		deep = !place->n_claimed;
		wh_claim_rewind(place);
		place->deep = w->more = deep;
		return WHERRY_OK;
	}
	if (!w->options->unordered && !place->many && w->box->stmt.claim_passed) {
		params[4] = WH_INT_PARAM("limit", w->scanned); /* all of them */
		code = wh_db_run(w->box->db, w->box->stmt.claim_passed, params,
				 CLAIM_PARAMS, take_passed, place, NULL, err);
	}
	if (code != WHERRY_OK) {
		wh_claim_rewind(place);
		return code;
	}
	if (place->passed.failed || place->n_passed > WH_PASSED_MOST) {
		wh_buf_clear(&place->passed);
		place->passed = (wh_buf)WH_BUF_INIT(PASSED_BYTES_MOST);
		place->n_passed = 0;
		place->many = true;
	}
	place->n_rows += w->scanned;
	place->after = w->upto;
	w->more = true;
	return code;
}

static wherry_code claim_pending(claiming *w, int64_t limit, wherry_error *err)
{
	wh_param params[CLAIM_PARAMS];
	wh_buf passed = WH_BUF_INIT(PASSED_BYTES_MOST + 3);
	int64_t before = w->reader.n;
	wherry_code code = WHERRY_OK;

	fill_params(w, params, limit);
	if (w->place) {
		w->scan = scan_of(w);
		params[6] = WH_INT_PARAM("scan", w->scan);
		code = wh_db_run(w->box->db, w->box->stmt.claim_end, params, CLAIM_PARAMS,
				 take_end, w, NULL, err);
	} else { /* it looks at all that is pending */
		w->upto = w->options->below_id ? w->options->below_id - 1 : INT64_MAX;
		w->scanned = INT64_MAX;
	}
	if (code == WHERRY_OK && w->scanned) {
		fill_params(w, params, limit);
		if (w->place && w->place->n_passed) {
			wh_buf_printf(&passed, "[%s]", w->place->passed.ptr);
			params[7] = WH_TEXT_PARAM("passed",
						  ((wh_view){passed.ptr, passed.len}));
		}
		code = wh_buf_check(&passed, err);
	}
	if (code == WHERRY_OK && w->scanned)
		code = wh_db_run(w->box->db, w->box->stmt.claim, params, CLAIM_PARAMS,
				 wh_take_open, &w->reader, NULL, err);
	if (w->place)
		w->place->n_claimed += w->reader.n - before;
	w->more = w->reader.n - before == limit;
	if (code == WHERRY_OK && !w->more && w->place)
		code = move_on(w, params, err);
	wh_buf_clear(&passed);
	return code;
}

/* Where several write at once, claims wait for each other, and see each other's rows. */
static wherry_code take_turns(const claiming *w, wherry_error *err)
{
	if (!w->box->stmt.claim_lock)
		return WHERRY_OK;
	return wh_db_run(w->box->db, w->box->stmt.claim_lock, NULL, 0, NULL, NULL, NULL,
			 err);
}

static wherry_code claim(void *ctx, wherry_error *err)
{
	claiming *w = ctx;
	wh_param params[CLAIM_PARAMS];
	int64_t due = w->options->limit, most = w->options->failed_most;
	wherry_code code = take_turns(w, err);

	if (most && most < due)
		due = most;
	w->reader.n = 0;
	fill_params(w, params, due);
	if (code == WHERRY_OK && due > 0)
		code = wh_db_run(w->box->db, w->box->stmt.claim_due, params, CLAIM_PARAMS,
				 wh_take_open, &w->reader, NULL, err);
	w->more = w->reader.n == w->options->limit;
	if (code == WHERRY_OK && !w->more && !w->options->failed_only)
		code = claim_pending(w, w->options->limit - w->reader.n, err);
	return code;
}

/* ---- claims without a token in the table ---- */

enum { MARK = 14, MARK_MOST = 48 }; /* the column behind those of "read" */

/* Note by what the row is known, before it is visited. */
static wherry_code note_held(void *ctx, const wh_open_row *row, wherry_error *err)
{
	claiming *w = ctx;
	wh_open_row known = *row;
	wherry_code code = wh_held_add(&w->box->held, w->lease->token, row->message_id,
				       wh_row_bytes(row->row, MARK), &known.id, err);

	return code == WHERRY_OK ? w->visit(w->ctx, &known, err) : code;
}

static void note_claims(claiming *w)
{
	if (!w->box->layout.by_claim)
		return;
	w->visit = w->reader.visit;
	w->ctx = w->reader.ctx;
	w->reader.visit = note_held;
	w->reader.ctx = w;
}

wherry_code wh_claim_ids(wherry_outbox *box, const wherry_lease *lease,
			 const int64_t *ids, size_t n, wh_param *out, wherry_error *err)
{
	wh_view message_id, mark;
	wherry_code code;

	if (!box->layout.by_claim)
		return wh_outbox_ids(box, ids, n, out, err);
	wh_buf_reset(&box->ids);
	wh_buf_putc(&box->ids, '[');
	for (size_t i = 0; i < n; i++) {
		if (!wh_held_find(&box->held, lease->token, ids[i], &message_id, &mark))
			continue;
		wh_buf_puts(&box->ids, box->ids.len > 1 ? ",[" : "[");
		wh_buf_json(&box->ids, message_id.ptr, message_id.len);
		wh_buf_putc(&box->ids, ',');
		wh_buf_json(&box->ids, mark.ptr, mark.len);
		wh_buf_printf(&box->ids, ",%" PRId64 "]", ids[i]);
	}
	wh_buf_putc(&box->ids, ']');
	code = wh_buf_check(&box->ids, err);
	if (code == WHERRY_OK)
		*out = WH_TEXT_PARAM("ids", ((wh_view){box->ids.ptr, box->ids.len}));
	return code;
}

void wh_claim_params(const wherry_outbox *box, const wherry_lease *lease, int64_t id,
		     wh_param out[2])
{
	wh_view message_id = {NULL, 0}, mark = {NULL, 0};

	if (box->layout.by_claim)
		(void)wh_held_find(&box->held, lease->token, id, &message_id, &mark);
	out[0] = WH_TEXT_PARAM("message_id", message_id);
	out[1] = WH_TEXT_PARAM("started", mark);
}

void wh_claim_forget(wherry_outbox *box, const wherry_lease *lease,
		     const wh_settlement *s)
{
	if (!box->held.n)
		return;
	for (size_t i = 0; i < s->n_done; i++)
		wh_held_drop(&box->held, lease->token, s->done[i]);
	for (size_t i = 0; i < s->n_failed; i++)
		wh_held_drop(&box->held, lease->token, s->failed[i].id);
	for (size_t i = 0; i < s->n_back; i++)
		wh_held_drop(&box->held, lease->token, s->back[i]);
}

/* ---- claiming them ---- */

static wherry_code check_options(const wherry_outbox *box, const wherry_lease *lease,
				 const wherry_claim_options *options, wherry_error *err)
{
	if (!box || !lease || !options || !*lease->token || options->limit < 1 ||
	    options->lasts_us <= 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"a claim needs a lease of wherry_outbox_join(), a limit and a "
			"time");
	return box->stmt.claim ? WHERRY_OK
			       : wh_outbox_cannot(box, "whose rows are not claimed", err);
}

/* Carefully: the texts of what is claimed are read when that is committed. */
static wherry_code claim_rows(claiming *w, wh_work_fn make, wherry_error *err)
{
	wh_open_reader whole = w->reader;
	wh_bare_rows bare = {0};
	wherry_code code;

	if (w->box->careful)
		w->reader = wh_bare_reader(&bare);
	note_claims(w);
	code = wh_db_transact_quietly(w->box->db, make, w, err);
	if (w->box->careful && code == WHERRY_OK)
		code = wh_bare_visit(w->box, w->box->own.read_ids, &bare, 0, &whole, err);
	wh_bare_clear(&bare);
	return code;
}

wherry_code wh_outbox_claim(wherry_outbox *box, const wherry_lease *lease,
			    const wherry_claim_options *options, wh_claim_place *place,
			    wh_open_fn visit, void *ctx, bool *out_more,
			    wherry_error *err)
{
	claiming w = {.box = box,
		      .lease = lease,
		      .options = options,
		      .place = place,
		      .reader = {visit, ctx, 0, 0}};
	wherry_code code = check_options(box, lease, options, err);

	if (code == WHERRY_OK)
		code = claim_rows(&w, claim, err);
	if (code == WHERRY_OK)
		box->db->found += w.reader.n;
	if (code == WHERRY_OK)
		*out_more = w.more;
	else if (place)
		wh_claim_rewind(place);
	return wh_outbox_missing(box ? box->name.ptr : "", code, err);
}

static wherry_code take_lapsed(void *ctx, const wh_row *row, wherry_error *err)
{
	claiming *w = ctx;
	wh_view token = wh_row_bytes(row, 0);

	(void)err;
	if (token.len >= sizeof(w->of)) /* none of ours: one by one */
		return WHERRY_OK;
	(void)snprintf(w->of, sizeof(w->of), "%s", token.len ? token.ptr : "");
	w->lapsed = wh_row_int(row, 1);
	return WHERRY_OK;
}

/* Small shares find one that ends its relays in few steps, large ones let the others leave
 * soon. */
static int64_t share_of(const claiming *w)
{
	int64_t n = (w->lapsed + SHARES - 1) / SHARES;

	return n < w->options->limit ? n : w->options->limit;
}

/* In a transaction: a statement alone would stay, though its row was refused. */
static wherry_code claim_lapsed(void *ctx, wherry_error *err)
{
	claiming *w = ctx;
	const wh_stmt *stmt = w->box->stmt.claim_lapsed;
	wh_param params[CLAIM_PARAMS];
	wherry_code code = take_turns(w, err);
	int64_t n = 1;

	if (code == WHERRY_OK && w->options->limit > 1) {
		fill_params(w, params, 1);
		code = wh_db_run(w->box->db, w->box->stmt.lapsed, params, CLAIM_PARAMS,
				 take_lapsed, w, NULL, err);
	}
	if (*w->of && share_of(w) > 1) {
		stmt = w->box->stmt.claim_share;
		n = share_of(w);
	} else {
		*w->of = 0;
	}
	fill_params(w, params, n);
	return code == WHERRY_OK ? wh_db_run(w->box->db, stmt, params, CLAIM_PARAMS,
					     wh_take_open, &w->reader, NULL, err)
				 : code;
}

wherry_code wh_outbox_claim_lapsed(wherry_outbox *box, const wherry_lease *lease,
				   const wherry_claim_options *options, wh_open_fn visit,
				   void *ctx, wherry_error *err)
{
	claiming w = {.box = box,
		      .lease = lease,
		      .options = options,
		      .reader = {visit, ctx, 0, 0}};
	wherry_code code = check_options(box, lease, options, err);

	if (code != WHERRY_OK)
		return code;
	code = claim_rows(&w, claim_lapsed, err);
	return wh_outbox_missing(box->name.ptr, code, err);
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

wherry_code wh_outbox_claim_next(wherry_outbox *box, bool park, int64_t lasts_us,
				 int64_t *out_lapse_us, int64_t *out_due_us,
				 wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("park", park),
				   WH_INT_PARAM("lasts", wh_ms(lasts_us))};
	int64_t next[2] = {WH_NEVER, WH_NEVER};
	wherry_code code = wh_db_run(box->db, box->stmt.claim_next, params, 2, take_next,
				     next, NULL, err);

	if (code != WHERRY_OK)
		return code;
	*out_lapse_us = next[0];
	*out_due_us = next[1];
	return WHERRY_OK;
}

/* All that were extended at once have one mark, where there are marks. */
static wherry_code take_mark(void *ctx, const wh_row *row, wherry_error *err)
{
	char *mark = ctx;

	(void)err;
	(void)snprintf(mark, MARK_MOST, "%s", wh_row_text(row, 1));
	return WHERRY_OK;
}

wherry_code wherry_outbox_extend(wherry_outbox *box, const wherry_lease *lease,
				 const int64_t *ids, size_t n, int64_t lasts_us,
				 int64_t *out_n, wherry_error *err)
{
	wh_param params[3] = {{.name = "ids"}};
	char mark[MARK_MOST] = "";
	int64_t changed = 0;
	wherry_code code;

	if (!box || !lease || !*lease->token || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "to extend claims takes their lease and a time");
	if (!box->stmt.extend)
		return wh_outbox_cannot(box, "whose rows are not claimed", err);
	code = wh_claim_ids(box, lease, ids, n, &params[0], err);
	if (code != WHERRY_OK)
		return code;
	params[1] = WH_TEXT_PARAM("token", wh_view_of(lease->token));
	params[2] = WH_INT_PARAM("lasts", wh_ms(lasts_us));
	code = wh_db_run(box->db, box->stmt.extend, params, 3, take_mark, mark, &changed,
			 err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	for (size_t i = 0; *mark && i < n; i++)
		wh_held_mark(&box->held, lease->token, ids[i], wh_view_of(mark));
	if (out_n)
		*out_n = changed;
	if (changed < (int64_t)n)
		return wh_fail(err, WHERRY_STALE,
			       "%" PRId64 " of %zu claims had expired or were taken over",
			       (int64_t)n - changed, n);
	return WHERRY_OK;
}

/* ---- for programs ---- */

typedef struct showing {
	wherry_claim_fn visit;
	void *ctx;
	int64_t n;
} showing;

static const char *text_of(wh_view view)
{
	return view.ptr; /* NULL where absent; ends in NUL */
}

static wherry_code show(void *ctx, const wh_open_row *row, wherry_error *err)
{
	showing *s = ctx;
	wh_view body = wh_outbox_body(row);
	wherry_message msg = {
		.size = sizeof(msg),
		.id = row->id,
		.message_id = text_of(row->message_id),
		.topic = text_of(row->topic),
		.key = row->key.len ? row->key.ptr : NULL,
		.aggregate_type = text_of(row->aggregate_type),
		.aggregate_id = text_of(row->aggregate_id),
		.headers = text_of(row->headers),
		.trace_id = text_of(row->trace_id),
		.body = body.ptr,
		.body_len = body.len,
		.attempts = row->attempts,
		.generation = row->generation,
		.created_at_us = row->created_at_us,
	};
	wherry_code code = wh_row_check(row->row, err);

	if (code != WHERRY_OK)
		return code;
	s->n++;
	code = s->visit(s->ctx, &msg);
	return code == WHERRY_OK
		       ? code
		       : wh_fail(err, code, "the caller's function ended the claim");
}

wherry_code wherry_outbox_claim(wherry_outbox *box, const wherry_lease *lease,
				const wherry_claim_options *options,
				wherry_claim_fn visit, void *ctx, int64_t *out_n,
				wherry_error *err)
{
	showing s = {visit, ctx, 0};
	bool more;
	wherry_code code;

	if (!visit)
		return wh_fail(err, WHERRY_INVALID, "nobody to give claimed messages to");
	code = wh_outbox_claim(box, lease, options, NULL, show, &s, &more, err);
	if (code == WHERRY_OK && out_n)
		*out_n = s.n;
	return code;
}

wherry_code wherry_outbox_claim_lapsed(wherry_outbox *box, const wherry_lease *lease,
				       const wherry_claim_options *options,
				       wherry_claim_fn visit, void *ctx, int64_t *out_n,
				       wherry_error *err)
{
	showing s = {visit, ctx, 0};
	wherry_claim_options one;
	wherry_code code;

	if (!visit)
		return wh_fail(err, WHERRY_INVALID, "nobody to give claimed messages to");
	code = check_options(box, lease, options, err);
	if (code != WHERRY_OK)
		return code;
	one = *options;
	one.limit = 1;
	code = wh_outbox_claim_lapsed(box, lease, &one, show, &s, err);
	if (code == WHERRY_OK && out_n)
		*out_n = s.n;
	return code;
}
