/*
 * Gaps: ids that a relay passed over while reading ahead, which open transactions may
 * still commit.
 *
 * Rows are the truth, and the cursor is a hint.  Each read includes the gaps, in one
 * statement, so that rows of one key are met in the order of their ids.  A gap is
 * forgotten when every transaction has ended that ran when the relay saw the gap.  If
 * there are too many gaps, neighbours are merged: a gap that is too wide only costs time.
 */
#ifndef WH_RELAY_ENGINE_GAPS_H
#define WH_RELAY_ENGINE_GAPS_H

#include "store/open_row.h"

enum { WH_GAPS_MOST = 1000, WH_PASSES_MOST = 8 };

typedef struct wh_gaps {
	wh_range ranges[WH_GAPS_MOST]; /* Ascending, with other ids between them. */
	/* For each range, the number of the next transaction when the range was dated.
	 * Below 0: minus the next transaction when it was seen; statements of then may
	 * still run.  INT64_MAX: just seen. */
	int64_t seen[WH_GAPS_MOST];
	size_t n;
} wh_gaps;

/* Add the ids from first to last, which are above all gaps of the set.  wh_gaps_date()
 * dates them, after this read and later ones. */
void wh_gaps_add(wh_gaps *set, int64_t first, int64_t last);

/* Add all ids from first to last, for a relay that reads only its partitions.  Some of
 * these ids were read, some belong to other relays, and some may still be committed.  At
 * most WH_PASSES_MOST ranges are kept, each with one date. */
void wh_gaps_pass(wh_gaps *set, int64_t first, int64_t last);

/*
 * Date the gaps after a read.  A transaction that takes an id may get its number only
 * when its statement writes.  So a gap is dated once all statements have ended that ran
 * when the gap was seen: by then their transactions have numbers.
 *
 * @param running  From the read before this one: no statement runs that began before this
 *                 transaction was the next one.
 * @param next     The number of the next transaction, asked for after `running`.
 */
void wh_gaps_date(wh_gaps *set, int64_t running, int64_t next);

/* A row with this id was read: take the id out of its gap. */
void wh_gaps_fill(wh_gaps *set, int64_t id);

/* Forget the gaps whose transactions have all ended: those dated at or below the oldest
 * transaction that runs. */
void wh_gaps_expire(wh_gaps *set, int64_t oldest_transaction);

#endif
