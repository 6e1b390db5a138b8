/*
 * nats: publishes to JetStream and waits for each message's acknowledgement, with many
 * messages in flight.
 *
 * JetStream may refuse a message and take the next one, for example a smaller one when the
 * stream is nearly full, or when the leader of a stream changes.  So WH_PUB_ORDERED is not
 * set: the relay has one message of a key in flight.  If the connection ends, nobody knows
 * which messages were stored.  They are sent again with the same Nats-Msg-Id, and the stream
 * drops those that it has.
 */
#include "publish/nats/nats.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/text.h"
#include "publish/parts.h"
#include "publish/readback.h"

enum {
	GRACE_US = 1000000,   /* For messages in flight when the relay stops. */
	LEFT_MOST = 4,        /* Links that end at the same time. */
	CLOSING_US = 3000000, /* For them to end when the destination is closed. */
	/* The stream drops what it gets twice after a crash, so there may be much. */
	WINDOW = 16000,
	WINDOW_BYTES = 16 << 20,
	ACK_DELAY_US = 20000
};

typedef struct nats {
	wherry_publisher base;
	const wh_env *env;
	wh_nats_settings *set;
	wh_nats_link *link; /* NULL: the next submit makes one. */
	wh_nats_link *left[LEFT_MOST];
	wh_nats_jobs jobs;
	wh_flights open;          /* Messages without a verdict, in order. */
	wh_flights done;          /* Messages with a verdict, for collect. */
	int64_t last_delivery_us; /* Monotonic; 0: none yet. */
	int64_t waited_us;        /* How long the message delivered last was in flight. */
	wherry_error error;       /* Of the destination; returned after all receipts. */
	wh_nats_stats stats;
	size_t max_payload; /* The last one that a server said; 0: none has. */
} nats;

static nats *of(wherry_publisher *pub)
{
	return (nats *)pub;
}

static wh_nats_job *first(const nats *p)
{
	return (wh_nats_job *)p->open.head;
}

static void job_free(wh_nats_job *job)
{
	free(job->flight.reason);
	free(job);
}

static void clear(wh_flights *list)
{
	wh_flight *f;

	while ((f = wh_flights_pop(list)))
		job_free((wh_nats_job *)f);
}

/* ---- opening and closing ---- */

/* Forget links that have ended. */
static void reap(nats *p, int64_t wait_us)
{
	for (int i = 0; i < LEFT_MOST; i++)
		if (p->left[i] && wh_nats_link_free(p->left[i], wait_us))
			p->left[i] = NULL;
}

static wherry_code open_link(nats *p, wherry_error *err)
{
	wherry_code code;

	reap(p, 0);
	code = wh_nats_link_new(p->set, wh_random(p->env), &p->link, err);
	p->stats.links += code == WHERRY_OK;
	return code;
}

static void leave_link(nats *p)
{
	int i = 0;

	if (!p->link)
		return;
	wh_nats_link_leave(p->link);
	reap(p, 0);
	while (i < LEFT_MOST && p->left[i])
		i++;
	if (i < LEFT_MOST)
		p->left[i] = p->link;
	else
		wh_nats_link_abandon(p->link);
	p->link = NULL;
}

static void nats_drop(wherry_publisher *pub)
{
	nats *p = of(pub);

	leave_link(p);
	clear(&p->open);
	clear(&p->done);
	wh_nats_jobs_clear(&p->jobs);
	p->error = (wherry_error)WHERRY_ERROR_INIT;
}

static void nats_close(wherry_publisher *pub)
{
	nats *p = of(pub);

	nats_drop(pub);
	reap(p, CLOSING_US);
	for (int i = 0; i < LEFT_MOST; i++)
		if (p->left[i])
			wh_nats_link_abandon(p->left[i]);
	wh_nats_settings_leave(p->set);
	free(p);
}

static wherry_code check_for(bool secure, const char *rest, const wherry_config *config,
			     wherry_error *err)
{
	wh_nats_settings *set;
	wherry_code code = wh_nats_settings_read(secure, rest, config, &set, err);

	if (code == WHERRY_OK)
		wh_nats_settings_leave(set);
	return code;
}

