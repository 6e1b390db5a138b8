/*
 * create=partitions:3,replication:1: asks brokers to make a topic when the first message
 * goes there.  Messages for the topic wait for the answer.
 */
#include "publish/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_LEN = 200, LONGEST_MS = 5000 };

struct wh_kafka_topic {
	struct wh_kafka_topic *next;
	enum { ASKED, READY } stage;
	char name[];
};

static wh_kafka_topic *find(wh_kafka_topic *topics, const char *name)
{
	while (topics && strcmp(topics->name, name) != 0)
		topics = topics->next;
	return topics;
}

/* Ask brokers to make the topic.  False: its name is not valid, and its messages will
 * fail with the reason. */
static bool ask(const wh_kafka_topic *topic, const wh_kafka_settings *set,
		wh_kafka_client *client)
{
	char why[ERROR_LEN];
	rd_kafka_NewTopic_t *wish = rd_kafka_NewTopic_new(
		topic->name, set->partitions, set->replication, why, sizeof(why));
	rd_kafka_AdminOptions_t *options;
	int64_t ms = set->limit_us / 2000;

	if (!wish)
		return false;
	options = rd_kafka_AdminOptions_new(client->rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
	/* Messages wait for the topic, so ask within half the time of a delivery. */
	if (options)
		(void)rd_kafka_AdminOptions_set_request_timeout(
			options, ms < LONGEST_MS ? (int)ms : LONGEST_MS, why,
			sizeof(why));
	rd_kafka_CreateTopics(client->rk, &wish, 1, options, client->queue);
	if (options)
		rd_kafka_AdminOptions_destroy(options);
	rd_kafka_NewTopic_destroy(wish);
	return true;
}

bool wh_kafka_topic_ready(wh_kafka_topic **topics, const char *name,
			  const wh_kafka_settings *set, wh_kafka_client *client)
{
	wh_kafka_topic *topic = find(*topics, name);
	size_t len = strlen(name) + 1;

	if (topic)
		return topic->stage == READY;
	topic = calloc(1, sizeof(*topic) + len);
	if (!topic)
		return true; /* Out of memory: do not make it. */
	memcpy(topic->name, name, len);
	topic->next = *topics;
	*topics = topic;
	topic->stage = ask(topic, set, client) ? ASKED : READY;
	return topic->stage == READY;
}

void wh_kafka_topic_made(wh_kafka_topic *topics, rd_kafka_event_t *event, char *out_why,
			 size_t cap)
{
	const rd_kafka_CreateTopics_result_t *result =
		rd_kafka_event_CreateTopics_result(event);
	size_t n = 0;
	const rd_kafka_topic_result_t **each =
		result ? rd_kafka_CreateTopics_result_topics(result, &n) : NULL;

	*out_why = 0;
	if (rd_kafka_event_error(event))
		(void)snprintf(out_why, cap, "no topic can be made: %s",
			       rd_kafka_event_error_string(event));
	for (size_t i = 0; i < n; i++) {
		rd_kafka_resp_err_t code = rd_kafka_topic_result_error(each[i]);
		const char *why = rd_kafka_topic_result_error_string(each[i]);

		if (code && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
			(void)snprintf(out_why, cap, "topic %s cannot be made: %s",
				       rd_kafka_topic_result_name(each[i]),
				       why ? why : rd_kafka_err2str(code));
	}
	for (wh_kafka_topic *topic = topics; topic; topic = topic->next) {
		bool named = !n; /* The whole request failed. */

		for (size_t i = 0; i < n; i++)
			named = named || strcmp(rd_kafka_topic_result_name(each[i]),
						topic->name) == 0;
		if (named)
			topic->stage = READY;
	}
}

void wh_kafka_topics_forget(wh_kafka_topic **topics)
{
	for (wh_kafka_topic **at = topics; *at;) {
		wh_kafka_topic *topic = *at;

		if (topic->stage == READY) {
			at = &topic->next;
			continue;
		}
		*at = topic->next;
		free(topic);
	}
}

void wh_kafka_topics_clear(wh_kafka_topic **topics)
{
	while (*topics) {
		wh_kafka_topic *topic = *topics;

		*topics = topic->next;
		free(topic);
	}
}
