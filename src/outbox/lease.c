/*
 * Leases, and everything that is done under one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "outbox/outbox.h"

enum { ERROR_MAX = 500, TOKEN_LEN = 32 };

wherry_code wh_take_lease(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_lease *lease = ctx;

	(void)err;
	lease->epoch = wh_row_int(row, 0);
	lease->suspects = wh_row_int(row, 1);
	lease->paused = wh_row_int(row, 2) != 0;
	lease->nudge = wh_row_int(row, 3);
	lease->first_open = wh_row_int(row, 4);
	lease->last_open = wh_row_int(row, 5);
	return WHERRY_OK;
}

wherry_code wh_outbox_held(wherry_outbox *box, const char *advice, wherry_error *err)
{
	wh_holder holder;
	wherry_code code = wh_outbox_holder(box, &holder, err);

	if (code != WHERRY_OK)
		return code;
	return wh_fail(err, WHERRY_BUSY,
		       "outbox '%s' is relayed by %.80s, whose lease lasts %" PRId64
		       " ms more%s",
		       box->name.ptr, holder.owner, holder.left_us / 1000, advice);
}

wherry_code wherry_outbox_lease(wherry_outbox *box, const char *owner, int64_t lasts_us,
				int64_t window, wherry_lease *out, wherry_error *err)
{
	return wh_outbox_lease_as(box, WH_EXCLUSIVE, false, owner, lasts_us, window, out,
				  err);
}

wherry_code wh_outbox_lease_as(wherry_outbox *box, wh_engine engine, bool again,
			       const char *owner, int64_t lasts_us, int64_t window,
			       wherry_lease *out, wherry_error *err)
{
	wherry_lease lease = {.lasts_us = lasts_us};
	wherry_code code;

	if (!box || !owner || !out || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs an outbox, an owner and a time");
	if (!box->stmt.lease)
		return wh_outbox_cannot(
			box,
			"where no relay can work alone: there is nowhere to keep a lease",
			err);
	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", 0),
		WH_TEXT_PARAM("engine", wh_view_of(wh_engine_word(engine))),
		WH_TEXT_PARAM("owner", wh_view_of(lease.owner)),
		WH_INT_PARAM("lasts", wh_ms(lasts_us)),
		WH_INT_PARAM("window", window),
	};
	code = wh_slots_guard(box, engine, again, box->stmt.lease, params,
			      sizeof(params) / sizeof(*params), &lease, err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	if (lease.epoch) {
		*out = lease;
		return WHERRY_OK;
	}
	return wh_outbox_held(box, "", err);
}

wherry_code wh_outbox_stale(const wherry_outbox *box, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_STALE,
		"the lease on outbox '%s' has expired or was taken over: nothing was changed",
		box->name.ptr);
}

wherry_code wherry_outbox_renew(wherry_outbox *box, wherry_lease *lease,
				wherry_error *err)
{
	wherry_lease fresh = *lease;
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", lease->slot),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_INT_PARAM("lasts", wh_ms(lease->lasts_us)),
		WH_INT_PARAM("suspects", lease->suspects),
	};
	wherry_code code;

	if (!box->stmt.renew)
		return WHERRY_OK; /* nothing was taken */
	fresh.epoch = 0;
	code = wh_db_run(box->db, box->stmt.renew, params,
			 sizeof(params) / sizeof(*params), wh_take_lease, &fresh, NULL,
			 err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	if (!fresh.epoch)
		return wh_outbox_stale(box, err);
	fresh.suspects = lease->suspects; /* the holder knows better */
	*lease = fresh;
	return WHERRY_OK;
}

wherry_code wherry_outbox_release(wherry_outbox *box, const wherry_lease *lease,
				  wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", lease->slot),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_TEXT_PARAM("token", wh_view_of(lease->token)),
	};
	const wh_stmt *stmt = *lease->token ? box->stmt.leave : box->stmt.release;
	int64_t changed = 0;
	wherry_code code;

	if (!stmt)
		return WHERRY_OK; /* nothing was taken */
	code = wh_db_run(box->db, stmt, params, 4, NULL, NULL, &changed, err);
	if (code != WHERRY_OK)
		return code;
	return changed ? WHERRY_OK : wh_outbox_stale(box, err);
}