static wherry_code open_for(const wh_publisher_driver *driver, bool secure,
			    const char *rest, const wherry_config *config,
			    const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	nats *p = calloc(1, sizeof(*p));
	wherry_code code;

	if (!p)
		return wh_oom(err);
	p->base.driver = driver;
	p->env = env;
	code = wh_nats_settings_read(secure, rest, config, &p->set, err);
	if (code == WHERRY_OK)
		code = wh_nats_start(err);
	if (code == WHERRY_OK)
		code = open_link(p, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		nats_close(&p->base);
	return code;
}

/* ---- taking ---- */

static void answer(nats *p, wh_nats_job *job, wherry_verdict verdict, const char *reason)
{
	job->flight.verdict = verdict;
	job->flight.reason = reason ? strdup(reason) : NULL;
	p->stats.failed++;
	wh_flights_append(&p->done, &job->flight);
}

/* Make the message that is sent, and put the job among those in flight.
 * OK and *out NULL: it was refused, and its receipt waits. */
static wherry_code take(nats *p, const wherry_message *msg, natsMsg **out,
			wherry_error *err)
{
	char subject[WH_NATS_SUBJECT_LEN], reply[WH_NATS_REPLY_LEN];
	wh_nats_job *job = calloc(1, sizeof(*job));
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	*out = NULL;
	if (!job || !wh_nats_jobs_add(&p->jobs, job)) {
		free(job);
		return wh_oom(err);
	}
	job->flight.message = msg;
	job->deadline_us = wh_later(wh_monotonic(p->env), p->set->limit_us);
	wh_nats_link_reply(p->link, job->token, reply);
	code = wh_nats_subject(p->set->subject, msg, subject, &why);
	if (code == WHERRY_OK)
		code = wh_nats_message(p->set, msg, subject, reply, out, &why);
	if (code == WHERRY_OK) {
		job->subject = wh_hash(WH_HASH_START, subject, strlen(subject));
		wh_flights_append(&p->open, &job->flight);
		return WHERRY_OK;
	}
	wh_nats_jobs_remove(&p->jobs, job);
	if (code == WHERRY_NOMEM) {
		free(job);
		return wh_oom(err);
	}
	answer(p, job, WHERRY_REJECTED, why.message);
	return WHERRY_OK;
}

/* Take up to WH_NATS_BATCH messages. */
static wherry_code take_some(nats *p, const wherry_message *const *msgs, size_t n,
			     size_t *out_taken, wherry_error *err)
{
	wh_nats_batch *batch = malloc(sizeof(*batch));
	size_t i = 0;
	wherry_code code = WHERRY_OK;

	*out_taken = 0;
	if (!batch)
		return wh_oom(err);
	batch->n = 0;
	for (; i < n && i < WH_NATS_BATCH; i++) {
		natsMsg *msg;

		code = take(p, msgs[i], &msg, err);
		if (code != WHERRY_OK)
			break;
		if (msg)
			batch->msgs[batch->n++] = msg;
	}
	if (batch->n)
		wh_nats_link_send(p->link, batch);
	else
		free(batch);
	*out_taken = i;
	return code;
}

/* Acknowledgements take so long that messages behind those in flight could be late. */
static bool is_slow(const nats *p)
{
	return p->open.n && p->waited_us > p->set->limit_us / 8;
}

static wherry_code nats_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	nats *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t taken = 0;

	if (p->error.code != WHERRY_OK) {
		if (p->open.n)
			return WHERRY_OK; /* collect returns the error. */
		return wh_fail_native(err, p->error.code, p->error.native, "%s",
				      p->error.message);
	}
	if (is_slow(p))
		return WHERRY_OK;
	/* While nothing is in flight, a connection may end without harm. */
	if (p->link && !p->open.n && wh_nats_link_failed(p->link, NULL) != WHERRY_OK)
		leave_link(p);
	if (!p->link)
		code = open_link(p, err);
	while (code == WHERRY_OK && taken < n) {
		size_t some;

		code = take_some(p, msgs + taken, n - taken, &some, err);
		taken += some;
	}
	*out_taken = taken;
	return taken || p->open.n ? WHERRY_OK : code;
}

