/*
 * Reading the table: the common part of the engines of a log, whose states begin with a wh_reader.
 *
 * A cursor of the log brings new rows.  A sweep reads all open rows that the position has passed, from the
 * beginning.
 */
#ifndef WH_RELAY_ENGINE_READER_H
#define WH_RELAY_ENGINE_READER_H

#include "relay/engine/engine.h"
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
	/* Sweeping. */
	int64_t cursor;  /* Highest id that this sweep read. */
	int64_t highest; /* Highest value that the cursor had. */
	bool more;       /* There may be rows with ids above the cursor. */
	/* Rows that fit into relay.window_bytes, doubled by each read that
	 * fits; 0: no limit. */
	int64_t fits;
	bool full_logged; /* The log says that reading stopped at relay.held_keys. */

	bool sweeping;
	/* The last sweep met only rows in memory, or of held or parked keys. */
	bool swept_clean;
	int64_t sweep_at_us; /* When the next sweep is due. */

	/* Looking at the table after other connections have committed. */
	/* Ask for changes of operators by this time; WH_NEVER: no need. */
	int64_t look_by_us;

	bool replaced; /* Rows could not be acknowledged: the table must be read again. */

	/* A share of the keys, beside other relays. */
	uint64_t mask; /* This relay's partitions, a bit each; UINT64_MAX: all. */
	wh_shares shares;

	/* New rows. */
	/* Is a row that a sweep meets taken in with the new ones, in the order of its key?  NULL: none is. */
	bool (*comes_later)(const wherry_relay *r, const wh_open_row *row, int64_t now);
	bool news;       /* Others have committed: there may be new rows. */
	uint64_t taking; /* The look that brings new rows; 0: rows are read. */
} wh_reader;

/* The state of an engine that reads the table. */
wh_reader *wh_reader_of(const wherry_relay *r);

void wh_reader_init(wh_reader *t);

/* For the engine's table of functions. */
void wh_reader_begin(wherry_relay *r, int64_t now);
wherry_code wh_reader_suspects(wherry_relay *r, int64_t *out_upto, wherry_error *err);
bool wh_reader_is_unsuspected(const wherry_relay *r, const wh_entry *e);
void wh_reader_forget(wherry_relay *r);
wherry_code wh_reader_fetch(wherry_relay *r, int64_t now, wherry_error *err);

/* Look for a command of an operator if one may have been committed.  found: rows were found, so the commit was more likely
 * theirs, and the look can wait a little. */
wherry_code wh_reader_look_for_operator(wherry_relay *r, int64_t now, bool found,
					wherry_error *err);
bool wh_reader_is_partial(const wherry_relay *r);
void wh_reader_left(wherry_relay *r, const wh_entry *e);
void wh_reader_changed(wherry_relay *r, int64_t now);
void wh_reader_row_lost(wherry_relay *r);
/* Until empty: end the run if no message up to the target is open, or only parked ones are.
 * Otherwise read the table again, unless the relay is not quiet: there is something to do. */
void wh_reader_end_if_empty(wherry_relay *r, bool open, bool quiet, int64_t now);
int64_t wh_reader_deadline(const wherry_relay *r, int64_t now);

/* Start to read all open rows from the beginning. */
void wh_reader_sweep(wherry_relay *r, int64_t now);
/* Forget what was read, and read from the beginning. */
void wh_reader_read_again(wherry_relay *r, int64_t now);
/* Is there room for a large read?  Few large reads cost less than many small ones. */
bool wh_reader_is_worth_it(const wherry_relay *r);

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
