/*
 * Delayed queues: messages with a key and a time, which can be polled from that time on.
 *
 * A key has one message.  An offer of a key that has a message replaces it.  If a consumer has
 * leased the old message, its acknowledgement changes nothing.  Many queues share a table; each
 * has its own keys.
 *
 * Every operation joins the transaction that is open on the queue's connection.  If none is
 * open, it opens one, and commits it before the call returns.
 */
#ifndef WHERRY_DELAYED_H
#define WHERRY_DELAYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/message.h>

/* One delayed queue on one connection.  Use it and the connection from one thread at a time. */
typedef struct wherry_delayed wherry_delayed;

/*
 * A message of a delayed queue.  All strings are UTF-8 and end in NUL; NULL: absent.
 * Start from WHERRY_DELAYED_MESSAGE(...) or wherry_delayed_message_init(), so that `size` is
 * set.
 */
typedef struct wherry_delayed_message {
	size_t size;      /* Set it to sizeof(wherry_delayed_message). */
	const char *key;  /* Required; at most 200 characters. */
	const void *body; /* Any bytes; may be NULL if body_len is 0. */
	size_t body_len;  /* Length in bytes, or WHERRY_TEXT; at most 16 MiB. */
	/* When it is due, Unix time, microseconds, up to the year 9999, cut to whole
	 * milliseconds; 0: delay_us from now. */
	int64_t at_us;
	/* Delay from now, microseconds, by the queue's clock; 0 to 36500 days. */
	int64_t delay_us;
	bool if_absent; /* If the key has a message, leave that message unchanged. */

	/* Set in messages that were polled, read or listed; ignored by an offer. */
	/* Number that grows with each new message; orders messages that are due at the
	 * same time. */
	int64_t id;
	/* When an offer last changed it, Unix time, microseconds. */
	int64_t created_at_us;
	/* When it is due, its lease ends, or it died, Unix time, microseconds. */
	int64_t available_at_us;
	int32_t attempts; /* Times it was polled, this time included. */
	bool redelivery;  /* It was polled before. */
	/* WHERRY_PENDING: due, or waits for its time; WHERRY_PROCESSING: leased;
	 * WHERRY_FAILED: given back, waits until available_at_us; WHERRY_DEAD. */
	wherry_state state;
	const char *token;      /* Token for wherry_delayed_ack(); NULL: none. */
	const char *last_error; /* Why the last attempt failed; NULL: none failed. */
} wherry_delayed_message;

/* In C: WHERRY_DELAYED_MESSAGE(.key = "k", .body = "hi", .body_len = WHERRY_TEXT). */
#define WHERRY_DELAYED_MESSAGE(...) WHERRY_SIZED(wherry_delayed_message, __VA_ARGS__)

/* Result of an offer. */
typedef enum wherry_offer_outcome {
	WHERRY_CREATED, /* The key had no message. */
	WHERRY_UPDATED, /* The message of the key was replaced. */
	WHERRY_IGNORED  /* The key had the same message, or any message with if_absent. */
} wherry_offer_outcome;

/* Result of wherry_delayed_ack(), _nack(), _extend() and _dead_letter() for one message. */
typedef enum wherry_ack_outcome {
	WHERRY_ACKNOWLEDGED, /* The call did what it was asked to do. */
	/* A newer offer replaced the message, and stays in the queue. */
	WHERRY_SUPERSEDED,
	/* The message was settled or dropped, or its lease ended and another consumer
	 * polled it. */
	WHERRY_LEASE_LOST
} wherry_ack_outcome;

/* Options for polling; start from WHERRY_POLL_OPTIONS(...). */
typedef struct wherry_poll_options {
	size_t size;   /* Set it to sizeof(wherry_poll_options). */
	int64_t limit; /* Most messages to poll, up to 10000; 0: 1. */
	/* Duration of the lease, microseconds, by the queue's clock, at most 36500 days;
	 * 0: 30 s. */
	int64_t lease_us;
	/* Attempts after which a message that is due again becomes dead; 0: never. */
	int32_t max_attempts;
} wherry_poll_options;

/* In C: WHERRY_POLL_OPTIONS(.limit = 10). */
#define WHERRY_POLL_OPTIONS(...) WHERRY_SIZED(wherry_poll_options, __VA_ARGS__)

/* Selects messages; start from WHERRY_DELAYED_FILTER(...). */
typedef struct wherry_delayed_filter {
	size_t size;        /* Set it to sizeof(wherry_delayed_filter). */
	const char *prefix; /* Beginning of the key; NULL: any. */
	const char *except; /* Skip keys that begin with this; NULL: skip none. */
	/* Only keys that sort after this one, byte for byte; NULL: any. */
	const char *after;
	/* Only messages that nobody has polled since they were offered. */
	bool untouched;
	int64_t limit; /* Most messages; 0: all. */
	/* With untouched: only messages due after this Unix time, microseconds; 0:
	 * any. */
	int64_t due_after_us;
} wherry_delayed_filter;

