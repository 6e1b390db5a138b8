/*
 * Acknowledges leased messages, or gives them back.
 */
#include <inttypes.h>
#include <string.h>

#include "base/sized.h"
#include "base/text.h"
#include "queue/queue.h"

enum { ERROR_MOST = 500, PARAMS_MOST = 5 };

wh_param wh_queue_error_param(const char *error)
{
	wh_view text = {error, 0};

	if (error)
		text.len = wh_utf8_cut(error, strlen(error), ERROR_MOST);
	return WH_TEXT_PARAM("error", text);
}

/* Run a statement on the rows that are leased under a token. */
static wherry_code settle(wherry_queue *queue, const wh_stmt *stmt, const char *token,
			  const int64_t *ids, size_t n, const wh_param *more,
			  size_t n_more, int64_t *out_n, wherry_error *err)
{
	wh_param params[PARAMS_MOST] = {{.name = "ids"}, {.name = "token"}};
	int64_t changed = 0;
	wherry_code code;

	if (!queue || !token || !*token || (!ids && n))
		return wh_fail(err, WHERRY_INVALID,
			       "no queue, no token of a lease, or no ids");
	if (!stmt)
		return wh_store_cannot(&queue->store, "which has no place for leases",
				       err);
	if (n) {
		code = wh_store_ids(&queue->store, ids, n, &params[0], err);
		if (code != WHERRY_OK)
			return code;
		params[1] = WH_TEXT_PARAM("token", wh_view_of(token));
		if (n_more)
			memcpy(&params[2], more, n_more * sizeof(*more));
		code = wh_db_run(queue->store.db, stmt, params, 2 + n_more, NULL, NULL,
				 &changed, err);
		if (code != WHERRY_OK)
			return wh_queue_failed(queue, code, err);
	}
	if (out_n)
		*out_n = changed;
	if (changed < (int64_t)n)
		return wh_fail(err, WHERRY_STALE,
			       "%" PRId64 " of %zu messages of queue '%s' are not leased "
			       "under this token any more",
			       (int64_t)n - changed, n, queue->store.name.ptr);
	return WHERRY_OK;
}

wherry_code wherry_queue_ack(wherry_queue *queue, const char *token, const int64_t *ids,
			     size_t n, int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	return settle(queue, queue ? queue->own.ack : NULL, token, ids, n, NULL, 0, out_n,
		      err);
}

/* They are to be found again by the next receive on this handle, in their old places. */
static void go_back(wherry_queue *queue, const int64_t *ids, size_t n)
{
	if (queue->own.extend_lease) /* They are beside the queue: look there. */
		queue->next_full_us = 0;
	for (size_t i = 0; i < n; i++)
		if (ids[i] <= queue->after)
			queue->after = ids[i] - 1;
}

wherry_code wherry_queue_nack(wherry_queue *queue, const char *token, const int64_t *ids,
			      size_t n, const wherry_nack *how, int64_t *out_n,
			      wherry_error *err)
{
	wh_error_clear(err);
	wherry_nack own = WHERRY_NACK(.delay_us = 0);
	wherry_code code = WHERRY_OK;

	if (how)
		code = wh_sized_read(&own, sizeof(own), how,
				     offsetof(wherry_nack, delay_us), "nack",
				     "WHERRY_NACK", err);
	if (code == WHERRY_OK && own.delay_us < 0)
		code = wh_fail(err, WHERRY_INVALID, "delay_us is not negative");
	if (code != WHERRY_OK)
		return code;
	const wh_param more[] = {
		WH_INT_PARAM("delay", wh_ms(own.delay_us)),
		WH_INT_PARAM("back", own.innocent),
		wh_queue_error_param(own.error),
	};
	code = settle(queue, queue ? queue->own.nack : NULL, token, ids, n, more, 3,
		      out_n, err);
	if ((code == WHERRY_OK || code == WHERRY_STALE) && !own.delay_us)
		go_back(queue, ids, n);
	return code;
}

wherry_code wherry_queue_extend(wherry_queue *queue, const char *token,
				const int64_t *ids, size_t n, int64_t lease_us,
				int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param lasts = WH_INT_PARAM("lasts", wh_ms(lease_us));
	const wh_stmt *stmt = NULL;

	if (lease_us <= 0)
		return wh_fail(err, WHERRY_INVALID, "a lease needs a time above 0");
	if (queue)
		stmt = queue->own.extend_lease ? queue->own.extend_lease
					       : queue->store.stmt.extend;
	return settle(queue, stmt, token, ids, n, &lasts, 1, out_n, err);
}

wherry_code wherry_queue_dead_letter(wherry_queue *queue, const char *token,
				     const int64_t *ids, size_t n, const char *reason,
				     int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param error = wh_queue_error_param(reason ? reason : "");

	return settle(queue, queue ? queue->own.dead_letter : NULL, token, ids, n, &error,
		      1, out_n, err);
}
