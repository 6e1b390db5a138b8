/*
 * The suite on RabbitMQ.  All tests share one server.
 */
#include "amqp_broker.h"
#include "publisher_suite.h"

typedef struct place {
	amqp_broker *broker;
	publisher_play now;
} place;

static void play(void *arg, publisher_play how)
{
	place *p = arg;

	amqp_broker_close(p->broker);
	if (how == p->now)
		return;
	switch (how) {
	case PLAY_WELL:
		amqp_broker_tell(p->broker, p->now == PLAY_KILLED ? "start"
					    : p->now == PLAY_HANGS
						    ? "thaw"
						    : "ctl set_permissions guest "
						      "'.*' '.*' '.*'");
		break;
	case PLAY_KILLED:
		amqp_broker_tell(p->broker, "kill");
		break;
	case PLAY_HANGS:
		amqp_broker_tell(p->broker, "freeze");
		break;
	case PLAY_DENIES:
		amqp_broker_tell(p->broker, "ctl clear_permissions guest");
		break;
	}
	p->now = how;
}

static void *start(char *url, size_t cap)
{
	static place p;

	p.broker = amqp_broker_get();
	if (!p.broker)
		return NULL;
	(void)snprintf(url, cap, "amqp://127.0.0.1:%d", p.broker->port);
	amqp_broker_queue(p.broker, "conformance", -1);
	return &p;
}

static void stop(void *arg)
{
	play(arg, PLAY_WELL);
}

static void doom(void *arg, publisher_fate fate, wherry_message *msg, char *text,
		 size_t cap)
{
	place *p = arg;

	switch (fate) {
	case FATE_REJECTED:
		msg->headers = "{\"wherry-priority\":\"first\"}";
		break;
	case FATE_OVERSIZED: /* its max_message_size is 1000000 */
		memset(text, 'x', cap);
		msg->body = text;
		msg->body_len = 1000001;
		break;
	case FATE_RETRY:
		amqp_broker_queue(p->broker, "full", 0);
		msg->topic = "full";
		break;
	case FATE_THROTTLED:
	case FATE_UNKNOWN:
	case FATE_COUNT:
		break;
	}
}

static size_t arrived(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	place *p = arg;
	amqp_message_t msg;
	size_t n = 0;

	while (n < cap && amqp_broker_take(p->broker, "conformance", true, &msg)) {
		char id[32];

		(void)snprintf(id, sizeof(id), "%.*s", (int)msg.properties.message_id.len,
			       (const char *)msg.properties.message_id.bytes);
		numbers[n++] = (int)strtol(id + 2, NULL, 10);
		amqp_destroy_message(&msg);
	}
	amqp_broker_close(p->broker);
	return n;
}

enum { FATES = 1 << FATE_REJECTED | 1 << FATE_OVERSIZED | 1 << FATE_RETRY };

static const publisher_backend rabbitmq = {
	.name = "amqp",
	.plays = 1 << PLAY_KILLED | 1 << PLAY_HANGS | 1 << PLAY_DENIES,
	.alone = FATES,
	.mixed = FATES,
	.cancels = true,
	.start = start,
	.stop = stop,
	.play = play,
	.doom = doom,
	.arrived = arrived,
};

int main(void)
{
	static const publisher_backend *const all[] = {&rabbitmq};

	return publisher_suite_run(all, 1);
}
