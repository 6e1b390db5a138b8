/*
 * Waiting until a table has work.
 */
#ifndef WH_STORE_WAITS_H
#define WH_STORE_WAITS_H

#include "store/store.h"

/* Find out how long until there is work; 0: there is some now; below 0: unknown. */
typedef wherry_code (*wh_due_fn)(void *ctx, int64_t *out_us, wherry_error *err);

/*
 * Wait until there is work.  Commits of others end the wait at once on databases that
 * notify; on others, it looks for commits up to four times a second.
 *
 * @param due         Called at the beginning, after commits, and when the time that it
 *                    returned has come.
 * @param bell        File descriptor that ends the wait when it becomes readable; -1:
 *                    none.
 * @param timeout_us  Longest time to wait; 0: only call due() once.
 * @param out_any     Receives whether there is work; false also after a signal.
 * @return WHERRY_OK; WHERRY_INVALID: a transaction is open; any error of due().
 */
wherry_code wh_store_wait(wh_store *store, wh_due_fn due, void *ctx, int bell,
			  int64_t timeout_us, bool *out_any, wherry_error *err);

#endif
