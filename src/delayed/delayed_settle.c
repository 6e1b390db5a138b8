/*
 * Settles messages that were polled or read: acknowledges them, gives them back, extends
 * their leases, or makes them dead.
 */
#include <stdlib.h>
#include <string.h>

#include "delayed/delayed.h"

enum { PARAMS_MOST = 7, DIGITS_MOST = 18, STRAYS_EVERY = 1000 };

/* The content of a token, and what became of its message. */
typedef struct receipt {
	int64_t id, version;
	/* Of a message that was read: the time that was offered.  The version alone does not do: the
	 * JVM library may write two offers of a key in one millisecond. */
	int64_t offered;
	/* Token of the lease; NULL: the message was read, not polled. */
	const char *lock;
	bool done;
	bool superseded; /* An offer replaced the message. */
} receipt;

/* A call that settles messages. */
typedef struct settling {
	wherry_delayed *delayed;
	const wh_stmt *stmt; /* Statement for leased messages; NULL: they become dead. */
	wh_param more[4];    /* Parameters of stmt after "kind", "ids" and "token". */
	size_t n_more;
	const char *reason; /* Error of messages that become dead. */
	receipt *receipts;
	size_t n;
	int64_t *ids; /* Buffer for n ids. */
} settling;

/* ---- tokens ---- */

static bool take_number(const char **at, int64_t *out)
{
	int digits = 0;

	for (*out = 0; **at >= '0' && **at <= '9'; ++*at, digits++) {
		if (digits == DIGITS_MOST)
			return false;
		*out = *out * 10 + (**at - '0');
	}
	return digits > 0;
}

static wherry_code parse(const char *token, receipt *out, wherry_error *err)
{
	const char *at = token ? token : "";
	bool good = take_number(&at, &out->id) && *at++ == '.' &&
		    take_number(&at, &out->version);

	out->lock = good && *at == '.' ? ++at : NULL;
	if (!out->lock)
		good = good && *at++ == ':' && take_number(&at, &out->offered);
	if (out->lock) {
		size_t len = strspn(at, "0123456789abcdefghijklmnopqrstuvwxyz"
					"ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

		good = len > 0 && len <= WH_UUID_LEN;
		at += len;
	}
	if (good && !*at)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "'%.80s' is not a token: give the one that came with the message",
		       token ? token : "");
}

static wherry_code parse_all(settling *s, const char *const *tokens, bool leased,
			     wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < s->n; i++) {
		code = parse(tokens[i], &s->receipts[i], err);
		if (code == WHERRY_OK && leased && !s->receipts[i].lock)
			code = wh_fail(err, WHERRY_INVALID,
				       "the message of token '%.80s' was read and not "
				       "polled: it can only be acknowledged",
				       tokens[i]);
	}
	return code;
}

/* ---- lists of ids ---- */

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

