/*
 * Claims: rows that one of several relays works on, of any model whose layout has the group
 * "claim".
 */
#ifndef WH_STORE_CLAIMS_H
#define WH_STORE_CLAIMS_H

#include "store/anchor.h"
#include "store/open_row.h"
#include "store/store.h"

/* Where claims go on that passed over rows they could not have; begun by wh_claim_rewind(). */
typedef struct wh_claim_place {
	int64_t after; /* rows up to here were looked at */
	wh_buf passed; /* keys of those left there, in hexadecimal: JSON strings, comma
			  between them */
	size_t n_passed;
	int64_t n_rows;    /* passed over */
	int64_t n_claimed; /* on the way */
	bool deep;         /* the last pass claimed nothing: go on behind many keys */
	bool many;         /* too many keys for that list: the database finds them */

	/* In layouts with the group "anchor" or "time_anchor", most claims take ready rows behind the
	 * last one.  Rows before it, and those that became due, need a look at all rows. */
	int64_t last;     /* Id of the last ready row that was claimed. */
	int64_t last_at;  /* Its time, milliseconds, where rows are ordered by times. */
	wh_anchor anchor; /* When to look at all again. */
	bool partial;     /* The last claim did not look at all. */
} wh_claim_place;

enum { WH_PASSED_MOST = 1000 };

void wh_claim_rewind(wh_claim_place *place);

/* A claimed row, with the columns of "claim".  Its id may differ from that of the row where the
 * layout has ids that can be used again. */
typedef wherry_code (*wh_claimed_fn)(void *ctx, int64_t id, const wh_row *row,
				     wherry_error *err);

/* What to claim, and for whom. */
typedef struct wh_claim_ask {
	const wherry_lease *lease; /* of wh_store_join_as() */
	const wherry_claim_options *options;
	wh_claim_place *place;        /* NULL: look from the beginning each time */
	int64_t text_most, body_most; /* bytes that are sent; text_most -1: no texts */
	wh_claimed_fn visit;
	void *ctx;
} wh_claim_ask;

/* Is it a lease to claim with, and are these options possible? */
wherry_code wh_store_claim_check(const wh_store *store, const wherry_lease *lease,
				 const wherry_claim_options *options, wherry_error *err);

/* Claim rows; *out_more: there may be more to claim at once. */
wherry_code wh_store_claim(wh_store *store, const wh_claim_ask *ask, bool *out_more,
			   wherry_error *err);

/* Claim rows whose claim expired: with a limit above 1 an eighth of those that expired with the
 * first of them, and so in the end one alone, whose attempt is then on record. */
wherry_code wh_store_claim_expired(wh_store *store, const wh_claim_ask *ask,
				   wherry_error *err);

/*
 * The list of ids as the parameter "ids" of a statement by the relay that claimed them.  In a
 * layout whose claims have marks it is [[message id, mark, id], …], without ids that the relay
 * does not hold.
 */
wherry_code wh_store_claim_ids(wh_store *store, const wherry_lease *lease,
			       const int64_t *ids, size_t n, wh_param *out,
			       wherry_error *err);

/* The parameters "message_id" and "started" of one claimed row; NULL where not needed. */
void wh_store_claim_params(const wh_store *store, const wherry_lease *lease, int64_t id,
			   wh_param out[2]);

/*
 * Claim rows and visit them with their texts.  With store->careful set the texts are read behind
 * the claim, so that a row that the database cannot send fails nothing.
 *
 * @param place     NULL: look from the beginning each time.
 * @param out_more  There may be more to claim at once.
 */
wherry_code wh_store_claim_rows(wh_store *store, const wherry_lease *lease,
				const wherry_claim_options *options,
				wh_claim_place *place, wh_open_fn visit, void *ctx,
				bool *out_more, wherry_error *err);

/* The same for wh_store_claim_expired().  One row alone is in the state processing. */
wherry_code wh_store_claim_expired_rows(wh_store *store, const wherry_lease *lease,
					const wherry_claim_options *options,
					wh_open_fn visit, void *ctx, wherry_error *err);

/* How long until a claim expires, and until a failed row is due; WH_NEVER: there is none,
 * with park: but behind dead ones.  lasts_us: of a claim, where rows do not say. */
wherry_code wh_store_claim_next(wh_store *store, bool park, int64_t lasts_us,
				int64_t *out_expiry_us, int64_t *out_due_us,
				wherry_error *err);

/*
 * Let claims last from now on; STALE: some had expired or were taken over.
 *
 * @param names  The messages' own ids, and ids in ascending order; NULL: whatever rows have these
 *               ids.
 */
wherry_code wh_store_extend(wh_store *store, const wherry_lease *lease,
			    const int64_t *ids, const wh_view *names, size_t n,
			    int64_t lasts_us, int64_t *out_n, wherry_error *err);

#endif
