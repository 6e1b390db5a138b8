/*
 * A message: what an outbox holds and a publisher delivers.
 */
#ifndef WHERRY_MESSAGE_H
#define WHERRY_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/error.h>
#include <wherry/export.h>

/* Where a message stands.  The numbers are the values of the status column. */
typedef enum wherry_state {
	WHERRY_PENDING = 0,    /* waits to be delivered */
	WHERRY_PROCESSING = 1, /* claimed, or tried alone after a crash */
	WHERRY_DONE = 2,       /* delivered */
	WHERRY_FAILED = 3,     /* will be retried at next_retry_at */
	WHERRY_DEAD = 4        /* needs a person; see wherry_outbox_retry */
} wherry_state;

#define WHERRY_STATE_COUNT 5

/*
 * As the body_len of a message to enqueue or send: the body is text that ends in NUL.  It is
 * not -1, which is refused: that may be the result of a call that failed.
 */
#define WHERRY_TEXT (SIZE_MAX / 2 + 1)

/*
 * All strings are UTF-8 and end in NUL; NULL counts as absent.  Start from
 * WHERRY_MESSAGE(...) or wherry_message_init(), so that `size` is set.
 *
 * Ordering key: `key`, else the pair (aggregate_type, aggregate_id); with all three
 * empty the message is not ordered.  The key sent to a broker is `key`, else
 * aggregate_id.
 */
typedef struct wherry_message {
	size_t size;                /* sizeof(wherry_message), so that it can grow */
	const char *message_id;     /* at most 255 bytes; NULL: a UUIDv7 is made */
	const char *topic;          /* required, at most 255 bytes */
	const char *aggregate_type; /* "" by default, at most 255 bytes */
	const char *aggregate_id;   /* "" by default, at most 255 bytes */
	const char *key;            /* explicit ordering key, at most 1024 bytes */
	const char *headers;        /* JSON object of strings, "{}" by default */
	const char *trace_id;       /* at most 255 bytes */
	const void *body; /* any bytes; may be NULL if body_len is 0.  In a message that a
			     relay delivers a NUL byte follows, which body_len leaves out; it
			     is NULL if the payload is, which few layouts allow */
	size_t body_len; /* bytes, or WHERRY_TEXT; 0: an empty body, `body` is not read */

	/* Filled in for messages that were read; ignored by enqueue. */
	int64_t id;            /* its place in the outbox */
	int64_t created_at_us; /* Unix time, microseconds */
	int32_t attempts;      /* attempts that failed so far */
	int32_t generation;    /* 0; one more with each replay */
} wherry_message;

/* WHERRY_MESSAGE(.topic = "orders", .body = "{}", .body_len = WHERRY_TEXT), in C */
#define WHERRY_MESSAGE(...) WHERRY_SIZED(wherry_message, __VA_ARGS__)

WHERRY_BEGIN

/** Set every field of *msg to absent and its size; for C++ and for plain structs. */
WHERRY_API void wherry_message_init(wherry_message *msg);

/**
 * Add a header to the JSON text that wherry_message.headers takes.
 *
 * @param headers  NULL at *headers begins an empty set; else text that an earlier call made.
 *                 Receives the longer text: given, free() it after the message is enqueued.
 * @param name     UTF-8; copied and escaped.
 * @param value    As name.
 * @param err      Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (no name or value, or not UTF-8; *headers is not such a text);
 *         WHERRY_DUPLICATE (the name is there already); WHERRY_NOMEM.  On failure *headers is
 *         unchanged.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_headers_add(char **headers,
							  const char *name,
							  const char *value,
							  wherry_error *err);

/** Return a state's name: pending, processing, done, failed or dead.  Static. */
WHERRY_API const char *wherry_state_name(wherry_state state);

WHERRY_END

#endif