static wherry_code take_yes(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)row;
	(void)err;
	*(bool *)ctx = true;
	return WHERRY_OK;
}

wherry_code wh_outbox_fence(wherry_outbox *box, const wherry_lease *lease,
			    wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", lease->slot),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_INT_PARAM("shared", *lease->token != 0),
	};
	bool holds = false;
	wherry_code code;

	if (!box->stmt.fence)
		return WHERRY_OK; /* each claim is its own fence */
	code = wh_db_run(box->db, box->stmt.fence, params, 4, take_yes, &holds, NULL,
			 err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	return holds ? WHERRY_OK : wh_outbox_stale(box, err);
}

/* NULL where the lease is of one relay alone, who owns every row. */
static wh_param token_param(const wherry_lease *lease)
{
	wh_view token = {NULL, 0};

	if (*lease->token)
		token = wh_view_of(lease->token);
	return WH_TEXT_PARAM("token", token);
}

typedef struct settling {
	wherry_outbox *box;
	const wherry_lease *lease;
	const wh_settlement *s;
	bool all;       /* or nothing */
	int64_t n;      /* rows changed */
	int64_t n_done; /* of them */
} settling;

/* Where nobody else has committed since they were read, their ids say which rows these are.
 * It is asked under the fence: nobody else commits from there on. */
static const wh_view *names_of(const settling *w)
{
	if (w->s->version && w->s->version == wh_db_version(w->box->db))
		return NULL;
	return w->s->names;
}

/* Run a statement on a list of ids. */
static wherry_code on_ids(settling *w, const wh_stmt *stmt, const int64_t *ids, size_t n,
			  bool count, wherry_error *err)
{
	wh_param params[2 + WH_NAME_PARAMS] = {{.name = "ids"}, token_param(w->lease)};
	int64_t changed = 0;
	wherry_code code = WHERRY_OK;

	if (!n)
		return WHERRY_OK;
	code = wh_claim_ids(w->box, w->lease, ids, n, &params[0], err);
	if (code == WHERRY_OK)
		code = wh_outbox_names(w->box, ids == w->s->done ? names_of(w) : NULL, n,
				       &params[2], err);
	if (code == WHERRY_OK)
		code = wh_db_run(w->box->db, stmt, params, 2 + WH_NAME_PARAMS, NULL, NULL,
				 &changed, err);
	if (code == WHERRY_OK && count)
		w->n += changed;
	return code;
}

bool wh_ids_in_a_row(const int64_t *ids, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (ids[i - 1] == INT64_MAX || ids[i] != ids[i - 1] + 1)
			return false;
	return n > 0;
}

static wherry_code on_range(settling *w, const wh_stmt *stmt, int64_t first, int64_t last,
			    wherry_error *err)
{
	wh_param params[3 + WH_NAME_PARAMS] = {
		WH_INT_PARAM("first", first),
		WH_INT_PARAM("last", last),
		token_param(w->lease),
	};
	int64_t changed = 0;
	wherry_code code =
		wh_outbox_names(w->box, names_of(w), w->s->n_done, &params[3], err);

	if (code == WHERRY_OK)
		code = wh_db_run(w->box->db, stmt, params, 3 + WH_NAME_PARAMS, NULL, NULL,
				 &changed, err);
	w->n += changed;
	return code;
}

static wherry_code settle_done(settling *w, wherry_error *err)
{
	const wh_settlement *s = w->s;
	const wherry_outbox *box = w->box;
	bool mark = s->on_done == WHERRY_MARK && box->stmt.done_mark;
	wherry_code code = WHERRY_OK;

	if (s->n_done && s->on_done == WHERRY_ARCHIVE && !box->stmt.done_archive)
		return wh_outbox_cannot(box, "which has no archive", err);
	if (!mark && s->on_done != WHERRY_DELETE)
		code = on_ids(w, box->stmt.done_archive, s->done, s->n_done, false, err);
	if (code == WHERRY_OK && box->stmt.done_delete_range &&
	    wh_ids_in_a_row(s->done, s->n_done))
		return on_range(
			w, mark ? box->stmt.done_mark_range : box->stmt.done_delete_range,
			s->done[0], s->done[s->n_done - 1], err);
	if (code == WHERRY_OK)
		code = on_ids(w, mark ? box->stmt.done_mark : box->stmt.done_delete,
			      s->done, s->n_done, true, err);
	return code;
}

