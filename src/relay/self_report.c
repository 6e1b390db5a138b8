/*
 * The relay's report: its state in the row of its lease, where any command can read it,
 * and its failures in the log.
 */
#include <stdio.h>

#include "base/url.h"
#include "relay/relay.h"

enum {
	SOON_US = 1000000,             /* At least between two reports. */
	LOG_FIRST_US = 10 * WH_SECOND, /* Pause after the first failure that is logged. */
	/* Longest pause between two failures that are logged. */
	LOG_MOST_US = 300 * WH_SECOND
};

void wh_report_init(wherry_relay *r)
{
	r->report = (wh_relay_report){
		.state = WH_STATE_LEADING, .delivered_us = -1, .error_us = -1};
	r->leader_look_us = r->sessions_at_us = WH_NEVER;
	if (r->to)
		wh_url_show(r->to, r->report.destination, sizeof(r->report.destination));
	else if (r->pub)
		(void)snprintf(r->report.destination, sizeof(r->report.destination),
			       "%s:", r->pub->driver->scheme);
}

/* The state of a relay that has the lease, or is about to take it. */
static const char *leading(const wherry_relay *r)
{
	if (r->fsm.state == WH_DRAINING)
		return WH_STATE_STOPPING;
	if (r->stats.paused)
		return WH_STATE_PAUSED;
	return r->destination.down || r->destination.stuck ? WH_STATE_RETRYING
							   : WH_STATE_LEADING;
}

const char *wh_report_state(const wherry_relay *r)
{
	if (r->fsm.state == WH_STOPPED)
		return WH_STATE_STOPPED;
	return r->lease.epoch ? leading(r) : "standby";
}

void wh_report_update(wherry_relay *r)
{
	const char *notice = r->pub ? wh_publisher_notice(r->pub) : NULL;
	char text[sizeof(r->report.error)];

	if (notice) {
		(void)snprintf(text, sizeof(text), WH_MAY_LOSE ": %s", notice);
		wh_report_error(r, wh_monotonic(&r->env), text);
	}
	r->report.state = leading(r);
	r->report.delivered = r->stats.delivered - r->counted_from;
}

void wh_report_soon(wherry_relay *r, int64_t now)
{
	int64_t at = wh_later(r->reported_us, SOON_US);

	if (r->fsm.state == WH_LEADING && at < r->renew_at_us)
		r->renew_at_us = at > now ? at : now;
}

static void log_failure(wherry_relay *r, const wh_entry *e, const char *why)
{
	if (e)
		wh_relay_say(
			r, WHERRY_LOG_WARN, "delivery-failed",
			wh_log_int("id", e->msg.id), wh_log_text("topic", e->msg.topic),
			wh_log_int("attempts", e->msg.attempts + !e->not_counted),
			wh_log_int("others", r->n_unlogged), wh_log_text("why", why));
	else
		wh_relay_say(r, WHERRY_LOG_WARN, "destination-refuses",
			     wh_log_int("probes", r->destination.probes),
			     wh_log_int("others", r->n_unlogged),
			     wh_log_text("why", why));
}

void wh_report_error(wherry_relay *r, int64_t now, const char *why)
{
	(void)snprintf(r->report.error, sizeof(r->report.error), "%s", why);
	r->report.error_us = now;
}

void wh_report_failure(wherry_relay *r, const wh_entry *e, int64_t now, const char *why)
{
	wh_report_error(r, now, why);
	if (now < r->failure_log_us) {
		r->n_unlogged++;
		return;
	}
	/* No failure for long: start again. */
	if (now - r->failure_log_us > r->failure_wait_us)
		r->failure_wait_us = LOG_FIRST_US;
	log_failure(r, e, why);
	r->n_unlogged = 0;
	r->failure_log_us = wh_later(now, r->failure_wait_us);
	r->failure_wait_us *= 2;
	if (r->failure_wait_us > LOG_MOST_US)
		r->failure_wait_us = LOG_MOST_US;
}

bool wh_relay_lists(const wherry_relay *r)
{
	return !r->outbox || r->outbox->own.list;
}
