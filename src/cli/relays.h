/*
 * The relays of a table on which all relays work, such as a queue, for status and doctor.
 */
#ifndef WH_CLI_RELAYS_H
#define WH_CLI_RELAYS_H

#include "cli/status.h"
#include "store/leases.h"

typedef struct wh_relays {
	/* The running relays, then those that ended, the last one first. */
	wh_holder *all;
	size_t n, n_running, cap;
	bool failed;  /* Out of memory: a relay is missing. */
	bool unknown; /* The layout lists no relays. */
} wh_relays;

/* Read the relays.  Clear *out even on failure. */
wherry_code wh_relays_read(wh_store *store, wh_relays *out, wherry_error *err);
void wh_relays_clear(wh_relays *relays);

/* A running relay whose destination refuses all messages; NULL: there is none. */
const wh_holder *wh_relays_refused(const wh_relays *relays);

/* Append a line for each running relay, or for the last one if no relay is running.
 * others: the workers that share the table with relays. */
void wh_put_relays(wh_buf *text, const wh_relays *relays, const char *others);

/* Append the running relays as the member "relays" of a JSON object, and the one that ended last,
 * if none runs, as "last_relay". */
void wh_put_relays_field(wh_buf *json, const wh_relays *relays);

/* ---- whether all is well ---- */

/* Facts from which the warnings are made. */
typedef struct wh_facts {
	const char *what;   /* "queue" */
	const char *target; /* Names the table behind "wherry COMMAND". */
	const char *state;  /* State of messages that could be taken now: "ready". */
	const char *nobody; /* "no worker or relay receives" */
	bool paused;
	/* Number of messages that could be taken now; age of the oldest, microseconds. */
	int64_t ready, oldest_us;
	int64_t leased;
	int64_t open; /* Messages that are not dead. */
	int64_t dead;
} wh_facts;

/* Add what is wrong. */
void wh_warn_of(wh_warned *out, const wh_facts *facts, const wh_relays *relays);

#endif
