/*
 * Leases: which relays may work on a table.  Also pause and control version, by which
 * operators control relays.
 */
#ifndef WH_STORE_LEASES_H
#define WH_STORE_LEASES_H

#include "base/process.h"
#include "store/engines.h"
#include "store/store.h"

/* No relay takes a lease for longer: the most that relay.lease may be, and a minute. */
#define WH_LEASE_MOST_US (3660 * WH_SECOND)

/* The holder of a lease; WH_HOLDER_NONE if there was none. */
typedef struct wh_holder {
	char owner[96];
	char engine[16];
	int64_t epoch;
	/* Time until the lease expires; 0: it has expired or was released. */
	int64_t left_us;
	int64_t ended_us; /* Time since it expired; 0: it has not. */
	/* How long it was taken for.  A lease that has longer left is from a clock that was
	 * ahead. */
	int64_t lasts_us;
	char process[WH_PROCESS_LEN]; /* "": unknown. */

	/* The relay's last report, written with a renewal.  Times are ages; -1: unknown
	 * or never. */
	char state[16]; /* WH_STATE_LEADING, …; "": unknown. */
	int64_t state_us;
	char destination[128];
	int64_t delivered; /* Messages delivered since it took the lease. */
	int64_t delivered_us;
	char error[200];
	int64_t error_us;
} wh_holder;

#define WH_HOLDER_NONE                                                                   \
	((wh_holder){.epoch = 0, .state_us = -1, .delivered_us = -1, .error_us = -1})

/* Read the holder of the lease of the whole table; with a number, the holder of the lease
 * with that number. */
wherry_code wh_store_holder(wh_store *store, wh_holder *out, wherry_error *err);
wherry_code wh_store_holder_of(wh_store *store, int32_t number, wh_holder *out,
			       wherry_error *err);

/* Visit the relays that have a separate lease each: first those that work, then those
 * that ended.  Visits none if the layout has no such leases. */
typedef void (*wh_holder_fn)(void *ctx, const wh_holder *relay);
wherry_code wh_store_relays(wh_store *store, wh_holder_fn visit, void *ctx,
			    wherry_error *err);

/* Has this process of a lease's holder ended?  True only if that is certain. */
bool wh_store_orphaned(const wh_store *store, const char *process);

/* If the holder's process has ended, set its left_us to 0, since the next relay on this
 * machine takes the lease over at once.  For commands that say whether a relay works. */
void wh_holder_look(const wh_store *store, wh_holder *holder);

/* Expire a lease at once because its holder's process has ended.  Changes nothing if the
 * epoch differs, since another relay took the lease meanwhile. */
wherry_code wh_store_expire(wh_store *store, int32_t number, int64_t epoch,
			    wherry_error *err);

/* Did the clock of the database go back since the lease was taken or renewed?  Then it would
 * last for longer than its relay asked for, though that relay may be gone. */
bool wh_holder_lasts_too_long(const wh_holder *holder);

/* Did the lease end a moment ago, without being given back, and may its relay be about to renew it?  So after
 * a failover that took longer than the lease. */
bool wh_holder_may_return(const wh_store *store, const wh_holder *holder);

/* Let no lease on the table last for longer from now on than its relay asked for. */
wherry_code wh_store_cut(wh_store *store, wherry_error *err);

/* Always returns WHERRY_STALE. */
wherry_code wh_store_stale(const wh_store *store, wherry_error *err);

/*
 * Take the lease of the whole table for a relay of this engine.  BUSY: another relay
 * holds it; the error names that relay.
 */
wherry_code wh_store_lease_as(wh_store *store, wh_engine engine, const char *owner,
			      int64_t lasts_us, int64_t window, wherry_lease *out,
			      wherry_error *err);

/* Join the lease that competing relays share, or renew it. */
wherry_code wh_store_join_as(wh_store *store, const char *owner, int64_t lasts_us,
			     wherry_lease *inout, wherry_error *err);

/* Always fails: returns WHERRY_BUSY and names the holder, or why the holder could not be
 * read. */
wherry_code wh_store_held(wh_store *store, const char *advice, wherry_error *err);

/* Start to watch for commits, and have writers to this table wake the caller. */
wherry_code wh_store_watch(wh_store *store, wherry_error *err);

wherry_code wh_store_control(wh_store *store, bool *out_paused, int64_t *out_version,
			     wherry_error *err);

/* A wh_row_fn that fills the wherry_lease at ctx from a row of "lease", "renew" or
 * "join". */
wherry_code wh_store_take_lease(void *ctx, const wh_row *row, wherry_error *err);

/* Return WHERRY_STALE if the lease is not held any more.  Call it inside a transaction
 * before other statements. */
wherry_code wh_store_fence(wh_store *store, const wherry_lease *lease, wherry_error *err);

wherry_code wh_store_renew(wh_store *store, wherry_lease *lease, wherry_error *err);
wherry_code wh_store_release(wh_store *store, const wherry_lease *lease,
			     wherry_error *err);

/* Pause all deliveries, or resume them. */
wherry_code wh_store_pause(wh_store *store, bool on, wherry_error *err);

#endif