/* In C: WHERRY_DELAYED_FILTER(.prefix = "job/"). */
#define WHERRY_DELAYED_FILTER(...) WHERRY_SIZED(wherry_delayed_filter, __VA_ARGS__)

/* Counts and state of a delayed queue.  Later versions add members at the end. */
typedef struct wherry_delayed_status {
	int64_t due;     /* Messages that can be polled now. */
	int64_t leased;  /* Messages that were polled and not settled. */
	int64_t waiting; /* Messages whose time has not come. */
	int64_t dead;    /* Messages that need a person. */
	/* Time since the first due message became due, microseconds; 0: none is due. */
	int64_t oldest_due_us;
	/* Time until a message can be polled, microseconds; 0: now; -1: no message waits
	 * or is leased. */
	int64_t next_us;
	int schema_version; /* Schema version of the tables. */
	char layout[24];    /* Layout of the table: "native", "funfix" or "funfix-old". */
	/* wherry_delayed_pause() was called, and wherry_delayed_resume() was not. */
	bool paused;
} wherry_delayed_status;

/* Text that confirms wherry_delayed_drop_all(). */
#define WHERRY_DELAYED_DROP_ALL "Yes, please, I know what I'm doing!"

/**
 * Called for each message, which is borrowed for the call.  If it returns another code than
 * WHERRY_OK, the function that visits ends and returns that code.
 */
typedef wherry_code (*wherry_delayed_fn)(void *ctx, const wherry_delayed_message *msg);

WHERRY_BEGIN

/** Set the size of *msg, and its other members to absent; for C++ and for plain structs. */
WHERRY_API void wherry_delayed_message_init(wherry_delayed_message *msg);

/* ---- schema ---- */

/**
 * Create a table for delayed queues, and one for their dead messages.  Programs may repeat this,
 * also at the same time.
 *
 * @param db      A connection with no transaction open.
 * @param name    Name of the table, by the rules of wherry_outbox_create(); NULL: "delayed".
 * @param layout  "native"; "funfix": the table of the JVM library DelayedQueue; on SQL Server also
 *                "funfix-old": the table of its predecessor.  NULL: the layout of the table that
 *                exists, else "native".
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name with another purpose);
 *         WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_create(wherry_db *db,
							     const char *name,
							     const char *layout,
							     wherry_error *err);

/** Write out the SQL of wherry_delayed_create(); the caller frees *out with free().  `scheme` is
 *  the scheme of the database's URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_create_sql(const char *scheme,
								 const char *name,
								 const char *layout,
								 char **out,
								 wherry_error *err);

/**
 * Open a queue of a table that exists.
 *
 * The rows of the queue have its kind, which is the MD5 sum of "QUEUE|TYPE".
 *
 * @param db     Connection to its database; borrowed until wherry_delayed_close().
 * @param name   Name of the table; copied.  NULL: "delayed".
 * @param queue  Name of the queue; not empty, at most 255 bytes.
 * @param type   Type of the bodies, the same for all programs that use the queue; at most 255
 *               bytes.  NULL: "bytes".
 * @param out    Receives the queue; the caller closes it with wherry_delayed_close().
 * @param err    Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_TOOBIG; WHERRY_NOTFOUND (no such table);
 *         WHERRY_TOONEW; any code of a failed read.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_open(wherry_db *db, const char *name, const char *queue, const char *type,
		    wherry_delayed **out, wherry_error *err);

/** Close a queue; its connection stays open.  NULL is allowed. */
WHERRY_API void wherry_delayed_close(wherry_delayed *delayed);

/** Remove the table with the messages of all its queues.  Afterwards only wherry_delayed_close()
 *  may be called with the handle. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_drop(wherry_delayed *delayed,
							   wherry_error *err);

/**
 * Set the clock of the queue.  By default this is the database's clock, which all consumers share.
 * If the clocks of consumers differ, leases end early or late.
 *
 * @param now_us  Returns Unix time in microseconds; NULL: the database's clock.
 * @param ctx     First argument of now_us; borrowed until another clock is set.
 */
WHERRY_API void wherry_delayed_set_clock(wherry_delayed *delayed,
					 int64_t (*now_us)(void *ctx), void *ctx);

/** Return the kind of the queue in its table, 32 hexadecimal digits; borrowed until close. */
WHERRY_API const char *wherry_delayed_kind(const wherry_delayed *delayed);

