/*
 * `wherry run`: several relays and entries of cron in one process.  Each runs on a
 * separate thread, and is started again when it fails.
 *
 *     plan.c      reads wherry.yaml, with plan_*.c; print.c prints it
 *     pipeline.c  runs one relay on its thread
 *     matches.c   runs relays for the outboxes of many schemas while these have work;
 *                 match.c is one such set on its thread, match_look.c looks at the outboxes
 *     ticker.c    runs one entry of cron on its thread; tick_writer.c writes its messages
 *     tickers.c   all entries of cron: start and stop them, their health and metrics
 *     backlog_watch.c  counts waiting messages when somebody reads the metrics
 *     others.c    the same of subscriptions that no relay of this process reads
 *     metrics.c   writes the metrics in Prometheus' format, with metrics_text.c
 *     announce.c  says that a relay starts
 *     http.c      /healthz, /readyz, /metrics; http_guard.c ends slow connections
 *     log_line.c  logs one event a line, as text or JSON
 *     run.c       signals, reload, systemd
 */
#ifndef WH_DAEMON_DAEMON_H
#define WH_DAEMON_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/relay.h>

#include "base/env.h"
#include "base/log.h"
#include "daemon/plan.h"
#include "outbox/outbox.h"
#include "store/partitions.h"
#include "outbox/stream.h"
#include "publish/driver.h"
#include "store/relay_report.h"

/* ---- log_line.c ---- */

typedef struct wh_line_log {
	pthread_mutex_t lock;   /* Guards the members below. */
	wherry_log_level level; /* The least severe level that is logged. */
	bool json;
	/* Writes a line with its line break; any thread calls it. */
	void (*put)(const char *line);
} wh_line_log;

bool wh_line_wanted(wh_line_log *log, wherry_log_level level);

/* Write a record as a line, whatever its level.  relay may be NULL.  Any thread may call
 * it. */
void wh_line_record(wh_line_log *log, const char *relay, const wherry_log_record *record);

/* wh_line(log, level, relay, event, field…): log an event of the daemon if its level is
 * logged; see base/log.h for the fields. */
#define wh_line(log, level, relay, ...)                                                  \
	wh_line_send(                                                                    \
		log, level, relay, WH_LOG_FIRST_(__VA_ARGS__, 0),                        \
		(const wherry_log_field[]){WH_LOG_OTHERS_(__VA_ARGS__, WH_LOG_END_)})
void wh_line_send(wh_line_log *log, wherry_log_level level, const char *relay,
		  const char *event, const wherry_log_field *fields);

/* ---- pipeline.c ---- */

typedef enum wh_health {
	WH_STARTING, /* Not open yet. */
	WH_RUNNING,
	WH_FAILING, /* It ended with an error, and will be started again. */
	WH_ENDED
} wh_health;

/* The part of a relay that other threads read. */
typedef struct wh_pipeline_view {
	wh_health health;
	wherry_relay_stats stats; /* Counters continue after a restart. */
	int64_t restarts;
	wh_number numbers[WH_NUMBERS_MOST]; /* The destination's numbers. */
	size_t n_numbers;
	int64_t step_us; /* Monotonic: when the step in progress began; WH_NEVER: none. */
	int64_t trouble_us;   /* Since when the database fails; WH_NEVER: it works. */
	int64_t idle_us;      /* Since when it has nothing to do; WH_NEVER: it has. */
	const char *state;    /* WH_STATE_…, "standby", or "": it does not run. */
	int64_t state_us;     /* Monotonic: since when it is in this state. */
	bool elsewhere;       /* It stands by, and the leader has another destination. */
	wh_relay_report said; /* The relay's report. */
	char why[240];        /* FAILING: the error.  In trouble: the database's. */
} wh_pipeline_view;

/* When to start a relay or an entry of cron again after so many failures in a row: a database that is away may be
 * back each second, and what a person must repair takes longer. */
int64_t wh_again_in_us(wherry_code code, int failures);

typedef struct wh_pipeline wh_pipeline;

/* Of a relay that ends when it has been idle for a while, or failed: see matches.c. */
typedef struct wh_turn {
	struct wh_brief *brief;     /* It takes it over, and leaves it. */
	const atomic_bool *crowded; /* Others wait: it ends as soon as it is idle. */
} wh_turn;

/*
 * Start a relay on a separate thread.  On success it takes over *relay and clears it.
 *
 * @param bell   An eventfd that it writes to when it has ended.
 * @param turn   NULL: it runs until it is stopped.
 */
wherry_code wh_pipeline_start(wh_plan_relay *relay, wh_line_log *log, int bell,
			      const wh_turn *turn, wh_pipeline **out, wherry_error *err);
const wh_plan_relay *wh_pipeline_plan(const wh_pipeline *p);
void wh_pipeline_look(wh_pipeline *p, wh_pipeline_view *out);
/* Running and leading or standing by, with a destination and a database that answer. */
bool wh_pipeline_ready(const wh_pipeline_view *view);
/* The database has failed for a while, or has not answered. */
bool wh_pipeline_in_trouble(const wh_pipeline_view *view, int64_t now);
void wh_pipeline_stop(wh_pipeline *p);  /* Only asks; does not wait. */
bool wh_pipeline_ended(wh_pipeline *p); /* Its thread has finished. */
void wh_pipeline_free(wh_pipeline *p);  /* Waits until it has ended. */

/* ---- announce.c ---- */

struct wh_daemon;

/* Log that a relay starts, and what is insecure about it. */
void wh_daemon_announce(struct wh_daemon *d, const wh_plan_relay *relay);

/* ---- matches.c ---- */

/* The outboxes of all schemas of a pattern; see matches.c. */
typedef struct wh_matches wh_matches;

