/*
 * Rows of an adopted table for which an expression of its owner fails, such as a cast.
 *
 * A statement that reads such a row fails, and with it all others of the statement.  So the row is looked for, and marked;
 * the view of the table then has NULL for what may fail, and a relay takes it for a dead message.
 */
#ifndef WH_LOG_FAILING_H
#define WH_LOG_FAILING_H

#include "store/store.h"

/*
 * Find and mark rows that make statements fail, after one did (wh_db_about_row()): among the messages around the
 * position and the exceptions that are open, and then among all.
 *
 * Transaction: none.
 *
 * @param out_n  Receives the number of rows that failed, and do not now that they are marked; at most about 100.  0: the
 *               layout has no expressions of an owner, or none of them failed.
 * @return WHERRY_OK; what reads and writes can fail with.
 */
wherry_code wh_failing_find(wh_store *store, int64_t *out_n, wherry_error *err);

#endif
