/*
 * transactional.id=NAME: readers see messages when their transaction is committed.  Only
 * then do the messages count as delivered.
 *
 * librdkafka's calls for transactions wait for a broker.  So each client has a thread
 * that makes them, in work(), and signals the client's eventfd.  All other code runs on
 * the relay's thread.
 *
 *              init_transactions          all that was handed is reported
 *   STARTING ─────────────────────► OPEN ────────────────────────────────► COMMITTING
 *                                    ▲                                          │
 *                                    └──────────────────────────────────────────┘
 *                                        committed; the next one has begun
 *
 *   STARTING    taken messages wait (wh_kafka_job.unmade).
 *   OPEN        messages are handed over, for at most LONGEST_US.
 *   COMMITTING  taken messages wait.
 *
 * A failure ends the client, as without transactions, and aborts its transaction.  If no
 * broker answers the abort, the next client with the same name aborts it in
 * init_transactions.
 */
#include "publish/kafka/kafka.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/thread.h"

enum {
	PATIENCE_MS = 500,   /* Time-out of a call; it is then made again. */
	AGAIN_MS = 20,       /* Pause between two calls. */
	ABORT_MS = 1000,     /* For an abort when the client ends. */
	LONGEST_US = 100000, /* Until a transaction takes no more messages. */
	NS_PER_MS = 1000000,
	MS_PER_S = 1000
};

typedef enum { NOTHING, START, COMMIT } wish;

typedef enum stage { STARTING, OPEN, COMMITTING } stage;

typedef struct answer {
	bool given, committed;
	rd_kafka_resp_err_t code; /* Error of the call; 0: none. */
	char why[160];
} answer;

struct wh_kafka_transaction {
	rd_kafka_t *rk;
	int fd; /* Written to with each answer. */
	pthread_t thread;
	pthread_mutex_t lock; /* Guards wanted, leaving and answer. */
	pthread_cond_t changed;
	wish wanted;
	bool leaving;
	answer answer;

	/* Used by the relay's thread only. */
	stage stage;
	int64_t since_us; /* OPEN: when its first message was handed over. */
	bool closed;      /* OPEN: it takes no more messages. */
};

/* ---- the thread ---- */

/* Pause.  False: the client is ending. */
static bool may_go_on(wh_kafka_transaction *t)
{
	struct timespec until;
	bool on;

	(void)timespec_get(&until, TIME_UTC);
	until.tv_nsec += (long)AGAIN_MS * NS_PER_MS;
	if (until.tv_nsec >= (long)MS_PER_S * NS_PER_MS) {
		until.tv_nsec -= (long)MS_PER_S * NS_PER_MS;
		until.tv_sec++;
	}
	(void)pthread_mutex_lock(&t->lock);
	if (!t->leaving)
		(void)pthread_cond_timedwait(&t->changed, &t->lock, &until);
	on = !t->leaving;
	(void)pthread_mutex_unlock(&t->lock);
	return on;
}

/* Repeat a call until it succeeds or fails for good.  After a time-out, the next call
 * goes on where the last one stopped. */
static rd_kafka_error_t *insist(wh_kafka_transaction *t,
				rd_kafka_error_t *(*call)(rd_kafka_t *rk, int timeout_ms))
{
	rd_kafka_error_t *error;

	while ((error = call(t->rk, PATIENCE_MS)) && rd_kafka_error_is_retriable(error) &&
	       may_go_on(t))
		rd_kafka_error_destroy(error);
	return error;
}

