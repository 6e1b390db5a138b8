/*
 * Extends the claims of the engine competing.
 */
#include "relay/engine/extend.h"

#include <stdlib.h>

#include "relay/settle.h"
#include "store/claims.h"

/* The statements that look for claims that are gone may take at most so many calls: enough
 * for five among 4,000. */
enum { CALLS_MOST = 128 };

typedef struct extending {
	wherry_relay *r;
	const int64_t *ids; /* Ascending. */
	/* Their message ids; NULL: one of them may be incomplete. */
	const wh_view *names;
	size_t n_gone;
	int calls;
} extending;

static int by_id(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static const wh_view *names_of(wherry_relay *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const wh_entry *e = wh_window_find(&r->window, r->scratch.back_ids[i]);

		if (e->poison)
			return NULL;
		r->scratch.back_names[i] = wh_view_of(e->msg.message_id);
	}
	return r->scratch.back_names;
}

static wherry_code extend_part(extending *x, size_t from, size_t n, int64_t *out_held,
			       wherry_error *err)
{
	x->calls++;
	*out_held = 0;
	return wh_store_extend(x->r->store, &x->r->lease, x->ids + from,
			       x->names ? x->names + from : NULL, n, x->r->set.claim_us,
			       out_held, err);
}

/* The claim of a message is gone.  If it is in flight, its acknowledgement changes
 * nothing. */
static void forget(extending *x, int64_t id)
{
	wh_entry *e = wh_window_find(&x->r->window, id);

	x->n_gone++;
	if (e && (e->stage == WH_READY || e->stage == WH_WAITING))
		wh_intake_drop(x->r, e);
}

/* Of these claims some are gone: halve them until it is known which. */
static wherry_code find_gone(extending *x, size_t from, size_t n, wherry_error *err)
{
	size_t half = n / 2, sizes[] = {half, n - half};
	wherry_code code = WHERRY_OK;

	for (int i = 0; i < 2 && code == WHERRY_OK; from += sizes[i++]) {
		int64_t held;

		if (x->calls >= CALLS_MOST)
			return WHERRY_STALE;
		code = extend_part(x, from, sizes[i], &held, err);
		if (code != WHERRY_STALE)
			continue;
		code = WHERRY_OK;
		if (held > 0)
			code = find_gone(x, from, sizes[i], err);
		for (size_t k = 0; held == 0 && k < sizes[i]; k++)
			forget(x, x->ids[from + k]);
	}
	return code;
}

wherry_code wh_claims_extend(wherry_relay *r, wherry_error *err)
{
	extending x = {.r = r, .ids = r->scratch.back_ids};
	int64_t held;
	size_t n = 0;
	wherry_code code;

	for (size_t i = 0; i < r->window.n_buckets; i++)
		for (const wh_entry *e = r->window.buckets[i]; e; e = e->bucket_next)
			if (e->stage != WH_SETTLED && e->stage != WH_UNWRITABLE)
				r->scratch.back_ids[n++] = e->msg.id;
	if (!n)
		return WHERRY_OK;
	qsort(r->scratch.back_ids, n, sizeof(*r->scratch.back_ids), by_id);
	/* A claim whose row others have locked is not extended, and nobody can take it over
	 * meanwhile (a_locked_row_keeps_no_other_claim_from_being_extended). */
	code = wh_settle_leave_locked(r, r->scratch.back_ids, &n, wh_monotonic(&r->env),
				      err);
	if (code != WHERRY_OK || !n)
		return code;
	x.names = names_of(r, n);
	code = extend_part(&x, 0, n, &held, err);
	if (code != WHERRY_STALE || held == 0)
		return code;
	code = find_gone(&x, 0, n, err);
	if (x.n_gone)
		wh_relay_say(
			r, WHERRY_LOG_WARN, "claims-gone",
			wh_log_int("n", (int64_t)x.n_gone),
			wh_log_note("their rows were discarded or deleted, or others "
				    "have claimed them"));
	return code;
}
