/*
 * A publisher delivers messages to a destination: a broker, a webhook, a command or this process.
 * An application can implement a destination with wherry_publisher_driver.
 */
#ifndef WHERRY_PUBLISHER_H
#define WHERRY_PUBLISHER_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/config.h>
#include <wherry/error.h>
#include <wherry/message.h>

/* One open destination.  Use it from one thread at a time. */
typedef struct wherry_publisher wherry_publisher;

/* Result of delivering one message.  UNKNOWN is a verdict, not an error.  No verdict has the value
 * of a wherry_code, so Wherry detects a function that returns a code instead of a verdict. */
typedef enum wherry_verdict {
	/* The destination has taken responsibility for the message. */
	WHERRY_DELIVERED = 101,
	/* The destination did not take it; the same bytes may succeed later. */
	WHERRY_RETRY,
	/* The destination will never take it: it becomes a dead letter. */
	WHERRY_REJECTED,
	/* The destination takes none now; the message did not cause this. */
	WHERRY_THROTTLED,
	/* No answer came: sending the message again may duplicate it. */
	WHERRY_UNKNOWN
} wherry_verdict;

/**
 * Returns the verdict of the memory publisher on a message.
 *
 * @param reason  Buffer of reason_cap bytes for the reason, which ends in NUL.
 */
typedef wherry_verdict (*wherry_memory_fn)(void *ctx, const wherry_message *msg,
					   char *reason, size_t reason_cap);

/* ---- a destination of your own ---- */

#define WHERRY_PUBLISHER_VERSION 1 /* Version of wherry_publisher_driver. */

/*
 * Capability: after a message fails, the destination delivers none of the later messages of its key
 * that it has taken.  So a relay may submit several messages of a key.  Without this capability a
 * relay submits one message of each key at a time.
 */
#define WHERRY_PUBLISHER_ORDERED 1u

/* Result of deadline_us(): the destination waits for nothing. */
#define WHERRY_PUBLISHER_NEVER INT64_MAX

/* Result for one message that submit() has taken. */
typedef struct wherry_receipt {
	const wherry_message *message; /* The pointer that submit() was given. */
	wherry_verdict verdict;        /* Result for the message. */
	/* With RETRY and THROTTLED: least time until the next attempt, microseconds; 0:
	 * the relay decides. */
	int64_t retry_after_us;
	char reason[200]; /* Why it was not delivered: one line that ends in NUL. */
} wherry_receipt;

/*
 * A destination: a table of functions that a relay calls.
 *
 * Threads:   the relay calls all functions of one open destination from one thread at a time.
 *            Two relays may use two open destinations of one driver at the same time.
 * Blocking:  no function waits for the other side.  A function does what it can do now, and a
 *            later call does the rest: fd() and deadline_us() say when to make that call.
 *            open() may wait for a few seconds.
 * Errors:    a function returns WHERRY_OK, or another code after wherry_error_set(err, code,
 *            text).  An error concerns the whole destination: the relay closes it, opens it again
 *            later and delivers messages without a receipt again, as often as necessary.  A code
 *            whose remedy is FIX (wherry_code_remedy) ends the relay.  A failure of one message is
 *            a verdict in its receipt.
 * Ownership: `state` belongs to the driver.  Messages and all they point to are borrowed from
 *            submit() until their receipt is collected, or drop() or close() is called.
 */
