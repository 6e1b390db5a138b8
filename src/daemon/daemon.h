/*
 * `wherry run`: several relays and entries of cron in one process, each on a separate thread,
 * watched and started again when they fail.
 *
 *     plan.c      reads wherry.yaml, with plan_*.c; print.c shows it
 *     pipeline.c  one relay on its thread, supervised
 *     ticker.c    one entry of cron on its thread, supervised; tick_writer.c writes its messages
 *     tickers.c   the set of them: a reload, health, metrics
 *     backlog_watch.c  counts waiting messages when somebody reads the numbers
 *     metrics.c   the numbers in Prometheus' format
 *     http.c      /healthz, /readyz, /metrics; http_guard.c ends slow connections
 *     line.c      one event a line, as text or JSON
 *     run.c       signals, reload, systemd
 */
#ifndef WH_DAEMON_DAEMON_H
#define WH_DAEMON_DAEMON_H

#include <pthread.h>

#include <wherry/relay.h>

#include "base/env.h"
#include "base/log.h"
#include "daemon/plan.h"
#include "outbox/outbox.h"
#include "store/partitions.h"
#include "outbox/stream.h"
#include "publish/driver.h"
#include "store/relay_report.h"

/* ---- line.c ---- */

typedef struct wh_line_log {
	pthread_mutex_t lock;   /* of what follows */
	wherry_log_level level; /* the least severe that is written */
	bool json;
	void (*put)(const char *line); /* with its line break; any thread calls it */
} wh_line_log;

bool wh_line_wanted(wh_line_log *log, wherry_log_level level);

/* Write one record as a line, whatever its level.  relay may be NULL.  Threads: any. */
void wh_line_record(wh_line_log *log, const char *relay, const wherry_log_record *record);

/* wh_line(log, level, relay, event, field…): report an event of the daemon, if its
 * level is wanted; see base/log.h for the fields. */
#define wh_line(log, level, relay, ...)                                                  \
	wh_line_send(                                                                    \
		log, level, relay, WH_LOG_FIRST_(__VA_ARGS__, 0),                        \
		(const wherry_log_field[]){WH_LOG_OTHERS_(__VA_ARGS__, WH_LOG_END_)})
void wh_line_send(wh_line_log *log, wherry_log_level level, const char *relay,
		  const char *event, const wherry_log_field *fields);

/* ---- pipeline.c ---- */

typedef enum wh_health {
	WH_STARTING, /* not open yet */
	WH_RUNNING,
	WH_FAILING, /* ended with an error, and waits to begin again */
	WH_ENDED
} wh_health;

/* What others see of a relay. */
typedef struct wh_pipeline_view {
	wh_health health;
	wherry_relay_stats stats; /* counters go on over restarts */
	int64_t restarts;
	wh_number numbers[WH_NUMBERS_MOST]; /* the destination's own */
	size_t n_numbers;
	int64_t stepped_us;   /* monotonic: when it was last alive */
	const char *state;    /* WH_STATE_…, "standby", or "" while it does not run */
	int64_t state_us;     /* monotonic: since when */
	wh_relay_report said; /* of itself */
	char why[240];        /* it fails */
} wh_pipeline_view;

typedef struct wh_pipeline wh_pipeline;

/* Start a relay on its own thread.  relay is taken from the plan, which forgets it.  bell is an
 * eventfd that is rung when it has ended. */
wherry_code wh_pipeline_start(wh_plan_relay *relay, wh_line_log *log, int bell,
			      wh_pipeline **out, wherry_error *err);
const wh_plan_relay *wh_pipeline_plan(const wh_pipeline *p);
void wh_pipeline_look(wh_pipeline *p, wh_pipeline_view *out);
bool wh_pipeline_ready(const wh_pipeline_view *view);
void wh_pipeline_stop(wh_pipeline *p);  /* asks; does not wait */
bool wh_pipeline_ended(wh_pipeline *p); /* nothing of it runs any more */
void wh_pipeline_free(wh_pipeline *p);  /* waits until it has ended */

typedef struct wh_ticker wh_ticker; /* An entry of cron that runs; see ticker.h. */

/* ---- the set of them, which HTTP reads while a reload changes it ---- */

typedef struct wh_daemon {
	pthread_mutex_t lock; /* of what follows */
	wh_pipeline **pipelines;
	size_t n;
	wh_ticker **tickers;
	size_t n_tickers;
	wh_line_log log;
	int64_t began_us;
} wh_daemon;

enum { WH_STUCK_US = 120 * WH_SECOND };

/* A relay that has not stepped for so long hangs. */
bool wh_daemon_alive(wh_daemon *d, char why[240]);
bool wh_daemon_ready(wh_daemon *d, wh_buf *out); /* a line for each relay */

/* ---- tickers.c ---- */

/* Start the entries of the plan, which are taken from it; stop those that are not in it.  Entries
 * that run already go on. */
wherry_code wh_tickers_apply(wh_daemon *d, wh_plan *plan, int bell, wherry_error *err);
void wh_tickers_stop(wh_daemon *d);  /* asks; does not wait */
bool wh_tickers_ended(wh_daemon *d); /* All of them have. */
void wh_tickers_free(wh_daemon *d);  /* waits until they have ended */

/* As of relays; under d->lock. */
bool wh_tickers_alive(wh_daemon *d, int64_t now_us, char why[240]);
bool wh_tickers_ready(wh_daemon *d, wh_buf *out);
void wh_tickers_measure(wh_daemon *d, wh_buf *out); /* in Prometheus' format */

/* ---- backlog.c ---- */

/* A relay's share of an outbox. */
typedef struct wh_shareholder {
	char owner[sizeof(((wh_holder *)NULL)->owner)];
	int64_t epoch;
	int n; /* partitions */
} wh_shareholder;

typedef struct wh_backlog_view {
	wh_backlog backlog;
	wh_holder holder;
	wh_shareholder shares[WH_PARTITIONS]; /* where several have it */
	int n_shares;
	wh_wal_watched log;
	int64_t seen_us; /* monotonic; 0: never */
} wh_backlog_view;

typedef struct wh_backlogs wh_backlogs;

wherry_code wh_backlogs_start(wh_daemon *d, wh_backlogs **out, wherry_error *err);
void wh_backlogs_stop(wh_backlogs *b);

/* What is known of an outbox by its pipeline's name; waits a moment for newer numbers. */
void wh_backlogs_refresh(wh_backlogs *b);
bool wh_backlogs_get(wh_backlogs *b, const char *name, wh_backlog_view *out);

/* ---- metrics_text.c ---- */

/* The lines before the values of a metric. */
void wh_metrics_head(wh_buf *out, const char *name, const char *type, const char *help);

/* A label's value: only \, " and line breaks are special. */
void wh_metrics_label(wh_buf *out, const char *text);

/* ---- metrics.c ---- */

void wh_metrics_write(wh_daemon *d, wh_backlogs *b, wh_buf *out);

/* ---- http.c ---- */

typedef struct wh_http wh_http;

wherry_code wh_http_start(const wh_plan *plan, wh_daemon *d, wh_backlogs *b,
			  wh_http **out, wherry_error *err);
uint16_t wh_http_port(const wh_http *http);
void wh_http_stop(wh_http *http);

/* ---- run.c ---- */

/* Run the plan in a file until SIGTERM; returns the exit status. */
int wh_daemon_run(const char *path, void (*put)(const char *line));

#endif
