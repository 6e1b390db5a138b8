/*
 * What every database promises of a queue, written once: each promise is a test, run on every
 * back end of the outbox's suite.
 */
#ifndef WHERRY_QUEUE_SUITE_H
#define WHERRY_QUEUE_SUITE_H

#include "outbox_suite.h"

/* The state of every test: a queue named "jobs", of an empty database. */
typedef struct queue_fixture {
	const outbox_backend *backend;
	void *place;
	wherry_db *db;
	wherry_queue *queue;
	const char *layout; /* NULL: native */
	char text[4096];    /* of queue_text() */
} queue_fixture;

typedef struct queue_case {
	const char *name;
	void (*run)(void **state);
	bool several; /* It needs a second connection. */
	bool native;  /* It looks at the columns of the native layout. */
	bool models;  /* It needs an outbox beside the queue. */
	bool owner;   /* It makes or drops tables. */
} queue_case;

#define QUEUE_CASE(run)                                                                  \
	{                                                                                \
#run, run, false, false, false, false                                    \
	}
#define QUEUE_NATIVE_CASE(run)                                                           \
	{                                                                                \
#run, run, false, true, false, false                                     \
	}

#define QUEUE_OWNER_CASE(run, native)                                                    \
	{                                                                                \
#run, run, false, native, false, true                                    \
	}

#define QUEUE_MODELS_CASE(run)                                                           \
	{                                                                                \
#run, run, false, true, true, true                                       \
	}

/* What senders and receivers call: the library, or on the back end of functions SQL that does the same. */
typedef struct queue_calls {
	__typeof__(wherry_queue_send) *send;
	__typeof__(wherry_queue_send_many) *send_many;
	__typeof__(wherry_queue_cancel) *cancel;
	__typeof__(wherry_queue_receive) *receive;
	__typeof__(wherry_queue_ack) *ack;
	__typeof__(wherry_queue_nack) *nack;
	__typeof__(wherry_queue_extend) *extend;
	__typeof__(wherry_queue_dead_letter) *dead_letter;
	const suite_skip *skips; /* Ends with a row of NULL. */
} queue_calls;

/* Those of the back end whose case runs. */
extern queue_calls queue_does;

/* Each ends with a row of NULL. */
extern const queue_case queue_send_cases[], queue_receive_cases[], queue_settle_cases[],
	queue_schema_cases[], queue_claim_cases[], queue_topics_cases[];

/* Run all of them on all of these back ends, and then the tests in `more`. */
int queue_suite_run(const outbox_backend *const *backends, size_t n_backends,
		    const struct CMUnitTest *more, size_t n_more);

/* The cases that any layout passes, on this one. */
int queue_suite_run_layout(const char *layout, const outbox_backend *const *backends,
			   size_t n_backends, const struct CMUnitTest *more,
			   size_t n_more);

/* ---- for the tests; they fail the test when something goes wrong ---- */

/* For tests of one database: a fixture of their own. */
queue_fixture *queue_fixture_make(const outbox_backend *backend);
queue_fixture *queue_fixture_make_layout(const outbox_backend *backend,
					 const char *layout);
void queue_fixture_drop(queue_fixture *f);

/* Open the queue once more on the same connection; on a new one, which the caller closes. */
wherry_queue *queue_again(queue_fixture *f);
wherry_db *queue_connect(queue_fixture *f);

/* SQL of another program. */
void queue_raw(queue_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *queue_text(queue_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int64_t queue_int(queue_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* It is time to look at all messages again, however long the last look took. */
void queue_look_at_all(queue_fixture *f);

/* Send a message whose body is a number; returns its id. */
int64_t queue_send(queue_fixture *f, int number);
int64_t queue_send_so(queue_fixture *f, int number, int64_t delay_us, int64_t expires_us);

/* As if a minute had passed for every lease, delay and expiry. */
void queue_minute(queue_fixture *f);

/* What was received: ids, tokens, attempts; and the bodies as "1 2 3". */
typedef struct queue_got {
	int64_t n;
	int64_t ids[64];
	int32_t attempts[64];
	char token[64];
	char bodies[512];
} queue_got;

/* A wherry_queue_fn that notes what it sees in the queue_got that ctx is. */
wherry_code queue_note(void *ctx, const wherry_queue_message *msg);

queue_got queue_receive(wherry_queue *queue, wherry_receive_mode mode, int64_t limit);

/* Receive under a lease of a minute, and compare the bodies. */
queue_got queue_lease(wherry_queue *queue, int64_t limit, const char *bodies);
/* Receive in a transaction that is then committed. */
void queue_takes(queue_fixture *f, int64_t limit, const char *bodies);
void queue_ack(wherry_queue *queue, const queue_got *got);

/* The counts as "ready leased waiting dead". */
void queue_counts(queue_fixture *f, const char *wanted);

#endif
