/*
 * Reads the messages of a queue without receiving them; functions for operators.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/text.h"
#include "queue/queue.h"
#include "store/leases.h"

enum { PEEK_STANDARD = 100, BATCH_MOST = 100000, ALL_STATES = 31, RETRY_BATCH = 1000 };

/* ---- messages that were read ---- */

static int64_t time_of(const wh_row *row, int column)
{
	return wh_us(wh_row_int(row, column));
}

/* Copy a column to the batch's memory.  NULL: the column is NULL, or out of memory, which
 * sets *failed. */
static const char *copy(wh_queue_batch *batch, const wh_row *row, int column,
			bool *failed)
{
	wh_view text = wh_row_bytes(row, column);
	char *made = text.ptr ? wh_arena_copy(&batch->arena, text.ptr, text.len) : NULL;

	*failed = *failed || (text.ptr && !made);
	return made;
}

static bool make_room(wh_queue_batch *batch)
{
	size_t cap = batch->cap ? 2 * batch->cap : 16;
	wherry_queue_message *grown;

	if (batch->n < batch->cap)
		return true;
	grown = realloc(batch->messages, cap * sizeof(*grown));
	if (!grown)
		return false;
	batch->messages = grown;
	batch->cap = cap;
	return true;
}

wherry_code wh_queue_batch_add(wh_queue_batch *batch, const wh_row *row,
			       const char *token, wherry_error *err)
{
	wh_view body = wh_row_bytes(row, WH_QUEUE_BODY);
	bool failed = false;
	const wherry_queue_message m = {
		.size = sizeof(m),
		.message_id = copy(batch, row, WH_QUEUE_MESSAGE_ID, &failed),
		.topic = copy(batch, row, WH_QUEUE_TOPIC, &failed),
		.correlation_id = copy(batch, row, WH_QUEUE_CORRELATION_ID, &failed),
		.reply_to = copy(batch, row, WH_QUEUE_REPLY_TO, &failed),
		.headers = copy(batch, row, WH_QUEUE_HEADERS, &failed),
		.last_error = copy(batch, row, WH_QUEUE_LAST_ERROR, &failed),
		.body = copy(batch, row, WH_QUEUE_BODY, &failed),
		.body_len = body.len,
		.id = wh_row_int(row, WH_QUEUE_ID),
		.created_at_us = time_of(row, WH_QUEUE_CREATED_AT),
		.available_at_us = time_of(row, WH_QUEUE_AVAILABLE_AT),
		.expires_at_us = time_of(row, WH_QUEUE_EXPIRES_AT),
		.attempts = wh_clamp32(wh_row_int(row, WH_QUEUE_ATTEMPTS)),
		.state = (wherry_state)wh_row_int(row, WH_QUEUE_STATE),
		.token = token,
	};
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	if (failed || !make_room(batch))
		return wh_oom(err);
	batch->messages[batch->n++] = m;
	return WHERRY_OK;
}

wherry_code wh_queue_batch_visit(const wh_queue_batch *batch, wherry_queue_fn visit,
				 void *ctx, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < batch->n; i++)
		code = visit(ctx, &batch->messages[i]);
	return code == WHERRY_OK ? code
				 : wh_fail(err, code, "stopped by the caller's function");
}

void wh_queue_batch_clear(wh_queue_batch *batch)
{
	wh_arena_clear(&batch->arena);
	free(batch->messages);
	*batch = (wh_queue_batch){.messages = NULL};
}

/* ---- looking ---- */

typedef struct looking {
	const wherry_queue *queue;
	wh_queue_batch batch;
} looking;

static wherry_code take_message(void *ctx, const wh_row *row, wherry_error *err)
{
	looking *l = ctx;
	wherry_error why = WHERRY_ERROR_INIT;
	const char *forward;
	wherry_code code = wh_queue_batch_add(&l->batch, row, NULL, err);

	if (code == WHERRY_OK && l->queue->fields_in_headers &&
	    wh_queue_read_headers(l->queue, &l->batch, &l->batch.messages[l->batch.n - 1],
				  &forward, &why) == WHERRY_NOMEM)
		return wh_oom(err);
	return code;
}

