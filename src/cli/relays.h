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
	bool failed; /* There was no memory for one. */
} wh_relays;

/* Clear it either way. */
wherry_code wh_relays_read(wh_store *store, wh_relays *out, wherry_error *err);
void wh_relays_clear(wh_relays *relays);

/* A relay that runs and whose destination refuses everything; NULL: there is none. */
const wh_holder *wh_relays_refused(const wh_relays *relays);

/* Append the relays, a line for each that runs. */
void wh_put_relays(wh_buf *text, const wh_relays *relays);

/* Append those that run as the field "relays" of a JSON object. */
void wh_put_relays_field(wh_buf *json, const wh_relays *relays);

#endif
