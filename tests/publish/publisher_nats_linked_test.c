/*
 * The suite on NATS: a private nats-server with JetStream.
 */
#include <nats/nats.h>

#include "nats_server.h"
#include "publisher_suite.h"

static const char denying[] = "authorization { token: other }";

/* A connection of the test, which adds streams and reads them. */
static natsConnection *connect_to(const child_server *server, jsCtx **js)
{
	natsConnection *connection = NULL;

	assert_int_equal(natsConnection_ConnectTo(&connection, server->url), NATS_OK);
	assert_int_equal(natsConnection_JetStream(js, connection, NULL), NATS_OK);
	return connection;
}

static void add_stream(jsCtx *js, const char *name, const char *subject, bool no_ack)
{
	jsStreamConfig config;

	(void)jsStreamConfig_Init(&config);
	config.Name = name;
	config.Subjects = &subject;
	config.SubjectsLen = 1;
	config.NoAck = no_ack;
	assert_int_equal(js_AddStream(NULL, js, &config, NULL, NULL), NATS_OK);
}

static void *start(char *url, size_t cap)
{
	child_server *server = nats_server_start("");
	natsConnection *connection;
	jsCtx *js = NULL;

	if (!server)
		return NULL;
	connection = connect_to(server, &js);
	add_stream(js, "CONFORMANCE", "conformance", false);
	add_stream(js, "STUCK", "stuck", true);
	jsCtx_Destroy(js);
	natsConnection_Destroy(connection);
	(void)snprintf(url, cap, "%s", server->url);
	return server;
}

static void stop(void *server)
{
	child_server_stop(server);
	nats_Close();
}

static void play(void *arg, publisher_play how)
{
	child_server *server = arg;

	switch (how) {
	case PLAY_WELL:
		if (server->pid)
			child_server_thaw(server);
		child_server_kill(server);
		nats_server_again(server, "");
		break;
	case PLAY_KILLED:
		child_server_kill(server);
		break;
	case PLAY_HANGS:
		child_server_freeze(server);
		break;
	case PLAY_DENIES:
		child_server_kill(server);
		nats_server_again(server, denying);
		break;
	}
}

static void doom(void *arg, publisher_fate fate, wherry_message *msg, char *text,
		 size_t cap)
{
	(void)arg;
	switch (fate) {
	case FATE_REJECTED:
		msg->headers = "{\"Nats-Rollup\":\"all\"}";
		break;
	case FATE_OVERSIZED:
		memset(text, 'x', cap);
		msg->body = text;
		msg->body_len = 100001;
		break;
	case FATE_RETRY:
		msg->topic = "nowhere";
		break;
	case FATE_UNKNOWN: /* Its stream stores it and does not say so. */
		msg->topic = "stuck";
		break;
	case FATE_THROTTLED:
	case FATE_COUNT:
		break;
	}
}

static size_t arrived(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	jsCtx *js = NULL;
	natsConnection *connection = connect_to(arg, &js);
	jsStreamInfo *info = NULL;
	size_t n;

	(void)pub;
	assert_int_equal(js_GetStreamInfo(&info, js, "CONFORMANCE", NULL, NULL), NATS_OK);
	n = (size_t)info->State.LastSeq;
	for (size_t i = 0; i < n && i < cap; i++) {
		natsMsg *msg = NULL;
		const char *id = NULL;

		assert_int_equal(js_GetMsg(&msg, js, "CONFORMANCE", i + 1, NULL, NULL),
				 NATS_OK);
		assert_int_equal(natsMsgHeader_Get(msg, "Nats-Msg-Id", &id), NATS_OK);
		numbers[i] = (int)strtol(id + 2, NULL, 10);
		natsMsg_Destroy(msg);
	}
	jsStreamInfo_Destroy(info);
	jsCtx_Destroy(js);
	natsConnection_Destroy(connection);
	return n < cap ? n : cap;
}

enum { MIXED = 1 << FATE_REJECTED | 1 << FATE_OVERSIZED | 1 << FATE_RETRY };

static const publisher_backend nats = {
	.name = "nats",
	.plays = 1 << PLAY_KILLED | 1 << PLAY_HANGS | 1 << PLAY_DENIES,
	.alone = MIXED,
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
	static const publisher_backend *const all[] = {&nats};

	return publisher_suite_run(all, 1);
}
