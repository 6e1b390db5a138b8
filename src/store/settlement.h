/*
 * Writing the results of deliveries, under a lease or a claim.
 */
#ifndef WH_STORE_SETTLEMENT_H
#define WH_STORE_SETTLEMENT_H

#include "store/store.h"

/* The results of one step of a relay.  They are written in one transaction, under one
 * fence. */
typedef struct wh_settlement {
	/* Ids of delivered rows; in ascending order if `names` is set. */
	const int64_t *done;
	/* Message ids of `done`; NULL: accept any row that has the id. */
	const wh_view *names;
	/* wh_db_version() from before all of these rows were read; 0: unknown. */
	int64_t version;
	size_t n_done;
	/* Of a log: the position says that `done` are delivered, so that nothing is kept about
	 * them. */
	bool covered;
	const wherry_failure *failed;
	size_t n_failed;
	/* Receives for each of `failed` whether another relay claimed it by now; may be
	 * NULL. */
	bool *lost;
	/* Claimed rows that were not tried: they become pending again.  In ascending
	 * order if back_names is set. */
	const int64_t *back;
	/* Message ids of `back`; NULL: accept any row that has the id. */
	const wh_view *back_names;
	size_t n_back;
	/* Id of a suspect that is tried next: its attempt is recorded.  0: none. */
	int64_t try_id;
	const char *try_name; /* Message id of that suspect; NULL: unknown. */
	int32_t try_nth;      /* Number of that attempt, from 1; 0: unknown. */
} wh_settlement;

/* Remove the recorded attempt `nth` of a suspect, if this leader recorded it and the row
 * has not changed since. */
wherry_code wh_store_untry(wh_store *store, const wherry_lease *lease, int64_t id,
			   const char *name, int32_t nth, wherry_error *err);

/* Numbers of changed rows.  Under claims, rows that are missing here had been claimed by
 * other relays. */
typedef struct wh_settled {
	int64_t n;
	int64_t n_done; /* Of them, rows that were delivered. */
} wh_settled;

/* Write a settlement.  Under claims, skips rows that other relays have claimed by now.
 * out may be NULL. */
wherry_code wh_store_settle(wh_store *store, const wherry_lease *lease,
			    const wh_settlement *s, wh_settled *out, wherry_error *err);

/* Like wh_store_settle(), but writes all rows or none.  STALE: other relays have claimed
 * one of the rows by now. */
wherry_code wh_store_settle_all(wh_store *store, const wherry_lease *lease,
				const wh_settlement *s, int64_t *out_n,
				wherry_error *err);

/* Forget the marks of claims that are settled. */
void wh_store_claim_forget(wh_store *store, const wherry_lease *lease,
			   const wh_settlement *s);

#endif
