/*
 * The parts of `wherry bench`.  Each runs in a separate process, so that its memory is counted
 * alone, and returns its results through shared memory.
 */
#ifndef WH_CLI_BENCH_H
#define WH_CLI_BENCH_H

#include <stdatomic.h>

#include "cli/cli.h"

enum {
	WH_BENCH_KEYS = 1000,  /* Distinct keys. */
	WH_BENCH_BATCH = 100,  /* Messages that the load enqueues in one transaction. */
	WH_BENCH_RATE = 200,   /* Messages a second, while latency is measured. */
	WH_BENCH_PROBES = 1000 /* Limit of messages whose latency is measured. */
};

/* Memory that the processes share. */
typedef struct wh_bench_shared {
	double enqueue_rate, drain_rate; /* Messages a second. */
	/* The most memory that the relay had while draining. */
	int64_t memory_kb;
	double p50_ms, p99_ms;
	char failure[240]; /* Why a part failed; "": no part failed. */
	_Atomic int64_t committed_us[WH_BENCH_PROBES];
	_Atomic int64_t arrived_us[WH_BENCH_PROBES];
	/* Number of messages sent, of messages that arrived. */
	_Atomic int64_t sent, arrived;
	atomic_bool ready; /* The relay is ready. */
} wh_bench_shared;

typedef struct wh_bench wh_bench;

/* A part, which runs in a separate process and fills b->shared. */
typedef wherry_code (*wh_bench_fn)(wh_bench *b, wherry_error *err);

struct wh_bench {
	const char *url;
	wherry_config *config;
	int64_t messages;
	/* Messages whose latency is measured, 1 to WH_BENCH_PROBES. */
	int64_t probes;
	/* Messages a second while latency is measured; 0: WH_BENCH_RATE. */
	int rate;
	wh_bench_fn consume; /* The part that takes the messages; NULL: a relay. */
	wh_bench_shared *shared;
};

/* Create the outbox; it must be empty. */
wherry_code wh_bench_prepare(wh_bench *b, wherry_error *err);
wherry_code wh_bench_enqueue(wh_bench *b, wherry_error *err);
wherry_code wh_bench_drain(wh_bench *b, wherry_error *err);
wherry_code wh_bench_latency(wh_bench *b, wherry_error *err);
wherry_code wh_bench_clean(wh_bench *b, wherry_error *err); /* Delete the messages. */

/* A message of the bench.  Its number determines its body and key. */
typedef struct wh_bench_message {
	char body[256];
	char key[24];
	wherry_message message;
} wh_bench_message;

void wh_bench_fill(wh_bench_message *m, int64_t number);

/* Record when the message with this body arrived.  True: all messages have arrived. */
bool wh_bench_arrived(wh_bench *b, const char *body);

/* The number at the beginning of text, behind blanks. */
int64_t wh_bench_digits(const char *text);

/* Start a part in a process that is killed when its parent ends.  Returns its process id;
 * -1: fork failed. */
int wh_bench_start(wh_bench *b, wh_bench_fn fn);

/* Open the outbox that the bench works on. */
wherry_code wh_bench_open(wh_bench *b, wherry_db **out_db, wherry_outbox **out_outbox,
			  wherry_error *err);

#endif
