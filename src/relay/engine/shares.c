/*
 * A share of the outbox, beside other relays, of a log.
 *
 * The lease's row in the database says which partitions this relay has.  No relay takes
 * one of them while the lease lives.  The relay takes partitions that no relay has, up to
 * a fair share.  To give up partitions above a fair share, it
 *
 *     1. submits nothing new until nothing is in flight and all results are written,
 *     2. forgets all other messages in memory,
 *     3. keeps fewer partitions, and reads again from the beginning.
 *
 * A relay that reads behind a position (`quiet`) does the same to take more.
 */
#include <inttypes.h>

#include "relay/dead_letters.h"
#include "relay/engine/engine.h"
#include "relay/engine/reader.h"

static wh_shares *shares_of(const wherry_relay *r)
{
	return &wh_reader_of(r)->shares;
}

static void log_share(wherry_relay *r)
{
	wh_shares *p = shares_of(r);
	int n = wh_partitions_count(p->partitions.mine);

	if (n == p->logged)
		return;
	wh_relay_say(r, WHERRY_LOG_INFO, "partitions", wh_log_int("n", n),
		     wh_log_int("of", WH_PARTITIONS),
		     wh_log_int("relays", p->partitions.n_others + 1));
	p->logged = n;
}

/* If another relay works, find out if its session ends. */
static void watch_others(wherry_relay *r, int64_t now)
{
	if (shares_of(r)->partitions.n_others && r->sessions_at_us == WH_NEVER)
		r->sessions_at_us = now;
}

/* ---- the lease ---- */

wherry_code wh_shares_take(wherry_relay *r, wherry_error *err)
{
	wh_shares *p = shares_of(r);
	wherry_code code =
		wh_partitions_join(r->store, r->set.name, r->set.lease_us,
				   wh_suspects_most(r), &r->lease, &p->partitions, err);

	if (code == WHERRY_OK)
		wh_reader_of(r)->mask = p->partitions.mine;
	return code;
}

void wh_shares_begin(wherry_relay *r, int64_t now)
{
	wh_shares *p = shares_of(r);

	wh_reader_begin(r, now);
	p->yielding = false;
	p->logged = -1;
	watch_others(r, now);
	log_share(r);
}

wherry_code wh_shares_renew(wherry_relay *r, wherry_lease *inout, wherry_error *err)
{
	return wh_partitions_renew(r->store, inout, &shares_of(r)->heard, err);
}

/* The relays that had the partitions before may have crashed with messages in
 * flight.  Messages that wait in memory count as suspects too, because they are
 * tried before the new ones. */
static wherry_code suspect(wherry_relay *r, int64_t suspects, wherry_error *err)
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
	code = wh_store_last_open(r->store, &r->suspects_upto, err);
	if (code != WHERRY_OK)
		r->suspects_upto = INT64_MAX;
	return code;
}

/* How many partitions this relay should have more; below 0: fewer. */
static int missing(const wh_partitions *s)
{
	return wh_partitions_fair(s->n_others) - wh_partitions_count(s->mine);
}

enum { SOON_US = 100000 };

static wherry_code take_more(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t suspects = 0;
	wherry_code code = wh_partitions_more(r->store, &r->lease,
					      &shares_of(r)->partitions, &suspects, &why);

	/* Another relay was faster. */
	if (code == WHERRY_BUSY && !wh_error_of_database(&why)) {
		r->renew_at_us = wh_later(now, SOON_US);
		return WHERRY_OK;
	}
	if (code != WHERRY_OK) {
		if (err)
			*err = why;
		return code;
	}
	r->delivered_before =
		r->stats.delivered; /* The gained partitions may have suspects. */
	if (r->suspects_upto < r->lease.last_open)
		r->suspects_upto = r->lease.last_open;
	return suspect(r, suspects, err);
}

/* Are there partitions that the relay should take? */
static bool can_take(const wh_partitions *s)
{
	return s->n_too_long || (missing(s) > 0 && ~(s->mine | s->others));
}

/* Adopt the shares that the database returned: take missing partitions now, or begin to
 * give up those above a fair share. */
static wherry_code adopt(wherry_relay *r, int64_t now, const wh_partitions *heard,
			 wherry_error *err)
{
	wh_shares *p = shares_of(r);
	wh_partitions *s = &p->partitions;
	uint64_t before = s->mine;
	wherry_code code = WHERRY_OK;

	*s = *heard;
	if (s->expiry_us >= 0 &&
	    wh_later(now, wh_later(s->expiry_us, 1000)) < r->renew_at_us)
		r->renew_at_us = wh_later(now, wh_later(s->expiry_us, 1000));
	watch_others(r, now);
	if (r->fsm.state == WH_LEADING && can_take(s) && !p->quiet)
		code = take_more(r, now, err);
	wh_reader_of(r)->mask = s->mine;
	if (r->fsm.state != WH_LEADING)
		return code;
	p->yielding = missing(s) < 0 || (p->quiet && can_take(s));
	if (s->mine & ~before)
		wh_reader_read_again(r, now);
	log_share(r);
	return code;
}

wherry_code wh_shares_renewed(wherry_relay *r, int64_t now, wherry_error *err)
{
	return adopt(r, now, &shares_of(r)->heard, err);
}

void wh_shares_lost(wherry_relay *r)
{
	wh_shares *p = shares_of(r);

	p->yielding = false;
	p->partitions.mine = wh_reader_of(r)->mask = 0;
}

/* ---- the step ---- */

/* Nothing is in memory: keep fewer partitions, or take more. */
static wherry_code change(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_shares *p = shares_of(r);
	const wh_partitions *s = &p->partitions;
	int fair = wh_partitions_fair(s->n_others);
	wh_partitions heard;
	wherry_code code;

	if (missing(s) < 0) {
		code = wh_partitions_keep(r->store, &r->lease,
					  wh_partitions_first(s->mine, fair), &heard,
					  err);
	} else {
		code = take_more(r, now, err);
		heard = *s;
	}
	if (code != WHERRY_OK)
		return code;
	wh_reader_sweep(r, now);
	if (missing(&heard) < 0 || !p->quiet)
		return adopt(r, now, &heard, err);
	p->partitions = heard;
	p->yielding = false;
	wh_reader_of(r)->mask = heard.mine;
	log_share(r);
	return WHERRY_OK;
}

wherry_code wh_shares_yield(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	(void)wh_relay_woken(r, now);
	wh_collect_step(r, now);
	if (!r->window.in_flight.n || now >= r->flush_at_us)
		code = wh_settle_flush(r, now, NULL, err);
	if (code != WHERRY_OK || r->fsm.state != WH_LEADING || r->window.in_flight.n ||
	    r->window.settled.n || wh_dead_letters_busy(r))
		return code;
	if (r->engine->finish)
		code = r->engine->finish(r, now, err);
	if (code != WHERRY_OK)
		return code;
	wh_lease_forget(r);
	return change(r, now, err);
}

bool wh_shares_yields(const wherry_relay *r)
{
	return shares_of(r)->yielding;
}

/* If other relays came or went, renew the lease at once, which returns the new shares. */
wherry_code wh_shares_control(wherry_relay *r, bool *out_paused, int64_t *out_version,
			      wherry_error *err)
{
	const wh_partitions *known = &shares_of(r)->partitions;
	wh_partitions now = *known;
	wherry_code code = wh_partitions_control(r->store, &r->lease, out_paused,
						 out_version, &now, err);

	if (code == WHERRY_OK &&
	    (now.n_others != known->n_others || now.others != known->others))
		r->renew_at_us = wh_monotonic(&r->env);
	return code;
}
