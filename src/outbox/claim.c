/*
 * Claiming messages, for programs that have their own relay.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sized.h"
#include "outbox/outbox.h"
#include "store/row_problem.h"

static wherry_code check_options(const wherry_outbox *outbox, const wherry_lease *lease,
				 const wherry_claim_options *options, wherry_error *err)
{
	if (!outbox || !lease || !*lease->token)
		return wh_fail(err, WHERRY_INVALID,
			       "a claim needs a lease of wherry_outbox_join()");
	return wh_store_claim_check(&outbox->store, lease, options, err);
}

enum { WHY_MOST = 300, WHY_BYTES_MOST = 4096 };

/* A claimed row that the program does not get. */
typedef struct unfit {
	int64_t id;
	bool attempted; /* An attempt was on record before the claim. */
	char why[WHY_MOST];
} unfit;

typedef struct showing {
	wherry_outbox *outbox;
	const wherry_lease *lease;
	wherry_claim_fn visit;
	void *ctx;
	int64_t n;     /* messages visited */
	int64_t *seen; /* Their ids. */
	size_t cap;    /* Capacity of `seen`, in ids. */
	bool again;    /* The claim is repeated: do not visit the ids in `seen` again. */
	unfit *unfit;  /* Become dead when no rows are being visited any more. */
	size_t n_unfit, unfit_cap;
} showing;

