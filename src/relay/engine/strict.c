/*
 * key-strict: no message is submitted before a message of its key with a lower id that
 * may still be committed.
 *
 * Ids up to `solid` are final: a missing one will not be committed any more.  A row with
 * the next id makes its id solid.  At a gap, reading stops, and no row after it is taken
 * in.  Reading goes on in two cases:
 *
 *     1. The gap is filled.
 *     2. All transactions have ended that had begun when the row after the gap was seen.
 *        Then all ids seen by then are solid.
 *
 * A transaction has a number before it takes an id: create makes a trigger that ensures
 * this.  So numbers show which transactions had begun.
 *
 * Relays with a share, and competing relays, do not meet all rows.  They use only case 2.
 * Claims of competing relays end at the solid id.
 *
 * It is not enough to compare the number of a row's own transaction with the oldest
 * running one: an older transaction may take the higher id
 * (an_older_transaction_with_the_higher_id_waits_for_the_younger).
 */
#include <inttypes.h>

#include "relay/engine/strict.h"
#include "relay/relay.h"

enum { FIRST_US = 1000, LAST_US = 250000, LONG_US = 5 * WH_SECOND };

wherry_code wh_strict_check(const wherry_relay *r, wherry_error *err)
{
	wh_id_taking ids;
	wherry_code code = wh_outbox_id_taking(r->outbox, &ids, err);

	if (code != WHERRY_OK)
		return code;
	if (ids.numbered && ids.cache <= 1)
		return WHERRY_OK;
	code = ids.numbered
		       ? wh_fail(err, WHERRY_INVALID,
				 "sessions take ids of outbox '%s' %" PRId64
				 " at a time, so that they say nothing about order: "
				 "set that to 1, and let producers connect again",
				 r->store->name.ptr, ids.cache)
		       : wh_fail(err, WHERRY_INVALID,
				 "outbox '%s' is not made for key-strict, which needs "
				 "to know who may still commit a lower id",
				 r->store->name.ptr);
	return wh_repair(err, code, WHERRY_REPAIR_STRICT, WHERRY_KIND_OUTBOX,
			 r->store->name.ptr);
}

void wh_strict_reset(wh_strict *s)
{
	*s = (wh_strict){.look_us = WH_NEVER};
}

bool wh_strict_stops(wh_strict *s, int64_t now, int64_t id)
{
	if (id <= s->solid)
		return false;
	if (id == s->solid + 1) {
		s->solid = id;
		return false;
	}
	if (s->gap_before != id) {
		s->look_us = s->since_us = now;
		s->step_us = FIRST_US;
	}
	s->gap_before = id;
	return true;
}

static void log_wait(wherry_relay *r, wh_strict *s, int64_t now)
{
	if (s->logged || now - s->since_us < LONG_US)
		return;
	s->logged = true;
	wh_relay_say(r, WHERRY_LOG_WARN, "strict-wait", wh_log_int("after", s->solid),
		     wh_log_int("before_transaction", s->number),
		     wh_log_note("later messages wait for a transaction that "
				 "writes; to find it: SELECT * FROM "
				 "pg_stat_activity WHERE backend_xid IS NOT "
				 "NULL; SELECT * FROM pg_prepared_xacts"));
}

/* Date the ids seen by now, and make the dated ids solid if their transactions
 * have ended. */
static void advance(wh_strict *s, const wh_frontier *f)
{
	if (s->upto < s->gap_before) /* It was dated before that row was seen. */
		s->upto = 0;
	for (int i = 0; i < 2; i++) {
		if (!s->upto && f->last > s->solid) {
			s->upto = f->last;
			s->number = f->next;
		}
		if (!s->upto || f->oldest < s->number)
			return;
		s->solid = s->upto;
		s->upto = 0;
	}
}

wherry_code wh_strict_look(wherry_relay *r, wh_strict *s, int64_t now, int64_t cursor,
			   bool partial, bool *out_more, wherry_error *err)
{
	int64_t solid = s->solid;
	wh_frontier f;
	wherry_code code = wh_outbox_frontier(r->outbox, cursor, s->gap_before, &f, err);

	if (code != WHERRY_OK)
		return code;
	if (f.last < s->gap_before) /* The row was deleted. */
		f.last = s->gap_before;
	advance(s, &f);
	if (s->gap_before && ((f.filled && !partial) || s->gap_before <= s->solid))
		s->gap_before = 0;
	if (s->solid > solid) {
		*out_more = true;
		s->since_us = now;
		s->step_us = FIRST_US;
		s->logged = false;
	}
	log_wait(r, s, now);
	s->look_us = WH_NEVER;
	if (!s->gap_before && !s->upto)
		return WHERRY_OK;
	s->look_us = wh_later(now, s->step_us);
	s->step_us = s->step_us < LAST_US / 2 ? s->step_us * 2 : LAST_US;
	return WHERRY_OK;
}
