/*
 * The lease: the right to relay, fenced by an epoch.
 *
 * A relay that was paused beyond its lease must submit nothing new.  So it stops
 * submitting at (time before the renewal was sent + lease - margin).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "relay/hooks.h"
#include "relay/dead_letters.h"
#include "relay/engine/engine.h"

bool wh_lease_allows(const wherry_relay *r, int64_t now)
{
	return now < r->held_until_us && !wh_lease_is_doubtful(r, now);
}

bool wh_lease_is_doubtful(const wherry_relay *r, int64_t now)
{
	return wh_session_has(&r->lease) &&
	       now >= wh_later(r->fenced_us, WH_SESSION_TRUSTED_US);
}

wherry_code wh_lease_resume(wherry_relay *r, int64_t now, wherry_error *err)
{
	if (!r->lease.epoch || !wh_session_has(&r->lease))
		return WHERRY_OK;
	/* Others may have seen that the lock was free: nothing is submitted before the lease is renewed. */
	r->fenced_us = -WH_SESSION_TRUSTED_US;
	r->renew_at_us = now;
	return wh_session_resume(r->store, &r->lease, err);
}

static void note_lease(wherry_relay *r, int64_t asked_us)
{
	int64_t lasts_us = r->set.lasts_us;
	int64_t margin_us = lasts_us / 10; /* Enough for a submit that has begun. */

	r->held_until_us = wh_later(asked_us, lasts_us - margin_us);
	r->renew_at_us = wh_later(asked_us, r->set.renew_us);
	wh_operator_pause(r, r->lease.paused);
	r->fenced_us = r->reported_us = asked_us;
	r->stats.epoch = r->lease.epoch;
	wh_hook_database_works(r);
}

/* How many suspects are tried together: after a window of suspects a group of them, after that a smaller
 * one, and after that each alone.  So a message that ends its relay is found, and others cost little. */
static size_t group_of(const wherry_relay *r)
{
	enum { LARGE_GROUP = 256, SMALL_GROUP = 16 };

	if (!r->engine->groups_suspects || r->lease.suspects <= SMALL_GROUP)
		return 1;
	return r->lease.suspects > LARGE_GROUP ? LARGE_GROUP : SMALL_GROUP;
}

/* The lease was taken: begin to read from the beginning.  The rows are the truth. */
static wherry_code begin_leading(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	note_lease(r, now);
	r->control_version = r->lease.control_version;
	r->delivered_before = r->counted_from = r->stats.delivered;
	r->suspects_upto = INT64_MAX;
	if (r->engine->suspects)
		code = r->engine->suspects(r, &r->suspects_upto, err);
	if (code != WHERRY_OK)
		/* So that all messages that are read are suspects. */
		r->suspects_upto = INT64_MAX;
	r->purge_at_us =
		r->brief && !r->brief->purges ? wh_later(now, wh_purge_every_us(r)) : now;
	r->standby_logged = r->elsewhere = false;
	r->moved = r->restarted = false; /* Nothing is in memory yet. */
	r->sessions_at_us = WH_NEVER;
	r->destination.hurried = r->lease.suspects > 0;
	r->suspect_group = group_of(r);
	r->suspicion_ended = false;
	wh_fsm_move(&r->fsm, WH_LEADING, &r->env, "lease taken");
	if (wh_report_is_of_server(r->report.error))
		wh_report_soon(r, now); /* The lease was taken without it. */
	wh_handlers_grant(r);
	if (r->engine->begin)
		r->engine->begin(r, now);
	if (*r->store->limits)
		wh_relay_say(r, WHERRY_LOG_INFO, "layout",
			     wh_log_text("name", r->store->layout.name),
			     wh_log_text("limits", r->store->limits));
	wh_relay_say(r, WHERRY_LOG_INFO, "leading", wh_log_int("epoch", r->lease.epoch),
		     wh_log_int("suspects", r->lease.suspects));
	if (r->lease.suspects)
		wh_relay_say(
			r, WHERRY_LOG_WARN, "unclean-takeover",
			wh_log_int("suspects", r->lease.suspects),
			wh_log_note(
				"the last relay crashed while messages were in "
				"flight; the suspects are tried alone or in small groups"));
	return code;
}

