/*
 * The inbox: a table of the ids of messages that a consumer has handled.
 *
 * A relay and most brokers deliver a message at least once.  A consumer that writes to a database
 * handles each message exactly once if it accepts the message's id in the transaction of its
 * writes, and makes no writes for an id that it has accepted before.
 */
#ifndef WHERRY_INBOX_H
#define WHERRY_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>

/* One inbox on one connection.  Use it and the connection from one thread at a time. */
typedef struct wherry_inbox wherry_inbox;

WHERRY_BEGIN

/* ---- schema ---- */

/**
 * Create an inbox.  Programs may repeat this, also at the same time.
 *
 * On PostgreSQL this also makes functions for programs in any language:
 * wherry_accept(message_id, consumer, inbox) returns true for a new message, and
 * wherry_inbox_purge(older_than, inbox) returns the number of ids that it deleted.  On SQL
 * Server it makes the procedure wherry_inbox_purge @older_than_ms, @inbox, @n OUTPUT.
 *
 * @param db    A connection with no transaction open.
 * @param name  Name of its table, by the rules of wherry_outbox_create(); NULL: "inbox".
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not an inbox);
 *         WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_create(wherry_db *db,
							   const char *name,
							   wherry_error *err);

/** Write out the SQL of wherry_inbox_create(); the caller frees *out with free().  `scheme` is the
 *  scheme of the database's URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_create_sql(const char *scheme,
							       const char *name,
							       char **out,
							       wherry_error *err);

/**
 * Open an inbox that exists.
 *
 * @param db    Connection to its database; borrowed until wherry_inbox_close().
 * @param name  Name of the inbox; copied.  NULL: "inbox".
 * @param out   Receives the inbox; the caller closes it with wherry_inbox_close().
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such inbox);
 *         WHERRY_TOONEW; any code of a failed read.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_open(wherry_db *db, const char *name,
							 wherry_inbox **out,
							 wherry_error *err);

/** Close an inbox; its connection stays open.  NULL is allowed. */
WHERRY_API void wherry_inbox_close(wherry_inbox *inbox);

/** Remove an inbox.  Afterwards only wherry_inbox_close() may be called with the handle. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_drop(wherry_inbox *inbox,
							 wherry_error *err);

/* ---- for consumers ---- */

/**
 * Accept a message, in the transaction that handles it.
 *
 * If the message is new, make your writes and commit.  If it is not new, commit or roll back
 * without them, and acknowledge the message.  A rollback makes a message new again.
 *
 * @param consumer    Name of the consumer, at most 255 bytes, so that consumers can share an
 *                    inbox; NULL: "".
 * @param message_id  Id of the message, at most 1024 bytes, not empty.
 * @param out_new     Receives true if neither a committed transaction nor this one has accepted
 *                    the message before.
 * @return WHERRY_OK; WHERRY_INVALID (no transaction is open; not UTF-8; an empty id);
 *         WHERRY_TOOBIG; any code of a failed write: then roll the transaction back.
 *
 * Transaction: the one that is open.
 * Blocks: while another transaction that accepted the same message is open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_accept(wherry_inbox *inbox,
							   const char *consumer,
							   const char *message_id,
							   bool *out_new,
							   wherry_error *err);

/**
 * Accept many messages with one statement.  The other parameters, the codes and the transaction are
 * those of wherry_inbox_accept().
 *
 * Two consumers that accept the same messages in different orders do not deadlock.
 *
 * @param message_ids  Ids of the messages; n of them.  An id that occurs twice is new only once.
 * @param out_new      Receives n values, in the order of message_ids.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_accept_many(
	wherry_inbox *inbox, const char *consumer, const char *const *message_ids,
	size_t n, bool *out_new, wherry_error *err);

/* ---- for operators ---- */

/** Forget a message, so that it is new again.  WHERRY_NOTFOUND: the consumer did not accept it.
 *  Transaction: the one that is open, else its own. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_forget(wherry_inbox *inbox,
							   const char *consumer,
							   const char *message_id,
							   wherry_error *err);

/**
 * Delete ids that were accepted long ago.  A message whose id was deleted is new when it is
 * delivered again, so keep ids for longer than a relay or broker can deliver or retry a message.
 *
 * @param older_than_us  Least time since the id was accepted, microseconds, by the database's
 *                       clock.
 * @param batch          Ids in one transaction, 1 to 100000.
 * @param max_rows       Most ids to delete; 0: all.
 * @param out_n          Receives the number of ids deleted, also on failure; may be NULL.
 *
 * Transaction: its own, one per batch; none may be open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_purge(wherry_inbox *inbox,
							  int64_t older_than_us,
							  int64_t batch, int64_t max_rows,
							  int64_t *out_n,
							  wherry_error *err);

/** Count the ids of the inbox; this reads all of them.  out_oldest_us receives the age of the
 *  oldest id, in microseconds; 0: there is none. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_count(wherry_inbox *inbox,
							  int64_t *out_n,
							  int64_t *out_oldest_us,
							  wherry_error *err);

WHERRY_END

#endif
