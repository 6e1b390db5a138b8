/*
 * Queues: tables that messages wait in until a receiver takes them.
 *
 * Every operation joins the transaction that is open on the queue's connection.  Where none is
 * open, it opens one, which is committed when the call returns.
 */
#ifndef WHERRY_QUEUE_H
#define WHERRY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/message.h>

/* One queue on one connection.  One thread at a time, as its connection. */
typedef struct wherry_queue wherry_queue;

/* Which queues get what is published, on one connection; threads as of a queue. */
typedef struct wherry_topics wherry_topics;

/*
 * A message of a queue.  All strings are UTF-8 and end in NUL; NULL counts as absent.  Start
 * from WHERRY_QUEUE_MESSAGE(...) or wherry_queue_message_init(), so that `size` is set.
 */
typedef struct wherry_queue_message {
	size_t size;            /* sizeof(wherry_queue_message), so that it can grow */
	const char *message_id; /* at most 255 bytes; NULL: a UUIDv7 is made */
	const char *topic;      /* it was published to; NULL: it was sent to the queue */
	const char *correlation_id; /* at most 255 bytes */
	const char *reply_to;       /* at most 255 bytes: where an answer is expected */
	const char *headers; /* JSON object of strings and nulls, "{}" by default */
	const void *body;    /* bytes of the type the queue keeps */
	size_t body_len;     /* bytes, or WHERRY_TEXT; 0: an empty body */
	int64_t delay_us; /* until it can be received, by the database's clock, at most 36500 days; 0: at once */
	int64_t expires_us; /* how long it may then wait to be received, at most 36500 days; 0: for ever */

	/* Filled in for messages that were received or looked at; ignored when sending. */
	int64_t id;              /* its place in the queue */
	int64_t created_at_us;   /* Unix time, microseconds */
	int64_t available_at_us; /* end of its lease, or when it is due; 0: at once */
	int64_t expires_at_us;   /* Unix time, microseconds; 0: never */
	int32_t attempts; /* times it was leased and not acknowledged, this time included */
	wherry_state state;     /* PENDING: ready; PROCESSING: leased; FAILED: waits until
				    available_at_us; DEAD */
	const char *token;      /* of its lease, for wherry_queue_ack(); NULL: none */
	const char *last_error; /* NULL: none */
} wherry_queue_message;

/* WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = WHERRY_TEXT), in C */
#define WHERRY_QUEUE_MESSAGE(...) WHERRY_SIZED(wherry_queue_message, __VA_ARGS__)

/* How a message that is received leaves the queue. */
typedef enum wherry_receive_mode {
	WHERRY_LEASE, /* hidden from others until the lease ends; wherry_queue_ack() deletes it */
	WHERRY_ATOMIC, /* deleted by the open transaction: a rollback brings it back */
	WHERRY_AT_MOST_ONCE /* deleted and committed before the message is visited */
} wherry_receive_mode;

/* What to receive; start from WHERRY_RECEIVE_OPTIONS(...). */
typedef struct wherry_receive_options {
	size_t size; /* sizeof(wherry_receive_options), so that it can grow */
	wherry_receive_mode mode;
	int64_t limit; /* at most this many messages, up to 10000; 0: 1 */
	int64_t lease_us; /* of WHERRY_LEASE, by the database's clock, at most 36500 days; 0: 30 s */
	int32_t max_attempts; /* a message whose lease expired, or that was given back, after this
				 many attempts dies.  Messages keep the maximum; 0: theirs */
} wherry_receive_options;

/* WHERRY_RECEIVE_OPTIONS(.limit = 10), in C */
#define WHERRY_RECEIVE_OPTIONS(...) WHERRY_SIZED(wherry_receive_options, __VA_ARGS__)

/* Why messages go back; start from WHERRY_NACK(...). */
typedef struct wherry_nack {
	size_t size; /* sizeof(wherry_nack), so that it can grow */
	int64_t delay_us; /* until they can be received again, at most 36500 days; 0: at once, in turns with ready
			   * ones, or if not_counted in their old place */
	const char *
		error; /* kept as last_error, cut at 500 bytes; NULL: the one before stays */
	bool not_counted; /* it was not the message's fault: the attempt does not count */
} wherry_nack;

/* WHERRY_NACK(.error = "no route"), in C */
#define WHERRY_NACK(...) WHERRY_SIZED(wherry_nack, __VA_ARGS__)

/* Which messages; start from WHERRY_QUEUE_FILTER(...). */
typedef struct wherry_queue_filter {
	size_t size;      /* sizeof(wherry_queue_filter), so that it can grow */
	unsigned states;  /* bits 1 << wherry_state; 0: all */
	int64_t after_id; /* only ids above; for paging */
	int64_t limit;    /* at most this many; 0: 100 */
} wherry_queue_filter;

