/*
 * The lease: who may relay, fenced by an epoch.
 *
 * Submitting stops at (the clock before the renewal was sent + lease - margin), so that a
 * relay that was paused past its lease submits nothing new.
 */
#include <inttypes.h>
#include <string.h>

#include "relay/dead_letters.h"

static void note_lease(wherry_relay *r, int64_t asked_us)
{
	int64_t lasts_us = r->set.lease_us, margin_us;

	if (r->set.competing && (r->set.claim_us < lasts_us || r->box->layout.by_claim))
		lasts_us = r->set.claim_us;
	margin_us = lasts_us / 10; /* enough for a submit that is under way */
	r->held_until_us = wh_later(asked_us, lasts_us - margin_us);
	r->renew_at_us = wh_later(asked_us, r->set.renew_us);
	if (r->lease.paused != r->stats.paused)
		wh_relay_say(r, WHERRY_LOG_INFO, r->lease.paused ? "paused" : "resumed");
	r->stats.paused = r->lease.paused;
	r->fenced_us = asked_us;
	r->stats.epoch = r->lease.epoch;
	r->db_failures = 0;
}

/* Everything is read from the beginning: rows, not memories, are the truth. */
static wherry_code begin_leading(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	note_lease(r, now);
	r->control_version = r->lease.nudge;
	r->suspects_upto = r->set.competing ? INT64_MAX : r->lease.last_open;
	r->lapse_at_us = r->due_at_us = now; /* nobody knows yet */
	if (r->lease.suspects && r->set.keep)
		r->suspects_upto = INT64_MAX; /* they end by their number */
	else if (r->lease.suspects)
		code = wh_outbox_last_open(r->box, &r->suspects_upto, err);
	if (code != WHERRY_OK) {
		r->suspects_upto = INT64_MAX; /* so all are suspects that are read */
		code = wh_relay_db_trouble(r, now, code, err);
	}
	r->purge_at_us = now;
	r->standby_logged = false;
	wh_strict_reset(r);
	wh_fsm_move(&r->fsm, WH_LEADING, &r->env, "lease taken");
	r->db->calm = false;
	wh_handlers_grant(r);
	if (r->set.competing)
		r->more = true;
	else if (!r->set.keep)
		wh_read_sweep(r, now);
	else
		r->sweep_at_us = WH_NEVER;
	wh_partitions_begin(r);
	if (*wh_outbox_limits(r->box))
		wh_relay_say(r, WHERRY_LOG_INFO, "layout",
			     wh_log_text("name", r->box->layout.name),
			     wh_log_text("limits", wh_outbox_limits(r->box)));
	wh_relay_say(r, WHERRY_LOG_INFO, "leading", wh_log_int("epoch", r->lease.epoch),
		     wh_log_int("suspects", r->lease.suspects));
	if (r->lease.suspects)
		wh_relay_say(r, WHERRY_LOG_WARN, "unclean-takeover",
			     wh_log_int("suspects", r->lease.suspects),
			     wh_log_note("the last relay crashed while messages were in "
					 "flight; the suspects are tried one at a time"));
	return code;
}

static void tell_standby(wherry_relay *r, const char *owner)
{
	if (!r->standby_logged)
		wh_relay_say(r, WHERRY_LOG_INFO, "standby", wh_log_text("leader", owner));
	r->standby_logged = true;
}

wh_engine wh_relay_engine(const wherry_relay *r)
{
	if (r->set.stream)
		return r->set.keep ? WH_STREAM_KEEP : WH_STREAM;
	if (r->set.competing)
		return WH_COMPETING;
	return r->partitions.on ? WH_PARTITIONED : WH_EXCLUSIVE;
}

static wherry_code other_engine(const wh_holder *holder, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "the outbox is relayed by %.60s with the engine '%s' for %" PRId64
		       " ms at least: start this one with %s, or stop that one first",
		       holder->owner, holder->engine, holder->left_us / 1000,
		       wh_engine_options(wh_engine_of(holder->engine)));
}

