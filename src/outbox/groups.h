/*
 * Statements that only outboxes have.  The rules of store/groups.h apply here too.
 */
#ifndef WH_OUTBOX_GROUPS_H
#define WH_OUTBOX_GROUPS_H

#include "store/groups.h"

/* clang-format off */

#define WH_OUTBOX_ENQUEUE(X) \
	X(enqueue, "enqueue", "message_id topic aggregate_type aggregate_id key headers trace_id payload")

/* Message ids are unique only if they were asked to be: are they, and an INSERT that skips one that is there. */
#define WH_OUTBOX_UNIQUE(X) \
	X(unique_ids, "unique-ids", "") \
	X(enqueue_once, "enqueue-once", "message_id topic aggregate_type aggregate_id key headers trace_id payload")

/* The table may be divided into segments: is it, and a purge that deletes them whole. */
#define WH_OUTBOX_SEGMENTS(X) \
	X(segmented, "segmented", "") \
	X(purge_segments, "purge-segments", "age limit") \
	X(count_segments, "purge-segments-count", "age")

/* Is there a table of this name with the layout that earlier versions made? */
#define WH_OUTBOX_OLD(X) \
	X(old_kind, "old-kind", "")

/* The table was dropped by hand: is something left of the outbox? */
#define WH_OUTBOX_LEFT(X) \
	X(left_over, "left-over", "")

/* Locks a key, so that transactions that write messages of one key run one after the
 * other. */
#define WH_OUTBOX_LOCK(X) \
	X(lock_key, "lock-key", "aggregate_type? aggregate_id key")

/* Reads rows for a relay that works under a lease. */
#define WH_OUTBOX_READ(X) \
	X(read, "read", "after limit long? body? mask?") \
	X(dead_keys, "dead-keys", "after limit long?")

/* Reads rows of the table for a relay that streams from the WAL. */
#define WH_OUTBOX_STREAM(X) \
	X(stream_first, "stream-first", "")

/* For layouts whose rows record their state. */
#define WH_OUTBOX_STATES(X) \
	X(count, "count", "most? done?") \
	X(ready, "ready", "") \
	X(oldest_pending, "oldest-pending", "most?")

/* Where "count" counts all rows whatever it is given. */
#define WH_OUTBOX_BACKLOG(X) \
	X(backlog, "backlog", "most")

#define WH_OUTBOX_HELD(X) \
	X(held_pending, "held-pending", "most")

/* Used by the commands of operators.  To discard, a NULL ident means the number alone. */
#define WH_OUTBOX_ADMIN(X) \
	X(retry_dead, "retry-dead", "states ident number topic key since after limit") \
	X(discard, "discard", "ident number states") \
	X(list, "list", "states ident number topic key since after limit long? body? prefix older text") \
	X(list_any, "list-any", "states ident number topic key since after limit long? body? prefix older text") \
	X(list_newest, "list-newest", "states ident number topic key since after? before limit long? body? prefix older text") \
	X(list_any_newest, "list-any-newest", "states ident number topic key since after? before limit long? body? prefix older text") \
	X(show, "show", "ident number long? body?")

/* Readers of a log, each with its own position. */
#define WH_OUTBOX_SUBSCRIPTIONS(X) \
	X(subscribed, "subscribed", "") \
	X(subscriptions, "subscriptions", "") \
	X(subscribe, "subscribe", "high seen? topics") \
	X(subscribe_named, "subscribe-named", "name") \
	X(unsubscribe, "unsubscribe", "") \
	X(unsubscribe_exceptions, "unsubscribe-exceptions", "") \
	X(unsubscribe_named, "unsubscribe-named", "name") \
	X(unsubscribe_lease, "unsubscribe-lease", "name") \
	X(seek_begin, "seek-begin", "name") \
	X(seek, "seek", "high seen?") \
	X(seek_end, "seek-end", "") \
	X(set_topics, "set-topics", "topics") \
	X(first_since, "first-since", "at") \
	X(first_and_last, "first-and-last", "") \
	X(discard_here, "discard-here", "ident number states")

/* Delivered messages can be compared with what the destination holds, and be delivered again. */
#define WH_OUTBOX_RECONCILE(X) \
	X(period, "period", "after limit since end") \
	X(period_rows, "period-rows", "ids") \
	X(deliver_again, "deliver-again", "ids")

/* Roles can be given one subscription. */
#define WH_OUTBOX_CONSUMERS(X) \
	X(unsubscribe_function, "unsubscribe-function", "")

/* Consumers; the further statements where no function does it all. */
#define WH_OUTBOX_CONSUME(X) \
	X(consume, "consume", "limit")
#define WH_OUTBOX_CONSUME_STEPS(X) \
	X(consume_begin, "consume-begin", "") \
	X(consume_held, "consume-held", "name") \
	X(consume_end, "consume-end", "n limit last") \
	X(consume_forget, "consume-forget", "ids")

#define WH_OUTBOX_GROUPS(G) \
	G(enqueue, WH_OUTBOX_ENQUEUE) G(unique, WH_OUTBOX_UNIQUE) G(lock, WH_OUTBOX_LOCK) \
	G(read, WH_OUTBOX_READ) \
	G(stream, WH_OUTBOX_STREAM) G(states, WH_OUTBOX_STATES) \
	G(backlog, WH_OUTBOX_BACKLOG) G(held, WH_OUTBOX_HELD) G(admin, WH_OUTBOX_ADMIN) \
	G(segments, WH_OUTBOX_SEGMENTS) G(old, WH_OUTBOX_OLD) G(left, WH_OUTBOX_LEFT) G(subscriptions, WH_OUTBOX_SUBSCRIPTIONS) \
	G(reconcile, WH_OUTBOX_RECONCILE) \
	G(consumers, WH_OUTBOX_CONSUMERS) G(consume, WH_OUTBOX_CONSUME) G(consume_steps, WH_OUTBOX_CONSUME_STEPS)

/* clang-format on */

typedef struct wh_outbox_stmts {
	WH_OUTBOX_GROUPS(WH_GROUP_FIELDS)
} wh_outbox_stmts;

extern const wh_group wh_outbox_groups[];

#endif
