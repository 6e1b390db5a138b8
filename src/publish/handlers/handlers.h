/*
 * Handlers inside: functions by topic, and their calls on a pool of threads.
 *
 *     handlers.c       registered functions; the publisher: submit, collect, close
 *     handlers_pool.c  the threads: which call is next, and how a call ends
 *     handlers_call.c  one call: its message, its middleware, its result
 *
 *            submit              a thread is free            returned          collect
 *   (made) ─────────► QUEUED ──────────────────► RUNNING ──────────────► OVER ───────► (freed)
 *                       │                           │                      ▲
 *                       │        its time is up, or dropped                │
 *                       │                           ▼                      │
 *                       │                         STRAY ── returned ──► (freed)
 *                       └── cancelled before it began, or blocked too long ┘
 *
 *   QUEUED   waits for a thread, and for earlier calls of its key that run.
 *   RUNNING  a thread runs it; it has no receipt yet.
 *   STRAY    a thread still runs it, but its receipt was given or is not wanted any more.
 *   OVER     its receipt is known and not collected yet.
 */
#ifndef WH_PUBLISH_HANDLERS_H
#define WH_PUBLISH_HANDLERS_H

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/handlers.h>

#include "publish/flight.h"

typedef struct wh_handlers wh_handlers;
typedef struct wh_worker wh_worker;

enum { WH_CALLS_MOST = 1024 }; /* Most calls without a collected receipt. */

typedef struct wh_handler {
	wherry_handler_fn fn;
	void *ctx;
	/* Number of its registration: a topic may get another handler later. */
	uint64_t serial;
	bool once;
	bool busy; /* once: a call of it runs. */
	char topic[];
} wh_handler;

/* Never changed, except `next`.  Freed with the pool. */
typedef struct wh_middleware {
	struct wh_middleware *next; /* The next one inwards; NULL: the handler. */
	wherry_middleware_fn fn;
	void *ctx;
} wh_middleware;

/* A middleware that runs. */
typedef struct wh_layer {
	const wh_middleware *middleware;
	size_t left; /* Layers from this one to the innermost. */
	bool called; /* It called wherry_call_next(). */
} wh_layer;

/* The functions that end a call's transaction.  A higher layer, which knows databases,
 * provides them. */
typedef struct wh_step {
	/* Acknowledge the message and commit.  On failure all is rolled back. */
	wherry_code (*commit)(wherry_call *call, wherry_error *err);
	void (*rollback)(wherry_call *call);
	void (*interrupt)(void *connection); /* Called from any thread. */
	void (*close)(void *connection);     /* Close a worker's connection. */
} wh_step;

typedef enum wh_phase { WH_CALL_QUEUED, WH_CALL_RUNNING, WH_CALL_STRAY } wh_phase;

struct wherry_call {
	/* First member.  message is only passed on; reason points to the array below. */
	wh_flight flight;
	wh_handlers *pool;
	wherry_message message; /* A copy, with its texts in `text`. */
	uint64_t key_hash;      /* 0: the message is not ordered. */
	wh_grant grant;
	/* When its time is up; QUEUED: when it was taken. */
	int64_t limit_us;
	wh_phase phase;
	bool stopping; /* Cancelled: the relay stops, or lost its lease. */
	bool ending;   /* Being committed: the time limit does not apply. */
	atomic_bool cancelled;

	/* Used by the thread that runs the call. */
	wh_worker *worker;
	wherry_handler_fn fn; /* The handler; NULL: the topic has none. */
	void *ctx;
	/* serial of a handler that runs once; 0: it may run again. */
	uint64_t serial;
	const wh_middleware *outermost;
	size_t n_middleware;
	wh_layer *layer;     /* The innermost middleware that runs; NULL: none. */
	bool handling;       /* The handler runs. */
	const wh_step *step; /* Its open transaction; NULL: none. */
	bool dropped;        /* Middleware called wherry_call_drop(). */
	/* The handler returned DELIVERED, and its commit succeeded. */
	bool succeeded;

	char reason[sizeof(((wh_receipt *)NULL)->reason)];

	char text[];
};

static inline wherry_call *wh_calls_first(const wh_flights *list) /* NULL: none */
{
	return (wherry_call *)list->head;
}

static inline wherry_call *wh_calls_next(const wherry_call *call)
{
	return (wherry_call *)call->flight.next;
}

struct wh_worker {
	wh_handlers *pool;
	void *connection;             /* Database connection for steps; NULL: none yet. */
	const wh_step *connection_of; /* The step whose close() closes it. */
};

struct wh_handlers {
	wherry_publisher base;
	const wh_env *env;
	char *url;             /* NULL: handlers have no transactions. */
	wherry_config *config; /* Owned. */
	int64_t limit_us, close_us;
	char limit[32]; /* limit_us as text. */

	pthread_mutex_t lock; /* Guards the members below, and the phases of calls. */
	pthread_cond_t work, ended, turn;
	size_t threads;    /* Most calls that run at once, without strays. */
	int event;         /* An eventfd, readable while receipts wait. */
	wh_handler **list; /* Sorted by topic. */
	size_t n_list, cap_list;
	wh_handler *others; /* NULL: none */
	uint64_t serials;
	wh_middleware *outermost, *innermost;
	size_t n_middleware;
	wh_grant grant;
	wh_flights queue, running, over;
	size_t n_stray; /* Running calls that are STRAY. */
	/* All threads; those that wait for a call. */
	size_t n_live, n_idle;
	size_t n_leaving; /* Live threads that are about to end. */
	bool writing;     /* A call has its turn in the database. */
	/* Start of the current series of turns; end of its last turn. */
	int64_t turns_since_us, last_turn_us;
	bool closing, abandoned;
};

/* handlers.c: wherry_handlers_open() with another environment, for tests. */
wherry_code wh_handlers_open(const char *url, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out,
			     wherry_error *err);
wh_handler *wh_handlers_find(const wh_handlers *pool, const char *topic); /* NULL: none */
/* The once-handler of this call has succeeded: unregister it. */
void wh_handlers_spent(wh_handlers *pool, const wherry_call *call);
void wh_handlers_free(wh_handlers *pool);

/* handlers_pool.c: call these functions with pool->lock held. */

/* Start the threads that are needed.  False: no thread runs. */
bool wh_pool_staff(wh_handlers *pool);
bool wh_pool_blocked(const wh_handlers *pool, const wherry_call *call, bool by_stray);
/* The call's result is known: move it to OVER. */
void wh_pool_conclude(wherry_call *call, wherry_verdict verdict, const char *why);
void wh_pool_stray(wherry_call *call); /* Make a running call STRAY. */

/* handlers_call.c */
wherry_call *wh_call_make(wh_handlers *pool,
			  const wherry_message *msg); /* NULL: no memory. */
void wh_call_run(wherry_call *call);                  /* Call it without the lock. */

#endif
