/*
 * Events for the application's hook; see wherry_relay_hook().
 */
#ifndef WH_RELAY_HOOKS_H
#define WH_RELAY_HOOKS_H

#include "relay/relay.h"

void wh_hook_claimed(wherry_relay *r, int64_t n);
void wh_hook_settled(wherry_relay *r, wherry_event_kind kind, const wh_entry *e);
void wh_hook_error(wherry_relay *r, wherry_code code, const char *text);

/* A statement worked.  If earlier ones failed, log that the trouble is over. */
void wh_hook_database_works(wherry_relay *r);

/* Is the calling thread the one that the hook runs on? */
bool wh_hooks_inside(const wherry_relay *r);

/* Pass on the waiting events for at most wait_us, then end the thread.  h may be NULL. */
void wh_hooks_close(wh_hooks *h, int64_t wait_us);

#endif
