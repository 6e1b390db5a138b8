/*
 * The outbox: a table that business transactions write messages to.
 *
 * Enqueue joins the caller's transaction.  A relay (wherry/relay.h) does the rest; the
 * operations under "for relays" are for programs that bring their own.
 */
#ifndef WHERRY_OUTBOX_H
#define WHERRY_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/lease.h>
#include <wherry/message.h>

/* One outbox table on one connection.  Use it and the connection from one thread at a time. */
typedef struct wherry_outbox wherry_outbox;

/*
 * Flags of wherry_outbox_enqueue().  WHERRY_LOCK_KEY waits for other transactions that enqueue
 * the same key with this flag, so the ids of the key's messages have the order of their commits.
 * On SQLite, which has one writer at a time, they have that order without the flag.
 */
enum {
	WHERRY_OWN_TRANSACTION = 1, /* If no transaction is open, open and commit one. */
	WHERRY_LOCK_KEY = 2
};

/* Selects the rows that meet all conditions; start from WHERRY_OUTBOX_FILTER(...). */
typedef struct wherry_outbox_filter {
	size_t size; /* Set it to sizeof(wherry_outbox_filter). */
	/* Bits 1 << wherry_state; 0: the states that the function names. */
	unsigned states;
	const char *ident; /* The row's message_id, or its id in digits; NULL: any. */
	const char *topic; /* The whole topic; NULL: any. */
	/* Explicit key, or aggregate id of a row without one; NULL: any. */
	const char *key;
	/* Most time since creation, microseconds; 0: any. */
	int64_t since_us;
	int64_t after_id; /* Only rows with a higher id, for paging. */
	int64_t limit;    /* Most rows; 0: 100 for list, else all. */
	/* Only wherry_outbox_list() reads the following members. */
	bool newest; /* Visit from the highest id down. */
	/* With newest: only rows with a lower id, for paging; 0: any. */
	int64_t before_id;
	const char *topic_prefix; /* Beginning of the topic; NULL: any. */
	/* Part of topic, key, message id, last error or body; NULL: any. */
	const char *text;
	int64_t older_us; /* Least time since creation, microseconds; 0: any. */
} wherry_outbox_filter;

/* In C: WHERRY_OUTBOX_FILTER(.topic = "orders").  WHERRY_OUTBOX_FILTER() matches every row. */
#define WHERRY_OUTBOX_FILTER(...) WHERRY_SIZED(wherry_outbox_filter, __VA_ARGS__)

/* Options for creating an outbox; start from WHERRY_OUTBOX_OPTIONS(...). */
typedef struct wherry_outbox_options {
	size_t size; /* Set it to sizeof(wherry_outbox_options). */
	/* "log", "event-bus", "eventferry" or "debezium"; NULL: the layout of the table that
	 * exists, else log. */
	const char *layout;
	/* Type of the bodies of Wherry's own tables.  PostgreSQL: "json", "jsonb", "text" or
	 * "bytea"; SQL Server: "text" or "bytea".  NULL: the type of the table that
	 * exists, else json, on SQL Server text. */
	const char *payload;
	/* Create what several relays need to share the outbox. */
	bool partitions;
	/* Create an index that refuses a second message with the same message_id. */
	bool unique_ids;
	/* PostgreSQL: divide the table into segments of this many ids, 10 or more, and
	 * delete old messages by whole segments.  Only for an outbox that does not exist
	 * yet, and not with unique_ids.  0: no segments. */
	int64_t segments;
} wherry_outbox_options;

/* In C: WHERRY_OUTBOX_OPTIONS(.payload = "bytea"). */
#define WHERRY_OUTBOX_OPTIONS(...) WHERRY_SIZED(wherry_outbox_options, __VA_ARGS__)

