/*
 * kafka: an idempotent producer.  Delivery reports become receipts.  librdkafka writes to
 * an eventfd when reports wait.
 *
 * Several messages of a key are in flight.  Once one fails, the later ones must not be
 * delivered.  librdkafka guarantees that within a partition (enable.gapless.guarantee)
 * for messages that brokers refuse, but not for late messages.  So its time-outs are off,
 * and this driver ends deliveries.  Each failure begins an episode:
 *
 *        a report of failure, a deadline, a wish to end
 *   OPEN ──────────────────────────────────────────────► FAILING: nothing more is taken,
 *     ▲                                                     │     what is queued comes
 *     └─────────────────────────────────────────────────────┘     back, what is in flight
 *        nothing is in flight: verdicts, and a new client         ends within GRACE_US
 *
 * Only a message that failed by itself counts an attempt.  Messages that came back with
 * it are THROTTLED for a moment, which the relay does not count.
 */
#include "publish/kafka/kafka.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/duration.h"
#include "publish/parts.h"
#include "publish/readback.h"

enum {
	TOPIC_LEN = 1024,
	/* librdkafka makes large requests only of many messages for each partition. */
	WINDOW = 32000,
	SILENT_US = 5000000,
	WINDOW_BYTES = 16 << 20
};

static const wh_publisher_driver loose;

static wh_kafka *of(wherry_publisher *pub)
{
	return (wh_kafka *)pub;
}

static wherry_code tell(const wh_kafka *p, wherry_error *err)
{
	return wh_fail_native(err, p->error.code, p->error.native, "%s",
			      p->error.message);
}

/* ---- opening and closing ---- */

/* Make the topic that the URL names, or log a warning if it is missing.  This waits for
 * the lease, because the relay has set up its log by then. */
static void look_for_topic(wh_kafka *p)
{
	const wherry_message any = WHERRY_MESSAGE(.topic = "");
	char buf[TOPIC_LEN];
	const char *name;

	if (p->looked || !p->granted || !p->client || !p->set.topic)
		return;
	name = wh_kafka_topic_of(&p->set, &any, buf, sizeof(buf));
	p->looked = true;
	if (p->set.partitions)
		(void)wh_kafka_topic_ready(&p->topics, name, &p->set, p->client);
	else
		wh_kafka_client_look(p->client, &p->set, p->env, name, true);
}

static const char *kafka_notice(wherry_publisher *pub)
{
	wh_kafka *p = of(pub);

	return p->client && p->client->look &&
			       wh_kafka_look_notice(p->client->look, p->notice)
		       ? p->notice
		       : NULL;
}

static wherry_code open_client(wh_kafka *p, wherry_error *err)
{
	wherry_code code = wh_kafka_client_open(&p->set, p->alone_until != 0, p->exits,
						&p->client, err);

	if (code != WHERRY_OK)
		return code;
	p->alone = p->alone_until != 0;
	p->served = p->doubted = false;
	p->stats.clients++;
	look_for_topic(p);
	return WHERRY_OK;
}

static void kafka_drop(wherry_publisher *pub)
{
	wh_kafka *p = of(pub);

	wh_kafka_leave_client(p);
	wh_kafka_jobs_clear(&p->open);
	wh_kafka_jobs_clear(&p->done);
	p->refusing = false;
	p->error = (wherry_error)WHERRY_ERROR_INIT;
}

static void kafka_close(wherry_publisher *pub)
{
	wh_kafka *p = of(pub);

	kafka_drop(pub);
	wh_kafka_topics_clear(&p->topics);
	wh_kafka_places_clear(&p->places);
	wh_kafka_exits_free(p->exits);
	wh_kafka_settings_clear(&p->set);
	free(p);
}

static wherry_code kafka_check(const char *rest, const wherry_config *config,
			       wherry_error *err)
{
	wh_kafka_settings set = {.conf = NULL};
	wherry_code code = wh_kafka_settings_read(rest, config, &set, err);

	if (code == WHERRY_OK)
		wh_kafka_settings_clear(&set);
	return code;
}

