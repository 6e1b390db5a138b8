/*
 * Waiting until a message is due.
 */
#include <sys/eventfd.h>

#include "delayed/delayed.h"
#include "store/waits.h"

static wherry_code next_due(void *ctx, int64_t *out_us, wherry_error *err)
{
	wherry_delayed *delayed = ctx;
	const wh_param params[] = {wh_delayed_kind_param(delayed),
				   wh_delayed_now_param(delayed)};
	int64_t ms = -1;
	wherry_code code =
		wh_store_ask(&delayed->store, delayed->own.next_due, params, 2, &ms, err);

	if (code == WHERRY_OK)
		*out_us = ms < 0 ? -1 : wh_us(ms);
	return code;
}

wherry_code wherry_delayed_wait(wherry_delayed *delayed, int64_t timeout_us,
				bool *out_any, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code;

	if (!delayed || !out_any || timeout_us < 0)
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue to wait for, or no time");
	code = wh_store_wait(&delayed->store, next_due, delayed, delayed->bell,
			     timeout_us, out_any, err);
	(void)eventfd_read(delayed->bell, &(eventfd_t){0});
	return code;
}

void wherry_delayed_wake(wherry_delayed *delayed)
{
	(void)eventfd_write(delayed->bell, 1);
}
