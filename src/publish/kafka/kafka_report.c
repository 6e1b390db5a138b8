/*
 * Processes librdkafka's reports: deliveries, failures, the state of the brokers.
 */
#include "publish/kafka/kafka.h"
#include "publish/certificate.h"
#include "publish/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

enum {
	TOPIC_LEN = 1024,
	LASTING_US =
		1000000 /* Connections that are closed are usually open again then. */
};

static const char to_closed[] =
	"they take connections and close them: do they want security.protocol=ssl, or "
	"credentials?";

void wh_kafka_break_off(wh_kafka *p, wherry_code code, int native, const char *why,
			const char *advice)
{
	char text[sizeof(p->error.message)];

	if (p->error.code != WHERRY_OK)
		return;
	wh_put_answer(text, sizeof(text), NULL, why, advice);
	(void)wh_fail_native(&p->error, code, native, "%s", text);
}

static bool has_topic(wh_kafka *p, const wherry_message *msg)
{
	char buf[TOPIC_LEN];

	return !p->set.partitions ||
	       wh_kafka_topic_ready(&p->topics,
				    wh_kafka_topic_of(&p->set, msg, buf, sizeof(buf)),
				    &p->set, p->client);
}

/* Hand a message over to librdkafka.  No error, but job->unmade is set: the message waits
 * for its topic. */
rd_kafka_resp_err_t wh_kafka_hand_over(wh_kafka *p, wh_kafka_job *job, wherry_error *why)
{
	wh_kafka_record record = {0};
	rd_kafka_resp_err_t error;
	wherry_code code;

	job->unmade = !has_topic(p, job->flight.message);
	if (job->unmade)
		return RD_KAFKA_RESP_ERR_NO_ERROR;
	code = wh_kafka_record_fill(job->flight.message, &record, why);
	if (code != WHERRY_OK)
		return code == WHERRY_NOMEM ? RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE
					    : RD_KAFKA_RESP_ERR__BAD_MSG;
	error = wh_kafka_client_produce(p->client, &p->set, job->flight.message, &record,
					job);
	if (record.headers)
		rd_kafka_headers_destroy(record.headers);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return error;
	job->stage = WH_KAFKA_HANDED;
	p->handed++;
	return error;
}

static void fail_job(wh_kafka *p, wh_kafka_job *job, rd_kafka_resp_err_t error,
		     bool maybe)
{
	job->stage = WH_KAFKA_FAILED;
	job->error = error;
	job->maybe = maybe;
	wh_kafka_fail(p);
}

static void hand_on_one(wh_kafka *p, wh_kafka_job *job)
{
	wherry_error why = WHERRY_ERROR_INIT;
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

	if (!p->failing)
		code = wh_kafka_hand_over(p, job, &why);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	if (code == RD_KAFKA_RESP_ERR__BAD_MSG)
		job->flight.reason = strdup(why.message);
	fail_job(p, job, code, false);
}

/* Hand over a list of jobs that waited in their key. */
static void hand_on(wh_kafka *p, wh_kafka_job *job)
{
	for (wh_kafka_job *next; job; job = next) {
		next = job->behind;
		hand_on_one(p, job);
	}
}

/* Hand over the messages that waited for their topic. */
static void hand_on_unmade(wh_kafka *p)
{
	for (wh_kafka_job *job = wh_kafka_first(p); job; job = wh_kafka_next(job))
		if (job->unmade)
			hand_on_one(p, job);
}

static void hand_on_made(wh_kafka *p, rd_kafka_event_t *event)
{
	wh_kafka_topic_made(p->topics, event, p->why, sizeof(p->why));
	if (*p->why)
		wh_log(p->env, WHERRY_LOG_WARN, "kafka", "no-topic",
		       wh_log_text("why", p->why));
	hand_on_unmade(p);
}

/*
 * Is it uncertain that a message was written?  Without an acknowledgement (no offset, see
 * rd_kafka_message_t) librdkafka concludes it from the acknowledgement of a later
 * message.  That is right if the broker knows the producer in this partition.  A broker
 * that does not know it yet takes the later message in any case.
 */
