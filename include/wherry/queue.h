/*
 * Queues: tables in which messages wait until a receiver takes them.
 *
 * Every operation joins the transaction that is open on the queue's connection.  If none is
 * open, it opens one, and commits it before the call returns.
 */
#ifndef WHERRY_QUEUE_H
#define WHERRY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/message.h>

/* One queue on one connection.  Use it and the connection from one thread at a time. */
typedef struct wherry_queue wherry_queue;

/* The topics of a database or schema, and the queues that have subscribed to them, on one
 * connection.  Use them and the connection from one thread at a time. */
typedef struct wherry_topics wherry_topics;

/*
 * A message of a queue.  All strings are UTF-8 and end in NUL; NULL: absent.  Start
 * from WHERRY_QUEUE_MESSAGE(...) or wherry_queue_message_init(), so that `size` is set.
 */
typedef struct wherry_queue_message {
	size_t size;            /* Set it to sizeof(wherry_queue_message). */
	const char *message_id; /* At most 255 bytes; NULL: send makes a UUIDv7. */
	/* Topic the message was published to; NULL if it was sent directly to this
	 * queue. */
	const char *topic;
	const char *correlation_id; /* At most 255 bytes; NULL: none. */
	/* Where an answer is expected, at most 255 bytes; NULL: nowhere. */
	const char *reply_to;
	const char *headers; /* JSON object of strings and nulls; NULL: "{}". */
	/* Bytes of the type that the queue keeps; may be NULL if body_len is 0. */
	const void *body;
	size_t body_len; /* Length in bytes, or WHERRY_TEXT; 0: an empty body. */
	/* Delay until the message can be received, microseconds, by the database's clock,
	 * at most 36500 days; 0: no delay. */
	int64_t delay_us;
	/* Time after the delay until the message expires unless it is received,
	 * microseconds, at most 36500 days; 0: it does not expire. */
	int64_t expires_us;

	/* Set in messages that a function visits; ignored by send and publish. */
	int64_t id;            /* Number of the message in the queue. */
	int64_t created_at_us; /* When it was sent, Unix time, microseconds. */
	/* When its lease or its delay ends, Unix time, microseconds; 0: it can be
	 * received. */
	int64_t available_at_us;
	int64_t expires_at_us; /* When it expires, Unix time, microseconds; 0: never. */
	/* Times it was received without being acknowledged, this time included. */
	int32_t attempts;
	/* WHERRY_PENDING: ready; WHERRY_PROCESSING: leased; WHERRY_FAILED: waits until
	 * available_at_us; WHERRY_DEAD. */
	wherry_state state;
	/* Token of its lease, for wherry_queue_ack(); NULL: it is not leased. */
	const char *token;
	const char *last_error; /* Why the last attempt failed; NULL: none failed. */
} wherry_queue_message;

/* In C: WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = WHERRY_TEXT). */
#define WHERRY_QUEUE_MESSAGE(...) WHERRY_SIZED(wherry_queue_message, __VA_ARGS__)

/* Says when a message that is received leaves the queue. */
typedef enum wherry_receive_mode {
	/* Hidden from others until the lease ends; wherry_queue_ack() deletes it. */
	WHERRY_LEASE,
	/* Deleted by the open transaction; a rollback brings it back. */
	WHERRY_ATOMIC,
	WHERRY_AT_MOST_ONCE /* Deleted and committed before the message is visited. */
} wherry_receive_mode;

/* Options for receiving; start from WHERRY_RECEIVE_OPTIONS(...). */
typedef struct wherry_receive_options {
	size_t size;              /* Set it to sizeof(wherry_receive_options). */
	wherry_receive_mode mode; /* How the messages leave the queue. */
	int64_t limit;            /* Most messages to receive, up to 10000; 0: 1. */
	/* With WHERRY_LEASE: duration of the lease, microseconds, by the database's
	 * clock, at most 36500 days; 0: 30 s. */
	int64_t lease_us;
	/* Attempts after which a message dies if it is given back or its lease expires.
	 * The message keeps this number; 0: keep the number it has. */
	int32_t max_attempts;
} wherry_receive_options;

