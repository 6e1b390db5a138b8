/*
 * Queues and delayed queues by Wherry's library.  Messages that are received were sent before
 * the clock starts.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

#include "base/env.h"

enum { AT_ONCE = 1000, TOKEN = 64 };

typedef struct session {
	wherry_config *config;
	wherry_db *db;
	wherry_queue *queue; /* one of these is NULL */
	wherry_delayed *delayed;
	char token[TOKEN]; /* of the lease */
	int64_t ids[AT_ONCE];
	char tokens[AT_ONCE][TOKEN]; /* of delayed messages */
	int64_t n;                   /* received at once */
} session;

static wherry_code open_session(const bench_job *job, session *s, wherry_error *err)
{
	bool postgres = strncmp(job->url, "postgres:", 9) == 0;
	const wherry_queue_options options =
		WHERRY_QUEUE_OPTIONS(.payload = postgres ? "text" : NULL);
	wherry_code code = wherry_config_new(&s->config, err);

	if (code == WHERRY_OK)
		code = wherry_config_set(s->config, "db.synchronous", "full", err);
	if (code == WHERRY_OK)
		code = wherry_db_open(job->url, s->config, &s->db, err);
	if (code != WHERRY_OK)
		return code;
	if (job->delayed) {
		code = wherry_delayed_create(s->db, "later", NULL, err);
		return code == WHERRY_OK ? wherry_delayed_open(s->db, "later", "bench",
							       NULL, &s->delayed, err)
					 : code;
	}
	code = wherry_queue_create(s->db, "jobs", &options, err);
	return code == WHERRY_OK ? wherry_queue_open(s->db, "jobs", &s->queue, err)
				 : code;
}

static void close_session(session *s)
{
	wherry_delayed_close(s->delayed);
	wherry_queue_close(s->queue);
	wherry_db_close(s->db);
	wherry_config_free(s->config);
}

/* ---- send ---- */

static wherry_code send_queue(session *s, char (*bodies)[BENCH_BODY + 1], size_t n,
			      wherry_error *err)
{
	wherry_queue_message *msgs = calloc(n, sizeof(*msgs));
	wherry_code code;

	if (!msgs)
		return wh_oom(err);
	for (size_t i = 0; i < n; i++)
		msgs[i] = WHERRY_QUEUE_MESSAGE(.body = bodies[i], .body_len = BENCH_BODY);
	code = n == 1 ? wherry_queue_send(s->queue, msgs, NULL, err)
		      : wherry_queue_send_many(s->queue, msgs, n, NULL, err);
	free(msgs);
	return code;
}

static wherry_code send_delayed(session *s, char (*bodies)[BENCH_BODY + 1], size_t n,
				wherry_error *err)
{
	wherry_delayed_message *msgs = calloc(n, sizeof(*msgs));
	char(*keys)[16] = calloc(n, sizeof(*keys));
	wherry_code code = msgs && keys ? WHERRY_OK : wh_oom(err);

	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%.12s", bodies[i]);
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = bodies[i],
						 .body_len = BENCH_BODY, .at_us = 1000);
	}
	if (code == WHERRY_OK)
		code = n == 1 ? wherry_delayed_offer(s->delayed, msgs, NULL, err)
			      : wherry_delayed_offer_many(s->delayed, msgs, n, NULL, err);
	free(keys);
	free(msgs);
	return code;
}

static wherry_code send_all(session *s, int64_t messages, int64_t at_once,
			    wherry_error *err)
{
	char(*bodies)[BENCH_BODY + 1] = calloc((size_t)at_once, sizeof(*bodies));
	wherry_code code = bodies ? WHERRY_OK : wh_oom(err);

	for (int64_t i = 0; code == WHERRY_OK && i < messages;) {
		size_t n = 0;

		for (; n < (size_t)at_once && i < messages; n++, i++)
			bench_write_body(i, bodies[n]);
		code = s->queue ? send_queue(s, bodies, n, err)
				: send_delayed(s, bodies, n, err);
	}
	free(bodies);
	return code;
}

/* ---- receive ---- */

static wherry_code note(void *ctx, const wherry_queue_message *msg)
{
	session *s = ctx;

	(void)snprintf(s->token, sizeof(s->token), "%s", msg->token ? msg->token : "");
	s->ids[s->n++] = msg->id;
	return WHERRY_OK;
}

