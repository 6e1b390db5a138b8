/*
 * C functions as a destination: a relay calls the function of a message's topic, on a pool
 * of threads.
 *
 * Messages of one key are handled one after another, messages of different keys at the same
 * time.  A topic has at most one handler.  A message whose topic has no handler fails, and
 * becomes dead after its last attempt; it never counts as delivered.
 *
 * The writes of a handler through wherry_call_begin() and the acknowledgement of its message
 * are one transaction.  docs/guide/handlers.md has examples.
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

/* A call of a handler for one message.  Valid in the function that receives it, on its thread,
 * until that function returns. */
typedef struct wherry_call wherry_call;

/**
 * Handles a message.
 *
 * Threads: called on any thread of the pool, at the same time for messages of different keys.
 *
 * @param ctx  Pointer that was registered with the function.  It must stay valid until the last
 *             call returns, which may be after wherry_handlers_off(): see
 *             wherry_handlers_running().
 * @return WHERRY_DELIVERED; WHERRY_RETRY (the relay tries again after a delay, until the attempts
 *         are used up); WHERRY_REJECTED (the message becomes dead at once); WHERRY_THROTTLED (no
 *         attempt is counted, and the relay submits nothing for the time of
 *         wherry_call_retry_after(), or a second); WHERRY_UNKNOWN (handled like WHERRY_RETRY).
 *         Any other value, such as a wherry_code, is handled like WHERRY_RETRY, with a reason
 *         that names the value.
 */
typedef wherry_verdict (*wherry_handler_fn)(void *ctx, wherry_call *call);

/**
 * Runs around every call.  wherry_call_next() runs the handler and commits its transaction, so the
 * code before it runs before both, and the code after it sees how they ended and how long they took.
 *
 * To refuse a message, return another verdict than WHERRY_DELIVERED without calling
 * wherry_call_next(); to drop it, `return wherry_call_drop(call, why)`.
 *
 * @return The verdict on the message, usually the one that wherry_call_next() returned.  If a
 *         handler's transaction was committed, the message is delivered whatever this returns.
 */
typedef wherry_verdict (*wherry_middleware_fn)(void *ctx, wherry_call *call);

WHERRY_BEGIN

/* ---- registering functions: from any thread, also while a relay runs ---- */

/**
 * Make a destination of functions, for wherry_relay_open_on().
 *
 * It reads the settings handlers.threads and handlers.timeout, relay.stop_timeout for its close,
 * and db.* for wherry_call_begin().
 *
 * @param url     URL of the relay's database, for wherry_call_begin(); copied.  NULL: handlers
 *                open no transactions.
 * @param config  Settings of the relay; borrowed for the call.  NULL: the defaults.
 * @param out     Receives the destination; the caller closes it with wherry_publisher_close(),
 *                after it has closed the relay.
 * @param err     Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (settings that contradict each other); WHERRY_BUSY (no
 *         descriptor left); WHERRY_NOMEM.
 *
 * wherry_publisher_close() cancels running calls, and waits for them for at most
 * relay.stop_timeout.  A function that does not return by then keeps its thread: do not free
 * memory that it uses.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_open(const char *url,
							    const wherry_config *config,
							    wherry_publisher **out,
							    wherry_error *err);

/**
 * Let a function handle the messages of a topic.
 *
 * @param handlers  Destination that wherry_handlers_open() made.
 * @return WHERRY_OK; WHERRY_INVALID (the topic has a handler: err names it; there is no topic;
 *         another destination); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_on(wherry_publisher *handlers,
							  const char *topic,
							  wherry_handler_fn handle,
							  void *ctx, wherry_error *err);

/** Let a function handle a topic until its first success, which removes the handler.  Its calls
 *  never run at the same time.  If a call succeeds after its time limit, the handler is removed too;
 *  the message of that call has failed, and its topic has no handler when it is retried.  The
 *  parameters and codes are those of wherry_handlers_on(). */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_once(wherry_publisher *handlers,
							    const char *topic,
							    wherry_handler_fn handle,
							    void *ctx, wherry_error *err);