static answer grant_wish(wh_kafka_transaction *t, wish wanted)
{
	rd_kafka_error_t *error =
		insist(t, wanted == START ? rd_kafka_init_transactions
					  : rd_kafka_commit_transaction);
	answer out = {.given = true, .committed = wanted == COMMIT && !error};

	if (!error)
		error = rd_kafka_begin_transaction(t->rk);
	if (!error)
		return out;
	out.code = rd_kafka_error_code(error);
	(void)snprintf(out.why, sizeof(out.why), "%.150s", rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return out;
}

static void *work(void *arg)
{
	wh_kafka_transaction *t = arg;

	(void)pthread_mutex_lock(&t->lock);
	while (!t->leaving) {
		wish wanted = t->wanted;
		answer out;

		if (wanted == NOTHING) {
			(void)pthread_cond_wait(&t->changed, &t->lock);
			continue;
		}
		(void)pthread_mutex_unlock(&t->lock);
		out = grant_wish(t, wanted);
		(void)pthread_mutex_lock(&t->lock);
		t->wanted = NOTHING;
		t->answer = out;
		(void)eventfd_write(t->fd, 1);
	}
	(void)pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void ask(wh_kafka_transaction *t, wish wanted)
{
	(void)pthread_mutex_lock(&t->lock);
	t->wanted = wanted;
	(void)pthread_cond_signal(&t->changed);
	(void)pthread_mutex_unlock(&t->lock);
}

/* ---- its beginning and end ---- */

wh_kafka_transaction *wh_kafka_transaction_new(rd_kafka_t *rk, int fd)
{
	wh_kafka_transaction *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->rk = rk;
	t->fd = fd;
	t->wanted = START;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->changed, NULL);
	if (wh_thread_start(&t->thread, WH_JOINED, work, t))
		return t;
	(void)pthread_cond_destroy(&t->changed);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
	return NULL;
}

/* librdkafka can abort only when all delivery reports were collected. */
static void abort_open(rd_kafka_t *rk, rd_kafka_queue_t *queue)
{
	rd_kafka_event_t *event;
	rd_kafka_error_t *error;

	while (rd_kafka_outq_len(rk) && (event = rd_kafka_queue_poll(queue, ABORT_MS)))
		rd_kafka_event_destroy(event);
	error = rd_kafka_abort_transaction(rk, ABORT_MS);
	if (error)
		rd_kafka_error_destroy(error);
}

void wh_kafka_transaction_end(wh_kafka_transaction *t, rd_kafka_queue_t *queue)
{
	(void)pthread_mutex_lock(&t->lock);
	t->leaving = true;
	(void)pthread_cond_signal(&t->changed);
	(void)pthread_mutex_unlock(&t->lock);
	(void)pthread_join(t->thread, NULL);
	abort_open(t->rk, queue);
	(void)pthread_cond_destroy(&t->changed);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- its course ---- */

/* After one message has to wait, all later ones wait too: otherwise they could overtake
 * it in its key. */
bool wh_kafka_transaction_takes(wh_kafka *p, const wherry_message *msg)
{
	wh_kafka_transaction *t = p->client->transaction;
	bool empty = !p->handed && !p->sent, apart = p->alone || msg->id == p->apart;
	int64_t now = wh_monotonic(p->env);

	if (!t || t->stage != OPEN)
		return false;
	if (empty) {
		t->since_us = now;
		t->closed = apart;
		return true;
	}
	t->closed = t->closed || apart || now - t->since_us >= LONGEST_US;
	return !t->closed;
}

bool wh_kafka_transaction_commits(const wh_kafka *p)
{
	return p->sent && p->client->transaction &&
	       p->client->transaction->stage == COMMITTING;
}

/* The transaction is committed: its messages are delivered. */
static void deliver_sent(wh_kafka *p)
{
	for (wh_kafka_job *job = wh_kafka_first(p), *next; job && p->sent; job = next) {
		next = wh_kafka_next(job);
		if (job->stage != WH_KAFKA_SENT)
			continue;
		wh_flights_remove(&p->open, &job->flight);
		wh_kafka_answer(p, job, WHERRY_DELIVERED, NULL);
		p->sent--;
		if (job->flight.message->id == p->apart)
			p->apart = 0;
	}
	p->stats.transactions++;
}

static void take_answer(wh_kafka *p, wh_kafka_transaction *t)
{
	const wh_kafka_error *error;
	answer got;

	(void)pthread_mutex_lock(&t->lock);
	got = t->answer;
	t->answer = (answer){0};
	(void)pthread_mutex_unlock(&t->lock);
	if (!got.given)
		return;
	if (got.committed)
		deliver_sent(p);
	if (!got.code) {
		t->stage = OPEN;
		if (!p->failing)
			wh_kafka_hand_on_unmade(p);
		return;
	}
	error = wh_kafka_error_find(got.code);
	wh_kafka_break_off(p, wh_kafka_code_of(error->meaning), got.code, got.why,
			   error->advice);
}

void wh_kafka_transaction_step(wh_kafka *p)
{
	wh_kafka_transaction *t = p->client->transaction;

	take_answer(p, t);
	if (t->stage != OPEN || p->handed || !p->sent || p->failing ||
	    p->error.code != WHERRY_OK)
		return;
	t->stage = COMMITTING;
	ask(t, COMMIT);
}

/* ---- when it failed ---- */

static bool was_in(const wh_kafka_job *job)
{
	return job->stage == WH_KAFKA_SENT || job->stage == WH_KAFKA_FAILED;
}

/* Why the transaction cannot be committed.  No error: it can be, or a message's error
 * says why.  Beginning another transaction fails with the cause, and changes nothing. */
static rd_kafka_resp_err_t find_cause(wh_kafka *p)
{
	rd_kafka_error_t *error;
	rd_kafka_resp_err_t code;

	for (const wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job))
		if (job->stage == WH_KAFKA_FAILED &&
		    wh_kafka_error_find(job->error)->meaning != WH_KAFKA_INNOCENT)
			return RD_KAFKA_RESP_ERR_NO_ERROR;
	error = rd_kafka_begin_transaction(p->client->rk);
	if (!error)
		return RD_KAFKA_RESP_ERR_NO_ERROR;
	code = rd_kafka_error_code(error);
	if ((!rd_kafka_error_txn_requires_abort(error) &&
	     !rd_kafka_error_is_fatal(error)) ||
	    wh_kafka_error_find(code)->meaning == WH_KAFKA_INNOCENT) /* We purged it. */
		code = RD_KAFKA_RESP_ERR_NO_ERROR;
	rd_kafka_error_destroy(error);
	return code;
}

/* If a partition may not take part, librdkafka returns all messages without an error for
 * any of them.  A message that is alone in its transaction gets the error. */
void wh_kafka_transaction_blame(wh_kafka *p)
{
	wh_kafka_transaction *t = p->client->transaction;
	rd_kafka_resp_err_t cause =
		t->stage == OPEN ? find_cause(p) : RD_KAFKA_RESP_ERR_NO_ERROR;

	if (!cause)
		return;
	for (wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job)) {
		if (!was_in(job))
			continue;
		if (p->alone || wh_kafka_error_find(cause)->meaning > WH_KAFKA_DENIED) {
			job->stage = WH_KAFKA_FAILED;
			job->error = cause;
		} else if (job->flight.message->id > p->alone_until) {
			p->alone_until = job->flight.message->id;
		}
	}
}
