/*
 * The progress of a subscription of a log: its position, and the messages that the position has
 * passed before they were delivered.  Both are in tables beside the log, so its rows never change.
 */
#ifndef WH_LOG_SUBSCRIPTION_H
#define WH_LOG_SUBSCRIPTION_H

#include <wherry/lease.h>
#include <wherry/message.h>

#include "log/cursor.h"
#include "store/store.h"

/* Read the position.  Clears and sets *out.  NOTFOUND: there is no such subscription. */
wherry_code wh_progress_read(const wh_store *store, wh_position *out, wherry_error *err);

/* Progress to write; zero: nothing of it. */
typedef struct wh_progress {
	const wh_position *at;
	const int64_t *held; /* Messages that wait; they may be above the position. */
	size_t n_held;
	bool forget_done; /* See wh_progress_forget_done(). */
} wh_progress;

/*
 * Write a position, and make messages exceptions.
 *
 * @return WHERRY_OK; WHERRY_STALE: another relay has the lease; what a write can fail with.
 *
 * Transaction: its own.
 */
wherry_code wh_progress_write(wh_store *store, const wherry_lease *lease,
			      const wh_progress *what, wherry_error *err);

/* Forget marks of handlers that the position covers. */
wherry_code wh_progress_forget_done(const wh_store *store, wherry_error *err);

/*
 * The table came from another server: give its rows numbers of this one (wh_cursor_renumber()), and write the
 * positions of all subscriptions that fit them.
 *
 * @param at  The stored position; set to the new one, also on failure.
 * @return WHERRY_OK; WHERRY_STALE: another relay has the lease; what a write can fail with.
 *
 * Transaction: its own.
 */
wherry_code wh_progress_renumber(wh_store *store, const wherry_lease *lease,
				 wh_cursor *cursor, wh_position *at, wherry_error *err);

typedef struct wh_exception {
	int64_t id;
	wherry_state state;
	int32_t attempts;
	int64_t due_in_us;
} wh_exception;

/* Visit the exceptions that the position does not cover: a reader that begins there meets them among
 * new messages.  ctx receives each. */
wherry_code wh_progress_known(const wh_store *store,
			      void (*visit)(void *ctx, const wh_exception *what),
			      void *ctx, wherry_error *err);

#endif
