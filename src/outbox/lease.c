/*
 * Leases of an outbox, for programs that have their own relay.
 */
#include <stdlib.h>

#include "base/sized.h"
#include "outbox/outbox.h"

_Static_assert(sizeof(wherry_lease) == 256, "its size is part of the ABI");

wherry_code wherry_outbox_lease(wherry_outbox *outbox, const char *owner,
				int64_t lasts_us, int64_t window, wherry_lease *out,
				wherry_error *err)
{
	wh_error_clear(err);
	if (!outbox || !owner || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs an outbox, an owner and a time");
	return wh_store_lease_as(&outbox->store,
				 outbox->layout.streams ? WH_STREAM : WH_POSITIONS, owner,
				 lasts_us, window, out, err);
}

wherry_code wherry_outbox_join(wherry_outbox *outbox, const char *owner, int64_t lasts_us,
			       wherry_lease *inout, wherry_error *err)
{
	wh_error_clear(err);
	if (!outbox || !owner || !inout)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs an outbox, an owner and a time");
	return wh_store_join_as(&outbox->store, owner, lasts_us, inout, err);
}

wherry_code wherry_outbox_done(wherry_outbox *outbox, const wherry_lease *lease,
			       const int64_t *ids, size_t n, int64_t *out_n,
			       wherry_error *err)
{
	wh_error_clear(err);
	wh_settlement s = {.done = ids, .n_done = n};

	return wh_store_settle_all(&outbox->store, lease, &s, out_n, err);
}

wherry_code wherry_outbox_fail(wherry_outbox *outbox, const wherry_lease *lease,
			       const wherry_failure *failures, size_t n,
			       wherry_error *err)
{
	wh_error_clear(err);
	const char *at = (const char *)failures;
	wherry_failure *own;
	wh_settlement s = {.n_failed = n};
	wherry_code code = WHERRY_OK;

	if (!outbox || !lease || (!failures && n))
		return wh_fail(err, WHERRY_INVALID, "no outbox, lease or failures");
	own = calloc(n ? n : 1, sizeof(*own));
	if (!own)
		return wh_oom(err);
	for (size_t i = 0; i < n && code == WHERRY_OK; i++, at += failures->size) {
		code = wh_sized_read(&own[i], sizeof(*own), at,
				     offsetof(wherry_failure, delay_us), "failure",
				     "WHERRY_FAILURE", err);
		if (code == WHERRY_OK)
			code = wh_span_check("the delay", own[i].delay_us, err);
	}
	s.failed = own;
	if (code == WHERRY_OK)
		code = wh_store_settle_all(&outbox->store, lease, &s, NULL, err);
	free(own);
	return code;
}

wherry_code wherry_outbox_try(wherry_outbox *outbox, const wherry_lease *lease,
			      int64_t id, wherry_error *err)
{
	wh_error_clear(err);
	wh_settlement s = {.try_id = id};

	return wh_store_settle_all(&outbox->store, lease, &s, NULL, err);
}

wherry_code wherry_outbox_requeue(wherry_outbox *outbox, const wherry_lease *lease,
				  const int64_t *ids, size_t n, wherry_error *err)
{
	wh_error_clear(err);
	wh_settlement s = {.back = ids, .n_back = n};

	return wh_store_settle_all(&outbox->store, lease, &s, NULL, err);
}

wherry_code wherry_outbox_renew(wherry_outbox *outbox, wherry_lease *lease,
				wherry_error *err)
{
	wh_error_clear(err);
	return wh_store_renew(&outbox->store, lease, err);
}

wherry_code wherry_outbox_release(wherry_outbox *outbox, const wherry_lease *lease,
				  wherry_error *err)
{
	wh_error_clear(err);
	return wh_store_release(&outbox->store, lease, err);
}

wherry_code wherry_outbox_extend(wherry_outbox *outbox, const wherry_lease *lease,
				 const int64_t *ids, size_t n, int64_t lasts_us,
				 int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	if (!outbox)
		return wh_fail(err, WHERRY_INVALID,
			       "to extend claims takes their lease and a time");
	return wh_store_extend(&outbox->store, lease, ids, NULL, n, lasts_us, out_n, err);
}
