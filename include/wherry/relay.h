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

/* One relay.  One thread at a time, except wherry_relay_stop(). */
typedef struct wherry_relay wherry_relay;

/* Flags of wherry_relay_run() and wherry_relay_target(). */
enum {
	WHERRY_UNTIL_EMPTY = 1 /* end when nothing that was there at the start is open */
};

/* How many descriptors a relay waits for, at most. */
enum { WHERRY_RELAY_FDS = 5 };

struct pollfd; /* of poll.h */

/* How a run ended. */
typedef enum wherry_outcome {
	WHERRY_STOPPED, /* asked to */
	WHERRY_EMPTY,   /* until-empty: all was delivered */
	WHERRY_DEATHS,  /* until-empty: empty, but messages died in this run */
	WHERRY_PARKED,  /* until-empty: only messages behind a parked key are left */
	WHERRY_TIMEDOUT /* until-empty: relay.timeout passed */
} wherry_outcome;

/* Classes of the time from a message's creation to its delivery. */
enum { WHERRY_LATENCY_CLASSES = 17 };

/* What a relay did and does.  Later versions add members at the end. */
typedef struct wherry_relay_stats {
	int64_t delivered;   /* messages delivered since it was opened */
	int64_t retried;     /* failures that will be tried again */
	int64_t dead;        /* messages given up */
	int64_t stale;       /* acknowledgements refused: the lease was lost */
	int64_t in_flight;   /* handed over, no receipt yet */
	int64_t window;      /* messages in memory */
	int64_t held_keys;   /* keys behind a failed message */
	int64_t parked_keys; /* keys behind a dead message */
	int64_t epoch;       /* of its lease; 0 while it holds none */
	int64_t suspects;    /* messages still to be tried one at a time */
	int64_t latency_us;  /* sum over delivered messages of the time from creation, by
				the database's clock, to delivery, by the relay's clock */
	int64_t latency[WHERRY_LATENCY_CLASSES]; /* how many took up to
						    wherry_latency_bound(i) */
	int64_t errors[WHERRY_CODE_ROOM];        /* what failed, by code */
	bool paused;
	bool down;       /* the destination is down: probing */
	int64_t refused; /* failures that counted as no attempt */
} wherry_relay_stats;

/* What a relay reports. */
typedef enum wherry_event_kind {
	WHERRY_ON_CLAIMED,   /* messages were read, or claimed */
	WHERRY_ON_DELIVERED, /* one was delivered, and that is written */
	WHERRY_ON_FAILED,    /* one was not, which is written, and is tried again */
	WHERRY_ON_DEAD,      /* one was given up, which is written */
	WHERRY_ON_ERROR      /* the destination is down, or the database in trouble */
} wherry_event_kind;

/* One thing that happened; what does not belong to its kind is 0, "" or NULL. */
typedef struct wherry_event {
	size_t size; /* sizeof(wherry_event), so that it can grow */
	wherry_event_kind kind;
	wherry_code code; /* of an error; WHERRY_CLOSED: the destination is down */
	int64_t at_us;    /* Unix time, microseconds */
	int64_t lost;     /* events before this one that were lost */
	int64_t n;        /* messages claimed */
	int64_t id;       /* the message's; and what follows */
	const char *message_id;
	const char *topic;
	const char *key;     /* else its aggregate_id; NULL if neither */
	int32_t attempts;    /* that failed, this one included */
	int64_t retry_in_us; /* until it is tried again */
	const char *text;    /* why it failed; what is wrong */
} wherry_event;

/* Everything it is given is borrowed for the call. */
typedef void (*wherry_hook_fn)(void *ctx, const wherry_event *event);

WHERRY_BEGIN

/**
 * Open a relay with its own connection and publisher.
 *
 * @param from    The database, "sqlite:shop.db", or a table of it, "sqlite:shop.db#jobs"; else
 *                the setting relay.table names the table.
 * @param to      The destination, "stdout:".
 * @param config  Settings; borrowed for the call, NULL for the defaults.
 * @param out     Receives the relay; given, close with wherry_relay_close().
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK, or what wherry_db_open(), wherry_outbox_open() and
 *         wherry_publisher_open() return.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_open(const char *from, const char *to,
							 const wherry_config *config,
							 wherry_relay **out,
							 wherry_error *err);

/**
 * Open a relay on a connection and a publisher of the caller's.
 *
 * On a borrowed connection it refuses to step while a transaction is open.
 *
 * @param db         Borrowed until wherry_relay_close().
 * @param publisher  As the connection.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_open_on(wherry_db *db,
							    wherry_publisher *publisher,
							    const wherry_config *config,
							    wherry_relay **out,
							    wherry_error *err);

/**
 * Receive the relay's log records.
 *
 * The setting log.level says which: events that are less severe are not handed over.  Events
 * while the relay is opened are not logged; the error contains them.
 *
 * @param log  Called for each record, on the thread that steps the relay or on a thread of
 *             its publisher; see wherry_log_fn.  NULL, the default: log nothing.
 * @param ctx  Handed to it; borrowed until wherry_relay_close().
 */
