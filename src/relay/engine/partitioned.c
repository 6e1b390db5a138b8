/*
 * A share of the outbox, beside other relays on PostgreSQL.
 *
 * The lease's row in the database says which slots are this relay's.  It never loses one
 * while the lease lives; it takes what nobody has, as far as it is fair, and gives up what is
 * too much: then nothing new is read or submitted until all that flies has landed and is
 * written, all else in memory is forgotten, and reading begins anew with fewer.
 */
#include <inttypes.h>

#include "relay/dead_letters.h"

wherry_code wh_partitions_open(wherry_relay *r, wherry_error *err)
{
	if (r->set.competing || r->set.stream || r->lease.epoch)
		return WHERRY_OK; /* these have all of it; and a lease stays what it is */
	return wh_slots_ready(r->box, &r->partitions.on, err);
}

bool wh_partitions_partial(const wherry_relay *r)
{
	return r->partitions.on && r->partitions.slots.mine != UINT64_MAX;
}

wherry_code wh_partitions_join(wherry_relay *r, wherry_error *err)
{
	return wh_slots_join(r->box, r->set.again, r->set.name, r->set.lease_us,
			     r->set.window, &r->lease, &r->partitions.slots, err);
}

static void tell(wherry_relay *r)
{
	int n = wh_slots_count(r->partitions.slots.mine);

	if (n == r->partitions.told)
		return;
	wh_relay_say(r, WHERRY_LOG_INFO, "slots", wh_log_int("n", n),
		     wh_log_int("of", WH_SLOTS),
		     wh_log_int("relays", r->partitions.slots.n_others + 1));
	r->partitions.told = n;
}

/* Whoever had these may have ended in the middle of what he was sent. */
static wherry_code suspect(wherry_relay *r, int64_t now, int64_t suspects,
			   wherry_error *err)
{
	wherry_code code;

	if (!suspects)
		return WHERRY_OK;
	wh_relay_say(r, WHERRY_LOG_WARN, "unclean-takeover",
		     wh_log_int("suspects", suspects),
		     wh_log_note("another relay crashed while messages were in "
				 "flight; the suspects are tried one at a time"));
	r->lease.suspects += suspects + (int64_t)(r->window.n - r->window.in_flight.n -
						  r->window.settled.n);
	code = wh_outbox_last_open(r->box, &r->suspects_upto, err);
	if (code == WHERRY_OK)
		return code;
	r->suspects_upto = INT64_MAX;
	return wh_relay_db_trouble(r, now, code, err);
}

/* How many it should have more; below 0: fewer. */
static int missing(const wh_slots *s)
{
	return wh_slots_fair(s->n_others) - wh_slots_count(s->mine);
}

enum { SOON_US = 100000 };

static wherry_code take_more(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t suspects = 0;
	wherry_code code =
		wh_slots_more(r->box, &r->lease, &r->partitions.slots, &suspects, &why);

	if (code == WHERRY_BUSY && !why.native) { /* another was faster */
		r->renew_at_us = wh_later(now, SOON_US);
		return WHERRY_OK;
	}
	if (err)
		*err = why;
	if (code == WHERRY_STALE) {
		wh_lease_lost(r, now, "it lapsed before it took more slots");
		return WHERRY_OK;
	}
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	return suspect(r, now, suspects, err);
}

/* What was passed over was so for other slots. */
static void read_anew(wherry_relay *r, int64_t now)
{
	r->gaps.n = 0;
	r->passed = r->oldest = 0;
	wh_read_sweep(r, now);
}

wherry_code wh_partitions_adopt(wherry_relay *r, int64_t now, const wh_slots *heard,
				wherry_error *err)
{
	wh_slots *s = &r->partitions.slots;
	uint64_t before = s->mine;
	wherry_code code = WHERRY_OK;

	*s = *heard;
	if (s->lapse_us >= 0 && wh_later(now, s->lapse_us + 1000) < r->renew_at_us)
		r->renew_at_us = wh_later(now, s->lapse_us + 1000);
	if (r->fsm.state != WH_LEADING)
		return code;
	if (missing(s) > 0 && ~(s->mine | s->others))
		code = take_more(r, now, err);
	if (r->fsm.state != WH_LEADING)
		return code;
	r->partitions.yielding = missing(s) < 0;
	if (s->mine & ~before)
		read_anew(r, now);
	tell(r);
	return code;
}

void wh_partitions_begin(wherry_relay *r)
{
	if (!r->partitions.on)
		return;
	r->partitions.yielding = false;
	r->partitions.told = -1;
	tell(r);
}

wherry_code wh_partitions_yield(wherry_relay *r, int64_t now, wherry_error *err)
{
	const wh_slots *s = &r->partitions.slots;
	wh_slots heard;
	wherry_code code = WHERRY_OK;

	(void)wh_db_changed(r->db, now, &r->check_us);
	wh_collect_step(r, now);
	if (!r->window.in_flight.n || now >= r->flush_at_us)
		code = wh_settle_flush(r, now, NULL, err);
	if (code != WHERRY_OK || r->fsm.state != WH_LEADING || r->window.in_flight.n ||
	    r->window.settled.n || wh_dead_letters_busy(r))
		return code;
	wh_lease_forget(r);
	code = wh_slots_keep(r->box, &r->lease,
			     wh_slots_first(s->mine, wh_slots_fair(s->n_others)), &heard,
			     err);
	if (code == WHERRY_STALE) {
		wh_lease_lost(r, now, "it lapsed before slots were given up");
		return WHERRY_OK;
	}
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	wh_read_sweep(r, now);
	return wh_partitions_adopt(r, now, &heard, err);
}
