/*
 * What the tests of relays that write nothing to rows share.
 */
#ifndef RELAY_POSTGRES_KEEP_H
#define RELAY_POSTGRES_KEEP_H

#include "relay_suite.h"

static inline void keep(relay_fixture *f)
{
	relay_set(f, "relay.on_done", "keep");
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
}

/* Rows are as they were. */
static inline void untouched(relay_fixture *f, int64_t n)
{
	assert_int_equal(relay_count(f, WHERRY_PENDING), n);
	assert_int_equal(relay_number(f,
				      "SELECT count(*) FROM outbox WHERE attempts <> 0 "
				      "OR processed_at IS NOT NULL"),
			 0);
}

#endif
