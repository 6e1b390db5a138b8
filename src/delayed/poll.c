/*
 * Polls messages, and copies messages from rows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "delayed/delayed.h"

enum {
	LIMIT_MOST = 10000,
	LEASE_STANDARD_US = 30000000, /* 30 s */
	TOKEN_LEN = 80, /* Room for "ID.VERSION.LOCK", "ID.VERSION:OFFERED". */
	/* Messages that one poll makes dead, at most.  Nobody waits longer for a message because
	 * many others had all their attempts. */
	DEAD_MOST = 1000
};

/* ---- messages that were read ---- */

static const char *copy(wh_delayed_batch *batch, wh_view text, bool *failed)
{
	char *made = text.ptr ? wh_arena_copy(&batch->arena, text.ptr, text.len) : NULL;

	*failed = *failed || (text.ptr && !made);
	return made;
}

static const char *make_token(wh_delayed_batch *batch, const wh_row *row, bool *failed)
{
	const char *lock = wh_row_text(row, WH_DELAYED_TOKEN);
	bool leased = batch->from == WH_DELAYED_POLLED && lock;
	char text[TOKEN_LEN], offered[24];

	if (batch->from == WH_DELAYED_DEAD)
		return NULL;
	(void)snprintf(offered, sizeof(offered), "%" PRId64,
		       wh_row_int(row, WH_DELAYED_OFFERED_AT));
	(void)snprintf(text, sizeof(text), "%" PRId64 ".%" PRId64 "%s%.36s",
		       wh_row_int(row, WH_DELAYED_ID),
		       wh_row_int(row, WH_DELAYED_CREATED_AT), leased ? "." : ":",
		       leased ? lock : offered);
	return copy(batch, wh_view_of(text), failed);
}

static bool make_room(wh_delayed_batch *batch)
{
	size_t cap = batch->cap ? 2 * batch->cap : 16;
	wh_delayed_item *grown;

	if (batch->n < batch->cap)
		return true;
	grown = realloc(batch->items, cap * sizeof(*grown));
	if (!grown)
		return false;
	batch->items = grown;
	batch->cap = cap;
	return true;
}

wherry_code wh_delayed_take(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_delayed_batch *batch = ctx;
	wh_view body = wh_row_bytes(row, WH_DELAYED_BODY);
	int64_t offered = wh_row_int(row, WH_DELAYED_OFFERED_AT);
	int64_t scheduled = wh_row_int(row, WH_DELAYED_SCHEDULED_AT);
	int64_t due = wh_row_int(row, WH_DELAYED_DUE_AT);
	int64_t attempts = wh_row_int(row, WH_DELAYED_ATTEMPTS);
	bool polled = batch->from == WH_DELAYED_POLLED, failed = false;
	wherry_state state = (wherry_state)wh_row_int(row, WH_DELAYED_STATE);
	/* The attempt that is under way. */
	int64_t now = polled || state == WHERRY_PROCESSING ? 1 : 0;
	const wherry_delayed_message m = {
		.size = sizeof(m),
		.key = copy(batch, wh_row_bytes(row, WH_DELAYED_KEY), &failed),
		.body = copy(batch, body, &failed),
		.body_len = body.len,
		.at_us = wh_us(offered),
		.id = wh_row_int(row, WH_DELAYED_ID),
		.created_at_us = wh_us(wh_row_int(row, WH_DELAYED_CREATED_AT)),
		.available_at_us = wh_us(scheduled),
		.attempts = wh_clamp32(attempts),
		.redelivery = attempts > now || (polled && due > offered),
		.state = state,
		.token = make_token(batch, row, &failed),
		.last_error =
			copy(batch, wh_row_bytes(row, WH_DELAYED_LAST_ERROR), &failed),
	};
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	if (failed || !make_room(batch))
		return wh_oom(err);
	batch->items[batch->n++] = (wh_delayed_item){m, due};
	return WHERRY_OK;
}

wherry_code wh_delayed_visit(const wh_delayed_batch *batch, wherry_delayed_fn visit,
			     void *ctx, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < batch->n; i++)
		code = visit(ctx, &batch->items[i].message);
	return code == WHERRY_OK ? code
				 : wh_fail(err, code, "stopped by the caller's function");
}

void wh_delayed_batch_clear(wh_delayed_batch *batch)
{
	wh_arena_clear(&batch->arena);
	free(batch->items);
	*batch = (wh_delayed_batch){.items = NULL};
}

/* ---- polling ---- */

typedef struct polling {
	wherry_delayed *delayed;
	wherry_poll_options options;
	char lock[WH_UUID_LEN + 1];
	bool full; /* Look at all messages. */
	wh_delayed_batch batch;
	size_t n_dead;   /* Messages that became dead. */
	size_t n_before; /* Messages of statements before the one that runs. */
} polling;

