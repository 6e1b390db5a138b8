/*
 * Runs until empty: until no message is open that was open at the start.
 */
#include "relay/dead_letters.h"
#include "relay/engine/engine.h"
#include "relay/relay.h"

void wh_until_empty_finish(wherry_relay *r, wherry_outcome outcome)
{
	r->outcome = outcome;
	atomic_store(&r->stop, true);
}

wherry_code wh_until_empty_begin(wherry_relay *r, int64_t now, wherry_error *err)
{
	if (!(r->target & WHERRY_UNTIL_EMPTY))
		return WHERRY_OK;
	if (r->target_id < 0 && r->give_up_us == WH_NEVER && r->set.timeout_us)
		r->give_up_us = wh_later(now, r->set.timeout_us);
	/* So that a database call does not wait beyond the time-out. */
	if (r->give_up_us != WH_NEVER)
		wh_db_limit(r->db, wh_later(r->give_up_us, r->set.stop_timeout_us));
	if (r->target_id >= 0)
		return WHERRY_OK;
	return r->engine->aim ? r->engine->aim(r, err)
			      : wh_store_last_open(r->store, &r->target_id, err);
}

bool wh_relay_is_idle(const wherry_relay *r, int64_t now)
{
	if (r->trouble_us != WH_NEVER || r->window.n || wh_dead_letters_busy(r))
		return false;
	if (r->fsm.state == WH_STANDBY)
		return true;
	return r->fsm.state == WH_LEADING && r->engine->deadline(r, now) > now &&
	       (!r->set.retention_us || r->purge_at_us > wh_later(now, WH_SECOND));
}

wherry_code wh_until_empty_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	if (!(r->target & WHERRY_UNTIL_EMPTY) || r->target_id < 0 ||
	    atomic_load(&r->stop))
		return WHERRY_OK;
	return r->engine->until_empty(r, now, err);
}
