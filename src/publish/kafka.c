/*
 * kafka: an idempotent producer.  Delivery reports drive the receipts; an eventfd that
 * librdkafka writes to says when there are some.
 *
 * Several messages of a key are in flight, so once one fails, those behind it must not be
 * delivered.  librdkafka promises that within a partition (enable.gapless.guarantee) for
 * what brokers refuse, and not for what is late, so that its own time-outs are off and
 * deliveries end here.  Either way a failure is an episode:
 *
 *        a report of failure, a deadline, a wish to end
 *   OPEN ──────────────────────────────────────────────► FAILING: nothing more is taken,
 *     ▲                                                     │     what is queued comes
 *     └─────────────────────────────────────────────────────┘     back, what is in flight
 *        nothing is in flight: verdicts, and a new client         ends within GRACE_US
 *
 * Only what failed by itself is charged; what came back with it is THROTTLED for a moment,
 * which the relay does not count.
 */
#include "publish/kafka.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/duration.h"
#include "publish/parts.h"

enum {
	GRACE_US = 1000000,   /* for what is in flight when a failure ends a client */
	PURGED_US = 300000,   /* for librdkafka to give up what it was told to */
	INNOCENT_US = 1000,   /* until what came back because of others is sent again */
	THROTTLE_US = 1000000 /* when the brokers ask for less */
};

typedef struct kafka_publisher {
	wherry_publisher base;
	const wh_env *env;
	wh_kafka_settings set;
	wh_kafka_exits *exits;
	wh_kafka_client *client; /* NULL: the next submit opens one */
	wh_kafka_jobs open;      /* taken and without a verdict, in order */
	wh_kafka_jobs done;      /* with one, for receipts */
	size_t handed;           /* of the open ones: librdkafka has them */
	wh_kafka_keys keys;
	bool refusing;        /* a receipt waits of which the relay has to know first */
	int64_t alone_until;  /* ids up to here go in requests of their own; 0: none */
	bool alone;           /* the client sends them so */
	bool served;          /* this client has delivered something */
	bool failing, purged; /* an episode, and how far it is */
	int64_t give_up_us;   /* when it ends */
	int64_t late_us;      /* deadlines up to here were missed; 0: none */
	wherry_error error;   /* the destination's, to be told when all receipts are */
	char why[160];        /* what librdkafka said last */
	wh_kafka_stats stats;
} kafka_publisher;

static kafka_publisher *of(wherry_publisher *pub)
{
	return (kafka_publisher *)pub;
}

/* ---- the destination fails ---- */

static void break_off(kafka_publisher *p, wherry_code code, int native, const char *why,
		      const char *advice)
{
	if (p->error.code == WHERRY_OK)
		(void)wh_fail_native(&p->error, code, native, "%s%s%s", why,
				     advice ? "; " : "", advice ? advice : "");
}

static wherry_code tell(const kafka_publisher *p, wherry_error *err)
{
	return wh_fail_native(err, p->error.code, p->error.native, "%s",
			      p->error.message);
}

static wherry_code code_of(wh_kafka_meaning meaning)
{
	if (meaning == WH_KAFKA_DENIED)
		return WHERRY_DENIED;
	return meaning == WH_KAFKA_INVALID ? WHERRY_INVALID : WHERRY_CLOSED;
}

/* ---- opening and closing ---- */

static wherry_code open_client(kafka_publisher *p, wherry_error *err)
{
	wherry_code code = wh_kafka_client_open(&p->set, p->alone_until != 0, NULL,
						p->exits, &p->client, err);

	if (code != WHERRY_OK)
		return code;
	p->alone = p->alone_until != 0;
	p->served = false;
	p->stats.clients++;
	return WHERRY_OK;
}

static void leave_client(kafka_publisher *p)
{
	wh_kafka_client_leave(p->client);
	p->client = NULL;
	p->failing = p->purged = false;
	p->late_us = 0;
	p->handed = 0;
	wh_kafka_keys_clear(&p->keys);
}

