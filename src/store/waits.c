#include "store/waits.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "store/leases.h"

/* Longest time until the next look.  Nothing announces some work, such as a row changed
 * by plain SQL. */
enum { LOOK_AGAIN_US = 10000000 };

/* Sleep until a commit or until_us; false: a signal came, or the bell became readable. */
static bool sleep_until(wh_store *store, int bell, int64_t until_us)
{
	wherry_db *db = store->db;

	for (;;) {
		const wh_look look = {.now_us = wh_monotonic(db->env),
				      .rows_read = store->rows_read};
		struct pollfd fds[] = {{.fd = bell, .events = POLLIN},
				       {.fd = wh_db_fd(db), .events = POLLIN}};
		int64_t next_us, left_us;
		struct timespec left;

		if (look.now_us >= until_us || wh_db_changed(db, &look, &next_us))
			return true;
		left_us = (next_us < until_us ? next_us : until_us) - look.now_us;
		if (left_us < 1000)
			left_us = 1000;
		left = (struct timespec){left_us / WH_SECOND, left_us % WH_SECOND * 1000};
		if (ppoll(fds, 2, &left, NULL) < 0 && errno == EINTR)
			return false;
		if (fds[0].revents)
			return false;
	}
}

wherry_code wh_store_wait(wh_store *store, wh_due_fn due, void *ctx, int bell,
			  int64_t timeout_us, bool *out_any, wherry_error *err)
{
	bool awake = true, any = false;
	int64_t end_us;
	wherry_code code;

	if (wherry_db_in_transaction(store->db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: wait before it begins, since it "
			       "sees nothing new and keeps others from cleaning up");
	end_us = wh_later(wh_monotonic(store->db->env), timeout_us);
	code = wh_store_watch(store, err);
	while (code == WHERRY_OK && awake) {
		int64_t due_us = -1, now_us;

		code = due(ctx, &due_us, err);
		now_us = wh_monotonic(store->db->env);
		any = code == WHERRY_OK && due_us == 0;
		if (code != WHERRY_OK || any || now_us >= end_us)
			break;
		if (due_us < 0 || due_us > LOOK_AGAIN_US)
			due_us = LOOK_AGAIN_US;
		due_us = wh_later(now_us, due_us);
		awake = sleep_until(store, bell, due_us < end_us ? due_us : end_us);
	}
	if (code == WHERRY_OK)
		*out_any = any;
	return code;
}