/* ---- collecting ---- */

static void settle(nats *p, wh_nats_job *job, const wh_nats_answer *answer)
{
	const wherry_message *msg = job->flight.message;
	char subject[WH_NATS_SUBJECT_LEN] = "";

	wh_nats_jobs_remove(&p->jobs, job);
	wh_flights_remove(&p->open, &job->flight);
	if (answer->outcome > WH_NATS_DOUBLED)
		(void)wh_nats_subject(p->set->subject, msg, subject, NULL);
	wh_nats_judge(&job->flight, answer, subject);
	if (job->flight.verdict == WHERRY_DELIVERED) {
		p->last_delivery_us = wh_monotonic(p->env);
		p->waited_us =
			p->last_delivery_us - (job->deadline_us - p->set->limit_us);
		p->stats.delivered++;
		p->stats.bytes += (int64_t)msg->body_len;
		p->stats.doubled += answer->outcome == WH_NATS_DOUBLED;
	} else {
		p->stats.failed++;
	}
	wh_flights_append(&p->done, &job->flight);
}

/* The server forbids a subject: messages for it in flight get no other answer. */
static void settle_forbidden(nats *p, const wh_nats_answer *answer)
{
	wh_nats_job *next;

	for (wh_nats_job *job = first(p); job; job = next) {
		next = (wh_nats_job *)job->flight.next;
		if (job->subject == answer->subject)
			settle(p, job, answer);
	}
}

static void read_answers(nats *p)
{
	size_t n;
	const wh_nats_answer *answers = wh_nats_link_answers(p->link, &n);

	for (size_t i = 0; i < n; i++) {
		wh_nats_job *job = wh_nats_jobs_find(&p->jobs, answers[i].token);

		if (answers[i].outcome == WH_NATS_FORBIDDEN)
			settle_forbidden(p, &answers[i]);
		else if (job)
			settle(p, job, &answers[i]);
		free(answers[i].text);
	}
}

/* The oldest message is late.  If others were delivered meanwhile, it is the cause. */
static void miss_deadline(nats *p, int64_t now)
{
	wh_nats_job *job = first(p);
	char limit[32], text[240];

	wh_duration_print(p->set->limit_us, limit, sizeof(limit));
	(void)snprintf(
		text, sizeof(text),
		"nothing was acknowledged for %s: is the server overloaded, or the "
		"stream without acknowledgements (no_ack)?",
		limit);
	if (p->last_delivery_us <= job->deadline_us - p->set->limit_us &&
	    now >= job->deadline_us) {
		(void)wh_fail(&p->error, WHERRY_CLOSED, "nats: %s", text);
		return;
	}
	(void)snprintf(text, sizeof(text), "not acknowledged within %s, perhaps stored",
		       limit);
	while (job && job->deadline_us <= now) {
		wh_nats_jobs_remove(&p->jobs, job);
		wh_flights_remove(&p->open, &job->flight);
		answer(p, job, WHERRY_UNKNOWN, text);
		job = first(p);
	}
}

static wherry_code nats_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	nats *p = of(pub);
	int64_t now = wh_monotonic(p->env);
	size_t n = 0;

	if (p->link) {
		bool failed = wh_nats_link_failed(p->link, &p->error) != WHERRY_OK;

		read_answers(p); /* Before the failure some may have arrived. */
		if (failed && !p->open.n)
			p->error = (wherry_error)WHERRY_ERROR_INIT;
	}
	if (p->error.code == WHERRY_OK && p->open.n && now >= first(p)->deadline_us)
		miss_deadline(p, now);
	while (n < cap && p->done.n) {
		wh_nats_job *job = (wh_nats_job *)wh_flights_pop(&p->done);

		wh_flight_receipt(&job->flight, &out[n++]);
		job_free(job);
	}
	*out_n = n;
	if (n || p->error.code == WHERRY_OK || !p->open.n)
		return WHERRY_OK;
	return wh_fail_native(err, p->error.code, p->error.native, "%s",
			      p->error.message);
}

