/*
 * How relays use PostgreSQL's WAL for one outbox: names of slot and publication, and whether the WAL can be
 * read.  For the stream engine also the position up to which messages are delivered, and dead messages
 * (stream_unmarked.c).
 */
#ifndef WH_OUTBOX_STREAM_H
#define WH_OUTBOX_STREAM_H

#include "db/stream.h"
#include "outbox/outbox.h"
#include "store/open_row.h"

enum { WH_WAL_NAME = 64 };

typedef struct wh_wal {
	wherry_outbox *outbox; /* borrowed */
	wh_sql sql;
	char slot[WH_WAL_NAME], publication[WH_WAL_NAME];
	char schema[WH_WAL_NAME], table[WH_WAL_NAME];
	char columns[256]; /* Names of the columns, as in wh_stream_options. */
	bool keeps_ids;    /* The table has a column of numeric ids. */
	/* `publication` is the name that Wherry derives, not one chosen by the user. */
	bool own;
} wh_wal;

/*
 * Prepare the names and statements for an outbox.  Close the result with wh_wal_close().
 *
 * @param slot, publication  Their names; "": derive a name from the database, schema and
 *                           table.
 * @return WHERRY_OK; WHERRY_INVALID: the database has no WAL to stream from, or this
 *         layout cannot be streamed.
 */
wherry_code wh_wal_open(wherry_outbox *outbox, const char *slot, const char *publication,
			wh_wal **out, wherry_error *err);
void wh_wal_close(wh_wal *wal);

/* Run a statement of stream.*.sql. */
wherry_code wh_wal_run(wh_wal *wal, const char *name, const wh_param *params, size_t n,
		       wh_row_fn visit, void *ctx, wherry_error *err);

/* INVALID: no relay of this table finds new messages in the WAL (relay.source=wal).  shared: its relays share
 * the keys. */
wherry_code wh_wal_meets(const wh_store *store, bool shared, wherry_error *err);

/* The same of a log, whose relays may read new rows from the WAL; each has a temporary slot, which ends with
 * its connection.  The last column of its rows, WH_WAL_TX, is the transaction. */
wherry_code wh_wal_open_log(wherry_outbox *outbox, const char *publication, wh_wal **out,
			    wherry_error *err);
enum { WH_WAL_TX = WH_OPEN_COLUMNS };

typedef struct wh_wal_state {
	bool logical;  /* The server has wal_level=logical. */
	bool may;      /* This role may read the WAL. */
	bool has_slot; /* A replication slot of this name exists. */
	bool ours; /* The slot belongs to this database and uses the plugin pgoutput. */
	bool lost; /* The server removed WAL that the slot still needed. */
	/* The slot's plugin, or its type if it has none; "": no slot. */
	char kind[WH_WAL_NAME];
	int64_t reader;   /* PID of the server process that reads the slot; 0: none. */
	int64_t retained; /* Bytes of WAL that the server keeps for the slot. */
	/* The reader's replay_lag, microseconds; 0: unknown, or nothing to confirm. */
	int64_t behind_us;
	/* Microseconds since the slot was last read; 0: unknown (before version 17). */
	int64_t unread_us;
	/* Positions: confirmed for the slot; end of the flushed WAL.  0: unknown. */
	int64_t confirmed, flushed;
	bool published, publishes_inserts, has_table;
	char left_out[128]; /* Columns that the publication leaves out; "": none. */
	char filter[128];   /* The publication's WHERE clause; "": it sends all rows. */
	char role[160];     /* This role, quoted for SQL. */
} wh_wal_state;

wherry_code wh_wal_look(wh_wal *wal, wh_wal_state *out, wherry_error *err);

/* How long the oldest undelivered message has waited. */
typedef struct wh_wal_lag {
	int64_t us;
	/* Source of `us`: "rows", "reader", "slot" or "relay"; NULL if `us` is 0. */
	const char *by;
} wh_wal_lag;

/* Find out how long the oldest undelivered message has waited.  If relays mark rows, the
 * rows show it.  Otherwise use the first of these that is known: the lag of the slot's
 * reader, how long the slot was not read (PostgreSQL 17), the time since the last relay
 * left. */
wherry_code wh_wal_behind(wh_wal *wal, const wh_wal_state *state, wh_wal_lag *out,
			  wherry_error *err);

/* The state of a replication slot, as status, doctor and metrics show it. */
typedef struct wh_wal_watched {
	bool any; /* The slot exists, or there are dead messages. */
	char slot[WH_WAL_NAME];
	wh_wal_state state;
	int64_t behind; /* Bytes of WAL between the confirmed position and the end. */
	wh_wal_lag lag;
	/* Number of rows in wherry_dead: dead messages whose rows do not record it. */
	int64_t dead;
} wh_wal_watched;