WHERRY_API void wherry_relay_log(wherry_relay *relay, wherry_log_fn log, void *ctx);

/**
 * Call a function for what happens.
 *
 * It is called on a separate thread, one event after another.  However slow it is, the
 * relay goes on; of the events that wait for it only some thousands are kept, and
 * wherry_event.lost says how many were not.  It may call wherry_relay_stop(), but not
 * step, run or close its relay: that is WHERRY_INVALID, or ignored.
 *
 * @param kinds  Which: bits 1 << wherry_event_kind; 0: all.
 * @param hook   The function; one per relay.  It gets what waits until
 *               wherry_relay_close() returns, which takes relay.stop_timeout at most.
 * @param ctx    Handed to it.
 * @param err    Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (there is one already); WHERRY_BUSY (no thread can be
 *         started); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_hook(wherry_relay *relay,
							 unsigned kinds,
							 wherry_hook_fn hook, void *ctx,
							 wherry_error *err);

/**
 * Run until wherry_relay_stop(), or as the flags say; in the end what is in flight is
 * finished, for at most relay.stop_timeout, and the lease is given back.
 *
 * @param flags        0 or WHERRY_UNTIL_EMPTY.
 * @param out_outcome  Receives how it ended; may be NULL.
 * @return WHERRY_OK; the first error whose remedy is FIX, such as a table that is gone:
 *         other errors are waited out.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_run(wherry_relay *relay,
							unsigned flags,
							wherry_outcome *out_outcome,
							wherry_error *err);

/** Ask the relay to finish.  Threads: any; safe in a signal handler. */
WHERRY_API void wherry_relay_stop(wherry_relay *relay);

/**
 * Do what can be done without waiting; for programs with their own loop.
 *
 * @param out_wake_us   Receives when to step again at the latest, on
 *                      wherry_relay_clock()'s clock, unless a descriptor is ready first.
 * @param out_finished  Receives true once it has stopped, or is empty as asked by
 *                      wherry_relay_target().
 * @return as wherry_relay_run(); WHERRY_INVALID with a transaction open on the connection.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_relay_step(wherry_relay *relay,
							 int64_t *out_wake_us,
							 bool *out_finished,
							 wherry_error *err);

/** Wait until wake_us, until a descriptor of the relay's is ready, or until
 *  wherry_relay_stop(); then it is time to step again. */
WHERRY_API void wherry_relay_wait(wherry_relay *relay, int64_t wake_us);

/**
 * Get the descriptors that wherry_relay_wait() polls, for a loop that also waits for others.
 * Ask after each step: descriptors come and go.
 *
 * @param out  Receives up to WHERRY_RELAY_FDS entries; see poll(2).
 * @return how many.
 */
WHERRY_API size_t wherry_relay_fds(wherry_relay *relay, struct pollfd *out);

/** Set the flags of wherry_relay_run() for your own calls of wherry_relay_step(). */
WHERRY_API void wherry_relay_target(wherry_relay *relay, unsigned flags);

/** Return how the relay ended, once it has finished. */
WHERRY_API wherry_outcome wherry_relay_outcome(const wherry_relay *relay);

/** Return the clock of out_wake_us: microseconds, monotonic. */
WHERRY_API int64_t wherry_relay_clock(const wherry_relay *relay);

/**
 * Return the upper bound of a class of wherry_relay_stats.latency, in microseconds;
 * INT64_MAX for the last, and beyond.
 */
WHERRY_API int64_t wherry_latency_bound(int i);

/**
 * Read the relay's numbers, as of the end of its last step.
 *
 * @param size  sizeof(*out): the members that a program was compiled with are written.
 *
 * Threads: any, while the relay is open.  Blocks: no longer than it takes to copy them.
 */
WHERRY_API void wherry_relay_get_stats(wherry_relay *relay, wherry_relay_stats *out,
				       size_t size);

/** Close a relay, giving its lease back if nothing is in flight.  NULL is fine. */
WHERRY_API void wherry_relay_close(wherry_relay *relay);

WHERRY_END

#endif