static wherry_code visit_rows(wherry_queue *queue, const wh_stmt *stmt,
			      const wh_param *params, size_t n_params,
			      wherry_queue_fn visit, void *ctx, size_t *out_n,
			      wherry_error *err)
{
	looking l = {.queue = queue};
	wherry_code code = wh_db_run(queue->store.db, stmt, params, n_params,
				     take_message, &l, NULL, err);

	code = wh_queue_failed(queue, code, err);
	*out_n = l.batch.n;
	if (code == WHERRY_OK)
		code = wh_queue_batch_visit(&l.batch, visit, ctx, err);
	wh_queue_batch_clear(&l.batch);
	return code;
}

wherry_code wherry_queue_peek(wherry_queue *queue, const wherry_queue_filter *filter,
			      wherry_queue_fn visit, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wherry_queue_filter own = WHERRY_QUEUE_FILTER(.states = 0);
	wherry_code code = WHERRY_OK;
	size_t n;

	if (!queue || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no queue to look at, or nobody who sees messages");
	if (filter)
		code = wh_sized_read(&own, sizeof(own), filter,
				     offsetof(wherry_queue_filter, after_id), "filter",
				     "WHERRY_QUEUE_FILTER", err);
	if (code != WHERRY_OK)
		return code;
	const wh_param params[] = {
		WH_INT_PARAM("states", own.states ? own.states : ALL_STATES),
		WH_INT_PARAM("after", own.after_id),
		WH_INT_PARAM("limit", own.limit > 0 ? own.limit : PEEK_STANDARD),
	};
	return visit_rows(queue, queue->own.peek, params, 3, visit, ctx, &n, err);
}

/* The search for a message id, page by page. */
typedef struct search {
	const char *message_id;
	/* Id of the last message compared; id of the message found, 0: none. */
	int64_t last, found;
} search;

static wherry_code compare(void *ctx, const wherry_queue_message *msg)
{
	search *s = ctx;

	s->last = msg->id;
	if (!s->found && msg->message_id && strcmp(msg->message_id, s->message_id) == 0)
		s->found = msg->id;
	return WHERRY_OK;
}

static wherry_code find_id(wherry_queue *queue, const char *message_id, int64_t *out_id,
			   wherry_error *err)
{
	search s = {.message_id = message_id};
	size_t n = PEEK_STANDARD;
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && n == PEEK_STANDARD && !s.found) {
		const wh_param params[] = {
			WH_INT_PARAM("states", ALL_STATES),
			WH_INT_PARAM("after", s.last),
			WH_INT_PARAM("limit", PEEK_STANDARD),
		};

		code = visit_rows(queue, queue->own.peek, params, 3, compare, &s, &n,
				  err);
	}
	*out_id = s.found;
	return code;
}

wherry_code wherry_queue_show(wherry_queue *queue, const char *ident,
			      wherry_queue_fn visit, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = WHERRY_OK;
	int64_t id = 0;
	size_t n = 0;

	if (!queue || !ident || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no queue, no message named, or nobody who sees it");
	/* A number is looked up as an id first, then as a message id. */
	for (int by_name = !wh_parse_int(ident, &id);
	     code == WHERRY_OK && !n && by_name < 2; by_name++) {
		if (by_name)
			code = find_id(queue, ident, &id, err);
		if (code == WHERRY_OK && id > 0)
			code = visit_rows(queue, queue->own.show, &WH_INT_PARAM("id", id),
					  1, visit, ctx, &n, err);
	}
	if (code == WHERRY_OK && !n)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "there is no message '%.100s' in queue '%s'", ident,
			       queue->store.name.ptr);
	return code;
}