wherry_code wh_wal_watch(wh_wal *wal, wh_wal_watched *out, wherry_error *err);

/* Refuse to stream if `state` shows that the WAL cannot be read; the error says what to
 * do.  Accepts a missing slot or publication, which can be created, and a lost slot. */
wherry_code wh_wal_check(const wh_wal *wal, const wh_wal_state *state, wherry_error *err);

/* Create the publication. */
wherry_code wh_wal_publish(wh_wal *wal, wherry_error *err);

/* If an earlier table of the same name was dropped, add the new table to the publication
 * that Wherry created for it.  Does nothing if the user chose the publication. */
wherry_code wh_wal_publish_again(wh_wal *wal, wherry_error *err);

/* Terminate the server process that reads the slot if a relay of the same user opened it.
 * Only the holder of the lease may call this. */
wherry_code wh_wal_take_over(wh_wal *wal, bool *out_ended, wherry_error *err);

/* Drop the slot.  Does nothing while a process reads it. */
wherry_code wh_wal_drop(wh_wal *wal, wherry_error *err);

/* Drop the publication. */
wherry_code wh_wal_unpublish(wh_wal *wal, wherry_error *err);

/* The same of an outbox whose table is gone: that of the name that Wherry derives, if it is there. */
wherry_code wh_wal_unpublish_left(wherry_outbox *outbox, wherry_error *err);
/* Create the slot, from the current end of the WAL on.  Waits until all running
 * transactions have ended. */
wherry_code wh_wal_make(wh_wal *wal, wherry_error *err);

typedef struct wh_wal_now {
	/* Everything that was visible before the call is below this position. */
	int64_t written;
	int64_t flushed;
} wh_wal_now;

wherry_code wh_wal_position(wh_wal *wal, wh_wal_now *out, wherry_error *err);

/* The current snapshot as text, for wh_snapshot_sees(); owned by the caller. */
wherry_code wh_wal_snapshot(wh_wal *wal, char **out, wherry_error *err);

/* Do commits wait for a standby, which gets them after the readers of the WAL? */
wherry_code wh_wal_waits_for_standbys(wh_wal *wal, bool *out, wherry_error *err);

/*
 * Write that messages of a log are delivered which the position does not cover.
 *
 * @return WHERRY_OK; WHERRY_STALE: another relay has the lease; what a write can fail with.
 *
 * Transaction: its own.
 */
wherry_code wh_wal_leave_done(wh_wal *wal, const wherry_lease *lease, const int64_t *ids,
			      size_t n, wherry_error *err);

/* How far the relay had delivered that last streamed without marking rows. */
typedef struct wh_wal_stored {
	bool known;
	bool ended; /* No later position was reported to the slot. */
	int64_t at;
	char slot[WH_WAL_NAME];
	int32_t tries;
	/* Message id of the message that was tried alone; "": none. */
	char suspect[64];
} wh_wal_stored;

/* Create wherry_stream and wherry_dead if they are missing. */
wherry_code wh_wal_tables(wh_wal *wal, wherry_error *err);
wherry_code wh_wal_read_stored(wh_wal *wal, wh_wal_stored *out, wherry_error *err);

/* Fail because the slot is gone.  at: up to where messages were delivered. */
wherry_code wh_wal_gone(const wh_wal *wal, int64_t at, wherry_error *err);

/* A dead message for wherry_dead, where rows cannot record it. */
typedef struct wh_dead {
	const wherry_message *message;
	const char *error;
} wh_dead;

/*
 * Write dead messages and the position, in one transaction that checks the lease.  With dead messages it may
 * wait for as long as the lease lasts.
 *
 * @param at       Position up to which everything is delivered or dead; 0: there is none
 *                 yet, because the table is still being read.
 * @param suspect  Message id of the message that is tried alone next; NULL: none.
 * @param tries    How often it was tried, including that time.
 * @param ended    No later position was reported to the slot, and none is before the next
 *                 write.
 */
wherry_code wh_wal_settle(wh_wal *wal, const wherry_lease *lease, const wh_dead *dead,
			  size_t n_dead, int64_t at, const char *suspect, int32_t tries,
			  bool ended, wherry_error *err);

/* Write only the position, without waiting for fsync.  *out_moved is false if nothing was
 * written: the lease or slot differs, or a message is being tried alone.  Then call
 * wh_wal_settle(), which writes the position or returns the reason. */
wherry_code wh_wal_move(wh_wal *wal, const wherry_lease *lease, int64_t at,
			bool *out_moved, wherry_error *err);

#endif