/* Order messages by due time, then by id.  A statement returns rows in any order. */
static int compare_times(const void *a, const void *b)
{
	const wh_delayed_item *x = a, *y = b;

	if (x->due_ms != y->due_ms)
		return x->due_ms < y->due_ms ? -1 : 1;
	return x->message.id < y->message.id ? -1 : x->message.id > y->message.id;
}

/* Is a message behind the other one in the order of polls? */
static bool is_behind(int64_t ms, int64_t id, int64_t other_ms, int64_t other_id)
{
	return ms != other_ms ? ms > other_ms : id > other_id;
}

/* Set where the next poll begins: behind the messages that this statement leased, from
 * `first` on.  In the caller's transaction it begins at the earliest of them again,
 * because a rollback may bring them back. */
static void move_scan_start(polling *p, size_t first)
{
	wherry_delayed *delayed = p->delayed;
	bool open = wherry_db_in_transaction(delayed->store.db);
	int64_t ms = 0, id = 0;

	for (size_t i = first; i < p->batch.n; i++) {
		const wh_delayed_item *it = &p->batch.items[i];

		if (i == first || is_behind(it->due_ms, it->message.id, ms, id) != open) {
			ms = it->due_ms;
			id = it->message.id;
		}
	}
	if (first == p->batch.n || ms == INT64_MIN || id == INT64_MIN)
		return;
	delayed->after_ms = ms;
	delayed->after_id = open ? id - 1 : id;
}

/* Make a UUID of version 4: in the table of the JVM library it must differ from the claim of
 * a relay, which counts attempts in another way. */
static void new_lock(const wh_env *env, char out[WH_UUID_LEN + 1])
{
	enum { VERSION_AT = 14 };

	wh_uuid7_now(env, out);
	out[VERSION_AT] = '4';
}

/* A message that an earlier statement of this poll leased may be offered again meanwhile, and
 * leased by this one.  So each statement has its own token: with the same one, who
 * acknowledges the old content would delete the new. */
static void renew_lock(polling *p)
{
	if (p->batch.n)
		new_lock(p->delayed->store.db->env, p->lock);
}

static wherry_code lease(void *ctx, wherry_error *err)
{
	polling *p = ctx;
	wherry_delayed *delayed = p->delayed;
	wherry_db *db = delayed->store.db;
	int64_t began_us = wh_monotonic(db->env);
	size_t first = p->batch.n = p->n_before;
	const wh_param params[] = {
		wh_delayed_kind_param(delayed),
		wh_delayed_now_param(delayed),
		WH_INT_PARAM("limit", p->options.limit - (int64_t)first),
		WH_TEXT_PARAM("token", wh_view_of(p->lock)),
		WH_INT_PARAM("lasts", wh_ms(p->options.lease_us)),
		WH_INT_PARAM("most", p->options.max_attempts),
		WH_INT_PARAM("after_at", delayed->after_ms),
		WH_INT_PARAM("after_id", delayed->after_id),
	};
	wherry_code code = WHERRY_OK;

	if (delayed->own.note_poll)
		code = wh_db_run(db, delayed->own.note_poll, params, 3, NULL, NULL, NULL,
				 err);
	if (code == WHERRY_OK)
		code = wh_db_run(
			db, p->full ? delayed->own.poll : delayed->own.poll_after, params,
			p->full ? 6 : 8, wh_delayed_take, &p->batch, NULL, err);
	if (code != WHERRY_OK || !delayed->own.poll_after)
		return code;
	if (p->full)
		wh_scan_start_looked(&delayed->scan_start, db, began_us);
	move_scan_start(p, first);
	return WHERRY_OK;
}

/* Make messages dead that have used up their attempts.  *out_any: there were such
 * messages. */
static wherry_code make_exhausted_dead(polling *p, bool *out_any, wherry_error *err)
{
	wh_delayed_batch *batch = &p->batch;
	wh_delayed_ids done = {.n = 0};
	size_t kept = 0, n = 0;
	int64_t *ids = malloc((batch->n ? batch->n : 1) * sizeof(*ids));
	wherry_code code = WHERRY_OK;

	*out_any = false;
	if (!ids)
		return wh_oom(err);
	for (size_t i = 0; i < batch->n; i++) {
		const wherry_delayed_message *m = &batch->items[i].message;

		if (m->attempts > p->options.max_attempts)
			ids[n++] = m->id;
		else
			batch->items[kept++] = batch->items[i];
	}
	if (n)
		code = wh_delayed_make_dead(p->delayed, p->lock, ids, n, 1, NULL, &done,
					    err);
	if (code == WHERRY_OK) {
		batch->n = kept;
		p->n_dead += n;
		*out_any = n > 0;
	}
	free(done.ids);
	free(ids);
	return code;
}

/* Make messages dead that the poll passed over because they had used up their attempts.  They
 * become dead as a set: one after another, each statement would walk over the index entries
 * of those before it. */
