/*
 * C functions as a destination: a relay calls one for each message, by its topic, on a
 * pool of threads.
 *
 * Messages of one key are handled one after another, those of different keys at once.
 * There is exactly one handler per topic.  A message whose topic has none fails, and in
 * the end dies; it is never taken for delivered.
 *
 * What a handler writes through wherry_call_begin() is one with the acknowledgement of its
 * message: both are there, or neither.  docs/guide/handlers.md has examples.
 */
#ifndef WHERRY_HANDLERS_H
#define WHERRY_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/config.h>
#include <wherry/error.h>
#include <wherry/message.h>
#include <wherry/publisher.h>

struct wherry_db; /* wherry/db.h */

/* One message being handled.  Valid until the function that got it returns, on the thread
 * that it was called on. */
typedef struct wherry_call wherry_call;

/**
 * Handles a message.
 *
 * Threads: called on any of the pool's, at once for messages of different keys.
 *
 * @param ctx  As registered.  It must outlive the last call, which may be later than
 *             wherry_handlers_off(): see wherry_handlers_running().
 * @return WHERRY_DELIVERED; WHERRY_RETRY (again after a delay, until the attempts are used
 *         up); WHERRY_REJECTED (dead at once); WHERRY_THROTTLED (not now, and nothing is
 *         counted: the relay submits nothing for wherry_call_retry_after(), or a second);
 *         WHERRY_UNKNOWN (as WHERRY_RETRY).  Any other value, such as a wherry_code, fails the
 *         message as WHERRY_RETRY does, with a reason that names the value.
 */
typedef wherry_verdict (*wherry_handler_fn)(void *ctx, wherry_call *call);

/**
 * Runs around every call, handler and commit inside: what it does before
 * wherry_call_next() comes before them, what it does after sees how they ended and how
 * long they took.
 *
 * To refuse a message, return another verdict than WHERRY_DELIVERED without calling next;
 * to drop it for good, `return wherry_call_drop(call, why)`.
 *
 * @return what is to become of the message, usually what next returned.  Once a handler's
 *         transaction is committed that stands, whatever is returned.
 */
typedef wherry_verdict (*wherry_middleware_fn)(void *ctx, wherry_call *call);

WHERRY_BEGIN

/* ---- registering: from any thread, also while a relay runs ---- */

/**
 * Make a destination of functions, for wherry_relay_open_on().
 *
 * Settings: handlers.threads, handlers.timeout; relay.stop_timeout bounds its close; db.*
 * are for wherry_call_begin().
 *
 * @param url     The relay's database, as given to wherry_db_open(), for
 *                wherry_call_begin(); NULL: handlers open no transactions.  Copied.
 * @param config  Settings, the relay's; borrowed for the call, NULL for the defaults.
 * @param out     Receives it; given, close with wherry_publisher_close() after the relay.
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (settings that contradict each other); WHERRY_BUSY (no
 *         descriptor left); WHERRY_NOMEM.
 *
 * wherry_publisher_close() cancels running calls, and waits for them for at most
 * relay.stop_timeout.  A function that does not return by then keeps its thread: do not free
 * what it uses.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_open(const char *url,
							    const wherry_config *config,
							    wherry_publisher **out,
							    wherry_error *err);

/**
 * Let a function handle a topic.
 *
 * @return WHERRY_OK; WHERRY_INVALID (the topic has a handler already: err names it; no
 *         topic; not made by wherry_handlers_open()); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_on(wherry_publisher *handlers,
							  const char *topic,
							  wherry_handler_fn handle,
							  void *ctx, wherry_error *err);

/** As wherry_handlers_on(), but the handler is removed after its first success.  Two
 *  calls of it never run at once.  If a call succeeds after its time limit, the handler
 *  is removed, too.  The message of that call has failed: when it is retried, its topic
 *  has no handler. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_once(wherry_publisher *handlers,
							    const char *topic,
							    wherry_handler_fn handle,
							    void *ctx, wherry_error *err);

/** Let a function handle every topic without a handler. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_others(wherry_publisher *handlers,
							      wherry_handler_fn handle,
							      void *ctx,
							      wherry_error *err);

/** Remove the handler of a topic, or with NULL that of the others; WHERRY_NOTFOUND: there
 *  is none.  Calls that run go on. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_off(wherry_publisher *handlers,
							   const char *topic,
							   wherry_error *err);

/** Run a function around every call that begins from now on, inside of those registered
 *  before it.  It stays until close. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_use(wherry_publisher *handlers,
							   wherry_middleware_fn around,
							   void *ctx, wherry_error *err);

/**
 * Change how many functions run at once; also while a relay runs.
 *
 * If the number grows, calls that wait begin at once.  If it shrinks, functions that run go on,
 * and none begins until fewer than `threads` run.  Functions that are over their time do not
 * count, as with handlers.threads.
 *
 * @param threads  1 to 256, as handlers.threads.
 * @return WHERRY_OK; WHERRY_INVALID (out of range; not made by wherry_handlers_open());
 *         WHERRY_NOMEM.
 *
 * Blocks: not.  Threads: any, a handler's too.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_set_threads(
	wherry_publisher *handlers, int32_t threads, wherry_error *err);

/** Return how many functions run now, those that are over their time included. */
WHERRY_API size_t wherry_handlers_running(wherry_publisher *handlers);

