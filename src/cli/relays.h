/*
 * The relays of a table on which all relays work, such as a queue, for status and doctor.
 */
#ifndef WH_CLI_RELAYS_H
#define WH_CLI_RELAYS_H

#include "cli/cli.h"
#include "store/leases.h"

typedef struct wh_relays {
	wh_holder *all; /* Those that run, then those that ended, the last one first. */
	size_t n, n_running, cap;
	bool failed;  /* There was no memory for one. */
	bool unknown; /* The layout lists no relays. */
} wh_relays;

/* Clear it either way. */
wherry_code wh_relays_read(wh_store *store, wh_relays *out, wherry_error *err);
void wh_relays_clear(wh_relays *relays);

/* A relay that runs and whose destination refuses everything; NULL: there is none. */
const wh_holder *wh_relays_refused(const wh_relays *relays);

/* Append the relays, a line for each that runs.  others: who works on the table beside them. */
void wh_put_relays(wh_buf *text, const wh_relays *relays, const char *others);

/* Append those that run as the field "relays" of a JSON object. */
void wh_put_relays_field(wh_buf *json, const wh_relays *relays);

/* ---- whether all is well ---- */

/* What is known of the table. */
typedef struct wh_facts {
	const char *what;        /* "queue" */
	const char *target;      /* Names it behind "wherry COMMAND". */
	const char *state;       /* Of messages that could be taken now: "ready". */
	const char *nobody;      /* "no worker or relay receives" */
	const char *dead_advice; /* What to do about dead messages. */
	bool paused;
	int64_t ready, oldest_us; /* Messages that could be taken, and for how long. */
	int64_t open;             /* Messages that are not dead. */
	int64_t dead;
} wh_facts;

enum { WH_WARNING_MAX = 800, WH_WARNINGS = 2 };

typedef struct wh_warned {
	char text[WH_WARNINGS][WH_WARNING_MAX];
	size_t n;
} wh_warned;

void wh_warn_of(wh_warned *out, const wh_facts *facts, const wh_relays *relays);

/* Print the warnings, or that all is well. */
void wh_print_warned(const wh_warned *warned, const char *well);

/* Append them as a list of JSON. */
void wh_put_warned(wh_buf *json, const wh_warned *warned);

#endif