/* WHERRY_QUEUE_FILTER(.limit = 10), in C; WHERRY_QUEUE_FILTER() is any message */
#define WHERRY_QUEUE_FILTER(...) WHERRY_SIZED(wherry_queue_filter, __VA_ARGS__)

/* How to create a queue; start from WHERRY_QUEUE_OPTIONS(...). */
typedef struct wherry_queue_options {
	size_t size;         /* sizeof(wherry_queue_options), so that it can grow */
	const char *layout;  /* "native" or, on PostgreSQL and SQL Server, "nservicebus";
			       NULL: that of the table that exists, else native */
	const char *payload; /* type of the bodies of a native queue.  PostgreSQL: "json",
				"jsonb", "text" or "bytea"; SQL Server: "text" or "bytea".
				NULL: that of the queue that exists, else json, on SQL
				Server text */
} wherry_queue_options;

/* WHERRY_QUEUE_OPTIONS(.payload = "bytea"), in C */
#define WHERRY_QUEUE_OPTIONS(...) WHERRY_SIZED(wherry_queue_options, __VA_ARGS__)

/* A queue at a glance.  Later versions add members at the end. */
typedef struct wherry_queue_status {
	int64_t ready;           /* messages that can be received now */
	int64_t leased;          /* messages that were received and not acknowledged */
	int64_t waiting;         /* delayed messages, and those to be retried later */
	int64_t dead;            /* messages that need a person */
	int64_t oldest_ready_us; /* age of the first ready message, microseconds; 0: none */
	int schema_version;
	char layout[24]; /* of its table: "native" */
	bool paused; /* wherry_queue_pause() was called; wherry_queue_resume() was not */
} wherry_queue_status;

/**
 * Called for each message in the order of the queue; the message is borrowed for the call.
 * Returning another code than WHERRY_OK ends the call that visits, which then returns that code.
 */
typedef wherry_code (*wherry_queue_fn)(void *ctx, const wherry_queue_message *msg);

WHERRY_BEGIN

/** Set every field of *msg to absent and its size; for C++ and for plain structs. */
WHERRY_API void wherry_queue_message_init(wherry_queue_message *msg);

/* ---- schema ---- */

/**
 * Create a queue, or bring it up to date; doing it twice is fine, also at once.
 *
 * @param db       A connection with no transaction open.
 * @param name     As of wherry_outbox_init(): on PostgreSQL and SQL Server also
 *                 SCHEMA.NAME.
 * @param options  NULL: all as the members say for NULL.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not a queue; a
 *         queue that keeps another type; no such layout); WHERRY_UNSUPPORTED: the layout is
 *         not on this database; WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY;
 *         WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_create(wherry_db *db, const char *name, const wherry_queue_options *options,
		    wherry_error *err);

/** Write out the SQL of wherry_queue_create(): *out is given, free() it.
 *  scheme: the database, as in its URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_create_sql(
	const char *scheme, const char *name, const wherry_queue_options *options,
	char **out, wherry_error *err);

/**
 * Open a queue that exists.
 *
 * @param db    Its connection; borrowed until wherry_queue_close().
 * @param name  Its name; copied.
 * @param out   Receives the queue; given, close with wherry_queue_close().
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such queue);
 *         WHERRY_TOONEW; what a read can fail with.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_open(wherry_db *db, const char *name,
							 wherry_queue **out,
							 wherry_error *err);

/** Close a queue; its connection stays open.  NULL is fine. */
WHERRY_API void wherry_queue_close(wherry_queue *queue);

/** Remove a queue with all its messages and its subscriptions.  The handle stays open, and is
 *  good for wherry_queue_close() alone. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_drop(wherry_queue *queue,
							 wherry_error *err);

/* ---- for senders ---- */

/**
 * Add a message.
 *
 * @param msg     What to send; borrowed.
 * @param out_id  Receives its id, by which wherry_queue_cancel() knows it; may be NULL.
 * @return WHERRY_OK;
 *         WHERRY_INVALID  headers that are not a JSON object of strings and nulls, a body that
 *                         the queue cannot keep, text that is not UTF-8, a negative time;
 *         WHERRY_TOOBIG   a field is over its limit, the body over 16 MiB;
 *         what a write can fail with.
 *
 * Transaction: the one that is open, which is intact after a failure; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_send(wherry_queue *queue,
							 const wherry_queue_message *msg,
							 int64_t *out_id,
							 wherry_error *err);

/** Add many messages, all or none, in the order given.  out_ids receives n ids; may be NULL.
 *  On PostgreSQL it is one statement.  All of them have the size of the first. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_send_many(wherry_queue *queue, const wherry_queue_message *msgs, size_t n,
		       int64_t *out_ids, wherry_error *err);

/** Take back a message that nobody has received, delayed or not.
 *  WHERRY_NOTFOUND: it was received, or there is no such message. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_cancel(wherry_queue *queue,
							   int64_t id, wherry_error *err);

/* ---- for receivers ---- */

