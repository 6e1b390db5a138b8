/*
 * Delayed queues: messages with a key and a time, which can be polled from that time on.
 *
 * A key has one message.  An offer of a key that is there replaces its message, also while a
 * consumer has it: then the consumer's acknowledgement changes nothing.  Many queues share a
 * table; each has its own keys.
 *
 * Every operation joins the transaction that is open on the queue's connection.  Where none is
 * open, it opens one, which is committed when the call returns.
 */
#ifndef WHERRY_DELAYED_H
#define WHERRY_DELAYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/message.h>

/* One delayed queue on one connection.  One thread at a time, as its connection. */
typedef struct wherry_delayed wherry_delayed;

/*
 * A message of a delayed queue.  All strings are UTF-8 and end in NUL; NULL counts as absent.
 * Start from WHERRY_DELAYED_MESSAGE(...) or wherry_delayed_message_init(), so that `size` is
 * set.
 */
typedef struct wherry_delayed_message {
	size_t size;      /* sizeof(wherry_delayed_message), so that it can grow */
	const char *key;  /* not empty, at most 200 characters */
	const void *body; /* any bytes; may be NULL if body_len is 0 */
	size_t body_len;  /* bytes, or WHERRY_TEXT; at most 16 MiB */
	int64_t at_us;    /* when it is due, Unix time, up to the year 9999; kept in whole
			  milliseconds, cut; 0: delay_us from now */
	int64_t delay_us; /* by the queue's clock; not negative; at most 36500 days */
	bool if_absent; /* leave the message that the key has alone, instead of replacing it */

	/* Filled in for messages that were polled, read or listed; ignored by an offer. */
	int64_t id;            /* one more for each new message; equal times go by it */
	int64_t created_at_us; /* Unix time of the last offer that changed it */
	int64_t available_at_us; /* end of its lease, when it can be polled, or when it died */
	int32_t attempts;        /* times it was polled, this time included */
	bool redelivery;         /* it was polled before */
	wherry_state
		state; /* PENDING: due, or waits for its time; PROCESSING: leased; FAILED:
			       given back, waits until available_at_us; DEAD */
	const char *token;      /* for wherry_delayed_ack(); NULL: none */
	const char *last_error; /* NULL: none */
} wherry_delayed_message;

/* WHERRY_DELAYED_MESSAGE(.key = "k", .body = "hi", .body_len = WHERRY_TEXT), in C */
#define WHERRY_DELAYED_MESSAGE(...) WHERRY_SIZED(wherry_delayed_message, __VA_ARGS__)

/* What became of an offer. */
typedef enum wherry_offer_outcome {
	WHERRY_CREATED, /* the key had no message */
	WHERRY_UPDATED, /* its message was replaced */
	WHERRY_IGNORED  /* it had the same message, or if_absent was set and it had one */
} wherry_offer_outcome;

/* What became of an acknowledgement, or of another end of a lease. */
typedef enum wherry_ack_outcome {
	WHERRY_ACKNOWLEDGED, /* done as asked */
	WHERRY_SUPERSEDED, /* a newer offer replaced the message, and stays in the queue */
	WHERRY_LEASE_LOST /* another consumer has polled it since the lease ended, or it was
			     settled or dropped */
} wherry_ack_outcome;

/* What to poll; start from WHERRY_POLL_OPTIONS(...). */
typedef struct wherry_poll_options {
	size_t size;          /* sizeof(wherry_poll_options), so that it can grow */
	int64_t limit;        /* at most this many messages, up to 10000; 0: 1 */
	int64_t lease_us;     /* by the queue's clock, at most 36500 days; 0: 30 s */
	int32_t max_attempts; /* a message that is due again after this many attempts becomes
				 dead; 0: it never does */
} wherry_poll_options;

/* WHERRY_POLL_OPTIONS(.limit = 10), in C */
#define WHERRY_POLL_OPTIONS(...) WHERRY_SIZED(wherry_poll_options, __VA_ARGS__)

/* Which messages; start from WHERRY_DELAYED_FILTER(...). */
typedef struct wherry_delayed_filter {
	size_t size;        /* sizeof(wherry_delayed_filter), so that it can grow */
	const char *prefix; /* of their keys; NULL: all */
	const char *except; /* but none whose key begins with this; NULL: all */
	const char *after;  /* only keys behind this one, byte for byte; NULL: all */
	bool untouched; /* only messages that nobody has polled since they were offered */
	int64_t limit;  /* at most this many; 0: all */
	int64_t due_after_us; /* with untouched: only those that are due after this Unix time;
				 0: all */
} wherry_delayed_filter;