static wherry_code note_seen(showing *s, int64_t id, wherry_error *err)
{
	size_t cap = s->cap ? 2 * s->cap : 64;

	if ((size_t)s->n == s->cap) {
		int64_t *grown = realloc(s->seen, cap * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		s->seen = grown;
		s->cap = cap;
	}
	s->seen[s->n++] = id;
	return WHERRY_OK;
}

static bool is_seen(const showing *s, int64_t id)
{
	for (int64_t i = 0; i < s->n; i++)
		if (s->seen[i] == id)
			return true;
	return false;
}

static wherry_code note_unfit(showing *s, const wh_open_row *row, const char *why,
			      wherry_error *err)
{
	size_t cap = s->unfit_cap ? 2 * s->unfit_cap : 8;

	if (s->n_unfit == s->unfit_cap) {
		unfit *grown = realloc(s->unfit, cap * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		s->unfit = grown;
		s->unfit_cap = cap;
	}
	s->unfit[s->n_unfit] =
		(unfit){.id = row->id, .attempted = row->state == WHERRY_PROCESSING};
	(void)snprintf(s->unfit[s->n_unfit++].why, WHY_MOST, "%s", why);
	return WHERRY_OK;
}

/* Make the rows dead that the database did not send whole.  Their attempts are not
 * increased. */
static wherry_code bury(const showing *s, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < s->n_unfit; i++) {
		const wherry_failure failure = {
			.size = sizeof(failure),
			.id = s->unfit[i].id,
			.dead = true,
			.counted = true,
			/* The attempt on record is removed. */
			.not_counted = s->unfit[i].attempted,
			.error = s->unfit[i].why,
		};
		const wh_settlement dead = {.failed = &failure, .n_failed = 1};

		code = wh_store_settle_all(&s->outbox->store, s->lease, &dead, NULL, err);
	}
	return code;
}

static const char *text_of(wh_view view)
{
	return view.ptr; /* Ends in NUL; NULL if the text is absent. */
}

static wherry_code show_whole(showing *s, const wh_open_row *row, wherry_error *err)
{
	wh_view body = wh_open_body(row);
	wherry_message msg = {
		.size = sizeof(msg),
		.id = row->id,
		.message_id = text_of(row->message_id),
		.topic = text_of(row->topic),
		.key = row->key.len ? row->key.ptr : NULL,
		.aggregate_type = text_of(row->aggregate_type),
		.aggregate_id = text_of(row->aggregate_id),
		.headers = text_of(row->headers),
		.trace_id = text_of(row->trace_id),
		.body = body.ptr,
		.body_len = body.len,
		.attempts = row->attempts,
		.created_at_us = row->created_at_us,
	};
	wherry_code code = wh_row_check(row->row, err);

	if (code != WHERRY_OK)
		return code;
	code = note_seen(s, row->id, err);
	if (code != WHERRY_OK)
		return code;
	code = s->visit(s->ctx, &msg);
	return code == WHERRY_OK
		       ? code
		       : wh_fail(err, code, "the caller's function ended the claim");
}

static wherry_code read_options(const wherry_claim_options *given,
				wherry_claim_options *out, wherry_error *err)
{
	return wh_sized_read(out, sizeof(*out), given,
			     offsetof(wherry_claim_options, unordered), "claim's options",
			     "WHERRY_CLAIM_OPTIONS", err);
}

static wherry_code show(void *ctx, const wh_open_row *row, wherry_error *err)
{
	showing *s = ctx;
	wh_buf why = WH_BUF_INIT(WHY_BYTES_MOST);
	bool fits = !wh_row_problem(&s->outbox->store, row, true, &why);
	wherry_code code = fits ? WHERRY_OK : note_unfit(s, row, wh_buf_str(&why), err);

	wh_buf_clear(&why);
	if (!fits)
		return code;
	if (s->again && is_seen(s, row->id))
		return WHERRY_OK;
	return show_whole(s, row, err);
}

/* If a row that the database cannot send made the claim fail, it was rolled back.  Repeat
 * the claim without texts, and then read the texts of each row by themselves. */
static bool must_take_care(showing *s, wherry_code code, const wherry_error *why)
{
	s->again = !s->outbox->store.texts_after_claim &&
		   wh_db_about_row(s->outbox->store.db, code, why);
	s->outbox->store.texts_after_claim |= s->again;
	if (s->again)
		s->n_unfit = 0;
	return s->again;
}

static wherry_code ended(showing *s, wherry_code code, const wherry_error *why,
			 int64_t *out_n, wherry_error *err)
{
	if (s->again)
		s->outbox->store.texts_after_claim = false;
	if (code == WHERRY_OK && out_n)
		*out_n = s->n;
	if (code != WHERRY_OK && err)
		*err = *why;
	free(s->seen);
	free(s->unfit);
	return code;
}

static wherry_code claim_once(showing *s, const wherry_claim_options *options,
			      bool expired, wherry_error *err)
{
	bool more;

	return expired ? wh_store_claim_expired_rows(&s->outbox->store, s->lease, options,
						     show, s, err)
		       : wh_store_claim_rows(&s->outbox->store, s->lease, options, NULL,
					     show, s, &more, err);
}

static wherry_code claim(showing *s, const wherry_claim_options *options, bool expired,
			 int64_t *out_n, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_claim_options own;
	wherry_code code;

	if (!s->visit || !options)
		return wh_fail(err, WHERRY_INVALID,
			       "a claim needs options, and a function to visit messages");
	code = read_options(options, &own, err);
	if (code == WHERRY_OK)
		code = check_options(s->outbox, s->lease, &own, err);
	if (code != WHERRY_OK)
		return code;
	if (expired)
		own.limit = 1;
	code = claim_once(s, &own, expired, &why);
	if (must_take_care(s, code, &why))
		code = claim_once(s, &own, expired, &why);
	if (code == WHERRY_OK)
		code = bury(s, &why);
	return ended(s, code, &why, out_n, err);
}

wherry_code wherry_outbox_claim(wherry_outbox *outbox, const wherry_lease *lease,
				const wherry_claim_options *options,
				wherry_claim_fn visit, void *ctx, int64_t *out_n,
				wherry_error *err)
{
	wh_error_clear(err);
	showing s = {.outbox = outbox, .lease = lease, .visit = visit, .ctx = ctx};

	return claim(&s, options, false, out_n, err);
}

wherry_code wherry_outbox_claim_expired(wherry_outbox *outbox, const wherry_lease *lease,
					const wherry_claim_options *options,
					wherry_claim_fn visit, void *ctx, int64_t *out_n,
					wherry_error *err)
{
	wh_error_clear(err);
	showing s = {.outbox = outbox, .lease = lease, .visit = visit, .ctx = ctx};

	return claim(&s, options, true, out_n, err);
}
