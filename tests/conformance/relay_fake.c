#include "relay_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static relay_fake *of(wherry_publisher *pub)
{
	return (relay_fake *)pub;
}

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool empty(const char *text)
{
	return !text || !*text;
}

bool relay_same_key(const wherry_message *a, const wherry_message *b)
{
	if (!empty(a->key) || !empty(b->key))
		return same(a->key, b->key);
	if (empty(a->aggregate_type) && empty(a->aggregate_id))
		return false;
	return same(a->aggregate_type, b->aggregate_type) &&
	       same(a->aggregate_id, b->aggregate_id);
}

static int64_t number_of(const relay_fake *fake, const wherry_message *msg)
{
	return fake->number ? fake->number(fake->ctx, msg) : msg->id;
}

static relay_flight *find(const relay_fake *fake, int64_t id)
{
	for (size_t i = 0; i < fake->n; i++)
		if (number_of(fake, fake->flights[i].msg) == id &&
		    !fake->flights[i].answered)
			return (relay_flight *)(uintptr_t)&fake->flights[i];
	return NULL;
}

bool relay_fake_holds(const relay_fake *fake, int64_t id)
{
	return find(fake, id) != NULL;
}

/* What an answer means for others of the key that were taken. */
static void bind_others(relay_fake *fake, const relay_flight *answered)
{
	bool refused = answered->verdict != WHERRY_DELIVERED;

	if (!(fake->driver.caps & WH_PUB_ORDERED) || answered->doomed)
		return;
	for (size_t i = 0; i < fake->n; i++) {
		relay_flight *flight = &fake->flights[i];

		if (flight->answered || !relay_same_key(flight->msg, answered->msg))
			continue;
		flight->doomed |= refused && flight > answered;
		if (refused || flight->sure || flight > answered)
			continue;
		flight->sure = true;
		fake->note(fake->ctx, flight->msg, WHERRY_DELIVERED);
	}
}

static void settle(relay_fake *fake, relay_flight *flight, wherry_verdict verdict)
{
	flight->answered = true;
	flight->verdict = flight->sure     ? WHERRY_DELIVERED
			  : flight->doomed ? WHERRY_RETRY
					   : verdict;
	flight->retry_after_us = fake->retry_after_us;
	bind_others(fake, flight);
	if (!flight->sure && !flight->doomed)
		fake->note(fake->ctx, flight->msg, flight->verdict);
}

bool relay_fake_answer(relay_fake *fake, int64_t id, wherry_verdict verdict)
{
	relay_flight *flight = find(fake, id);

	if (!flight)
		return false;
	settle(fake, flight, verdict);
	return true;
}

void relay_fake_break(relay_fake *fake, wherry_code code)
{
	fake->collect_fails = code;
	fake->failures = 1;
}

void relay_fake_drop(relay_fake *fake)
{
	fake->n = 0;
}

/* Tell of an error: what is in flight gets no receipts. */
static wherry_code lose(relay_fake *fake, wherry_code code, wherry_error *err)
{
	fake->losses++;
	relay_fake_drop(fake);
	if (fake->failures && --fake->failures == 0)
		fake->submit_fails = fake->collect_fails = WHERRY_OK;
	return wh_fail(err, code, "the fake destination says %s", wherry_code_name(code));
}

/* Behind a refusal that was not told of yet, it is refused as well. */
static void take(relay_fake *fake, const wherry_message *msg)
{
	relay_flight flight = {.msg = msg};
	bool overlaps = false;

	for (size_t i = 0; i < fake->n; i++) {
		const relay_flight *before = &fake->flights[i];

		if (!relay_same_key(before->msg, msg))
			continue;
		overlaps = true;
		flight.doomed |= (fake->driver.caps & WH_PUB_ORDERED) &&
				 before->answered && before->verdict != WHERRY_DELIVERED;
	}
	fake->overlaps += overlaps;
	fake->flights[fake->n++] = flight;
	if (fake->n > fake->most)
		fake->most = fake->n;
}

static wherry_code fake_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	relay_fake *fake = of(pub);
	size_t most = fake->room ? fake->room : RELAY_FAKE_MOST, taken = 0;

	fake->submits++;
	if (fake->takes && n > fake->takes)
		n = fake->takes;
	if (fake->submit_fails != WHERRY_OK && !fake->takes)
		n = 0;
	while (taken < n && fake->n < most)
		take(fake, msgs[taken++]);
	*out_taken = taken;
	if (fake->submit_fails != WHERRY_OK)
		return lose(fake, fake->submit_fails, err);
	return WHERRY_OK;
}

static void give(relay_fake *fake, size_t i, wh_receipt *out)
{
	relay_flight flight = fake->flights[i];

	*out = (wh_receipt){
		.message = flight.msg,
		.verdict = flight.verdict,
		.retry_after_us = flight.retry_after_us,
		.denied = fake->denies && (flight.verdict == WHERRY_RETRY ||
					   flight.verdict == WHERRY_REJECTED),
	};
	if (flight.verdict != WHERRY_DELIVERED)
		(void)snprintf(out->reason, sizeof(out->reason), "the test said so");
	fake->n--;
	memmove(fake->flights + i, fake->flights + i + 1,
		(fake->n - i) * sizeof(*fake->flights));
}

static void decide_all(relay_fake *fake)
{
	for (size_t i = 0; i < fake->n; i++) {
		relay_flight *flight = &fake->flights[i];

		if (!flight->answered && (flight->seen || !fake->slow))
			settle(fake, flight,
			       flight->doomed ? WHERRY_RETRY
					      : fake->decide(fake->ctx, flight->msg));
		flight->seen = true;
	}
}

static wherry_code fake_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	relay_fake *fake = of(pub);
	size_t n = 0, i = 0;

	if (fake->killer && relay_fake_holds(fake, fake->killer))
		return lose(fake, WHERRY_CLOSED, err);
	if (!fake->by_hand)
		decide_all(fake);
	while (n < cap && i < fake->n) {
		if (!fake->flights[i].answered) {
			i++;
			continue;
		}
		give(fake, i, &out[n++]);
		if (fake->doubles && n < cap) {
			out[n] = out[n - 1];
			n++;
		}
	}
	*out_n = n;
	if (!n && fake->collect_fails != WHERRY_OK)
		return lose(fake, fake->collect_fails, err);
	return WHERRY_OK;
}

static int64_t fake_deadline(wherry_publisher *pub)
{
	const relay_fake *fake = of(pub);

	if (fake->n && (!fake->by_hand || fake->collect_fails != WHERRY_OK))
		return 0;
	for (size_t i = 0; i < fake->n; i++)
		if (fake->flights[i].answered || fake->flights[i].msg->id == fake->killer)
			return 0;
	return WH_NEVER;
}

static void fake_close(wherry_publisher *pub)
{
	free(of(pub));
}

relay_fake *relay_fake_open(unsigned caps)
{
	relay_fake *fake = calloc(1, sizeof(*fake));

	if (!fake)
		return NULL;
	fake->driver = (wh_publisher_driver){
		.scheme = "fake",
		.caps = caps,
		.close = fake_close,
		.submit = fake_submit,
		.collect = fake_collect,
		.deadline = fake_deadline,
	};
	fake->base.driver = &fake->driver;
	return fake;
}