/* In C: WHERRY_RECEIVE_OPTIONS(.limit = 10). */
#define WHERRY_RECEIVE_OPTIONS(...) WHERRY_SIZED(wherry_receive_options, __VA_ARGS__)

/* Options for giving messages back; start from WHERRY_NACK(...). */
typedef struct wherry_nack {
	size_t size; /* Set it to sizeof(wherry_nack). */
	/* Delay until the messages can be received again, microseconds, at most 36500
	 * days; 0: at once, alternating with ready ones, or with not_counted in their old
	 * place. */
	int64_t delay_us;
	/* Reason, kept as last_error and cut at 500 bytes; NULL: keep the reason
	 * before. */
	const char *error;
	/* The messages did not cause the failure: do not count the attempt. */
	bool not_counted;
} wherry_nack;

/* In C: WHERRY_NACK(.error = "no route"). */
#define WHERRY_NACK(...) WHERRY_SIZED(wherry_nack, __VA_ARGS__)

/* Selects messages; start from WHERRY_QUEUE_FILTER(...). */
typedef struct wherry_queue_filter {
	size_t size;      /* Set it to sizeof(wherry_queue_filter). */
	unsigned states;  /* Bits 1 << wherry_state; 0: all. */
	int64_t after_id; /* Only messages with a higher id, for paging. */
	int64_t limit;    /* Most messages to visit; 0: 100. */
} wherry_queue_filter;

/* In C: WHERRY_QUEUE_FILTER(.limit = 10).  WHERRY_QUEUE_FILTER() matches every message. */
#define WHERRY_QUEUE_FILTER(...) WHERRY_SIZED(wherry_queue_filter, __VA_ARGS__)

/* Options for creating a queue; start from WHERRY_QUEUE_OPTIONS(...). */
typedef struct wherry_queue_options {
	size_t size; /* Set it to sizeof(wherry_queue_options). */
	/* "native" or, on PostgreSQL and SQL Server, "nservicebus"; NULL: the layout of
	 * the table that exists, else native. */
	const char *layout;
	/* Type of the bodies of a native queue.  PostgreSQL: "json", "jsonb", "text" or
	 * "bytea"; SQL Server: "text" or "bytea".  NULL: the type of the queue that
	 * exists, else json, on SQL Server text. */
	const char *payload;
} wherry_queue_options;

/* In C: WHERRY_QUEUE_OPTIONS(.payload = "bytea"). */
#define WHERRY_QUEUE_OPTIONS(...) WHERRY_SIZED(wherry_queue_options, __VA_ARGS__)

/* Counts and state of a queue.  A message that has expired counts in its state until it is deleted.  Later
 * versions add members at the end. */
typedef struct wherry_queue_status {
	int64_t ready;   /* Messages that can be received now, and expired ones. */
	int64_t leased;  /* Messages that were received and not acknowledged. */
	int64_t waiting; /* Messages whose delay or retry time has not come. */
	int64_t dead;    /* Messages that need a person. */
	int64_t expired; /* Messages of these that have expired and that receivers delete. */
	/* Age of the first ready message, microseconds; 0: none. */
	int64_t oldest_ready_us;
	int schema_version; /* Schema version of the tables. */
	char layout[24];    /* Layout of the table, such as "native". */
	/* wherry_queue_pause() was called, and wherry_queue_resume() was not. */
	bool paused;
} wherry_queue_status;

/**
 * Called for each message in the order of the queue; the message is borrowed for the call.  If it
 * returns another code than WHERRY_OK, the function that visits ends and returns that code.
 */
typedef wherry_code (*wherry_queue_fn)(void *ctx, const wherry_queue_message *msg);

WHERRY_BEGIN

/** Set the size of *msg, and its other members to absent; for C++ and for plain structs. */
WHERRY_API void wherry_queue_message_init(wherry_queue_message *msg);

/* ---- schema ---- */