static void kafka_drop(wherry_publisher *pub)
{
	kafka_publisher *p = of(pub);

	leave_client(p);
	wh_kafka_jobs_clear(&p->open);
	wh_kafka_jobs_clear(&p->done);
	p->refusing = false;
	p->error = (wherry_error)WHERRY_ERROR_INIT;
}

static void kafka_close(wherry_publisher *pub)
{
	kafka_publisher *p = of(pub);

	kafka_drop(pub);
	wh_kafka_exits_free(p->exits);
	wh_kafka_settings_clear(&p->set);
	free(p);
}

static wherry_code kafka_open(const char *rest, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	kafka_publisher *p = calloc(1, sizeof(*p));
	wherry_code code;

	if (!p)
		return wh_oom(err);
	p->env = env;
	p->exits = wh_kafka_exits_new();
	code = p->exits ? wh_kafka_settings_read(rest, config, &p->set, err)
			: wh_oom(err);
	p->base.driver = p->set.ordered ? &wh_publisher_kafka : &wh_publisher_kafka_loose;
	if (code == WHERRY_OK)
		code = open_client(p, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		kafka_close(&p->base);
	return code;
}

/* ---- taking ---- */

static void answer(kafka_publisher *p, wh_kafka_job *job, wherry_verdict verdict,
		   const char *reason)
{
	job->verdict = verdict;
	job->reason = reason ? strdup(reason) : NULL;
	wh_kafka_jobs_append(&p->done, job);
}

static void fail_begin(kafka_publisher *p)
{
	if (p->failing)
		return;
	p->failing = true;
	p->purged = false;
	p->give_up_us = wh_later(wh_monotonic(p->env), GRACE_US);
	(void)rd_kafka_purge(p->client->rk,
			     RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

static void describe(rd_kafka_resp_err_t code, char *out, size_t cap)
{
	const char *advice = wh_kafka_error_find(code)->advice;

	(void)snprintf(out, cap, "%s%s%s", rd_kafka_err2str(code), advice ? ": " : "",
		       advice ? advice : "");
}

typedef enum taking { TAKEN, LATER, REFUSED } taking;

static rd_kafka_resp_err_t hand_over(kafka_publisher *p, wh_kafka_job *job,
				     wherry_error *why)
{
	wh_kafka_record record = {0};
	rd_kafka_resp_err_t error;
	wherry_code code = wh_kafka_record_fill(job->message, &record, why);

	if (code != WHERRY_OK)
		return code == WHERRY_NOMEM ? RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE
					    : RD_KAFKA_RESP_ERR__BAD_MSG;
	error = wh_kafka_client_produce(p->client, &p->set, job->message, &record, job);
	if (record.headers)
		rd_kafka_headers_destroy(record.headers);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return error;
	job->stage = WH_KAFKA_HANDED;
	p->handed++;
	return error;
}

/* It could not be handed over.  Is that about it, or about what is in flight? */
static taking refuse(kafka_publisher *p, wh_kafka_job *job, rd_kafka_resp_err_t code,
		     bool busy, const wherry_error *why)
{
	wh_kafka_meaning meaning = wh_kafka_error_find(code)->meaning;
	bool full = meaning == WH_KAFKA_THROTTLED;
	char text[200];

	if (meaning == WH_KAFKA_INNOCENT)
		fail_begin(p); /* the client has had its time */
	if (meaning == WH_KAFKA_INNOCENT || code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE)
		return LATER;
	/* Reports make room; and what is before it in its key comes first. */
	if (busy || (full && p->open.n))
		return LATER;
	describe(code, text, sizeof(text));
	if (full)
		answer(p, job, WHERRY_REJECTED,
		       "larger than the queue: raise queue.buffering.max.kbytes");
	else if (code == RD_KAFKA_RESP_ERR__BAD_MSG)
		answer(p, job, WHERRY_REJECTED, why->message);
	else
		answer(p, job,
		       meaning == WH_KAFKA_REJECTED ? WHERRY_REJECTED : WHERRY_RETRY,
		       text);
	p->stats.failed++;
	return REFUSED;
}

static taking take(kafka_publisher *p, const wherry_message *msg)
{
	wh_kafka_job *job = wh_kafka_job_new(msg, &p->set);
	wherry_error why = WHERRY_ERROR_INIT;
	rd_kafka_resp_err_t code;
	bool busy, now = false;
	taking outcome;

	if (!job)
		return LATER;
	job->deadline_us = wh_later(wh_monotonic(p->env), p->set.limit_us);
	busy = wh_kafka_key_busy(&p->keys, job->key_hash);
	if (!wh_kafka_key_enter(&p->keys, job, &now)) {
		wh_kafka_job_free(job);
		return LATER;
	}
	code = now ? hand_over(p, job, &why) : RD_KAFKA_RESP_ERR_NO_ERROR;
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
		wh_kafka_jobs_append(&p->open, job);
		return TAKEN;
	}
	(void)wh_kafka_key_leave(&p->keys, job, false);
	outcome = refuse(p, job, code, busy, &why);
	if (outcome == LATER)
		wh_kafka_job_free(job);
	return outcome;
}

/* ---- what librdkafka reports ---- */

static void fail_job(kafka_publisher *p, wh_kafka_job *job, rd_kafka_resp_err_t error,
		     bool maybe)
{
	job->stage = WH_KAFKA_FAILED;
	job->error = error;
	job->maybe = maybe;
	fail_begin(p);
}

/* What waited for one of its key goes now. */
static void hand_on(kafka_publisher *p, wh_kafka_job *job)
{
	for (wh_kafka_job *next; job; job = next) {
		wherry_error why = WHERRY_ERROR_INIT;
		rd_kafka_resp_err_t code;

		next = job->behind;
		code = p->failing ? RD_KAFKA_RESP_ERR_NO_ERROR : hand_over(p, job, &why);
		if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
			continue;
		if (code == RD_KAFKA_RESP_ERR__BAD_MSG)
			job->reason = strdup(why.message);
		fail_job(p, job, code, false);
	}
}

static void report(kafka_publisher *p, const rd_kafka_message_t *of_message)
{
	wh_kafka_job *job = of_message->_private;
	rd_kafka_msg_status_t status = rd_kafka_message_status(of_message);

	p->handed--;
	if (of_message->err != RD_KAFKA_RESP_ERR_NO_ERROR &&
	    status != RD_KAFKA_MSG_STATUS_PERSISTED) {
		fail_job(p, job, of_message->err,
			 status == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED);
		return;
	}
	p->served = true;
	p->stats.down = false;
	p->stats.delivered++;
	p->stats.bytes += (int64_t)of_message->len;
	p->stats.last_delivery_us = wh_monotonic(p->env);
	wh_kafka_jobs_remove(&p->open, job);
	hand_on(p, wh_kafka_key_leave(&p->keys, job, true));
	answer(p, job, WHERRY_DELIVERED, NULL);
}

static void note(kafka_publisher *p, const char *text)
{
	(void)snprintf(p->why, sizeof(p->why), "%.150s", text ? text : "");
}

static void fatal(kafka_publisher *p)
{
	char text[160] = "";
	rd_kafka_resp_err_t code =
		rd_kafka_fatal_error(p->client->rk, text, sizeof(text));
	const wh_kafka_error *error = wh_kafka_error_find(code);

	note(p, text);
	if (error->meaning == WH_KAFKA_INNOCENT || error->meaning == WH_KAFKA_RETRY)
		fail_begin(p);
	else
		break_off(p, code_of(error->meaning), code, text, error->advice);
}

/* Has a broker told anything? */
static bool was_reached(const kafka_publisher *p)
{
	char *cluster = p->served ? NULL : rd_kafka_clusterid(p->client->rk, 0);
	bool reached = p->served || cluster;

	if (cluster)
		rd_kafka_mem_free(p->client->rk, cluster);
	return reached;
}

/* Brokers that were reached once may come back, and librdkafka finds them then. */
static void trouble(kafka_publisher *p, rd_kafka_resp_err_t code, const char *text)
{
	const wh_kafka_error *error = wh_kafka_error_find(code);

	if (code == RD_KAFKA_RESP_ERR__FATAL) {
		fatal(p);
		return;
	}
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
		p->stats.down = true;
		if (was_reached(p))
			wh_log(p->env, WH_LOG_WARN, "kafka",
			       "event=brokers-down why=\"%s\" (what is in flight waits for "
			       "them)",
			       p->why);
		else
			break_off(p, WHERRY_CLOSED, code, *p->why ? p->why : text, NULL);
		return;
	}
	note(p, text);
	if (error->meaning == WH_KAFKA_DENIED && !p->served)
		break_off(p, WHERRY_DENIED, code, p->why, error->advice);
}

static void log_line(kafka_publisher *p, rd_kafka_event_t *event)
{
	const char *part, *text;
	int level;

	if (rd_kafka_event_log(event, &part, &text, &level) == 0)
		wh_log(p->env, WH_LOG_DEBUG, "kafka", "%s: %s", part, text);
}

static void serve_event(kafka_publisher *p, rd_kafka_event_t *event)
{
	const rd_kafka_message_t *message;

	switch (rd_kafka_event_type(event)) {
	case RD_KAFKA_EVENT_DR:
		while ((message = rd_kafka_event_message_next(event)))
			report(p, message);
		break;
	case RD_KAFKA_EVENT_ERROR:
		trouble(p, rd_kafka_event_error(event),
			rd_kafka_event_error_string(event));
		break;
	case RD_KAFKA_EVENT_LOG:
		log_line(p, event);
		break;
	case RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH:
		wh_kafka_client_authorize(p->client, &p->set);
		break;
	default:
		break;
	}
}

static void serve(kafka_publisher *p)
{
	eventfd_t seen;
	rd_kafka_event_t *event;

	if (!p->client)
		return;
	(void)eventfd_read(p->client->fd, &seen);
	while ((event = rd_kafka_queue_poll(p->client->queue, 0))) {
		serve_event(p, event);
		rd_kafka_event_destroy(event);
	}
}

/* ---- handing over ---- */

/* Between sending each alone and together the client changes, once nothing is in flight.
 * False: not yet. */
static bool choose_client(kafka_publisher *p, const wherry_message *next)
{
	if (p->alone_until && next->id > p->alone_until)
		p->alone_until = 0;
	if (!p->client || p->alone == (p->alone_until != 0))
		return true;
	if (p->open.n)
		return false;
	leave_client(p);
	return true;
}

/* Nothing is in flight: what happened to the client meanwhile is of no message. */
static void settle_idle(kafka_publisher *p)
{
	serve(p);
	if (p->failing)
		leave_client(p);
}

static wherry_code kafka_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				size_t n, size_t *out_taken, wherry_error *err)
{
	kafka_publisher *p = of(pub);
	wherry_code code;
	size_t i = 0;

	if (!p->open.n)
		settle_idle(p);
	if (p->error.code != WHERRY_OK && !p->open.n)
		return tell(p, err);
	if (p->failing || p->refusing || p->error.code != WHERRY_OK)
		return WHERRY_OK; /* collect tells why */
	if (!choose_client(p, msgs[0]))
		return WHERRY_OK;
	code = p->client ? WHERRY_OK : open_client(p, err);
	while (code == WHERRY_OK && i < n && !p->refusing) {
		taking outcome;

		if (p->alone && msgs[i]->id > p->alone_until)
			break;
		outcome = take(p, msgs[i]);
		if (outcome == LATER)
			break;
		p->refusing = outcome == REFUSED;
		i++;
	}
	*out_taken = i;
	if (code == WHERRY_OK && !i && !p->open.n && !p->failing)
		return wh_oom(err);
	return code;
}