/* ---- for producers ---- */

/**
 * Offer a message: create it, or replace the message of its key.  If that message has the same
 * body and time, it is unchanged.
 *
 * @param msg          Message to offer; borrowed for the call.
 * @param out_outcome  Receives the result; may be NULL.
 * @return WHERRY_OK;
 *         WHERRY_INVALID  there is no key, the key is not UTF-8, or a time is out of range;
 *         WHERRY_TOOBIG   the key is over 200 characters, or the body over 16 MiB;
 *         any code of a failed write.
 *
 * Transaction: the one that is open, which a failure leaves intact; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_offer(wherry_delayed *delayed, const wherry_delayed_message *msg,
		     wherry_offer_outcome *out_outcome, wherry_error *err);

/**
 * Offer many messages, all or none, with the result of offering them one after the other: a key
 * may occur twice.  On PostgreSQL this is one statement, and one more each time that a key occurs
 * again or if_absent changes.  Two callers with the same keys do not deadlock.
 *
 * @param out_outcomes  Receives n results, in the order of msgs; may be NULL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_offer_many(
	wherry_delayed *delayed, const wherry_delayed_message *msgs, size_t n,
	wherry_offer_outcome *out_outcomes, wherry_error *err);

/* ---- for consumers ---- */

/**
 * Poll messages that are due, in the order of their times, and of their ids if the times are equal.
 * If there is none, the call returns without waiting.  Rows that other transactions have locked are
 * skipped.  On PostgreSQL a poll begins behind the message that this handle polled last; if it finds
 * fewer than `limit`, it may read all messages in a second statement.
 *
 * A message that was polled is leased: no other consumer can poll it until the lease ends.  Settle
 * each message with wherry_delayed_ack(), wherry_delayed_nack() or wherry_delayed_dead_letter()
 * under its token.
 *
 * @param options  Options; borrowed for the call.  NULL: one message, leased for 30 s.
 * @param visit    Called for each message after the statement has ended.  If it fails, messages
 *                 not visited yet stay leased.
 * @param out_n    Receives the number of messages polled; may be NULL.
 * @return WHERRY_OK, also if there was none; WHERRY_INVALID (an option out of range); the code
 *         that visit returned; any code of a failed write: then roll back an open transaction.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_poll(
	wherry_delayed *delayed, const wherry_poll_options *options,
	wherry_delayed_fn visit, void *ctx, int64_t *out_n, wherry_error *err);

/**
 * Wait until a message is due.  Another consumer may poll it first.
 *
 * The call sleeps until the first message is due.  On PostgreSQL, if Wherry opened the connection
 * and no pooler is in between, a committed offer wakes it.  Otherwise it checks up to four times a
 * second whether another connection has committed.
 *
 * @param timeout_us  Longest wait, microseconds; 0: read once without waiting.
 * @param out_any     Receives whether a message is due; false also after a signal or
 *                    wherry_delayed_wake().
 * @return WHERRY_OK; WHERRY_INVALID (a transaction is open); any code of a failed read.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_wait(wherry_delayed *delayed,
							   int64_t timeout_us,
							   bool *out_any,
							   wherry_error *err);

/** End the wherry_delayed_wait() that runs, or the next one.  Threads: any, while the queue is
 *  open. */
WHERRY_API void wherry_delayed_wake(wherry_delayed *delayed);

/**
 * Acknowledge messages: delete them.
 *
 * A lease that has ended stays valid until another consumer polls the message.  The token of a
 * message that was read is valid until an offer changes the message.
 *
 * @param tokens   Tokens of the messages; n of them.
 * @param out      Receives n results; may be NULL if n is 0.
 * @return WHERRY_OK, with any results; WHERRY_INVALID (a text that is not a token); any code of a
 *         failed write: on PostgreSQL, without a transaction, some messages may be acknowledged.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_ack(wherry_delayed *delayed,
							  const char *const *tokens,
							  size_t n,
							  wherry_ack_outcome *out,
							  wherry_error *err);

/** Give messages back, to be polled again after delay_us microseconds.  `error` is kept as
 *  last_error, cut at 500 bytes; NULL: keep the text before.  The other parameters and the codes
 *  are those of wherry_delayed_ack(); the token of a message that was read and not polled is
 *  WHERRY_INVALID. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_nack(
	wherry_delayed *delayed, const char *const *tokens, size_t n, int64_t delay_us,
	const char *error, wherry_ack_outcome *out, wherry_error *err);

/** Extend leases: they end lease_us microseconds from now.  The other parameters and the codes
 *  are those of wherry_delayed_nack(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_extend(wherry_delayed *delayed,
							     const char *const *tokens,
							     size_t n, int64_t lease_us,
							     wherry_ack_outcome *out,
							     wherry_error *err);

/** Make messages dead, with a reason, which is cut at 500 bytes; their keys are free again.  The
 *  other parameters and the codes are those of wherry_delayed_nack(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_dead_letter(
	wherry_delayed *delayed, const char *const *tokens, size_t n, const char *reason,
	wherry_ack_outcome *out, wherry_error *err);

/* ---- by key ---- */

