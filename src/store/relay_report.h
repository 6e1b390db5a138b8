/*
 * A relay's report in the row of its lease, for commands that read the database.
 */
#ifndef WH_STORE_RELAY_REPORT_H
#define WH_STORE_RELAY_REPORT_H

#include "store/store.h"

#define WH_STATE_LEADING "leading"
#define WH_STATE_PAUSED "paused"
#define WH_STATE_RETRYING "retrying" /* the destination is down, and is probed */
#define WH_STATE_STOPPED "stopped"   /* written when the lease is given back */

/* Written with each renewal of the lease.  Times are of the clock wh_monotonic(); -1: never. */
typedef struct wh_relay_report {
	const char *state;
	char destination[128]; /* its URL's scheme and host */
	int64_t delivered;     /* messages, since the lease was taken */
	int64_t delivered_us;  /* when the last one was */
	char error[200];       /* the last reason why a delivery failed; "": none did */
	int64_t error_us;      /* when that was */
} wh_relay_report;

/* As the parameters of WH_REPORT_GIVEN. */
typedef struct wh_report_values {
	wh_view state, destination, error;
	int64_t delivered, delivered_age, error_age; /* milliseconds; -1: nothing new */
} wh_report_values;

/* Of the store's report, or where it has none; borrowed from it. */
wh_report_values wh_report_now(const wh_store *store);

enum { WH_REPORT_PARAMS = 6 };

#define WH_REPORT_PARAMS_OF(v)                                                           \
	WH_TEXT_PARAM("state", (v).state),                                               \
		WH_TEXT_PARAM("destination", (v).destination),                           \
		WH_INT_PARAM("delivered", (v).delivered),                                \
		WH_INT_PARAM("delivered_age", (v).delivered_age),                        \
		WH_TEXT_PARAM("error", (v).error),                                       \
		WH_INT_PARAM("error_age", (v).error_age)

/* Append that a relay's destination refuses everything, for a person: why, which one, and for how
 * long (-1: not known). */
void wh_report_put_refusal(wh_buf *out, const char *destination, const char *error,
			   int64_t since_us);

#endif
