/*
 * Consuming a subscription of a log in the caller's transaction.
 */
#include <wherry/subscription.h>

#include <stdlib.h>

#include "base/message.h"
#include "log/subscription.h"
#include "outbox/outbox.h"
#include "outbox/rows.h"

enum { MOST = 100000 };

typedef struct consuming {
	wherry_outbox *outbox;
	int64_t limit;
	wherry_row_fn visit;
	void *ctx;
	wh_arena arena;
	/* Kept until no rows are read any more, so that a visit may use the connection. */
	wherry_message **messages;
	int64_t *ids;
	size_t n, cap;
} consuming;

static bool grow(consuming *c)
{
	size_t cap = c->cap ? 2 * c->cap : 64;
	wherry_message **messages = realloc(c->messages, cap * sizeof(*messages));
	int64_t *ids = messages ? realloc(c->ids, cap * sizeof(*ids)) : NULL;

	if (messages)
		c->messages = messages;
	if (ids) {
		c->ids = ids;
		c->cap = cap;
	}
	return ids;
}

static wherry_code keep(void *ctx, const wherry_row *row)
{
	consuming *c = ctx;

	if (c->n == c->cap && !grow(c))
		return WHERRY_NOMEM;
	c->messages[c->n] = wh_message_copy(&c->arena, row->message);
	if (!c->messages[c->n])
		return WHERRY_NOMEM;
	c->ids[c->n++] = row->message->id;
	return WHERRY_OK;
}

static wherry_code visit_all(const consuming *c, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < c->n; i++)
		code = c->visit(c->ctx, &(wherry_row){.message = c->messages[i],
						      .state = WHERRY_PENDING});
	return code == WHERRY_OK ? code
				 : wh_fail(err, code, "the visitor of messages gave up");
}

typedef struct held {
	bool leads, paused;
} held;

static wherry_code take_held(void *ctx, const wh_row *row, wherry_error *err)
{
	held *h = ctx;

	h->leads = wh_row_int(row, 0) != 0;
	h->paused = wh_row_int(row, 1) != 0;
	return wh_row_check(row, err);
}

/* *out_paused: nothing may be read. */
static wherry_code begin(const consuming *c, bool *out_paused, wherry_error *err)
{
	const wh_store *store = &c->outbox->store;
	const wh_param name = wh_store_lease_name(store);
	int64_t changed = 0;
	held h = {false, false};
	wherry_code code = wh_db_run(store->db, c->outbox->own.consume_begin, NULL, 0,
				     NULL, NULL, &changed, err);

	if (code == WHERRY_OK && !changed)
		return wh_no_subscription(store, err);
	if (code == WHERRY_OK)
		code = wh_db_run(store->db, c->outbox->own.consume_held, &name, 1,
				 take_held, &h, NULL, err);
	if (code == WHERRY_OK && h.leads)
		return wh_fail(err, WHERRY_BUSY,
			       "a relay reads subscription '%s' of outbox '%s': stop it, "
			       "or consume another subscription",
			       store->topic, store->name.ptr);
	*out_paused = h.paused;
	return code;
}

static wherry_code end(const consuming *c, wherry_error *err)
{
	wh_store *store = &c->outbox->store;
	const wh_param params[] = {
		WH_INT_PARAM("n", (int64_t)c->n),
		WH_INT_PARAM("limit", c->limit),
		WH_INT_PARAM("last", c->n ? c->ids[c->n - 1] : 0),
	};
	wh_param ids;
	wherry_code code = wh_db_run(store->db, c->outbox->own.consume_end, params, 3,
				     NULL, NULL, NULL, err);

	if (code == WHERRY_OK)
		code = wh_store_ids(store, c->ids, c->n, &ids, err);
	return code == WHERRY_OK ? wh_db_run(store->db, c->outbox->own.consume_forget,
					     &ids, 1, NULL, NULL, NULL, err)
				 : code;
}

static wherry_code consume(void *ctx, wherry_error *err)
{
	consuming *c = ctx;
	const wh_outbox_stmts *own = &c->outbox->own;
	const wh_param limit = WH_INT_PARAM("limit", c->limit);
	wh_row_visitor v = {.visit = keep, .ctx = c, .whole = true};
	bool paused = false;
	wherry_code code = own->consume_begin ? begin(c, &paused, err) : WHERRY_OK;

	if (code != WHERRY_OK || paused)
		return code;
	code = wh_db_run(c->outbox->store.db, own->consume, &limit, 1, wh_row_visit, &v,
			 NULL, err);
	if (code == WHERRY_OK && own->consume_end)
		code = end(c, err);
	return code == WHERRY_OK ? visit_all(c, err) : code;
}

wherry_code wherry_subscription_consume(wherry_outbox *outbox, int64_t n,
					wherry_row_fn visit, void *ctx, int64_t *out_n,
					wherry_error *err)
{
	consuming c = {.outbox = outbox,
		       .limit = n,
		       .visit = visit,
		       .ctx = ctx,
		       .arena = WH_ARENA_INIT};
	wherry_code code;

	wh_error_clear(err);
	if (out_n)
		*out_n = 0;
	if (!outbox || !visit || n < 1 || n > MOST)
		return wh_fail(err, WHERRY_INVALID,
			       "no outbox, no visit, or a number of messages that is not "
			       "1 to %d",
			       MOST);
	if (!outbox->own.consume)
		return wh_store_cannot(&outbox->store, "which has no consumers", err);
	/* The caller has seen the messages, and decides whether it sees them again. */
	code = wh_db_transact_once(outbox->store.db, false, consume, &c, err);
	if (code == WHERRY_OK && out_n)
		*out_n = (int64_t)c.n;
	free(c.ids);
	free(c.messages);
	wh_arena_clear(&c.arena);
	return code;
}