/* ---- verdicts ---- */

static bool is_late(const kafka_publisher *p, const wh_kafka_job *job)
{
	return p->late_us && job->deadline_us <= p->late_us &&
	       job->stage == WH_KAFKA_FAILED;
}

static wh_kafka_meaning meaning_of(const kafka_publisher *p, const wh_kafka_job *job)
{
	wh_kafka_meaning meaning = job->stage == WH_KAFKA_FAILED
					   ? wh_kafka_error_find(job->error)->meaning
					   : WH_KAFKA_INNOCENT;

	if (meaning == WH_KAFKA_INNOCENT && is_late(p, job))
		return job->maybe ? WH_KAFKA_UNKNOWN : WH_KAFKA_RETRY;
	if (meaning == WH_KAFKA_UNKNOWN && !job->maybe)
		return WH_KAFKA_RETRY;
	return meaning;
}

/* Has it taken anything of late?  Then it is this message that it does not take. */
static bool takes_others(const kafka_publisher *p)
{
	return p->stats.last_delivery_us &&
	       wh_monotonic(p->env) - p->stats.last_delivery_us < p->set.limit_us;
}

static void fill_reason(const kafka_publisher *p, const wh_kafka_job *job, char *out,
			size_t cap)
{
	char limit[32];

	if (!is_late(p, job)) {
		describe(job->error, out, cap);
		return;
	}
	wh_duration_print(p->set.limit_us, limit, sizeof(limit));
	(void)snprintf(out, cap, "not acknowledged within %s%s%s%s", limit,
		       job->maybe ? ", perhaps written" : "", *p->why ? ": " : "",
		       p->why);
}

