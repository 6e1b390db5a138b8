/*
 * The relay moves messages from an outbox to a publisher, in order per key.  It
 * delivers every message that was committed, and no message that was rolled back.
 * docs/guide/guarantees.md says when it delivers a message again.
 */
#ifndef WHERRY_RELAY_H
#define WHERRY_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/config.h>
#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/log.h>
#include <wherry/publisher.h>

/* One relay.  Use it from one thread at a time, except wherry_relay_stop() and
 * wherry_relay_get_stats(). */
typedef struct wherry_relay wherry_relay;

/* Flags of wherry_relay_run() and wherry_relay_target(). */
enum {
	WHERRY_UNTIL_EMPTY =
		1 /* End when no message that existed at the start is open. */
};

/* Most descriptors that a relay waits for. */
enum { WHERRY_RELAY_FDS = 5 };

struct pollfd; /* poll.h */

/* Says how a run ended. */
typedef enum wherry_outcome {
	WHERRY_STOPPED, /* wherry_relay_stop() was called. */
	WHERRY_EMPTY,   /* With WHERRY_UNTIL_EMPTY: every message was delivered. */
	/* With WHERRY_UNTIL_EMPTY: none is open, but messages died in this run. */
	WHERRY_DEATHS,
	/* With WHERRY_UNTIL_EMPTY: only messages behind a parked key are left. */
	WHERRY_PARKED,
	WHERRY_TIMEDOUT /* With WHERRY_UNTIL_EMPTY: relay.timeout passed. */
} wherry_outcome;

/* Number of classes of the time from a message's creation to its delivery. */
enum { WHERRY_LATENCY_CLASSES = 17 };

/* Statistics of a relay.  Later versions add members at the end. */
typedef struct wherry_relay_stats {
	int64_t delivered; /* Messages delivered since the relay was opened. */
	int64_t retried;   /* Failed attempts whose message will be tried again. */
	int64_t dead;      /* Messages that became dead. */
	/* Acknowledgements that were refused because the lease was lost. */
	int64_t stale;
	/* Messages submitted to the destination, without a receipt yet. */
	int64_t in_flight;
	int64_t window;      /* Messages in memory. */
	int64_t held_keys;   /* Keys behind a failed message. */
	int64_t parked_keys; /* Keys behind a dead message. */
	/* Epoch of the lease that the relay holds; 0: it holds none. */
	int64_t epoch;
	int64_t suspects; /* Suspects that the relay still has to try one at a time. */
	/* Sum over delivered messages of the time from creation, by the database's clock,
	 * to delivery, by the relay's clock, microseconds. */
	int64_t latency_us;
	/* Messages by class of that time; class i ends at wherry_latency_bound(i). */
	int64_t latency[WHERRY_LATENCY_CLASSES];
	int64_t errors[WHERRY_CODE_ROOM]; /* Failures by code. */
	bool paused;                      /* The outbox is paused. */
	/* The destination is down, and the relay probes it. */
	bool down;
	int64_t refused; /* Failures that did not count as an attempt. */
} wherry_relay_stats;

/* Kinds of events that a relay reports. */
typedef enum wherry_event_kind {
	WHERRY_ON_CLAIMED, /* Messages were read or claimed. */
	/* A message was delivered, and the database has recorded it. */
	WHERRY_ON_DELIVERED,
	/* An attempt failed, the database has recorded it, and the relay will try
	 * again. */
	WHERRY_ON_FAILED,
	WHERRY_ON_DEAD, /* A message became dead, and the database has recorded it. */
	WHERRY_ON_ERROR /* The destination is down, or the database fails. */
} wherry_event_kind;

/* One event; members that do not belong to its kind are 0, "" or NULL. */
typedef struct wherry_event {
	size_t size;            /* Set it to sizeof(wherry_event). */
	wherry_event_kind kind; /* Kind of the event. */
	/* Code of an error; WHERRY_CLOSED: the destination is down. */
	wherry_code code;
	int64_t at_us; /* When it happened, Unix time, microseconds. */
	/* Events before this one that were lost because the hook was too slow. */
	int64_t lost;
	int64_t n;              /* Number of messages claimed. */
	int64_t id;             /* Id of the message. */
	const char *message_id; /* Message_id of the message. */
	const char *topic;      /* Topic of the message. */
	/* Key of the message, or its aggregate_id if it has none; NULL: neither. */
	const char *key;
	int32_t attempts;    /* Failed attempts of the message, this one included. */
	int64_t retry_in_us; /* Time until the message is tried again, microseconds. */
	const char *text;    /* Why the attempt failed, or what is wrong. */
} wherry_event;

/* Called for an event, which is borrowed for the call with all that it points to. */
typedef void (*wherry_hook_fn)(void *ctx, const wherry_event *event);

WHERRY_BEGIN

