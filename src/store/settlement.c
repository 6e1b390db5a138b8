#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "store/claims.h"
#include "store/leases.h"
#include "store/settlement.h"

enum { ERROR_MAX = 500, TOKEN_LEN = 32 };

/* NULL for a leader, which owns every row. */
static wh_param token_param(const wherry_lease *lease)
{
	wh_view token = {NULL, 0};

	if (*lease->token)
		token = wh_view_of(lease->token);
	return WH_TEXT_PARAM("token", token);
}

typedef struct settling {
	wh_store *store;
	const wherry_lease *lease;
	const wh_settlement *s;
	bool all;       /* All rows, or none. */
	int64_t n;      /* Number of rows changed. */
	int64_t n_done; /* Of them, rows that were delivered. */
} settling;

/* If nobody else committed since the rows were read, their ids identify them without
 * message ids.  Call it after the fence: from then on nobody else can commit.  Where rows
 * have a kind they are replaced in place, maybe through this very connection, and a claim
 * can have taken the new one under the same token. */
static const wh_view *names_of(const settling *w)
{
	if (!w->store->kind && w->s->version &&
	    w->s->version == wh_db_version(w->store->db))
		return NULL;
	return w->s->names;
}

/* Run a statement on a list of ids. */
static wherry_code on_ids(settling *w, const wh_stmt *stmt, const int64_t *ids,
			  const wh_view *names, size_t n, bool count, wherry_error *err)
{
	wh_param params[2 + WH_NAME_PARAMS] = {{.name = "ids"}, token_param(w->lease)};
	int64_t changed = 0;
	wherry_code code = WHERRY_OK;

	if (!n)
		return WHERRY_OK;
	code = wh_store_claim_ids(w->store, w->lease, ids, n, &params[0], err);
	if (code == WHERRY_OK)
		code = wh_store_names(w->store, names, n, &params[2], err);
	if (code == WHERRY_OK)
		code = wh_db_run(w->store->db, stmt, params, 2 + WH_NAME_PARAMS, NULL,
				 NULL, &changed, err);
	if (code == WHERRY_OK && count)
		w->n += changed;
	return code;
}

/* Delete what the layout keeps beside the table about rows that are gone. */
static wherry_code forget_gone(wh_store *store, const int64_t *ids, size_t n,
			       wherry_error *err)
{
	wh_param param;
	wherry_code code;

	if (!n || !store->stmt.forget_gone)
		return WHERRY_OK;
	code = wh_store_ids(store, ids, n, &param, err);
	return code == WHERRY_OK ? wh_db_run(store->db, store->stmt.forget_gone, &param,
					     1, NULL, NULL, NULL, err)
				 : code;
}

static wherry_code settle_done(settling *w, wherry_error *err)
{
	const wh_settlement *s = w->s;
	const wh_store_stmts *stmt = &w->store->stmt;
	bool mark = stmt->done_mark && !s->covered;
	wherry_code code = WHERRY_OK;

	if (!mark && stmt->done_archive)
		code = on_ids(w, stmt->done_archive, s->done, names_of(w), s->n_done,
			      false, err);
	if (code == WHERRY_OK)
		code = on_ids(w, mark ? stmt->done_mark : stmt->done_delete, s->done,
			      names_of(w), s->n_done, true, err);
	return code == WHERRY_OK ? forget_gone(w->store, s->done, s->n_done, err) : code;
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
	wh_store_claim_params(w->store, w->lease, f->id, claim);
	if (!w->store->layout.by_claim)
		claim[0] = name_param(f->message_id);
	const wh_param params[] = {
		WH_INT_PARAM("id", f->id),
		claim[0],
		claim[1],
		WH_INT_PARAM("dead", f->dead),
		WH_INT_PARAM("count", f->not_counted ? -(int)f->counted : !f->counted),
		WH_INT_PARAM("nth", f->not_counted ? 0 : f->nth),
		WH_INT_PARAM("delay", wh_ms(f->delay_us)),
		WH_TEXT_PARAM("error", error),
		token_param(w->lease),
	};
	const wh_store_stmts *stmt = &w->store->stmt;
	bool moves = f->dead && stmt->dead_copy;
	size_t n = sizeof(params) / sizeof(*params);
	int64_t changed = 0, copied = 0;
	wherry_code code = WHERRY_OK;

	const wh_stmt *before = moves ? stmt->dead_copy : stmt->note_fail;

	if (before)
		code = wh_db_run(w->store->db, before, params, n, NULL, NULL, &copied,
				 err);
	if (code == WHERRY_OK)
		code = wh_db_run(w->store->db, moves ? stmt->dead_drop : stmt->fail,
				 params, n, NULL, NULL, &changed, err);
	if (code == WHERRY_OK && moves && copied && !changed)
		code = wh_fail(err, WHERRY_CONFLICT,
			       "message %" PRId64 " changed while it was made dead",
			       f->id);
	if (code == WHERRY_OK && moves)
		code = forget_gone(w->store, &f->id, 1, err);
	w->n += changed;
	if (w->s->lost)
		w->s->lost[f - w->s->failed] = !changed;
	return code;
}

