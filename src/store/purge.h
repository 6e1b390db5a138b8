/*
 * Deleting what was delivered, in batches; and moving it to an archive.
 */
#ifndef WH_STORE_PURGE_H
#define WH_STORE_PURGE_H

#include "store/store.h"

/*
 * Run a statement that deletes delivered rows of an age, each batch in a transaction.
 *
 * @param before  Copies what goes, in the same transaction; NULL: nothing.
 * @param stmt    Deletes; NULL: the layout keeps nothing that could be purged.
 * @param out_n   Receives how many went, also on failure; may be NULL.
 */
wherry_code wh_store_purge(wh_store *store, const wh_stmt *before, const wh_stmt *stmt,
			   int64_t older_than_us, int64_t batch, int64_t max_rows,
			   int64_t *out_n, wherry_error *err);

#endif