static wherry_code make_passed_over_dead(polling *p, wherry_error *err)
{
	wherry_delayed *delayed = p->delayed;
	wh_delayed_ids exhausted = {.n = 0}, done = {.n = 0};
	char lock[WH_UUID_LEN + 1];
	wherry_code code;

	new_lock(delayed->store.db->env, lock);
	const wh_param params[] = {
		wh_delayed_kind_param(delayed),
		wh_delayed_now_param(delayed),
		WH_INT_PARAM("limit", DEAD_MOST),
		WH_TEXT_PARAM("token", wh_view_of(lock)),
		WH_INT_PARAM("lasts", wh_ms(p->options.lease_us)),
		WH_INT_PARAM("most", p->options.max_attempts),
	};

	code = wh_db_run(delayed->store.db, delayed->own.poll_exhausted, params, 6,
			 wh_delayed_take_id, &exhausted, NULL, err);
	if (code == WHERRY_OK && exhausted.n)
		code = wh_delayed_make_dead(delayed, lock, exhausted.ids, exhausted.n, 1,
					    NULL, &done, err);
	free(done.ids);
	free(exhausted.ids);
	return code;
}

static wherry_code poll_all(void *ctx, wherry_error *err)
{
	polling *p = ctx;
	bool again = true;
	wherry_code code = WHERRY_OK;

	p->full = !p->delayed->own.poll_after ||
		  wh_scan_start_is_due(&p->delayed->scan_start, p->delayed->store.db);
	while (code == WHERRY_OK && again && (int64_t)p->batch.n < p->options.limit) {
		again = false;
		renew_lock(p);
		p->n_before = p->batch.n;
		code = wh_db_again(p->delayed->store.db, lease, p, err);
		if (code == WHERRY_OK && p->options.max_attempts)
			code = make_exhausted_dead(p, &again, err);
		again = again && p->n_dead < DEAD_MOST;
		/* Look at all messages if there were too few: some may have come back or
		 * been committed late. */
		if (!again && !p->full && wh_scan_start_is_cheap(&p->delayed->scan_start))
			p->full = again = true;
	}
	if (code == WHERRY_OK && p->options.max_attempts &&
	    p->delayed->own.poll_exhausted)
		code = make_passed_over_dead(p, err);
	return code;
}

static wherry_code read_options(const wherry_delayed *delayed,
				const wherry_poll_options *given,
				wherry_poll_options *options, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (given)
		code = wh_sized_read(options, sizeof(*options), given,
				     offsetof(wherry_poll_options, limit), "options",
				     "WHERRY_POLL_OPTIONS", err);
	if (code != WHERRY_OK)
		return code;
	if (!options->limit)
		options->limit = 1;
	if (!options->lease_us)
		options->lease_us = LEASE_STANDARD_US;
	if (options->limit < 1 || options->limit > LIMIT_MOST || options->lease_us < 0 ||
	    options->max_attempts < 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a poll takes 1 to %d messages, and no negative lease or "
			       "number of attempts",
			       LIMIT_MOST);
	code = wh_span_check("the lease", options->lease_us, err);
	if (code != WHERRY_OK)
		return code;
	if (options->max_attempts && !delayed->own.make_dead)
		return wh_store_cannot(&delayed->store,
				       "which has no place for dead messages: poll "
				       "without a maximum of attempts",
				       err);
	return WHERRY_OK;
}

/* Set the token of the first statement.  A poll that repeats a failed one uses the same
 * token. */
static void make_lock(polling *p)
{
	char *next = p->delayed->next_token;

	if (!*next)
		new_lock(p->delayed->store.db->env, next);
	memcpy(p->lock, next, sizeof(p->lock));
}

wherry_code wherry_delayed_poll(wherry_delayed *delayed,
				const wherry_poll_options *options,
				wherry_delayed_fn visit, void *ctx, int64_t *out_n,
				wherry_error *err)
{
	wh_error_clear(err);
	polling p = {.delayed = delayed};
	wherry_code code;

	if (!delayed || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue to poll, or nobody who sees messages");
	code = read_options(delayed, options, &p.options, err);
	if (code != WHERRY_OK)
		return code;
	make_lock(&p);
	/* A server needs no transaction: messages that a failed poll leased are polled
	 * again when the lease expires. */
	code = delayed->store.db->driver->late_commits
		       ? poll_all(&p, err)
		       : wh_db_transact_once(delayed->store.db, false, poll_all, &p, err);
	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK) {
		delayed->store.rows_read += (int64_t)p.batch.n;
		*delayed->next_token = 0;
		if (p.batch.n)
			qsort(p.batch.items, p.batch.n, sizeof(*p.batch.items),
			      compare_times);
		if (out_n)
			*out_n = (int64_t)p.batch.n;
		code = wh_delayed_visit(&p.batch, visit, ctx, err);
	}
	wh_delayed_batch_clear(&p.batch);
	return code;
}
