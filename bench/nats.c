/*
 * To NATS: Wherry's relay, and libnats alone, which publishes the same bodies from memory by its
 * asynchronous function, with 4000 acknowledgements outstanding, as is its default.  The server
 * is a private one in a process of its own.
 */
#include "bench.h"

#include <nats/nats.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 4000 };

typedef struct server {
	bench_server process;
	char url[64];
} server;

static void must(natsStatus status)
{
	if (status != NATS_OK)
		bench_die("%s", natsStatus_GetText(status));
}

static natsConnection *connect_to(const server *s, jsCtx **js, jsOptions *options)
{
	natsConnection *connection = NULL;

	must(natsConnection_ConnectTo(&connection, s->url));
	must(natsConnection_JetStream(js, connection, options));
	return connection;
}

static server start_server(const char *subject)
{
	char line[32];
	server s = {.process = bench_serve(BENCH_NATS, line, sizeof(line))};
	jsStreamConfig config;
	natsConnection *connection;
	jsCtx *js = NULL;

	(void)snprintf(s.url, sizeof(s.url), "nats://127.0.0.1:%d",
		       (int)strtol(line, NULL, 10));
	connection = connect_to(&s, &js, NULL);
	must(jsStreamConfig_Init(&config));
	config.Name = "BENCH";
	config.Subjects = &subject;
	config.SubjectsLen = 1;
	must(js_AddStream(NULL, js, &config, NULL, NULL));
	jsCtx_Destroy(js);
	natsConnection_Destroy(connection);
	return s;
}

static void on_answer(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *error,
		      void *closure)
{
	(void)js;
	(void)error;
	if (!ack)
		bench_die("NATS refuses a message");
	atomic_fetch_add((atomic_llong *)closure, 1);
	natsMsg_Destroy(msg);
}

void bench_nats_alone(const bench_job *job, double *out)
{
	const bench_load *load = bench_load_open(job);
	server s = start_server(bench_load_get(load, 0).topic);
	static atomic_llong n_acknowledged;
	jsOptions options;
	natsConnection *connection;
	jsCtx *js = NULL;
	int64_t began;

	must(jsOptions_Init(&options));
	options.PublishAsync.MaxPending = WINDOW;
	options.PublishAsync.StallWait = 60000;
	options.PublishAsync.AckHandler = on_answer;
	options.PublishAsync.AckHandlerClosure = &n_acknowledged;
	connection = connect_to(&s, &js, &options);
	began = bench_now();
	for (int64_t i = 0; i < job->messages; i++) {
		wherry_message m = bench_load_get(load, i);
		char id[24];
		jsPubOptions each;
		natsMsg *msg = NULL;

		(void)snprintf(id, sizeof(id), "%lld", (long long)i);
		must(jsPubOptions_Init(&each));
		each.MsgId = id;
		must(natsMsg_Create(&msg, m.topic, NULL, m.body, (int)m.body_len));
		must(js_PublishMsgAsync(js, &msg, &each));
	}
	must(js_PublishAsyncComplete(js, NULL));
	if (atomic_load(&n_acknowledged) != job->messages)
		bench_die("NATS acknowledged less");
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	jsCtx_Destroy(js);
	natsConnection_Destroy(connection);
	bench_serve_end(&s.process);
}

void bench_nats_wherry(const bench_job *job, double *out)
{
	server s = start_server(bench_load_get(bench_load_open(job), 0).topic);
	bench_job there = *job;

	there.to = s.url;
	bench_wherry_drain(&there, out);
	bench_serve_end(&s.process);
}
