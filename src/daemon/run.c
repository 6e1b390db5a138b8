/*
 * The process: reads the plan, starts its relays and entries of cron, and reacts to
 * signals and systemd.
 *
 *     SIGHUP           reads the file again, starts new relays and entries of cron, and
 *                      stops removed and changed ones
 *     SIGTERM, SIGINT  stops all, and finishes the messages in flight; a second signal
 *                      ends the process at once
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/url.h"
#include "daemon/daemon.h"
#include "daemon/notify.h"

enum {
	ONE_SIGNAL_US = 100000,
	TICKER_STOP_US = 10000000, /* An entry of cron may be connecting. */
	EXIT_FAILED = 1,
	EXIT_SIGNALLED = 130
};

typedef struct running {
	wh_daemon daemon;
	/* The last plan read.  Pipelines and tickers took over the relays and entries
	 * of cron that were started from it. */
	wh_plan plan;
	wh_backlogs *backlogs;
	wh_http *http;
	int signals;
	/* Written to by relays and entries of cron that have ended. */
	int bell;
	int64_t watchdog_us; /* systemd's watchdog interval; 0: none. */
	int64_t notified_us;
} running;

/* ---- health, for HTTP and systemd ---- */

bool wh_daemon_alive(wh_daemon *d, char why[240])
{
	int64_t now = wh_monotonic(&wh_env_system);
	bool alive = true;

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n && alive; i++) {
		wh_pipeline_view view;

		wh_pipeline_look(d->pipelines[i], &view);
		alive = view.health != WH_RUNNING || view.step_us == WH_NEVER ||
			now - view.step_us < WH_STUCK_US;
		if (!alive)
			(void)snprintf(why, 240, "relay %s has not moved for %lld s",
				       wh_pipeline_plan(d->pipelines[i])->name,
				       (long long)((now - view.step_us) / WH_SECOND));
	}
	alive = alive && wh_matches_alive(d, now, why) && wh_tickers_alive(d, now, why);
	(void)pthread_mutex_unlock(&d->lock);
	return alive;
}

static void put_trouble(wh_buf *out, const wh_pipeline_view *view, int64_t now)
{
	bool fails = view->trouble_us != WH_NEVER;

	wh_buf_printf(out, "the database %s for %lld s%s%s",
		      fails ? "has refused calls" : "has not answered",
		      (long long)((now - (fails ? view->trouble_us : view->step_us)) /
				  WH_SECOND),
		      fails ? ": " : "", fails ? view->why : "");
}

static void put_state(wh_buf *out, const wh_pipeline_view *view)
{
	int64_t now = wh_monotonic(&wh_env_system), since_us = now - view->state_us;

	switch (view->health) {
	case WH_STARTING:
		wh_buf_puts(out, "starting");
		return;
	case WH_FAILING:
		wh_buf_puts(out, view->why);
		return;
	case WH_ENDED:
		wh_buf_puts(out, "ended");
		return;
	case WH_RUNNING:
		break;
	}
	if (view->stats.down)
		wh_report_put_refusal(out, view->said.destination, view->said.error,
				      since_us);
	else if (wh_pipeline_in_trouble(view, now))
		put_trouble(out, view, now);
	else if (view->stats.paused)
		wh_buf_puts(out, "paused");
	else if (view->elsewhere)
		wh_buf_printf(out, "standing by: %s", view->said.error);
	else
		wh_buf_puts(out, view->stats.epoch ? "leading" : "standing by");
}

bool wh_daemon_ready(wh_daemon *d, wh_buf *out)
{
	bool ready = true;

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n; i++) {
		wh_pipeline_view view;
		bool fine;

		wh_pipeline_look(d->pipelines[i], &view);
		fine = wh_pipeline_ready(&view);
		ready = ready && fine;
		wh_buf_printf(out, "%s %s: ", wh_pipeline_plan(d->pipelines[i])->name,
			      fine ? "ready" : "not ready");
		put_state(out, &view);
		wh_buf_putc(out, '\n');
	}
	ready = wh_matches_ready(d, out) && ready;
	ready = wh_tickers_ready(d, out) && ready;
	(void)pthread_mutex_unlock(&d->lock);
	return ready;
}

/* ---- starting and changing ---- */

static wh_pipeline *find(const wh_daemon *d, const wh_plan_relay *relay)
{
	for (size_t i = 0; i < d->n; i++)
		if (wh_plan_same(wh_pipeline_plan(d->pipelines[i]), relay))
			return d->pipelines[i];
	return NULL;
}

static wherry_code start(running *r, wh_plan_relay *relay, wh_pipeline **out,
			 wherry_error *err)
{
	wh_daemon_announce(&r->daemon, relay);
	return wh_pipeline_start(relay, &r->daemon.log, r->bell, NULL, out, err);
}

