/*
 * The suite on Redis: a private redis-server.
 */
#include "publisher_suite.h"
#include "redis_server.h"

/* hiredis has no password for the test's own connection, so only the relay is refused. */
static const char denying[] = "user default on nopass ~* +@all -xadd";

static void *start(char *url, size_t cap)
{
	child_server *server = redis_server_start("");

	if (!server)
		return NULL;
	redis_do(server, "SET nostream 1");
	(void)snprintf(url, cap, "%s", server->url);
	return server;
}

static void stop(void *server)
{
	child_server_stop(server);
}

static void play(void *arg, publisher_play how)
{
	child_server *server = arg;

	switch (how) {
	case PLAY_WELL:
		if (server->pid)
			child_server_thaw(server);
		child_server_kill(server);
		redis_server_again(server, "");
		break;
	case PLAY_KILLED:
		child_server_kill(server);
		break;
	case PLAY_HANGS:
		child_server_freeze(server);
		break;
	case PLAY_DENIES:
		child_server_kill(server);
		redis_server_again(server, denying);
		break;
	}
}

static void doom(void *arg, publisher_fate fate, wherry_message *msg, char *text,
		 size_t cap)
{
	(void)arg;
	switch (fate) {
	case FATE_REJECTED:
		msg->headers = "[]";
		break;
	case FATE_OVERSIZED: /* Over the server's proto-max-bulk-len. */
		memset(text, 'x', cap);
		msg->body = text;
		msg->body_len = (1 << 20) + 1;
		break;
	case FATE_RETRY: /* It is not a stream. */
		msg->topic = "nostream";
		break;
	case FATE_UNKNOWN:
	case FATE_THROTTLED:
	case FATE_COUNT:
		break;
	}
}

static size_t arrived(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	redisReply *all = redis_ask(arg, "XRANGE conformance - +");
	size_t n = all->elements < cap ? all->elements : cap;

	(void)pub;
	for (size_t i = 0; i < n; i++) {
		const redisReply *fields = all->element[i]->element[1];

		assert_string_equal(fields->element[0]->str, "message_id");
		numbers[i] = (int)strtol(fields->element[1]->str + 2, NULL, 10);
	}
	freeReplyObject(all);
	return n;
}

enum { MIXED = 1 << FATE_REJECTED | 1 << FATE_OVERSIZED | 1 << FATE_RETRY };

static const publisher_backend redis = {
	.name = "redis",
	.plays = 1 << PLAY_KILLED | 1 << PLAY_HANGS | 1 << PLAY_DENIES,
	.alone = MIXED,
	.mixed = MIXED,
	.cancels = true,
	.start = start,
	.stop = stop,
	.play = play,
	.doom = doom,
	.arrived = arrived,
};

int main(void)
{
	static const publisher_backend *const all[] = {&redis};

	return publisher_suite_run(all, 1);
}
