/*
 * After a failure: messages in flight come back, and each gets its verdict.
 */
#include "publish/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

enum {
	GRACE_US = 1000000,    /* For messages in flight when a client fails. */
	PURGED_US = 300000,    /* For librdkafka to return purged messages. */
	RETURNED_US = 1000,    /* Until returned messages are sent again. */
	THROTTLE_US = 1000000, /* Pause when brokers or librdkafka have no room. */
	TOPIC_LEN = 1024
};

wherry_code wh_kafka_code_of(wh_kafka_meaning meaning)
{
	if (meaning == WH_KAFKA_DENIED)
		return WHERRY_DENIED;
	return meaning == WH_KAFKA_INVALID ? WHERRY_INVALID : WHERRY_CLOSED;
}

void wh_kafka_leave_client(wh_kafka *p)
{
	wh_kafka_client_leave(p->client);
	p->client = NULL;
	p->failing = p->purged = false;
	p->late_us = p->throttled_until_us = 0;
	p->handed = 0;
	wh_kafka_keys_clear(&p->keys);
	wh_kafka_topics_forget(&p->topics);
	wh_kafka_watch_renew(&p->watch);
}

void wh_kafka_answer(wh_kafka *p, wh_kafka_job *job, wherry_verdict verdict,
		     const char *reason)
{
	job->flight.verdict = verdict;
	job->flight.reason = reason ? strdup(reason) : NULL;
	wh_flights_append(&p->done, &job->flight);
}

void wh_kafka_fail(wh_kafka *p)
{
	if (p->failing)
		return;
	p->failing = true;
	p->purged = false;
	p->give_up_us = wh_later(wh_monotonic(p->env), GRACE_US);
	(void)rd_kafka_purge(p->client->rk,
			     RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

/* As wh_kafka_describe(), but an error of a topic names the topic. */
void wh_kafka_describe_of(const wh_kafka *p, const wherry_message *msg,
			  rd_kafka_resp_err_t code, char *out, size_t cap)
{
	char topic[TOPIC_LEN], text[200];

	wh_kafka_describe(code, text, sizeof(text));
	if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	    code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
	    code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION ||
	    code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
		(void)snprintf(out, cap, "topic %.80s: %s",
			       wh_kafka_topic_of(&p->set, msg, topic, sizeof(topic)),
			       text);
	else
		(void)snprintf(out, cap, "%s", text);
}

static bool is_late(const wh_kafka *p, const wh_kafka_job *job)
{
	return p->late_us && job->deadline_us <= p->late_us &&
	       (job->stage == WH_KAFKA_FAILED || job->unmade);
}

static wh_kafka_meaning meaning_of(const wh_kafka *p, const wh_kafka_job *job)
{
	wh_kafka_meaning meaning = job->stage == WH_KAFKA_FAILED
					   ? wh_kafka_error_find(job->error)->meaning
					   : WH_KAFKA_RETURNED;

	if (meaning == WH_KAFKA_RETURNED && is_late(p, job))
		return job->maybe ? WH_KAFKA_UNKNOWN : WH_KAFKA_RETRY;
	if (meaning == WH_KAFKA_UNKNOWN && !job->maybe)
		return WH_KAFKA_RETRY;
	return meaning;
}

bool wh_kafka_takes_others(const wh_kafka *p)
{
	return p->stats.last_delivery_us &&
	       wh_monotonic(p->env) - p->stats.last_delivery_us < p->set.limit_us;
}

static void fill_reason(const wh_kafka *p, const wh_kafka_job *job, char *out, size_t cap)
{
	char limit[32];

	if (!is_late(p, job)) {
		wh_kafka_describe_of(p, job->flight.message, job->error, out, cap);
		return;
	}
	wh_duration_print(p->set.limit_us, limit, sizeof(limit));
	(void)snprintf(out, cap, "not acknowledged within %s%s%s%s", limit,
		       job->maybe ? ", perhaps written" : "", *p->why ? ": " : "",
		       p->why);
}

static bool is_rejection(wh_kafka_meaning meaning)
{
	return meaning == WH_KAFKA_REJECTED || meaning == WH_KAFKA_DOUBTED;
}

/* Is the topic, or a partition of it, to blame, and not the message?  A message that is
 * late is the cause only if its partition took another one meanwhile. */
static bool is_held(wh_kafka *p, const wh_kafka_job *job, const char *topic,
		    wh_kafka_meaning meaning)
{
	if (is_late(p, job))
		return !wh_kafka_place_took_since(&p->places, topic, job->partition,
						  job->deadline_us - p->set.limit_us);
	return meaning == WH_KAFKA_TOPIC;
}

void wh_kafka_hold(wh_kafka *p, wh_kafka_job *job, const char *topic, const char *why)
{
	int64_t now = wh_monotonic(p->env);
	int64_t id = job->flight.message->id;

	job->flight.held = true;
	if (is_late(p, job)) { /* Other partitions of the topic may have a leader. */
		wh_kafka_place_untried(&p->places, topic, id);
		return;
	}
	if (wh_kafka_place_failed(&p->places, topic, id, why, now))
		wh_log(p->env, WHERRY_LOG_WARN, "kafka", "topic-held",
		       wh_log_text("topic", topic), wh_log_text("why", why),
		       wh_log_note("messages for this topic wait until it takes one; "
				   "others go on, and no attempts are counted"));
	job->flight.retry_after_us =
		wh_kafka_place_rest_us(&p->places, topic, 0, now, p->set.limit_us);
}

/* A message was rejected, and its topic may reject every message. */
static wh_kafka_meaning blame(wh_kafka *p, const char *topic)
{
	switch (wh_kafka_place_rejected(&p->places, topic)) {
	case WH_KAFKA_BLAME_MESSAGE:
		return WH_KAFKA_REJECTED;
	case WH_KAFKA_BLAME_TOPIC:
		return WH_KAFKA_TOPIC;
	case WH_KAFKA_BLAME_EITHER:
	default:
		return WH_KAFKA_RETRY;
	}
}

static void settle(wh_kafka *p, wh_kafka_job *job, wh_kafka_meaning meaning, bool sure)
{
	char text[240] = "", buf[TOPIC_LEN];
	const char *topic =
		wh_kafka_topic_of(&p->set, job->flight.message, buf, sizeof(buf));

	if (is_rejection(meaning) && !sure) {
		if (job->flight.message->id > p->alone_until)
			p->alone_until = job->flight.message->id;
		meaning = WH_KAFKA_RETURNED;
	}
	if (meaning == WH_KAFKA_RETURNED) {
		wh_kafka_place_untried(&p->places, topic, job->flight.message->id);
		p->stats.returned++;
		job->flight.retry_after_us = RETURNED_US;
		wh_kafka_answer(p, job, WHERRY_THROTTLED,
				"came back because of another message");
		return;
	}
	if (job->flight.reason)
		(void)snprintf(text, sizeof(text), "%s", job->flight.reason);
	else
		fill_reason(p, job, text, sizeof(text));
	free(job->flight.reason);
	job->flight.retry_after_us = meaning == WH_KAFKA_THROTTLED ? THROTTLE_US : 0;
	p->stats.failed++;
	if (meaning == WH_KAFKA_DOUBTED)
		meaning = blame(p, topic);
	if (is_held(p, job, topic, meaning))
		wh_kafka_hold(p, job, topic, text);
	if (meaning == WH_KAFKA_REJECTED)
		wh_kafka_answer(p, job, WHERRY_REJECTED, text);
	else if (meaning == WH_KAFKA_THROTTLED)
		wh_kafka_answer(p, job, WHERRY_THROTTLED, text);
	else
		wh_kafka_answer(p, job,
				meaning == WH_KAFKA_UNKNOWN ? WHERRY_UNKNOWN
							    : WHERRY_RETRY,
				text);
}

/* True: an error of the destination was found, which no message is charged for. */
static bool blame_destination(wh_kafka *p)
{
	for (const wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job)) {
		wh_kafka_meaning meaning = meaning_of(p, job);
		char text[200];

		if (meaning < WH_KAFKA_DENIED ||
		    (meaning == WH_KAFKA_DENIED && wh_kafka_takes_others(p)))
			continue;
		wh_kafka_describe_of(p, job->flight.message, job->error, text,
				     sizeof(text));
		wh_kafka_break_off(p, wh_kafka_code_of(meaning), job->error, text, NULL);
		return true;
	}
	return false;
}

/* Is it known which message was rejected?  A request may have had several messages, and
 * the error may concern one of them.  If unsure, each is tried alone. */
static bool is_sure(const wh_kafka *p)
{
	size_t rejected = 0;

	for (const wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job))
		rejected += is_rejection(meaning_of(p, job));
	return p->alone || rejected == 1;
}

