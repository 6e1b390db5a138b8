/*
 * Receiving messages.
 */
#include <string.h>

#include "base/json.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/uuid.h"
#include "queue/queue.h"

enum {
	LIMIT_MOST = 10000,
	EXPIRE_BATCH = 1000,
	/* After this many messages that the caller does not get, because they are dead or for another
	 * queue, a receive ends: it may be a transaction that others wait for. */
	PASSED_MOST = 1000,
	LEASE_STANDARD_US = 30000000 /* 30 s */
};

typedef struct receiving {
	wherry_queue *queue;
	wherry_receive_options options;
	char token[WH_UUID_LEN + 1]; /* Token of the lease; "": without a lease. */
	wh_queue_batch batch;        /* Messages to visit. */
	size_t n_sorted;             /* Of them, whose headers were read. */
	int64_t n_passed;            /* Messages that the caller does not get. */
	int64_t began_after;         /* queue->after before the transaction. */
	/* Look at all messages: 1: those that are due are first, 2: ready ones; 0: do not. */
	int full;
	/* Counts of the last statement: rows, see WH_QUEUE_N_DUE, expired rows, rows that
	 * it made dead. */
	int64_t n_rows, n_due, n_expired, n_dead;
	int64_t first, last; /* Ids of its first and last row. */
} receiving;

/* ---- messages with invalid headers, or for another queue ---- */

/* Make a message dead.  A leased message is marked; a message that was deleted by "take"
 * is inserted again as a dead one. */
static wherry_code make_dead(receiving *r, const wherry_queue_message *m, const char *why,
			     wherry_error *err)
{
	wherry_queue *queue = r->queue;

	if (*r->token)
		return wherry_queue_dead_letter(queue, r->token, &m->id, 1, why, NULL,
						err);
	const wh_param params[] = {
		WH_INT_PARAM("id", m->id),
		WH_TEXT_PARAM("message_id", wh_view_of(m->message_id)),
		WH_TEXT_PARAM("topic", wh_view_of(m->topic)),
		WH_TEXT_PARAM("correlation_id", wh_view_of(m->correlation_id)),
		WH_TEXT_PARAM("reply_to", wh_view_of(m->reply_to)),
		WH_TEXT_PARAM("headers", wh_view_of(m->headers)),
		wh_queue_body_param(queue, (wh_view){m->body, m->body_len}),
		WH_INT_PARAM("attempts", m->attempts),
		WH_INT_PARAM("created", m->created_at_us / 1000),
		wh_queue_error_param(why),
	};
	return wh_db_run(queue->store.db, queue->own.make_dead, params,
			 sizeof(params) / sizeof(*params), NULL, NULL, NULL, err);
}

typedef struct forwarding {
	receiving *r;
	wherry_queue *to;
	const wherry_queue_message *message;
} forwarding;

static wherry_code send_on(void *ctx, wherry_error *err)
{
	forwarding *f = ctx;
	receiving *r = f->r;
	wherry_code code = wherry_queue_send(f->to, f->message, NULL, err);

	if (code == WHERRY_OK && *r->token)
		code = wherry_queue_ack(r->queue, r->token, &f->message->id, 1, NULL,
					err);
	return code;
}

/* Send a delayed message of NServiceBus, which waited in its sender's queue, to the queue
 * at the address.  It is sent and removed here in one transaction.  If the address is
 * wrong, the message becomes dead. */
static wherry_code forward(receiving *r, const wherry_queue_message *m,
			   const wherry_queue_message *row, const char *address,
			   wherry_error *err)
{
	wherry_db *db = r->queue->store.db;
	const wherry_queue_message sent =
		WHERRY_QUEUE_MESSAGE(.id = m->id, .headers = m->headers, .body = m->body,
				     .body_len = m->body_len,
				     .message_id = m->message_id);
	forwarding f = {.r = r, .message = &sent};
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = wh_queue_open_at(db, address, r->queue->catalog, &f.to, &why);

	if (code == WHERRY_OK)
		code = wh_db_transact(db, send_on, &f, &why);
	if (wherry_code_remedy(code) == WHERRY_REMEDY_FIX)
		code = make_dead(r, row, why.message, err);
	else if (code != WHERRY_OK)
		code = wh_fail(err, code, "%s", why.message);
	wherry_queue_close(f.to);
	return code;
}

