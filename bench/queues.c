/*
 * Queues and delayed queues by Wherry's library.  Messages that are received were sent before
 * the clock starts.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum { AT_ONCE = 1000, TOKEN = 64 };

typedef struct session {
	wherry_db *db;
	wherry_queue *queue; /* one of these is NULL */
	wherry_delayed *delayed;
	char token[TOKEN]; /* of the lease */
	int64_t ids[AT_ONCE];
	char tokens[AT_ONCE][TOKEN]; /* of delayed messages */
	int64_t n;                   /* received at once */
} session;

static session *open_session(const bench_job *job)
{
	bool postgres = strncmp(job->url, "postgres:", 9) == 0;
	const wherry_queue_options options =
		WHERRY_QUEUE_OPTIONS(.payload = postgres ? "text" : NULL);
	session *s = bench_alloc(1, sizeof(*s));

	s->db = bench_open(job, bench_config(job));
	if (job->delayed) {
		bench_must(wherry_delayed_create(s->db, "later", NULL, &bench_error));
		bench_must(wherry_delayed_open(s->db, "later", "bench", NULL, &s->delayed,
					       &bench_error));
	} else {
		bench_must(wherry_queue_create(s->db, "jobs", &options, &bench_error));
		bench_must(wherry_queue_open(s->db, "jobs", &s->queue, &bench_error));
	}
	return s;
}

/* ---- send ---- */

static void send_queue(session *s, char (*bodies)[BENCH_BODY + 1], size_t n)
{
	static wherry_queue_message msgs[AT_ONCE];

	for (size_t i = 0; i < n; i++)
		msgs[i] = WHERRY_QUEUE_MESSAGE(.body = bodies[i], .body_len = BENCH_BODY);
	bench_must(
		n == 1 ? wherry_queue_send(s->queue, msgs, NULL, &bench_error)
		       : wherry_queue_send_many(s->queue, msgs, n, NULL, &bench_error));
}

static void send_delayed(session *s, char (*bodies)[BENCH_BODY + 1], size_t n)
{
	static wherry_delayed_message msgs[AT_ONCE];
	static char keys[AT_ONCE][16];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%.12s", bodies[i]);
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = bodies[i],
						 .body_len = BENCH_BODY, .at_us = 1000);
	}
	bench_must(n == 1 ? wherry_delayed_offer(s->delayed, msgs, NULL, &bench_error)
			  : wherry_delayed_offer_many(s->delayed, msgs, n, NULL,
						      &bench_error));
}

static void send_all(session *s, int64_t messages, int64_t at_once)
{
	static char bodies[AT_ONCE][BENCH_BODY + 1];

	for (int64_t i = 0; i < messages;) {
		size_t n = 0;

		for (; n < (size_t)at_once && i < messages; n++, i++)
			bench_write_body(i, bodies[n]);
		if (s->queue)
			send_queue(s, bodies, n);
		else
			send_delayed(s, bodies, n);
	}
}

/* ---- receive ---- */

static wherry_code keep(void *ctx, const wherry_queue_message *msg)
{
	session *s = ctx;

	(void)snprintf(s->token, sizeof(s->token), "%s", msg->token ? msg->token : "");
	s->ids[s->n++] = msg->id;
	return WHERRY_OK;
}

static wherry_code keep_delayed(void *ctx, const wherry_delayed_message *msg)
{
	session *s = ctx;

	(void)snprintf(s->tokens[s->n++], TOKEN, "%s", msg->token);
	return WHERRY_OK;
}

static void poll(session *s, int64_t most)
{
	const wherry_poll_options how = WHERRY_POLL_OPTIONS(.limit = most);
	const char *tokens[AT_ONCE];
	wherry_ack_outcome outcomes[AT_ONCE];
	int64_t n;

	bench_must(
		wherry_delayed_poll(s->delayed, &how, keep_delayed, s, &n, &bench_error));
	for (int64_t i = 0; i < s->n; i++)
		tokens[i] = s->tokens[i];
	if (s->n)
		bench_must(wherry_delayed_ack(s->delayed, tokens, (size_t)s->n, outcomes,
					      &bench_error));
}

static void receive(session *s, bool take, int64_t most)
{
	const wherry_receive_options how =
		WHERRY_RECEIVE_OPTIONS(.mode = take ? WHERRY_ATOMIC : WHERRY_LEASE,
				       .limit = most);
	int64_t n;

	if (take)
		bench_must(wherry_db_begin(s->db, &bench_error));
	bench_must(wherry_queue_receive(s->queue, &how, keep, s, &n, &bench_error));
	if (take)
		bench_must(wherry_db_commit(s->db, &bench_error));
	else if (s->n)
		bench_must(wherry_queue_ack(s->queue, s->token, s->ids, (size_t)s->n,
					    NULL, &bench_error));
}

static void receive_all(session *s, const bench_job *job)
{
	int64_t got = 0;

	do {
		s->n = 0;
		if (s->queue)
			receive(s, job->queue == BENCH_TAKE, job->per_transaction);
		else
			poll(s, job->per_transaction);
		got += s->n;
	} while (s->n);
	bench_must_be_all(job, got);
}

/* Another program's transaction: a handler has a message of the queue and goes on; of a delayed
 * queue, somebody has offered one for later. */
static void hold(const bench_job *job)
{
	char body[1][BENCH_BODY + 1];
	const wherry_receive_options how =
		WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_ATOMIC, .limit = 1);
	wherry_delayed_message later =
		WHERRY_DELAYED_MESSAGE(.key = "later", .body = body[0],
				       .body_len = BENCH_BODY, .at_us = 4102444800000000);
	session *other = open_session(job);

	bench_write_body(0, body[0]);
	if (!job->delayed)
		send_queue(other, body, 1);
	bench_must(wherry_db_begin(other->db, &bench_error));
	bench_must(job->delayed ? wherry_delayed_offer(other->delayed, &later, NULL,
						       &bench_error)
				: wherry_queue_receive(other->queue, &how, keep, other,
						       NULL, &bench_error));
	if (!job->delayed && other->n != 1)
		bench_die("the handler received nothing");
}

void bench_wherry_queue(const bench_job *job, double *out)
{
	bool sends = job->queue == BENCH_SEND;
	session *s = open_session(job);
	int64_t began;

	if (job->crowded)
		hold(job);
	began = bench_now();
	send_all(s, job->messages, sends ? job->per_transaction : AT_ONCE);
	if (!sends) {
		began = bench_now();
		receive_all(s, job);
	}
	out[0] = bench_rate(job->messages, began);
	free(s);
}