/* Nobody who starts relays for two destinations means that one of them waits. */
static void warn_elsewhere(wherry_relay *r, const wh_holder *leader, int64_t now)
{
	char why[200];

	wh_relay_say(
		r, WHERRY_LOG_WARN, "other-destination",
		wh_log_text("leader", leader->owner),
		wh_log_text("leader_to", leader->destination),
		wh_log_text("to", r->report.destination),
		wh_log_note("this relay delivers nothing while the leader works: an "
			    "outbox has one destination; see \"Two destinations\" in "
			    "docs/guide/operating.md"));
	(void)snprintf(why, sizeof(why), "%.60s relays the outbox to %.100s",
		       leader->owner, leader->destination);
	wh_report_error(r, now, why);
}

static void log_standby(wherry_relay *r, const wh_holder *leader, int64_t now)
{
	bool elsewhere = *leader->destination && *r->report.destination &&
			 strcmp(leader->destination, r->report.destination) != 0;

	if (!r->standby_logged)
		wh_relay_say(r, WHERRY_LOG_INFO, "standby",
			     wh_log_text("leader", leader->owner));
	if (elsewhere && !r->elsewhere)
		warn_elsewhere(r, leader, now);
	r->elsewhere = elsewhere;
	r->standby_logged = true;
}

static wherry_code other_engine(const wh_holder *holder, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "the outbox is relayed by %.60s with the engine '%s' for %" PRId64
		       " ms at least: stop that one first",
		       holder->owner, holder->engine, holder->left_us / 1000);
}

int64_t wh_suspects_most(const wherry_relay *r)
{
	enum { MOST = 4000 };

	return r->set.window < MOST || r->engine->groups_suspects ? r->set.window : MOST;
}

static wherry_code take(wherry_relay *r, wherry_error *err)
{
	const wh_relay_settings *s = &r->set;

	wh_report_update(r);

	if (r->engine->take)
		return r->engine->take(r, err);
	return wh_store_lease_as(r->store, r->engine->id, s->name, s->lease_us,
				 wh_suspects_most(r), &r->lease, err);
}

/* Take the lease, and check again whether settings and outbox match: the outbox may have
 * changed while this relay was a standby. */
