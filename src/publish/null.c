/*
 * null: takes every message and keeps none, for benchmarks.
 */
#include "publish/driver.h"

#include <stdlib.h>

#include "publish/parts.h"

typedef struct null_publisher {
	wherry_publisher base;
	wh_pending pending;
} null_publisher;

static null_publisher *of(wherry_publisher *pub)
{
	return (null_publisher *)pub;
}

static wherry_code null_open(const char *rest, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	null_publisher *p;

	(void)config;
	(void)env;
	if (*rest)
		return wh_fail(err, WHERRY_INVALID,
			       "null: stands alone; leave out '%.80s' behind the colon",
			       rest);
	p = calloc(1, sizeof(*p));
	if (!p)
		return wh_oom(err);
	p->base.driver = &wh_publisher_null;
	*out = &p->base;
	return WHERRY_OK;
}

static void null_close(wherry_publisher *pub)
{
	wh_pending_clear(&of(pub)->pending);
	free(pub);
}

static wherry_code null_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	null_publisher *p = of(pub);
	size_t i;

	for (i = 0; i < n && wh_pending_reserve(&p->pending); i++)
		wh_pending_push(&p->pending, (wh_pending_item){.message = msgs[i]});
	*out_taken = i;
	return p->pending.n ? WHERRY_OK : wh_oom(err);
}

static wherry_code null_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	wh_pending *pending = &of(pub)->pending;
	size_t n;

	(void)err;
	for (n = 0; n < cap && pending->n; n++) {
		wh_receipt_fill(&out[n], wh_pending_first(pending)->message,
				WHERRY_DELIVERED, NULL);
		wh_pending_pop(pending);
	}
	*out_n = n;
	return WHERRY_OK;
}

static void null_drop(wherry_publisher *pub)
{
	wh_pending_drop(&of(pub)->pending);
}

/* Receipts are ready at once. */
static int64_t null_deadline(wherry_publisher *pub)
{
	return of(pub)->pending.n ? 0 : WH_NEVER;
}

const wh_publisher_driver wh_publisher_null = {
	.scheme = "null",
	.caps = WH_PUB_ORDERED,
	.open = null_open,
	.close = null_close,
	.submit = null_submit,
	.collect = null_collect,
	.drop = null_drop,
	.deadline = null_deadline,
};