static bool is_doubtful(const wh_kafka *p, const rd_kafka_message_t *of_message)
{
	return p->set.ordered && of_message->offset == RD_KAFKA_OFFSET_INVALID &&
	       !wh_kafka_key_proves(&p->keys, of_message->_private,
				    of_message->partition);
}

/* Send a doubtful message again.  No other message of its key is in flight. */
static void send_again(wh_kafka *p, wh_kafka_job *job)
{
	wherry_error why = WHERRY_ERROR_INIT;
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

	if (!p->doubted)
		wh_log(p->env, WHERRY_LOG_WARN, "kafka", "sent-again",
		       wh_log_int("id", job->flight.message->id),
		       wh_log_note("no broker acknowledged this message, but one "
				   "took a later message; further cases are not "
				   "logged"));
	p->doubted = true;
	job->stage = WH_KAFKA_WAITING;
	if (!p->failing)
		code = wh_kafka_hand_over(p, job, &why);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail_job(p, job, WH_KAFKA_UNACKNOWLEDGED, true);
}

/* The partition took a message: its topic is not held any more. */
static void take_note(wh_kafka *p, const wherry_message *msg, int32_t partition)
{
	char buf[TOPIC_LEN];
	const char *topic = wh_kafka_topic_of(&p->set, msg, buf, sizeof(buf));

	if (wh_kafka_place_took(&p->places, topic, partition, p->stats.last_delivery_us))
		wh_log(p->env, WHERRY_LOG_INFO, "kafka", "topic-taken",
		       wh_log_text("topic", topic));
	if (wh_kafka_place_is_new(&p->places, topic))
		wh_kafka_client_look(p->client, &p->set, p->env, topic, false);
}

static void deliver(wh_kafka *p, wh_kafka_job *job, const rd_kafka_message_t *of_message)
{
	int32_t partition = of_message->offset == RD_KAFKA_OFFSET_INVALID
				    ? RD_KAFKA_PARTITION_UA
				    : of_message->partition;

	p->served = true;
	p->stats.down = false;
	p->stats.delivered++;
	p->stats.bytes += (int64_t)of_message->len;
	p->stats.last_delivery_us = wh_monotonic(p->env);
	p->silence_logged = false;
	p->waited_us = p->stats.last_delivery_us - (job->deadline_us - p->set.limit_us);
	take_note(p, job->flight.message, of_message->partition);
	wh_flights_remove(&p->open, &job->flight);
	hand_on(p, wh_kafka_key_leave(&p->keys, job, partition));
	wh_kafka_answer(p, job, WHERRY_DELIVERED, NULL);
}

static void report(wh_kafka *p, const rd_kafka_message_t *of_message)
{
	wh_kafka_job *job = of_message->_private;
	rd_kafka_msg_status_t status = rd_kafka_message_status(of_message);

	p->handed--;
	job->partition = of_message->partition;
	/* Codes above 0 are the answers of brokers: one that refuses can be reached. */
	if (of_message->err > 0)
		p->stats.down = false;
	if (of_message->err != RD_KAFKA_RESP_ERR_NO_ERROR &&
	    status != RD_KAFKA_MSG_STATUS_PERSISTED)
		fail_job(p, job, of_message->err,
			 status == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED);
	else if (is_doubtful(p, of_message))
		send_again(p, job);
	else
		deliver(p, job, of_message);
}

/* Remember what librdkafka reports, unless that follows from our own purge, which begins with the
 * messages that wait in librdkafka. */
static void note(wh_kafka *p, const char *text)
{
	if (p->purged || (p->failing && text && strstr(text, ": Purged in ")))
		return;
	(void)snprintf(p->why, sizeof(p->why), "%.150s", text ? text : "");
}