static wherry_code take_and_meet(wherry_relay *r, wherry_error *err)
{
	wherry_code code = wh_engine_choose(r, err);

	if (code == WHERRY_OK)
		code = take(r, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_relay_meet(r, err);
	if (code == WHERRY_OK)
		return code;
	r->report.delivered = 0; /* Nothing was delivered under this lease. */
	if (wh_store_release(r->store, &r->lease, NULL) != WHERRY_OK)
		wh_relay_say(r, WHERRY_LOG_DEBUG, "lease-left-to-expire");
	r->lease.epoch = 0;
	*r->lease.token = 0;
	return code;
}

/* Does the holder's engine keep this relay from working at all? */
static bool is_refused(const wherry_relay *r, const wh_holder *holder)
{
	return holder->left_us > 0 &&
	       wh_meet_now(r->engine->id, wh_engine_of(holder->engine)) == WH_REFUSED;
}

/* Relays that join others look after their leases while they lead themselves. */
static bool needs_its_end(const wherry_relay *r, const wh_holder *holder)
{
	return holder->left_us > 0 && (!r->engine->joins_leader || is_refused(r, holder));
}

/* If the leader's process ran on this machine and has ended, let its lease
 * expire at once. */
static wherry_code expire_orphan(wherry_relay *r, wh_holder *holder, wherry_error *err)
{
	wherry_code code;

	/* The claims of a relay that competed outlast it: its lease ends by itself. */
	if (!needs_its_end(r, holder) || wh_engine_claims(wh_engine_of(holder->engine)) ||
	    !wh_store_orphaned(r->store, holder->process))
		return WHERRY_OK;
	wh_relay_say(r, WHERRY_LOG_WARN, "leader-gone",
		     wh_log_text("leader", holder->owner),
		     wh_log_note("its process has ended; its lease is taken over at "
				 "once"));
	code = wh_store_expire(r->store, 0, holder->epoch, err);
	if (code == WHERRY_OK)
		holder->left_us = 0;
	return code;
}

/* Let the leases of other relays expire whose sessions ended a while ago.  *out_expired: one did. */
static wherry_code watch_sessions(wherry_relay *r, int64_t now, bool *out_expired,
				  wherry_error *err)
{
	wherry_code code = wh_sessions_look(
		r->store, r->lease.epoch ? r->lease.number : -1, &r->sessions, err);

	for (int i = 0; code == WHERRY_OK && i < r->sessions.n_gone; i++) {
		const wh_silent *gone = &r->sessions.gone[i];
		bool expired = false;

		if (now < wh_later(gone->since_us, WH_SESSION_GONE_US))
			continue;
		code = wh_session_expire(r->store, gone, &expired, err);
		if (!expired)
			continue;
		*out_expired = true;
		wh_relay_say(r, WHERRY_LOG_WARN, "leader-gone",
			     wh_log_text("leader", gone->owner),
			     wh_log_note("its session of the database has ended; its "
					 "lease is taken over"));
	}
	r->sessions_at_us = wh_sessions_next(&r->sessions, now, r->set.renew_us);
	return code;
}

/* Let the leader's lease expire if its session ended a while ago. */
static wherry_code expire_silent(wherry_relay *r, wh_holder *holder, int64_t now,
				 wherry_error *err)
{
	bool expired = false;
	wherry_code code;

	if (!needs_its_end(r, holder))
		return WHERRY_OK;
	code = watch_sessions(r, now, &expired, err);
	return code == WHERRY_OK && expired ? wh_store_holder(r->store, holder, err)
					    : code;
}

/* If the clock of the database went back, the lease would last for longer than its relay
 * asked for, though that relay may be gone.  A relay that lives renews it in time. */
static void cut_lease(wherry_relay *r, wh_holder *holder)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!wh_holder_lasts_too_long(holder))
		return;
	if (wh_store_cut(r->store, &err) != WHERRY_OK) {
		/* The lease stays as it is, and the relay tries again when it looks next. */
		wh_relay_say(r, WHERRY_LOG_WARN, "lease-not-cut",
			     wh_log_text("leader", holder->owner),
			     wh_log_text("why", err.message));
		return;
	}
	wh_relay_say(r, WHERRY_LOG_WARN, "lease-cut",
		     wh_log_text("leader", holder->owner),
		     wh_log_int("left_ms", holder->left_us / 1000),
		     wh_log_int("lasts_ms", holder->lasts_us / 1000),
		     wh_log_note("the lease ended later than its relay asked for, as if "
				 "the database's clock was set back"));
	holder->left_us = holder->lasts_us;
}

/* STANDBY: look whether the leader's process has ended. */
static void watch_leader(wherry_relay *r, int64_t now)
{
	enum { LOOK_US = 500000 };
	wh_process_state state = wh_look_at_process(&r->env, r->leader_process);

	if (state == WH_PROCESS_ENDED)
		r->renew_at_us = now;
	r->leader_look_us =
		state == WH_PROCESS_UNKNOWN ? WH_NEVER : wh_later(now, LOOK_US);
}

/* STANDBY: does the relay have to wait for the end of the leader's lease?  If the session of a leader with another engine
 * has ended, that is in seconds, unless the leader connects again. */
