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

/* One outbox table on one connection.  One thread at a time, as its connection. */
typedef struct wherry_outbox wherry_outbox;

/*
 * Flags of enqueue.  WHERRY_LOCK_KEY waits for other transactions that write the same key with
 * it, so that the key's messages have their ids in the order of their commits; where there is
 * one writer at a time, as on SQLite, that is so anyway.
 */
enum {
	WHERRY_OWN_TRANSACTION = 1, /* open and commit one if none is open */
	WHERRY_LOCK_KEY = 2
};

/* Which rows; start from WHERRY_FILTER(...).  Conditions are joined by "and". */
typedef struct wherry_filter {
	size_t size;       /* sizeof(wherry_filter), so that it can grow */
	unsigned states;   /* bits 1 << wherry_state; 0: as the call says */
	const char *ident; /* a message_id, else a number in `id`; NULL: any */
	const char *topic; /* NULL: any */
	const char *key;   /* explicit key, else aggregate id; NULL: any */
	int64_t since_us;  /* created (replay: delivered) at most this long ago; 0: any */
	int64_t after_id;  /* only ids above; for paging */
	int64_t limit;     /* at most this many rows; 0: 100 for list, else all */
	/* For wherry_outbox_list() alone: */
	bool archived;            /* rows of the archive instead, which are all done */
	bool newest;              /* from the highest id down; not with archived */
	int64_t before_id;        /* only ids below, with newest; for paging; 0: any */
	const char *topic_prefix; /* topics that begin with it; NULL: any */
	const char *text;         /* contained in topic, key, message id, last error or
	                             body; NULL: any */
	int64_t older_us;         /* created at least this long ago; 0: any */
} wherry_filter;

/* WHERRY_FILTER(.topic = "orders"), in C; WHERRY_FILTER() is any row */
#define WHERRY_FILTER(...) WHERRY_SIZED(wherry_filter, __VA_ARGS__)

/* How to create an outbox; start from WHERRY_INIT_OPTIONS(...). */
typedef struct wherry_init_options {
	size_t size; /* sizeof(wherry_init_options), so that it can grow */
	const char
		*layout; /* "native", "event-bus", "eventferry", "eventferry-sole" (with
				the tables of a lease, for relay.sole), "debezium";
				NULL: that of the table that exists, else native */
	const char *payload; /* type of the bodies of a native table.  PostgreSQL: "json",
				"jsonb", "text" or "bytea"; SQL Server: "text" or "bytea".
				NULL: that of the table that exists, else json, on SQL
				Server text */
	bool strict;         /* what relay.ordering=key-strict needs */
	bool partitions;     /* what several exclusive relays need to share the outbox */
} wherry_init_options;

/* WHERRY_INIT_OPTIONS(.payload = "bytea"), in C */
#define WHERRY_INIT_OPTIONS(...) WHERRY_SIZED(wherry_init_options, __VA_ARGS__)

/* A row as list and show see it.  Later versions add members at the end. */
typedef struct wherry_row {
	const wherry_message *message;
	wherry_state state;
	int64_t claimed_at_us;    /* Unix time, microseconds; 0 if never */
	int64_t next_retry_at_us; /* as claimed_at_us */
	int64_t processed_at_us;  /* as claimed_at_us */
	const char *last_error;   /* NULL if none */
	int64_t held_by; /* show only: the lowest open id of its key before it, 0 if none */
	int64_t parked_by; /* show only: the lowest dead id of its key, 0 if none or if it
	                      is not open; holds it back under relay.on_dead=park */
	bool archived;     /* it is in the table NAME_archive; done */
} wherry_row;

/* An outbox at a glance.  Later versions add members at the end. */
typedef struct wherry_status {
	int64_t count[WHERRY_STATE_COUNT]; /* rows by state */
	int64_t archived;        /* rows in the archive, which are not in count */
	int64_t oldest_ready_us; /* age of the oldest that could be delivered now, 0 if
				    none; of pending ones the first 10,000 are looked
				    at */
	int64_t ready;           /* messages that could be delivered now: nothing of their
				    key before them waits for a retry */
	bool paused;
	int64_t epoch;         /* of the last lease, 0 if there never was one */
	int64_t lease_left_us; /* >0: a relay holds it for so long yet */
	char owner[96];        /* of the last lease */
	char engine[16];       /* "exclusive", … or "" */
	int schema_version;
	char layout[24]; /* of its table: "native", "event-bus" */

	/* What the relay that holds the lease, or held it last, wrote of itself; it writes every
	 * few seconds, and at once when the destination fails or is up again.  Ages in
	 * microseconds; -1: not known, or never. */
	char state[16];   /* "leading", "paused", "retrying" (the destination), "stopped";
				  "": not known */
	int64_t state_us; /* since when it is in this state */
	char destination[128]; /* scheme and host of its URL */
	int64_t delivered;     /* messages since it took the lease */
	int64_t delivered_us;  /* since the last one was delivered */
	char error[200];       /* why the last delivery that failed did; "": none did */
	int64_t error_us;      /* since then */
} wherry_status;

