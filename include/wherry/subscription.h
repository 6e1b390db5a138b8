/*
 * Subscriptions: several readers of one outbox of the layout log, each with its own position,
 * failed and dead messages.
 *
 * A subscription takes the messages of its topics.  Relays read the subscription "relay" if they
 * name none; it takes all.
 */
#ifndef WHERRY_SUBSCRIPTION_H
#define WHERRY_SUBSCRIPTION_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/outbox.h>

/* Options for creating a subscription; start from WHERRY_SUBSCRIPTION_OPTIONS(...). */
typedef struct wherry_subscription_options {
	size_t size; /* Set it to sizeof(wherry_subscription_options). */
	/* Patterns of topics with commas between them, in which * stands for any text:
	 * "orders.*,billing"; NULL: all topics. */
	const char *topics;
	const char *
		from; /* Where it begins; see wherry_subscription_seek().  NULL: "start". */
} wherry_subscription_options;

/* In C: WHERRY_SUBSCRIPTION_OPTIONS(.topics = "orders.*"). */
#define WHERRY_SUBSCRIPTION_OPTIONS(...)                                                 \
	WHERRY_SIZED(wherry_subscription_options, __VA_ARGS__)

/* A subscription, for a visit; the texts are borrowed for it.  Later versions add members at the
 * end. */
typedef struct wherry_subscription_state {
	const char *name;
	const char *topics; /* ""; all. */
	int64_t position;   /* The highest id that was read. */
	int64_t moved_us;   /* Time since the position moved. */
	/* Age of the first message behind the position, whatever its topic: it is not deleted.  Negative: there is none. */
	int64_t kept_us;
} wherry_subscription_state;

/** Called for each subscription.  If it returns another code than WHERRY_OK, the listing ends and
 *  returns that code. */
typedef wherry_code (*wherry_subscription_visit)(
	void *ctx, const wherry_subscription_state *subscription);

WHERRY_BEGIN

/**
 * Create a subscription.  Programs may repeat this: one that exists with the same topics stays as
 * it is, wherever it should begin.
 *
 * @param db       A connection.
 * @param table    Name of the outbox.
 * @param name     Its name: letters, digits, and any of _ . -, at most 48 characters.
 * @param options  Options; borrowed for the call.  NULL: all topics, from the start.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (a bad name, pattern or beginning; another layout);
 *         WHERRY_DUPLICATE (it exists with other topics); WHERRY_NOTFOUND (no such outbox);
 *         WHERRY_DENIED; WHERRY_BUSY.
 *
 * Transaction: its own, or a savepoint in the caller's.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_subscription_create(wherry_db *db, const char *table, const char *name,
			   const wherry_subscription_options *options, wherry_error *err);

/**
 * Open an outbox through a subscription: what wherry_outbox_list(), wherry_outbox_get_status() and other
 * functions say of its messages is what became of them there.
 *
 * @param table  Name of the outbox; copied.
 * @param name   Name of the subscription; copied.
 * @param out    Receives the outbox; the caller closes it with wherry_outbox_close().
 * @return As wherry_outbox_open(); WHERRY_NOTFOUND also if there is no such subscription.
 *
 * Blocks: for three small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_subscription_open(wherry_db *db,
								const char *table,
								const char *name,
								wherry_outbox **out,
								wherry_error *err);

/**
 * Move the position.  Messages behind it are delivered, whether they were before or not, and those
 * before it are not; dead ones before it stay dead.  A relay that is at work delivers what it has
 * in flight and then begins at the new position.
 *
 * @param outbox  An outbox, opened through the subscription.
 * @param to      "start": before the first message that is there; "now": behind all that are
 *                committed; the id of a message, which is the next; or a time such as
 *                "2026-11-25T10:00:00Z": before the first message that was made since then.
 * @return WHERRY_OK; WHERRY_INVALID (none of these; another layout); WHERRY_NOTFOUND (the id is
 *         above the last one, or the subscription was dropped); WHERRY_DENIED; WHERRY_BUSY.
 *
 * Transaction: its own, or a savepoint in the caller's.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_subscription_seek(wherry_outbox *outbox,
								const char *to,
								wherry_error *err);

/**
 * Consume the next messages: visit them in order, and move the position behind them in the caller's
 * transaction.  If that commits, each message took effect exactly once; if it is rolled back, they come again.
 * Programs in other languages call the function wherry_consume() on PostgreSQL, and the procedure of that name on SQL Server.
 *
 * @param outbox  An outbox, opened through the subscription.
 * @param n       Most messages, 1 to 100,000.
 * @param visit   Called for each message after the position was moved, so it may use the connection; its row is
 *                borrowed for the call.  If it returns another code than WHERRY_OK, nothing is consumed and
 *                that code is returned.
 * @param ctx     Handed to visit.
 * @param out_n   Receives the number of messages; may be NULL.  0: none is pending, or the subscription is paused.
 * @return WHERRY_OK; WHERRY_INVALID (bad arguments); WHERRY_UNSUPPORTED (another layout); WHERRY_BUSY (a relay reads the subscription;
 *         another consumer has not ended its transaction within db.busy_timeout); WHERRY_NOTFOUND (the subscription
 *         was dropped); WHERRY_DENIED; what visit returned.
 *
 * Transaction: its own, or a savepoint in the caller's.  Blocks: until the transaction of another consumer of
 * the subscription has ended.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_subscription_consume(wherry_outbox *outbox, int64_t n, wherry_row_fn visit,
			    void *ctx, int64_t *out_n, wherry_error *err);

/**
 * Change the topics.  They hold for the messages behind the position, whether a relay has read them or not.  Messages before it are
 * not delivered again, whatever their topic; seek does that.  Messages that failed, died or wait stay so.  A relay that is
 * at work delivers what it has in flight and then goes on from the position.
 *
 * @param outbox  An outbox, opened through the subscription.
 * @param topics  Patterns, as in wherry_subscription_options; NULL: all topics.
 * @return WHERRY_OK; WHERRY_INVALID (a bad pattern; another layout); WHERRY_NOTFOUND (the subscription was dropped); WHERRY_DENIED;
 *         WHERRY_BUSY.
 *
 * Transaction: its own, or a savepoint in the caller's.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_subscription_set_topics(
	wherry_outbox *outbox, const char *topics, wherry_error *err);

/** Drop a subscription, with what it says of messages.  The messages stay.  A relay that is at
 *  work on it ends.  NOTFOUND: there is none.  Transaction: its own, or a savepoint in the
 *  caller's. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_subscription_drop(wherry_db *db,
								const char *table,
								const char *name,
								wherry_error *err);

/** Visit the subscriptions of an outbox, in the order of their names; none in other layouts. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_subscription_list(wherry_outbox *outbox, wherry_subscription_visit visit,
			 void *ctx, wherry_error *err);

WHERRY_END

#endif