/**
 * Read the message of a key without leasing it, also if it is leased or not due.
 *
 * @param visit      Called with the message, if there is one.  Only wherry_delayed_ack() takes the
 *                   message's token.
 * @param out_found  Receives whether the key has a message; may be NULL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_read(wherry_delayed *delayed,
							   const char *key,
							   wherry_delayed_fn visit,
							   void *ctx, bool *out_found,
							   wherry_error *err);

/** Find out whether a key has a message, leased or not. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_contains(wherry_delayed *delayed,
							       const char *key,
							       bool *out_found,
							       wherry_error *err);

/** Drop the message of a key, leased or not.  out_found receives whether there was one; may be
 *  NULL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_drop_key(wherry_delayed *delayed,
							       const char *key,
							       bool *out_found,
							       wherry_error *err);

/** Drop the messages that match the filter, leased or not.  Its members `after` and `limit` are
 *  ignored.  out_n receives their number; may be NULL.  WHERRY_INVALID: the filter is NULL or has
 *  no prefix; to drop all messages call wherry_delayed_drop_all(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_drop_many(wherry_delayed *delayed, const wherry_delayed_filter *filter,
			 int64_t *out_n, wherry_error *err);

/**
 * Drop all messages of the queue except its dead ones.  Other queues of the table keep theirs.
 *
 * @param confirm  The text WHERRY_DELAYED_DROP_ALL; with another text the call is WHERRY_INVALID.
 * @param out_n    Receives the number of messages dropped; may be NULL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_drop_all(wherry_delayed *delayed,
							       const char *confirm,
							       int64_t *out_n,
							       wherry_error *err);

/* ---- for operators ---- */

/** Visit messages in the order of their keys, byte for byte.  This locks and changes nothing.  Only
 *  wherry_delayed_ack() takes the tokens of the messages.  `filter` may be NULL: all messages. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_list(wherry_delayed *delayed, const wherry_delayed_filter *filter,
		    wherry_delayed_fn visit, void *ctx, wherry_error *err);

/** Count the messages exactly.  This reads an index entry for each message.  `size` is
 *  sizeof(*out); members beyond it, which later versions add, are not written. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_get_status(wherry_delayed *delayed, wherry_delayed_status *out,
			  size_t size, wherry_error *err);

/** Visit the dead messages whose id is higher than after_id, in the order of their ids, at most
 *  `limit` of them; 0: all. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_delayed_list_dead(wherry_delayed *delayed, int64_t after_id, int64_t limit,
			 wherry_delayed_fn visit, void *ctx, wherry_error *err);

/**
 * Make dead messages due at once, and set their attempts to 0.  A message whose key has another
 * message by now stays dead.
 *
 * @param id     Id of a dead message; 0: all dead messages.
 * @param out_n  Receives the number of messages made due; may be NULL.
 * @return WHERRY_OK; WHERRY_NOTFOUND (that message is not dead); WHERRY_DUPLICATE (its key has
 *         another message); WHERRY_UNSUPPORTED (another program wrote it, with an id or a key that
 *         the queue does not allow); any code of a failed write.
 *
 * Transaction: the one that is open; else its own, one per 1000 messages.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_retry(wherry_delayed *delayed,
							    int64_t id, int64_t *out_n,
							    wherry_error *err);

/** Delete dead messages.  `id` is the message; 0: all dead messages.  out_n receives their number;
 *  may be NULL.  WHERRY_NOTFOUND: that message is not dead. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_purge_dead(wherry_delayed *delayed,
								 int64_t id,
								 int64_t *out_n,
								 wherry_error *err);

/**
 * Stop the relays of this queue until wherry_delayed_resume().  Producers and consumers go on, and
 * so do relays of other queues of the table.
 *
 * @return WHERRY_OK; WHERRY_UNSUPPORTED (the layout cannot store a pause); any code of a failed
 *         write.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_pause(wherry_delayed *delayed,
							    wherry_error *err);

/** End the pause that wherry_delayed_pause() began. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_delayed_resume(wherry_delayed *delayed,
							     wherry_error *err);

WHERRY_END

#endif