/* A row that list and show visit.  Later versions add members at the end. */
typedef struct wherry_row {
	const wherry_message *message; /* The message; borrowed for the call. */
	wherry_state state;            /* State of the message. */
	/* When it was last claimed, Unix time, microseconds; 0: never. */
	int64_t claimed_at_us;
	/* When it is to be retried, Unix time, microseconds; 0: no retry. */
	int64_t next_retry_at_us;
	/* When it was delivered, Unix time, microseconds; 0: it was not, or the layout, such as
	 * log, does not keep the time. */
	int64_t processed_at_us;
	const char *last_error; /* Why the last attempt failed; NULL: none failed. */
	/* From show only: lowest open id before this one with the same key; 0: none. */
	int64_t held_by;
	/* From show only: lowest dead id with the same key, behind which
	 * relay.on_dead=park holds this message; 0: none, or this message is not open. */
	int64_t parked_by;
} wherry_row;

/* Counts and state of an outbox.  Later versions add members at the end. */
typedef struct wherry_outbox_status {
	/* Rows by state; of a log, as the subscription has them. */
	int64_t count[WHERRY_STATE_COUNT];
	/* Age of the oldest message that could be delivered now, microseconds; 0: none.
	 * Only the first 10,000 pending messages are examined. */
	int64_t oldest_ready_us;
	/* Messages that could be delivered now: no earlier message of their key waits for
	 * a retry.  Of a log the first 25,000 pending messages are compared with failed ones. */
	int64_t ready;
	/* wherry_outbox_pause() was called, and wherry_outbox_resume() was not. */
	bool paused;
	int64_t epoch; /* Epoch of the last lease; 0: there never was one. */
	/* Time until the lease expires, microseconds; 0: no relay holds it. */
	int64_t lease_left_us;
	/* Name of the relay that holds the lease, or held it last. */
	char owner[96];
	/* Engine of that relay, such as "log"; "": not known. */
	char engine[16];
	int schema_version; /* Schema version of the tables. */
	char layout[24];    /* Layout of the table, such as "log" or "event-bus". */

	/* Report of the relay that holds the lease, or held it last.  It writes the report every
	 * few seconds, and at once when the destination fails or is up again.  Times are in
	 * microseconds; -1: not known, or it never happened. */
	/* "leading", "paused", "retrying" (the destination), "stopped"; "": not known. */
	char state[16];
	int64_t state_us;      /* Time since the relay entered this state. */
	char destination[128]; /* Scheme and host of the destination's URL. */
	int64_t delivered;     /* Messages delivered since the relay took the lease. */
	int64_t delivered_us;  /* Time since the last delivery. */
	char error[200];       /* Why the last failed delivery failed; "": none failed. */
	int64_t error_us;      /* Time since that failure. */

	/* Bits of states of which there may be more messages than count[] says, as in
	 * wherry_outbox_filter.states.  Of a log at most 5,000,000 messages are counted behind the
	 * position and 1,000,000 before it; of a subscription of some topics a tenth. */
	unsigned at_least;
} wherry_outbox_status;

/**
 * Called for each row, in id order; the row and what it points to are borrowed for the call.
 * If it returns another code than WHERRY_OK, the listing ends and returns that code.
 */
typedef wherry_code (*wherry_row_fn)(void *ctx, const wherry_row *row);

WHERRY_BEGIN

/* ---- schema ---- */

