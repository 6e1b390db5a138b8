/*
 * The suite on Kafka: librdkafka's mock cluster.
 */
#include "kafka_mock.h"
#include "publisher_suite.h"

/* What fails for ever goes to another topic, or no topic. */
static void *start(char *url, size_t cap)
{
	kafka_mock *mock = kafka_mock_start(2);

	if (!mock)
		return NULL;
	(void)snprintf(url, cap,
		       "kafka://%s?message.max.bytes=100000&"
		       "topic.metadata.propagation.max.ms=100",
		       mock->brokers);
	kafka_mock_tell(mock, "topic conformance 4");
	for (int partition = 0; partition < 4; partition++)
		kafka_mock_tell(mock, "leader conformance %d 1", partition);
	return mock;
}

static void stop(void *mock)
{
	kafka_mock_stop(mock);
}

static void play(void *arg, publisher_play how)
{
	kafka_mock *mock = arg;

	switch (how) {
	case PLAY_WELL:
		kafka_mock_tell(mock, "up 0");
		kafka_mock_tell(mock, "rtt 0");
		break;
	case PLAY_KILLED:
		kafka_mock_tell(mock, "down 0");
		break;
	case PLAY_HANGS:
		kafka_mock_tell(mock, "rtt 100000");
		break;
	case PLAY_DENIES: /* an idempotent producer begins with a request for its id */
		kafka_mock_tell(mock, "errors 22 CLUSTER_AUTHORIZATION_FAILED 1");
		break;
	}
}

static void doom(void *arg, publisher_fate fate, wherry_message *msg, char *text,
		 size_t cap)
{
	kafka_mock *mock = arg;

	switch (fate) {
	case FATE_REJECTED:
		msg->headers = "{\"wherry-partition\":\"first\"}";
		break;
	case FATE_OVERSIZED:
		memset(text, 'x', cap);
		msg->body = text;
		msg->body_len = 100001;
		break;
	case FATE_RETRY:
		kafka_mock_tell(mock, "topic-error nowhere UNKNOWN_TOPIC_OR_PART");
		msg->topic = "nowhere";
		break;
	case FATE_THROTTLED:
		kafka_mock_tell(mock, "errors 0 THROTTLING_QUOTA_EXCEEDED 1");
		break;
	case FATE_UNKNOWN: /* its leader writes it and says so much too late */
		kafka_mock_tell(mock, "topic stuck 1");
		kafka_mock_tell(mock, "leader stuck 0 2");
		kafka_mock_tell(mock, "slow 2 0 100000 100");
		msg->topic = "stuck";
		break;
	case FATE_COUNT:
		break;
	}
}

static size_t arrived(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	json_t *all = kafka_mock_read(arg, "conformance");
	size_t n = json_array_size(all);

	for (size_t i = 0; i < n && i < cap; i++) {
		const char *id = kafka_mock_header(json_array_get(all, i), "message-id");

		assert_non_null(id);
		numbers[i] = (int)strtol(id + 2, NULL, 10);
	}
	json_decref(all);
	return n < cap ? n : cap;
}

enum { MIXED = 1 << FATE_REJECTED | 1 << FATE_OVERSIZED | 1 << FATE_RETRY };

static const publisher_backend kafka = {
	.name = "kafka",
	.plays = 1 << PLAY_KILLED | 1 << PLAY_HANGS | 1 << PLAY_DENIES,
	.alone = MIXED | 1 << FATE_THROTTLED,
	.mixed = MIXED | 1 << FATE_UNKNOWN,
	.cancels = true,
	.start = start,
	.stop = stop,
	.play = play,
	.doom = doom,
	.arrived = arrived,
};

int main(void)
{
	static const publisher_backend *const all[] = {&kafka};

	return publisher_suite_run(all, 1);
}