/* Collect the pipelines of the plan, and start those that do not run yet.  *out has room
 * for all. */
static wherry_code gather(running *r, wh_plan *plan, wh_pipeline **out, size_t *out_n,
			  wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < plan->n_relays; i++) {
		wh_pipeline *p;

		if (plan->relays[i].match.value)
			continue; /* wh_matches_apply() starts it. */
		p = find(&r->daemon, &plan->relays[i]);
		if (!p)
			code = start(r, &plan->relays[i], &p, err);
		if (code == WHERRY_OK)
			out[(*out_n)++] = p;
	}
	return code;
}

static bool among(wh_pipeline *const *set, size_t n, const wh_pipeline *p)
{
	for (size_t i = 0; i < n; i++)
		if (set[i] == p)
			return true;
	return false;
}

/* Stop all pipelines that are not in the plan any more, and wait for them: their
 * successors need their leases. */
static void stop_old(running *r, const wh_plan *plan)
{
	wh_daemon *d = &r->daemon;
	size_t kept = 0, n_gone = 0;
	wh_pipeline **gone = calloc(d->n + 1, sizeof(*gone));

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; gone && i < d->n; i++) {
		bool wanted = false;

		for (size_t k = 0; k < plan->n_relays && !wanted; k++)
			wanted = wh_plan_same(wh_pipeline_plan(d->pipelines[i]),
					      &plan->relays[k]);
		if (wanted)
			d->pipelines[kept++] = d->pipelines[i];
		else
			gone[n_gone++] = d->pipelines[i];
	}
	if (gone)
		d->n = kept;
	(void)pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < n_gone; i++)
		wh_pipeline_stop(gone[i]);
	for (size_t i = 0; i < n_gone; i++)
		wh_pipeline_free(gone[i]);
	free(gone);
}

static wherry_code apply(running *r, wh_plan *plan, wherry_error *err)
{
	wh_daemon *d = &r->daemon;
	wh_pipeline **set = calloc(plan->n_relays + 1, sizeof(*set)), **old;
	size_t n = 0;
	wherry_code code;

	if (!set)
		return wh_oom(err);
	stop_old(r, plan);
	code = gather(r, plan, set, &n, err);
	for (size_t i = 0; i < d->n && code != WHERRY_OK; i++)
		if (!among(set, n, d->pipelines[i]))
			set[n++] = d->pipelines[i];
	(void)pthread_mutex_lock(&d->lock);
	old = d->pipelines;
	d->pipelines = set;
	d->n = n;
	(void)pthread_mutex_unlock(&d->lock);
	free(old);
	return code;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Restart HTTP if its settings changed.  The port may be the same, so the old server
 * stops first. */
static wherry_code apply_http(running *r, const wh_plan *plan, wherry_error *err)
{
	if (same_text(r->plan.listen.value, plan->listen.value) &&
	    same_text(r->plan.token.value, plan->token.value) &&
	    same_text(r->plan.hosts.value, plan->hosts.value) &&
	    !r->http == !plan->listen.value)
		return WHERRY_OK;
	wh_http_stop(r->http);
	r->http = NULL;
	if (!plan->listen.value)
		return WHERRY_OK;
	return wh_http_start(plan, &r->daemon, r->backlogs, &r->http, err);
}

static wherry_code read_plan(running *r, const char *path, wh_plan *out)
{
	wh_buf problems = WH_BUF_INIT(64 * 1024);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wh_plan_read(path, out, &problems, &err);

	if (code != WHERRY_OK && problems.len) /* Log each line as an event. */
		for (char *line = problems.ptr, *end; *line; line = end + 1) {
			end = line + strcspn(line, "\n");
			*end = 0;
			wh_line(&r->daemon.log, WHERRY_LOG_ERROR, NULL, "bad-file",
				wh_log_text("why", line));
		}
	else if (code != WHERRY_OK)
		wh_line(&r->daemon.log, WHERRY_LOG_ERROR, NULL, "bad-file",
			wh_log_text("why", err.message));
	wh_buf_clear(&problems);
	return code;
}

static void take_log(running *r, const wh_plan *plan)
{
	(void)pthread_mutex_lock(&r->daemon.log.lock);
	r->daemon.log.json = plan->log_json;
	r->daemon.log.level = plan->log_level;
	(void)pthread_mutex_unlock(&r->daemon.log.lock);
}

static void tell_incomplete(running *r, wherry_code code, const wherry_error *err)
{
	if (code != WHERRY_OK)
		wh_line(&r->daemon.log, WHERRY_LOG_ERROR, NULL, "reload-incomplete",
			wh_log_text("why", err->message));
}

static size_t n_relays(const running *r)
{
	return r->daemon.n + r->daemon.n_matches;
}

static void tell_ready(const running *r)
{
	char cron[40] = "", lines[120];

	if (r->daemon.n_tickers)
		(void)snprintf(cron, sizeof(cron), ", %zu of cron", r->daemon.n_tickers);
	(void)snprintf(lines, sizeof(lines), "READY=1\nSTATUS=%zu relay%s%s", n_relays(r),
		       n_relays(r) == 1 ? "" : "s", cron);
	wh_notify(lines);
}

/* Read the file again, and apply it.  A file with problems changes nothing. */
static void reload(running *r)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char lines[80];
	wh_plan plan;

	(void)snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%lld",
		       (long long)wh_monotonic(&wh_env_system));
	wh_notify(lines);
	if (read_plan(r, r->plan.path, &plan) == WHERRY_OK) {
		take_log(r, &plan);
		tell_incomplete(r, apply_http(r, &plan, &err), &err);
		tell_incomplete(r, apply(r, &plan, &err), &err);
		tell_incomplete(r, wh_matches_apply(&r->daemon, &plan, r->bell, &err),
				&err);
		tell_incomplete(r, wh_tickers_apply(&r->daemon, &plan, r->bell, &err),
				&err);
		wh_plan_clear(&r->plan);
		r->plan = plan;
		wh_line(&r->daemon.log, WHERRY_LOG_INFO, NULL, "reloaded",
			wh_log_int("relays", (int64_t)n_relays(r)),
			wh_log_int("cron", (int64_t)r->daemon.n_tickers));
	} else {
		wh_line(&r->daemon.log, WHERRY_LOG_ERROR, NULL, "reload-refused",
			wh_log_note(
				"the relays and the entries of cron that run go on unchanged"));
	}
	tell_ready(r);
}

