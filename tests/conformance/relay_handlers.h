/*
 * Handlers with a real relay, on every database: what their tests share.
 *
 * The relay runs on the test's thread, handlers on theirs: these only note what they see,
 * and wait for what a test lets them do.
 */
#ifndef RELAY_HANDLERS_H
#define RELAY_HANDLERS_H

#include "wherry_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <wherry/wherry.h>

enum { HANDLERS_CALLS = 2048 };

typedef struct handlers_call {
	int64_t id;
	int32_t attempt;
	char key[16], topic[32];
	bool last;
} handlers_call;

/* A database; tests that are in its own terms are only run there. */
typedef struct handlers_base {
	const char *name;
	void (*make)(char *url, size_t cap);
	void (*drop)(void);

	/* Run SQL on a connection; out (may be NULL) receives the first column of the first
	 * row.  False, and why in out, when it fails. */
	bool (*sql)(wherry_db *db, const char *sql, char *out, size_t cap);
	const char *log_views; /* See relay_log.h. */
	const char *const *
		except; /* Tests that do not run there; ends with NULL.  NULL: all run. */
} handlers_base;

typedef struct handlers_fixture {
	const handlers_base *base;
	char url[160];
	wherry_config *config;
	wherry_db *db; /* the test's own */
	wherry_outbox *outbox;
	wherry_db *relay_db;
	wherry_publisher *pub;
	wherry_relay *relay;
	wherry_relay_stats stats; /* when it was closed */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	handlers_call calls[HANDLERS_CALLS]; /* in the order they began */
	size_t n_calls;
	int running[128];  /* by the first character of the key */
	int at_once, most; /* calls that run, and how many there ever were */
	bool overlapped;   /* two of one key ran at once */
	bool open;         /* what waits at the gate may go on */
	int waiting;       /* there */
	char why[256];     /* what a handler's own call said when it failed */
} handlers_fixture;

typedef struct handlers_test {
	const char *name;
	void (*run)(void **state);
} handlers_test;

#define HANDLERS_TEST(test)                                                              \
	{                                                                                \
#test, test                                                              \
	}
#define HANDLERS_TESTS_END                                                               \
	{                                                                                \
		NULL, NULL                                                               \
	}

extern const handlers_test handlers_call_tests[], handlers_step_tests[],
	handlers_hook_tests[];

/* Run all of them, and the database's own (NULL: none), on it. */
int handlers_suite(const handlers_base *base, const handlers_test *own);

int handlers_set_up(void **state);
int handlers_tear_down(void **state);

void handlers_set(handlers_fixture *f, const char *key, const char *value);
void handlers_pool(handlers_fixture *f);  /* opened with the database's URL */
void handlers_relay(handlers_fixture *f); /* on it */
void handlers_on(handlers_fixture *f, const char *topic, wherry_handler_fn fn);

/* Add a message for each character, with it as the key; '-' is none. */
void handlers_put(handlers_fixture *f, const char *topic, const char *keys);

void handlers_sql(handlers_fixture *f, const char *sql);
int64_t handlers_number(handlers_fixture *f, const char *sql); /* the first column */
void handlers_text(handlers_fixture *f, const char *sql, char *out, size_t cap);

/* Run until nothing of what is there is open, and close the relay. */
wherry_outcome handlers_run(handlers_fixture *f);

/* Step until the condition holds, for a minute at most. */
#define HANDLERS_UNTIL(f, condition)                                                     \
	do {                                                                             \
		int64_t by_ = wherry_relay_clock((f)->relay) + 60000000;                 \
		while (!(condition))                                                     \
			handlers_turn((f), by_, #condition, __LINE__, __FILE__);         \
	} while (0)
void handlers_turn(handlers_fixture *f, int64_t by_us, const char *what, int line,
		   const char *file);
bool handlers_step(handlers_fixture *f); /* once; true: it has finished */

/* ---- for handlers ---- */

void handlers_enter(handlers_fixture *f, wherry_call *call);
void handlers_leave(handlers_fixture *f, wherry_call *call);
void handlers_wait(handlers_fixture *f); /* at the gate */
void handlers_open_gate(handlers_fixture *f);
size_t handlers_seen(handlers_fixture *f); /* calls that began */
int handlers_waiting(handlers_fixture *f);

/* Run SQL on the connection of a call. */
bool handlers_call_sql(handlers_fixture *f, wherry_db *db, const char *sql);

/* Insert a row for the message into "orders", in the call's transaction. */
wherry_verdict handlers_write(handlers_fixture *f, wherry_call *call);

/* Notes the call, and delivers. */
wherry_verdict handlers_deliver(void *ctx, wherry_call *call);

#endif
