/*
 * memory: keeps copies of the messages it takes, for tests of applications.
 *
 * It keeps the order of keys as strictly as a broker.  Once a message fails, the messages
 * of its key that were already taken fail too.
 */
#include "publish/driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "publish/format/format.h"
#include "publish/parts.h"

/* A key with a failed message.  Only its hash is kept, since the message is borrowed.  If
 * two keys have the same hash, one of them gets an unneeded retry. */
typedef struct failed_key {
	uint64_t hash; /* 0: empty. */
	/* Number of the last message that had been taken when the failure was
	 * reported. */
	uint64_t until;
} failed_key;

typedef struct memory_publisher {
	wherry_publisher base;
	wh_pending pending; /* mark: number of the message, from 1. */
	uint64_t taken;
	wherry_memory_fn answer;
	void *answer_ctx;
	wh_arena arena; /* Memory of the copies. */
	wherry_message **delivered;
	size_t n_delivered, cap_delivered;
	failed_key *failed;          /* Open addressing, at most half full. */
	size_t n_failed, cap_failed; /* cap_failed is a power of two, or 0. */
} memory_publisher;

static memory_publisher *of(wherry_publisher *pub)
{
	return (memory_publisher *)pub;
}

static wherry_code memory_open(const char *rest, const wherry_config *config,
			       const wh_env *env, wherry_publisher **out,
			       wherry_error *err)
{
	memory_publisher *p;

	(void)config;
	(void)env;
	if (*rest)
		return wh_fail(err, WHERRY_INVALID,
			       "memory: stands alone; leave out '%.80s' behind the colon",
			       rest);
	p = calloc(1, sizeof(*p));
	if (!p)
		return wh_oom(err);
	p->base.driver = &wh_publisher_memory;
	*out = &p->base;
	return WHERRY_OK;
}

static void memory_close(wherry_publisher *pub)
{
	memory_publisher *p = of(pub);

	wh_pending_clear(&p->pending);
	wh_arena_clear(&p->arena);
	free(p->delivered);
	free(p->failed);
	free(p);
}

static wherry_code memory_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				 size_t n, size_t *out_taken, wherry_error *err)
{
	memory_publisher *p = of(pub);
	size_t i;

	for (i = 0; i < n && wh_pending_reserve(&p->pending); i++)
		wh_pending_push(&p->pending,
				(wh_pending_item){msgs[i], ++p->taken, false});
	*out_taken = i;
	return p->pending.n ? WHERRY_OK : wh_oom(err);
}

/* ---- keys that failed ---- */

/* The slot that a key has, or would get; NULL: the table has no memory yet. */
static failed_key *failed_place(const memory_publisher *p, uint64_t hash)
{
	size_t i = (size_t)hash & (p->cap_failed - 1);

	if (!p->cap_failed)
		return NULL;
	while (p->failed[i].hash && p->failed[i].hash != hash)
		i = (i + 1) & (p->cap_failed - 1);
	return &p->failed[i];
}

static bool failed_grow(memory_publisher *p)
{
	memory_publisher grown = *p;

	if (p->n_failed * 2 < p->cap_failed)
		return true;
	grown.cap_failed = p->cap_failed ? p->cap_failed * 2 : 16;
	grown.failed = calloc(grown.cap_failed, sizeof(*grown.failed));
	if (!grown.failed)
		return false;
	for (size_t i = 0; i < p->cap_failed; i++)
		if (p->failed[i].hash)
			*failed_place(&grown, p->failed[i].hash) = p->failed[i];
	free(p->failed);
	p->failed = grown.failed;
	p->cap_failed = grown.cap_failed;
	return true;
}

static bool is_behind(const memory_publisher *p, uint64_t hash, uint64_t number)
{
	const failed_key *place = hash ? failed_place(p, hash) : NULL;

	return place && place->hash && number <= place->until;
}

/* Call failed_grow() first, to make room. */
static void note_failure(memory_publisher *p, uint64_t hash)
{
	failed_key *place = hash ? failed_place(p, hash) : NULL;

	if (!place)
		return;
	if (!place->hash)
		p->n_failed++;
	place->hash = hash;
	place->until = p->taken;
}