static bool waits(const wherry_relay *r, const wh_holder *leader)
{
	if (is_refused(r, leader))
		return wh_sessions_lack(&r->sessions, leader->owner, leader->epoch);
	return leader->left_us > 0 && !r->engine->joins_leader &&
	       wh_meet_now(r->engine->id, wh_engine_of(leader->engine)) == WH_STANDS_BY;
}

/* STANDBY: take the lease if it is free.  The relay reads it first, because that takes no
 * write lock, which the leader may need. */
static wherry_code acquire(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_holder holder = {.epoch = 0};
	int64_t left_us;
	wherry_code code;

	if (now >= r->leader_look_us)
		watch_leader(r, now);
	if (now < r->renew_at_us)
		return WHERRY_OK;
	(void)wh_db_replaced(r->db, true); /* If it was replaced, the next call fails. */
	code = wh_store_holder(r->store, &holder, &why);
	if (code == WHERRY_OK)
		code = expire_orphan(r, &holder, &why);
	if (code == WHERRY_OK)
		code = expire_silent(r, &holder, now, &why);
	if (code == WHERRY_OK)
		cut_lease(r, &holder);
	if (code == WHERRY_OK && waits(r, &holder)) {
		log_standby(r, &holder, now);
		memcpy(r->leader_process, holder.process, sizeof(r->leader_process));
		watch_leader(r, now);
		left_us = wh_later(holder.left_us, 1000); /* Tables keep milliseconds. */
		r->renew_at_us = wh_sooner(r->sessions_at_us,
					   wh_later(now, left_us < r->set.renew_us
								 ? left_us
								 : r->set.renew_us));
		return WHERRY_OK;
	}
	if (code == WHERRY_OK && is_refused(r, &holder))
		return other_engine(&holder, err);
	r->leader_look_us = WH_NEVER;
	r->renew_at_us = wh_later(now, r->set.renew_us);
	if (code == WHERRY_OK && r->elsewhere) {
		/* The leader with another destination is gone: no delivery failed. */
		r->report.error[0] = 0;
		r->report.error_us = -1;
		r->elsewhere = false;
	}
	if (code == WHERRY_OK)
		code = take_and_meet(r, &why);
	if (code == WHERRY_OK)
		return begin_leading(r, now, err);
	/* Another relay was faster. */
	if (code == WHERRY_BUSY && !wh_error_of_database(&why))
		return WHERRY_OK;
	if (err)
		*err = why;
	return code;
}

/* A brief relay takes the lease without looking for a holder first: likely there is none. */
static wherry_code acquire_first(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	if (!r->brief || r->brief->asked)
		return acquire(r, now, err);
	r->brief->asked = true;
	code = take_and_meet(r, &why);
	if (code == WHERRY_OK)
		return begin_leading(r, now, err);
	if (code == WHERRY_BUSY && !wh_error_of_database(&why))
		return acquire(r, now, err);
	if (err)
		*err = why;
	return code;
}

static bool no_suspects_left(const wherry_relay *r)
{
	return r->engine->no_suspects_left && r->engine->no_suspects_left(r);
}

static wherry_code renew(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_lease fresh = r->lease;
	int64_t version = r->control_version;
	wherry_code code = WHERRY_OK;

	if (now < r->renew_at_us)
		return WHERRY_OK;
	(void)wh_db_replaced(r->db, true); /* If it was replaced, the next call fails. */
	if (r->engine
		    /* Claims of written messages need no extension then. */
		    ->claims_rows)
		code = wh_settle_flush(r, now, NULL, err);
	if (code != WHERRY_OK)
		return code;
	if (!r->lease.suspects && no_suspects_left(r))
		fresh.suspects = 0;
	else
		fresh.suspects = r->suspicion_ended ? -1 : 1;
	wh_report_update(r);
	code = r->engine->renew ? r->engine->renew(r, &fresh, err)
				: wh_store_renew(r->store, &fresh, err);
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "it expired or was taken over");
	if (code != WHERRY_OK)
		return code;
	fresh.suspects = r->lease.suspects;
	r->suspicion_ended = false;
	r->lease = fresh;
	note_lease(r, now);
	wh_operator_note(r, r->lease.control_version);
	return r->engine->renewed(r, now, version, err);
}

