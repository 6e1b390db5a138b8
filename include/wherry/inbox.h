/*
 * The inbox: which messages a consumer has handled.
 *
 * A relay and most brokers deliver a message at least once.  A consumer that writes to a database
 * handles each message exactly once if it accepts the message's id in the transaction of its
 * writes, and leaves out the writes of an id that it has seen.
 */
#ifndef WHERRY_INBOX_H
#define WHERRY_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>

/* One inbox on one connection.  One thread at a time, as its connection. */
typedef struct wherry_inbox wherry_inbox;

WHERRY_BEGIN

/* ---- schema ---- */

/**
 * Create an inbox; doing it twice is fine, also at once.
 *
 * On PostgreSQL it also makes functions for programs in any language:
 * wherry_accept(message_id, consumer, inbox) returns true for a new message, and
 * wherry_inbox_purge(older_than, inbox) returns how many ids it deleted.  On SQL Server
 * it makes the procedure wherry_inbox_purge @older_than_ms, @inbox, @n OUTPUT.
 *
 * @param db    A connection with no transaction open.
 * @param name  Of its table, as of wherry_outbox_init(); NULL: "inbox".
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not an inbox);
 *         WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_create(wherry_db *db,
							   const char *name,
							   wherry_error *err);

/** Write out the SQL of wherry_inbox_create(): *out is given, free() it.
 *  scheme: the database, as in its URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_create_sql(const char *scheme,
							       const char *name,
							       char **out,
							       wherry_error *err);

/**
 * Open an inbox that exists.
 *
 * @param db    Its connection; borrowed until wherry_inbox_close().
 * @param name  Its name; copied.  NULL: "inbox".
 * @param out   Receives the inbox; given, close with wherry_inbox_close().
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such inbox);
 *         WHERRY_TOONEW; what a read can fail with.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_open(wherry_db *db, const char *name,
							 wherry_inbox **out,
							 wherry_error *err);

/** Close an inbox; its connection stays open.  NULL is fine. */
WHERRY_API void wherry_inbox_close(wherry_inbox *inbox);

/** Remove an inbox.  The handle stays open, and is good for wherry_inbox_close() alone. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_drop(wherry_inbox *inbox,
							 wherry_error *err);

/* ---- for consumers ---- */

/**
 * Accept a message, in the transaction that handles it.
 *
 * If the message is new, do your writes and commit.  If it was seen, commit or roll back without
 * them, and acknowledge the message.  A rollback makes it new again.
 *
 * @param consumer    Who handles it, at most 255 bytes, so that consumers can share an inbox;
 *                    NULL: "".
 * @param message_id  At most 1024 bytes, not empty.
 * @param out_new     Receives true if no committed transaction has accepted it, nor this one.
 * @return WHERRY_OK; WHERRY_INVALID (no transaction is open; not UTF-8; an empty id);
 *         WHERRY_TOOBIG; what a write can fail with: roll the transaction back.
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
 * Accept many messages with one statement; the rest as wherry_inbox_accept().
 *
 * Two consumers that accept the same messages in different orders do not deadlock.
 *
 * @param message_ids  n ids.  An id that occurs twice is new the first time only.
 * @param out_new      Receives n answers, in the order of message_ids.
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
 * Delete ids that were accepted long ago.  A message that is delivered again later counts as new,
 * so keep ids for longer than anybody can deliver or retry a message.
 *
 * @param older_than_us  Age, by the database's clock.
 * @param batch          Ids in one transaction, 1 to 100000.
 * @param max_rows       At most this many; 0: all.
 * @param out_n          Receives how many went, also on failure; may be NULL.
 *
 * Transaction: its own, one per batch; none may be open.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_purge(wherry_inbox *inbox,
							  int64_t older_than_us,
							  int64_t batch, int64_t max_rows,
							  int64_t *out_n,
							  wherry_error *err);

/** Count the ids that are kept.  out_oldest_us receives the age of the oldest one, microseconds;
 *  0: there is none.  It reads all of them. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_inbox_count(wherry_inbox *inbox,
							  int64_t *out_n,
							  int64_t *out_oldest_us,
							  wherry_error *err);

WHERRY_END

#endif