static void settle(kafka_publisher *p, wh_kafka_job *job, wh_kafka_meaning meaning,
		   bool sure)
{
	char text[240] = "";

	if (meaning == WH_KAFKA_REJECTED && !sure) {
		if (job->message->id > p->alone_until)
			p->alone_until = job->message->id;
		meaning = WH_KAFKA_INNOCENT;
	}
	if (meaning == WH_KAFKA_INNOCENT) {
		p->stats.returned++;
		answer(p, job, WHERRY_THROTTLED, "came back because of another message");
		return;
	}
	if (job->reason)
		(void)snprintf(text, sizeof(text), "%s", job->reason);
	else
		fill_reason(p, job, text, sizeof(text));
	free(job->reason);
	p->stats.failed++;
	if (meaning == WH_KAFKA_REJECTED)
		answer(p, job, WHERRY_REJECTED, text);
	else if (meaning == WH_KAFKA_THROTTLED)
		answer(p, job, WHERRY_THROTTLED, NULL);
	else
		answer(p, job,
		       meaning == WH_KAFKA_UNKNOWN ? WHERRY_UNKNOWN : WHERRY_RETRY, text);
}

/* Of what came back the destination's troubles come first: they are no message's. */
static bool blame_destination(kafka_publisher *p)
{
	for (const wh_kafka_job *job = p->open.head; job; job = job->next) {
		wh_kafka_meaning meaning = meaning_of(p, job);
		char text[200];

		if (meaning < WH_KAFKA_DENIED ||
		    (meaning == WH_KAFKA_DENIED && takes_others(p)))
			continue;
		describe(job->error, text, sizeof(text));
		break_off(p, code_of(meaning), job->error, text, NULL);
		return true;
	}
	return false;
}