/* Forward a message to another queue, or make it dead if its headers are invalid.
 * Otherwise the caller gets it, and *out_kept is true. */
static wherry_code sort_out(receiving *r, wherry_queue_message *m, bool *out_kept,
			    wherry_error *err)
{
	const wherry_queue_message row = *m;
	const char *headers = m->headers ? m->headers : "", *address = NULL;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code =
		r->queue->fields_in_headers
			? wh_queue_read_headers(r->queue, &r->batch, m, &address, &why)
			: wh_json_headers(headers, strlen(headers), &why);

	*out_kept = code == WHERRY_OK && !address;
	if (code == WHERRY_NOMEM)
		return wh_oom(err);
	if (code != WHERRY_OK)
		code = make_dead(r, &row, why.message, err);
	else if (address)
		code = forward(r, m, &row, address, err);
	if (code != WHERRY_STALE)
		return code;
	/* Its lease ended meanwhile, and another receiver has it: nothing was changed here. */
	wh_error_clear(err);
	return WHERRY_OK;
}

/* Keep the messages that the caller gets, of those that the last statements read, in their
 * order. */
static wherry_code sort_out_all(receiving *r, wherry_error *err)
{
	wh_queue_batch *batch = &r->batch;
	wherry_code code = WHERRY_OK;
	size_t n_kept = r->n_sorted;
	bool kept;

	for (size_t i = r->n_sorted; code == WHERRY_OK && i < batch->n; i++) {
		code = sort_out(r, &batch->messages[i], &kept, err);
		if (kept)
			batch->messages[n_kept++] = batch->messages[i];
	}
	r->n_passed += (int64_t)(batch->n - n_kept);
	batch->n = r->n_sorted = n_kept;
	return code;
}

/* ---- one statement ---- */

static wherry_code take_row(void *ctx, const wh_row *row, wherry_error *err)
{
	receiving *r = ctx;
	int64_t id = wh_row_int(row, WH_QUEUE_ID);

	if (!r->n_rows++)
		r->first = id;
	r->last = id;
	r->n_due = wh_row_int(row, WH_QUEUE_N_DUE);
	if (wh_row_int(row, WH_QUEUE_EXPIRED)) {
		r->n_expired++;
		return WHERRY_OK;
	}
	if (wh_row_int(row, WH_QUEUE_STATE) == WHERRY_DEAD) {
		/* Its attempts are used up: the statement made it dead. */
		r->n_dead++;
		return WHERRY_OK;
	}
	return wh_queue_batch_add(&r->batch, row, *r->token ? r->token : NULL, err);
}

/* Set where the next receive begins: behind the messages of this one.  In mode atomic
 * it begins at the same messages again, because the caller's rollback may bring them
 * back. */
static void move_scan_start(receiving *r)
{
	wherry_queue *queue = r->queue;

	if (!queue->store.db->driver->late_commits || r->n_due || !r->n_rows)
		return;
	if (r->options.mode != WHERRY_ATOMIC)
		queue->after = r->last;
	else if (r->first > INT64_MIN)
		queue->after = r->first - 1;
	else /* No id is lower: look at all messages next time. */
		queue->scan_start.next_full_us = 0;
}

/* Look at all messages.  Due messages, which were given back or delayed, and ready ones alternate
 * in coming first, so neither keep the others waiting for ever. */
static void look_at_all(receiving *r)
{
	r->queue->due_first = !r->queue->due_first;
	r->full = r->queue->due_first ? 1 : 2;
}

/* The limit of messages for the next statement. */
static int64_t limit_of(const receiving *r)
{
	int64_t n = r->options.limit - (int64_t)r->batch.n,
		most = r->queue->store.db->driver->rows_most;

	return most && n > most ? most : n;
}

