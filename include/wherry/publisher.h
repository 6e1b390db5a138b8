/*
 * A publisher hands messages to a broker, a webhook, a command or this process.  An application
 * can implement a destination: wherry_publisher_driver.
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

/* What became of one message.  UNKNOWN is a verdict, not an error.  No verdict has the
 * value of a wherry_code, so Wherry notices a function that returns a code instead of a
 * verdict. */
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

/* ---- a destination of your own ---- */

#define WHERRY_PUBLISHER_VERSION 1 /* of wherry_publisher_driver */

/*
 * Once a message fails, the destination delivers none of its key that it has taken already.  So
 * a relay may give it several messages of a key at once.  Without this a relay gives it one
 * message of each key at a time.
 */
#define WHERRY_PUBLISHER_ORDERED 1u

/* deadline_us(): there is nothing to wait for. */
#define WHERRY_PUBLISHER_NEVER INT64_MAX

/* What became of one message that was taken. */
typedef struct wherry_receipt {
	const wherry_message *message; /* the pointer that submit() was given */
	wherry_verdict verdict;
	int64_t retry_after_us; /* RETRY, THROTTLED: not before this has passed; 0: no wish */
	char reason[200];       /* why it was not delivered: one line, ends in NUL */
} wherry_receipt;

/*
 * A destination: a table of functions that a relay calls.
 *
 * Threads:   all functions of one open destination are called from one thread at a time, that
 *            of its relay.  Two relays may use two open destinations of one driver at once.
 * Blocking:  no function waits for the other side.  What cannot be done now is done by a later
 *            call: fd() and deadline_us() say when that call makes sense.  open() may wait for
 *            a few seconds.
 * Errors:    a function returns WHERRY_OK, or another code after wherry_error_set(err, code,
 *            text).  An error is the destination's: the relay closes it, opens it again later
 *            and delivers again what had no receipt, as often as necessary.  A code whose remedy
 *            is FIX (wherry_code_remedy) ends the relay.  A fault of one message is a verdict
 *            in its receipt.
 * Ownership: `state` belongs to the driver.  Messages and all they point to are borrowed from
 *            submit() until their receipt is collected, or drop() or close() is called.
 */
typedef struct wherry_publisher_driver {
	unsigned version;      /* WHERRY_PUBLISHER_VERSION */
	unsigned capabilities; /* 0, or WHERRY_PUBLISHER_ORDERED */
	const char *
		scheme; /* of its URLs, "socket" of "socket:/run/x"; a-z, 0-9, '+', '-' and
			       '.', a letter first */

	/* Its settings, ended by a row whose key is NULL; each key begins with the scheme and a
	 * dot.  Read them with wherry_config_get() and wherry_config_number().  NULL: none. */
	const wherry_setting *settings;

	/* Refuse what open() would refuse, without going there.  May be NULL. */
	wherry_code (*check)(const char *rest, const wherry_config *config,
			     wherry_error *err);

	/* Open what `rest`, the URL behind the colon, names.  Both arguments are borrowed for
	 * the call.  On failure leave *out_state alone and nothing behind. */
	wherry_code (*open)(const char *rest, const wherry_config *config,
			    void **out_state, wherry_error *err);

	/* Give up what is in flight and free the state. */
	void (*close)(void *state);

	/* Take up to n messages, from the first on.  *out_taken says how many; it is 0 before the
	 * call, and counts on failure too.  Taking none is fine: they are offered again.  It is
	 * not called with none. */
	wherry_code (*submit)(void *state, const wherry_message *const *messages,
			      size_t n, size_t *out_taken, wherry_error *err);

	/* Fill in up to cap receipts, one for each message taken; *out_n says how many, and is 0
	 * before the call.  An error means that nothing in flight will get a receipt. */
	wherry_code (*collect)(void *state, wherry_receipt *out, size_t cap,
			       size_t *out_n, wherry_error *err);

	/* Forget what is in flight, and work on, also after an error.  NULL: the driver keeps
	 * nothing after an error. */
	void (*drop)(void *state);

	/* The relay stops: what is in flight should end soon.  Its receipts are collected.  May
	 * be NULL. */
	void (*cancel)(void *state);

	/* A descriptor to poll while something is in flight, and in *out_events POLLIN, POLLOUT
	 * or both; -1 when there is none.  May be NULL: never one. */
	int (*fd)(void *state, short *out_events);

	/* When to call collect() at the latest, in microseconds of CLOCK_MONOTONIC; 0: at once;
	 * WHERRY_PUBLISHER_NEVER when nothing is in flight.  May be NULL: always NEVER. */
	int64_t (*deadline_us)(void *state);
} wherry_publisher_driver;

WHERRY_BEGIN

/**
 * Add a destination of the application's to a set of settings.
 *
 * Relays and publishers that are opened with this set, or with a copy of it, know its scheme:
 * as the destination, and as relay.dead_letters.  The set knows its settings from now on.
 *
 * @param config  The set to change.
 * @param driver  Borrowed until the set, and all that was opened with it, is gone: a constant.
 * @param err     Details on failure, naming what is missing; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (something is missing or makes no sense); WHERRY_UNSUPPORTED
 *         (made for another version of Wherry); WHERRY_DUPLICATE (the scheme, or a setting, is
 *         taken); WHERRY_NOMEM.  On failure nothing changed.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_publisher_register(
	wherry_config *config, const wherry_publisher_driver *driver, wherry_error *err);

/**
 * Open a destination.
 *
 * @param url     "stdout:", "file:PATH", "exec:COMMAND", "memory:", "null:", or one that was
 *                registered in config.  Destinations that need a client library, such as
 *                "kafka://HOST", are in the program only.
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
