/*
 * Leases, and everything that is done under one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "outbox/outbox.h"

enum { ERROR_MAX = 500 };

static wherry_code take_lease(void *ctx, const wh_row *row, wherry_error *err)
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

wherry_code wherry_outbox_lease(wherry_outbox *box, const char *owner, int64_t lasts_us,
				int64_t window, wherry_lease *out, wherry_error *err)
{
	wherry_lease lease = {.lasts_us = lasts_us};
	wh_holder holder;
	wherry_code code;

	if (!box || !owner || !out || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs an outbox, an owner and a time");
	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", 0),
		WH_TEXT_PARAM("engine", wh_view_of("exclusive")),
		WH_TEXT_PARAM("owner", wh_view_of(lease.owner)),
		WH_INT_PARAM("lasts", wh_ms(lasts_us)),
		WH_INT_PARAM("window", window),
	};
	code = wh_db_run(box->db, box->stmt.lease, params,
			 sizeof(params) / sizeof(*params), take_lease, &lease, NULL, err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	if (lease.epoch) {
		*out = lease;
		return WHERRY_OK;
	}
	code = wh_outbox_holder(box, &holder, err);
	if (code != WHERRY_OK)
		return code;
	return wh_fail(err, WHERRY_BUSY,
		       "outbox '%s' is relayed by %.80s, whose lease lasts %" PRId64
		       " ms more",
		       box->name.ptr, holder.owner, holder.left_us / 1000);
}

static wherry_code stale(const wherry_outbox *box, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_STALE,
		"the lease on outbox '%s' has lapsed or was taken over: nothing was changed",
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

	fresh.epoch = 0;
	code = wh_db_run(box->db, box->stmt.renew, params,
			 sizeof(params) / sizeof(*params), take_lease, &fresh, NULL, err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	if (!fresh.epoch)
		return stale(box, err);
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
	};
	int64_t changed = 0;
	wherry_code code = wh_db_run(box->db, box->stmt.release, params, 3, NULL, NULL,
				     &changed, err);

	if (code != WHERRY_OK)
		return code;
	return changed ? WHERRY_OK : stale(box, err);
}

static wherry_code take_yes(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)row;
	(void)err;
	*(bool *)ctx = true;
	return WHERRY_OK;
}

static wherry_code fence(wherry_outbox *box, const wherry_lease *lease, wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", lease->slot),
		WH_INT_PARAM("epoch", lease->epoch),
	};
	bool holds = false;
	wherry_code code = wh_db_run(box->db, box->stmt.fence, params, 3, take_yes,
				     &holds, NULL, err);

	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	return holds ? WHERRY_OK : stale(box, err);
}

static wherry_code settle_done(wherry_outbox *box, const int64_t *ids, size_t n,
			       wherry_on_done on_done, int64_t *out_n, wherry_error *err)
{
	const wh_stmt *stmt =
		on_done == WHERRY_MARK ? box->stmt.done_mark : box->stmt.done_delete;
	wherry_code code = WHERRY_OK;
	wh_param list;

	if (!n)
		return WHERRY_OK;
	code = wh_outbox_ids(box, ids, n, &list, err);
	if (code == WHERRY_OK && on_done == WHERRY_ARCHIVE)
		code = wh_db_run(box->db, box->stmt.done_archive, &list, 1, NULL, NULL,
				 NULL, err);
	if (code == WHERRY_OK)
		code = wh_db_run(box->db, stmt, &list, 1, NULL, NULL, out_n, err);
	return code;
}

static wherry_code settle_failure(wherry_outbox *box, const wherry_failure *f,
				  wherry_error *err)
{
	const char *why = f->error ? f->error : "";
	wh_view error = {why, wh_utf8_cut(why, strlen(why), ERROR_MAX)};
	const wh_param params[] = {
		WH_INT_PARAM("id", f->id),
		WH_INT_PARAM("dead", f->dead),
		WH_INT_PARAM("count", f->innocent ? -(int)f->counted : !f->counted),
		WH_INT_PARAM("nth", f->innocent ? 0 : f->nth),
		WH_INT_PARAM("delay", wh_ms(f->delay_us)),
		WH_TEXT_PARAM("error", error),
	};

	return wh_db_run(box->db, box->stmt.fail, params,
			 sizeof(params) / sizeof(*params), NULL, NULL, NULL, err);
}

static wherry_code settle_try(wherry_outbox *box, const wherry_lease *lease, int64_t id,
			      int32_t nth, wherry_error *err)
{
	char token[32];
	wh_param params[3];

	(void)snprintf(token, sizeof(token), "epoch:%" PRId64, lease->epoch);
	params[0] = WH_INT_PARAM("id", id);
	params[1] = WH_TEXT_PARAM("token", wh_view_of(token));
	params[2] = WH_INT_PARAM("nth", nth);
	return wh_db_run(box->db, box->stmt.try, params, 3, NULL, NULL, NULL, err);
}

typedef struct settling {
	wherry_outbox *box;
	const wherry_lease *lease;
	const wh_settlement *s;
	int64_t *out_n;
} settling;

static wherry_code settle(void *ctx, wherry_error *err)
{
	settling *w = ctx;
	wherry_code code = fence(w->box, w->lease, err);

	if (code == WHERRY_OK)
		code = settle_done(w->box, w->s->done, w->s->n_done, w->s->on_done,
				   w->out_n, err);
	for (size_t i = 0; code == WHERRY_OK && i < w->s->n_failed; i++)
		code = settle_failure(w->box, &w->s->failed[i], err);
	if (code == WHERRY_OK && w->s->try_id)
		code = settle_try(w->box, w->lease, w->s->try_id, w->s->try_nth, err);
	return code;
}

wherry_code wh_outbox_settle(wherry_outbox *box, const wherry_lease *lease,
			     const wh_settlement *s, wherry_error *err)
{
	settling w = {box, lease, s, NULL};

	return wh_db_transact(box->db, settle, &w, err);
}

wherry_code wherry_outbox_done(wherry_outbox *box, const wherry_lease *lease,
			       const int64_t *ids, size_t n, wherry_on_done on_done,
			       int64_t *out_n, wherry_error *err)
{
	wh_settlement s = {.done = ids, .n_done = n, .on_done = on_done};
	int64_t changed = 0;
	settling w = {box, lease, &s, &changed};
	wherry_code code = wh_db_transact(box->db, settle, &w, err);

	if (code == WHERRY_OK && out_n)
		*out_n = changed;
	return code;
}

wherry_code wherry_outbox_fail(wherry_outbox *box, const wherry_lease *lease,
			       const wherry_failure *failures, size_t n,
			       wherry_error *err)
{
	wh_settlement s = {.failed = failures, .n_failed = n};

	return wh_outbox_settle(box, lease, &s, err);
}

wherry_code wherry_outbox_try(wherry_outbox *box, const wherry_lease *lease, int64_t id,
			      wherry_error *err)
{
	wh_settlement s = {.try_id = id};

	return wh_outbox_settle(box, lease, &s, err);
}

typedef struct requeueing {
	wherry_outbox *box;
	const wherry_lease *lease;
	const int64_t *ids;
	size_t n;
} requeueing;

static wherry_code requeue(void *ctx, wherry_error *err)
{
	requeueing *w = ctx;
	wherry_code code = fence(w->box, w->lease, err);
	wh_param list;

	if (code == WHERRY_OK)
		code = wh_outbox_ids(w->box, w->ids, w->n, &list, err);
	if (code == WHERRY_OK)
		code = wh_db_run(w->box->db, w->box->stmt.requeue, &list, 1, NULL, NULL,
				 NULL, err);
	return code;
}

wherry_code wherry_outbox_requeue(wherry_outbox *box, const wherry_lease *lease,
				  const int64_t *ids, size_t n, wherry_error *err)
{
	requeueing w = {box, lease, ids, n};

	return wh_db_transact(box->db, requeue, &w, err);
}
