/*
 * A relay's report in the row of its lease, for commands that read the database.
 */
#ifndef WH_STORE_RELAY_REPORT_H
#define WH_STORE_RELAY_REPORT_H

#include "store/store.h"

#define WH_STATE_LEADING "leading"
#define WH_STATE_PAUSED "paused"
/* The destination is down and is probed, or cannot be reached for what is in flight. */
#define WH_STATE_RETRYING "retrying"
/* Asked to stop: it finishes the messages in flight, and its end is not a crash. */
#define WH_STATE_STOPPING "stopping"
#define WH_STATE_STOPPED "stopped" /* Written when the relay releases its lease. */

/* An error that begins so is of the WAL, and not of a delivery (see the doctor's check "unsendable"). */
#define WH_CANNOT_SEND "the server cannot send a row"
/* One that begins so is not an error: the relay works (see the doctor's check "large-dead"). */
#define WH_WRITES_LARGE "the relay writes a large message"
/* The same: another server leads than before (see the doctor's check "other-server"). */
#define WH_OTHER_SERVER "another server leads"
/* The same: the server began again, and may lack what it had not written. */
#define WH_SERVER_BEGAN "the server began again"
/* The same: the server went back, and the relay begins again. */
#define WH_WENT_BACK "the database may lack messages that were delivered"

/* The same: the destination works, but may lose messages that it has taken.  Behind it are settings, and
 * behind WH_OF_TOPIC the name of the topic, up to a comma. */
#define WH_MAY_LOSE "the destination may lose delivered messages"
#define WH_OF_TOPIC " of the topic "

/* Report of a relay, written with each renewal of its lease.  Times are by wh_monotonic(); -1:
 * never. */
typedef struct wh_relay_report {
	const char *state;
	char destination[128]; /* Scheme and host of its URL. */
	int64_t delivered;     /* Messages delivered since the relay took the lease. */
	int64_t delivered_us;  /* When it delivered the last message. */
	char error[200];       /* Reason of the last failed delivery; "": none failed. */
	int64_t error_us;      /* When that delivery failed. */
} wh_relay_report;

/* The values of the parameters WH_REPORT_GIVEN. */
typedef struct wh_report_values {
	wh_view state, destination, error;
	/* Ages in milliseconds; -1: never, keep what the row has. */
	int64_t delivered, delivered_age, error_age;
} wh_report_values;

/* The values of the store's report, or defaults if it has none.  Borrowed from the
 * report. */
wh_report_values wh_report_now(const wh_store *store);

enum { WH_REPORT_PARAMS = 6 };

#define WH_REPORT_PARAMS_OF(v)                                                           \
	WH_TEXT_PARAM("state", (v).state),                                               \
		WH_TEXT_PARAM("destination", (v).destination),                           \
		WH_INT_PARAM("delivered", (v).delivered),                                \
		WH_INT_PARAM("delivered_age", (v).delivered_age),                        \
		WH_TEXT_PARAM("error", (v).error),                                       \
		WH_INT_PARAM("error_age", (v).error_age)

/* Is the error of a report that of a delivery, or of the WAL? */
bool wh_report_is_failure(const char *error);

/* Does it say that the database may lack messages that consumers have? */
bool wh_report_is_of_server(const char *error);

/* Append a sentence for people: the destination refuses everything, why, and for how long
 * (since_us; -1: unknown). */
void wh_report_put_refusal(wh_buf *out, const char *destination, const char *error,
			   int64_t since_us);

#endif