/**
 * Create a queue, or bring it up to date.  Programs may repeat this, also at the same time.
 *
 * @param db       A connection with no transaction open.
 * @param name     Name of the queue, by the rules of wherry_outbox_create(): on PostgreSQL and
 *                 SQL Server also SCHEMA.NAME.
 * @param options  Options; borrowed for the call.  NULL: the defaults.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not a queue; a
 *         queue whose bodies are of another type; no such layout); WHERRY_UNSUPPORTED (the
 *         layout is not on this database); WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY;
 *         WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_create(wherry_db *db, const char *name, const wherry_queue_options *options,
		    wherry_error *err);

/** Write out the SQL of wherry_queue_create(); the caller frees *out with free().  `scheme` is the
 *  scheme of the database's URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_create_sql(
	const char *scheme, const char *name, const wherry_queue_options *options,
	char **out, wherry_error *err);

/**
 * Open a queue that exists.
 *
 * @param db    Connection to its database; borrowed until wherry_queue_close().
 * @param name  Name of the queue; copied.
 * @param out   Receives the queue; the caller closes it with wherry_queue_close().
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such queue);
 *         WHERRY_TOONEW; any code of a failed read.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_open(wherry_db *db, const char *name,
							 wherry_queue **out,
							 wherry_error *err);

/** Close a queue; its connection stays open.  NULL is allowed. */
WHERRY_API void wherry_queue_close(wherry_queue *queue);

/** Remove a queue with all its messages and its subscriptions.  Afterwards only
 *  wherry_queue_close() may be called with the handle. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_drop(wherry_queue *queue,
							 wherry_error *err);

/* ---- for senders ---- */

/**
 * Add a message.
 *
 * @param msg     Message to send; borrowed for the call.
 * @param out_id  Receives the message's id, for wherry_queue_cancel(); may be NULL.
 * @return WHERRY_OK;
 *         WHERRY_INVALID  the headers are not a JSON object of strings and nulls, the queue cannot
 *                         keep the body, a text is not UTF-8, or a time is negative;
 *         WHERRY_TOOBIG   a field is over its limit, or the body over 16 MiB;
 *         any code of a failed write.
 *
 * Transaction: the one that is open, which a failure leaves intact; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_send(wherry_queue *queue,
							 const wherry_queue_message *msg,
							 int64_t *out_id,
							 wherry_error *err);

/** Add many messages, all or none, in the order of the array.  out_ids receives n ids; may be
 *  NULL.  On PostgreSQL this is one statement.  The member `size` must be the same in all. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_send_many(wherry_queue *queue, const wherry_queue_message *msgs, size_t n,
		       int64_t *out_ids, wherry_error *err);

/** Delete a message that nobody has received, delayed or not.
 *  WHERRY_NOTFOUND: it was received, or there is no such message. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_cancel(wherry_queue *queue,
							   int64_t id, wherry_error *err);

/* ---- for receivers ---- */