static wherry_code pick(void *ctx, wherry_error *err)
{
	receiving *r = ctx;
	wherry_queue *queue = r->queue;
	wherry_db *db = queue->store.db;
	r->batch.n = r->n_sorted; /* Without rows of a statement that was undone. */
	const wh_param params[] = {
		WH_INT_PARAM("full", r->full),
		WH_INT_PARAM("after", r->full ? 0 : queue->after),
		WH_INT_PARAM("limit", limit_of(r)),
		WH_INT_PARAM("most", r->options.max_attempts),
		WH_TEXT_PARAM("token", wh_view_of(r->token)),
		WH_INT_PARAM("lasts", wh_ms(r->options.lease_us)),
	};
	int64_t before = wh_monotonic(db->env);
	wherry_code code;

	r->n_rows = r->n_due = r->n_expired = r->n_dead = 0;
	code = wh_db_run(db, *r->token ? queue->own.receive : queue->own.take, params,
			 *r->token ? 6 : 3, take_row, r, NULL, err);
	if (code != WHERRY_OK)
		return code;
	if (r->full && !queue->looked[*r->token != 0])
		queue->looked[*r->token != 0] = true;
	else if (r->full)
		wh_scan_start_looked(&queue->scan_start, db, before);
	move_scan_start(r);
	return WHERRY_OK;
}

static wherry_code expire(receiving *r, wherry_error *err)
{
	const wh_stmt *head = r->queue->own.expire_head;
	const wh_param params[] = {
		WH_TEXT_PARAM("token", wh_view_of(r->token)),
		WH_INT_PARAM("limit", EXPIRE_BATCH),
	};

	if (head)
		return wh_db_run(r->queue->store.db, head, &params[1], 1, NULL, NULL,
				 NULL, err);
	return wh_db_run(r->queue->store.db, r->queue->store.stmt.expire_rows, params, 2,
			 NULL, NULL, NULL, err);
}

static wherry_code receive(receiving *r, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	bool again = true;
	int64_t passed;

	if (wh_scan_start_is_due(&r->queue->scan_start, r->queue->store.db))
		look_at_all(r);
	while (code == WHERRY_OK && again) {
		passed = r->n_passed;
		code = wh_db_again(r->queue->store.db, pick, r, err);
		if (code == WHERRY_OK && r->n_expired)
			code = expire(r, err);
		if (code == WHERRY_OK)
			code = sort_out_all(r, err);
		r->n_passed += r->n_dead;
		/* Good messages may stand behind those that the caller does not get. */
		again = r->n_expired ||
			(r->n_passed > passed && r->n_passed < PASSED_MOST);
		if ((int64_t)r->batch.n >= r->options.limit)
			break;
		if (code == WHERRY_OK && !again && !r->full &&
		    wh_scan_start_is_cheap(&r->queue->scan_start)) {
			look_at_all(r);
			again = true;
		}
	}
	return code;
}

/* ---- the call ---- */

static wherry_code check(const wherry_queue *queue, wherry_receive_options *options,
			 wherry_error *err)
{
	bool open = wherry_db_in_transaction(queue->store.db);
	wherry_code code = wh_span_check("the lease", options->lease_us, err);

	if (code != WHERRY_OK)
		return code;
	if (!options->limit)
		options->limit = 1;
	if (!options->lease_us)
		options->lease_us = LEASE_STANDARD_US;
	if (options->limit < 1 || options->limit > LIMIT_MOST || options->lease_us < 0 ||
	    options->max_attempts < 0)
		return wh_fail(err, WHERRY_INVALID,
			       "receive takes 1 to %d messages, and no negative lease "
			       "or number of attempts",
			       LIMIT_MOST);
	switch (options->mode) {
	case WHERRY_LEASE:
		return queue->own.receive
			       ? WHERRY_OK
			       : wh_store_cannot(&queue->store,
						 "which has no place for leases: receive "
						 "in a transaction",
						 err);
	case WHERRY_ATOMIC:
		return open ? WHERRY_OK
			    : wh_fail(err, WHERRY_INVALID,
				      "no transaction is open: an atomic receive is part "
				      "of the transaction that handles the message");
	case WHERRY_AT_MOST_ONCE:
		return !open ? WHERRY_OK
			     : wh_fail(err, WHERRY_INVALID,
				       "a transaction is open, and a receive at most once "
				       "has to be committed before the message is seen: "
				       "commit first, or receive in mode atomic");
	}
	return wh_fail(err, WHERRY_INVALID, "there is no such mode to receive in");
}