/**
 * Receive messages: first those whose delay or lease has ended, then the lowest that no other
 * transaction has locked.  It does not wait for one.
 *
 * Expired messages are deleted instead.  A message whose headers are not a JSON object of
 * strings and nulls becomes dead in the same transaction, and is not visited.
 *
 * With WHERRY_LEASE, settle each with wherry_queue_ack(), wherry_queue_nack() or
 * wherry_queue_dead_letter() under the token in the message; those of one call have one token.
 *
 * @param options  NULL: one message, leased for 30 s.
 * @param visit    Sees each message after the statement is done.  With WHERRY_LEASE and
 *                 WHERRY_ATOMIC, if it fails, the messages not visited yet stay received.
 * @param out_n    Receives how many messages were received; may be NULL.
 * @return WHERRY_OK, also if there was none; WHERRY_INVALID (no transaction is open for
 *         WHERRY_ATOMIC, or one is for WHERRY_AT_MOST_ONCE; options out of range); what a write
 *         can fail with: then roll back a transaction that is open; what visit returned.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_receive(wherry_queue *queue, const wherry_receive_options *options,
		     wherry_queue_fn visit, void *ctx, int64_t *out_n, wherry_error *err);

/**
 * Wait until a message can be received; another receiver may then be faster.
 *
 * Where the connection is our own and not behind a pooler, a sender on PostgreSQL wakes the
 * waiting receiver when it commits.  Elsewhere this looks up to four times a second.
 *
 * @param timeout_us  How long at most; 0: only look.
 * @param out_any     Receives whether there is a message; false also after a signal.
 * @return WHERRY_OK; WHERRY_INVALID: a transaction is open; what a read can fail with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_wait(wherry_queue *queue,
							 int64_t timeout_us,
							 bool *out_any,
							 wherry_error *err);

/**
 * Acknowledge messages: delete them.
 *
 * @param token  Of their lease.
 * @param ids    Which; n of them.
 * @param out_n  Receives how many were deleted, also with WHERRY_STALE; may be NULL.
 * @return WHERRY_OK; WHERRY_STALE: the lease of some of them ended and another receiver has
 *         them, or they were settled before; the others are deleted.
 *
 * A lease that has ended is still good while nobody else has received the message.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_ack(wherry_queue *queue,
							const char *token,
							const int64_t *ids, size_t n,
							int64_t *out_n,
							wherry_error *err);

/** Give messages back; parameters and codes as wherry_queue_ack().  how: NULL: at once. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_nack(wherry_queue *queue, const char *token, const int64_t *ids, size_t n,
		  const wherry_nack *how, int64_t *out_n, wherry_error *err);

/** Let leases last from now on for lease_us; the rest as wherry_queue_ack(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_extend(wherry_queue *queue, const char *token, const int64_t *ids, size_t n,
		    int64_t lease_us, int64_t *out_n, wherry_error *err);

/** Give messages up: they become dead, with this reason, cut at 500 bytes; the rest as
 *  wherry_queue_ack(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_dead_letter(wherry_queue *queue, const char *token, const int64_t *ids,
			 size_t n, const char *reason, int64_t *out_n, wherry_error *err);

/* ---- for operators ---- */

/** Visit messages in the order of their ids.  It locks and changes nothing: receivers that work
 *  meanwhile do not notice. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_queue_peek(wherry_queue *queue, const wherry_queue_filter *filter,
		  wherry_queue_fn visit, void *ctx, wherry_error *err);

/**
 * Count the messages exactly.  It reads an index entry for each.
 *
 * @param size  sizeof(*out): the members that a program was compiled with are written.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_get_status(wherry_queue *queue,
							       wherry_queue_status *out,
							       size_t size,
							       wherry_error *err);

/** Estimate the number of messages.  On PostgreSQL from the server's statistics, without
 *  counting, of all states, about a second late; on SQLite the ready ones, counted. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_estimate(wherry_queue *queue,
							     int64_t *out_n,
							     wherry_error *err);

/** Read how long until a message can be received; 0: one can be now; -1: there is none that
 *  waits or is leased. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_next_due(wherry_queue *queue,
							     int64_t *out_us,
							     wherry_error *err);

/** Called for each thing that is wrong; both texts are borrowed for the call.  Returning another
 *  code than WHERRY_OK ends the call that visits. */
typedef wherry_code (*wherry_queue_finding_fn)(void *ctx, const char *what,
					       const char *repair);