/**
 * Create the outbox, or bring it up to date.  Programs may repeat this, also at the same time.
 *
 * @param db     A connection with no transaction open.
 * @param table    Name of the outbox: a letter or _, then letters, digits and _, at most 48
 *                 characters.  On PostgreSQL and SQL Server any text is allowed, also
 *                 SCHEMA.TABLE, with or without double quotes around each part.
 * @param options  Options; borrowed for the call.  NULL: the defaults.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not an outbox);
 *         WHERRY_TOONEW (a newer program made it, and this one may not use it);
 *         WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own, one per schema version.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_create(wherry_db *db, const char *table,
		     const wherry_outbox_options *options, wherry_error *err);

/**
 * Write out the SQL of wherry_outbox_create(), for the user's own migration tool.
 *
 * @param scheme  Scheme of the database's URL, such as "sqlite".
 * @param table   Name of the outbox; see wherry_outbox_create().
 * @param options Options; borrowed for the call.  NULL: the defaults.
 * @param out     Receives the text; the caller frees it with free().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID, WHERRY_UNSUPPORTED or WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_create_sql(
	const char *scheme, const char *table, const wherry_outbox_options *options,
	char **out, wherry_error *err);

/**
 * Open an outbox that exists.
 *
 * @param db     Connection to its database; borrowed until wherry_outbox_close().
 * @param table  Name of the outbox; copied.
 * @param out    Receives the outbox; the caller closes it with wherry_outbox_close().
 * @param err    Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such table: run
 *         `wherry create`); WHERRY_TOONEW; any code of a failed read.
 *
 * Blocks: for two small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_open(wherry_db *db,
							  const char *table,
							  wherry_outbox **out,
							  wherry_error *err);

/** Close an outbox; its connection stays open.  NULL is allowed. */
WHERRY_API void wherry_outbox_close(wherry_outbox *outbox);

/* ---- for producers ---- */

/**
 * Add a message, inside the caller's open transaction.
 *
 * It is delivered after that transaction commits, and never if it rolls back.
 *
 * @param outbox  The outbox.
 * @param msg     Message to add; borrowed for the call.
 * @param flags   0, or some of WHERRY_OWN_TRANSACTION and WHERRY_LOCK_KEY.
 * @param out_id  Receives the message's id; may be NULL.
 * @param err     Details on failure; may be NULL.
 *
 * @return WHERRY_OK;
 *         WHERRY_DUPLICATE the outbox was created with unique_ids, and has a message with this
 *                          message_id: nothing was added, and the transaction is intact;
 *         WHERRY_INVALID   no transaction is open, the message has no topic, its headers are
 *                          not a JSON object, or a text is not UTF-8;
 *         WHERRY_TOOBIG    a field is over its limit, or the body over 16 MiB;
 *         WHERRY_BUSY, WHERRY_READONLY, WHERRY_FULL or WHERRY_IO if the database fails so.
 *
 * Transaction: required unless WHERRY_OWN_TRANSACTION is set; a failure leaves it intact.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_enqueue(wherry_outbox *outbox,
							     const wherry_message *msg,
							     unsigned flags,
							     int64_t *out_id,
							     wherry_error *err);

/**
 * Add many messages, all or none, in the order of the array.
 *
 * @param outbox   The outbox.
 * @param msgs     Messages to add; borrowed for the call.
 * @param n        Number of messages.
 * @param flags    0, or some of WHERRY_OWN_TRANSACTION and WHERRY_LOCK_KEY.
 * @param out_ids  Receives n ids, 0 for a duplicate, which is not added; may be NULL.
 * @param err      Details on failure, naming the message; may be NULL.
 * @return The codes of wherry_outbox_enqueue(), except WHERRY_DUPLICATE.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_enqueue_many(wherry_outbox *outbox, const wherry_message *msgs, size_t n,
			   unsigned flags, int64_t *out_ids, wherry_error *err);

/* ---- for operators ---- */

