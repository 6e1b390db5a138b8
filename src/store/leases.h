/*
 * Leases: which relays may work on a table, and what operators ask of them.
 */
#ifndef WH_STORE_LEASES_H
#define WH_STORE_LEASES_H

#include "base/process.h"
#include "store/engines.h"
#include "store/store.h"

/* The holder of the lease; all zero if there was none. */
typedef struct wh_holder {
	char owner[96];
	char engine[16];
	int64_t epoch;
	int64_t left_us;              /* 0: it has expired, or was given back */
	char process[WH_PROCESS_LEN]; /* "": not known */

	/* Its report with the last renewal.  Ages; -1: not known, or never. */
	char state[16]; /* WH_STATE_LEADING, …; "": not known */
	int64_t state_us;
	char destination[128];
	int64_t delivered; /* messages, since the lease was taken */
	int64_t delivered_us;
	char error[200];
	int64_t error_us;
} wh_holder;

#define WH_HOLDER_NONE                                                                   \
	((wh_holder){.epoch = 0, .state_us = -1, .delivered_us = -1, .error_us = -1})

/* Of the whole table, or one that has a share of it; or of that number alone, if it is not 0. */
wherry_code wh_store_holder(wh_store *store, wh_holder *out, wherry_error *err);
wherry_code wh_store_holder_of(wh_store *store, int32_t number, wh_holder *out,
			       wherry_error *err);

/* Visit the relays of a table on which all of them work, those that ended last; none, if the layout
 * lists none. */
typedef void (*wh_holder_fn)(void *ctx, const wh_holder *relay);
wherry_code wh_store_relays(wh_store *store, wh_holder_fn visit, void *ctx,
			    wherry_error *err);

/* Has the process of a holder ended?  True only if that is certain. */
bool wh_store_orphaned(const wh_store *store, const char *process);

/* The process that held it under this epoch has ended: have the lease expire now, so that it can
 * be taken.  Changes nothing if another holds it meanwhile. */
wherry_code wh_store_expire(wh_store *store, int32_t number, int64_t epoch,
			    wherry_error *err);

/* Always fails: WHERRY_STALE. */
wherry_code wh_store_stale(const wh_store *store, wherry_error *err);

/*
 * Take the lease of the whole table for a relay of this engine; BUSY names the holder.
 *
 * @param again  Go on where a relay ended that wrote nothing to rows, though all in the table
 *               is delivered again.
 */
wherry_code wh_store_lease_as(wh_store *store, wh_engine engine, bool again,
			      const char *owner, int64_t lasts_us, int64_t window,
			      wherry_lease *out, wherry_error *err);

/* Take part in the lease that competing relays hold together, or renew it. */
wherry_code wh_store_join_as(wh_store *store, bool again, const char *owner,
			     int64_t lasts_us, wherry_lease *inout, wherry_error *err);

/* Always fails: WHERRY_BUSY, naming the holder. */
wherry_code wh_store_held(wh_store *store, const char *advice, wherry_error *err);

/* Notice commits, and be woken by those who write to this table.  sole: the caller's own
 * updates make no work for another relay. */
wherry_code wh_store_watch(wh_store *store, bool sole, wherry_error *err);

wherry_code wh_store_control(wh_store *store, bool *out_paused, int64_t *out_version,
			     wherry_error *err);

/* A wh_row_fn: the wherry_lease that ctx is, out of a row of "lease", "renew" or "join". */
wherry_code wh_store_take_lease(void *ctx, const wh_row *row, wherry_error *err);

/* Does the lease still hold?  WHERRY_STALE: no. */
wherry_code wh_store_fence(wh_store *store, const wherry_lease *lease, wherry_error *err);

/* Run what takes the whole table for an engine, "lease" or "join", while nobody takes a
 * partition of it, unless engines.c lets that engine in neither beside the one that works now
 * nor after the last one.  again: as of wh_store_lease_as(). */
wherry_code wh_store_guard(wh_store *store, wh_engine engine, bool again,
			   const wh_stmt *stmt, const wh_param *params, size_t n_params,
			   wherry_lease *out, wherry_error *err);

wherry_code wh_store_renew(wh_store *store, wherry_lease *lease, wherry_error *err);
wherry_code wh_store_release(wh_store *store, const wherry_lease *lease,
			     wherry_error *err);

/* Stop all deliveries, or let them go on. */
wherry_code wh_store_pause(wh_store *store, bool on, wherry_error *err);

/* Always fails: rows that a relay with relay.on_done=keep left would be delivered again. */
wherry_code wh_store_refuse_again(const wh_store *store, wh_engine engine,
				  wherry_error *err);

/* Forget the position of such a relay, which says nothing once another engine has worked. */
wherry_code wh_store_forget_place(const wh_store *store, wherry_error *err);

#endif