static wherry_code kafka_open(const char *rest, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	wh_kafka *p = calloc(1, sizeof(*p));
	wherry_code code;

	if (!p)
		return wh_oom(err);
	p->env = env;
	p->exits = wh_kafka_exits_new();
	code = p->exits ? wh_kafka_settings_read(rest, config, &p->set, err)
			: wh_oom(err);
	p->base.driver = p->set.ordered ? &wh_publisher_kafka : &loose;
	if (code == WHERRY_OK)
		code = open_client(p, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		kafka_close(&p->base);
	return code;
}

/* ---- taking ---- */

typedef enum taking { TAKEN, LATER, REFUSED } taking;

/* A message could not be handed over: decide whether it is refused or taken later. */
static taking refuse(wh_kafka *p, wh_kafka_job *job, rd_kafka_resp_err_t code, bool busy,
		     const wherry_error *why)
{
	wh_kafka_meaning meaning = wh_kafka_error_find(code)->meaning;
	bool full = meaning == WH_KAFKA_THROTTLED;
	char text[200], buf[TOPIC_LEN];
	const char *topic =
		wh_kafka_topic_of(&p->set, job->flight.message, buf, sizeof(buf));

	if (meaning == WH_KAFKA_RETURNED)
		wh_kafka_fail(p); /* This client can send nothing more. */
	if (meaning == WH_KAFKA_RETURNED || code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE)
		return LATER;
	/* Later there may be room, and earlier messages of its key may be answered. */
	if (busy || (full && p->open.n))
		return LATER;
	wh_kafka_describe_of(p, job->flight.message, code, text, sizeof(text));
	if (meaning == WH_KAFKA_TOPIC)
		wh_kafka_hold(p, job, topic, text);
	if (full)
		wh_kafka_answer(
			p, job, WHERRY_REJECTED,
			"larger than the queue: raise queue.buffering.max.kbytes, " WH_OR_BODY_STORE);
	else if (code == RD_KAFKA_RESP_ERR__BAD_MSG)
		wh_kafka_answer(p, job, WHERRY_REJECTED, why->message);
	else
		wh_kafka_answer(p, job,
				meaning == WH_KAFKA_REJECTED ? WHERRY_REJECTED
							     : WHERRY_RETRY,
				text);
	p->stats.failed++;
	return REFUSED;
}

/* Refuse a message whose topic is held while other topics take messages.  If none does,
 * the relay decides when to try. */
static bool refuse_held(wh_kafka *p, wh_kafka_job *job)
{
	char buf[TOPIC_LEN], text[240];
	const char *topic =
		wh_kafka_topic_of(&p->set, job->flight.message, buf, sizeof(buf));
	int64_t rest_us = wh_kafka_takes_others(p)
				  ? wh_kafka_place_rest_us(
					    &p->places, topic, job->flight.message->id,
					    wh_monotonic(p->env), p->set.limit_us)
				  : 0;

	if (!rest_us)
		return false;
	(void)snprintf(text, sizeof(text), "%s; the topic is held",
		       wh_kafka_place_why(&p->places, topic));
	job->flight.held = true;
	job->flight.retry_after_us = rest_us;
	wh_kafka_answer(p, job, WHERRY_RETRY, text);
	return true;
}

static taking take(wh_kafka *p, const wherry_message *msg)
{
	wh_kafka_job *job = wh_kafka_job_new(msg, &p->set);
	wherry_error why = WHERRY_ERROR_INIT;
	rd_kafka_resp_err_t code;
	bool busy, now = false;
	taking outcome;

	if (!job)
		return LATER;
	job->deadline_us = wh_monotonic(p->env);
	if (job->deadline_us < p->throttled_until_us)
		job->deadline_us = p->throttled_until_us;
	job->deadline_us = wh_later(job->deadline_us, p->set.limit_us);
	busy = wh_kafka_key_busy(&p->keys, job->key_hash);
	if (!busy && refuse_held(p, job))
		return REFUSED;
	if (!wh_kafka_key_enter(&p->keys, job, &now)) {
		wh_kafka_job_free(job);
		return LATER;
	}
	code = now ? wh_kafka_hand_over(p, job, &why) : RD_KAFKA_RESP_ERR_NO_ERROR;
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
		wh_flights_append(&p->open, &job->flight);
		return TAKEN;
	}
	(void)wh_kafka_key_leave(&p->keys, job, RD_KAFKA_PARTITION_UA);
	outcome = refuse(p, job, code, busy, &why);
	if (outcome == LATER)
		wh_kafka_job_free(job);
	return outcome;
}

