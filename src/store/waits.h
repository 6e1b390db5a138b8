/*
 * Waiting until there is something to do in a table.
 */
#ifndef WH_STORE_WAITS_H
#define WH_STORE_WAITS_H

#include "store/store.h"

/* Tell how long until there is something to do; 0: there is now; below 0: nothing is known. */
typedef wherry_code (*wh_due_fn)(void *ctx, int64_t *out_us, wherry_error *err);

/*
 * Wait until something can be done.  Commits of others wake it, where they can; elsewhere it looks
 * up to four times a second whether there were any.
 *
 * @param due         Asked at the beginning, after commits, and when the time that it told has come.
 * @param bell        A descriptor that ends the wait when it can be read; -1: none.
 * @param timeout_us  How long at most; 0: only ask.
 * @param out_any     Receives whether there is something to do; false also after a signal.
 * @return WHERRY_OK; WHERRY_INVALID: a transaction is open; what due() returned.
 */
wherry_code wh_store_wait(wh_store *store, wh_due_fn due, void *ctx, int bell,
			  int64_t timeout_us, bool *out_any, wherry_error *err);

#endif
