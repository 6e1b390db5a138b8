/*
 * Dead messages, the status of a delayed queue, and pausing its relays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sized.h"
#include "delayed/delayed.h"
#include "store/leases.h"

enum { RETRY_BATCH = 1000 };

static wherry_code check(const wherry_delayed *delayed, int64_t id, wherry_error *err)
{
	if (!delayed || id < 0)
		return wh_fail(err, WHERRY_INVALID, "no delayed queue, or an id below 0");
	if (!delayed->own.make_dead)
		return wh_store_cannot(&delayed->store,
				       "which has no place for dead messages", err);
	return WHERRY_OK;
}

static wherry_code take_counts(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_delayed_status *out = ctx;
	int64_t next = wh_row_int(row, 5);

	(void)err;
	out->due = wh_row_int(row, 0);
	out->leased = wh_row_int(row, 1);
	out->waiting = wh_row_int(row, 2);
	out->dead = wh_row_int(row, 3);
	out->oldest_due_us = wh_us(wh_row_int(row, 4));
	out->next_us = next < 0 ? -1 : wh_us(next);
	return WHERRY_OK;
}

wherry_code wherry_delayed_get_status(wherry_delayed *delayed, wherry_delayed_status *out,
				      size_t size, wherry_error *err)
{
	wh_error_clear(err);
	wherry_delayed_status status = {.due = 0};
	int64_t control_version;
	wherry_code code;

	if (!delayed || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue, or nowhere to count to");
	const wh_param params[] = {wh_delayed_kind_param(delayed),
				   wh_delayed_now_param(delayed)};

	code = wh_db_run(delayed->store.db, delayed->own.count, params, 2, take_counts,
			 &status, NULL, err);
	if (code == WHERRY_OK)
		code = wh_store_control(&delayed->store, &status.paused, &control_version,
					err);
	if (code != WHERRY_OK)
		return wh_delayed_failed(delayed, code, err);
	status.schema_version = delayed->store.version;
	(void)snprintf(status.layout, sizeof(status.layout), "%s",
		       delayed->store.layout.name);
	wh_sized_write(out, size, &status, sizeof(status));
	return WHERRY_OK;
}

static wherry_code take_table(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(wh_delayed_counts *)ctx = (wh_delayed_counts){
		wh_row_int(row, 0), wh_row_int(row, 1), wh_row_int(row, 2)};
	return WHERRY_OK;
}

wherry_code wh_delayed_count_table(wherry_delayed *delayed, wh_delayed_counts *out,
				   wherry_error *err)
{
	const wh_param now = wh_delayed_now_param(delayed);
	wherry_code code = wh_db_run(delayed->store.db, delayed->own.count_table, &now, 1,
				     take_table, out, NULL, err);

	return wh_delayed_failed(delayed, code, err);
}

wherry_code wherry_delayed_list_dead(wherry_delayed *delayed, int64_t after_id,
				     int64_t limit, wherry_delayed_fn visit, void *ctx,
				     wherry_error *err)
{
	wh_error_clear(err);
	wh_delayed_batch batch = {.from = WH_DELAYED_DEAD};
	wherry_code code = check(delayed, after_id, err);

	if (code == WHERRY_OK && (!visit || limit < 0))
		code = wh_fail(err, WHERRY_INVALID,
			       "nobody who sees messages, or a limit below 0");
	if (code != WHERRY_OK)
		return code;
	const wh_param params[] = {
		wh_delayed_kind_param(delayed),
		WH_INT_PARAM("after", after_id),
		WH_INT_PARAM("limit", limit ? limit : INT64_MAX),
	};

	code = wh_db_run(delayed->store.db, delayed->own.list_dead, params, 3,
			 wh_delayed_take, &batch, NULL, err);
	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK)
		code = wh_delayed_visit(&batch, visit, ctx, err);
	wh_delayed_batch_clear(&batch);
	return code;
}

/* ---- retry ---- */

typedef struct retrying {
	wherry_delayed *delayed;
	int64_t first, last; /* Ids of the messages that are still to be retried. */
	wh_delayed_ids done; /* Ids of the messages that the last batch retried. */
} retrying;

static wherry_code retry_batch(void *ctx, wherry_error *err)
{
	retrying *r = ctx;
	const wh_param params[] = {
		wh_delayed_kind_param(r->delayed),  wh_delayed_now_param(r->delayed),
		WH_INT_PARAM("first", r->first),    WH_INT_PARAM("last", r->last),
		WH_INT_PARAM("limit", RETRY_BATCH),
	};
	wh_store *store = &r->delayed->store;
	wh_param ids;
	wherry_code code;

	r->done.n = 0;
	code = wh_db_run(store->db, r->delayed->own.retry_dead, params, 5,
			 wh_delayed_take_id, &r->done, NULL, err);
	if (code == WHERRY_OK && r->done.n) {
		code = wh_store_ids(store, r->done.ids, r->done.n, &ids, err);
		if (code == WHERRY_OK)
			code = wh_db_run(store->db, r->delayed->own.delete_dead, &ids, 1,
					 NULL, NULL, NULL, err);
	}
	return code;
}

