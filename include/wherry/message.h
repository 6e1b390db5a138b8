/*
 * A message: what an outbox holds and a publisher delivers.
 */
#ifndef WHERRY_MESSAGE_H
#define WHERRY_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/error.h>
#include <wherry/export.h>

/* State of a message.  The numbers are the values of the column `status`. */
typedef enum wherry_state {
	WHERRY_PENDING = 0, /* It waits to be delivered. */
	/* A relay has claimed it, or tries it alone after a crash. */
	WHERRY_PROCESSING = 1,
	WHERRY_DONE = 2,   /* It was delivered. */
	WHERRY_FAILED = 3, /* It will be retried at next_retry_at. */
	WHERRY_DEAD = 4    /* It needs a person; see wherry_outbox_retry(). */
} wherry_state;

#define WHERRY_STATE_COUNT 5

/*
 * Value of body_len for a message to enqueue or send: the body is text that ends in NUL.  It is
 * not -1, since that may be the result of a call that failed: -1 is refused.
 */
#define WHERRY_TEXT (SIZE_MAX / 2 + 1)

/*
 * A message.  All strings are UTF-8 and end in NUL; NULL: absent.  Start from
 * WHERRY_MESSAGE(...) or wherry_message_init(), so that `size` is set.
 *
 * The ordering key is `key`, or the pair (aggregate_type, aggregate_id) if `key` is empty.  If
 * all three are empty, the message is not ordered.  The key that a broker gets is `key`, or
 * aggregate_id if `key` is empty.
 */
typedef struct wherry_message {
	size_t size;                /* Set it to sizeof(wherry_message). */
	const char *message_id;     /* At most 255 bytes; NULL: enqueue makes a UUIDv7. */
	const char *topic;          /* Required; at most 255 bytes. */
	const char *aggregate_type; /* At most 255 bytes; NULL: "". */
	const char *aggregate_id;   /* At most 255 bytes; NULL: "". */
	/* Explicit ordering key, at most 1024 bytes; NULL: the aggregate orders. */
	const char *key;
	const char *headers;  /* JSON object of strings; NULL: "{}". */
	const char *trace_id; /* At most 255 bytes; NULL: none. */
	/* Any bytes; may be NULL if body_len is 0.  In a message that a relay delivers, a
	 * NUL byte follows that body_len does not count; it is NULL if the payload column
	 * is, which few layouts allow. */
	const void *body;
	/* Length in bytes, or WHERRY_TEXT; 0: an empty body, `body` is not read. */
	size_t body_len;

	/* Set in messages that were read; ignored by enqueue. */
	int64_t id;            /* Number of the message in the outbox. */
	int64_t created_at_us; /* When it was enqueued, Unix time, microseconds. */
	int32_t attempts;      /* Attempts that have failed so far. */
} wherry_message;

/* In C: WHERRY_MESSAGE(.topic = "orders", .body = "{}", .body_len = WHERRY_TEXT). */
#define WHERRY_MESSAGE(...) WHERRY_SIZED(wherry_message, __VA_ARGS__)

WHERRY_BEGIN

/** Set the size of *msg, and its other members to absent; for C++ and for plain structs. */
WHERRY_API void wherry_message_init(wherry_message *msg);

/**
 * Add a header to the JSON text that wherry_message.headers takes.
 *
 * @param headers  *headers is NULL at first, or the text that an earlier call wrote there.  It
 *                 receives the longer text; the caller frees it with free() after the enqueue.
 * @param name     Name of the header, UTF-8; copied and escaped.
 * @param value    Value of the header, UTF-8; copied and escaped.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (no name or value, or not UTF-8; *headers is not such a text);
 *         WHERRY_DUPLICATE (a header of this name is in the text); WHERRY_NOMEM.  On failure
 *         *headers is unchanged.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_headers_add(char **headers,
							  const char *name,
							  const char *value,
							  wherry_error *err);

/** Return a state's name: pending, processing, done, failed or dead.  The text is static. */
WHERRY_API const char *wherry_state_name(wherry_state state);

WHERRY_END

#endif