static void fatal(wh_kafka *p)
{
	char text[160] = "";
	rd_kafka_resp_err_t code =
		rd_kafka_fatal_error(p->client->rk, text, sizeof(text));
	const wh_kafka_error *error = wh_kafka_error_find(code);

	note(p, text);
	if (error->meaning == WH_KAFKA_RETURNED || error->meaning == WH_KAFKA_RETRY ||
	    error->meaning == WH_KAFKA_TOPIC)
		wh_kafka_fail(p);
	else
		wh_kafka_break_off(p, wh_kafka_code_of(error->meaning), code, text,
				   error->advice);
}

/* Has a broker answered this client? */
static bool was_reached(const wh_kafka *p)
{
	char *cluster = p->served ? NULL : rd_kafka_clusterid(p->client->rk, 0);
	bool reached = p->served || cluster;

	if (cluster)
		rd_kafka_mem_free(p->client->rk, cluster);
	return reached;
}

/* librdkafka may report a failed handshake as a failed connection, and says the same of
 * all certificates. */
static const char *advice_for(const wh_kafka *p)
{
	const char *cause = wh_certificate_cause(
		atomic_load(&p->client->certificate),
		"its certificate is of an authority that is not known here: name it with "
		"ssl.ca.location");

	if (!strstr(p->why, "certificate verify failed"))
		return NULL;
	return cause ? cause : wh_kafka_error_find(RD_KAFKA_RESP_ERR__SSL)->advice;
}

/* Older versions of librdkafka report a right password as wrong to brokers of Kafka 4. */
static const char *advice_of(const wh_kafka *p, const wh_kafka_error *error)
{
	enum { SCRAM_WORKS = 0x02060100 }; /* 2.6.1 */
	char text[40] = "";
	size_t size = sizeof(text);
	const char *certificate = advice_for(p);

	if (certificate)
		return certificate;
	if (error->code != RD_KAFKA_RESP_ERR__AUTHENTICATION ||
	    rd_kafka_version() >= SCRAM_WORKS ||
	    rd_kafka_conf_get(p->set.conf, "sasl.mechanism", text, &size) !=
		    RD_KAFKA_CONF_OK ||
	    strncmp(text, "SCRAM", 5) != 0)
		return error->advice;
	return "check sasl.mechanism, user and password; SCRAM with Kafka 4 needs "
	       "librdkafka 2.6.1, and this one is older";
}

static void set_down(wh_kafka *p)
{
	if (p->stats.down)
		return;
	p->stats.down = true;
	p->trouble_us = wh_later(wh_monotonic(p->env), LASTING_US);
	p->trouble_logged = false;
}

/* Process an error of the client.  If a broker was reached before, it may come back, and
 * librdkafka reconnects. */
static void trouble(wh_kafka *p, rd_kafka_resp_err_t code, const char *text)
{
	const wh_kafka_error *error = wh_kafka_error_find(code);

	if (code == RD_KAFKA_RESP_ERR__FATAL) {
		fatal(p);
		return;
	}
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
		set_down(p);
		if (!was_reached(p))
			wh_kafka_break_off(p, WHERRY_CLOSED, code,
					   *p->why ? p->why : text,
					   *p->why ? advice_for(p) : to_closed);
		return;
	}
	note(p, text);
	if (error->meaning == WH_KAFKA_DENIED && !p->served)
		wh_kafka_break_off(p, WHERRY_DENIED, code, p->why, advice_of(p, error));
}

static void log_line(wh_kafka *p, rd_kafka_event_t *event)
{
	const char *part, *text;
	int level;

	if (rd_kafka_event_log(event, &part, &text, &level) == 0)
		wh_log(p->env, WHERRY_LOG_DEBUG, "kafka", "librdkafka",
		       wh_log_text("facility", part), wh_log_text("text", text));
}

static void serve_event(wh_kafka *p, rd_kafka_event_t *event)
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
	case RD_KAFKA_EVENT_STATS:
		wh_kafka_watch_take(&p->watch, rd_kafka_event_stats(event));
		p->stats.down = p->stats.down && !p->watch.connected;
		break;
	case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
		hand_on_made(p, event);
		break;
	case RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH:
		wh_kafka_client_authorize(p->client, &p->set);
		break;
	default:
		break;
	}
}

void wh_kafka_serve(wh_kafka *p)
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