/* ---- handing over ---- */

/* Close the client if its requests should have another size.
 * False: messages are in flight, try again later. */
static bool choose_client(wh_kafka *p, const wherry_message *next)
{
	if (p->alone_until && next->id > p->alone_until)
		p->alone_until = 0;
	if (!p->client || p->alone == (p->alone_until != 0))
		return true;
	if (p->open.n)
		return false;
	wh_kafka_leave_client(p);
	return true;
}

/* Nothing is in flight, so a failure of the client concerns no message. */
static void settle_idle(wh_kafka *p)
{
	wh_kafka_serve(p);
	if (p->failing)
		wh_kafka_leave_client(p);
}

/* Deliveries take so long that messages behind those in flight could be late. */
static bool is_slow(const wh_kafka *p)
{
	return p->open.n && p->waited_us > p->set.limit_us / 8;
}

static wherry_code kafka_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				size_t n, size_t *out_taken, wherry_error *err)
{
	wh_kafka *p = of(pub);
	wherry_code code;
	size_t i = 0;

	if (!p->open.n)
		settle_idle(p);
	if (p->error.code != WHERRY_OK && !p->open.n)
		return tell(p, err);
	if (p->failing || p->refusing || p->error.code != WHERRY_OK)
		return WHERRY_OK; /* collect returns the error. */
	if (is_slow(p) || !choose_client(p, msgs[0]))
		return WHERRY_OK;
	code = p->client ? WHERRY_OK : open_client(p, err);
	wh_kafka_keys_age(&p->keys, wh_monotonic(p->env));
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

/* Brokers delay a client that is over its quota.  That is not a failure, so messages in
 * flight, and those that are taken meanwhile, get the time in addition. */
static void wait_longer(wh_kafka *p)
{
	int64_t ms = p->client ? p->client->throttled_ms : 0;

	if (!ms)
		return;
	p->client->throttled_ms = 0;
	p->throttled_until_us = wh_later(wh_monotonic(p->env), ms * 1000);
	for (wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job))
		job->deadline_us = wh_later(job->deadline_us, ms * 1000);
	if (!p->client->throttle_logged)
		wh_log(p->env, WHERRY_LOG_WARN, "kafka", "throttled",
		       wh_log_us("for", ms * 1000),
		       wh_log_note("brokers delay this client because of a quota; "
				   "further delays are not logged"));
	p->client->throttle_logged = true;
}

static wherry_code kafka_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	wh_kafka *p = of(pub);
	int64_t now;
	size_t n = 0;

	wh_kafka_serve(p);
	wait_longer(p);
	now = wh_monotonic(p->env);
	if (p->failing)
		wh_kafka_fail_step(p, now);
	else if (p->open.n && now >= wh_kafka_first(p)->deadline_us)
		wh_kafka_miss_deadline(p, now);
	while (n < cap && p->done.n) {
		wh_kafka_job *job = (wh_kafka_job *)wh_flights_pop(&p->done);

		wh_flight_receipt(&job->flight, &out[n++]);
		wh_kafka_job_free(job);
	}
	p->refusing = p->refusing && p->done.n;
	*out_n = n;
	if (n || p->error.code == WHERRY_OK || !p->open.n)
		return WHERRY_OK;
	return tell(p, err);
}

/* Messages queued in librdkafka come back at once; messages in flight get GRACE_US. */
static void kafka_cancel(wherry_publisher *pub)
{
	if (of(pub)->open.n && of(pub)->client)
		wh_kafka_fail(of(pub));
}

/* Replace the client.  Call it only while nothing is in flight. */
static void open_anew(wh_kafka *p)
{
	wherry_error later = WHERRY_ERROR_INIT; /* The next submit reports it. */

	wh_kafka_leave_client(p);
	(void)open_client(p, &later);
}

static void kafka_grant(wherry_publisher *pub, const wh_grant *grant)
{
	wh_kafka *p = of(pub);

	(void)grant;
	p->granted = true;
	look_for_topic(p);
}

static int kafka_fd(wherry_publisher *pub, short *out_events)
{
	const wh_kafka *p = of(pub);

	if (!p->open.n || !p->client)
		return -1;
	*out_events = POLLIN;
	return p->client->fd;
}

/* When brokers have acknowledged nothing for so long that it must be said.  Time that they asked the
 * client to wait does not count. */
