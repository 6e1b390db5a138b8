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
	wherry_config *config;
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

	(void)what;
	(void)err;
	s->n_statements +=
		strcmp(op, "run") == 0 && now_us >= s->from_us && now_us < s->to_us;
	return WHERRY_OK;
}

static wherry_code open_session(const bench_job *job, session *s, wherry_error *err)
{
	const wh_trace trace = {.before = count_call, .ctx = s};
	size_t most = job->messages > POLLS ? (size_t)job->messages : POLLS;
	wherry_db *bare = NULL;
	wherry_code code;

	s->took_us = calloc(most, sizeof(*s->took_us));
	code = s->took_us ? wherry_config_new(&s->config, err) : wh_oom(err);
	if (code == WHERRY_OK)
		code = wherry_config_set(s->config, "db.synchronous", "full", err);
	if (code == WHERRY_OK)
		code = wherry_db_open(job->url, s->config, &bare, err);
	if (code == WHERRY_OK)
		code = wh_db_trace(bare, &trace, &s->db, err);
	if (code != WHERRY_OK) {
		wherry_db_close(bare);
		return code;
	}
	code = wherry_delayed_create(s->db, "later", NULL, err);
	return code == WHERRY_OK ? wherry_delayed_open(s->db, "later", "bench", NULL,
						       &s->queue, err)
				 : code;
}

static wherry_code close_session(session *s, wherry_code code)
{
	wherry_delayed_close(s->queue);
	wherry_db_close(s->db);
	wherry_config_free(s->config);
	free(s->took_us);
	free(s);
	return code;
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
	(void)s;
	return base_us + FAR_US + number;
}

static int64_t due_before(const session *s, int64_t number, int64_t base_us)
{
	(void)s;
	return base_us - FAR_US + number * 1000;
}

/* Offer messages with numbers from `first`. */
static wherry_code offer_all(session *s, int64_t first, int64_t n, due_fn due,
			     int64_t base_us, wherry_error *err)
{
	wherry_delayed_message *msgs = calloc(AT_ONCE, sizeof(*msgs));
	char(*bodies)[BENCH_BODY + 1] = calloc(AT_ONCE, sizeof(*bodies));
	char(*keys)[24] = calloc(AT_ONCE, sizeof(*keys));
	wherry_code code = msgs && bodies && keys ? WHERRY_OK : wh_oom(err);

	for (int64_t i = 0; code == WHERRY_OK && i < n;) {
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
		code = wherry_delayed_offer_many(s->queue, msgs, k, NULL, err);
	}
	free(keys);
	free(bodies);
	free(msgs);
	return code;
}

/* ---- polls ---- */

static wherry_code note(void *ctx, const wherry_delayed_message *msg)
{
	session *s = ctx;

	s->took_us[s->n++] = wh_now(&wh_env_system) - msg->at_us;
	(void)snprintf(s->tokens[s->n_tokens++], TOKEN, "%s", msg->token);
	return WHERRY_OK;
}

static wherry_code poll(session *s, int64_t most, wherry_error *err)
{
	const wherry_poll_options how = WHERRY_POLL_OPTIONS(.limit = most);

	s->n_tokens = 0;
	return wherry_delayed_poll(s->queue, &how, note, s, NULL, err);
}

static wherry_code ack(session *s, wherry_error *err)
{
	const char *tokens[AT_ONCE];
	wherry_ack_outcome outcomes[AT_ONCE];

	for (size_t i = 0; i < s->n_tokens; i++)
		tokens[i] = s->tokens[i];
	return s->n_tokens
		       ? wherry_delayed_ack(s->queue, tokens, s->n_tokens, outcomes, err)
		       : WHERRY_OK;
}

wherry_code bench_delayed_lateness(const bench_job *job, double out[BENCH_VALUES],
				   wherry_error *err)
{
	session *s = calloc(1, sizeof(*s));
	wherry_code code = s ? open_session(job, s, err) : wh_oom(err);

	if (!s)
		return code;
	s->n = job->messages; /* the span */
	if (code == WHERRY_OK)
		code = offer_all(s, 0, job->messages, due_at_random,
				 wh_now(&wh_env_system) + LEAD_US, err);
	s->n = 0;
	while (code == WHERRY_OK && s->n < job->messages) {
		bool any;

		code = wherry_delayed_wait(s->queue, 10 * WH_SECOND, &any, err);
		if (code == WHERRY_OK && any)
			code = poll(s, AT_ONCE, err);
		if (code == WHERRY_OK && any)
			code = ack(s, err);
	}
	out[0] = part_ms(s, 50);
	out[1] = part_ms(s, 99);
	return close_session(s, code);
}

/* One message waits for a year, and a consumer for the message.  On PostgreSQL it looks a few times
 * before it sleeps, which is not part of being idle. */
wherry_code bench_delayed_idle(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	enum { SETTLE_US = 1000000 };
	session *s = calloc(1, sizeof(*s));
	wherry_code code = s ? open_session(job, s, err) : wh_oom(err);
	int64_t idle_us = job->seconds * WH_SECOND;
	bool any;

	if (!s)
		return code;
	if (code == WHERRY_OK)
		code = offer_all(s, 0, 1, due_never, wh_now(&wh_env_system), err);
	s->from_us = wh_monotonic(&wh_env_system) + SETTLE_US;
	s->to_us = s->from_us + idle_us;
	if (code == WHERRY_OK)
		code = wherry_delayed_wait(s->queue, idle_us + 2 * SETTLE_US, &any, err);
	out[0] = (double)s->n_statements * 60 / (double)job->seconds;
	return close_session(s, code);
}

/* job->messages wait for a year; messages that are due are polled one at a time.  The number is that
 * of polls a second by the median of their times: acknowledgements, and disks that are slow now and
 * then, do not count. */
wherry_code bench_delayed_polls(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err)
{
	session *s = calloc(1, sizeof(*s));
	wherry_code code = s ? open_session(job, s, err) : wh_oom(err);
	int64_t took_us[POLLS], half_us, now = wh_now(&wh_env_system);

	if (!s)
		return code;
	if (code == WHERRY_OK)
		code = offer_all(s, POLLS, job->messages, due_never, now, err);
	if (code == WHERRY_OK)
		code = offer_all(s, 0, POLLS, due_before, now, err);
	for (int64_t i = 0; code == WHERRY_OK && i < POLLS; i++) {
		int64_t began_us = wh_monotonic(&wh_env_system);

		code = poll(s, 1, err);
		took_us[i] = wh_monotonic(&wh_env_system) - began_us;
		if (code == WHERRY_OK)
			code = ack(s, err);
	}
	qsort(took_us, POLLS, sizeof(*took_us), compare);
	half_us = took_us[POLLS / 2];
	out[0] = 1e6 / (double)(half_us + 1);
	if (code == WHERRY_OK && s->n != POLLS)
		code = wh_fail(err, WHERRY_INVALID, "%" PRId64 " of %d were polled", s->n,
			       POLLS);
	return close_session(s, code);
}