/**
 * Look for what is wrong with the tables of a queue: indexes, triggers, constraints and other
 * tables that are missing, columns of a wrong type.  Nothing is changed.
 *
 * @param visit  Sees what is wrong, and the SQL that repairs it, or a command that begins with
 *               "wherry ", without the words that name the queue.
 * @return WHERRY_OK, also if nothing is wrong; what a read can fail with; what visit returned.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_inspect(wherry_queue *queue,
							    wherry_queue_finding_fn visit,
							    void *ctx, wherry_error *err);

/**
 * Visit one message, in whatever state it is.  It locks and changes nothing.
 *
 * @param ident  Its id in digits, or its message id.  A message id is looked for from the
 *               beginning of the queue, message by message.
 * @return WHERRY_OK; WHERRY_NOTFOUND; what a read can fail with; what visit returned.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_show(wherry_queue *queue,
							 const char *ident,
							 wherry_queue_fn visit, void *ctx,
							 wherry_error *err);

/** Make dead messages ready again, in their old places, with no attempts counted.
 *  id: 0: all of them.  WHERRY_NOTFOUND: that message is not dead. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_retry(wherry_queue *queue, int64_t id,
							  int64_t *out_n,
							  wherry_error *err);

/**
 * Delete one message, in whatever state it is.  A receiver that has leased it cannot acknowledge
 * it any more.
 *
 * @param id  As wherry_queue_peek() and wherry_queue_show() give it.
 * @return WHERRY_OK; WHERRY_NOTFOUND; what a write can fail with.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_discard(wherry_queue *queue,
							    int64_t id,
							    wherry_error *err);

/**
 * Let relays deliver nothing from the queue until wherry_queue_resume().  Senders and receivers go on.
 *
 * @return WHERRY_OK; WHERRY_UNSUPPORTED: no relay works on this layout; what a write can fail with.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_pause(wherry_queue *queue,
							  wherry_error *err);

/** Take back wherry_queue_pause(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_resume(wherry_queue *queue,
							   wherry_error *err);

/**
 * Delete messages in these states, but none that is leased.
 *
 * @param states  Bits 1 << wherry_state; 0: ready, waiting and dead ones.
 * @param batch   Rows in one transaction, 1 to 100000.
 * @param out_n   Receives how many went, also on failure; may be NULL.
 *
 * Transaction: its own, one per batch; none may be open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_purge(wherry_queue *queue,
							  unsigned states, int64_t batch,
							  int64_t *out_n,
							  wherry_error *err);

/** Delete messages that have expired; parameters as wherry_queue_purge(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_queue_expire(wherry_queue *queue,
							   int64_t batch, int64_t *out_n,
							   wherry_error *err);

/* ---- topics: one message to every queue that has subscribed ---- */

/**
 * Open the topics of a database, or of one of its schemas.
 *
 * @param db      The connection; borrowed until wherry_topics_close().
 * @param schema  On PostgreSQL the schema that has the queues; NULL: the first of the search
 *                path that has some.  On SQLite NULL.
 * @param out     Receives the topics; given, close with wherry_topics_close().
 * @return WHERRY_OK; WHERRY_NOTFOUND (there are no queues); what a read can fail with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_open(wherry_db *db,
							  const char *schema,
							  wherry_topics **out,
							  wherry_error *err);

/** Close them; the connection stays open.  NULL is fine. */
WHERRY_API void wherry_topics_close(wherry_topics *topics);

/** Let a queue get what is published to a topic from now on; doing it twice is fine.
 *  WHERRY_NOTFOUND: there is no such queue in the schema. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_subscribe(wherry_topics *topics,
							       const char *topic,
							       const char *queue,
							       wherry_error *err);

/** Take that back; WHERRY_NOTFOUND: the queue has not subscribed to the topic. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_unsubscribe(wherry_topics *topics,
								 const char *topic,
								 const char *queue,
								 wherry_error *err);

/** Called for each subscription; returning another code than WHERRY_OK ends the listing. */
typedef wherry_code (*wherry_subscription_fn)(void *ctx, const char *topic,
					      const char *queue);

/** Visit the subscriptions to a topic, or with NULL all of them. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_topics_list(wherry_topics *topics,
							  const char *topic,
							  wherry_subscription_fn visit,
							  void *ctx, wherry_error *err);

/**
 * Send a message to every queue that has subscribed to a topic: to all or to none, under one
 * message id.  Which queues these are is read in the same transaction: nothing is cached.
 *
 * @param msg    What to send; its topic is not looked at.
 * @param out_n  Receives the number of queues, which may be 0; may be NULL.
 * @return as wherry_queue_send().
 *
 * Transaction: as of wherry_queue_send().
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_topics_publish(wherry_topics *topics, const char *topic,
		      const wherry_queue_message *msg, int64_t *out_n, wherry_error *err);

WHERRY_END

#endif