/* WHERRY_DELAYED_FILTER(.prefix = "job/"), in C */
#define WHERRY_DELAYED_FILTER(...) WHERRY_SIZED(wherry_delayed_filter, __VA_ARGS__)

/* A delayed queue at a glance. */
typedef struct wherry_delayed_status {
	int64_t due;           /* messages that can be polled now */
	int64_t leased;        /* messages that were polled and not settled */
	int64_t waiting;       /* messages whose time has not come */
	int64_t dead;          /* messages that need a person */
	int64_t oldest_due_us; /* how long the first due message has been due; 0: none */
	int64_t next_us; /* until the next message can be polled; 0: one can be now; -1:
				  there is none that waits or is leased */
	int schema_version;
	char layout[24]; /* of its table: "native", "funfix" or "funfix-old" */
	bool paused; /* wherry_delayed_pause() was called; wherry_delayed_resume() was not */
} wherry_delayed_status;

/* The text that wherry_delayed_drop_all() asks for. */
#define WHERRY_DELAYED_DROP_ALL "Yes, please, I know what I'm doing!"

/**
 * Called for each message; it is borrowed for the call.  Returning another code than WHERRY_OK
 * ends the call that visits, which then returns that code.
 */
typedef wherry_code (*wherry_delayed_fn)(void *ctx, const wherry_delayed_message *msg);

WHERRY_BEGIN

/** Set every field of *msg to absent and its size; for C++ and for plain structs. */
WHERRY_API void wherry_delayed_message_init(wherry_delayed_message *msg);

/* ---- schema ---- */

/**
 * Create a table for delayed queues, and one for their dead messages; doing it twice is fine,
 * also at once.
 *
 * @param db      A connection with no transaction open.
 * @param name    Of the table, as of wherry_outbox_init(); NULL: "delayed".
 * @param layout  "native"; "funfix": the table of the JVM library DelayedQueue; or "funfix-old": that of
 *                its predecessor, on SQL Server.  NULL: that of the table that is there, else "native".
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is something else);
 *         WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_create(wherry_db *db,
							     const char *name,
							     const char *layout,
							     wherry_error *err);

/** Write out the SQL of wherry_delayed_create(): *out is given, free() it.
 *  scheme: the database, as in its URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_create_sql(const char *scheme,
								 const char *name,
								 const char *layout,
								 char **out,
								 wherry_error *err);

/**
 * Open a queue of a table that exists.
 *
 * In the table the queue is known by its kind, which is the MD5 sum of "QUEUE|TYPE".
 *
 * @param db     Its connection; borrowed until wherry_delayed_close().
 * @param name   Of the table; copied.  NULL: "delayed".
 * @param queue  Its name; not empty, at most 255 bytes.
 * @param type   What its bodies are, as all who use the queue call it; at most 255 bytes.
 *               NULL: "bytes".
 * @param out    Receives the queue; given, close with wherry_delayed_close().
 * @param err    Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_TOOBIG; WHERRY_NOTFOUND (no such table);
 *         WHERRY_TOONEW; what a read can fail with.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_open(wherry_db *db, const char *name, const char *queue, const char *type,
		    wherry_delayed **out, wherry_error *err);

/** Close a queue; its connection stays open.  NULL is fine. */
WHERRY_API void wherry_delayed_close(wherry_delayed *delayed);

/** Remove the table with the messages of all queues in it.  The handle stays open, and is good
 *  for wherry_delayed_close() alone. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_drop(wherry_delayed *delayed,
							   wherry_error *err);

/**
 * Let the queue go by the caller's clock.  Before that it goes by the database's, which all
 * consumers share: if the clocks of consumers differ, leases end early or late.
 *
 * @param now_us  Unix time, microseconds; NULL: the database's clock again.
 */
WHERRY_API void wherry_delayed_set_clock(wherry_delayed *delayed,
					 int64_t (*now_us)(void *ctx), void *ctx);

/** Return the kind of the queue in its table, 32 hexadecimal digits; borrowed. */
WHERRY_API const char *wherry_delayed_kind(const wherry_delayed *delayed);

