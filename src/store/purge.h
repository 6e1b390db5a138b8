/*
 * Deleting delivered rows in batches.
 */
#ifndef WH_STORE_PURGE_H
#define WH_STORE_PURGE_H

#include "store/store.h"

/*
 * Run a statement that deletes delivered rows older than an age, each batch in a
 * transaction.
 *
 * @param stmt    Deletes the rows; NULL: the layout keeps no delivered rows.  It may return a
 *                row for each one that it looked at: its id, and whether it stays because another
 *                transaction has locked it.  That of segments returns how many ids went, and 0.
 * @param after   Id behind which this purge goes on; 0: at the lowest one.  Receives where
 *                the next one does, so that it does not read again what stays.  May be NULL.
 * @param out_n   Receives the number of deleted rows, also on failure; may be NULL.
 */
wherry_code wh_store_purge(wh_store *store, const wh_stmt *stmt, int64_t older_than_us,
			   int64_t batch, int64_t max_rows, int64_t *after,
			   int64_t *out_n, wherry_error *err);

#endif
