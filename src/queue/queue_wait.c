/*
 * Waiting until a message can be received.
 */
#include "queue/queue.h"
#include "store/waits.h"

static wherry_code next_due(void *ctx, int64_t *out_us, wherry_error *err)
{
	return wherry_queue_next_due(ctx, out_us, err);
}

wherry_code wherry_queue_wait(wherry_queue *queue, int64_t timeout_us, bool *out_any,
			      wherry_error *err)
{
	wh_error_clear(err);
	if (!queue || !out_any || timeout_us < 0)
		return wh_fail(err, WHERRY_INVALID, "no queue to wait for, or no time");
	return wh_store_wait(&queue->store, next_due, queue, -1, timeout_us, out_any,
			     err);
}
