/*
 * A publisher hands messages to a broker, a webhook, a command or this process.
 */
#ifndef WHERRY_PUBLISHER_H
#define WHERRY_PUBLISHER_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/config.h>
#include <wherry/error.h>
#include <wherry/message.h>

/* One destination.  One thread at a time. */
typedef struct wherry_publisher wherry_publisher;

/* What became of one message.  UNKNOWN is an answer, not an error.  No verdict has the value of
 * a wherry_code: a function that returns the one for the other is found out. */
typedef enum wherry_verdict {
	WHERRY_DELIVERED = 101, /* the destination took responsibility */
	WHERRY_RETRY,           /* not taken; the same bytes may succeed later */
	WHERRY_REJECTED,        /* never will be: a dead letter */
	WHERRY_THROTTLED,       /* not taken, and not the message's fault: later */
	WHERRY_UNKNOWN          /* no answer: sending again may duplicate it */
} wherry_verdict;

/**
 * Decides what the memory publisher answers for a message.
 *
 * @param reason  Room for at most reason_cap bytes of why.
 */
typedef wherry_verdict (*wherry_memory_fn)(void *ctx, const wherry_message *msg,
					   char *reason, size_t reason_cap);

WHERRY_BEGIN

/**
 * Open a destination.
 *
 * @param url     "stdout:", "file:PATH", "exec:COMMAND", "memory:" or "null:".  What
 *                needs a client library, such as "kafka://HOST", only the program has.
 * @param config  Settings; borrowed for the call, NULL for the defaults.
 * @param out     Receives the publisher; given, close with wherry_publisher_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (an unknown scheme: err names the nearest);
 *         WHERRY_DENIED, WHERRY_NOTFOUND, WHERRY_IO, WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_publisher_open(const char *url,
							     const wherry_config *config,
							     wherry_publisher **out,
							     wherry_error *err);

/** Close a destination; what is in flight is given up.  NULL is fine. */
WHERRY_API void wherry_publisher_close(wherry_publisher *publisher);

/* ---- memory: for tests of your own ---- */

/** Return how many messages a "memory:" publisher has delivered; 0 for another kind. */
WHERRY_API size_t wherry_memory_count(const wherry_publisher *publisher);

/** Return the i-th message delivered, NULL beyond the end.  Borrowed until close. */
WHERRY_API const wherry_message *wherry_memory_get(const wherry_publisher *publisher,
						   size_t i);

/** Let a function decide what becomes of each message; NULL delivers all. */
WHERRY_API void wherry_memory_answer(wherry_publisher *publisher, wherry_memory_fn answer,
				     void *ctx);

WHERRY_END

#endif
