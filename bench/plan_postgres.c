/*
 * What is measured on PostgreSQL.
 */
#include "bench.h"

enum {
	BODY = 200,
	KEYS = 1000,
	BATCH = 1000, /* of both sides of a drain: relay.batch, as it is by default */
	RATE = 500,   /* a second, for the latency */
	MEMORY_TIMES = 10, /* the backlog of the memory figure, in --messages */
	SINGLE_PART = 10   /* one message per commit: so few of --messages */
};

/* Two kinds of keys; what it costs the server. */
static void plan_drain(bench *b)
{
	bench_job job = {.messages = b->options.messages,
			 .keys = KEYS,
			 .body = BODY,
			 .batch = BATCH,
			 .full = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *raw, *many, *hot, *crowded;
	bench_figure *f;

	job.bare = true;
	raw = bench_add_side(g, "libpq", bench_watch_drain, &job);
	job.bare = false;
	many = bench_add_side(g, "Wherry", bench_watch_drain, &job);
	job.keys = 1;
	hot = bench_add_side(g, "Wherry, one hot key", bench_watch_drain, &job);
	job.keys = KEYS;
	job.crowded = true;
	crowded = bench_add_side(g, "Wherry, others open", bench_watch_drain, &job);
	for (int i = 0; i < g->n; i++)
		g->sides[i].backlog = job.messages;

	bench_name_figure(bench_add_figure(b, many, raw, "messages/s", 0),
			  "drain, 1000 keys, %d B", BODY);
	bench_name_figure(bench_add_figure(b, hot, raw, "messages/s", 0),
			  "drain, one hot key, %d B", BODY);
	f = bench_add_figure(b, crowded, many, "messages/s", 0);
	f->at_least = 0.8;
	f->against = "none open";
	bench_name_figure(f, "drain, while transactions stay open");
	f = bench_add_figure(b, many, raw, "bytes/message", 0);
	f->value = 2;
	bench_name_figure(f, "drain, WAL");
}

/* What the trigger costs whoever inserts, while a relay reads. */
static void plan_trigger(bench *b, int64_t per_transaction)
{
	bench_job job = {.messages = per_transaction > 1
					     ? b->options.messages
					     : bench_at_least_one(b->options.messages /
								  SINGLE_PART),
			 .keys = KEYS,
			 .body = BODY,
			 .full = true,
			 .relays = 1,
			 .per_transaction = per_transaction};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *with = bench_add_side(g, "Wherry", bench_libpq_enqueue, &job),
		   *without;
	bench_figure *f;

	job.asleep = true;
	without = bench_add_side(g, "without the trigger", bench_libpq_enqueue, &job);
	f = bench_add_figure(b, with, without, "messages/s", 0);
	f->at_least = 0.95;
	bench_name_figure(f, "insert beside a relay, %s",
			  per_transaction > 1 ? "100 per commit" : "one per commit");
}

/* What more subscriptions cost whoever inserts, each with a relay that is awake. */
static void plan_subscriptions(bench *b)
{
	bench_job job = {.messages =
				 bench_at_least_one(b->options.messages / SINGLE_PART),
			 .keys = KEYS,
			 .body = BODY,
			 .full = true,
			 .relays = 10,
			 .per_transaction = 1};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *ten = bench_add_side(g, "Wherry", bench_libpq_enqueue, &job), *one;
	bench_figure *f;

	job.relays = 1;
	one = bench_add_side(g, "one", bench_libpq_enqueue, &job);
	f = bench_add_figure(b, ten, one, "messages/s", 0);
	f->at_least = 0.97;
	f->against = "one";
	bench_name_figure(f, "insert beside ten subscriptions");
}

static void plan_fill(bench *b)
{
	bench_job job = {.messages = b->options.messages, .full = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *ours = bench_add_side(g, "Wherry", bench_libpq_fill, &job), *bare;
	bench_figure *f;

	job.bare = true;
	bare = bench_add_side(g, "a primary key alone", bench_libpq_fill, &job);
	f = bench_add_figure(b, ours, bare, "messages/s", 0);
	f->at_least = 0.667;
	bench_name_figure(f, "insert, 1000 a statement");
}

static void plan_latency(bench *b)
{
	bench_job job = {.messages = bench_at_least_one(b->options.messages / 100),
			 .rate = RATE,
			 .full = true};
	int runs = b->options.runs < 3 ? (int)b->options.runs : 3;
	bench_group *g = bench_add_group(b, runs, false);
	bench_side *theirs =
		bench_add_side(g, "libpq, never resting", bench_libpq_latency, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_latency, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "ms", 3);

	f->at_most = 2;
	bench_name_figure(f, "latency at %d/s, half of the time", RATE);
	f = bench_add_figure(b, ours, theirs, "ms", 3);
	f->value = 1;
	f->at_most = 10;
	bench_name_figure(f, "latency at %d/s, 99 of 100", RATE);
}

static void plan_memory(bench *b)
{
	bench_job job = {.messages = b->options.messages * MEMORY_TIMES,
			 .keys = KEYS,
			 .body = BODY,
			 .full = true};
	bench_group *g = bench_add_group(b, 1, false);
	bench_side *theirs = bench_add_side(g, "libpq", bench_libpq_drain, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_drain, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "MB", 1);

	ours->backlog = theirs->backlog = job.messages;
	f->value = 1;
	f->at_most = 20;
	bench_name_figure(f, "memory, draining ten backlogs");
}

#ifdef WHERRY_KAFKA
/* What is to be met is 0.9 of the slower: librdkafka alone, or a drain to nowhere. */
static void plan_kafka(bench *b)
{
	bench_job job = {.messages = b->options.messages,
			 .keys = KEYS,
			 .body = BODY,
			 .batch = BATCH,
			 .full = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *alone =
		bench_add_side(g, "librdkafka alone", bench_kafka_alone, &job);
	bench_side *nowhere = bench_add_side(g, "null:", bench_wherry_drain, &job);
	bench_side *many = bench_add_side(g, "Wherry", bench_kafka_wherry, &job), *hot;
	bench_figure *f;

	job.keys = 1;
	hot = bench_add_side(g, "Wherry, one hot key", bench_kafka_wherry, &job);
	for (int i = 1; i < g->n; i++)
		g->sides[i].backlog = job.messages;
	f = bench_add_figure(b, many, alone, "messages/s", 0);
	bench_name_figure(f, "to Kafka, 1000 keys, %d B", BODY);
	f = bench_add_figure(b, many, nowhere, "messages/s", 0);
	f->at_least = 0.9;
	bench_name_figure(f, "to Kafka, against null:, %d B", BODY);
	f = bench_add_figure(b, hot, alone, "messages/s", 0);
	bench_name_figure(f, "to Kafka, one hot key, %d B", BODY);
	f = bench_add_figure(b, many, alone, "MB", 1);
	f->value = 1;
	f->at_most = 32;
	bench_name_figure(f, "to Kafka, memory");
}

/* One message, from nothing. */
static void plan_kafka_start(bench *b)
{
	bench_job job = {.messages = 1, .keys = 1, .body = BODY, .full = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, false);
	bench_side *alone =
		bench_add_side(g, "librdkafka alone", bench_kafka_alone, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_kafka_wherry, &job);
	bench_figure *f = bench_add_figure(b, ours, alone, "ms", 1);

	ours->backlog = 1;
	f->value = 2;
	f->at_most = 200;
	bench_name_figure(f, "to Kafka, the first message");
}
#endif

static void plan_idle(bench *b)
{
	bench_job job = {.seconds = b->options.seconds, .full = true};
	bench_group *g = bench_add_group(b, 1, false);
	bench_side *ours = bench_add_side(g, "Wherry", bench_watch_idle, &job);
	bench_figure *f = bench_add_figure(b, ours, NULL, "queries/minute", 1);

	f->derived = 60;
	f->against = "looking every second, derived";
	f->at_most = 6;
	bench_name_figure(f, "idle, queries");
}

void bench_plan_postgres(bench *b)
{
	plan_drain(b);
	plan_trigger(b, 1);
	plan_trigger(b, 100);
	plan_subscriptions(b);
	plan_fill(b);
	plan_latency(b);
	plan_memory(b);
	bench_plan_http(b, true);
#ifdef WHERRY_KAFKA
	plan_kafka(b);
	plan_kafka_start(b);
#endif
	plan_idle(b);
	bench_plan_stream(b);
	for (int i = 0; i < b->n_figures; i++)
		b->figures[i].headline = true;
	bench_plan_functions(b);
}