/**
 * Read counts, ages and the lease.  Of a log with many messages not all are counted.
 *
 * @param size  sizeof(*out): the members that a program was compiled with are written.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_get_status(wherry_outbox *outbox,
								wherry_outbox_status *out,
								size_t size,
								wherry_error *err);

/** Count the rows of each state, however many; out_count[WHERRY_DEAD] is the number of dead messages. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_count(
	wherry_outbox *outbox, int64_t out_count[WHERRY_STATE_COUNT], wherry_error *err);

/** Read the age, in microseconds, of the oldest message that may be delivered now; 0: there is
 *  none.  Messages that wait for a retry do not count. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_oldest_ready(wherry_outbox *outbox,
								  int64_t *out_age_us,
								  wherry_error *err);

/** Visit the rows that match, in id order, or with filter->newest from the highest id down.
 *  Rows of every state match unless the filter names states. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_list(wherry_outbox *outbox, const wherry_outbox_filter *filter,
		   wherry_row_fn visit, void *ctx, wherry_error *err);

/**
 * Visit one row, with the messages that hold it back.
 *
 * @param ident  Message_id of the row, or its id in digits.
 * @return WHERRY_OK; WHERRY_NOTFOUND; any code of a failed read.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_show(wherry_outbox *outbox,
							  const char *ident,
							  wherry_row_fn visit, void *ctx,
							  wherry_error *err);

/** Make dead messages that match pending again, and set their attempts to 0.  If
 *  filter->states has the bit of WHERRY_FAILED, failed messages become pending too and need not
 *  wait for their retry.  out_n receives the number of messages; may be NULL. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_retry(wherry_outbox *outbox, const wherry_outbox_filter *filter,
		    int64_t *out_n, wherry_error *err);

/**
 * Delete one message that was not delivered: pending, in flight, failed or dead.
 *
 * A relay that has the message in flight may still deliver it; its acknowledgement then changes
 * nothing.  The relay goes on with later messages of the key.
 *
 * @param ident  Message_id of the message, or its id in digits.
 * @return WHERRY_OK; WHERRY_NOTFOUND: there is no such message, or it was delivered, or a log has
 *         other subscriptions and it neither failed nor died in this one;
 *         WHERRY_UNSUPPORTED: the outbox can only be streamed.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_discard(wherry_outbox *outbox,
							     const char *ident,
							     wherry_error *err);

/** Stop all deliveries until wherry_outbox_resume(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_pause(wherry_outbox *outbox,
							   wherry_error *err);

/** End the pause that wherry_outbox_pause() began. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_resume(wherry_outbox *outbox,
							    wherry_error *err);

/**
 * Delete done messages.
 *
 * @param older_than_us  Least time since delivery, microseconds, by the database's clock.
 * @param batch          Rows in one transaction, 1 to 100000.
 * @param max_rows       Most rows to delete; 0: all.
 * @param out_n          Receives the number of deleted rows, also on failure; may be NULL.
 *
 * Transaction: its own, one per batch; none may be open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_purge(wherry_outbox *outbox, int64_t older_than_us, int64_t batch,
		    int64_t max_rows, int64_t *out_n, wherry_error *err);

/*
 * ---- for relays ----
 *
 * wherry_outbox_lease() and wherry_outbox_join() take a lease.  The other calls name
 * the lease under which they act, except wherry_outbox_reap(), which needs none.
 */

/**
 * Take the lease of the outbox.
 *
 * @param owner      Name of the caller, which status shows.
 * @param lasts_us   Time until the lease expires unless it is renewed, microseconds, by the
 *                   database's clock; at most 36500 days.
 * @param window     Most messages that the holder has in flight at once.
 * @param out        Receives the lease.
 * @return WHERRY_OK; WHERRY_BUSY (another relay holds the lease: err names it); any code of a
 *         failed write.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_lease(wherry_outbox *outbox, const char *owner, int64_t lasts_us,
		    int64_t window, wherry_lease *out, wherry_error *err);

/**
 * Join the relays that share the outbox by claiming messages with wherry_outbox_claim().
 *
 * To renew the lease, call this again with the same lease, whose token stays.  While a relay
 * holds a lease of wherry_outbox_lease(), no relay can join; while a relay has joined, no relay
 * can take such a lease.
 *
 * @param owner     Name of the caller, which status shows.
 * @param lasts_us  Time until the lease expires unless it is renewed, microseconds; at most
 *                  36500 days.
 * @param inout     All zero at first; receives the lease.
 * @return WHERRY_OK; WHERRY_BUSY (a relay of another engine holds the lease: err names it); any
 *         code of a failed write.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_join(wherry_outbox *outbox,
							  const char *owner,
							  int64_t lasts_us,
							  wherry_lease *inout,
							  wherry_error *err);

/** Called for each claimed message, which is borrowed for the call.  If it returns another code
 *  than WHERRY_OK, the claim claims nothing and returns that code. */
typedef wherry_code (*wherry_claim_fn)(void *ctx, const wherry_message *msg);

