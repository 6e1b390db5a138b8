/*
 * Functions for operators that change messages behind the relay: retry, discard, reap.
 */
#include <wherry/subscription.h>

#include "outbox/filter.h"
#include "outbox/outbox.h"

typedef struct change {
	wherry_outbox *outbox;
	const wh_stmt *stmt;
	wh_param params[WH_FILTER_PARAMS];
	int64_t n;
} change;

/* Raise the control version, so that relays read rows again that were changed. */
static wherry_code announce(const change *c, wherry_error *err)
{
	const wh_store *store = &c->outbox->store;
	const wh_param name = WH_TEXT_PARAM("name", store->name);
	wherry_code code = WHERRY_OK;

	if (c->n && c->stmt == c->outbox->own.retry_dead && store->stmt.failing_forget)
		code = wh_db_run(store->db, store->stmt.failing_forget, NULL, 0, NULL,
				 NULL, NULL, err);
	if (code == WHERRY_OK && c->n && store->stmt.raise_control_version)
		code = wh_db_run(store->db, store->stmt.raise_control_version, &name, 1,
				 NULL, NULL, NULL, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

static wherry_code change_and_announce(void *ctx, wherry_error *err)
{
	change *c = ctx;
	const wh_store *store = &c->outbox->store;
	wherry_code code = wh_db_run(store->db, c->stmt, c->params, WH_FILTER_PARAMS,
				     NULL, NULL, &c->n, err);

	if (code == WHERRY_OK)
		return announce(c, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

static wherry_code change_rows(wherry_outbox *outbox, const wh_stmt *stmt,
			       const wherry_outbox_filter *given, unsigned states,
			       int64_t *out_n, wherry_error *err)
{
	change c = {.outbox = outbox, .stmt = stmt};
	wherry_outbox_filter filter;
	wherry_code code = wh_filter_read(given, &filter, err);

	if (code == WHERRY_OK)
		code = wh_filter_check(outbox, &filter, err);
	if (code != WHERRY_OK)
		return code;
	wh_filter_params(&filter, filter.states ? filter.states : states, -1, c.params);
	code = wh_db_transact(outbox->store.db, change_and_announce, &c, err);
	if (code == WHERRY_OK && out_n)
		*out_n = c.n;
	return code;
}

wherry_code wherry_outbox_retry(wherry_outbox *outbox, const wherry_outbox_filter *filter,
				int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	return change_rows(outbox, outbox->own.retry_dead, filter, 1u << WHERRY_DEAD,
			   out_n, err);
}

/* ---- discard ---- */

static wherry_code count_subscription(void *ctx, const wherry_subscription_state *s)
{
	(void)s;
	++*(int *)ctx;
	return WHERRY_OK;
}

/* The statement that discards.  Of a log with several subscriptions the message stays, for the others. */
static wherry_code find_discard(wherry_outbox *outbox, const wh_stmt **out,
				wherry_error *err)
{
	int subscriptions = 0;
	wherry_code code;

	if (outbox->layout.streams)
		return wh_store_cannot(&outbox->store,
				       "which is only streamed: delete its row yourself",
				       err);
	code = wherry_subscription_list(outbox, count_subscription, &subscriptions, err);
	*out = subscriptions > 1 ? outbox->own.discard_here : outbox->own.discard;
	return code;
}

wherry_code wherry_outbox_discard(wherry_outbox *outbox, const char *ident,
				  wherry_error *err)
{
	wh_error_clear(err);
	const wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER(.ident = ident);
	const wh_stmt *stmt = NULL;
	int64_t n = 0;
	wherry_code code;

	if (!outbox || !ident)
		return wh_fail(err, WHERRY_INVALID, "no message named");
	code = find_discard(outbox, &stmt, err);
	if (code == WHERRY_OK)
		code = change_rows(outbox, stmt, &filter, 0, &n, err);
	if (code != WHERRY_OK || n)
		return code;
	if (stmt == outbox->own.discard_here)
		return wh_fail(
			err, WHERRY_NOTFOUND,
			"there is no message '%.100s' that failed, died or waits in "
			"subscription '%s' of outbox '%s'; one that was not read yet is "
			"there for other subscriptions, too",
			ident, outbox->store.topic, outbox->store.name.ptr);
	return wh_fail(err, WHERRY_NOTFOUND,
		       "there is no message '%.100s' in outbox '%s' that is not "
		       "delivered",
		       ident, outbox->store.name.ptr);
}

typedef struct discards {
	change change;
	const int64_t *numbers;
	size_t n;
	bool *gone;
} discards;

static wherry_code discard_each(void *ctx, wherry_error *err)
{
	discards *d = ctx;
	change *c = &d->change;
	const wh_store *store = &c->outbox->store;
	wherry_code code = WHERRY_OK;

	c->n = 0;
	for (size_t i = 0; code == WHERRY_OK && i < d->n; i++) {
		int64_t n = 0;

		c->params[2] = WH_INT_PARAM("number", d->numbers[i]);
		code = wh_db_run(store->db, c->stmt, c->params, WH_FILTER_PARAMS, NULL,
				 NULL, &n, err);
		d->gone[i] = n > 0;
		c->n += n;
	}
	if (code == WHERRY_OK)
		return announce(c, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

wherry_code wh_outbox_discard_numbers(wherry_outbox *outbox, const int64_t *numbers,
				      size_t n, unsigned states, bool *out_gone,
				      wherry_error *err)
{
	discards d = {.change = {.outbox = outbox},
		      .numbers = numbers,
		      .n = n,
		      .gone = out_gone};
	wherry_code code = find_discard(outbox, &d.change.stmt, err);

	if (code != WHERRY_OK)
		return code;
	/* No message id: the number is meant. */
	wh_filter_params(&WHERRY_OUTBOX_FILTER(.ident = NULL), states, -1,
			 d.change.params);
	return wh_db_transact(outbox->store.db, discard_each, &d, err);
}

wherry_code wherry_outbox_reap(wherry_outbox *outbox, int64_t claim_timeout_us,
			       int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	change c = {.outbox = outbox, .stmt = outbox->store.stmt.reap};
	wherry_code code;

	if (!outbox->store.stmt.reap)
		return wh_store_cannot(&outbox->store, "whose rows are not claimed", err);
	c.params[0] = WH_INT_PARAM("timeout", wh_ms(claim_timeout_us));
	for (int i = 1; i < WH_FILTER_PARAMS; i++)
		c.params[i] = WH_INT_PARAM("none", 0);
	code = wh_db_transact(outbox->store.db, change_and_announce, &c, err);
	if (code == WHERRY_OK && out_n)
		*out_n = c.n;
	return code;
}