/* ---- inside a call ---- */

/** Return the message.  Borrowed until the function returns. */
WHERRY_API const wherry_message *wherry_call_message(const wherry_call *call);

/** Return which attempt this is, from 1 on. */
WHERRY_API int32_t wherry_call_attempt(const wherry_call *call);

/** Return whether the message dies if this attempt fails. */
WHERRY_API bool wherry_call_is_last(const wherry_call *call);

/** Return whether to end soon: the time limit passed, or the relay stops or lost its lease.
 *  A function that ends for this reason returns WHERRY_RETRY.  Unless the time limit passed,
 *  no attempt is counted. */
WHERRY_API bool wherry_call_cancelled(const wherry_call *call);

/** Say why it is not delivered: one line, cut at 199 bytes.  Copied. */
WHERRY_API void wherry_call_reason(wherry_call *call, const char *text);

/** Return what was said why; "" if nothing was.  Borrowed until it is said again. */
WHERRY_API const char *wherry_call_why(const wherry_call *call);

/** Ask for so many microseconds until the next attempt at least, with WHERRY_RETRY; until
 *  any message is submitted, with WHERRY_THROTTLED. */
WHERRY_API void wherry_call_retry_after(wherry_call *call, int64_t us);

/** Middleware: run what is inside, and return its verdict.  Once: a second time it runs
 *  nothing and returns WHERRY_RETRY. */
WHERRY_API wherry_verdict wherry_call_next(wherry_call *call);

/** Middleware: let the message count as delivered though nothing handled it. */
WHERRY_API wherry_verdict wherry_call_drop(wherry_call *call, const char *why);

/**
 * Open a transaction in the relay's own database, which the acknowledgement joins.
 *
 * When the handler returns WHERRY_DELIVERED, the message is marked delivered, or deleted,
 * or archived, in that transaction, under the relay's lease, and it is committed.  With
 * any other verdict, or when the lease was lost or the time limit passed, it is rolled
 * back.  Committing or rolling back is not the handler's.
 *
 * The connection is the thread's own and may be used with wherry_outbox_open() and
 * wherry_sqlite_handle() or wherry_postgres_handle(); statements must be finished when the
 * handler returns.  A second time it returns the same.
 *
 * @param out  Receives it; borrowed until the handler returns.
 * @param err  Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_UNSUPPORTED (no URL was given to wherry_handlers_open(); an
 *         outbox of the layout event-bus or eventferry);
 *         WHERRY_STALE (the relay has lost its lease); WHERRY_INTERRUPTED (cancelled);
 *         WHERRY_INVALID (the URL is not that of the relay's database; no handler runs);
 *         WHERRY_BUSY (others wrote for longer than db.busy_timeout); what
 *         wherry_db_open() returns.
 *
 * Blocks: until the previous transaction of this pool has ended, at most
 * db.busy_timeout; on SQLite also while another program writes, at most
 * db.busy_timeout.  The first call on a thread opens the connection; see
 * wherry_db_open().
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_call_begin(wherry_call *call,
							 struct wherry_db **out,
							 wherry_error *err);

/**
 * Add a message in that transaction, which is opened if need be.
 *
 * @param outbox  Which, of the same database; NULL: the one the message came from.
 * @param msg     What to send; borrowed.
 * @param out_id  Receives its id; may be NULL.
 * @return as wherry_call_begin() and wherry_outbox_enqueue().
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_call_enqueue(wherry_call *call,
							   const char *outbox,
							   const wherry_message *msg,
							   int64_t *out_id,
							   wherry_error *err);

WHERRY_END

#endif