/**
 * Receive messages: first those whose delay or lease has ended, then the lowest ids that no other
 * transaction has locked.  If there is none, the call returns without waiting.
 *
 * Expired messages are deleted instead.  A message whose headers are not a JSON object of
 * strings and nulls becomes dead in the same transaction, and is not visited.
 *
 * With WHERRY_LEASE, settle each message with wherry_queue_ack(), wherry_queue_nack() or
 * wherry_queue_dead_letter() under its token; all messages of one call have the same token.
 *
 * @param options  Options; borrowed for the call.  NULL: one message, leased for 30 s.
 * @param visit    Called for each message after the statement has ended.  If it fails with
 *                 WHERRY_LEASE or WHERRY_ATOMIC, messages not visited yet stay received.
 * @param out_n    Receives the number of messages received; may be NULL.
 * @return WHERRY_OK, also if there was none; WHERRY_INVALID (WHERRY_ATOMIC without an open
 *         transaction, WHERRY_AT_MOST_ONCE in one; an option out of range); the code that visit
 *         returned; any code of a failed write: then roll back an open transaction.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_receive(wherry_queue *queue, const wherry_receive_options *options,
		     wherry_queue_fn visit, void *ctx, int64_t *out_n, wherry_error *err);

/**
 * Wait until a message can be received.  Another receiver may receive it first.
 *
 * On PostgreSQL, if Wherry opened the connection and no pooler is in between, a sender wakes the
 * waiting receiver when it commits.  Otherwise this reads up to four times a second.
 *
 * @param timeout_us  Longest wait, microseconds; 0: read once without waiting.
 * @param out_any     Receives whether there is a message; false also after a signal.
 * @return WHERRY_OK; WHERRY_INVALID (a transaction is open); any code of a failed read.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_wait(wherry_queue *queue,
							 int64_t timeout_us,
							 bool *out_any,
							 wherry_error *err);

/**
 * Acknowledge messages: delete them.
 *
 * @param token  Token of their lease.
 * @param ids    Ids of the messages; n of them.
 * @param out_n  Receives the number of messages deleted, also with WHERRY_STALE; may be NULL.
 * @return WHERRY_OK; WHERRY_STALE: the lease of some messages ended and another receiver has
 *         them, or they were settled before; the others are deleted.
 *
 * A lease that has ended stays valid until another receiver receives the message.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_ack(wherry_queue *queue,
							const char *token,
							const int64_t *ids, size_t n,
							int64_t *out_n,
							wherry_error *err);

/** Give messages back, to be received again.  `how` may be NULL: without a delay.  The other
 *  parameters and the codes are those of wherry_queue_ack(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_nack(wherry_queue *queue, const char *token, const int64_t *ids, size_t n,
		  const wherry_nack *how, int64_t *out_n, wherry_error *err);

/** Extend leases: they end lease_us microseconds from now.  The other parameters and the codes
 *  are those of wherry_queue_ack(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_extend(wherry_queue *queue, const char *token, const int64_t *ids, size_t n,
		    int64_t lease_us, int64_t *out_n, wherry_error *err);

/** Make messages dead, with a reason, which is cut at 500 bytes.  The other parameters and the
 *  codes are those of wherry_queue_ack(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_dead_letter(wherry_queue *queue, const char *token, const int64_t *ids,
			 size_t n, const char *reason, int64_t *out_n, wherry_error *err);

/* ---- for operators ---- */

/** Visit messages in the order of their ids.  This locks and changes nothing, so it does not
 *  disturb receivers. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_peek(wherry_queue *queue, const wherry_queue_filter *filter,
		  wherry_queue_fn visit, void *ctx, wherry_error *err);

/**
 * Count the messages exactly.  This reads an index entry for each message.
 *
 * @param size  sizeof(*out); members beyond it, which later versions add, are not written.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_get_status(wherry_queue *queue,
							       wherry_queue_status *out,
							       size_t size,
							       wherry_error *err);

/** Estimate the number of messages.  On PostgreSQL the estimate comes from the server's statistics
 *  without counting, includes all states and is about a second old.  On SQLite this counts the
 *  ready messages. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_estimate(wherry_queue *queue,
							     int64_t *out_n,
							     wherry_error *err);

/** Read the time until a message can be received, in microseconds; 0: a message can be received
 *  now; -1: no message waits or is leased. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_next_due(wherry_queue *queue,
							     int64_t *out_us,
							     wherry_error *err);

/** Called for each fault that was found; both texts are borrowed for the call.  If it returns
 *  another code than WHERRY_OK, wherry_queue_inspect() ends and returns that code. */
typedef wherry_code (*wherry_queue_finding_fn)(void *ctx, const char *what,
					       const char *repair);