/** Let a function handle every topic without a handler. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_others(wherry_publisher *handlers,
							      wherry_handler_fn handle,
							      void *ctx,
							      wherry_error *err);

/** Remove the handler of a topic, or with NULL the handler that wherry_handlers_others() set;
 *  WHERRY_NOTFOUND: there is none.  Calls that are running continue. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_off(wherry_publisher *handlers,
							   const char *topic,
							   wherry_error *err);

/** Run a function around every call that begins from now on, inside the functions that were
 *  registered before it.  It stays registered until close. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_use(wherry_publisher *handlers,
							   wherry_middleware_fn around,
							   void *ctx, wherry_error *err);

/**
 * Change how many functions may run at the same time; also while a relay runs.
 *
 * If the number grows, waiting calls begin at once.  If it shrinks, running functions continue, and
 * none begins until fewer than `threads` run.  Functions that have exceeded handlers.timeout do not
 * count.
 *
 * @param threads  1 to 256; replaces the setting handlers.threads.
 * @return WHERRY_OK; WHERRY_INVALID (out of range; another destination); WHERRY_NOMEM.
 *
 * Blocks: never.  Threads: any, also those of handlers.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_handlers_set_threads(
	wherry_publisher *handlers, int32_t threads, wherry_error *err);

/** Return how many functions are running, including those that have exceeded handlers.timeout. */
WHERRY_API size_t wherry_handlers_running(wherry_publisher *handlers);

/* ---- inside a call ---- */

/** Return the message; borrowed until the handler or middleware returns. */
WHERRY_API const wherry_message *wherry_call_message(const wherry_call *call);

/** Return the number of this attempt, from 1. */
WHERRY_API int32_t wherry_call_attempt(const wherry_call *call);

/** Return whether the message dies if this attempt fails. */
WHERRY_API bool wherry_call_is_last(const wherry_call *call);

/** Return whether the function should end soon: the time limit has passed, the relay is stopping,
 *  or it has lost its lease.  A function that ends for this reason returns WHERRY_RETRY.  The
 *  attempt counts only if the time limit has passed. */
WHERRY_API bool wherry_call_cancelled(const wherry_call *call);

/** Set the reason why the message is not delivered: one line, cut at 199 bytes; copied. */
WHERRY_API void wherry_call_reason(wherry_call *call, const char *text);

/** Return the reason that wherry_call_reason() set, or "".  Borrowed until it is set again. */
WHERRY_API const char *wherry_call_why(const wherry_call *call);

/** Set a least time in microseconds.  With WHERRY_RETRY: until the next attempt of the message.
 *  With WHERRY_THROTTLED: until the relay submits any message. */
WHERRY_API void wherry_call_retry_after(wherry_call *call, int64_t us);

/** Middleware: run the next function, and return its verdict.  A second call in the same middleware
 *  runs nothing and returns WHERRY_RETRY. */
WHERRY_API wherry_verdict wherry_call_next(wherry_call *call);

/** Middleware: count the message as delivered although no handler handled it; returns the verdict
 *  to return.  `why` is a reason for the log. */
WHERRY_API wherry_verdict wherry_call_drop(wherry_call *call, const char *why);

/**
 * Open a transaction in the relay's database, which the acknowledgement of the message joins.
 *
 * If the handler returns WHERRY_DELIVERED, the relay acknowledges the message in that transaction,
 * under its lease, and commits.  If the handler returns another verdict, the lease was lost or the
 * time limit passed, the relay rolls back.  The handler itself must not commit or roll back.
 *
 * Each thread has its own connection.  It may be used with wherry_outbox_open(), and with
 * wherry_sqlite_handle() or wherry_postgres_handle(); statements must be finished before the
 * handler returns.  A second call returns the same connection.
 *
 * @param out  Receives the connection; borrowed until the handler returns.
 * @param err  Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_UNSUPPORTED (wherry_handlers_open() was given no URL; the outbox has
 *         the layout event-bus or eventferry); WHERRY_STALE (the relay has lost its lease);
 *         WHERRY_INTERRUPTED (the call was cancelled); WHERRY_INVALID (the URL is not that of the
 *         relay's database; no handler is running); WHERRY_BUSY (other connections wrote for
 *         longer than db.busy_timeout); any code of wherry_db_open().
 *
 * Blocks: until the previous transaction of this pool has ended, for at most db.busy_timeout; on
 * SQLite also while another program writes, for at most db.busy_timeout.  The first call on a
 * thread opens the connection; see wherry_db_open().
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_call_begin(wherry_call *call,
							 struct wherry_db **out,
							 wherry_error *err);

/**
 * Add a message in the transaction of wherry_call_begin(), which this call opens if necessary.
 *
 * @param outbox  Name of an outbox of the same database; NULL: the outbox of the message that is
 *                handled.
 * @param msg     Message to add; borrowed for the call.
 * @param out_id  Receives the message's id; may be NULL.
 * @return The codes of wherry_call_begin() and wherry_outbox_enqueue().
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_call_enqueue(wherry_call *call,
							   const char *outbox,
							   const wherry_message *msg,
							   int64_t *out_id,
							   wherry_error *err);

WHERRY_END

#endif
