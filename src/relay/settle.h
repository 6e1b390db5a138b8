/*
 * Writing results, inside: settle.c writes batches, settle_alone.c one message at a time.
 */
#ifndef WH_RELAY_SETTLE_H
#define WH_RELAY_SETTLE_H

#include "relay/relay.h"

/* An empty settlement whose lists are the relay's scratch memory. */
wh_settlement wh_settle_empty(wherry_relay *r);

/* Put the results of the first n settled messages into the settlement. */
void wh_settle_gather(wherry_relay *r, wh_settlement *s, size_t n);

/* The first n settled messages are written: count them, log them, forget them. */
void wh_settle_after(wherry_relay *r, const wh_settlement *s, const wh_settled *settled,
		     size_t n, int64_t now);

/* Count and log the rows of s that other relays took over: `changed` were written. */
void wh_settle_lost(wherry_relay *r, const wh_settlement *s, int64_t changed);

/* When to write results next: failures at once, others after relay.ack_delay.  WH_NEVER:
 * there is nothing to write. */
int64_t wh_settle_next(const wherry_relay *r, int64_t now);

/* The database refused to write a batch because of one row: write the results of each
 * message alone, so that the others are written
 * (a_row_that_cannot_be_written_holds_up_no_other). */
wherry_code wh_settle_one_by_one(wherry_relay *r, int64_t now, wherry_error *err);

/* At r->unwritable_at_us, settle messages again whose write the database refused. */
void wh_settle_retry_refused(wherry_relay *r, int64_t now);

/*
 * One row that a foreign transaction has locked does not hold up others
 * (one_locked_row_holds_up_no_other).  A statement that waited too long for a lock begins a time
 * in which the relay asks, without waiting, which rows are locked before it writes to them.
 * Results of locked rows, and of later messages of their keys, wait and are tried again.
 *
 * @param tried  A suspect whose attempt is to be recorded; NULL: none.  BUSY: its row is locked.
 */
wherry_code wh_settle_pass_locked(wherry_relay *r, wh_entry *tried, int64_t now,
				  wherry_error *err);

/*
 * The same of rows that no statement sees yet (wh_engine_driver.unseen): they wait alone
 * (an_unseen_failure_holds_up_no_other).
 *
 * @param out_tried  The attempt of `tried` cannot be recorded yet.
 */
wherry_code wh_settle_pass_unseen(wherry_relay *r, const wh_entry *tried, int64_t now,
				  bool *out_tried, wherry_error *err);

/* Is this a time in which the relay asks which rows are locked? */
bool wh_settle_asks_for_locks(const wherry_relay *r, int64_t now);

/* Take the ids of locked rows out of a list of messages in memory, and set wh_entry.locked of
 * each.  Nothing happens outside of such a time. */
wherry_code wh_settle_leave_locked(wherry_relay *r, int64_t *ids, size_t *inout_n,
				   int64_t now, wherry_error *err);

/* The result of a message waits no longer for a locked row. */
void wh_settle_unpass(wh_entry *e);

/* Sort settled messages by id, whatever the order of their receipts. */
void wh_settle_sort(wherry_relay *r);

/* The reason of a message that dies because its attempt cannot be recorded. */
const char *wh_settle_cannot_try(wherry_relay *r, wh_entry *e, const char *why);

#endif
