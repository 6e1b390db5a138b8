/*
 * All relays of the plan with a pattern of schemas.  A reload changes them, and HTTP reads their
 * state.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/match.h"

/* ---- starting and changing ---- */

static bool wanted(const wh_plan *plan, const wh_matches *m)
{
	for (size_t i = 0; i < plan->n_relays; i++)
		if (plan->relays[i].name &&
		    wh_plan_same(wh_matches_plan(m), &plan->relays[i]))
			return true;
	return false;
}

/* Stop all that are not wanted any more, and wait for them. */
static void stop_old(wh_daemon *d, const wh_plan *plan)
{
	size_t kept = 0, n_gone = 0;
	wh_matches **gone = calloc(d->n_matches + 1, sizeof(*gone));

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; gone && i < d->n_matches; i++)
		if (wanted(plan, d->matches[i]))
			d->matches[kept++] = d->matches[i];
		else
			gone[n_gone++] = d->matches[i];
	if (gone)
		d->n_matches = kept;
	(void)pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < n_gone; i++)
		wh_match_stop(gone[i]);
	for (size_t i = 0; i < n_gone; i++)
		wh_match_free(gone[i]);
	free(gone);
}

static bool runs(const wh_daemon *d, const wh_plan_relay *relay)
{
	for (size_t i = 0; i < d->n_matches; i++)
		if (wh_plan_same(wh_matches_plan(d->matches[i]), relay))
			return true;
	return false;
}

static wherry_code start_one(wh_daemon *d, wh_plan_relay *relay, int bell,
			     wherry_error *err)
{
	wh_matches *m = NULL;
	wherry_code code;

	wh_daemon_announce(d, relay);
	/* Its thread reads the patterns of the others, with this lock. */
	(void)pthread_mutex_lock(&d->lock);
	code = wh_match_start(relay, d, bell, &m, err);
	if (code == WHERRY_OK)
		d->matches[d->n_matches++] = m;
	(void)pthread_mutex_unlock(&d->lock);
	return code;
}

/* Divide the connections to each server: a set has one that looks, and the others are for relays. */
static void share_servers(wh_daemon *d, const wh_plan *plan)
{
	int64_t all = plan->server_connections ? plan->server_connections
					       : WH_PLAN_SERVER_CONNECTIONS;

	for (size_t i = 0; i < d->n_matches; i++) {
		const char *url = wh_matches_plan(d->matches[i])->from.value;
		int64_t n = 1, share;

		if (wh_plan_in_files(wh_matches_plan(d->matches[i]))) {
			wh_match_limit(d->matches[i], WH_PLAN_CONNECTIONS_MOST);
			continue;
		}
		for (size_t k = 0; k < d->n_matches; k++)
			n += k != i &&
			     wh_plan_same_server(
				     url, wh_matches_plan(d->matches[k])->from.value);
		share = all / n - 1;
		if (wh_matches_plan(d->matches[i])->databases.value)
			share--; /* One that looks into a database. */
		wh_match_limit(d->matches[i], share > 1 ? (size_t)share : 1);
	}
}

wherry_code wh_matches_apply(wh_daemon *d, wh_plan *plan, int bell, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	wh_matches **grown;

	stop_old(d, plan);
	(void)pthread_mutex_lock(&d->lock);
	grown = reallocarray(d->matches, d->n_matches + plan->n_relays + 1,
			     sizeof(*grown));
	if (grown)
		d->matches = grown;
	(void)pthread_mutex_unlock(&d->lock);
	if (!grown)
		return wh_oom(err);
	for (size_t i = 0; code == WHERRY_OK && i < plan->n_relays; i++)
		if (plan->relays[i].match.value && !runs(d, &plan->relays[i]))
			code = start_one(d, &plan->relays[i], bell, err);
	share_servers(d, plan);
	return code;
}

void wh_matches_stop(wh_daemon *d)
{
	for (size_t i = 0; i < d->n_matches; i++)
		wh_match_stop(d->matches[i]);
}