/**
 * Called for each row, in id order; everything it is given is borrowed for the call.
 * Returning another code than WHERRY_OK ends the listing, which then returns that code.
 */
typedef wherry_code (*wherry_row_fn)(void *ctx, const wherry_row *row);

WHERRY_BEGIN

/* ---- schema ---- */

/**
 * Create the outbox, or bring it up to date; doing it twice is fine, also at once.
 *
 * @param db     A connection with no transaction open.
 * @param table    Its name: a letter or _, then letters, digits and _, at most 48.  On
 *                 PostgreSQL and SQL Server any text, also SCHEMA.TABLE, each part
 *                 maybe in double quotes.
 * @param options  How; borrowed for the call, NULL for the defaults.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not an outbox);
 *         WHERRY_TOONEW (made by a newer program that says we may not); WHERRY_READONLY;
 *         WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own, one per version.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_init(wherry_db *db, const char *table, const wherry_init_options *options,
		   wherry_error *err);

/**
 * Write out the SQL of wherry_outbox_init(), for the user's own migration tool.
 *
 * @param scheme  The database, as in its URL: "sqlite".
 * @param table   The name of the outbox.
 * @param options As wherry_outbox_init().
 * @param out     Receives the text; given, free() it.
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK, WHERRY_INVALID, WHERRY_UNSUPPORTED or WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_init_sql(const char *scheme, const char *table,
		       const wherry_init_options *options, char **out, wherry_error *err);

/**
 * Open an outbox that exists.
 *
 * @param db     Its connection; borrowed until wherry_outbox_close().
 * @param table  Its name; copied.
 * @param out    Receives the outbox; given, close with wherry_outbox_close().
 * @param err    Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such table: run
 *         `wherry init`); WHERRY_TOONEW; what a read can fail with.
 *
 * Blocks: for two small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_open(wherry_db *db,
							  const char *table,
							  wherry_outbox **out,
							  wherry_error *err);

/** Close an outbox; its connection stays open.  NULL is fine. */
WHERRY_API void wherry_outbox_close(wherry_outbox *box);

/* ---- for producers ---- */

/**
 * Add a message, inside the caller's open transaction.
 *
 * It is delivered after that transaction commits, and never if it rolls back.
 *
 * @param box     The outbox.
 * @param msg     What to send; borrowed.
 * @param flags   0, or some of WHERRY_OWN_TRANSACTION and WHERRY_LOCK_KEY.
 * @param out_id  Receives the message's id; may be NULL.
 * @param err     Details on failure; may be NULL.
 *
 * @return WHERRY_OK;
 *         WHERRY_DUPLICATE a message with this message_id exists: nothing was added, and
 *                          the transaction is intact;
 *         WHERRY_INVALID   no transaction is open, no topic, headers that are not a JSON
 *                          object, text that is not UTF-8;
 *         WHERRY_TOOBIG    a field is over its limit, the body over 16 MiB;
 *         WHERRY_BUSY, WHERRY_READONLY, WHERRY_FULL, WHERRY_IO as the database says.
 *
 * Transaction: required unless WHERRY_OWN_TRANSACTION; after a failure it is as before.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_enqueue(wherry_outbox *box,
							     const wherry_message *msg,
							     unsigned flags,
							     int64_t *out_id,
							     wherry_error *err);

/**
 * Add many messages, all or none, in the order given.
 *
 * @param box      The outbox.
 * @param msgs     What to send; borrowed.
 * @param n        How many.
 * @param flags    0, or some of WHERRY_OWN_TRANSACTION and WHERRY_LOCK_KEY.
 * @param out_ids  Receives n ids, 0 for a duplicate, which is passed over; may be NULL.
 * @param err      Details on failure, naming the message; may be NULL.
 * @return as wherry_outbox_enqueue(), except WHERRY_DUPLICATE.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_enqueue_many(wherry_outbox *box, const wherry_message *msgs, size_t n,
			   unsigned flags, int64_t *out_ids, wherry_error *err);

/* ---- for operators ---- */