wherry_code wh_delayed_take_id(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_delayed_ids *list = ctx;

	if (list->n == list->cap) {
		size_t cap = list->cap ? 2 * list->cap : 16;
		int64_t *grown = realloc(list->ids, cap * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		list->ids = grown;
		list->cap = cap;
	}
	list->ids[list->n++] = wh_row_int(row, 0);
	return WHERRY_OK;
}

/* ---- settling the messages of one lease ---- */

/* Update the table of attempts, if the layout has one: delete the attempts of messages
 * that are gone, and write the error of messages that were given back. */
static wherry_code note(wherry_delayed *delayed, const wh_stmt *stmt,
			const wh_param *more, size_t n_more, const wh_delayed_ids *done,
			wherry_error *err)
{
	const wh_stmt *forget = delayed->own.forget_tries;
	wh_param params[3];
	wherry_code code;

	if (!forget || !done->n || stmt == delayed->own.extend_lease ||
	    stmt == delayed->own.make_dead)
		return WHERRY_OK;
	code = wh_store_ids(&delayed->store, done->ids, done->n, &params[0], err);
	if (code != WHERRY_OK)
		return code;
	if (stmt != delayed->own.nack || !more)
		return wh_db_run(delayed->store.db, forget, params, 1, NULL, NULL, NULL,
				 err);
	params[1] = more[n_more - 2];
	params[2] = more[n_more - 1];
	return wh_db_run(delayed->store.db, delayed->own.note_nack, params, 3, NULL, NULL,
			 NULL, err);
}

static wherry_code run(wherry_delayed *delayed, const wh_stmt *stmt, const char *lock,
		       const int64_t *ids, size_t n, const wh_param *more, size_t n_more,
		       wh_delayed_ids *done, wherry_error *err)
{
	wh_param params[PARAMS_MOST] = {wh_delayed_kind_param(delayed)};
	wherry_code code = wh_store_ids(&delayed->store, ids, n, &params[1], err);

	if (code != WHERRY_OK)
		return code;
	params[2] = WH_TEXT_PARAM("token", wh_view_of(lock));
	if (n_more)
		memcpy(&params[3], more, n_more * sizeof(*more));
	code = wh_db_run(delayed->store.db, stmt, params, 3 + n_more, wh_delayed_take_id,
			 done, NULL, err);
	return code == WHERRY_OK ? note(delayed, stmt, more, n_more, done, err) : code;
}

/* Messages that are copied to the dead messages and then deleted. */
typedef struct making_dead {
	wherry_delayed *delayed;
	const char *lock;
	const int64_t *ids;
	size_t n;
	wh_param more[3];
	wh_delayed_ids *done;
} making_dead;

static wherry_code make_dead(void *ctx, wherry_error *err)
{
	making_dead *b = ctx;
	wh_delayed_ids gone = {.n = 0};
	wherry_code code;

	b->done->n = 0;
	code = run(b->delayed, b->delayed->own.make_dead, b->lock, b->ids, b->n, b->more,
		   3, b->done, err);
	if (code == WHERRY_OK && b->done->n)
		code = run(b->delayed, b->delayed->own.ack, b->lock, b->done->ids,
			   b->done->n, NULL, 0, &gone, err);
	free(gone.ids);
	return code;
}

wherry_code wh_delayed_make_dead(wherry_delayed *delayed, const char *lock,
				 const int64_t *ids, size_t n, int64_t back,
				 const char *error, wh_delayed_ids *done,
				 wherry_error *err)
{
	making_dead b = {delayed,
			 lock,
			 ids,
			 n,
			 {wh_delayed_now_param(delayed), WH_INT_PARAM("back", back),
			  wh_delayed_error_param(error)},
			 done};

	return wh_db_transact(delayed->store.db, make_dead, &b, err);
}

/* Settle all messages of a lease.  The first of its receipts is at `place`. */
static wherry_code settle_lease(settling *s, size_t place, const char *lock,
				wh_delayed_ids *done, wherry_error *err)
{
	size_t n = 0;
	wherry_code code;

	for (size_t i = place; i < s->n; i++)
		if (s->receipts[i].lock && strcmp(s->receipts[i].lock, lock) == 0)
			s->ids[n++] = s->receipts[i].id;
	done->n = 0;
	code = s->stmt ? run(s->delayed, s->stmt, lock, s->ids, n, s->more, s->n_more,
			     done, err)
		       : wh_delayed_make_dead(s->delayed, lock, s->ids, n, 0, s->reason,
					      done, err);
	if (code != WHERRY_OK || !done->n)
		return code;
	qsort(done->ids, done->n, sizeof(*done->ids), compare_ids);
	for (size_t i = place; i < s->n; i++) {
		receipt *r = &s->receipts[i];

		if (r->lock && strcmp(r->lock, lock) == 0)
			r->done = bsearch(&r->id, done->ids, done->n, sizeof(r->id),
					  compare_ids) != NULL;
	}
	return code;
}

static wherry_code settle_read(settling *s, receipt *r, wh_delayed_ids *done,
			       wherry_error *err)
{
	const wh_param params[] = {
		wh_delayed_kind_param(s->delayed),
		WH_INT_PARAM("id", r->id),
		WH_INT_PARAM("version", r->version),
		WH_INT_PARAM("offered", r->offered),
	};
	wherry_code code;

	done->n = 0;
	code = wh_db_run(s->delayed->store.db, s->delayed->own.ack_read, params, 4,
			 wh_delayed_take_id, done, NULL, err);
	r->done = code == WHERRY_OK && done->n;
	if (code == WHERRY_OK)
		code = note(s->delayed, s->delayed->own.ack_read, NULL, 0, done, err);
	return code;
}

/* Is the receipt at `place` the first one of its lease? */
static bool begins_lease(const settling *s, size_t place, const char *lock)
{
	for (size_t i = 0; i < place; i++)
		if (s->receipts[i].lock && strcmp(s->receipts[i].lock, lock) == 0)
			return false;
	return true;
}

static wherry_code settle_all(void *ctx, wherry_error *err)
{
	settling *s = ctx;
	wh_delayed_ids done = {.n = 0};
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < s->n; i++) {
		const char *lock = s->receipts[i].lock;

		if (!lock)
			code = settle_read(s, &s->receipts[i], &done, err);
		else if (begins_lease(s, i, lock))
			code = settle_lease(s, i, lock, &done, err);
	}
	free(done.ids);
	return code;
}

