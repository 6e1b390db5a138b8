#include "log/subscription.h"

#include <stdlib.h>
#include <string.h>

#include "store/leases.h"

/* Set *out to a copy of a text column; NULL stays NULL. */
static bool copy(const wh_row *row, int column, char **out)
{
	const char *text = wh_row_text(row, column);

	*out = text ? strdup(text) : NULL;
	return !text || *out;
}

typedef struct found {
	wh_position *at;
	int64_t rows, highest;
	bool exceptions;
} found;

static wherry_code take_position(void *ctx, const wh_row *row, wherry_error *err)
{
	found *f = ctx;
	wh_position *out = f->at;
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	f->rows = wh_row_int(row, 4);
	f->highest = wh_row_int(row, 5);
	f->exceptions = wh_row_int(row, 6) != 0;
	out->high = wh_row_int(row, 0);
	out->late = wh_row_int(row, 3);
	return copy(row, 1, &out->seen) && copy(row, 2, &out->until) ? WHERRY_OK
								     : wh_oom(err);
}

wherry_code wh_no_subscription(const wh_store *store, wherry_error *err)
{
	return wh_fail(err, WHERRY_NOTFOUND, "outbox '%s' has no subscription '%s'",
		       store->name.ptr, store->topic);
}

static wh_param mask_param(const wh_share *share)
{
	return WH_INT_PARAM("mask", (int64_t)share->mask);
}

/* No row has its position: another relay took partitions of it and divided the rows, or there are none. */
static wherry_code share_is_gone(const wh_store *store, const wh_share *share,
				 wherry_error *err)
{
	wh_position any = WH_POSITION_START;
	wh_share all = {.mask = UINT64_MAX};
	wherry_code code;

	if (share->mask == UINT64_MAX)
		return wh_no_subscription(store, err);
	code = wh_progress_read(store, &all, &any, err);
	wh_position_clear(&any);
	return code == WHERRY_OK ? wh_store_stale(store, err) : code;
}

wherry_code wh_progress_read(const wh_store *store, wh_share *share, wh_position *out,
			     wherry_error *err)
{
	const wh_param mask = mask_param(share);
	found f = {.at = out};
	wherry_code code;

	wh_position_clear(out);
	code = wh_db_run(store->db, store->stmt.progress, &mask, 1, take_position, &f,
			 NULL, err);
	share->rows = f.rows;
	share->highest = f.highest;
	share->exceptions = f.exceptions;
	return code == WHERRY_OK && !f.rows ? share_is_gone(store, share, err) : code;
}

wherry_code wh_progress_take(const wh_store *store, const wh_share *share,
			     wherry_error *err)
{
	const wh_param mask = mask_param(share);

	return store->stmt.progress_take ? wh_db_run(store->db, store->stmt.progress_take,
						     &mask, 1, NULL, NULL, NULL, err)
					 : WHERRY_OK;
}

typedef struct writing {
	wh_store *store;
	const wherry_lease *lease;
	wh_share *share;
	const wh_progress *what;
	bool united; /* The share has one row now. */
} writing;

/* All positions of the share are the same. */
static wherry_code unite(writing *w, wherry_error *err)
{
	const wh_param mask = mask_param(w->share);

	w->united = true;
	return wh_db_run(w->store->db, w->store->stmt.progress_divide, &mask, 1, NULL,
			 NULL, NULL, err);
}

static wherry_code move(writing *w, wherry_error *err)
{
	const wh_position *at = w->what->at;
	const wh_param params[] = {
		wh_store_lease_name(w->store),
		WH_INT_PARAM("number", w->lease->number),
		WH_INT_PARAM("epoch", w->lease->epoch),
		WH_TEXT_PARAM("holder", wh_view_of(w->lease->holder)),
		WH_INT_PARAM("high", at->high),
		WH_TEXT_PARAM("seen", wh_view_of(at->seen ? at->seen : "1:1:")),
		WH_TEXT_PARAM("until", wh_view_of(at->until)),
		WH_INT_PARAM("late", at->late),
		mask_param(w->share),
		WH_INT_PARAM("mixed", w->share->rows > 1),
	};
	int64_t moved = 0;
	wherry_code code = wh_db_run(w->store->db, w->store->stmt.move, params, 10, NULL,
				     NULL, &moved, err);

	if (code != WHERRY_OK)
		return code;
	if (w->share->rows == 1)
		return moved ? code
			     : wh_fail(err, WHERRY_STALE,
				       "the lease expired or was taken over");
	return moved == w->share->rows ? unite(w, err) : code;
}