/* A relay may make messages dead again while others are retried: of those that are dead
 * now, each is retried once. */
static wherry_code find_last(retrying *r, wherry_error *err)
{
	const wh_param kind = wh_delayed_kind_param(r->delayed);
	wherry_code code = wh_db_run(r->delayed->store.db, r->delayed->own.last_dead,
				     &kind, 1, wh_take_int, &r->last, NULL, err);

	return wh_delayed_failed(r->delayed, code, err);
}

/* A dead message that was not retried. */
typedef struct left {
	wherry_delayed *delayed;
	int64_t id;       /* 0: none was found. */
	int64_t others;   /* Messages that wait under its key. */
	wherry_code code; /* Of the look for them. */
	wherry_error *err;
} left;

static wherry_code look_at_left(void *ctx, const wherry_delayed_message *msg)
{
	left *l = ctx;
	const wh_param params[] = {
		wh_delayed_kind_param(l->delayed),
		WH_TEXT_PARAM("key", wh_view_of(msg->key)),
	};

	l->id = msg->id;
	l->code = wh_store_ask(&l->delayed->store, l->delayed->own.contains, params, 2,
			       &l->others, l->err);
	return WHERRY_OK;
}

/* Say why a message was not retried: its key has another message, the table does not take it, or
 * no dead message has this id. */
static wherry_code say_why_not(wherry_delayed *delayed, int64_t id, wherry_error *err)
{
	left l = {.delayed = delayed, .err = err};
	wherry_code code =
		wherry_delayed_list_dead(delayed, id - 1, 1, look_at_left, &l, err);

	if (code != WHERRY_OK)
		return code;
	if (l.code != WHERRY_OK)
		return wh_delayed_failed(delayed, l.code, err);
	if (l.id != id)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "the delayed queue has no dead message %" PRId64, id);
	if (!l.others)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the delayed queue has no place for dead message %" PRId64
			       ", which another program wrote: its id or its key is not "
			       "allowed there; discard it",
			       id);
	return wh_fail(err, WHERRY_DUPLICATE,
		       "the key of dead message %" PRId64
		       " has another message by now: discard one of them",
		       id);
}

wherry_code wherry_delayed_retry(wherry_delayed *delayed, int64_t id, int64_t *out_n,
				 wherry_error *err)
{
	wh_error_clear(err);
	retrying r = {.delayed = delayed, .first = id, .last = id, .done = {.n = 1}};
	int64_t total = 0;
	wherry_code code = check(delayed, id, err);

	if (code == WHERRY_OK && !id)
		code = find_last(&r, err);
	while (code == WHERRY_OK && r.done.n) {
		code = wh_db_transact(delayed->store.db, retry_batch, &r, err);
		code = wh_delayed_failed(delayed, code, err);
		if (code != WHERRY_OK)
			break;
		total += (int64_t)r.done.n;
		for (size_t i = 0; i < r.done.n; i++)
			if (r.done.ids[i] >= r.first)
				r.first = r.done.ids[i] + (r.done.ids[i] < INT64_MAX);
	}
	wh_delayed_came_back(delayed, INT64_MIN);
	free(r.done.ids);
	if (code == WHERRY_OK && id && !total)
		code = say_why_not(delayed, id, err);
	if (code == WHERRY_OK && out_n)
		*out_n = total;
	return code;
}

wherry_code wherry_delayed_purge_dead(wherry_delayed *delayed, int64_t id, int64_t *out_n,
				      wherry_error *err)
{
	wh_error_clear(err);
	int64_t n = 0;
	wherry_code code = check(delayed, id, err);

	if (code != WHERRY_OK)
		return code;
	const wh_param params[] = {wh_delayed_kind_param(delayed),
				   WH_INT_PARAM("id", id)};

	code = wh_db_run(delayed->store.db, delayed->own.purge_dead, params, 2, NULL,
			 NULL, &n, err);
	if (code != WHERRY_OK)
		return wh_delayed_failed(delayed, code, err);
	if (id && !n)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "the delayed queue has no dead message %" PRId64, id);
	if (out_n)
		*out_n = n;
	return code;
}

/* ---- relays ---- */

static wherry_code pause(wherry_delayed *delayed, bool on, wherry_error *err)
{
	if (!delayed)
		return wh_fail(err, WHERRY_INVALID, "no delayed queue");
	return wh_delayed_failed(delayed, wh_store_pause(&delayed->store, on, err), err);
}

wherry_code wherry_delayed_pause(wherry_delayed *delayed, wherry_error *err)
{
	wh_error_clear(err);
	return pause(delayed, true, err);
}

wherry_code wherry_delayed_resume(wherry_delayed *delayed, wherry_error *err)
{
	wh_error_clear(err);
	return pause(delayed, false, err);
}