/* A request may have had several messages, and its error be that of one of them: then each
 * is tried alone. */
static bool is_sure(const kafka_publisher *p)
{
	size_t rejected = 0;

	for (const wh_kafka_job *job = p->open.head; job; job = job->next)
		rejected += meaning_of(p, job) == WH_KAFKA_REJECTED;
	return p->alone || rejected == 1;
}

/* Nothing is in flight any more. */
static void conclude(kafka_publisher *p)
{
	bool sure = is_sure(p);

	if (blame_destination(p))
		return;
	while (p->open.head) {
		wh_kafka_job *job = p->open.head;
		wh_kafka_meaning meaning = meaning_of(p, job);

		wh_kafka_jobs_remove(&p->open, job);
		settle(p, job, meaning, sure);
	}
	leave_client(p);
	p->refusing = p->done.n > 0;
}

/* librdkafka does not give them back. */
static void abandon(kafka_publisher *p)
{
	for (wh_kafka_job *job = p->open.head; job; job = job->next)
		if (job->stage == WH_KAFKA_HANDED) {
			job->stage = WH_KAFKA_FAILED;
			job->error = RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
			job->maybe = true;
		}
	p->handed = 0;
}

static void fail_step(kafka_publisher *p, int64_t now)
{
	if (p->handed && now >= p->give_up_us && !p->purged) {
		p->purged = true;
		p->give_up_us = wh_later(now, PURGED_US);
		(void)rd_kafka_purge(p->client->rk,
				     RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_QUEUE |
					     RD_KAFKA_PURGE_F_NON_BLOCKING);
	} else if (p->handed && now >= p->give_up_us) {
		abandon(p);
	}
	if (!p->handed)
		conclude(p);
}