static wherry_code note_delayed(void *ctx, const wherry_delayed_message *msg)
{
	session *s = ctx;

	(void)snprintf(s->tokens[s->n++], TOKEN, "%s", msg->token);
	return WHERRY_OK;
}

static wherry_code poll(session *s, int64_t most, wherry_error *err)
{
	const wherry_poll_options how = WHERRY_POLL_OPTIONS(.limit = most);
	const char *tokens[AT_ONCE];
	wherry_ack_outcome outcomes[AT_ONCE];
	int64_t n;
	wherry_code code =
		wherry_delayed_poll(s->delayed, &how, note_delayed, s, &n, err);

	for (int64_t i = 0; i < s->n; i++)
		tokens[i] = s->tokens[i];
	return code == WHERRY_OK && s->n ? wherry_delayed_ack(s->delayed, tokens,
							      (size_t)s->n, outcomes, err)
					 : code;
}

static wherry_code receive(session *s, bench_queue what, int64_t most, wherry_error *err)
{
	const wherry_receive_options how =
		WHERRY_RECEIVE_OPTIONS(.mode = what == BENCH_TAKE ? WHERRY_ATOMIC
								  : WHERRY_LEASE,
				       .limit = most);
	wherry_code code = what == BENCH_TAKE ? wherry_db_begin(s->db, err) : WHERRY_OK;
	int64_t n;

	if (code == WHERRY_OK)
		code = wherry_queue_receive(s->queue, &how, note, s, &n, err);
	if (code == WHERRY_OK && what == BENCH_TAKE)
		return wherry_db_commit(s->db, err);
	if (code == WHERRY_OK && s->n)
		code = wherry_queue_ack(s->queue, s->token, s->ids, (size_t)s->n, NULL,
					err);
	return code;
}

static wherry_code receive_all(session *s, const bench_job *job, wherry_error *err)
{
	int64_t got = 0;
	wherry_code code = WHERRY_OK;

	do {
		s->n = 0;
		code = s->queue ? receive(s, job->queue, job->per_transaction, err)
				: poll(s, job->per_transaction, err);
		got += s->n;
	} while (code == WHERRY_OK && s->n);
	if (code == WHERRY_OK && got != job->messages)
		code = wh_fail(err, WHERRY_INVALID,
			       "%" PRId64 " of %" PRId64 " were received", got,
			       job->messages);
	return code;
}

/* Another program's transaction: a handler has a message of the queue and goes on; of a delayed
 * queue, somebody has offered one for later. */
static wherry_code hold(session *other, const bench_job *job, wherry_error *err)
{
	char body[1][BENCH_BODY + 1];
	wherry_delayed_message later =
		WHERRY_DELAYED_MESSAGE(.key = "later", .body = body[0],
				       .body_len = BENCH_BODY, .at_us = 4102444800000000);
	wherry_code code = open_session(job, other, err);

	bench_write_body(0, body[0]);
	if (code == WHERRY_OK && !job->delayed)
		code = send_queue(other, body, 1, err);
	if (code == WHERRY_OK)
		code = wherry_db_begin(other->db, err);
	if (code == WHERRY_OK && job->delayed)
		return wherry_delayed_offer(other->delayed, &later, NULL, err);
	if (code == WHERRY_OK) {
		const wherry_receive_options how =
			WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_ATOMIC, .limit = 1);

		code = wherry_queue_receive(other->queue, &how, note, other, NULL, err);
	}
	if (code == WHERRY_OK && other->n != 1)
		code = wh_fail(err, WHERRY_INVALID, "the handler received nothing");
	return code;
}

wherry_code bench_wherry_queue(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	bool sends = job->queue == BENCH_SEND;
	session *s = calloc(2, sizeof(*s)); /* the second: another program's */
	wherry_code code = s ? open_session(job, s, err) : wh_oom(err);
	int64_t began;

	if (code == WHERRY_OK && job->crowded)
		code = hold(s + 1, job, err);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = send_all(s, job->messages, sends ? job->per_transaction : AT_ONCE,
				err);
	if (code == WHERRY_OK && !sends) {
		began = wh_monotonic(&wh_env_system);
		code = receive_all(s, job, err);
	}
	out[0] = bench_rate(job->messages, began);
	if (s) {
		close_session(s);
		close_session(s + 1);
	}
	free(s);
	return code;
}
