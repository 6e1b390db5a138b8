/*
 * All running entries of cron.  A reload changes them, and HTTP reads their state.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/ticker.h"
#include "publish/parts.h"

/* ---- starting and changing ---- */

/* Is the entry in the plan?  A replaced entry is not wanted: it is stopped and started
 * again, which makes its schedule the active one. */
static bool wanted(const wh_plan *plan, wh_ticker *t)
{
	wh_ticker_view view;

	wh_ticker_look(t, &view);
	for (size_t i = 0; i < plan->n_crons && !view.replaced; i++)
		if (wh_plan_cron_same(wh_ticker_plan(t), &plan->crons[i]))
			return true;
	return false;
}

/* Stop all entries that are not wanted any more, and wait for them. */
static void stop_old(wh_daemon *d, const wh_plan *plan)
{
	size_t kept = 0, n_gone = 0;
	wh_ticker **gone = calloc(d->n_tickers + 1, sizeof(*gone));

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; gone && i < d->n_tickers; i++)
		if (wanted(plan, d->tickers[i]))
			d->tickers[kept++] = d->tickers[i];
		else
			gone[n_gone++] = d->tickers[i];
	if (gone)
		d->n_tickers = kept;
	(void)pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < n_gone; i++)
		wh_ticker_stop(gone[i]);
	for (size_t i = 0; i < n_gone; i++)
		wh_ticker_free(gone[i]);
	free(gone);
}

static bool runs(const wh_daemon *d, const wh_plan_cron *entry)
{
	for (size_t i = 0; i < d->n_tickers; i++)
		if (wh_plan_cron_same(wh_ticker_plan(d->tickers[i]), entry))
			return true;
	return false;
}

wherry_code wh_tickers_apply(wh_daemon *d, wh_plan *plan, int bell, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	wh_ticker **grown;

	stop_old(d, plan);
	(void)pthread_mutex_lock(&d->lock);
	grown = reallocarray(d->tickers, d->n_tickers + plan->n_crons + 1,
			     sizeof(*grown));
	if (grown)
		d->tickers = grown;
	(void)pthread_mutex_unlock(&d->lock);
	if (!grown)
		return wh_oom(err);
	for (size_t i = 0; code == WHERRY_OK && i < plan->n_crons; i++) {
		wh_ticker *t = NULL;

		if (runs(d, &plan->crons[i]))
			continue;
		code = wh_ticker_start(&plan->crons[i], &d->log, bell, &t, err);
		(void)pthread_mutex_lock(&d->lock);
		if (code == WHERRY_OK)
			d->tickers[d->n_tickers++] = t;
		(void)pthread_mutex_unlock(&d->lock);
	}
	return code;
}

void wh_tickers_stop(wh_daemon *d)
{
	for (size_t i = 0; i < d->n_tickers; i++)
		wh_ticker_stop(d->tickers[i]);
}

bool wh_tickers_ended(wh_daemon *d)
{
	for (size_t i = 0; i < d->n_tickers; i++)
		if (!wh_ticker_ended(d->tickers[i]))
			return false;
	return true;
}

void wh_tickers_free(wh_daemon *d)
{
	wh_tickers_stop(d);
	for (size_t i = 0; i < d->n_tickers; i++)
		wh_ticker_free(d->tickers[i]);
	free(d->tickers);
	d->tickers = NULL;
	d->n_tickers = 0;
}

/* ---- health ---- */

bool wh_tickers_alive(wh_daemon *d, int64_t now_us, char why[240])
{
	for (size_t i = 0; i < d->n_tickers; i++) {
		wh_ticker_view view;

		wh_ticker_look(d->tickers[i], &view);
		if (view.health != WH_RUNNING || now_us - view.stepped_us < WH_STUCK_US)
			continue;
		(void)snprintf(why, 240, "cron %s has not moved for %lld s",
			       wh_ticker_plan(d->tickers[i])->name,
			       (long long)((now_us - view.stepped_us) / WH_SECOND));
		return false;
	}
	return true;
}

static void put_state(wh_buf *out, const wh_ticker_view *view)
{
	int64_t left_us = view->next_us - wh_monotonic(&wh_env_system);

	if (view->health == WH_STARTING)
		wh_buf_puts(out, "starting");
	else if (view->health == WH_ENDED)
		wh_buf_puts(out, "ended");
	else if (*view->why)
		wh_buf_puts(out, view->why);
	else if (view->next_us == WH_NEVER)
		wh_buf_puts(out, "its schedule has no further time");
	else
		wh_buf_printf(out, "next tick in %lld s",
			      left_us > 0 ? (long long)(left_us / WH_SECOND) : 0LL);
}