/* Take the lease of this relay's engine. */
static wherry_code take(wherry_relay *r, wherry_error *err)
{
	const wh_relay_settings *s = &r->set;

	if (s->competing)
		return wh_outbox_join_as(r->box, s->again, s->name, s->lease_us,
					 &r->lease, err);
	if (r->partitions.on)
		return wh_partitions_join(r, err);
	return wh_outbox_lease_as(r->box, wh_relay_engine(r), s->again, s->name,
				  s->lease_us, s->window, &r->lease, err);
}

/* The outbox may have changed while this relay stood by: what was true when it was opened is
 * looked at again now that the lease is its own. */
static wherry_code take_and_meet(wherry_relay *r, wherry_error *err)
{
	wherry_code code = wh_partitions_open(r, err);

	if (code == WHERRY_OK)
		code = take(r, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_relay_meet(r, err);
	if (code == WHERRY_OK)
		return code;
	if (wherry_outbox_release(r->box, &r->lease, NULL) != WHERRY_OK)
		wh_relay_say(r, WHERRY_LOG_DEBUG, "lease-left-to-lapse");
	r->lease.epoch = 0;
	*r->lease.token = 0;
	return code;
}

/* Looking first costs no write lock, which the holder may want. */
static wherry_code acquire(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_holder holder = {.epoch = 0};
	int64_t left_us;
	wh_meeting how = WH_STANDS_BY;
	wherry_code code;

	if (now < r->renew_at_us)
		return WHERRY_OK;
	(void)wh_db_replaced(r->db, true); /* if so, the next call fails */
	code = wh_outbox_holder(r->box, &holder, &why);
	if (code == WHERRY_OK && holder.left_us > 0)
		how = wh_meet_now(wh_relay_engine(r), wh_engine_of(holder.engine));
	if (how == WH_REFUSED)
		return other_engine(&holder, err);
	if (code == WHERRY_OK && holder.left_us > 0 && how == WH_STANDS_BY &&
	    !r->partitions.on) {
		tell_standby(r, holder.owner);
		left_us = holder.left_us + 1000; /* the table keeps milliseconds */
		r->renew_at_us = wh_later(
			now, left_us < r->set.renew_us ? left_us : r->set.renew_us);
		return WHERRY_OK;
	}
	r->renew_at_us = wh_later(now, r->set.renew_us);
	if (code == WHERRY_OK)
		code = take_and_meet(r, &why);
	if (code == WHERRY_OK)
		return begin_leading(r, now, err);
	if (code == WHERRY_BUSY && !why.native) /* another was faster */
		return WHERRY_OK;
	if (err)
		*err = why;
	return wh_relay_db_trouble(r, now, code, err);
}

/* The suspects are through, and so is all that was open when they became suspects. */
static bool proven(const wherry_relay *r)
{
	if (r->set.keep)
		return !r->lease.suspects;
	return !r->sweeping && !r->more &&
	       wh_window_lowest(&r->window) > r->suspects_upto;
}

/* What is shared is joined again, and all that is claimed extended. */
static wherry_code renew_claims(wherry_relay *r, wherry_lease *fresh, wherry_error *err)
{
	wherry_code code =
		wherry_outbox_join(r->box, r->set.name, r->set.lease_us, fresh, err);

	if (code == WHERRY_OK && fresh->epoch == r->lease.epoch)
		return wh_claim_extend(r, err);
	if (code == WHERRY_OK || (code == WHERRY_BUSY && !err->native))
		return WHERRY_STALE;
	return code;
}

/* What else a renewal tells. */
static void heed(wherry_relay *r, int64_t now)
{
	const wherry_lease *lease = &r->lease;

	wh_read_notice(r, lease->nudge);
	if (r->set.keep) {
		r->control_version = lease->nudge;
		return;
	}
	if (r->set.competing || (lease->last_open > r->cursor && !wh_streaming_on(r)))
		r->more = true;
	if (!r->set.competing && (lease->nudge != r->control_version ||
				  (lease->first_open && lease->first_open <= r->cursor &&
				   wh_read_idle(r) && now >= r->again_at_us))) {
		if (lease->nudge == r->control_version)
			wh_streaming_forget(r);
		wh_read_sweep(r, now); /* rows behind the cursor that we do not know */
	}
	r->control_version = lease->nudge;
}

static wherry_code renew(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_lease fresh = r->lease;
	wh_slots slots;
	wherry_code code = WHERRY_OK;

	if (now < r->renew_at_us)
		return WHERRY_OK;
	(void)wh_db_replaced(r->db, true); /* if so, the next call fails */
	if (r->set.competing) /* so that what is settled need not be extended */
		code = wh_settle_flush(r, now, NULL, err);
	if (code != WHERRY_OK || r->db_retry_at_us > now || r->fsm.state == WH_LOST)
		return code;
	fresh.suspects = r->lease.suspects || !proven(r) ? 1 : 0;
	if (r->set.competing)
		code = renew_claims(r, &fresh, err);
	else if (r->partitions.on)
		code = wh_slots_renew(r->box, &fresh, &slots, err);
	else
		code = wherry_outbox_renew(r->box, &fresh, err);
	if (code == WHERRY_STALE) {
		wh_lease_lost(r, now, "it lapsed or was taken over");
		return WHERRY_OK;
	}
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	fresh.suspects = r->lease.suspects;
	r->lease = fresh;
	note_lease(r, now);
	heed(r, now);
	if (r->streaming)
		return wh_streaming_missing(r, now, err);
	return r->partitions.on ? wh_partitions_adopt(r, now, &slots, err) : WHERRY_OK;
}

void wh_lease_lost(wherry_relay *r, int64_t now, const char *why)
{
	wh_relay_say(r, WHERRY_LOG_WARN, "lease-lost",
		     wh_log_int("epoch", r->lease.epoch),
		     wh_log_int("in_flight", (int64_t)r->window.in_flight.n),
		     wh_log_text("why", why));
	r->stats.stale++;
	r->stats.epoch = 0;
	r->lease.epoch = 0;
	r->lease.suspects = 0;
	r->partitions.yielding = false;
	r->partitions.slots.mine = 0;
	r->renew_at_us = now;
	wh_fsm_move(&r->fsm, WH_LOST, &r->env, why);
	if (r->pub)
		wh_publisher_cancel(r->pub);
}

void wh_lease_forget(wherry_relay *r)
{
	wh_dead_letters_forget(r);
	wh_window_empty(&r->window);
	wh_keys_clear(&r->keys);
	r->gaps.n = r->n_failed_probes = 0;
	wh_refused_clear(&r->refused);
	r->unfenced = false;
	r->passed = r->oldest = 0;
	r->flush_at_us = WH_NEVER;
	r->more = false;
}

/*
 * What flies belongs to the next holder now.  A publisher of our own is closed, which
 * drops it; the caller's is left until its receipts are in, which are then ignored.
 */
static void forget(wherry_relay *r)
{
	if (r->window.in_flight.n && r->to) {
		wherry_publisher_close(r->pub);
		r->pub = NULL;
		r->window.in_flight = (wh_list){0};
	}
	if (r->window.in_flight.n)
		return;
	wh_streaming_end(r);
	wh_lease_forget(r);
	wh_fsm_move(&r->fsm, atomic_load(&r->stop) ? WH_STOPPED : WH_STANDBY, &r->env,
		    "nothing flies");
}

wherry_code wh_lease_give_back(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = wherry_outbox_release(r->box, &r->lease, err);

	if (code == WHERRY_STALE) {
		wh_lease_lost(r, now, "it lapsed before it was given back");
		return WHERRY_OK;
	}
	if (code != WHERRY_OK)
		return wh_relay_db_trouble(r, now, code, err);
	r->stats.epoch = 0;
	r->lease.epoch = 0;
	*r->lease.token = 0;
	wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "lease given back");
	return WHERRY_OK;
}

wherry_code wh_lease_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	switch (r->fsm.state) {
	case WH_STANDBY:
		return acquire(r, now, err);
	case WH_LEADING:
	case WH_DRAINING:
		return renew(r, now, err);
	case WH_LOST:
		forget(r);
		return WHERRY_OK;
	default:
		return WHERRY_OK;
	}
}
