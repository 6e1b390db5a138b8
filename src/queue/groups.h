/*
 * Statements that only a queue has.  The rules in store/groups.h apply to them as well.
 */
#ifndef WH_QUEUE_GROUPS_H
#define WH_QUEUE_GROUPS_H

#include "store/groups.h"

/* clang-format off */

#define WH_QUEUE_SEND(X) \
	X(send, "send", "message_id topic correlation_id reply_to headers body delay ttl") \
	X(cancel, "cancel", "id")

/* One statement sends many messages. */
#define WH_QUEUE_SEND_MANY(X) \
	X(send_many, "send-many", "message_id topic correlation_id reply_to headers body delay ttl")

/* Delayed messages wait in another table. */
#define WH_QUEUE_DELAYED(X) \
	X(send_delayed, "send-delayed", "headers body delay")

#define WH_QUEUE_TAKE(X) \
	X(take, "take", "full after limit") \
	X(make_dead, "make-dead", "id message_id topic correlation_id reply_to headers body attempts created error")

/* Messages can be leased. */
#define WH_QUEUE_LEASE(X) \
	X(receive, "receive", "full after limit most token lasts") \
	X(ack, "ack", "ids token") \
	X(nack, "nack", "ids token delay back error") \
	X(dead_letter, "dead-letter", "ids token error")

/* Makes messages dead that the server cannot send, which make each receive fail. */
#define WH_QUEUE_UNREADABLE(X) \
	X(bury_unreadable, "bury-unreadable", "")

/* Extends leases, in layouts that lack the store's statement "extend". */
#define WH_QUEUE_RENEWAL(X) \
	X(extend_lease, "extend-lease", "ids token lasts")

/* Receivers delete expired messages among the first rows only: no index finds them. */
#define WH_QUEUE_HEAD(X) \
	X(expire_head, "expire-head", "limit")

#define WH_QUEUE_INSPECT(X) \
	X(peek, "peek", "states after limit") \
	X(show, "show", "id") \
	X(count, "count", "") \
	X(estimate, "estimate", "") \
	X(next_due, "next-due", "")

/* Addresses contain the name of the database, which "catalog" reads. */
#define WH_QUEUE_CATALOG(X) \
	X(catalog, "catalog", "")

/* Finds what is wrong with the tables. */
#define WH_QUEUE_HEALTH(X) \
	X(inspect, "inspect", "")

#define WH_QUEUE_ADMIN(X) \
	X(retry_dead, "retry-dead", "id limit") \
	X(discard, "discard", "id") \
	X(purge_states, "purge-states", "states limit")

#define WH_QUEUE_GROUPS(G) \
	G(send, WH_QUEUE_SEND) G(send_many, WH_QUEUE_SEND_MANY) G(delayed, WH_QUEUE_DELAYED) \
	G(take, WH_QUEUE_TAKE) G(lease, WH_QUEUE_LEASE) \
	G(unreadable, WH_QUEUE_UNREADABLE) G(renewal, WH_QUEUE_RENEWAL) G(head, WH_QUEUE_HEAD) G(catalog, WH_QUEUE_CATALOG) \
	G(inspect, WH_QUEUE_INSPECT) G(health, WH_QUEUE_HEALTH) G(admin, WH_QUEUE_ADMIN)

/* clang-format on */

typedef struct wh_queue_stmts {
	WH_QUEUE_GROUPS(WH_GROUP_FIELDS)
} wh_queue_stmts;

extern const wh_group wh_queue_groups[];

#endif
