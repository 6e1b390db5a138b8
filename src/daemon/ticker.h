/*
 * Runs one entry of cron on its thread: it writes a message at each time of its schedule,
 * and is started again when it fails.
 */
#ifndef WH_DAEMON_TICKER_H
#define WH_DAEMON_TICKER_H

#include "daemon/daemon.h"

/* The part of an entry that other threads read. */
typedef struct wh_ticker_view {
	wh_health health;
	int64_t n_ticks;   /* Ticks that this process wrote. */
	int64_t ticked_us; /* Monotonic: when it wrote the last tick; 0: none. */
	/* Monotonic: when the next tick is due; WH_NEVER: none. */
	int64_t next_us;
	int64_t restarts;
	int64_t errors[WHERRY_CODE_COUNT];
	int64_t stepped_us; /* Monotonic: when its last step ended. */
	bool replaced;      /* Another daemon made another schedule the active one. */
	char why[240];      /* Why it fails, or that it is replaced. */
} wh_ticker_view;

/* Start an entry on a separate thread.  On success it takes over *entry and clears it.
 * bell is an eventfd that it writes to when it has ended. */
wherry_code wh_ticker_start(wh_plan_cron *entry, wh_line_log *log, int bell,
			    wh_ticker **out, wherry_error *err);
const wh_plan_cron *wh_ticker_plan(const wh_ticker *t);
void wh_ticker_look(wh_ticker *t, wh_ticker_view *out);
bool wh_ticker_ready(const wh_ticker_view *view);
void wh_ticker_stop(wh_ticker *t); /* Only asks; does not wait. */
bool wh_ticker_ended(wh_ticker *t);
void wh_ticker_free(wh_ticker *t); /* Waits until it has ended. */

#endif