static int64_t silent_at(const wh_kafka *p)
{
	int64_t since = wh_kafka_first(p)->deadline_us - p->set.limit_us;

	if (since < p->stats.last_delivery_us)
		since = p->stats.last_delivery_us;
	return wh_later(since, SILENT_US);
}

static bool is_down(const wh_kafka *p, int64_t now)
{
	return p->stats.down && now >= p->trouble_us;
}

static void log_trouble(wh_kafka *p, bool down)
{
	bool *logged = down ? &p->trouble_logged : &p->silence_logged;

	if (!*logged)
		wh_log(p->env, WHERRY_LOG_WARN, "kafka",
		       down ? "brokers-down" : "unacknowledged",
		       wh_log_text("why", p->trouble),
		       wh_log_note("messages in flight wait until a broker is back"));
	*logged = true;
}

/* Messages are in flight, and no broker could be reached for a while, or none has acknowledged any.  Brokers
 * often close connections, and librdkafka opens them again. */
static const char *kafka_trouble(wherry_publisher *pub)
{
	wh_kafka *p = of(pub);
	int64_t now = wh_monotonic(p->env);
	bool down = is_down(p, now);

	if (!p->open.n || p->failing || !(down || now >= silent_at(p)))
		return NULL;
	(void)snprintf(
		p->trouble, sizeof(p->trouble), "%s%s%s",
		down ? "no broker can be reached"
		     : "brokers acknowledge nothing, perhaps because too few replicas are in sync",
		*p->why ? ": " : "", p->why);
	log_trouble(p, down);
	return p->trouble;
}

/* When to look again whether there is trouble. */
static int64_t trouble_at(const wh_kafka *p)
{
	int64_t at = p->silence_logged ? WH_NEVER : silent_at(p);

	return p->stats.down && !p->trouble_logged && p->trouble_us < at ? p->trouble_us
									 : at;
}

static int64_t kafka_deadline(wherry_publisher *pub)
{
	const wh_kafka *p = of(pub);
	int64_t at;

	if (p->done.n || (p->open.n && p->error.code != WHERRY_OK))
		return 0;
	if (!p->open.n)
		return WH_NEVER;
	if (p->failing)
		return p->give_up_us;
	at = trouble_at(p);
	return wh_kafka_first(p)->deadline_us < at ? wh_kafka_first(p)->deadline_us : at;
}

/* Statistics need a new client.  They are also read while the client is idle. */
static void kafka_watch(wherry_publisher *pub)
{
	wh_kafka *p = of(pub);

	if (p->open.n)
		return;
	if (!p->set.watched) {
		p->set.watched = true;
		p->looked = false;
		p->stats.clients -= p->client != NULL; /* It did not fail. */
		open_anew(p);
	}
	settle_idle(p);
}

/* librdkafka refuses what is larger. */
static size_t kafka_body_most(wherry_publisher *pub)
{
	return of(pub)->set.message_max;
}

static const wh_binding binding = {"ce_", false, false,
				   "application/cloudevents+json; charset=UTF-8"};

/* clang-format off */
#define DRIVER(can) { \
	.scheme = "kafka", \
	.caps = (can), \
	.window = WINDOW, \
	.window_bytes = WINDOW_BYTES, \
	.probe_cap_us = WH_KAFKA_TRY_MOST_US, \
	.check = kafka_check, \
	.warn = wh_kafka_warn, \
	.open = kafka_open, \
	.close = kafka_close, \
	.submit = kafka_submit, \
	.collect = kafka_collect, \
	.drop = kafka_drop, \
	.cancel = kafka_cancel, \
	.body_most = kafka_body_most, \
	.grant = kafka_grant, \
	.fd = kafka_fd, \
	.deadline = kafka_deadline, \
	.trouble = kafka_trouble, \
	.notice = kafka_notice, \
	.watch = kafka_watch, \
	.numbers = wh_kafka_numbers, \
	.readback = &wh_readback_kafka, \
	.binding = &binding, \
}
/* clang-format on */

const wh_publisher_driver wh_publisher_kafka = DRIVER(WH_PUB_ORDERED);

/* Without idempotence a retry may overtake another message, so only one message of a key
 * may be in flight. */
static const wh_publisher_driver loose = DRIVER(0);
