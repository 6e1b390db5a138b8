/*
 * The suite on http: and https:, to a receiver in another process.
 */
#include "publisher_suite.h"
#include "webhook_server.h"

static void *start(char *url, size_t cap)
{
	static const char *const args[] = {"--largest", "100000", NULL};
	webhook_server *server = webhook_server_start(args);

	(void)snprintf(url, cap, "http://127.0.0.1:%d/hook", server->port);
	return server;
}

static void *start_tls(char *url, size_t cap)
{
	static const char *args[7] = {"--largest", "100000", "--cert", NULL,
				      "--key",     NULL,     NULL};
	webhook_server *server;

	args[3] = webhook_certificate("good.pem");
	args[5] = webhook_certificate("good.key");
	server = webhook_server_start(args);
	(void)snprintf(url, cap, "https://127.0.0.1:%d/hook", server->port);
	return server;
}

static void trust(void *server, wherry_config *config)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(config, "webhook.ca_file",
				      webhook_certificate("good.pem"), &err));
}

static void stop(void *server)
{
	webhook_server_stop(server);
}

static void play(void *arg, publisher_play how)
{
	webhook_server *server = arg;

	switch (how) {
	case PLAY_WELL:
		if (server->pid)
			webhook_server_answer(server, "200");
		else
			webhook_server_again(server);
		break;
	case PLAY_KILLED:
		webhook_server_kill(server);
		break;
	case PLAY_HANGS:
		webhook_server_answer(server, "hang");
		break;
	case PLAY_DENIES:
		webhook_server_answer(server, "401");
		break;
	}
}

static void doom(void *server, publisher_fate fate, wherry_message *msg, char *text,
		 size_t cap)
{
	static const char *const headers[FATE_COUNT] = {
		[FATE_REJECTED] = "{\"x-answer\":\"400\"}",
		[FATE_RETRY] = "{\"x-answer\":\"500\"}",
		[FATE_THROTTLED] = "{\"x-answer\":\"429 retry-after=1 times=1\"}",
		[FATE_UNKNOWN] = "{\"x-answer\":\"hang\"}",
	};

	msg->headers = headers[fate];
	if (fate != FATE_OVERSIZED)
		return;
	memset(text, 'x', cap);
	msg->body = text;
	msg->body_len = 100001;
}

/* What was answered with a 200, or would have been. */
static size_t arrived(void *server, wherry_publisher *pub, int *numbers, size_t cap)
{
	json_t *all = webhook_server_log(server), *entry;
	size_t i, n = 0;

	json_array_foreach (all, i, entry) {
		const json_t *headers = json_object_get(entry, "headers");
		const char *id =
			json_string_value(json_object_get(headers, "idempotency-key"));
		const char *answer = json_string_value(json_object_get(entry, "answer"));

		if (n < cap && strcmp(answer, "200") == 0)
			numbers[n++] = (int)strtol(id + 2, NULL, 10);
	}
	json_decref(all);
	return n;
}

enum { FATES = (1 << FATE_COUNT) - 1 };

#define BACKEND(name_, start_, prepare_)                                                 \
	{                                                                                \
		.name = (name_), .many = 400, .alone = FATES,                            \
		.mixed = FATES & ~(1 << FATE_THROTTLED),                                 \
		.plays = 1 << PLAY_KILLED | 1 << PLAY_HANGS | 1 << PLAY_DENIES,          \
		.start = (start_), .prepare = (prepare_), .stop = stop, .play = play,    \
		.doom = doom, .arrived = arrived,                                        \
	}

int main(void)
{
	static const publisher_backend http = BACKEND("http", start, NULL);
	static const publisher_backend https = BACKEND("https", start_tls, trust);
	static const publisher_backend *const all[] = {&http, &https};
	int failed = publisher_suite_run(all, 2);

	webhook_certificates_clear();
	return failed;
}
