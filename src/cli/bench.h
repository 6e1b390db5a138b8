/*
 * The parts of `wherry bench`.  Each runs in a separate process, so that its memory is counted
 * alone, and returns its results through shared memory.
 */
#ifndef WH_CLI_BENCH_H
#define WH_CLI_BENCH_H

#include <stdatomic.h>

#include "cli/cli.h"

enum {
	WH_BENCH_KEYS = 1000,  /* distinct keys */
	WH_BENCH_BATCH = 100,  /* messages in one transaction of the load */
	WH_BENCH_RATE = 200,   /* a second, for the latency */
	WH_BENCH_PROBES = 1000 /* messages whose latency is taken, at most */
};

/* Memory that the processes share. */
typedef struct wh_bench_shared {
	double enqueue_rate, drain_rate; /* messages a second */
	int64_t memory_kb;               /* the relay's largest, while draining */
	double p50_ms, p99_ms;
	char failure[240]; /* "": none */
	_Atomic int64_t committed_us[WH_BENCH_PROBES];
	_Atomic int64_t arrived_us[WH_BENCH_PROBES];
	_Atomic int64_t sent, arrived; /* how many */
	atomic_bool ready;             /* the relay is */
} wh_bench_shared;

typedef struct wh_bench wh_bench;

/* One part; runs in its own process and fills b->shared. */
typedef wherry_code (*wh_bench_fn)(wh_bench *b, wherry_error *err);

struct wh_bench {
	const char *url;
	wherry_config *config;
	int64_t messages;
	int64_t probes;      /* for the latency: 1 to WH_BENCH_PROBES, */
	int rate;            /* so many a second; 0: WH_BENCH_RATE */
	wh_bench_fn consume; /* what takes them; NULL: a relay */
	wh_bench_shared *shared;
};

wherry_code wh_bench_prepare(wh_bench *b, wherry_error *err); /* an empty outbox */
wherry_code wh_bench_enqueue(wh_bench *b, wherry_error *err);
wherry_code wh_bench_drain(wh_bench *b, wherry_error *err);
wherry_code wh_bench_latency(wh_bench *b, wherry_error *err);
wherry_code wh_bench_clean(wh_bench *b, wherry_error *err); /* takes its messages away */

/* One message of the load or the latency: its body and key from its number. */
typedef struct wh_bench_message {
	char body[256];
	char key[24];
	wherry_message message;
} wh_bench_message;

void wh_bench_fill(wh_bench_message *m, int64_t number);

/* A consumer took the message with this body: note when.  True once all have arrived. */
bool wh_bench_arrived(wh_bench *b, const char *body);

/* The number that text begins with, blanks before it. */
int64_t wh_bench_digits(const char *text);

/* Start a part, which dies with its parent; its process id, -1 if it could not start. */
int wh_bench_start(wh_bench *b, wh_bench_fn fn);

/* Open the outbox that the bench works on. */
wherry_code wh_bench_open(wh_bench *b, wherry_db **out_db, wherry_outbox **out_box,
			  wherry_error *err);

#endif