/* ---- why messages were not settled ---- */

/* A message that now has another version has been superseded by an offer, and so has one that was
 * read and is not as it was. */
static wherry_code take_version(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t id = wh_row_int(row, 0), version = wh_row_int(row, 1);
	settling *s = ctx;

	(void)err;
	for (size_t i = 0; i < s->n; i++)
		if (s->receipts[i].id == id &&
		    (s->receipts[i].version != version || !s->receipts[i].lock))
			s->receipts[i].superseded = true;
	return WHERRY_OK;
}

static wherry_code look_for_others(settling *s, wherry_error *err)
{
	wh_param params[] = {wh_delayed_kind_param(s->delayed), {.name = "ids"}};
	size_t n = 0;
	wherry_code code;

	for (size_t i = 0; i < s->n; i++)
		if (!s->receipts[i].done)
			s->ids[n++] = s->receipts[i].id;
	if (!n)
		return WHERRY_OK;
	code = wh_store_ids(&s->delayed->store, s->ids, n, &params[1], err);
	if (code == WHERRY_OK)
		code = wh_db_run(s->delayed->store.db, s->delayed->own.versions, params,
				 2, take_version, s, NULL, err);
	return code;
}

/* ---- the calls ---- */

static wherry_code settle_and_look(void *ctx, wherry_error *err)
{
	settling *s = ctx;
	wherry_code code;

	for (size_t i = 0; i < s->n; i++)
		s->receipts[i].done = s->receipts[i].superseded = false;
	code = settle_all(ctx, err);
	return code == WHERRY_OK ? look_for_others(ctx, err) : code;
}

/* Must one transaction contain all statements?  On a server it need not if one statement
 * settles all messages: without a transaction two round trips are saved. */
static bool needs_transaction(const settling *s)
{
	if (!s->delayed->store.db->driver->late_commits)
		return true;
	for (size_t i = 1; i < s->n; i++) {
		const char *lock = s->receipts[i].lock;

		if (!lock || begins_lease(s, i, lock))
			return true;
	}
	return false;
}

static wherry_code settle_tokens(settling *s, const char *const *tokens, bool leased,
				 wherry_ack_outcome *out, wherry_error *err)
{
	wherry_code code = parse_all(s, tokens, leased, err);

	if (code == WHERRY_OK)
		code = needs_transaction(s) ? wh_db_transact(s->delayed->store.db,
							     settle_and_look, s, err)
					    : wh_db_again(s->delayed->store.db,
							  settle_and_look, s, err);
	for (size_t i = 0; code == WHERRY_OK && i < s->n; i++) {
		const receipt *r = &s->receipts[i];

		if (r->done)
			out[i] = WHERRY_ACKNOWLEDGED;
		else
			out[i] = r->superseded ? WHERRY_SUPERSEDED : WHERRY_LEASE_LOST;
	}
	return wh_delayed_failed(s->delayed, code, err);
}

static wherry_code settle(settling *s, const char *const *tokens, bool leased,
			  wherry_ack_outcome *out, wherry_error *err)
{
	wherry_code code;

	s->receipts = calloc(s->n, sizeof(*s->receipts));
	s->ids = calloc(s->n, sizeof(*s->ids));
	code = s->receipts && s->ids ? settle_tokens(s, tokens, leased, out, err)
				     : wh_oom(err);
	free(s->receipts);
	free(s->ids);
	return code;
}

static wherry_code check(const wherry_delayed *delayed, const char *const *tokens,
			 size_t n, const wherry_ack_outcome *out, wherry_error *err)
{
	if (!delayed || (n && (!tokens || !out)))
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue, no tokens, or no place for what "
			       "becomes of the messages");
	return WHERRY_OK;
}