static void forget_failures(memory_publisher *p)
{
	if (p->n_failed)
		memset(p->failed, 0, p->cap_failed * sizeof(*p->failed));
	p->n_failed = 0;
}

/* ---- copies ---- */

static bool keep(memory_publisher *p, const wherry_message *msg)
{
	wherry_message *copy;

	if (p->n_delivered == p->cap_delivered) {
		size_t cap = p->cap_delivered ? p->cap_delivered * 2 : 64;
		wherry_message **grown =
			realloc(p->delivered, cap * sizeof(wherry_message *));

		if (!grown)
			return false;
		p->delivered = grown;
		p->cap_delivered = cap;
	}
	copy = wh_message_copy(&p->arena, msg);
	if (copy)
		p->delivered[p->n_delivered++] = copy;
	return copy != NULL;
}

/* ---- answers ---- */

/* Decide the receipt of a message.  False: out of memory.  Nothing has changed then, but
 * p->answer may have been called. */
static bool decide(memory_publisher *p, const wh_pending_item *item, wh_receipt *out)
{
	wherry_verdict verdict = WHERRY_DELIVERED;
	uint64_t hash = wh_message_key_hash(item->message);
	char reason[sizeof(out->reason)] = "";

	if (is_behind(p, hash, item->mark)) {
		wh_receipt_fill(out, item->message, WHERRY_RETRY,
				"behind a failed message of its key");
		return true;
	}
	if (!failed_grow(p))
		return false;
	if (p->answer)
		verdict = p->answer(p->answer_ctx, item->message, reason,
				    sizeof(reason) - 1);
	if (verdict == WHERRY_DELIVERED && !keep(p, item->message))
		return false;
	if (verdict != WHERRY_DELIVERED)
		note_failure(p, hash);
	wh_receipt_fill(out, item->message, verdict,
			verdict == WHERRY_DELIVERED ? NULL : reason);
	return true;
}

static wherry_code memory_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				  size_t *out_n, wherry_error *err)
{
	memory_publisher *p = of(pub);
	size_t n = 0;

	while (n < cap && p->pending.n) {
		if (!decide(p, wh_pending_first(&p->pending), &out[n]))
			break;
		wh_pending_pop(&p->pending);
		n++;
	}
	if (!p->pending.n)
		forget_failures(p);
	*out_n = n;
	return n || !p->pending.n ? WHERRY_OK : wh_oom(err);
}

static void memory_drop(wherry_publisher *pub)
{
	memory_publisher *p = of(pub);

	wh_pending_drop(&p->pending);
	forget_failures(p);
}

/* Receipts are ready at once. */
static int64_t memory_deadline(wherry_publisher *pub)
{
	return of(pub)->pending.n ? 0 : WH_NEVER;
}

const wh_publisher_driver wh_publisher_memory = {
	.scheme = "memory",
	.caps = WH_PUB_ORDERED,
	.open = memory_open,
	.close = memory_close,
	.submit = memory_submit,
	.collect = memory_collect,
	.drop = memory_drop,
	.deadline = memory_deadline,
};

/* ---- wherry/publisher.h ---- */

static bool is_memory(const wherry_publisher *pub)
{
	return pub && pub->driver == &wh_publisher_memory;
}

/* The publisher may stand behind a format. */
static const memory_publisher *memory_of(const wherry_publisher *pub)
{
	const wherry_publisher *inner = pub ? wh_format_inner(pub) : NULL;

	pub = inner ? inner : pub;
	return is_memory(pub) ? (const memory_publisher *)pub : NULL;
}

size_t wherry_memory_count(const wherry_publisher *publisher)
{
	const memory_publisher *p = memory_of(publisher);

	return p ? p->n_delivered : 0;
}

const wherry_message *wherry_memory_get(const wherry_publisher *publisher, size_t i)
{
	const memory_publisher *p = memory_of(publisher);

	return p && i < p->n_delivered ? p->delivered[i] : NULL;
}

void wherry_memory_answer(wherry_publisher *publisher, wherry_memory_fn answer, void *ctx)
{
	wherry_publisher *inner = publisher ? wh_format_inner(publisher) : NULL;

	publisher = inner ? inner : publisher;
	if (!is_memory(publisher))
		return;
	of(publisher)->answer = answer;
	of(publisher)->answer_ctx = ctx;
}
