/*
 * Leases that another relay may take over soon after their holder's session ended, whatever time
 * they have left.
 *
 * A relay that has a session to itself keeps a lock of that session, named by the token of its lease, which may be of
 * the table or of a share of it.  The server frees the lock when the session ends: the relay's process or machine is gone, or the connection
 * was cut.  The relay may live and deliver, so:
 *
 *   - the relay submits nothing for longer than WH_SESSION_TRUSTED_US after the lease was last seen to be held,
 *     in that session;
 *   - in a new session it takes the lock and renews the lease before it submits anything;
 *   - another relay takes the lease if it finds the lock free twice, WH_SESSION_GONE_US apart, and
 *     the lease was not renewed in between.
 *
 * So the relay has stopped submitting by then: it was last seen to hold the lease before the lock was found
 * free.
 */
#ifndef WH_STORE_SESSIONS_H
#define WH_STORE_SESSIONS_H

#include <wherry/lease.h>

#include "store/store.h"

enum {
	WH_SESSION_TRUSTED_US = 2000000,
	WH_SESSION_GONE_US = 3000000,
	/* A relay looks at the sessions of others so often in the time in which it would renew a lease. */
	WH_SESSION_LOOKS = 5,
	WH_SESSIONS_GONE = 8
};

/* Write a new token for a lease that lasts so long.  Only if the lease ends with the session, take
 * the lock and free that of `before`, the token of an earlier lease, which may be "". */
wherry_code wh_session_begin(wh_store *store, int64_t lasts_us, const char *before,
			     char out_token[40], wherry_error *err);

/* Take the lock of a lease again, in a new session.  Does nothing if the lease has none. */
wherry_code wh_session_resume(wh_store *store, const wherry_lease *lease,
			      wherry_error *err);

/* Free the lock of a lease that was not taken. */
void wh_session_end(wh_store *store, const char *token);

/* Does the lease end with the session of its holder? */
bool wh_session_has(const wherry_lease *lease);

/* A lease whose lock was free. */
typedef struct wh_silent {
	int32_t number;
	int64_t epoch;
	int64_t until;    /* When the lease ends, which changes if it is renewed. */
	int64_t since_us; /* When its lock was first seen to be free. */
	char owner[96];
} wh_silent;

/* The sessions of the other leases of a table, as one relay last saw them. */
typedef struct wh_sessions {
	int n; /* Leases that have a lock. */
	int n_gone; /* Of these, leases whose lock was free; at most WH_SESSIONS_GONE are known. */
	wh_silent gone[WH_SESSIONS_GONE];
} wh_sessions;

/* Look at the sessions of all leases but that with the number `mine`; -1: of all. */
wherry_code wh_sessions_look(wh_store *store, int32_t mine, wh_sessions *inout,
			     wherry_error *err);

/* Had the lease of that holder and epoch a lock that was free? */
bool wh_sessions_lack(const wh_sessions *sessions, const char *owner, int64_t epoch);

/* Expire a lease whose lock is still free, and which was not renewed since it was seen.  *out_expired:
 * false: the session is there again. */
wherry_code wh_session_expire(wh_store *store, const wh_silent *lease, bool *out_expired,
			      wherry_error *err);

/* When to look again, if a relay renews its lease so often; WH_NEVER: no lease has a lock. */
int64_t wh_sessions_next(const wh_sessions *sessions, int64_t now, int64_t renew_us);

/* Where the data of a server comes from, and since when the server runs; "": unknown. */
typedef struct wh_lineage {
	char history[48];
	char since[48];
} wh_lineage;

/* Leaves *out as it is if the server does not say. */
wherry_code wh_lineage_read(wh_store *store, wh_lineage *out, wherry_error *err);

#endif