/* NULL: any message that has the id. */
static wh_param name_param(const char *message_id)
{
	wh_view name = {NULL, 0};

	if (message_id)
		name = wh_view_of(message_id);
	return WH_TEXT_PARAM("message_id", name);
}

static wherry_code settle_failure(settling *w, const wherry_failure *f, wherry_error *err)
{
	const char *why = f->error ? f->error : "";
	wh_view error = {why, wh_utf8_cut(why, strlen(why), ERROR_MAX)};
	wh_param claim[2];
	wh_claim_params(w->box, w->lease, f->id, claim);
	if (!w->box->layout.by_claim)
		claim[0] = name_param(f->message_id);
	const wh_param params[] = {
		WH_INT_PARAM("id", f->id),
		claim[0],
		claim[1],
		WH_INT_PARAM("dead", f->dead),
		WH_INT_PARAM("count", f->innocent ? -(int)f->counted : !f->counted),
		WH_INT_PARAM("nth", f->innocent ? 0 : f->nth),
		WH_INT_PARAM("delay", wh_ms(f->delay_us)),
		WH_TEXT_PARAM("error", error),
		token_param(w->lease),
	};
	int64_t changed = 0;
	wherry_code code =
		wh_db_run(w->box->db, w->box->stmt.fail, params,
			  sizeof(params) / sizeof(*params), NULL, NULL, &changed, err);

	w->n += changed;
	if (w->s->lost)
		w->s->lost[f - w->s->failed] = !changed;
	return code;
}

/* Whose attempt it was. */
static wh_view leader_token(const wherry_lease *lease, char out[TOKEN_LEN])
{
	(void)snprintf(out, TOKEN_LEN, "epoch:%" PRId64, lease->epoch);
	return wh_view_of(out);
}

wherry_code wh_outbox_untry(wherry_outbox *box, const wherry_lease *lease, int64_t id,
			    const char *name, int32_t nth, wherry_error *err)
{
	char token[TOKEN_LEN];
	const wh_param params[] = {
		WH_INT_PARAM("id", id),
		WH_INT_PARAM("nth", nth),
		WH_TEXT_PARAM("token", leader_token(lease, token)),
		name_param(name),
	};

	return box->stmt.untry ? wh_db_run(box->db, box->stmt.untry, params, 4, NULL,
					   NULL, NULL, err)
			       : WHERRY_OK;
}

static wherry_code settle_try(settling *w, wherry_error *err)
{
	bool claimed = *w->lease->token;
	char token[TOKEN_LEN];
	wh_param params[6];
	int64_t changed = 0;
	wherry_code code;

	params[0] = WH_INT_PARAM("id", w->s->try_id);
	params[1] = claimed ? token_param(w->lease)
			    : WH_TEXT_PARAM("token", leader_token(w->lease, token));
	params[2] = WH_INT_PARAM("nth", w->s->try_nth);
	params[3] = WH_INT_PARAM("claimed", claimed);
	wh_claim_params(w->box, w->lease, w->s->try_id, &params[4]);
	if (!w->box->layout.by_claim)
		params[4] = name_param(w->s->try_name);
	code = wh_db_run(w->box->db, w->box->stmt.try, params, 6, NULL, NULL, &changed,
			 err);
	if (code == WHERRY_OK && w->all && claimed && !changed)
		code = wh_fail(err, WHERRY_STALE,
			       "message %" PRId64 " is claimed by others by now: do not "
			       "try it",
			       w->s->try_id);
	return code;
}