/**
 * Read counts, ages and the lease.  Counting costs an index scan.
 *
 * @param size  sizeof(*out): the members that a program was compiled with are written.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_status(wherry_outbox *box,
							    wherry_status *out,
							    size_t size,
							    wherry_error *err);

/** Count the rows by state. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_count(
	wherry_outbox *box, int64_t out_count[WHERRY_STATE_COUNT], wherry_error *err);

/** Read the age in microseconds of the oldest message that may be delivered now; 0: none.
 *  Messages that wait for a retry do not count. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_oldest_ready(wherry_outbox *box,
								  int64_t *out_age_us,
								  wherry_error *err);

/** Visit the rows that match, in id order, or from the newest down; every state unless the
 *  filter names some.
 *  Those in the archive only with filter->archived. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_list(wherry_outbox *box,
							  const wherry_filter *filter,
							  wherry_row_fn visit, void *ctx,
							  wherry_error *err);

/**
 * Visit one row, with what holds it back; from the archive if the outbox has none.
 *
 * @param ident  Its message_id, or its id in digits.
 * @return WHERRY_OK, WHERRY_NOTFOUND, or what a read can fail with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_show(wherry_outbox *box,
							  const char *ident,
							  wherry_row_fn visit, void *ctx,
							  wherry_error *err);

/** Make dead messages that match pending again, with no attempts counted; with states
 *  naming them, failed ones too, which then need not wait for their retry. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_retry(wherry_outbox *box,
							   const wherry_filter *filter,
							   int64_t *out_n,
							   wherry_error *err);

/**
 * Delete one message that was not delivered: pending, in flight, failed or dead.
 *
 * A relay that has it in flight may still deliver it; its acknowledgement then changes
 * nothing.  Later messages of its key go on.
 *
 * @param ident  Its message_id, or its id in digits.
 * @return WHERRY_OK; WHERRY_NOTFOUND: there is no such message, or it was delivered;
 *         WHERRY_UNSUPPORTED: the outbox can only be streamed.
 *
 * Transaction: its own, or part of the one that is open; all or none.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_discard(wherry_outbox *box,
							     const char *ident,
							     wherry_error *err);

/**
 * Deliver done messages that match once more, under their next generation.
 *
 * Also those in the archive, which move back into the outbox, with their message_id, and
 * with their id unless another row has it by now; but none whose message_id a row of the
 * outbox has.
 *
 * @param out_n  Receives how many; may be NULL.
 *
 * Transaction: its own, or part of the one that is open; all or none.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_replay(wherry_outbox *box,
							    const wherry_filter *filter,
							    int64_t *out_n,
							    wherry_error *err);

/** Stop all deliveries until wherry_outbox_resume(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_pause(wherry_outbox *box,
							   wherry_error *err);

/** Take back wherry_outbox_pause(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_resume(wherry_outbox *box,
							    wherry_error *err);

/**
 * Delete done messages.
 *
 * @param older_than_us  Delivered longer ago than this, by the database's clock.
 * @param batch          Rows in one transaction, 1 to 100000.
 * @param max_rows       At most this many; 0: all.
 * @param out_n          Receives how many went, also on failure; may be NULL.
 *
 * Transaction: its own, one per batch; none may be open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_purge(wherry_outbox *box, int64_t older_than_us, int64_t batch,
		    int64_t max_rows, int64_t *out_n, wherry_error *err);

/** Move done messages to the table NAME_archive; parameters as wherry_outbox_purge(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_archive(wherry_outbox *box, int64_t older_than_us, int64_t batch,
		      int64_t max_rows, int64_t *out_n, wherry_error *err);

/** Delete messages from the archive, those delivered first at first; parameters as
 *  wherry_outbox_purge(). */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_purge_archive(wherry_outbox *box, int64_t older_than_us, int64_t batch,
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
 * @param owner      The caller's name, which others see.
 * @param lasts_us   How long it holds unless renewed, by the database's clock; at most 36500 days.
 * @param window     How many messages the holder may have in flight at once.
 * @param out        Receives the lease.
 * @return WHERRY_OK; WHERRY_BUSY (another holds it: err names it); what a write can fail
 *         with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_lease(wherry_outbox *box, const char *owner, int64_t lasts_us,
		    int64_t window, wherry_lease *out, wherry_error *err);

/**
 * Work beside others on the same outbox, on the messages that wherry_outbox_claim() gives.
 *
 * Renewed by calling it again with the same lease; its token stays.  Leases of
 * wherry_outbox_lease() and this one keep each other out.
 *
 * @param owner     The caller's name, which others see.
 * @param lasts_us  How long it keeps relays of another kind out unless renewed; at most 36500 days.
 * @param inout     All zero at first; receives the lease.
 * @return WHERRY_OK; WHERRY_BUSY (a relay of another kind holds it: err names it); what a
 *         write can fail with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_join(wherry_outbox *box,
							  const char *owner,
							  int64_t lasts_us,
							  wherry_lease *inout,
							  wherry_error *err);

/** Sees one claimed message, whose strings are borrowed for the visit; another code than
 *  WHERRY_OK ends the claim with it, which then claims nothing. */
typedef wherry_code (*wherry_claim_fn)(void *ctx, const wherry_message *msg);

/**
 * Claim messages: those that failed and are due, then pending ones, in id order.
 *
 * The first of a key and those behind it are claimed as one, and no other claim gets any
 * of that key until they are settled or the claim expires.  Settle each with
 * wherry_outbox_done(), wherry_outbox_fail() or wherry_outbox_requeue() under the same
 * lease; of a key, in order, and what is behind one that failed is to be requeued.
 *
 * A row that the database cannot send, such as a text that is not in its encoding, is not visited:
 * it becomes dead alone, with the reason.
 *
 * @param lease    From wherry_outbox_join().
 * @param out_n    Receives how many were claimed and visited; may be NULL.
 *
 * Transaction: its own, or part of the one that is open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_claim(wherry_outbox *box, const wherry_lease *lease,
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
wherry_outbox_claim_expired(wherry_outbox *box, const wherry_lease *lease,
			    const wherry_claim_options *options, wherry_claim_fn visit,
			    void *ctx, int64_t *out_n, wherry_error *err);

/** Make claims last from now on for lasts_us, at most 36500 days; WHERRY_STALE: not all of them were held any
 *  more, *out_n (may be NULL) were. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_extend(wherry_outbox *box, const wherry_lease *lease, const int64_t *ids,
		     size_t n, int64_t lasts_us, int64_t *out_n, wherry_error *err);

/** Renew a lease that has not expired, and refresh its other fields; WHERRY_STALE if lost. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_renew(wherry_outbox *box,
							   wherry_lease *lease,
							   wherry_error *err);

/** Give a lease back after everything in flight was settled; WHERRY_STALE if lost. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_release(wherry_outbox *box,
							     const wherry_lease *lease,
							     wherry_error *err);

/**
 * Acknowledge deliveries.
 *
 * @param ids         Which; those no longer open are passed over, but under claims each
 *                    must be your own, or nothing changes.
 * @param n           How many.
 * @param on_done     What becomes of the rows.
 * @param out_n       Receives how many rows changed; may be NULL.
 * @return WHERRY_OK; WHERRY_STALE (nothing changed); what a write can fail with.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_outbox_done(wherry_outbox *box, const wherry_lease *lease, const int64_t *ids,
		   size_t n, wherry_on_done on_done, int64_t *out_n, wherry_error *err);

/** Record failures: attempts + 1, last_error, and a time to retry or dead. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_fail(wherry_outbox *box,
							  const wherry_lease *lease,
							  const wherry_failure *failures,
							  size_t n, wherry_error *err);

/** Put messages back to pending without counting an attempt. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_requeue(wherry_outbox *box,
							     const wherry_lease *lease,
							     const int64_t *ids, size_t n,
							     wherry_error *err);

/** Record that a suspect is about to be tried alone: processing, attempts + 1. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_try(wherry_outbox *box,
							 const wherry_lease *lease,
							 int64_t id, wherry_error *err);

/** Make messages pending whose claim is older than claim_timeout_us, and has expired. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_outbox_reap(wherry_outbox *box,
							  int64_t claim_timeout_us,
							  int64_t *out_n,
							  wherry_error *err);

WHERRY_END

#endif
