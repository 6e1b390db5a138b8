/*
 * Waiting until a message can be received.
 */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "queue/queue.h"
#include "store/leases.h"

/* A message that nobody announces, such as one given back by plain SQL, waits so long at most. */
enum { LOOK_AGAIN_US = 10000000 };

/* Sleep until someone commits, or until that time; false: a signal came. */
static bool sleep_until(wherry_queue *queue, int64_t until_us)
{
	wherry_db *db = queue->store.db;

	for (;;) {
		const wh_look look = {.now_us = wh_monotonic(db->env),
				      .found = queue->store.found};
		struct pollfd fd = {.fd = wh_db_fd(db), .events = POLLIN};
		int64_t next_us, left_us;
		struct timespec left;

		if (look.now_us >= until_us || wh_db_changed(db, &look, &next_us))
			return true;
		left_us = (next_us < until_us ? next_us : until_us) - look.now_us;
		if (left_us < 1000)
			left_us = 1000;
		left = (struct timespec){left_us / WH_SECOND, left_us % WH_SECOND * 1000};
		if (ppoll(&fd, 1, &left, NULL) < 0 && errno == EINTR)
			return false;
	}
}

wherry_code wherry_queue_wait(wherry_queue *queue, int64_t timeout_us, bool *out_any,
			      wherry_error *err)
{
	wh_error_clear(err);
	bool awake = true, any = false;
	int64_t end_us;
	wherry_code code;

	if (!queue || !out_any || timeout_us < 0)
		return wh_fail(err, WHERRY_INVALID, "no queue to wait for, or no time");
	if (wherry_db_in_transaction(queue->store.db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: wait before it begins, since it "
			       "sees nothing new and keeps others from cleaning up");
	end_us = wh_later(wh_monotonic(queue->store.db->env), timeout_us);
	code = wh_store_watch(&queue->store, false, err);
	while (code == WHERRY_OK && awake) {
		int64_t due_us = -1, now_us;

		code = wherry_queue_next_due(queue, &due_us, err);
		now_us = wh_monotonic(queue->store.db->env);
		any = code == WHERRY_OK && due_us == 0;
		if (code != WHERRY_OK || any || now_us >= end_us)
			break;
		if (due_us < 0 || due_us > LOOK_AGAIN_US)
			due_us = LOOK_AGAIN_US;
		due_us = wh_later(now_us, due_us);
		awake = sleep_until(queue, due_us < end_us ? due_us : end_us);
	}
	if (code == WHERRY_OK)
		*out_any = any;
	return code;
}
