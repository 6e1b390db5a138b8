/*
 * Messages in flight: a destination has taken them and given no receipt yet.
 *
 * A destination's structure for such a message begins with a wh_flight, which is on one
 * list at a time.  The functions here allocate no memory and take no lock.
 */
#ifndef WH_PUBLISH_FLIGHT_H
#define WH_PUBLISH_FLIGHT_H

#include "publish/driver.h"

typedef struct wh_flight {
	struct wh_flight *prev, *next;
	const wherry_message *message; /* As it was submitted: the receipt names it. */

	/* The receipt, once the destination knows it; see wh_receipt. */
	wherry_verdict verdict;
	bool written, own, denied, held;
	int64_t retry_after_us;
	char *reason; /* In memory of the destination; NULL: there is none. */
} wh_flight;

/* A list, first in first out. */
typedef struct wh_flights {
	wh_flight *head, *tail;
	size_t n;
} wh_flights;

void wh_flights_append(wh_flights *list, wh_flight *f);
void wh_flights_remove(wh_flights *list, wh_flight *f);
wh_flight *wh_flights_pop(wh_flights *list); /* The first one, removed; NULL: none. */

/* Fill in the receipt of a message whose verdict is known. */
void wh_flight_receipt(const wh_flight *f, wh_receipt *out);

#endif