/* ---- for producers ---- */

/**
 * Offer a message: create it, or replace the one that its key has.  A message with the same body
 * and time is left as it is.
 *
 * @param msg          What to offer; borrowed.
 * @param out_outcome  Receives what became of it; may be NULL.
 * @return WHERRY_OK;
 *         WHERRY_INVALID  no key, a key that is not UTF-8, a time out of range;
 *         WHERRY_TOOBIG   the key is over 200 characters, the body over 16 MiB;
 *         what a write can fail with.
 *
 * Transaction: the one that is open, which is intact after a failure; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_offer(wherry_delayed *delayed, const wherry_delayed_message *msg,
		     wherry_offer_outcome *out_outcome, wherry_error *err);

/**
 * Offer many messages, all or none, as if they were offered one after the other: a key may occur
 * twice.  On PostgreSQL it is one statement, and one more each time that a key occurs again or
 * if_absent changes from one key to the next; two callers with the same keys do not deadlock.
 *
 * @param out_outcomes  Receives n outcomes, in the order of msgs; may be NULL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_offer_many(
	wherry_delayed *delayed, const wherry_delayed_message *msgs, size_t n,
	wherry_offer_outcome *out_outcomes, wherry_error *err);

/* ---- for consumers ---- */

/**
 * Poll messages that are due, in the order of their times, and of their ids where those are equal.
 * It does not wait for one.  Rows that other transactions have locked are passed over.  On
 * PostgreSQL a poll begins behind the message that this handle polled last; if it finds fewer than
 * `limit`, it may look at all messages in a second statement.
 *
 * A message that was polled is leased: until the lease ends, nobody else can poll it.  Settle each
 * with wherry_delayed_ack(), wherry_delayed_nack() or wherry_delayed_dead_letter() under the
 * token in the message.
 *
 * @param options  NULL: one message, leased for 30 s.
 * @param visit    Sees each message after the statement is done.  If it fails, the messages not
 *                 visited yet stay leased.
 * @param out_n    Receives how many messages were polled; may be NULL.
 * @return WHERRY_OK, also if there was none; WHERRY_INVALID (options out of range); what a write
 *         can fail with: then roll back a transaction that is open; what visit returned.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_poll(
	wherry_delayed *delayed, const wherry_poll_options *options,
	wherry_delayed_fn visit, void *ctx, int64_t *out_n, wherry_error *err);

/**
 * Wait until a message is due; another consumer may then be faster.
 *
 * It sleeps until the first message is due.  On PostgreSQL, where the connection is our own and not
 * behind a pooler, an offer wakes it when it commits; elsewhere it looks up to four times a second
 * whether anybody has committed.
 *
 * @param timeout_us  How long at most; 0: only look.
 * @param out_any     Receives whether a message is due; false also after a signal or
 *                    wherry_delayed_wake().
 * @return WHERRY_OK; WHERRY_INVALID: a transaction is open; what a read can fail with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_wait(wherry_delayed *delayed,
							   int64_t timeout_us,
							   bool *out_any,
							   wherry_error *err);

/** End the wherry_delayed_wait() that runs, or the next one.  Threads: any, while it is open. */
WHERRY_API void wherry_delayed_wake(wherry_delayed *delayed);

/**
 * Acknowledge messages: delete them.
 *
 * A lease that has ended is still good while nobody else has polled the message.  The token of a
 * message that was read is good until an offer changes the message.
 *
 * @param tokens   Of the messages; n of them.
 * @param out      Receives n outcomes; may be NULL if n is 0.
 * @return WHERRY_OK, whatever the outcomes; WHERRY_INVALID (a token that is none); what a write
 *         can fail with: on PostgreSQL, without a transaction, messages may be acknowledged.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_ack(wherry_delayed *delayed,
							  const char *const *tokens,
							  size_t n,
							  wherry_ack_outcome *out,
							  wherry_error *err);

/** Give messages back, to be polled again after delay_us; the rest as wherry_delayed_ack().
 *  error: kept as last_error, cut at 500 bytes; NULL: the one before stays.
 *  WHERRY_INVALID: also the token of a message that was read and not polled. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_nack(
	wherry_delayed *delayed, const char *const *tokens, size_t n, int64_t delay_us,
	const char *error, wherry_ack_outcome *out, wherry_error *err);

/** Let leases last from now on for lease_us; the rest as wherry_delayed_nack(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_extend(wherry_delayed *delayed,
							     const char *const *tokens,
							     size_t n, int64_t lease_us,
							     wherry_ack_outcome *out,
							     wherry_error *err);

/** Give messages up: they become dead, with this reason, cut at 500 bytes, and their keys are free;
 *  the rest as wherry_delayed_nack(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_dead_letter(
	wherry_delayed *delayed, const char *const *tokens, size_t n, const char *reason,
	wherry_ack_outcome *out, wherry_error *err);

/* ---- by key ---- */

