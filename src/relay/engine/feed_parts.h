/*
 * Shared by the files that read a log's new rows from the WAL: feed.c connects and decides, feed_rows.c takes in
 * rows, and feed_unseen.c knows of rows that no statement sees yet.
 */
#ifndef WH_RELAY_ENGINE_FEED_PARTS_H
#define WH_RELAY_ENGINE_FEED_PARTS_H

#include "outbox/stream.h"
#include "relay/engine/positions.h"

enum {
	/* At least between two looks that cover what came, and most age of a verified lease. */
	WH_FEED_CHECK_US = 250000,
};

typedef struct wh_feed {
	wh_wal *wal;       /* NULL: the database is not open. */
	wh_stream *stream; /* NULL: OFF. */
	wh_fsm fsm;
	int64_t retry_us; /* OFF: when to connect. */
	int failures;
	char why[200];    /* Last reason that was logged why the WAL cannot be read. */
	bool caught_up;   /* The last look brought all rows. */
	int64_t since_us; /* MAKING, READY: since when the slot exists or is made. */
	/* READY: when to look again, and the first transaction that comes by the WAL for certain. */
	int64_t look_us;
	uint64_t first_tx;

	int64_t received; /* WAL position up to which all has come. */
	int64_t behind_us; /* ON: when to go back to the table, unless all has come; WH_NEVER: all has. */
	int64_t check_us;    /* When the next look is due. */
	int64_t verified_us; /* When the lease was verified, or is about to be. */
	int64_t asked_us; /* When the relay last asked whether commits wait for a standby. */
	char *topics;     /* Patterns of the subscription; "": all. */
} wh_feed;

static inline wh_feed *wh_feed_of(const wherry_relay *r)
{
	return wh_log_of(r)->feed;
}

/* ---- feed_rows.c ---- */

/* Is there room for what comes?  New messages wait while earlier ones of their keys are read again. */
bool wh_feed_has_room(const wherry_relay *r);

/* Take in what has come.  *out_all: nothing is left. */
wherry_code wh_feed_pull(wherry_relay *r, int64_t now, bool *out_all, wherry_error *err);

/* The server sends a commit before a synchronous standby has it: it would be delivered, and lost if that standby
 * took over.  INVALID: commits wait for a standby. */
wherry_code wh_feed_check_standbys(wh_feed *d, int64_t now, wherry_error *err);

/* ---- feed_unseen.c ---- */

/* Write which messages are delivered that the position does not cover. */
wherry_code wh_feed_leave_done(wherry_relay *r, wherry_error *err);

#endif