bool wh_matches_ended(wh_daemon *d)
{
	for (size_t i = 0; i < d->n_matches; i++)
		if (!wh_match_ended(d->matches[i]))
			return false;
	return true;
}

void wh_matches_free(wh_daemon *d)
{
	wh_matches_stop(d);
	for (size_t i = 0; i < d->n_matches; i++)
		wh_match_free(d->matches[i]);
	free(d->matches);
	d->matches = NULL;
	d->n_matches = 0;
}

/* ---- health ---- */

bool wh_matches_alive(wh_daemon *d, int64_t now_us, char why[240])
{
	for (size_t i = 0; i < d->n_matches; i++) {
		wh_matches_view view;

		wh_matches_look(d->matches[i], &view);
		if (view.sum.health == WH_ENDED)
			continue;
		if (now_us - view.looked_us >= WH_STUCK_US)
			(void)snprintf(
				why, 240, "relay %s has not moved for %lld s",
				wh_matches_plan(d->matches[i])->name,
				(long long)((now_us - view.looked_us) / WH_SECOND));
		else if (*view.stuck)
			(void)snprintf(why, 240, "relay %.120s has not moved for %d s",
				       view.stuck, (int)(WH_STUCK_US / WH_SECOND));
		else
			continue;
		return false;
	}
	return true;
}

bool wh_matches_ready(wh_daemon *d, wh_buf *out)
{
	bool ready = true;

	for (size_t i = 0; i < d->n_matches; i++) {
		wh_matches_view view;
		bool fine;

		wh_matches_look(d->matches[i], &view);
		fine = view.sum.health == WH_RUNNING && !view.failing &&
		       !view.sum.stats.down;
		ready = ready && fine;
		wh_buf_printf(out, "%s %s: ", wh_matches_plan(d->matches[i])->name,
			      fine ? "ready" : "not ready");
		if (view.sum.health == WH_FAILING)
			wh_buf_puts(out, view.sum.why);
		else if (view.sum.health != WH_RUNNING)
			wh_buf_puts(out,
				    view.sum.health == WH_ENDED ? "ended" : "starting");
		else
			wh_buf_printf(
				out,
				"%lld outboxes, %lld with a relay, %lld wait for one%s",
				(long long)view.outboxes, (long long)view.awake,
				(long long)view.waiting,
				view.sum.stats.down ? "; the destination is down" : "");
		if (view.failing)
			wh_buf_printf(out, "; %lld fail, such as %s",
				      (long long)view.failing, view.failed);
		wh_buf_putc(out, '\n');
	}
	return ready;
}

/* ---- metrics ---- */

static const struct {
	const char *name, *help;
	size_t at; /* Offset of the number in a view. */
} families[] = {
	{"wherry_matched_outboxes", "Outboxes of the schemas or files that match.",
	 offsetof(wh_matches_view, outboxes)},
	{"wherry_matched_awake", "Of these the ones for which a relay runs.",
	 offsetof(wh_matches_view, awake)},
	{"wherry_matched_waiting",
	 "Of these the ones that have work and wait for a relay.",
	 offsetof(wh_matches_view, waiting)},
	{"wherry_matched_failing", "Of these the ones whose relay failed.",
	 offsetof(wh_matches_view, failing)},
};

void wh_matches_measure(wh_daemon *d, wh_buf *out)
{
	for (size_t k = 0; d->n_matches && k < sizeof(families) / sizeof(*families);
	     k++) {
		wh_metrics_head(out, families[k].name, "gauge", families[k].help);
		for (size_t i = 0; i < d->n_matches; i++) {
			wh_matches_view view;
			int64_t number;

			wh_matches_look(d->matches[i], &view);
			memcpy(&number, (const char *)&view + families[k].at,
			       sizeof(number));
			wh_buf_printf(out, "%s{relay=\"%s\"} %lld\n", families[k].name,
				      wh_matches_plan(d->matches[i])->name,
				      (long long)number);
		}
	}
}
