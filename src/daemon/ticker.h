/*
 * One entry of cron on its thread, supervised: it writes a message at each time of its schedule.
 */
#ifndef WH_DAEMON_TICKER_H
#define WH_DAEMON_TICKER_H

#include "daemon/daemon.h"

/* What others see of an entry. */
typedef struct wh_ticker_view {
	wh_health health;
	int64_t n_ticks;   /* that this process wrote */
	int64_t ticked_us; /* monotonic: when it wrote the last; 0: it wrote none */
	int64_t next_us;   /* monotonic: when the next is due; WH_NEVER: there is none */
	int64_t restarts;
	int64_t errors[WHERRY_CODE_COUNT];
	int64_t stepped_us; /* monotonic: when it was last alive */
	bool replaced;      /* Another daemon made another schedule the active one. */
	char why[240];      /* it fails, or is replaced */
} wh_ticker_view;

/* Start an entry on its own thread.  It is taken from the plan, which forgets it.  bell is an
 * eventfd that is rung when it has ended. */
wherry_code wh_ticker_start(wh_plan_cron *entry, wh_line_log *log, int bell,
			    wh_ticker **out, wherry_error *err);
const wh_plan_cron *wh_ticker_plan(const wh_ticker *t);
void wh_ticker_look(wh_ticker *t, wh_ticker_view *out);
bool wh_ticker_ready(const wh_ticker_view *view);
void wh_ticker_stop(wh_ticker *t);  /* asks; does not wait */
bool wh_ticker_ended(wh_ticker *t); /* Its thread has done its work. */
void wh_ticker_free(wh_ticker *t);  /* waits until it has ended */

#endif