typedef struct wherry_publisher_driver {
	unsigned version;      /* Set it to WHERRY_PUBLISHER_VERSION. */
	unsigned capabilities; /* 0, or WHERRY_PUBLISHER_ORDERED. */
	/* Scheme of the destination's URLs, such as "socket" in "socket:/run/x": a letter, then
	 * a-z, 0-9, '+', '-' and '.'. */
	const char *scheme;

	/* Settings of the destination, ended by a row whose key is NULL; NULL: none.  Each key
	 * begins with the scheme and a dot.  Read the values with wherry_config_get() and
	 * wherry_config_number(). */
	const wherry_setting *settings;

	/* Return the error that open() would return for a malformed `rest` or wrong settings, without
	 * connecting.  May be NULL. */
	wherry_code (*check)(const char *rest, const wherry_config *config,
			     wherry_error *err);

	/* Open the destination.  `rest` is the URL behind the colon; it and the settings are borrowed
	 * for the call.  On failure free everything, and leave *out_state unchanged. */
	wherry_code (*open)(const char *rest, const wherry_config *config,
			    void **out_state, wherry_error *err);

	/* Give up messages in flight, and free the state. */
	void (*close)(void *state);

	/* Take up to n messages, beginning with the first; n is at least 1.  Set *out_taken, which is
	 * 0 before the call, to the number taken; the relay reads it on failure too.  Messages that
	 * were not taken are offered again. */
	wherry_code (*submit)(void *state, const wherry_message *const *messages,
			      size_t n, size_t *out_taken, wherry_error *err);

	/* Fill in up to cap receipts, one for each message taken.  Set *out_n, which is 0 before the
	 * call, to their number.  An error means that no message in flight will get a receipt. */
	wherry_code (*collect)(void *state, wherry_receipt *out, size_t cap,
			       size_t *out_n, wherry_error *err);

	/* Forget the messages in flight, and continue to work, also after an error.  NULL: the driver
	 * keeps no message after an error. */
	void (*drop)(void *state);

	/* The relay is stopping: messages in flight should end soon.  The relay still collects their
	 * receipts.  May be NULL. */
	void (*cancel)(void *state);

	/* Return a descriptor to poll while messages are in flight, and set *out_events to POLLIN,
	 * POLLOUT or both; -1: there is none.  May be NULL: there is never one. */
	int (*fd)(void *state, short *out_events);

	/* Return the time by which to call collect(), in microseconds of CLOCK_MONOTONIC; 0: at once;
	 * WHERRY_PUBLISHER_NEVER: no message is in flight.  May be NULL: always NEVER. */
	int64_t (*deadline_us)(void *state);
} wherry_publisher_driver;

WHERRY_BEGIN

/**
 * Add a destination of the application to a set of settings.
 *
 * Relays and publishers that are opened with this set, or with a copy of it, accept URLs of its
 * scheme, for the destination and for relay.dead_letters.  The set accepts its settings.
 *
 * @param config  The set to change.
 * @param driver  The destination, usually a constant; borrowed until the set, and everything that
 *                was opened with it, is freed.
 * @param err     Details on failure, naming the member that is missing; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (a member is missing or wrong); WHERRY_UNSUPPORTED (the driver
 *         is for another version of Wherry); WHERRY_DUPLICATE (the scheme, or a setting, exists);
 *         WHERRY_NOMEM.  On failure nothing changed.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_publisher_register(
	wherry_config *config, const wherry_publisher_driver *driver, wherry_error *err);

/**
 * Open a destination.
 *
 * @param url     "stdout:", "file:PATH", "exec:COMMAND", "memory:", "null:", or a URL whose scheme
 *                was registered in config.  Destinations that need a client library, such as
 *                "kafka://HOST", exist in the program only.
 * @param config  Settings; borrowed for the call.  NULL: the defaults.
 * @param out     Receives the publisher; the caller closes it with wherry_publisher_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (an unknown scheme: err names the nearest);
 *         WHERRY_DENIED, WHERRY_NOTFOUND, WHERRY_IO, WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_publisher_open(const char *url,
							     const wherry_config *config,
							     wherry_publisher **out,
							     wherry_error *err);

/** Close a destination, and give up messages in flight.  NULL is allowed. */
WHERRY_API void wherry_publisher_close(wherry_publisher *publisher);

/* ---- memory: for your own tests ---- */

/** Return the number of messages that a "memory:" publisher has delivered; 0 for another kind. */
WHERRY_API size_t wherry_memory_count(const wherry_publisher *publisher);

/** Return the message at index i of those delivered; NULL beyond the end.  Borrowed until close. */
WHERRY_API const wherry_message *wherry_memory_get(const wherry_publisher *publisher,
						   size_t i);

/** Let a function return the verdict on each message; NULL: every message is delivered. */
WHERRY_API void wherry_memory_answer(wherry_publisher *publisher, wherry_memory_fn answer,
				     void *ctx);

WHERRY_END

#endif