/* Set the token.  A receive that repeats a failed one uses the same token. */
static void make_token(receiving *r)
{
	char *next = r->queue->next_token;

	if (!*next)
		wh_uuid7_now(r->queue->store.db->env, next);
	memcpy(r->token, next, sizeof(r->token));
}

/* Does a receive need a transaction or savepoint around it?  On a server either costs two
 * round trips.  A lease does not need it there: messages that a failed receive leased are
 * received again when the lease expires.  In mode atomic it is not needed if a failure
 * aborts the caller's transaction. */
static bool all_or_nothing(const receiving *r)
{
	const wh_db_driver *driver = r->queue->store.db->driver;

	if (r->options.mode == WHERRY_LEASE)
		return !driver->late_commits;
	return r->options.mode == WHERRY_AT_MOST_ONCE || !driver->failure_spreads;
}

/* A transaction that is repeated begins where the first one did. */
static wherry_code receive_whole(void *ctx, wherry_error *err)
{
	receiving *r = ctx;

	r->batch.n = r->n_sorted = 0;
	r->n_passed = 0;
	r->queue->after = r->began_after;
	return receive(r, err);
}

static wherry_code try_once(receiving *r, wherry_error *err)
{
	r->began_after = r->queue->after;
	return all_or_nothing(r)
		       ? wh_db_transact(r->queue->store.db, receive_whole, r, err)
		       : receive(r, err);
}

/* Make messages dead that the server cannot send. */
static wherry_code bury(const wherry_queue *queue, wherry_error *err)
{
	return wh_db_run(queue->store.db, queue->own.bury_unreadable, NULL, 0, NULL, NULL,
			 NULL, err);
}

/* Receive.  If the server cannot send a message, make such messages dead and try again.  A failure in
 * the caller's transaction aborts it: the next receive begins with that. */
static wherry_code receive_past(receiving *r, wherry_error *err)
{
	wherry_queue *queue = r->queue;
	wherry_db *db = queue->store.db;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	if (queue->failed_at_row && wherry_db_in_transaction(db))
		code = bury(queue, &why);
	if (code == WHERRY_OK)
		code = try_once(r, &why);
	queue->failed_at_row = queue->own.bury_unreadable && code != WHERRY_OK &&
			       wh_db_about_row(db, code, &why);
	if (queue->failed_at_row && !wherry_db_in_transaction(db)) {
		/* Of the statement that failed nothing is leased. */
		r->batch.n = all_or_nothing(r) ? 0 : r->n_sorted;
		r->n_sorted = r->batch.n;
		code = bury(queue, &why);
		if (code == WHERRY_OK)
			code = try_once(r, &why);
	}
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

wherry_code wherry_queue_receive(wherry_queue *queue,
				 const wherry_receive_options *options,
				 wherry_queue_fn visit, void *ctx, int64_t *out_n,
				 wherry_error *err)
{
	wh_error_clear(err);
	receiving r = {.queue = queue};
	wherry_code code;

	if (!queue || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no queue to receive from, or nobody who sees messages");
	code = options ? wh_sized_read(&r.options, sizeof(r.options), options,
				       offsetof(wherry_receive_options, limit), "options",
				       "WHERRY_RECEIVE_OPTIONS", err)
		       : WHERRY_OK;
	if (code == WHERRY_OK)
		code = check(queue, &r.options, err);
	if (code != WHERRY_OK)
		return code;
	if (r.options.mode == WHERRY_LEASE)
		make_token(&r);
	code = receive_past(&r, err);
	code = wh_queue_failed(queue, code, err);
	if (code == WHERRY_OK) {
		queue->store.rows_read += (int64_t)r.batch.n;
		*queue->next_token = 0;
	}
	if (code == WHERRY_OK && out_n)
		*out_n = (int64_t)r.batch.n;
	if (code == WHERRY_OK)
		code = wh_queue_batch_visit(&r.batch, visit, ctx, err);
	wh_queue_batch_clear(&r.batch);
	return code;
}