/* The oldest is late.  Where nothing else was delivered meanwhile it is the destination
 * that does not answer; otherwise those that are late are, each by itself. */
static void miss_deadline(kafka_publisher *p, int64_t now)
{
	char limit[32], text[120];

	if (p->stats.last_delivery_us > p->open.head->deadline_us - p->set.limit_us) {
		p->late_us = now;
		fail_begin(p);
		return;
	}
	wh_duration_print(p->set.limit_us, limit, sizeof(limit));
	(void)snprintf(text, sizeof(text), "kafka: nothing was acknowledged for %s",
		       limit);
	break_off(p, WHERRY_CLOSED, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, text,
		  *p->why ? p->why : NULL);
}

static wherry_code kafka_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	kafka_publisher *p = of(pub);
	int64_t now;
	size_t n = 0;

	serve(p);
	now = wh_monotonic(p->env);
	if (p->failing)
		fail_step(p, now);
	else if (p->open.n && now >= p->open.head->deadline_us)
		miss_deadline(p, now);
	while (n < cap && p->done.head) {
		wh_kafka_job *job = p->done.head;

		wh_receipt_fill(&out[n], job->message, job->verdict, job->reason);
		if (job->verdict == WHERRY_THROTTLED)
			out[n].retry_after_us = job->reason ? INNOCENT_US : THROTTLE_US;
		wh_kafka_jobs_remove(&p->done, job);
		wh_kafka_job_free(job);
		n++;
	}
	p->refusing = p->refusing && p->done.n;
	*out_n = n;
	if (n || p->error.code == WHERRY_OK || !p->open.n)
		return WHERRY_OK;
	return tell(p, err);
}

/* What is queued comes back; what is in flight has a little time. */
static void kafka_cancel(wherry_publisher *pub)
{
	if (of(pub)->open.n && of(pub)->client)
		fail_begin(of(pub));
}

static int kafka_fd(wherry_publisher *pub, short *out_events)
{
	const kafka_publisher *p = of(pub);

	if (!p->open.n || !p->client)
		return -1;
	*out_events = POLLIN;
	return p->client->fd;
}

static int64_t kafka_deadline(wherry_publisher *pub)
{
	const kafka_publisher *p = of(pub);

	if (p->done.n || (p->open.n && p->error.code != WHERRY_OK))
		return 0;
	if (!p->open.n)
		return WH_NEVER;
	return p->failing ? p->give_up_us : p->open.head->deadline_us;
}

void wh_kafka_stats_get(const wherry_publisher *pub, wh_kafka_stats *out)
{
	const kafka_publisher *p = (const kafka_publisher *)pub;

	*out = p->stats;
	out->in_flight = (int64_t)p->open.n;
}

const wh_publisher_driver wh_publisher_kafka = {
	.scheme = "kafka",
	.caps = WH_PUB_ORDERED,
	.open = kafka_open,
	.close = kafka_close,
	.submit = kafka_submit,
	.collect = kafka_collect,
	.drop = kafka_drop,
	.cancel = kafka_cancel,
	.fd = kafka_fd,
	.deadline = kafka_deadline,
};

/* Without idempotence a retry may overtake; only one of a key is in flight then. */
const wh_publisher_driver wh_publisher_kafka_loose = {
	.scheme = "kafka",
	.caps = 0,
	.open = kafka_open,
	.close = kafka_close,
	.submit = kafka_submit,
	.collect = kafka_collect,
	.drop = kafka_drop,
	.cancel = kafka_cancel,
	.fd = kafka_fd,
	.deadline = kafka_deadline,
};