/**
 * Claim messages in id order: first failed ones that are due, then pending ones.
 *
 * Messages of one key are claimed together, and no other claim gets messages of that key until
 * they are settled or the claim expires.  Settle each message with wherry_outbox_done(),
 * wherry_outbox_fail() or wherry_outbox_requeue() under the same lease.  Settle the messages of a
 * key in order; if one fails, requeue the messages behind it.
 *
 * If a row cannot be handled, for example because a text is not UTF-8 or a number is out of range,
 * that message becomes dead with the reason, and is not visited.
 *
 * @param lease    Lease that wherry_outbox_join() returned.
 * @param out_n    Receives the number of messages claimed and visited; may be NULL.
 *
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_claim(wherry_outbox *outbox, const wherry_lease *lease,
		    const wherry_claim_options *options, wherry_claim_fn visit, void *ctx,
		    int64_t *out_n, wherry_error *err);

/**
 * Claim one message whose claim has expired.
 *
 * The message may have crashed its relay, so deliver it while nothing else is in
 * flight.  This call has counted the attempt.  If the delivery fails, call
 * wherry_outbox_fail() with `counted`.  If the attempts of the message are used up, do
 * not deliver it: call wherry_outbox_fail() with `dead`, `counted` and `not_counted`.
 * This takes back the attempt that was not made.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_claim_expired(wherry_outbox *outbox, const wherry_lease *lease,
			    const wherry_claim_options *options, wherry_claim_fn visit,
			    void *ctx, int64_t *out_n, wherry_error *err);

/** Extend claims: they expire lasts_us microseconds from now, at most 36500 days.  out_n receives
 *  the number of claims extended; may be NULL.  WHERRY_STALE: the lease no longer has some of the claims. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_extend(wherry_outbox *outbox, const wherry_lease *lease, const int64_t *ids,
		     size_t n, int64_t lasts_us, int64_t *out_n, wherry_error *err);

/** Renew a lease, and read its other fields again; WHERRY_STALE: it has expired or was taken. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_renew(wherry_outbox *outbox,
							   wherry_lease *lease,
							   wherry_error *err);

/** Give a lease back after all messages in flight were settled; WHERRY_STALE: it was lost. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_release(wherry_outbox *outbox,
							     const wherry_lease *lease,
							     wherry_error *err);

/**
 * Acknowledge deliveries.  The layout decides what becomes of the rows: a log notes that they are
 * delivered, eventferry's are marked, and those of outbox-event-bus move to its archive.
 *
 * @param ids         Ids of the messages.  Messages that are not open are skipped.  With a lease
 *                    of wherry_outbox_join(), it must have claimed all, or nothing changes.
 * @param n           Number of ids.
 * @param out_n       Receives the number of rows changed; may be NULL.
 * @return WHERRY_OK; WHERRY_STALE (nothing changed); any code of a failed write.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_done(wherry_outbox *outbox,
							  const wherry_lease *lease,
							  const int64_t *ids, size_t n,
							  int64_t *out_n,
							  wherry_error *err);

/** Record failures: increase attempts by one, write last_error, and set the time of the retry,
 *  or make the message dead. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_fail(wherry_outbox *outbox,
							  const wherry_lease *lease,
							  const wherry_failure *failures,
							  size_t n, wherry_error *err);

/** Make messages pending again without counting an attempt. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_requeue(wherry_outbox *outbox,
							     const wherry_lease *lease,
							     const int64_t *ids, size_t n,
							     wherry_error *err);

/** Record that the relay is about to try a suspect alone: set its state to processing and
 *  increase its attempts by one. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_try(wherry_outbox *outbox,
							 const wherry_lease *lease,
							 int64_t id, wherry_error *err);

/** Make messages pending if their claim has expired and began more than claim_timeout_us
 *  microseconds ago.  out_n receives their number; may be NULL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_reap(wherry_outbox *outbox,
							  int64_t claim_timeout_us,
							  int64_t *out_n,
							  wherry_error *err);

WHERRY_END

#endif