/**
 * Read the message of a key, also one that is leased or not due, without leasing it.
 *
 * @param visit      Sees it, if there is one.  Its token is good for wherry_delayed_ack() alone.
 * @param out_found  Receives whether there is one; may be NULL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_read(wherry_delayed *delayed,
							   const char *key,
							   wherry_delayed_fn visit,
							   void *ctx, bool *out_found,
							   wherry_error *err);

/** Tell whether a key has a message, leased or not. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_contains(wherry_delayed *delayed,
							       const char *key,
							       bool *out_found,
							       wherry_error *err);

/** Drop the message of a key, leased or not.  out_found: there was one; may be NULL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_drop_key(wherry_delayed *delayed,
							       const char *key,
							       bool *out_found,
							       wherry_error *err);

/** Drop the messages that match the filter, leased or not.  Its members `after` and
 *  `limit` are ignored.  WHERRY_INVALID: filter is NULL or has no prefix; to drop all
 *  messages call wherry_delayed_drop_all(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_drop_many(wherry_delayed *delayed, const wherry_delayed_filter *filter,
			 int64_t *out_n, wherry_error *err);

/**
 * Drop all messages of the queue, but not its dead ones, nor those of other queues of the table.
 *
 * @param confirm  WHERRY_DELAYED_DROP_ALL, word for word; else WHERRY_INVALID.
 * @param out_n    Receives how many there were; may be NULL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_drop_all(wherry_delayed *delayed,
							       const char *confirm,
							       int64_t *out_n,
							       wherry_error *err);

/* ---- for operators ---- */

/** Visit messages in the order of their keys, byte for byte.  It locks and changes nothing.  Their
 *  tokens are those of wherry_delayed_read().  filter: NULL: all. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_list(wherry_delayed *delayed, const wherry_delayed_filter *filter,
		    wherry_delayed_fn visit, void *ctx, wherry_error *err);

/** Count the messages exactly.  It reads an index entry for each.
 *  size: sizeof(wherry_delayed_status), so that it can grow. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_get_status(wherry_delayed *delayed, wherry_delayed_status *out,
			  size_t size, wherry_error *err);

/** Visit dead messages in the order of their ids, those above after_id, at most `limit`; 0: all. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_list_dead(wherry_delayed *delayed, int64_t after_id, int64_t limit,
			 wherry_delayed_fn visit, void *ctx, wherry_error *err);

/**
 * Let dead messages be polled again, at once, with no attempts counted.  A message whose key has
 * another message by now stays dead.
 *
 * @param id     Of a dead message; 0: all.
 * @param out_n  Receives how many; may be NULL.
 * @return WHERRY_OK; WHERRY_NOTFOUND: that message is not dead; WHERRY_DUPLICATE: its key has
 *         another message; WHERRY_UNSUPPORTED: another program wrote it, with an id or a key that
 *         the queue does not allow; what a write can fail with.
 *
 * Transaction: the one that is open; else its own, one per 1000 messages.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_retry(wherry_delayed *delayed,
							    int64_t id, int64_t *out_n,
							    wherry_error *err);

/** Delete dead messages.  id: 0: all of them.  WHERRY_NOTFOUND: that message is not dead. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_purge_dead(wherry_delayed *delayed,
								 int64_t id,
								 int64_t *out_n,
								 wherry_error *err);

/**
 * Let relays deliver nothing from this queue of the table until wherry_delayed_resume().
 * Producers and consumers go on, and so do relays of other queues.
 *
 * @return WHERRY_OK; WHERRY_UNSUPPORTED: the layout has nowhere to write it; what a write can fail
 *         with.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_pause(wherry_delayed *delayed,
							    wherry_error *err);

/** Take back wherry_delayed_pause(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_resume(wherry_delayed *delayed,
							     wherry_error *err);

WHERRY_END

#endif
