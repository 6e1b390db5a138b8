/*
 * The outboxes of all schemas that match the pattern of one relay of wherry.yaml.
 */
#ifndef WH_DAEMON_MATCH_H
#define WH_DAEMON_MATCH_H

#include "daemon/daemon.h"
#include "daemon/match_look.h"

/* Start the thread of a set.  On success it takes over *relay and clears it. */
wherry_code wh_match_start(wh_plan_relay *relay, wh_daemon *d, int bell, wh_matches **out,
			   wherry_error *err);
/* Let at most so many relays of the set run at once. */
void wh_match_limit(wh_matches *m, size_t most);
void wh_match_stop(wh_matches *m); /* Only asks; does not wait. */
bool wh_match_ended(wh_matches *m);
void wh_match_free(wh_matches *m); /* Waits until it has ended. */

#endif