/* Nothing is in flight any more: give each message its verdict. */
static void conclude(wh_kafka *p)
{
	bool sure = is_sure(p);

	if (blame_destination(p))
		return;
	while (p->open.head) {
		wh_kafka_job *job = wh_kafka_first(p);
		wh_kafka_meaning meaning = meaning_of(p, job);

		wh_flights_remove(&p->open, &job->flight);
		settle(p, job, meaning, sure);
	}
	wh_kafka_leave_client(p);
	p->refusing = p->done.n > 0;
}

/* Stop waiting for messages that librdkafka does not return. */
static void abandon(wh_kafka *p)
{
	for (wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job))
		if (job->stage == WH_KAFKA_HANDED) {
			job->stage = WH_KAFKA_FAILED;
			job->error = RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
			job->maybe = true;
		}
	p->handed = 0;
}

void wh_kafka_fail_step(wh_kafka *p, int64_t now)
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

/* The oldest message is late.  If nothing else was delivered meanwhile, the destination
 * does not answer.  Otherwise only the late messages failed. */
void wh_kafka_miss_deadline(wh_kafka *p, int64_t now)
{
	char limit[32], text[120];

	if (p->stats.last_delivery_us >
	    wh_kafka_first(p)->deadline_us - p->set.limit_us) {
		p->late_us = now;
		wh_kafka_fail(p);
		return;
	}
	wh_duration_print(p->set.limit_us, limit, sizeof(limit));
	(void)snprintf(text, sizeof(text), "kafka: nothing was acknowledged for %s",
		       limit);
	wh_kafka_break_off(p, WHERRY_CLOSED, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, text,
			   *p->why ? p->why : NULL);
}
