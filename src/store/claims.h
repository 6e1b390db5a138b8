/*
 * Claims: rows that one of several relays works on.  For every model whose layout has the
 * group "claim".
 */
#ifndef WH_STORE_CLAIMS_H
#define WH_STORE_CLAIMS_H

#include "store/scan_start.h"
#include "store/open_row.h"
#include "store/store.h"

/* Where the next claim begins.  Initialise with wh_claim_rewind(). */
typedef struct wh_claim_place {
	int64_t after; /* Id of the last row that was looked at. */

	/* In layouts with the group "scan_start" or "time_anchor", most claims take ready
	 * rows behind the last one.  Rows before it, and rows that became due, need a
	 * look at all rows. */
	int64_t last;    /* Id of the last ready row that was claimed. */
	int64_t last_at; /* Its time in milliseconds, if rows are ordered by time. */
	wh_scan_start scan_start; /* When to look at all rows again. */
	bool partial;             /* The last claim looked only at rows behind `last`. */
} wh_claim_place;

void wh_claim_rewind(wh_claim_place *place);

/* Visits a claimed row, with the columns of "claim".  `id` differs from the row's id if a
 * layout reuses ids, see wh_marks_add(). */
typedef wherry_code (*wh_claimed_fn)(void *ctx, int64_t id, const wh_row *row,
				     wherry_error *err);

/* Options of a claim. */
typedef struct wh_claim_ask {
	const wherry_lease *lease; /* From wh_store_join_as(). */
	const wherry_claim_options *options;
	wh_claim_place *place; /* NULL: start at the beginning each time. */
	/* Bytes of a text and of a body that are sent; text_most -1: no texts. */
	int64_t text_most, body_most;
	wh_claimed_fn visit;
	void *ctx;
} wh_claim_ask;

/* Return INVALID if the lease is not shared by competing relays or an option is out of
 * range.  Return UNSUPPORTED if rows of this layout cannot be claimed. */
wherry_code wh_store_claim_check(const wh_store *store, const wherry_lease *lease,
				 const wherry_claim_options *options, wherry_error *err);

/* Claim rows.  *out_more: call again at once, there may be more rows to claim. */
wherry_code wh_store_claim(wh_store *store, const wh_claim_ask *ask, bool *out_more,
			   wherry_error *err);

/* Take over claims that expired.  With a limit above 1, takes an eighth of those that
 * expired with the first one's token.  When that is one row, its attempt is recorded,
 * because it may have crashed a relay. */
wherry_code wh_store_claim_expired(wh_store *store, const wh_claim_ask *ask,
				   wherry_error *err);

/*
 * Set the parameter "ids" of a statement by the relay that claimed these rows.  In a
 * layout whose claims have marks the list is [[message id, mark, id], …], without rows
 * that the relay does not hold.
 */
wherry_code wh_store_claim_ids(wh_store *store, const wherry_lease *lease,
			       const int64_t *ids, size_t n, wh_param *out,
			       wherry_error *err);

/* Set the parameters "message_id" and "started" of one claimed row; NULL in layouts
 * without marks. */
void wh_store_claim_params(const wh_store *store, const wherry_lease *lease, int64_t id,
			   wh_param out[2]);

/*
 * Claim rows and visit them with their texts.  With store->texts_after_claim set, texts are read
 * after the claim, so that a row that the database cannot send makes nothing fail.
 *
 * @param place     NULL: start at the beginning each time.
 * @param out_more  Receives whether there may be more rows to claim at once.
 */
wherry_code wh_store_claim_rows(wh_store *store, const wherry_lease *lease,
				const wherry_claim_options *options,
				wh_claim_place *place, wh_open_fn visit, void *ctx,
				bool *out_more, wherry_error *err);

/* Like wh_store_claim_rows() for wh_store_claim_expired().  A row that is claimed alone
 * has the state processing. */
wherry_code wh_store_claim_expired_rows(wh_store *store, const wherry_lease *lease,
					const wherry_claim_options *options,
					wh_open_fn visit, void *ctx, wherry_error *err);

/* Find out how long until the first claim expires and until the first failed row is due;
 * WH_NEVER: none.
 * lasts_us: duration of a claim, for layouts whose rows do not record its expiry. */
wherry_code wh_store_claim_next(wh_store *store, int64_t lasts_us, int64_t *out_expiry_us,
				int64_t *out_due_us, wherry_error *err);

/*
 * Extend claims: they last lasts_us from now on.
 *
 * @param names  Message ids of the rows, whose `ids` are then in ascending order; NULL:
 *               accept any row that has the id.
 * @return WHERRY_OK; WHERRY_STALE: some claims had expired or were taken over; the others
 *         are extended.
 */
wherry_code wh_store_extend(wh_store *store, const wherry_lease *lease,
			    const int64_t *ids, const wh_view *names, size_t n,
			    int64_t lasts_us, int64_t *out_n, wherry_error *err);

#endif
