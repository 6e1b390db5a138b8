/*
 * Rows that cannot be handled, which any producer may have written: too long, not UTF-8,
 * out of range.  Such a row dies alone, with a reason that names the column and the
 * limit.
 */
#ifndef WH_STORE_ROW_PROBLEM_H
#define WH_STORE_ROW_PROBLEM_H

#include "base/buf.h"
#include "store/open_row.h"

/* Can the row not be handled, so that it must die?  Then the reason is written to `why`, which was
 * empty.
 *
 * @param own_id  The id is a column of the row, and not a number that a stream gave it. */
bool wh_row_problem(const wh_store *store, const wh_open_row *row, bool own_id,
		    wh_buf *why);

/* Empty the texts of such a row that are wrong, and leave out too long a body. */
void wh_row_trim(const wh_store *store, wh_open_row *row);

#endif
