/*
 * Shared by commands that wait for a message and then take it.
 *
 * Wait and take in a loop: another consumer may be faster, or the message may be one that nobody
 * gets, and another one can still come in the time that is left.
 */
#ifndef WH_CLI_DEADLINE_H
#define WH_CLI_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct wh_deadline {
	int64_t end_us;  /* By the monotonic clock. */
	int64_t left_us; /* Time until then. */
} wh_deadline;

wh_deadline wh_deadline_in(int64_t us);

/* Call it when nothing could be taken.  Pauses, so that a message which others have locked costs
 * few statements, and sets left_us.  False: the time is over. */
bool wh_deadline_is_ahead(wh_deadline *deadline);

#endif