/* Messages in flight get a little time. */
static void nats_cancel(wherry_publisher *pub)
{
	nats *p = of(pub);
	int64_t end = wh_later(wh_monotonic(p->env), GRACE_US);

	for (wh_nats_job *job = first(p); job; job = (wh_nats_job *)job->flight.next)
		job->deadline_us = wh_sooner(job->deadline_us, end);
	p->last_delivery_us = end; /* Each gets a receipt. */
}

static int nats_fd(wherry_publisher *pub, short *out_events)
{
	const nats *p = of(pub);

	if (!p->open.n || !p->link)
		return -1;
	*out_events = POLLIN;
	return wh_nats_link_fd(p->link);
}

static int64_t nats_deadline(wherry_publisher *pub)
{
	const nats *p = of(pub);

	if (p->done.n || (p->open.n && p->error.code != WHERRY_OK))
		return 0;
	return p->open.n ? first(p)->deadline_us : WH_NEVER;
}

static size_t nats_numbers(const wherry_publisher *pub, wh_number *out)
{
	const wh_nats_stats *s = &((const nats *)pub)->stats;
	const wh_number numbers[] = {
		{"nats_delivered_total", "Messages that a stream acknowledged.",
		 s->delivered},
		{"nats_duplicates_total",
		 "Of these: messages that the stream had already, by their Nats-Msg-Id.",
		 s->doubled},
		{"nats_failed_total", "Messages that were not acknowledged.", s->failed},
		{"nats_bytes_total", "Bytes of bodies acknowledged.", s->bytes},
		{"nats_connections_total", "Connections begun.", s->links},
	};

	memcpy(out, numbers, sizeof(numbers));
	return sizeof(numbers) / sizeof(*numbers);
}

static wherry_code plain_check(const char *rest, const wherry_config *config,
			       wherry_error *err)
{
	return check_for(false, rest, config, err);
}

static wherry_code tls_check(const char *rest, const wherry_config *config,
			     wherry_error *err)
{
	return check_for(true, rest, config, err);
}

static wherry_code plain_open(const char *rest, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	return open_for(&wh_publisher_nats, false, rest, config, env, out, err);
}

static wherry_code tls_open(const char *rest, const wherry_config *config,
			    const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	return open_for(&wh_publisher_nats_tls, true, rest, config, env, out, err);
}

/* Until a server has said what it takes, assume little: a body is stored rather than
 * refused. */
static size_t nats_body_most(wherry_publisher *pub)
{
	enum { LITTLE = 65536 };
	nats *p = of(pub);
	size_t most = p->link ? wh_nats_link_most(p->link) : 0;

	if (most)
		p->max_payload = most;
	return p->max_payload ? p->max_payload : LITTLE;
}

static const wh_binding binding = {"ce-", true, true, "application/cloudevents+json"};

/* clang-format off */
#define COMMON \
	.ack_delay_us = ACK_DELAY_US, \
	.window = WINDOW, \
	.window_bytes = WINDOW_BYTES, \
	.close = nats_close, \
	.submit = nats_submit, \
	.collect = nats_collect, \
	.drop = nats_drop, \
	.cancel = nats_cancel, \
	.body_most = nats_body_most, \
	.fd = nats_fd, \
	.deadline = nats_deadline, \
	.numbers = nats_numbers, \
	.binding = &binding
/* clang-format on */

const wh_publisher_driver wh_publisher_nats = {
	.scheme = "nats",
	.check = plain_check,
	.warn = wh_nats_warn,
	.open = plain_open,
	.readback = &wh_readback_nats,
	COMMON,
};

const wh_publisher_driver wh_publisher_nats_tls = {
	.scheme = "nats+tls",
	.check = tls_check,
	.open = tls_open,
	.readback = &wh_readback_nats_tls,
	COMMON,
};
