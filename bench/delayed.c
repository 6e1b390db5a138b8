/*
 * Delayed queues by Wherry's library: how late messages come, what waiting costs, and whether messages
 * that wait slow a poll.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "db/driver.h"
#include "db/trace.h"

enum {
	AT_ONCE = 1000,
	TOKEN = 64,
	SPREAD_US = 10000, /* mean distance of the times of two messages */
	LEAD_US = 2000000, /* from the first offer to the first time */
	POLLS = 1000       /* timed */
};

#define FAR_US (365LL * 86400 * WH_SECOND)

typedef struct session {
	wherry_db *db;
	wherry_delayed *queue;
	int64_t n_statements; /* that the connection ran, between these times, monotonic */
	int64_t from_us, to_us;
	int64_t *took_us; /* how late each message came, or how long each poll took */
	int64_t n;
	char tokens[AT_ONCE][TOKEN]; /* of messages polled at once */
	size_t n_tokens;
} session;

/* Part of wh_trace. */
static wherry_code count_call(void *ctx, const char *op, const char *what,
			      wherry_error *err)
{
	session *s = ctx;
	int64_t now_us = wh_monotonic(&wh_env_system);

	s->n_statements +=
		strcmp(op, "run") == 0 && now_us >= s->from_us && now_us < s->to_us;
	return WHERRY_OK;
}

static session *open_session(const bench_job *job)
{
	session *s = bench_alloc(1, sizeof(*s));
	const wh_trace trace = {.before = count_call, .ctx = s};
	size_t most = job->messages > POLLS ? (size_t)job->messages : POLLS;

	s->took_us = bench_alloc(most, sizeof(*s->took_us));
	bench_must(wh_db_trace(bench_open(job, bench_config(job)), &trace, &s->db,
			       &bench_error));
	bench_must(wherry_delayed_create(s->db, "later", NULL, &bench_error));
	bench_must(wherry_delayed_open(s->db, "later", "bench", NULL, &s->queue,
				       &bench_error));
	return s;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The number below which so many of 100 are, in milliseconds. */
static double part_ms(session *s, int64_t of_100)
{
	int64_t at;

	if (!s->n)
		return 0;
	qsort(s->took_us, (size_t)s->n, sizeof(*s->took_us), compare);
	at = (s->n - 1) * of_100 / 100;
	return (double)s->took_us[at] / 1000;
}

/* ---- offers ---- */

/* When a message is due. */
typedef int64_t (*due_fn)(const session *s, int64_t number, int64_t base_us);

/* Any time of the span, the same in each run. */
static int64_t due_at_random(const session *s, int64_t number, int64_t base_us)
{
	uint64_t x = ((uint64_t)number + 1) * 0x9e3779b97f4a7c15u;
	int64_t span_us = s->n * SPREAD_US;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 32;
	return base_us + (int64_t)(x % (uint64_t)span_us);
}

static int64_t due_never(const session *s, int64_t number, int64_t base_us)
{
	return base_us + FAR_US + number;
}

static int64_t due_before(const session *s, int64_t number, int64_t base_us)
{
	return base_us - FAR_US + number * 1000;
}

/* Offer messages with numbers from `first`. */
static void offer_all(session *s, int64_t first, int64_t n, due_fn due, int64_t base_us)
{
	static wherry_delayed_message msgs[AT_ONCE];
	static char bodies[AT_ONCE][BENCH_BODY + 1], keys[AT_ONCE][24];

	for (int64_t i = 0; i < n;) {
		size_t k = 0;

		for (; k < AT_ONCE && i < n; k++, i++) {
			bench_write_body(first + i, bodies[k]);
			(void)snprintf(keys[k], sizeof(keys[k]), "%" PRId64, first + i);
			msgs[k] =
				WHERRY_DELAYED_MESSAGE(.key = keys[k], .body = bodies[k],
						       .body_len = BENCH_BODY,
						       .at_us = due(s, first + i,
								    base_us));
		}
		bench_must(
			wherry_delayed_offer_many(s->queue, msgs, k, NULL, &bench_error));
	}
}

/* ---- polls ---- */

static wherry_code keep(void *ctx, const wherry_delayed_message *msg)
{
	session *s = ctx;

	s->took_us[s->n++] = wh_now(&wh_env_system) - msg->at_us;
	(void)snprintf(s->tokens[s->n_tokens++], TOKEN, "%s", msg->token);
	return WHERRY_OK;
}

static void poll(session *s, int64_t most)
{
	const wherry_poll_options how = WHERRY_POLL_OPTIONS(.limit = most);

	s->n_tokens = 0;
	bench_must(wherry_delayed_poll(s->queue, &how, keep, s, NULL, &bench_error));
}

static void ack(session *s)
{
	const char *tokens[AT_ONCE];
	wherry_ack_outcome outcomes[AT_ONCE];

	for (size_t i = 0; i < s->n_tokens; i++)
		tokens[i] = s->tokens[i];
	if (s->n_tokens)
		bench_must(wherry_delayed_ack(s->queue, tokens, s->n_tokens, outcomes,
					      &bench_error));
}

void bench_delayed_lateness(const bench_job *job, double *out)
{
	session *s = open_session(job);
	bool any;

	s->n = job->messages; /* the span */
	offer_all(s, 0, job->messages, due_at_random, wh_now(&wh_env_system) + LEAD_US);
	s->n = 0;
	while (s->n < job->messages) {
		bench_must(wherry_delayed_wait(s->queue, 10 * WH_SECOND, &any,
					       &bench_error));
		if (any) {
			poll(s, AT_ONCE);
			ack(s);
		}
	}
	out[0] = part_ms(s, 50);
	out[1] = part_ms(s, 99);
}

/* One message waits for a year, and a consumer for the message.  On PostgreSQL it looks a few times
 * before it sleeps, which is not part of being idle. */
void bench_delayed_idle(const bench_job *job, double *out)
{
	enum { SETTLE_US = 1000000 };
	session *s = open_session(job);
	int64_t idle_us = job->seconds * WH_SECOND;
	bool any;

	offer_all(s, 0, 1, due_never, wh_now(&wh_env_system));
	s->from_us = bench_now() + SETTLE_US;
	s->to_us = s->from_us + idle_us;
	bench_must(wherry_delayed_wait(s->queue, idle_us + 2 * SETTLE_US, &any,
				       &bench_error));
	out[0] = (double)s->n_statements * 60 / (double)job->seconds;
}

/* job->messages wait for a year; messages that are due are polled one at a time.  The number is that
 * of polls a second by the median of their times: acknowledgements, and disks that are slow now and
 * then, do not count. */
void bench_delayed_polls(const bench_job *job, double *out)
{
	session *s = open_session(job);
	int64_t took_us[POLLS], half_us, now = wh_now(&wh_env_system);

	offer_all(s, POLLS, job->messages, due_never, now);
	offer_all(s, 0, POLLS, due_before, now);
	for (int64_t i = 0; i < POLLS; i++) {
		int64_t began_us = bench_now();

		poll(s, 1);
		took_us[i] = bench_now() - began_us;
		ack(s);
	}
	if (s->n != POLLS)
		bench_die("%" PRId64 " of %d were polled", s->n, POLLS);
	qsort(took_us, POLLS, sizeof(*took_us), compare);
	half_us = took_us[POLLS / 2];
	out[0] = 1e6 / (double)(half_us + 1);
}
