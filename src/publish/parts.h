/*
 * Small parts that several destinations share.
 */
#ifndef WH_PUBLISH_PARTS_H
#define WH_PUBLISH_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "publish/driver.h"

/* ---- messages in flight, first in first out ---- */

typedef struct wh_pending_item {
	const wherry_message *message;
	uint64_t mark; /* For the driver: a position in its stream, or a number. */
	bool refused;  /* Malformed: its receipt is REJECTED. */
} wh_pending_item;

typedef struct wh_pending {
	wh_pending_item *items; /* A ring buffer. */
	size_t cap;             /* A power of two, or 0. */
	size_t head;
	size_t n;
} wh_pending;

#define WH_PENDING_INIT                                                                  \
	{                                                                                \
		NULL, 0, 0, 0                                                            \
	}

/* Make room for one more item, so that the next push cannot fail.  False: out of
 * memory. */
bool wh_pending_reserve(wh_pending *pending);
void wh_pending_push(wh_pending *pending, wh_pending_item item);
const wh_pending_item *wh_pending_first(const wh_pending *pending); /* NULL: empty */
void wh_pending_pop(wh_pending *pending);
void wh_pending_drop(wh_pending *pending); /* Drops all items, keeps the memory. */
void wh_pending_clear(wh_pending *pending);

/* ---- parts of a message that every destination names in the same way ---- */

/* The key for a broker: the message's key, else its aggregate_id, else NULL. 
 * Borrowed. */
const char *wh_message_key(const wherry_message *msg);

/* The headers as JSON; "{}": there are none.  Borrowed. */
const char *wh_message_headers(const wherry_message *msg);

/* A hash of the ordering key; 0: the message has none.  Two keys may have the same
 * hash. */
uint64_t wh_message_key_hash(const wherry_message *msg);

enum { WH_TRACEPARENT_LEN = 56 };

/*
 * Write the W3C traceparent of a message.  Its trace_id is either a traceparent, or a
 * trace id of 32 digits.  In the second case the parent is made from the message id.
 * False: the message has none.
 */
bool wh_traceparent(const wherry_message *msg, char out[WH_TRACEPARENT_LEN]);

/* A part of a template such as "orders.{key}". */
typedef enum wh_part {
	WH_PART_TEXT,
	WH_PART_TOPIC,
	WH_PART_KEY,
	WH_PART_UNKNOWN
} wh_part;

/* Append text as CloudEvents' bindings to HTTP and NATS have it: characters that are not visible
 * ASCII, and '"' and '%', are percent-encoded. */
void wh_put_percent(wh_buf *out, const char *value);

/* Percent-decode a part of the URL of a destination with this scheme, such as a user.  *out is replaced
 * and freed; the caller frees the new text.  INVALID: badly encoded; NOMEM. */
wherry_code wh_decode_part(const char *scheme, const char *text, size_t len, char **out,
			   wherry_error *err);

/* Returns what begins at *at, {topic}, {key}, another '{', or one byte of text, and moves *at
 * behind it. */
wh_part wh_template_part(const char **at);

/* May the value of a parameter, such as "env:NAME" and "file:PATH", be read?  The list has
 * beginnings, with commas between them. */
bool wh_may_read(const char *list, const char *value);

/* How long one delivery may take, in microseconds. */
int64_t wh_delivery_limit(const wherry_config *config);

#define WH_TIME_LEN 40

/* "2026-03-01T12:00:00.123Z" */
void wh_time_print(int64_t unix_us, char out[WH_TIME_LEN]);

/* Fill in a receipt.  reason may be NULL; it is cut to fit, and becomes one line of valid
 * UTF-8. */
void wh_receipt_fill(wh_receipt *out, const wherry_message *msg, wherry_verdict verdict,
		     const char *reason);

/*
 * Write what a server answered between Wherry's words: "BEFORE: ANSWER; ADVICE".
 *
 * before and advice stand whole.  The answer gets the room that they leave: a longer one is cut and ends
 * in "…".  Control characters in it become blanks, and a blank or a full stop at its end is left out.
 *
 * @param before  "" or NULL: the answer begins.
 * @param advice  "" or NULL: the answer ends.
 */
void wh_put_answer(char *out, size_t cap, const char *before, const char *answer,
		   const char *advice);

/* The same as an error.  native: the number that the client library or the server gave it; 0: none. */
wherry_code wh_fail_answer(wherry_error *err, wherry_code code, int native,
			   const char *before, const char *answer, const char *advice);

/* As in base/error.h. */
#if defined(__clang_analyzer__) && !defined(WH_PUBLISH_PARTS_C)
#define wh_fail_answer(err, code, ...)                                                   \
	((void)wh_fail_answer(err, code, __VA_ARGS__), (code))
#endif

/* The last advice about a message that is too large for its destination. */
#define WH_OR_BODY_STORE                                                                 \
	"or keep large bodies apart: relay.body_store=file:/FOLDER, and "                \
	"relay.body_store_above"

/*
 * write() that raises no SIGPIPE.  errno is set as write() sets it.
 *
 * A library must not kill the application because a reader is gone, and must not change
 * how the whole process handles signals.  So the function blocks SIGPIPE in this thread
 * during the call, and removes the signal if the call raised it.
 */
ssize_t wh_quiet_write(int fd, const void *data, size_t len);

#endif