static wherry_code settle(void *ctx, wherry_error *err)
{
	settling *w = ctx;
	const wh_settlement *s = w->s;
	wherry_code code = WHERRY_OK;

	if (!w->box->stmt.done_delete)
		code = wh_outbox_cannot(w->box, "whose rows are not acknowledged", err);
	if (code == WHERRY_OK)
		code = wh_outbox_fence(w->box, w->lease, err);
	w->n = 0;
	if (code == WHERRY_OK)
		code = settle_done(w, err);
	w->n_done = w->n;
	for (size_t i = 0; code == WHERRY_OK && i < s->n_failed; i++)
		code = settle_failure(w, &s->failed[i], err);
	if (code == WHERRY_OK)
		code = on_ids(w,
			      s->back_failed ? w->box->stmt.requeue_failed
					     : w->box->stmt.requeue,
			      s->back, s->n_back, true, err);
	if (code == WHERRY_OK && s->try_id)
		code = settle_try(w, err);
	if (code == WHERRY_OK && w->all && *w->lease->token &&
	    w->n < (int64_t)(s->n_done + s->n_failed + s->n_back))
		code = wh_fail(err, WHERRY_STALE,
			       "%" PRId64
			       " of %zu messages are claimed by others by now: "
			       "nothing was changed",
			       (int64_t)(s->n_done + s->n_failed + s->n_back) - w->n,
			       s->n_done + s->n_failed + s->n_back);
	return code;
}

wherry_code wh_outbox_settle(wherry_outbox *box, const wherry_lease *lease,
			     const wh_settlement *s, wh_settled *out, wherry_error *err)
{
	settling w = {.box = box, .lease = lease, .s = s};
	wherry_code code = WHERRY_OK;
	int64_t before = 0;
	wh_ack ack;

	if (wh_outbox_ack(box, lease, s, &ack)) {
		code = wh_db_run(box->db, ack.call.stmt, ack.params, ack.call.n_params,
				 NULL, NULL, &ack.call.changed, err);
		if (code != WHERRY_OK || wh_outbox_acked(&ack)) {
			w.n = w.n_done = (int64_t)s->n_done;
			goto out;
		}
		before = ack.call.changed;
	}
	code = wh_db_transact(box->db, settle, &w, err);
	w.n += before;
	w.n_done += before;
	if (code == WHERRY_OK)
		wh_claim_forget(box, lease, s);
out:
	if (code == WHERRY_OK && out)
		*out = (wh_settled){w.n, w.n_done};
	return code;
}

static wherry_code settle_all(wherry_outbox *box, const wherry_lease *lease,
			      const wh_settlement *s, int64_t *out_n, wherry_error *err)
{
	settling w = {.box = box, .lease = lease, .s = s, .all = true};
	wherry_code code = wh_db_transact(box->db, settle, &w, err);

	if (code == WHERRY_OK)
		wh_claim_forget(box, lease, s);
	if (code == WHERRY_OK && out_n)
		*out_n = w.n;
	return code;
}

wherry_code wherry_outbox_done(wherry_outbox *box, const wherry_lease *lease,
			       const int64_t *ids, size_t n, wherry_on_done on_done,
			       int64_t *out_n, wherry_error *err)
{
	wh_settlement s = {.done = ids, .n_done = n, .on_done = on_done};

	if (on_done == WHERRY_KEEP)
		return wh_fail(err, WHERRY_INVALID,
			       "a delivered message is marked, deleted or archived");
	return settle_all(box, lease, &s, out_n, err);
}

wherry_code wherry_outbox_fail(wherry_outbox *box, const wherry_lease *lease,
			       const wherry_failure *failures, size_t n,
			       wherry_error *err)
{
	wh_settlement s = {.failed = failures, .n_failed = n};

	return settle_all(box, lease, &s, NULL, err);
}

wherry_code wherry_outbox_try(wherry_outbox *box, const wherry_lease *lease, int64_t id,
			      wherry_error *err)
{
	wh_settlement s = {.try_id = id};

	return settle_all(box, lease, &s, NULL, err);
}

wherry_code wherry_outbox_requeue(wherry_outbox *box, const wherry_lease *lease,
				  const int64_t *ids, size_t n, wherry_error *err)
{
	wh_settlement s = {.back = ids, .n_back = n};

	return settle_all(box, lease, &s, NULL, err);
}
