/*
 * Numbers for monitoring: how long messages take from their creation, by the database's
 * clock, to their delivery; and the counters of the destination.
 */
#include "relay/relay.h"

static const int64_t bounds[WHERRY_LATENCY_CLASSES] = {
	1000,           2500,           5000,           10000,
	25000,          50000,          100000,         250000,
	500000,         WH_SECOND,      2500000,        5 * WH_SECOND,
	10 * WH_SECOND, 30 * WH_SECOND, 60 * WH_SECOND, 300 * WH_SECOND,
	INT64_MAX,
};

int64_t wherry_latency_bound(int i)
{
	return i >= 0 && i < WHERRY_LATENCY_CLASSES ? bounds[i] : INT64_MAX;
}

void wh_latency_note(wherry_relay *r, const wh_entry *e)
{
	int64_t took_us = 0;
	int i = 0;

	if (e->msg.created_at_us > 0 && r->now_us > e->msg.created_at_us)
		/* Never below 0: clocks may differ. */
		took_us = wh_since(r->now_us, e->msg.created_at_us);
	while (took_us > bounds[i])
		i++;
	r->stats.latency[i]++;
	r->stats.latency_us = wh_later(r->stats.latency_us, took_us);
}

size_t wh_relay_numbers(const wherry_relay *r, wh_number *out)
{
	if (!r->pub)
		return 0;
	wh_publisher_watch(r->pub);
	return wh_publisher_numbers(r->pub, out);
}