/* LEADING: if relays share the table, look whether the sessions of others are there. */
static wherry_code watch(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool expired = false;
	wherry_code code;

	if (now < r->sessions_at_us)
		return WHERRY_OK;
	code = watch_sessions(r, now, &expired, err);
	if (expired) /* The renewal returns what is free now. */
		r->renew_at_us = now;
	return code;
}

wherry_code wh_lease_renew(wherry_relay *r, int64_t now, wherry_error *err)
{
	r->renew_at_us = now;
	return renew(r, now, err);
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
	r->suspicion_ended = false;
	if (r->engine->lost)
		r->engine->lost(r);
	r->renew_at_us = now;
	wh_fsm_move(&r->fsm, WH_LOST, &r->env, why);
	if (r->pub)
		wh_publisher_cancel(r->pub);
}

wherry_code wh_lease_begin_again(wherry_relay *r, int64_t now, const char *why,
				 wherry_error *err)
{
	char text[160];

	wh_relay_say(
		r, WHERRY_LOG_WARN, "went-back", wh_log_text("why", why),
		wh_log_note("the database may lack messages that were delivered; the "
			    "relay begins again at the position that is stored "
			    "there, so messages may be delivered again"));
	/* A server that began again, or another one, need not have lost anything. */
	if (wh_report_is_of_server(why))
		(void)snprintf(text, sizeof(text), "%s, and " WH_WENT_BACK, why);
	else
		(void)snprintf(text, sizeof(text), WH_WENT_BACK ": %s", why);
	wh_report_error(r, now, text);
	/* Or the relay would wait for its own lease. */
	wh_report_update(r);
	if (wh_store_release(r->store, &r->lease, NULL) != WHERRY_OK)
		wh_relay_say(r, WHERRY_LOG_DEBUG, "lease-left-to-expire");
	wh_lease_lost(r, now, why);
	return wh_store_stale(r->store, err);
}

void wh_lease_forget(wherry_relay *r)
{
	wh_dead_letters_forget(r);
	wh_window_empty(&r->window);
	wh_keys_clear(&r->keys);
	r->destination.n_failed_probes = 0;
	wh_refused_clear(&r->destination.refused);
	r->lease_unverified = false;
	r->flush_at_us = WH_NEVER;
	r->engine->forget(r);
}

/*
 * LOST: messages in flight belong to the next leader now.  If the relay opened the
 * publisher, it closes it, which drops them.  If the caller did, the relay waits for its
 * receipts and ignores them.
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
	if (r->engine->end)
		r->engine->end(r);
	wh_lease_forget(r);
	wh_fsm_move(&r->fsm, atomic_load(&r->stop) ? WH_STOPPED : WH_STANDBY, &r->env,
		    "nothing is in flight");
}

wherry_code wh_lease_give_back(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code;

	wh_report_update(r);
	code = wh_store_release(r->store, &r->lease, err);
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "it expired before it was given back");
	if (code != WHERRY_OK)
		return code;
	r->stats.epoch = 0;
	r->lease.epoch = 0;
	*r->lease.token = 0;
	wh_fsm_move(&r->fsm, WH_STOPPED, &r->env, "lease given back");
	return WHERRY_OK;
}

wherry_code wh_lease_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code;

	switch (r->fsm.state) {
	case WH_STANDBY:
		return acquire_first(r, now, err);
	case WH_LEADING:
		code = watch(r, now, err);
		return code == WHERRY_OK ? renew(r, now, err) : code;
	case WH_DRAINING:
		return renew(r, now, err);
	case WH_LOST:
		forget(r);
		return WHERRY_OK;
	default:
		return WHERRY_OK;
	}
}