static wherry_code take_counts(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_queue_status *out = ctx;

	(void)err;
	out->ready = wh_row_int(row, 0);
	out->leased = wh_row_int(row, 1);
	out->waiting = wh_row_int(row, 2);
	out->dead = wh_row_int(row, 3);
	out->oldest_ready_us = out->ready ? wh_us(wh_row_int(row, 4)) : 0;
	out->expired = wh_row_int(row, 5);
	return WHERRY_OK;
}

wherry_code wherry_queue_get_status(wherry_queue *queue, wherry_queue_status *out,
				    size_t size, wherry_error *err)
{
	wh_error_clear(err);
	wherry_queue_status status = {.ready = 0};
	int64_t control_version;
	wherry_code code;

	if (!queue || !out)
		return wh_fail(err, WHERRY_INVALID, "no queue, or nowhere to count to");
	code = wh_db_run(queue->store.db, queue->own.count, NULL, 0, take_counts, &status,
			 NULL, err);
	if (code == WHERRY_OK)
		code = wh_store_control(&queue->store, &status.paused, &control_version,
					err);
	if (code != WHERRY_OK)
		return wh_queue_failed(queue, code, err);
	status.schema_version = queue->store.version;
	(void)snprintf(status.layout, sizeof(status.layout), "%s",
		       queue->store.layout.name);
	wh_sized_write(out, size, &status, sizeof(status));
	return WHERRY_OK;
}

static wherry_code read_int(wherry_queue *queue, const wh_stmt *stmt, int64_t *out,
			    wherry_error *err)
{
	wherry_code code =
		wh_db_run(queue->store.db, stmt, NULL, 0, wh_take_int, out, NULL, err);

	return wh_queue_failed(queue, code, err);
}

wherry_code wherry_queue_estimate(wherry_queue *queue, int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	int64_t n = 0;
	wherry_code code;

	if (!queue || !out_n)
		return wh_fail(err, WHERRY_INVALID, "no queue, or nowhere to count to");
	code = read_int(queue, queue->own.estimate, &n, err);
	if (code == WHERRY_OK)
		*out_n = n;
	return code;
}

wherry_code wherry_queue_next_due(wherry_queue *queue, int64_t *out_us, wherry_error *err)
{
	wh_error_clear(err);
	int64_t ms = -1;
	wherry_code code;

	if (!queue || !out_us)
		return wh_fail(err, WHERRY_INVALID, "no queue, or nowhere to put a time");
	code = read_int(queue, queue->own.next_due, &ms, err);
	if (code == WHERRY_OK)
		*out_us = ms < 0 ? -1 : wh_us(ms);
	return code;
}

/* ---- findings about the tables ---- */

typedef struct finding {
	wherry_queue_finding_fn visit;
	void *ctx;
} finding;

static wherry_code take_finding(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *what = wh_row_text(row, 0), *repair = wh_row_text(row, 1);
	const finding *f = ctx;
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	code = f->visit(f->ctx, what ? what : "", repair ? repair : "");
	return code == WHERRY_OK ? code
				 : wh_fail(err, code, "stopped by the caller's function");
}

wherry_code wherry_queue_inspect(wherry_queue *queue, wherry_queue_finding_fn visit,
				 void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	finding f = {visit, ctx};

	if (!queue || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no queue to inspect, or nobody who sees what is wrong");
	return wh_queue_failed(queue,
			       wh_db_run(queue->store.db, queue->own.inspect, NULL, 0,
					 take_finding, &f, NULL, err),
			       err);
}

/* ---- changing many messages ---- */

typedef struct batches {
	wherry_queue *queue;
	const wh_stmt *stmt;
	const wh_param *params;
	size_t n_params;
	int64_t changed;
} batches;

static wherry_code run_batch(void *ctx, wherry_error *err)
{
	batches *b = ctx;
	int64_t counted = -1;
	wherry_code code = wh_db_run(b->queue->store.db, b->stmt, b->params, b->n_params,
				     wh_take_int, &counted, &b->changed, err);

	/* A statement on several tables returns the number of changed rows. */
	if (counted >= 0)
		b->changed = counted;
	return code;
}

/* Repeat a statement until it changes fewer rows than its limit. */
static wherry_code in_batches(wherry_queue *queue, const wh_stmt *stmt, wh_param param,
			      int64_t batch, int64_t *out_n, wherry_error *err)
{
	const bool rehearses = queue->store.db->rehearses;
	int64_t most = rehearses ? 1 : queue->store.db->driver->rows_most;
	int64_t each = most && batch > most ? most : batch;
	const wh_param params[] = {param, WH_INT_PARAM("limit", each)};
	batches b = {queue, stmt, params, 2, each};
	int64_t total = 0;
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && b.changed == each) {
		b.changed = 0;
		code = wh_db_transact(queue->store.db, run_batch, &b, err);
		if (code == WHERRY_OK)
			total += b.changed;
		if (rehearses)
			break;
	}
	if (out_n)
		*out_n = total;
	return wh_queue_failed(queue, code, err);
}

