/*
 * Statements that only a delayed queue has.  The rules in store/groups.h apply to them as
 * well.
 */
#ifndef WH_DELAYED_GROUPS_H
#define WH_DELAYED_GROUPS_H

#include "store/groups.h"

/* clang-format off */

#define WH_DELAYED_OFFER(X) \
	X(offer, "offer", "kind now key body at delay") \
	X(offer_absent, "offer-absent", "kind now key body at delay")

/* One statement offers many messages.  "messages": a JSON array of objects, each with the
 * place of its body in "bodies". */
#define WH_DELAYED_OFFER_MANY(X) \
	X(offer_many, "offer-many", "kind now messages bodies") \
	X(offer_many_absent, "offer-many-absent", "kind now messages bodies")

#define WH_DELAYED_POLL(X) \
	X(poll, "poll", "kind now limit token lasts most?") \
	X(next_due, "next-due", "kind now")

/* Polls messages behind a time and an id; see store/scan_start.h. */
#define WH_DELAYED_ANCHOR(X) \
	X(poll_after, "poll-after", "kind now limit token lasts most? after_at after_id")

/* Leases messages that had all their attempts, of the first that are due: "poll" passes over
 * them. */
#define WH_DELAYED_EXHAUSTED(X) \
	X(poll_exhausted, "poll-exhausted", "kind now limit token lasts most")

/* Settles messages that were polled or read.  Each statement except "versions" returns
 * the ids that it settled. */
#define WH_DELAYED_SETTLE(X) \
	X(ack, "ack", "kind ids token") \
	X(ack_read, "ack-read", "kind id version offered") \
	X(nack, "nack", "kind ids token now delay back error") \
	X(extend_lease, "extend-lease", "kind ids token now lasts") \
	X(versions, "versions", "kind ids")

/* Attempts are in another table, and a statement can write to one table only.  So one
 * statement writes attempts before a poll, one writes the error after a nack, and one
 * deletes rows after messages are settled. */
#define WH_DELAYED_TRIES(X) \
	X(note_poll, "note-poll", "kind now limit") \
	X(note_nack, "note-nack", "ids back error") \
	X(forget_tries, "forget-tries", "ids")

/* Deletes attempts that are left over, because another program deleted their message. */
#define WH_DELAYED_STRAYS(X) \
	X(forget_strays, "forget-strays", "limit")

#define WH_DELAYED_KEYS(X) \
	X(read, "read", "kind now key") \
	X(contains, "contains", "kind key") \
	X(drop_key, "drop-key", "kind key")

#define WH_DELAYED_FILTER_GIVEN "kind prefix prefix_end? except except_end? untouched"

#define WH_DELAYED_MANY_KEYS(X) \
	X(drop_keys, "drop-keys", WH_DELAYED_FILTER_GIVEN) \
	X(drop_all, "drop-all", "kind") \
	X(list, "list", WH_DELAYED_FILTER_GIVEN " now from limit") \
	X(count, "count", "kind now") \
	X(count_table, "count-table", "now")

/* Dead messages have a table. */
#define WH_DELAYED_DEAD(X) \
	X(make_dead, "make-dead", "kind ids token now back error") \
	X(list_dead, "list-dead", "kind after limit") \
	X(last_dead, "last-dead", "kind") \
	X(retry_dead, "retry-dead", "kind now first last limit") \
	X(delete_dead, "delete-dead", "ids") \
	X(purge_dead, "purge-dead", "kind id")

#define WH_DELAYED_GROUPS(G) \
	G(offer, WH_DELAYED_OFFER) G(offer_many, WH_DELAYED_OFFER_MANY) G(poll, WH_DELAYED_POLL) \
	G(scan_start, WH_DELAYED_ANCHOR) G(exhausted, WH_DELAYED_EXHAUSTED) \
	G(settle, WH_DELAYED_SETTLE) G(tries, WH_DELAYED_TRIES) \
	G(strays, WH_DELAYED_STRAYS) G(keys, WH_DELAYED_KEYS) G(many_keys, WH_DELAYED_MANY_KEYS) \
	G(dead, WH_DELAYED_DEAD)

/* clang-format on */

typedef struct wh_delayed_stmts {
	WH_DELAYED_GROUPS(WH_GROUP_FIELDS)
} wh_delayed_stmts;

extern const wh_group wh_delayed_groups[];

#endif