/**
 * Find faults of the tables of a queue: indexes, triggers, constraints and other tables that are
 * missing, and columns of a wrong type.  This changes nothing.
 *
 * @param visit  Called with each fault, and with the SQL that repairs it; "": wherry_queue_create()
 *               with the name of the queue repairs it.
 * @return WHERRY_OK, also if there is no fault; any code of a failed read; the code that visit
 *         returned.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_inspect(wherry_queue *queue,
							    wherry_queue_finding_fn visit,
							    void *ctx, wherry_error *err);

/**
 * Visit one message of any state.  This locks and changes nothing.
 *
 * @param ident  Id of the message in digits, or its message id.  To find a message id, this reads
 *               the queue from its beginning, message by message.
 * @return WHERRY_OK; WHERRY_NOTFOUND; any code of a failed read; the code that visit returned.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_show(wherry_queue *queue,
							 const char *ident,
							 wherry_queue_fn visit, void *ctx,
							 wherry_error *err);

/** Make dead messages ready again, in their old positions, and set their attempts to 0.  `id` is
 *  the message; 0: all dead messages.  WHERRY_NOTFOUND: that message is not dead. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_retry(wherry_queue *queue, int64_t id,
							  int64_t *out_n,
							  wherry_error *err);

/**
 * Delete one message of any state.  A receiver that has leased it cannot acknowledge it
 * afterwards.
 *
 * @param id  Member `id` of the message, as wherry_queue_peek() and wherry_queue_show() visit it.
 * @return WHERRY_OK; WHERRY_NOTFOUND; any code of a failed write.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_discard(wherry_queue *queue,
							    int64_t id,
							    wherry_error *err);

/**
 * Stop the relays of the queue until wherry_queue_resume().  Senders and receivers go on.
 *
 * @return WHERRY_OK; WHERRY_UNSUPPORTED (no relay works on this layout); any code of a failed write.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_pause(wherry_queue *queue,
							  wherry_error *err);

/** End the pause that wherry_queue_pause() began. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_resume(wherry_queue *queue,
							   wherry_error *err);

/**
 * Delete the messages of some states, but no leased message.
 *
 * @param states  Bits 1 << wherry_state; 0: ready, waiting and dead messages.
 * @param batch   Rows in one transaction, 1 to 100000.
 * @param out_n   Receives the number of messages deleted, also on failure; may be NULL.
 *
 * Transaction: its own, one per batch; none may be open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_purge(wherry_queue *queue,
							  unsigned states, int64_t batch,
							  int64_t *out_n,
							  wherry_error *err);

/** Delete messages that have expired.  The parameters are those of wherry_queue_purge(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_expire(wherry_queue *queue,
							   int64_t batch, int64_t *out_n,
							   wherry_error *err);

/* ---- topics: one message to every queue that has subscribed ---- */

/**
 * Open the topics of a database, or of one of its schemas.
 *
 * @param db      The connection; borrowed until wherry_topics_close().
 * @param schema  On PostgreSQL and SQL Server the schema of the queues; NULL: the only schema of the
 *                search path that has queues.  On SQLite NULL.
 * @param out     Receives the topics; the caller closes them with wherry_topics_close().
 * @return WHERRY_OK; WHERRY_NOTFOUND (there are no queues); WHERRY_INVALID (no schema is given, and
 *         several of the search path have queues); any code of a failed read.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_open(wherry_db *db,
							  const char *schema,
							  wherry_topics **out,
							  wherry_error *err);

/** Close the topics; the connection stays open.  NULL is allowed. */
WHERRY_API void wherry_topics_close(wherry_topics *topics);

/** Subscribe a queue: it gets each message that is published to the topic from now on.
 *  Subscribing again changes nothing.  WHERRY_NOTFOUND: the schema has no such queue. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_subscribe(wherry_topics *topics,
							       const char *topic,
							       const char *queue,
							       wherry_error *err);

/** End a subscription; WHERRY_NOTFOUND: the queue has not subscribed to the topic. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_unsubscribe(wherry_topics *topics,
								 const char *topic,
								 const char *queue,
								 wherry_error *err);

/** Called for each subscription; if it returns another code than WHERRY_OK, the listing ends. */
typedef wherry_code (*wherry_subscription_fn)(void *ctx, const char *topic,
					      const char *queue);

/** Visit the subscriptions to a topic; NULL: to every topic. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_list(wherry_topics *topics,
							  const char *topic,
							  wherry_subscription_fn visit,
							  void *ctx, wherry_error *err);

/**
 * Send a message to every queue that has subscribed to a topic: to all or to none, with one
 * message id.  The subscriptions are read in the same transaction and never cached.
 *
 * @param msg    Message to send; borrowed for the call.  Its member `topic` is ignored.
 * @param out_n  Receives the number of queues, which may be 0; may be NULL.
 * @return The codes of wherry_queue_send().
 *
 * Transaction: the one that is open, which a failure leaves intact; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_topics_publish(wherry_topics *topics, const char *topic,
		      const wherry_queue_message *msg, int64_t *out_n, wherry_error *err);

WHERRY_END

#endif
