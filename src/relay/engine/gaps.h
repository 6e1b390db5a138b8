/*
 * Gaps: ids that a relay passed over while reading ahead, which open transactions may still
 * commit.
 *
 * Rows are the truth, and the cursor is a hint.  Each read also asks for the gaps, in one
 * statement, so that rows of one key are met in the order of their ids.  A gap is forgotten
 * when every transaction has ended that ran when the gap was seen.  Too many gaps are merged
 * with their neighbours: a gap that is too wide only costs time.
 */
#ifndef WH_RELAY_ENGINE_GAPS_H
#define WH_RELAY_ENGINE_GAPS_H

#include "store/open_row.h"

enum { WH_GAPS_MOST = 1000, WH_PASSES_MOST = 8 };

typedef struct wh_gaps {
	wh_range ranges[WH_GAPS_MOST]; /* ascending, apart from each other */
	int64_t seen[WH_GAPS_MOST]; /* the next transaction then; below 0: minus the next
					   one when it was read, statements run still */
	size_t n;
} wh_gaps;

/* Note the ids from first to last, which are above all noted ones.  wh_gaps_date(), after this
 * read and later ones, dates them. */
void wh_gaps_add(wh_gaps *set, int64_t first, int64_t last);

/* Note the ids from first to last, of which some were read and others may be committed yet,
 * or are other relays': in a few ranges without gaps, each of one time. */
void wh_gaps_pass(wh_gaps *set, int64_t first, int64_t last);

/*
 * A transaction that takes an id may get its number only when its statement writes.  So a gap
 * is dated once all statements are over that ran when it was seen: by then their transactions
 * have numbers.
 *
 * @param running  Of the call before this one: no statement runs that began before this
 *                 transaction was the next.
 * @param next     The next transaction, asked for after `running` was.
 */
void wh_gaps_date(wh_gaps *set, int64_t running, int64_t next);

/* A row of a gap was read. */
void wh_gaps_fill(wh_gaps *set, int64_t id);

/* Forget what was seen before `oldest_transaction` began. */
void wh_gaps_expire(wh_gaps *set, int64_t oldest_transaction);

#endif