/* ---- the loop ---- */

/* Sleep until a signal comes, and return its number.  Returns 0 when a relay or an entry
 * of cron ends, or at until_us. */
static int next_signal(const running *r, int64_t until_us)
{
	struct pollfd fds[] = {{.fd = r->signals, .events = POLLIN},
			       {.fd = r->bell, .events = POLLIN}};
	int64_t left_us = until_us - wh_monotonic(&wh_env_system);
	struct signalfd_siginfo info;
	uint64_t rung;
	int wait_ms = -1;

	if (until_us != WH_NEVER)
		wait_ms = left_us <= 0 ? 0 : (int)(left_us / 1000) + 1;
	if (poll(fds, 2, wait_ms) < 1)
		return 0;
	if (fds[1].revents)
		(void)!read(r->bell, &rung, sizeof(rung));
	if (read(r->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

/* When systemd's watchdog must be notified next. */
static int64_t watchdog_due(const running *r)
{
	return r->watchdog_us ? wh_later(r->notified_us, r->watchdog_us / 2) : WH_NEVER;
}

/* Notify systemd's watchdog in time, unless a relay hangs: then systemd restarts the
 * process. */
static void tell_watchdog(running *r)
{
	int64_t now = wh_monotonic(&wh_env_system);
	char why[240];

	if (now < watchdog_due(r))
		return;
	r->notified_us = now;
	if (wh_daemon_alive(&r->daemon, why))
		wh_notify("WATCHDOG=1");
	else
		wh_line(&r->daemon.log, WHERRY_LOG_ERROR, NULL, "stuck",
			wh_log_text("why", why));
}

static void serve(running *r)
{
	for (;;) {
		int number = next_signal(r, watchdog_due(r));

		if (number == SIGTERM || number == SIGINT)
			return;
		if (number == SIGHUP)
			reload(r);
		tell_watchdog(r);
	}
}

static bool all_ended(running *r)
{
	for (size_t i = 0; i < r->daemon.n; i++)
		if (!wh_pipeline_ended(r->daemon.pipelines[i]))
			return false;
	return wh_matches_ended(&r->daemon) && wh_tickers_ended(&r->daemon);
}

static int64_t longer(int64_t most, const wh_plan_relay *plan)
{
	int64_t us = wh_config_int(plan->config, WH_RELAY_STOP_TIMEOUT);

	return us > most ? us : most;
}

/* How long to wait at the stop: the longest relay.stop_timeout, and 10 s for the
 * database. */
static int64_t patience(const running *r)
{
	int64_t most = r->daemon.n_tickers ? TICKER_STOP_US : 0;

	for (size_t i = 0; i < r->daemon.n; i++)
		most = longer(most, wh_pipeline_plan(r->daemon.pipelines[i]));
	for (size_t i = 0; i < r->daemon.n_matches; i++)
		most = longer(most, wh_matches_plan(r->daemon.matches[i]));
	return wh_later(most, 10 * WH_SECOND);
}

/* A second signal ends the program at once, but only after a moment: timeout(1) sends one
 * signal both to the process and to its group, and means one. */
static int stop_all(running *r)
{
	int64_t began = wh_monotonic(&wh_env_system);
	int64_t until = wh_later(began, patience(r));

	wh_notify("STOPPING=1");
	wh_line(&r->daemon.log, WHERRY_LOG_INFO, NULL, "stopping");
	for (size_t i = 0; i < r->daemon.n; i++)
		wh_pipeline_stop(r->daemon.pipelines[i]);
	wh_matches_stop(&r->daemon);
	wh_tickers_stop(&r->daemon);
	while (!all_ended(r)) {
		int number = next_signal(r, until);

		int64_t now = wh_monotonic(&wh_env_system);

		if ((number == SIGTERM || number == SIGINT) &&
		    now - began > ONE_SIGNAL_US)
			_exit(EXIT_SIGNALLED);
		if (now >= until) {
			wh_line(&r->daemon.log, WHERRY_LOG_ERROR, NULL, "stop-timeout",
				wh_log_note(
					"a relay or an entry of cron does not end; "
					"messages in flight will be delivered again"));
			_exit(EXIT_FAILED);
		}
	}
	return 0;
}

static void begin_signals(running *r)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* Inherited by all threads. */
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->watchdog_us = wh_notify_watchdog_us();
}

static wherry_code begin(running *r, wherry_error *err)
{
	wherry_code code;

	if (r->signals < 0 || r->bell < 0)
		return wh_fail_errno(err, errno, "cannot wait for signals");
	code = wh_backlogs_start(&r->daemon, &r->backlogs, err);
	if (code == WHERRY_OK && r->plan.listen.value)
		code = wh_http_start(&r->plan, &r->daemon, r->backlogs, &r->http, err);
	if (code == WHERRY_OK && r->http)
		wh_line(&r->daemon.log, WHERRY_LOG_INFO, NULL, "http",
			wh_log_text("listen", r->plan.listen.value),
			wh_log_int("port", wh_http_port(r->http)));
	if (code == WHERRY_OK)
		code = apply(r, &r->plan, err);
	if (code == WHERRY_OK)
		code = wh_matches_apply(&r->daemon, &r->plan, r->bell, err);
	if (code == WHERRY_OK)
		code = wh_tickers_apply(&r->daemon, &r->plan, r->bell, err);
	return code;
}

static void end(running *r)
{
	wh_http_stop(r->http);
	wh_backlogs_stop(r->backlogs);
	for (size_t i = 0; i < r->daemon.n; i++)
		wh_pipeline_stop(r->daemon.pipelines[i]);
	wh_matches_free(&r->daemon);
	wh_tickers_free(&r->daemon);
	for (size_t i = 0; i < r->daemon.n; i++)
		wh_pipeline_free(r->daemon.pipelines[i]);
	free(r->daemon.pipelines);
	wh_buf_clear(&r->daemon.warned);
	wh_plan_clear(&r->plan);
	if (r->signals >= 0)
		(void)close(r->signals);
	if (r->bell >= 0)
		(void)close(r->bell);
	(void)pthread_mutex_destroy(&r->daemon.lock);
	(void)pthread_mutex_destroy(&r->daemon.log.lock);
}

int wh_daemon_run(const char *path, void (*put)(const char *line))
{
	running r = {.daemon.log = {.level = WHERRY_LOG_INFO, .put = put},
		     .daemon.warned = WH_BUF_INIT(64 * 1024)};
	wherry_error err = WHERRY_ERROR_INIT;
	int status = EXIT_FAILED;

	(void)pthread_mutex_init(&r.daemon.lock, NULL);
	(void)pthread_mutex_init(&r.daemon.log.lock, NULL);
	r.daemon.began_us = wh_monotonic(&wh_env_system);
	begin_signals(&r);
	if (read_plan(&r, path, &r.plan) == WHERRY_OK) {
		take_log(&r, &r.plan);
		wh_line(&r.daemon.log, WHERRY_LOG_INFO, NULL, "reads",
			wh_log_text("file", path));
		if (begin(&r, &err) == WHERRY_OK) {
			tell_ready(&r);
			serve(&r);
			status = stop_all(&r);
		} else {
			wh_line(&r.daemon.log, WHERRY_LOG_ERROR, NULL, "cannot-start",
				wh_log_text("why", err.message));
		}
	}
	end(&r);
	return status;
}