/**
 * Open a relay with its own connection and publisher.
 *
 * @param from    URL of a table, such as "sqlite:shop.db#jobs", or of a database, such as
 *                "sqlite:shop.db": then the setting relay.table names the table.
 * @param to      URL of the destination, such as "stdout:".
 * @param config  Settings; borrowed for the call.  NULL: the defaults.
 * @param out     Receives the relay; the caller closes it with wherry_relay_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK, or any code of wherry_db_open(), wherry_outbox_open() and
 *         wherry_publisher_open().
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_open(const char *from, const char *to,
							 const wherry_config *config,
							 wherry_relay **out,
							 wherry_error *err);

/**
 * Open a relay on the caller's connection and publisher.
 *
 * While the application has a transaction open on a borrowed connection, steps of the relay fail.
 *
 * @param db         Connection; borrowed until wherry_relay_close().
 * @param publisher  Destination; borrowed until wherry_relay_close().
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_open_on(wherry_db *db,
							    wherry_publisher *publisher,
							    const wherry_config *config,
							    wherry_relay **out,
							    wherry_error *err);

/**
 * Receive the relay's log records.
 *
 * The setting log.level sets the least severity of the records.  Events while the relay is opened
 * are not logged; the error of that call contains them.
 *
 * @param log  Called for each record, on the thread that steps the relay or on a thread of its
 *             publisher; see wherry_log_fn.  NULL, the default: log nothing.
 * @param ctx  First argument of `log`; borrowed until wherry_relay_close().
 */
WHERRY_API void wherry_relay_log(wherry_relay *relay, wherry_log_fn log, void *ctx);

/**
 * Call a function for each event of the relay.
 *
 * It is called on a separate thread, for one event at a time.  The relay does not wait for it: some
 * thousands of events are kept until the function can take them, and wherry_event.lost counts those
 * that were not kept.  It may call wherry_relay_stop().  If it steps, runs or closes its relay, that
 * call returns WHERRY_INVALID, or is ignored.
 *
 * @param kinds  Kinds of events: bits 1 << wherry_event_kind; 0: all.
 * @param hook   The function; one per relay.  wherry_relay_close() waits for at most
 *               relay.stop_timeout until it has taken the events that are kept.
 * @param ctx    First argument of `hook`.
 * @param err    Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (the relay has a hook); WHERRY_BUSY (no thread can be
 *         started); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_hook(wherry_relay *relay,
							 unsigned kinds,
							 wherry_hook_fn hook, void *ctx,
							 wherry_error *err);

/**
 * Run until wherry_relay_stop() is called, or as the flags say.  Before it returns, the relay waits
 * for messages in flight, for at most relay.stop_timeout, and gives its lease back.
 *
 * @param flags        0 or WHERRY_UNTIL_EMPTY.
 * @param out_outcome  Receives how the run ended; may be NULL.
 * @return WHERRY_OK; the first error whose remedy is FIX, such as a table that does not exist.  After
 *         any other error the relay waits and tries again.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_run(wherry_relay *relay,
							unsigned flags,
							wherry_outcome *out_outcome,
							wherry_error *err);

/** Ask the relay to finish.  Threads: any; may be called in a signal handler. */
WHERRY_API void wherry_relay_stop(wherry_relay *relay);

/**
 * Do all work that needs no waiting; for programs with their own loop.
 *
 * @param out_wake_us   Receives the time of the next step, by wherry_relay_clock().  Step earlier
 *                      if a descriptor is ready.
 * @param out_finished  Receives true if the relay has stopped, or is empty and
 *                      wherry_relay_target() has asked for that.
 * @return The codes of wherry_relay_run(); WHERRY_INVALID if a transaction is open on the
 *         connection.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_step(wherry_relay *relay,
							 int64_t *out_wake_us,
							 bool *out_finished,
							 wherry_error *err);

/** Wait until the time of the next step, wake_us, until a descriptor of the relay is ready, or
 *  until wherry_relay_stop() is called. */
WHERRY_API void wherry_relay_wait(wherry_relay *relay, int64_t wake_us);

/**
 * Get the descriptors that wherry_relay_wait() polls, for a loop that also waits for others.  Call
 * this after each step, since steps open and close descriptors.
 *
 * @param out  Receives up to WHERRY_RELAY_FDS entries; see poll(2).
 * @return The number of entries.
 */
WHERRY_API size_t wherry_relay_fds(wherry_relay *relay, struct pollfd *out);

/** Set the flags of wherry_relay_run() for a program that calls wherry_relay_step(). */
WHERRY_API void wherry_relay_target(wherry_relay *relay, unsigned flags);

/** Return how the relay ended; only valid after it has finished. */
WHERRY_API wherry_outcome wherry_relay_outcome(const wherry_relay *relay);

/** Return the time of the relay's monotonic clock, in microseconds, which out_wake_us refers to. */
WHERRY_API int64_t wherry_relay_clock(const wherry_relay *relay);

/**
 * Return the upper bound of class i of wherry_relay_stats.latency, in microseconds; INT64_MAX
 * for the last class and for numbers beyond it.
 */
WHERRY_API int64_t wherry_latency_bound(int i);

/**
 * Read the relay's statistics at the end of its last step.
 *
 * @param size  sizeof(*out); members beyond it, which later versions add, are not written.
 *
 * Threads: any, while the relay is open.  Blocks: for the time of a copy.
 */
WHERRY_API void wherry_relay_get_stats(wherry_relay *relay, wherry_relay_stats *out,
				       size_t size);

/** Close a relay, and give its lease back if no message is in flight.  NULL is allowed. */
WHERRY_API void wherry_relay_close(wherry_relay *relay);

WHERRY_END

#endif