wherry_code wherry_queue_retry(wherry_queue *queue, int64_t id, int64_t *out_n,
			       wherry_error *err)
{
	wh_error_clear(err);
	int64_t n = 0;
	wherry_code code;

	if (!queue)
		return wh_fail(err, WHERRY_INVALID, "no queue");
	code = in_batches(queue, queue->own.retry_dead, WH_INT_PARAM("id", id),
			  RETRY_BATCH, &n, err);
	queue->after = 0;
	if (code == WHERRY_OK && id && !n)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "queue '%s' has no dead message %" PRId64,
			       queue->store.name.ptr, id);
	if (out_n)
		*out_n = n;
	return code;
}

static wherry_code pause(wherry_queue *queue, bool on, wherry_error *err)
{
	if (!queue)
		return wh_fail(err, WHERRY_INVALID, "no queue");
	return wh_queue_failed(queue, wh_store_pause(&queue->store, on, err), err);
}

wherry_code wherry_queue_pause(wherry_queue *queue, wherry_error *err)
{
	wh_error_clear(err);
	return pause(queue, true, err);
}

wherry_code wherry_queue_resume(wherry_queue *queue, wherry_error *err)
{
	wh_error_clear(err);
	return pause(queue, false, err);
}

wherry_code wherry_queue_discard(wherry_queue *queue, int64_t id, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param param = WH_INT_PARAM("id", id);
	batches one = {queue, NULL, &param, 1, 0};
	wherry_code code;

	if (!queue)
		return wh_fail(err, WHERRY_INVALID, "no queue");
	one.stmt = queue->own.discard;
	code = wh_queue_failed(
		queue, wh_db_transact(queue->store.db, run_batch, &one, err), err);
	if (code == WHERRY_OK && !one.changed)
		return wh_fail(err, WHERRY_NOTFOUND, "queue '%s' has no message %" PRId64,
			       queue->store.name.ptr, id);
	return code;
}

static wherry_code check_batch(wherry_queue *queue, int64_t batch, wherry_error *err)
{
	if (!queue)
		return wh_fail(err, WHERRY_INVALID, "no queue");
	if (batch < 1 || batch > BATCH_MOST)
		return wh_fail(err, WHERRY_INVALID, "a batch has 1 to %d rows",
			       BATCH_MOST);
	if (!queue->store.db->rehearses && wherry_db_in_transaction(queue->store.db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: each batch needs its own");
	return WHERRY_OK;
}

wherry_code wherry_queue_purge(wherry_queue *queue, unsigned states, int64_t batch,
			       int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check_batch(queue, batch, err);

	return code == WHERRY_OK
		       ? in_batches(queue, queue->own.purge_states,
				    WH_INT_PARAM("states", states ? states : ALL_STATES),
				    batch, out_n, err)
		       : code;
}

wherry_code wherry_queue_expire(wherry_queue *queue, int64_t batch, int64_t *out_n,
				wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check_batch(queue, batch, err);

	return code == WHERRY_OK ? in_batches(queue, queue->store.stmt.expire_rows,
					      WH_TEXT_PARAM("token", wh_view_of("")),
					      batch, out_n, err)
				 : code;
}