/* After each STRAYS_EVERY acknowledgements, delete attempts that are left over, because
 * another program deleted their message.  A failure is ignored: the next run repeats the
 * work. */
static void forget_strays(wherry_delayed *delayed, size_t n_acked)
{
	const wh_param limit = WH_INT_PARAM("limit", STRAYS_EVERY);
	wherry_db *db = delayed->store.db;

	delayed->n_acked += (int64_t)n_acked;
	if (!delayed->own.forget_strays || delayed->n_acked < STRAYS_EVERY ||
	    wherry_db_in_transaction(db))
		return;
	delayed->n_acked = 0;
	(void)!wh_db_run(db, delayed->own.forget_strays, &limit, 1, NULL, NULL, NULL,
			 NULL);
}

wherry_code wherry_delayed_ack(wherry_delayed *delayed, const char *const *tokens,
			       size_t n, wherry_ack_outcome *out, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check(delayed, tokens, n, out, err);

	if (code != WHERRY_OK || !n)
		return code;
	settling s = {.delayed = delayed, .stmt = delayed->own.ack, .n = n};

	code = settle(&s, tokens, false, out, err);
	if (code == WHERRY_OK)
		forget_strays(delayed, n);
	return code;
}

static wherry_code nack(wherry_delayed *delayed, const char *const *tokens, size_t n,
			int64_t delay_us, bool not_counted, const char *error,
			wherry_ack_outcome *out, wherry_error *err)
{
	wherry_code code = check(delayed, tokens, n, out, err);

	if (code == WHERRY_OK && delay_us < 0)
		code = wh_fail(err, WHERRY_INVALID, "delay_us is not negative");
	if (code == WHERRY_OK)
		code = wh_span_check("the delay", delay_us, err);
	if (code != WHERRY_OK || !n)
		return code;
	if (!delay_us)
		wh_delayed_came_back(delayed, INT64_MIN);
	settling s = {
		.delayed = delayed,
		.stmt = delayed->own.nack,
		.more = {wh_delayed_now_param(delayed),
			 WH_INT_PARAM("delay", wh_delayed_delay_ms(delayed, delay_us)),
			 WH_INT_PARAM("back", not_counted),
			 wh_delayed_error_param(error)},
		.n_more = 4,
		.n = n,
	};

	return settle(&s, tokens, true, out, err);
}

wherry_code wherry_delayed_nack(wherry_delayed *delayed, const char *const *tokens,
				size_t n, int64_t delay_us, const char *error,
				wherry_ack_outcome *out, wherry_error *err)
{
	wh_error_clear(err);
	return nack(delayed, tokens, n, delay_us, false, error, out, err);
}

wherry_code wh_delayed_unpoll(wherry_delayed *delayed, const char *const *tokens,
			      size_t n, wherry_ack_outcome *out, wherry_error *err)
{
	wh_error_clear(err);
	return nack(delayed, tokens, n, 0, true, NULL, out, err);
}

wherry_code wherry_delayed_extend(wherry_delayed *delayed, const char *const *tokens,
				  size_t n, int64_t lease_us, wherry_ack_outcome *out,
				  wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check(delayed, tokens, n, out, err);

	if (code == WHERRY_OK && lease_us <= 0)
		code = wh_fail(err, WHERRY_INVALID, "a lease needs a time above 0");
	if (code == WHERRY_OK)
		code = wh_span_check("the lease", lease_us, err);
	if (code != WHERRY_OK || !n)
		return code;
	settling s = {
		.delayed = delayed,
		.stmt = delayed->own.extend_lease,
		.more = {wh_delayed_now_param(delayed),
			 WH_INT_PARAM("lasts", wh_ms(lease_us))},
		.n_more = 2,
		.n = n,
	};

	return settle(&s, tokens, true, out, err);
}

wherry_code wherry_delayed_dead_letter(wherry_delayed *delayed, const char *const *tokens,
				       size_t n, const char *reason,
				       wherry_ack_outcome *out, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check(delayed, tokens, n, out, err);

	if (code == WHERRY_OK && !delayed->own.make_dead)
		code = wh_store_cannot(&delayed->store,
				       "which has no place for dead messages", err);
	if (code != WHERRY_OK || !n)
		return code;
	settling s = {.delayed = delayed, .reason = reason ? reason : "", .n = n};

	return settle(&s, tokens, true, out, err);
}
