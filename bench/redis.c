/*
 * To Redis: Wherry's relay, and hiredis alone, which adds entries with the same fields from memory,
 * with 4000 answers outstanding.  The server is a private one in a process of its own, without a
 * disk.
 */
#include "bench.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 4000, BATCH = 256 };

static bench_server start_server(int *port)
{
	char line[32];
	bench_server s = bench_serve(BENCH_REDIS, line, sizeof(line));

	*port = (int)strtol(line, NULL, 10);
	return s;
}

static redisContext *connect_to(int port)
{
	redisContext *c = redisConnect("127.0.0.1", port);

	if (!c || c->err)
		bench_die("Redis does not answer: %s", c ? c->errstr : "no memory");
	return c;
}

static void take_answer(redisContext *c)
{
	redisReply *reply = NULL;

	if (redisGetReply(c, (void **)&reply) != REDIS_OK ||
	    reply->type != REDIS_REPLY_STRING)
		bench_die("Redis refuses a message");
	freeReplyObject(reply);
}

static void add(redisContext *c, const wherry_message *m, int64_t i)
{
	static const char created[] = "2026-01-01T00:00:00.000Z";
	char id[48];
	const char *words[13] = {"XADD",  m->topic, "*",    "message_id", id,
				 "topic", m->topic, "key",  m->key,       "created_at",
				 created, "body",   m->body};
	size_t lens[13];

	/* As long as the ids of Wherry's messages are. */
	(void)snprintf(id, sizeof(id), "0192f0c1-2b3c-7d4e-8f5a-%012lld", (long long)i);
	for (int w = 0; w < 12; w++)
		lens[w] = strlen(words[w]);
	lens[12] = m->body_len;
	if (redisAppendCommandArgv(c, 13, words, lens) != REDIS_OK)
		bench_die("hiredis: %s", c->errstr);
}

void bench_redis_alone(const bench_job *job, double *out)
{
	const bench_load *load = bench_load_open(job);
	int port;
	bench_server s = start_server(&port);
	redisContext *c = connect_to(port);
	int64_t began = bench_now(), n_taken = 0;

	for (int64_t i = 0; i < job->messages; i++) {
		wherry_message m = bench_load_get(load, i);

		add(c, &m, i);
		/* Fetch the answers to a batch when so many are outstanding. */
		if (i + 1 - n_taken >= WINDOW)
			for (int b = 0; b < BATCH; b++, n_taken++)
				take_answer(c);
	}
	for (; n_taken < job->messages; n_taken++)
		take_answer(c);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	redisFree(c);
	bench_serve_end(&s);
}

void bench_redis_wherry(const bench_job *job, double *out)
{
	char url[64];
	int port;
	bench_server s = start_server(&port);
	bench_job there = *job;

	(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
	there.to = url;
	bench_wherry_drain(&there, out);
	bench_serve_end(&s);
}
