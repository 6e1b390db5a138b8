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

typedef struct settling {
	wherry_queue *queue;
	const wh_stmt *stmt;
	wh_param params[PARAMS_MOST]; /* "ids", "token", then those of the statement. */
	size_t n_params;
	const int64_t *ids;
	size_t n, each; /* Number of ids; of ids that one statement takes. */
	int64_t changed;
} settling;

static wherry_code run_each(void *ctx, wherry_error *err)
{
	settling *s = ctx;
	wherry_code code = WHERRY_OK;

	s->changed = 0;
	for (size_t at = 0; code == WHERRY_OK && at < s->n; at += s->each) {
		size_t n = s->n - at < s->each ? s->n - at : s->each;
		int64_t changed = 0;

		code = wh_store_ids(&s->queue->store, s->ids + at, n, &s->params[0], err);
		if (code == WHERRY_OK)
			code = wh_db_run(s->queue->store.db, s->stmt, s->params,
					 s->n_params, NULL, NULL, &changed, err);
		s->changed += changed;
	}
	return code;
}

/* Run a statement on the messages with these ids that are leased under the token.  STALE:
 * some are not leased under it; the statement changed the others. */
static wherry_code settle(wherry_queue *queue, const wh_stmt *stmt, const char *token,
			  const int64_t *ids, size_t n, const wh_param *more,
			  size_t n_more, int64_t *out_n, wherry_error *err)
{
	settling s = {.queue = queue,
		      .stmt = stmt,
		      .n_params = 2 + n_more,
		      .ids = ids,
		      .n = n,
		      .each = n};
	wherry_code code;

	if (!queue || (!ids && n))
		return wh_fail(err, WHERRY_INVALID, "no queue, or no ids");
	if (!token || !*token)
		return wh_fail(err, WHERRY_INVALID,
			       "the token is empty: it is that of the lease under which "
			       "the messages were received");
	if (!stmt)
		return wh_store_cannot(&queue->store, "which has no place for leases",
				       err);
	if (n) {
		int64_t most = queue->store.db->driver->rows_most;

		if (most && (int64_t)n > most)
			s.each = (size_t)most;
		s.params[1] = WH_TEXT_PARAM("token", wh_view_of(token));
		if (n_more)
			memcpy(&s.params[2], more, n_more * sizeof(*more));
		code = s.each < n ? wh_db_transact(queue->store.db, run_each, &s, err)
				  : run_each(&s, err);
		if (code != WHERRY_OK)
			return wh_queue_failed(queue, code, err);
	}
	if (out_n)
		*out_n = s.changed;
	if (s.changed < (int64_t)n)
		return wh_fail(err, WHERRY_STALE,
			       "%" PRId64 " of %zu messages of queue '%s' are not leased "
			       "under this token any more",
			       (int64_t)n - s.changed, n, queue->store.name.ptr);
	return WHERRY_OK;
}

wherry_code wherry_queue_ack(wherry_queue *queue, const char *token, const int64_t *ids,
			     size_t n, int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	return settle(queue, queue ? queue->own.ack : NULL, token, ids, n, NULL, 0, out_n,
		      err);
}

/* Let the next receive on this handle find the messages that were given back. */
static void go_back(wherry_queue *queue, const int64_t *ids, size_t n, bool not_counted)
{
	/* They are due, or in another table: only a look at all messages reads them. */
	if (queue->own.extend_lease || !not_counted)
		queue->scan_start.next_full_us = 0;
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
	if (code == WHERRY_OK)
		code = wh_span_check("the delay", own.delay_us, err);
	if (code != WHERRY_OK)
		return code;
	const wh_param more[] = {
		WH_INT_PARAM("delay", wh_ms(own.delay_us)),
		WH_INT_PARAM("back", own.not_counted),
		wh_queue_error_param(own.error),
	};
	code = settle(queue, queue ? queue->own.nack : NULL, token, ids, n, more, 3,
		      out_n, err);
	if ((code == WHERRY_OK || code == WHERRY_STALE) && !own.delay_us)
		go_back(queue, ids, n, own.not_counted);
	return code;
}

wherry_code wherry_queue_extend(wherry_queue *queue, const char *token,
				const int64_t *ids, size_t n, int64_t lease_us,
				int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param lasts = WH_INT_PARAM("lasts", wh_ms(lease_us));
	const wh_stmt *stmt = NULL;
	wherry_code code = wh_span_check("the lease", lease_us, err);

	if (lease_us <= 0)
		return wh_fail(err, WHERRY_INVALID, "a lease needs a time above 0");
	if (code != WHERRY_OK)
		return code;
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
