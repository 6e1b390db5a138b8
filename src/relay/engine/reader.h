/*
 * Reading the table: what the engines exclusive, partitioned and stream have in common.
 *
 * Their states begin with a wh_reader.  Rows are read ahead of a cursor.  A sweep reads all open
 * rows from the beginning.
 */
#ifndef WH_RELAY_ENGINE_READER_H
#define WH_RELAY_ENGINE_READER_H

#include "relay/engine/engine.h"
#include "relay/engine/gaps.h"
#include "relay/engine/strict.h"
#include "relay/relay.h"

typedef struct wh_reader {
	/* Reading ahead. */
	int64_t cursor; /* Highest id read; all rows up to it are delivered or in memory. */
	int64_t highest; /* Highest that the cursor has been. */
	bool more;       /* There may be rows behind the cursor. */
	int64_t fits; /* Rows that fitted when bodies were too large for a batch; 0: all. */
	bool full_logged; /* It is logged that reading stopped at relay.held_keys. */

	/* Ids that an open transaction may still commit. */
	wh_gaps gaps;
	int64_t oldest;  /* Transaction that may still run, as of the last read. */
	int64_t running; /* No statement runs that began before it; see wh_gaps_date(). */
	wh_strict strict;

	/* Sweeping. */
	bool sweeping;
	bool changed_only;   /* The sweep reads only rows that somebody changed. */
	bool swept_clean;    /* The last sweep met only rows that were known. */
	int64_t sweep_at_us; /* When the next sweep is due. */

	/* Looking, after others have committed. */
	int64_t look_by_us;   /* Ask for an operator's change by then; WH_NEVER. */
	int64_t open_look_us; /* Look for open rows that reading ahead misses; WH_NEVER. */
	int64_t open_looked_us; /* When that was done last. */

	/* Rows that could not be acknowledged. */
	bool replaced; /* They were replaced, or cannot be written: read them again. */
	int64_t reread_at_us;  /* Earliest time to read them again. */
	int n_rereads;         /* Times in a row, each within a minute of the last. */
	bool look_for_claims;  /* Of others; where the relay works alone: see sole.h. */
	bool stopped_at_claim; /* Reading stopped before a claimed row. */

	/* A share of the keys, beside other relays. */
	uint64_t mask; /* Its partitions, a bit each; UINT64_MAX: all. */
	int64_t each;  /* Rows of a partition to read at once. */

	/* A stream that brings new rows. */
	wherry_code (*swept)(wherry_relay *r, int64_t now,
			     wherry_error *err); /* After a sweep; NULL: no stream. */
	bool fed;                                /* New rows arrive by the stream. */
	bool knows_all; /* All open rows are in memory or noted, but those changed since. */
	uint64_t taking; /* Transaction whose rows arrive; 0: rows are read. */
} wh_reader;

/* The state of an engine that reads the table. */
wh_reader *wh_reader_of(const wherry_relay *r);

void wh_reader_init(wh_reader *t);

/* For the engine's table of functions. */
wherry_code wh_reader_make(wherry_relay *r, wherry_error *err);
void wh_reader_free(wherry_relay *r);
void wh_reader_resume(wherry_relay *r, int64_t now);
void wh_reader_begin(wherry_relay *r, int64_t now);
wherry_code wh_reader_suspects(wherry_relay *r, int64_t *out_upto, wherry_error *err);
bool wh_reader_proven(const wherry_relay *r);
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
wherry_code wh_reader_until_empty(wherry_relay *r, int64_t now, wherry_error *err);
int64_t wh_reader_deadline(const wherry_relay *r, int64_t now);

/* Start to read all open rows from the beginning. */
void wh_reader_sweep(wherry_relay *r, int64_t now);
/* The same, though all open rows were known: also those that nobody changed. */
void wh_reader_sweep_all(wherry_relay *r, int64_t now);
/* Forget the gaps, and read from the beginning. */
void wh_reader_read_again(wherry_relay *r, int64_t now);
/* Forget the gaps, where a stream brings what is committed in them. */
void wh_reader_forget_gaps(wh_reader *t);
/* Nothing is in memory, and nothing is known to be there to read. */
bool wh_reader_is_idle(const wherry_relay *r);
/* Is there room for enough rows?  Few large reads cost less than many small ones. */
bool wh_reader_is_worth_it(const wherry_relay *r);

/* Functions that all engines that read the table share. */
#define WH_READER_FUNCTIONS                                                              \
	.hold = &wh_hold_noted, .writes_rows = true, .records_attempts = true,           \
	.suspects = wh_reader_suspects, .proven = wh_reader_proven,                      \
	.is_unsuspected = wh_reader_is_unsuspected, .forget = wh_reader_forget,          \
	.reads_next = wh_reader_reads_next, .is_partial = wh_reader_is_partial,          \
	.changed = wh_reader_changed, .row_lost = wh_reader_row_lost,                    \
	.missed = wh_reader_missed, .until_empty = wh_reader_until_empty

/* Take in a row that arrived or was read, or note it behind its key. */
wherry_code wh_reader_meet(wherry_relay *r, int64_t now, const wh_open_row *row,
			   wherry_error *err);

#endif
