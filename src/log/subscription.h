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

/* NOTFOUND: the outbox has no subscription of the store's name. */
wherry_code wh_no_subscription(const wh_store *store, wherry_error *err);

/* The partitions of the keys that a reader has. */
typedef struct wh_share {
	uint64_t mask; /* A bit for each partition; UINT64_MAX: all. */
	/* Rows that have their positions.  If there are several, these may differ. */
	int64_t rows;
	int64_t highest; /* Highest id of one of these positions. */
	bool exceptions; /* The subscription has some. */
} wh_share;

/*
 * Read the position of a share: one that covers no more than the position of any of its partitions.  If it has several
 * rows, looks must leave out what they cover.
 *
 * Clears and sets *out, and sets the rest of *share.  NOTFOUND: there is no such subscription; STALE: another relay has
 * taken partitions of the share.
 */
wherry_code wh_progress_read(const wh_store *store, wh_share *share, wh_position *out,
			     wherry_error *err);

/* A relay that took the lease waits here for a consumer that reads the subscription in its own transaction and saw no
 * lease.  BUSY: that takes longer than db.busy_timeout. */
wherry_code wh_progress_take(const wh_store *store, const wh_share *share,
			     wherry_error *err);

/* Progress to write; zero: nothing of it. */
typedef struct wh_progress {
	const wh_position *at;
	const int64_t *held; /* Messages that wait; they may be above the position. */
	size_t n_held;
	bool forget_done; /* See wh_progress_forget_done(). */
} wh_progress;

/*
 * Write a position, and make messages exceptions.  If the share has several rows, one that is not behind the new position
 * stays as it is; when all have it, they become one row.
 *
 * @return WHERRY_OK; WHERRY_STALE: another relay has the lease; what a write can fail with.
 *
 * Transaction: its own.
 */
wherry_code wh_progress_write(wh_store *store, const wherry_lease *lease, wh_share *share,
			      const wh_progress *what, wherry_error *err);

/* Forget marks of handlers that the position covers. */
wherry_code wh_progress_forget_done(const wh_store *store, wherry_error *err);

/*
 * The table came from another server: give its rows numbers of this one (wh_cursor_renumber()), and write the
 * positions of all subscriptions that fit them.
 *
 * @return WHERRY_OK; WHERRY_STALE: another relay has the lease; what a write can fail with.
 *
 * Transaction: its own.
 */
wherry_code wh_progress_renumber(wh_store *store, const wherry_lease *lease,
				 wh_cursor *cursor, wherry_error *err);

typedef struct wh_exception {
	int64_t id;
	wherry_state state;
	int32_t attempts;
	int64_t due_in_us;
} wh_exception;

/* Visit the exceptions that the position does not cover: a reader that begins there meets them among
 * new messages.  ctx receives each. */
wherry_code wh_progress_known(const wh_store *store, const wh_share *share,
			      void (*visit)(void *ctx, const wh_exception *what),
			      void *ctx, wherry_error *err);

#endif
