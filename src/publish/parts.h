/*
 * Small parts that several destinations are made of.
 */
#ifndef WH_PUBLISH_PARTS_H
#define WH_PUBLISH_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "publish/driver.h"

/* ---- messages taken and not yet answered, first in first out ---- */

typedef struct wh_pending_item {
	const wherry_message *message;
	uint64_t mark; /* the driver's: a place in its stream, a number */
	bool refused;  /* malformed: its receipt is REJECTED */
} wh_pending_item;

typedef struct wh_pending {
	wh_pending_item *items; /* a ring */
	size_t cap;             /* a power of two, or 0 */
	size_t head;
	size_t n;
} wh_pending;

#define WH_PENDING_INIT                                                                  \
	{                                                                                \
		NULL, 0, 0, 0                                                            \
	}

/* Make room for one more, so that the push cannot fail; false: out of memory. */
bool wh_pending_reserve(wh_pending *pending);
void wh_pending_push(wh_pending *pending, wh_pending_item item);
const wh_pending_item *wh_pending_first(const wh_pending *pending); /* NULL: empty */
void wh_pending_pop(wh_pending *pending);
void wh_pending_drop(wh_pending *pending); /* all items, not the memory */
void wh_pending_clear(wh_pending *pending);

/* ---- parts of a message that every destination names in the same way ---- */

/* The key a broker gets: the explicit one, else aggregate_id, else NULL.  Borrowed. */
const char *wh_message_key(const wherry_message *msg);

/* The headers, "{}" if there are none.  Borrowed. */
const char *wh_message_headers(const wherry_message *msg);

/* A number for its ordering key; 0: not ordered.  Keys may collide. */
uint64_t wh_message_key_hash(const wherry_message *msg);

/* How long one delivery may take, microseconds. */
int64_t wh_delivery_limit(const wherry_config *config);

#define WH_TIME_LEN 40

/* "2026-03-01T12:00:00.123Z" */
void wh_time_print(int64_t unix_us, char out[WH_TIME_LEN]);

/* Fill in a receipt; reason may be NULL, is cut to fit and made one line of UTF-8. */
void wh_receipt_fill(wh_receipt *out, const wherry_message *msg, wherry_verdict verdict,
		     const char *reason);

/*
 * write() that raises no SIGPIPE, with errno as write() sets it.
 *
 * A library must neither kill the application because a reader went away nor change its
 * handling of signals, which belongs to the whole process.  So the signal is blocked in
 * this thread for the call, and taken back if the call raised it.
 */
ssize_t wh_quiet_write(int fd, const void *data, size_t len);

#endif
