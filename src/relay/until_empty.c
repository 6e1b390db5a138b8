/*
 * Running until empty: until nothing is open of what was there at the start.
 *
 * Before a relay that leads says so, it reads everything from the beginning once more; one
 * that competes waits for what others have claimed.
 */
#include "relay/relay.h"

enum { CHECK_US = 200000, COMPETING_CHECK_US = 50000 };

void wh_until_empty_finish(wherry_relay *r, wherry_outcome outcome)
{
	r->outcome = outcome;
	atomic_store(&r->stop, true);
}

/* Is everything that was open at the start closed?  *out_open: something is not. */
static wherry_code target_left(wherry_relay *r, int64_t now, bool *out_open,
			       wherry_error *err)
{
	wherry_code code = wh_outbox_open_upto(r->box, r->target_id, out_open, err);

	return code == WHERRY_OK ? code : wh_relay_db_trouble(r, now, code, err);
}

/* Only what waits behind dead messages is left. */
static bool only_parked(const wherry_relay *r)
{
	if (r->set.competing) /* nothing is being tried, nor waits for a retry */
		return r->set.park && r->lapse_at_us == WH_NEVER &&
		       r->due_at_us == WH_NEVER;
	return r->keys.n_parked && r->swept_clean;
}

/* What leads knows without asking that something is not. */
static bool knows_better(const wherry_relay *r)
{
	return r->fsm.state == WH_LEADING && !r->set.competing &&
	       (r->cursor < r->target_id || wh_window_lowest(&r->window) <= r->target_id);
}

wherry_code wh_until_empty_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool quiet = !r->more && !r->sweeping && r->window.n == 0 && r->keys.n_held == 0;
	bool open = true;
	wherry_code code;

	if (!(r->target & WHERRY_UNTIL_EMPTY) || r->target_id < 0 ||
	    atomic_load(&r->stop))
		return WHERRY_OK;
	if (r->set.keep)
		return wh_streaming_until(r, now, err);
	if ((r->fsm.state == WH_STANDBY || !quiet || r->set.competing ||
	     wh_partitions_partial(r)) &&
	    now < r->empty_check_us)
		return WHERRY_OK; /* newer messages may never let it be quiet */
	r->empty_check_us =
		wh_later(now, r->set.competing ? COMPETING_CHECK_US : CHECK_US);
	if (!quiet && knows_better(r))
		return WHERRY_OK;
	code = target_left(r, now, &open, err);
	if (code != WHERRY_OK || r->db_retry_at_us > now)
		return code;
	if (r->set.failed_only && quiet) /* what is merely pending is for others */
		open = r->lapse_at_us != WH_NEVER || r->due_at_us != WH_NEVER;
	if (!open) {
		wh_until_empty_finish(r, r->stats.dead ? WHERRY_DEATHS : WHERRY_EMPTY);
	} else if (r->fsm.state != WH_LEADING || !quiet) {
		return WHERRY_OK;
	} else if (only_parked(r)) {
		wh_until_empty_finish(r, WHERRY_PARKED);
	} else if (r->set.competing) {
		r->more = true;
	} else if (!r->stats.paused) {
		wh_streaming_forget(r);
		wh_read_sweep(r, now);
	}
	return WHERRY_OK;
}

wherry_code wh_until_empty_begin(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code;

	if (!(r->target & WHERRY_UNTIL_EMPTY) || r->target_id >= 0)
		return WHERRY_OK;
	if (r->give_up_us == WH_NEVER && r->set.timeout_us)
		r->give_up_us = wh_later(now, r->set.timeout_us);
	code = r->set.keep ? wh_streaming_until(r, now, err)
			   : wh_outbox_last_open(r->box, &r->target_id, err);
	return code == WHERRY_OK ? code : wh_relay_db_trouble(r, now, code, err);
}
