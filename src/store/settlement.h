/*
 * Writes the results of rows, under a lease or a claim.
 */
#ifndef WH_STORE_SETTLEMENT_H
#define WH_STORE_SETTLEMENT_H

#include "store/store.h"

/* The results of a step of a relay; all are written or none, under one fence. */
typedef struct wh_settlement {
	const int64_t *done;  /* in ascending order, if there are names */
	const wh_view *names; /* their message ids; NULL: whatever rows have these ids */
	int64_t version; /* wh_db_version() before all of them were read; 0: unknown */
	size_t n_done;
	wherry_on_done on_done;
	const wherry_failure *failed;
	size_t n_failed;
	bool *lost;          /* receives which of those are others' by now; or NULL */
	const int64_t *back; /* claimed, and not tried after all: pending again; in
				ascending order, if there are names */
	const wh_view
		*back_names; /* their message ids; NULL: whatever rows have these ids */
	size_t n_back;
	bool back_failed; /* or failed and due, for relays that take nothing pending */
	int64_t try_id;   /* a suspect to be tried next, 0: none */
	const char *try_name; /* its message id; NULL: not known */
	int32_t try_nth;      /* for which time; 0: not known */
} wh_settlement;

/* A settlement that is one statement. */
typedef struct wh_ack {
	size_t n; /* rows it is to change */
	wh_param params[7];
	wh_call call;
} wh_ack;

/* Can what is delivered be acknowledged so, by a relay that leads, in this layout? */
bool wh_store_acks(const wh_store *store, const wherry_lease *lease,
		   wherry_on_done on_done);

/* Make it one, if it acknowledges and does nothing else, for a relay that leads, in a layout
 * that has such statements.  It borrows store->ids. */
bool wh_store_ack(wh_store *store, const wherry_lease *lease, const wh_settlement *s,
		  wh_ack *out);

/* Did it change every row?  If not, the lease may be gone: ask with wh_store_settle(). */
bool wh_store_acked(const wh_ack *ack);

/* Take back what was put on record as the nth attempt of a suspect, by this leader, unless it
 * was changed since. */
wherry_code wh_store_untry(wh_store *store, const wherry_lease *lease, int64_t id,
			   const char *name, int32_t nth, wherry_error *err);

/* Rows that changed; under claims, others had been lost. */
typedef struct wh_settled {
	int64_t n;
	int64_t n_done; /* of them */
} wh_settled;

/* out: may be NULL. */
wherry_code wh_store_settle(wh_store *store, const wherry_lease *lease,
			    const wh_settlement *s, wh_settled *out, wherry_error *err);

/* The same, but all of it or nothing: STALE if one of the rows is claimed by others by now. */
wherry_code wh_store_settle_all(wh_store *store, const wherry_lease *lease,
				const wh_settlement *s, int64_t *out_n,
				wherry_error *err);

/* These are settled: not held any more. */
void wh_store_claim_forget(wh_store *store, const wherry_lease *lease,
			   const wh_settlement *s);

#endif