bool wh_tickers_ready(wh_daemon *d, wh_buf *out)
{
	bool ready = true;

	for (size_t i = 0; i < d->n_tickers; i++) {
		wh_ticker_view view;
		bool fine;

		wh_ticker_look(d->tickers[i], &view);
		fine = wh_ticker_ready(&view);
		ready = ready && fine;
		wh_buf_printf(out, "cron %s %s: ", wh_ticker_plan(d->tickers[i])->name,
			      fine ? "ready" : "not ready");
		put_state(out, &view);
		wh_buf_putc(out, '\n');
	}
	return ready;
}

/* ---- metrics ---- */

static double seconds(int64_t us)
{
	return (double)us / 1e6;
}

/* Read one value of an entry.  False: it has none. */
typedef bool (*value_fn)(const wh_ticker_view *view, double *out);

static bool ticks(const wh_ticker_view *view, double *out)
{
	*out = (double)view->n_ticks;
	return true;
}

static bool up(const wh_ticker_view *view, double *out)
{
	*out = wh_ticker_ready(view);
	return true;
}

static bool last_age(const wh_ticker_view *view, double *out)
{
	*out = seconds(wh_monotonic(&wh_env_system) - view->ticked_us);
	return view->ticked_us != 0;
}

static bool next_in(const wh_ticker_view *view, double *out)
{
	int64_t left_us = view->next_us - wh_monotonic(&wh_env_system);

	*out = left_us > 0 ? seconds(left_us) : 0;
	return wh_ticker_ready(view) && view->next_us != WH_NEVER;
}

static bool restarts(const wh_ticker_view *view, double *out)
{
	*out = (double)view->restarts;
	return true;
}

static const struct {
	const char *name, *type, *help;
	value_fn value;
} families[] = {
	{"wherry_cron_ticks_total", "counter",
	 "Ticks of an entry of cron whose messages this process wrote.", ticks},
	{"wherry_cron_restarts_total", "counter",
	 "How often the entry ended with an error and was started again.", restarts},
	{"wherry_cron_up", "gauge",
	 "1 while the entry makes ticks, 0 while it fails, or another schedule is active "
	 "under its name.",
	 up},
	{"wherry_cron_last_tick_seconds", "gauge",
	 "Since this process wrote a tick of the entry; missing until it has.", last_age},
	{"wherry_cron_next_tick_seconds", "gauge",
	 "Until the next tick of the entry, by the database's clock.", next_in},
};

typedef struct sample {
	const char *name;
	wh_ticker_view view;
} sample;

static void put_errors(wh_buf *out, const sample *samples, size_t n)
{
	wh_metrics_head(out, "wherry_cron_errors_total", "counter",
			"Failures of an entry of cron, by class.");
	for (size_t i = 0; i < n; i++)
		for (int code = 1; code < WHERRY_CODE_COUNT; code++)
			wh_buf_printf(
				out,
				"wherry_cron_errors_total{cron=\"%s\",class=\"%s\"} "
				"%lld\n",
				samples[i].name, wherry_code_name((wherry_code)code),
				(long long)samples[i].view.errors[code]);
}

void wh_tickers_measure(wh_daemon *d, wh_buf *out)
{
	size_t n = d->n_tickers;
	sample *samples = n ? calloc(n, sizeof(*samples)) : NULL;

	if (!samples)
		return;
	for (size_t i = 0; i < n; i++) {
		samples[i].name = wh_ticker_plan(d->tickers[i])->name;
		wh_ticker_look(d->tickers[i], &samples[i].view);
	}
	for (size_t k = 0; k < sizeof(families) / sizeof(*families); k++) {
		double value;

		wh_metrics_head(out, families[k].name, families[k].type,
				families[k].help);
		for (size_t i = 0; i < n; i++)
			if (families[k].value(&samples[i].view, &value))
				wh_buf_printf(out, "%s{cron=\"%s\"} %.15g\n",
					      families[k].name, samples[i].name, value);
	}
	put_errors(out, samples, n);
	free(samples);
}
