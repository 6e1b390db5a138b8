/*
 * Reading the table: the common part of the engines exclusive, partitioned and log.
 *
 * Their states begin with a wh_reader.  Rows are read ahead of a cursor.  A sweep reads
 * all open rows from the beginning.
 */
#ifndef WH_RELAY_ENGINE_READER_H
#define WH_RELAY_ENGINE_READER_H

#include "relay/engine/engine.h"
#include "relay/engine/gaps.h"
#include "relay/relay.h"
#include "store/partitions.h"

/* The shares of relays that work beside each other; see shares.c. */
typedef struct wh_shares {
	wh_partitions partitions; /* As of the last renewal. */
	wh_partitions heard;      /* As the renewal in progress returned them. */
	/* The relay gives up partitions, or takes some, once nothing is in flight. */
	bool yielding;
	bool quiet; /* It does so to take some. */
	int logged; /* Number of partitions that was logged last; -1: none. */
} wh_shares;

typedef struct wh_reader {
	/* Reading ahead. */
	/* Highest id read.  Pending rows up to it are in memory or noted,
	 * except in gaps. */
	int64_t cursor;
	int64_t highest; /* Highest value that the cursor had. */
	bool more;       /* There may be rows with ids above the cursor. */
	/* Rows that fit into relay.window_bytes, doubled by each read that
	 * fits; 0: no limit. */
	int64_t fits;
	bool full_logged; /* The log says that reading stopped at relay.held_keys. */

	/* Ids that an open transaction may still commit. */
	wh_gaps gaps;
	/* The oldest transaction that ran at the last read; all older ones had ended. */
	int64_t oldest;
	/* No statement runs that began before this transaction was the next one; see
	 * wh_gaps_date(). */
	int64_t running;

	/* Sweeping. */
	bool sweeping;
	/* The last sweep met only rows in memory, or of held or parked keys. */
	bool swept_clean;
	int64_t sweep_at_us; /* When the next sweep is due. */

	/* Looking at the table after other connections have committed. */
	/* Ask for changes of operators by this time; WH_NEVER: no need. */
	int64_t look_by_us;
	/* When to look for open rows that reading ahead misses; WH_NEVER: no need. */
	int64_t open_look_us;
	int64_t open_looked_us; /* When the relay last looked for such rows. */

	/* Rows that could not be acknowledged. */
	bool replaced; /* The table must be read again because of such rows. */
	bool missed;   /* An acknowledgement changed fewer rows than it named. */
	int n_ignored; /* Until empty: such acknowledgements in a row after which rows were open. */
	int64_t reread_at_us; /* Earliest time to read the table again. */
	int n_rereads;        /* Such reads in a row, each within a minute of the last. */

	/* A share of the keys, beside other relays. */
	uint64_t mask; /* This relay's partitions, a bit each; UINT64_MAX: all. */
	int64_t each;  /* Rows to read of each partition at once. */
	wh_shares shares;

	/* New rows do not come by reading ahead. */
	/* Is a row that a sweep meets taken in with the new ones, in the order of its key?  NULL: none is. */
	bool (*comes_later)(const wherry_relay *r, const wh_open_row *row, int64_t now);
	bool fed;        /* So it is. */
	bool news;       /* Others have committed: there may be new rows. */
	uint64_t taking; /* The look that brings new rows; 0: rows are read. */
} wh_reader;

/* The state of an engine that reads the table. */
wh_reader *wh_reader_of(const wherry_relay *r);

void wh_reader_init(wh_reader *t);

/* For the engine's table of functions. */
void wh_reader_free(wherry_relay *r);
void wh_reader_resume(wherry_relay *r, int64_t now);
void wh_reader_begin(wherry_relay *r, int64_t now);
wherry_code wh_reader_suspects(wherry_relay *r, int64_t *out_upto, wherry_error *err);
bool wh_reader_no_suspects_left(const wherry_relay *r);
bool wh_reader_is_unsuspected(const wherry_relay *r, const wh_entry *e);
wherry_code wh_reader_renewed(wherry_relay *r, int64_t now, int64_t version,
			      wherry_error *err);
void wh_reader_forget(wherry_relay *r);
wherry_code wh_reader_fetch(wherry_relay *r, int64_t now, wherry_error *err);
bool wh_reader_reads_next(const wherry_relay *r, int64_t now);
bool wh_reader_is_partial(const wherry_relay *r);
void wh_reader_admitted(wherry_relay *r, wh_entry *e);
void wh_reader_left(wherry_relay *r, const wh_entry *e);
void wh_reader_changed(wherry_relay *r, int64_t now);
void wh_reader_row_lost(wherry_relay *r);
void wh_reader_missed(wherry_relay *r, int64_t n, int64_t now);
/* Until empty: end the run if no message up to the target is open, or only parked ones are.
 * Otherwise read the table again, unless the relay is not quiet: there is something to do. */
void wh_reader_end_if_empty(wherry_relay *r, bool open, bool quiet, int64_t now);
wherry_code wh_reader_until_empty(wherry_relay *r, int64_t now, wherry_error *err);
int64_t wh_reader_deadline(const wherry_relay *r, int64_t now);

/* Start to read all open rows from the beginning. */
void wh_reader_sweep(wherry_relay *r, int64_t now);
/* Forget the gaps, and read from the beginning. */
void wh_reader_read_again(wherry_relay *r, int64_t now);
/* Is nothing in memory, no key held or parked, and no row known that could be read? */
bool wh_reader_is_idle(const wherry_relay *r);
/* Is there room for a large read?  Few large reads cost less than many small ones. */
bool wh_reader_is_worth_it(const wherry_relay *r);

/* Properties and functions that all engines that read the table share. */
#define WH_READER_FUNCTIONS                                                              \
	.hold = &wh_hold_noted, .writes_rows = true, .records_attempts = true,           \
	.suspects = wh_reader_suspects, .no_suspects_left = wh_reader_no_suspects_left,  \
	.is_unsuspected = wh_reader_is_unsuspected, .forget = wh_reader_forget,          \
	.reads_next = wh_reader_reads_next, .is_partial = wh_reader_is_partial,          \
	.changed = wh_reader_changed, .row_lost = wh_reader_row_lost,                    \
	.missed = wh_reader_missed, .until_empty = wh_reader_until_empty

/* For engines that share the partitions. */
wherry_code wh_shares_take(wherry_relay *r, wherry_error *err);
void wh_shares_begin(wherry_relay *r, int64_t now);
wherry_code wh_shares_renew(wherry_relay *r, wherry_lease *inout, wherry_error *err);
wherry_code wh_shares_renewed(wherry_relay *r, int64_t now, wherry_error *err);
void wh_shares_lost(wherry_relay *r);
wherry_code wh_shares_control(wherry_relay *r, bool *out_paused, int64_t *out_version,
			      wherry_error *err);
bool wh_shares_yields(const wherry_relay *r);
/* In place of a read, while the relay yields. */
wherry_code wh_shares_yield(wherry_relay *r, int64_t now, wherry_error *err);

#define WH_SHARES_FUNCTIONS                                                              \
	.joins_leader = true, .take = wh_shares_take, .renew = wh_shares_renew,          \
	.lost = wh_shares_lost, .control = wh_shares_control, .yields = wh_shares_yields

/* Take in a row that was not read ahead, or note it behind its key. */
wherry_code wh_reader_meet(wherry_relay *r, int64_t now, const wh_open_row *row,
			   wherry_error *err);

#endif