/* The part that other threads read. */
typedef struct wh_matches_view {
	wh_pipeline_view sum; /* Of all relays.  FAILING: it has no connection. */
	int64_t outboxes;     /* Outboxes that match. */
	int64_t awake;        /* Relays that run. */
	int64_t waiting;      /* Outboxes with work that wait for a relay. */
	int64_t failing;      /* Outboxes whose relay failed. */
	char failed[256];     /* One of these. */
	char stuck[240];      /* A relay that does not move; "": none. */
	int64_t looked_us;    /* Monotonic: when this was written. */
} wh_matches_view;

/* Start the relays of the plan with `match`, which are moved out of it.  The ones that run
 * already continue; stop the ones that are not in the plan. */
wherry_code wh_matches_apply(struct wh_daemon *d, wh_plan *plan, int bell,
			     wherry_error *err);
void wh_matches_stop(struct wh_daemon *d); /* Only asks; does not wait. */
bool wh_matches_ended(struct wh_daemon *d);
void wh_matches_free(struct wh_daemon *d); /* Waits until they have ended. */
const wh_plan_relay *wh_matches_plan(const wh_matches *m);
void wh_matches_look(wh_matches *m, wh_matches_view *out);

/* The parts of wh_daemon_alive(), wh_daemon_ready() and the metrics.  Call them with d->lock
 * held. */
bool wh_matches_alive(struct wh_daemon *d, int64_t now_us, char why[240]);
bool wh_matches_ready(struct wh_daemon *d, wh_buf *out);
void wh_matches_measure(struct wh_daemon *d, wh_buf *out);

typedef struct wh_ticker wh_ticker; /* A running entry of cron; see ticker.h. */

/* ---- all relays and entries of cron ---- */

typedef struct wh_daemon {
	pthread_mutex_t lock; /* Guards the members below. */
	wh_pipeline **pipelines;
	size_t n;
	wh_matches **matches;
	size_t n_matches;
	wh_ticker **tickers;
	size_t n_tickers;
	wh_line_log log;
	wh_buf warned; /* Lines about ignored settings that were logged; of the main thread. */
	int64_t began_us;
} wh_daemon;

enum { WH_STUCK_US = 120 * WH_SECOND, WH_LATE_US = 15 * WH_SECOND };

/* False: a relay or an entry of cron has made no step for WH_STUCK_US; why names it. */
bool wh_daemon_alive(wh_daemon *d, char why[240]);
/* Are all relays and entries of cron ready?  Writes a line for each. */
bool wh_daemon_ready(wh_daemon *d, wh_buf *out);

/* ---- tickers.c ---- */

/* Start the entries of the plan, which are moved out of it.  Entries that run already
 * continue; stop the ones that are not in the plan. */
wherry_code wh_tickers_apply(wh_daemon *d, wh_plan *plan, int bell, wherry_error *err);
void wh_tickers_stop(wh_daemon *d); /* Only asks; does not wait. */
bool wh_tickers_ended(wh_daemon *d);
void wh_tickers_free(wh_daemon *d); /* Waits until they have ended. */

/* The parts of wh_daemon_alive(), wh_daemon_ready() and the metrics for entries of cron.
 * Call them with d->lock held. */
bool wh_tickers_alive(wh_daemon *d, int64_t now_us, char why[240]);
bool wh_tickers_ready(wh_daemon *d, wh_buf *out);
void wh_tickers_measure(wh_daemon *d, wh_buf *out);

/* ---- backlog_watch.c ---- */

/* A relay's lease of partitions of a table that several relays share. */
typedef struct wh_partition_lease {
	char owner[sizeof(((wh_holder *)NULL)->owner)];
	int64_t epoch;
	int n; /* Partitions that it has. */
} wh_partition_lease;

/* A subscription that no relay of this process reads. */
typedef struct wh_other {
	char name[WH_SUBSCRIPTION_MOST + 1];
	wh_backlog backlog;
	int64_t kept_us; /* Age of the first message behind its position; negative: there is none. */
	int64_t moved_us; /* Time since its position moved. */
	bool led;         /* Another process relays it. */
} wh_other;

enum { WH_OTHERS_MOST = 50 };

typedef struct wh_backlog_view {
	wh_backlog backlog;
	wh_holder holder;
	/* Filled if several relays share the table. */
	wh_partition_lease partition_leases[WH_PARTITIONS];
	int n_partition_leases;
	bool reads_log; /* The relay's engine takes new rows from the WAL. */
	wh_wal_watched log;
	wh_other others[WH_OTHERS_MOST]; /* Of the first relay of an outbox alone. */
	int n_others;
	int64_t seen_us; /* Monotonic: when it was read; 0: never. */
} wh_backlog_view;

typedef struct wh_backlogs wh_backlogs;

wherry_code wh_backlogs_start(wh_daemon *d, wh_backlogs **out, wherry_error *err);
void wh_backlogs_stop(wh_backlogs *b);

/* Read the numbers again if they are old.  Waits a moment for them. */
void wh_backlogs_refresh(wh_backlogs *b);
bool wh_backlogs_get(wh_backlogs *b, const char *name, wh_backlog_view *out);

/* ---- others.c ---- */

/* Whether two relays read the same outbox. */
bool wh_same_outbox(const wherry_outbox *a, const wherry_outbox *b);

/* Read the subscriptions of an outbox for which served() is false. */
wherry_code wh_others_read(wherry_outbox *outbox,
			   bool (*served)(void *ctx, const char *subscription), void *ctx,
			   wh_other out[WH_OTHERS_MOST], int *out_n, wherry_error *err);

/* ---- metrics_text.c ---- */

/* Write the lines before the values of a metric. */
void wh_metrics_head(wh_buf *out, const char *name, const char *type, const char *help);

/* Write the value of a label.  Only \, " and line breaks are escaped. */
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