static wherry_code hold(const writing *w, wherry_error *err)
{
	wh_param ids;
	wherry_code code =
		wh_store_ids(w->store, w->what->held, w->what->n_held, &ids, err);

	return code == WHERRY_OK ? wh_db_run(w->store->db, w->store->stmt.hold, &ids, 1,
					     NULL, NULL, NULL, err)
				 : code;
}

wherry_code wh_progress_forget_done(const wh_store *store, wherry_error *err)
{
	return wh_db_run(store->db, store->stmt.forget_done, NULL, 0, NULL, NULL, NULL,
			 err);
}

static wherry_code write_all(void *ctx, wherry_error *err)
{
	writing *w = ctx;
	wherry_code code = wh_store_fence(w->store, w->lease, err);

	w->united = false;
	if (code == WHERRY_OK && w->what->n_held)
		code = hold(w, err);
	if (code == WHERRY_OK && w->what->at)
		code = move(w, err);
	return code == WHERRY_OK && w->what->forget_done
		       ? wh_progress_forget_done(w->store, err)
		       : code;
}

wherry_code wh_progress_write(wh_store *store, const wherry_lease *lease, wh_share *share,
			      const wh_progress *what, wherry_error *err)
{
	writing w = {store, lease, share, what, false};
	wherry_code code = WHERRY_OK;

	/* If a share has several rows, the statement need not move any, which says nothing of the lease. */
	if (what->n_held || what->forget_done || (what->at && share->rows > 1))
		code = wh_db_transact(store->db, write_all, &w, err);
	else if (what->at)
		code = move(&w, err);
	if (code == WHERRY_OK && w.united)
		share->rows = 1;
	return code;
}

/* ---- a table from another server ---- */

typedef struct renumbering {
	wh_store *store;
	const wherry_lease *lease;
	wh_cursor *cursor;
} renumbering;

static wherry_code renumber(void *ctx, wherry_error *err)
{
	const renumbering *w = ctx;
	wh_position at = WH_POSITION_START;
	wherry_code code = wh_cursor_renumber(w->cursor, &at, err);

	wh_position_clear(&at);
	return code == WHERRY_OK ? wh_store_fence(w->store, w->lease, err) : code;
}

wherry_code wh_progress_renumber(wh_store *store, const wherry_lease *lease,
				 wh_cursor *cursor, wherry_error *err)
{
	renumbering w = {store, lease, cursor};

	return wh_db_transact(store->db, renumber, &w, err);
}

/* ---- exceptions ---- */

typedef struct known {
	void (*visit)(void *ctx, const wh_exception *what);
	void *ctx;
} known;

static wherry_code take_known(void *ctx, const wh_row *row, wherry_error *err)
{
	const known *k = ctx;

	const wh_exception what = {
		.id = wh_row_int(row, 0),
		.state = (wherry_state)wh_row_int(row, 1),
		.attempts = wh_clamp32(wh_row_int(row, 2)),
		.due_in_us = wh_us(wh_row_int(row, 3)),
	};

	k->visit(k->ctx, &what);
	return wh_row_check(row, err);
}

wherry_code wh_progress_known(const wh_store *store, const wh_share *share,
			      void (*visit)(void *ctx, const wh_exception *what),
			      void *ctx, wherry_error *err)
{
	const wh_param mask = mask_param(share);
	known k = {visit, ctx};

	return wh_db_run(store->db, store->stmt.known, &mask, 1, take_known, &k, NULL,
			 err);
}
