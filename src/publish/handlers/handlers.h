/*
 * Handlers inside: functions by topic, and the calls of them on a pool of threads.
 *
 *     handlers.c       what is registered; the publisher's side: submit, collect, close
 *     handlers_pool.c  the threads: which call is next, and what becomes of it
 *     handlers_call.c  what a function is given; middleware
 *
 *            submit              a thread is free            returned          collect
 *   (made) ─────────► QUEUED ──────────────────► RUNNING ──────────────► OVER ───────► (freed)
 *                       │                           │                      ▲
 *                       │        its time is up, or dropped                │
 *                       │                           ▼                      │
 *                       │                         STRAY ── returned ──► (freed)
 *                       └── cancelled before it began, or blocked too long ┘
 *
 *   QUEUED   waits for a thread, and for whatever of its key runs.
 *   RUNNING  a function has it; a receipt is owed.
 *   STRAY    a function has it still, but its receipt was given, or nobody wants one.
 *   OVER     a receipt is owed, and known.
 */
#ifndef WH_PUBLISH_HANDLERS_H
#define WH_PUBLISH_HANDLERS_H

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/handlers.h>

#include "publish/flight.h"

typedef struct wh_handlers wh_handlers;
typedef struct wh_worker wh_worker;

enum { WH_CALLS_MOST = 1024 }; /* taken and not yet answered */

typedef struct wh_handler {
	wherry_handler_fn fn;
	void *ctx;
	uint64_t serial; /* of its registration: a topic may get another one */
	bool once;
	bool busy; /* once: a call of it runs */
	char topic[];
} wh_handler;

/* Never changed, except `next`; freed with the pool. */
typedef struct wh_middleware {
	struct wh_middleware *next; /* inside */
	wherry_middleware_fn fn;
	void *ctx;
} wh_middleware;

/* A layer of middleware that runs. */
typedef struct wh_layer {
	const wh_middleware *middleware;
	size_t left; /* layers, this one included */
	bool called; /* next was */
} wh_layer;

/* The transaction that a call has open: of the layer above, which knows databases. */
typedef struct wh_step {
	/* Acknowledge the message and commit; all is rolled back on failure. */
	wherry_code (*commit)(wherry_call *call, wherry_error *err);
	void (*rollback)(wherry_call *call);
	void (*interrupt)(void *connection); /* of a worker; from any thread */
	void (*close)(void *connection);     /* of a worker */
} wh_step;

typedef enum wh_phase { WH_CALL_QUEUED, WH_CALL_RUNNING, WH_CALL_STRAY } wh_phase;

struct wherry_call {
	wh_flight flight; /* first; its message is not read, its reason is below */
	wh_handlers *pool;
	wherry_message message; /* a copy, in this block */
	uint64_t key_hash;      /* 0: not ordered */
	wh_grant grant;
	int64_t limit_us; /* when its time is up; QUEUED: when it was taken */
	wh_phase phase;
	bool stopping; /* cancelled because the relay stops, or lost its lease */
	bool ending;   /* being committed: its time limit is over with */
	atomic_bool cancelled;

	/* of the thread that runs it */
	wh_worker *worker;
	wherry_handler_fn fn; /* NULL: there is none */
	void *ctx;
	uint64_t serial; /* of a handler that runs once; 0: it is none */
	const wh_middleware *outermost;
	size_t n_middleware;
	wh_layer *layer;     /* the innermost middleware that runs; NULL: none */
	bool handling;       /* the handler runs */
	const wh_step *step; /* its transaction; NULL: none is open */
	bool dropped;        /* by middleware */
	bool succeeded;      /* the handler said so, and it stands */

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
	void *connection;             /* a wh_step's; NULL: none yet */
	const wh_step *connection_of; /* whose */
};

struct wh_handlers {
	wherry_publisher base;
	const wh_env *env;
	char *url;             /* NULL: no transactions */
	wherry_config *config; /* owned */
	int64_t limit_us, close_us;
	char limit[32]; /* in words */

	pthread_mutex_t lock; /* of all that follows, and of the calls' phases */
	pthread_cond_t work, ended, turn;
	size_t threads;    /* that handle at once */
	int event;         /* readable while receipts are owed and known */
	wh_handler **list; /* by topic */
	size_t n_list, cap_list;
	wh_handler *others; /* NULL: none */
	uint64_t serials;
	wh_middleware *outermost, *innermost;
	size_t n_middleware;
	wh_grant grant;
	wh_flights queue, running, over;
	size_t n_stray;                       /* of those that run */
	size_t n_live, n_idle;                /* threads */
	size_t n_leaving;                     /* of the live ones, about to end */
	bool writing;                         /* a call has its turn in the database */
	int64_t turns_since_us, last_turn_us; /* with hardly a pause in between */
	bool closing, abandoned;
};

/* handlers.c: with an environment of one's own */
wherry_code wh_handlers_open(const char *url, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out,
			     wherry_error *err);
wh_handler *wh_handlers_find(const wh_handlers *pool, const char *topic); /* NULL: none */
void wh_handlers_spent(wh_handlers *pool,
		       const wherry_call *call); /* of one that ran once */
void wh_handlers_free(wh_handlers *pool);

/* handlers_pool.c; the lock is held, unless it says otherwise */
bool wh_pool_staff(
	wh_handlers *pool); /* start threads that are needed; false: there is none */
bool wh_pool_blocked(const wh_handlers *pool, const wherry_call *call, bool by_stray);
void wh_pool_conclude(wherry_call *call, wherry_verdict verdict,
		      const char *why); /* OVER */
void wh_pool_stray(wherry_call *call);  /* what it still does is nobody's business */
void wh_pool_interrupt(const wherry_call *call);

/* handlers_call.c */
wherry_call *wh_call_make(wh_handlers *pool,
			  const wherry_message *msg); /* NULL: no memory */
void wh_call_run(wherry_call *call);                  /* without the lock */

#endif