/* The token with which a leader records an attempt. */
static wh_view leader_token(const wherry_lease *lease, char out[TOKEN_LEN])
{
	(void)snprintf(out, TOKEN_LEN, "epoch:%" PRId64, lease->epoch);
	return wh_view_of(out);
}

wherry_code wh_store_untry(wh_store *store, const wherry_lease *lease, int64_t id,
			   const char *name, int32_t nth, wherry_error *err)
{
	char token[TOKEN_LEN];
	const wh_param params[] = {
		WH_INT_PARAM("id", id),
		WH_INT_PARAM("nth", nth),
		WH_TEXT_PARAM("token", leader_token(lease, token)),
		name_param(name),
	};

	return store->stmt.untry ? wh_db_run(store->db, store->stmt.untry, params, 4,
					     NULL, NULL, NULL, err)
				 : WHERRY_OK;
}

static wherry_code settle_try(settling *w, wherry_error *err)
{
	bool claimed = *w->lease->token;
	char token[TOKEN_LEN];
	wh_param params[5];
	int64_t changed = 0;
	wherry_code code;

	params[0] = WH_INT_PARAM("id", w->s->try_id);
	params[1] = claimed ? token_param(w->lease)
			    : WH_TEXT_PARAM("token", leader_token(w->lease, token));
	params[2] = WH_INT_PARAM("nth", w->s->try_nth);
	wh_store_claim_params(w->store, w->lease, w->s->try_id, &params[3]);
	if (!w->store->layout.by_claim)
		params[3] = name_param(w->s->try_name);
	code = wh_db_run(w->store->db, w->store->stmt.try, params, 5, NULL, NULL,
			 &changed, err);
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

	if (!w->store->stmt.fail)
		code = wh_store_cannot(w->store, "whose rows are not acknowledged", err);
	if (code == WHERRY_OK)
		code = wh_store_fence(w->store, w->lease, err);
	w->n = 0;
	if (code == WHERRY_OK)
		code = settle_done(w, err);
	w->n_done = w->n;
	for (size_t i = 0; code == WHERRY_OK && i < s->n_failed; i++)
		code = settle_failure(w, &s->failed[i], err);
	if (code == WHERRY_OK)
		code = on_ids(w, w->store->stmt.requeue, s->back, s->back_names,
			      s->n_back, true, err);
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

wherry_code wh_store_settle(wh_store *store, const wherry_lease *lease,
			    const wh_settlement *s, wh_settled *out, wherry_error *err)
{
	settling w = {.store = store, .lease = lease, .s = s};
	wherry_code code = wh_db_transact(store->db, settle, &w, err);

	if (code == WHERRY_OK)
		wh_store_claim_forget(store, lease, s);
	if (code == WHERRY_OK && out)
		*out = (wh_settled){w.n, w.n_done};
	return code;
}

wherry_code wh_store_settle_all(wh_store *store, const wherry_lease *lease,
				const wh_settlement *s, int64_t *out_n, wherry_error *err)
{
	settling w = {.store = store, .lease = lease, .s = s, .all = true};
	wherry_code code = wh_db_transact(store->db, settle, &w, err);

	if (code == WHERRY_OK)
		wh_store_claim_forget(store, lease, s);
	if (code == WHERRY_OK && out_n)
		*out_n = w.n;
	return code;
}
