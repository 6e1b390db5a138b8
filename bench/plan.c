/*
 * What is measured: a table of groups, each with its sides and the figures that come of them.
 */
#include "bench.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

enum {
	SHORT = 200, /* bytes of a body */
	LONG = 600,
	KEYS = 1000,
	NO_KEY = -1,
	SQLITE = 1, /* databases */
	POSTGRES = 2,
	MSSQL = 4,
	OWN_FILES = SQLITE | POSTGRES,
	ALL = -1, /* messages: of the job */
	SIDES = BENCH_SIDES_MOST,
	FIGURES = 5
};

typedef struct side_row {
	const char *name;
	bench_work *run;
	int keys;                        /* 0: KEYS */
	bool bare, asleep, crowded, wal; /* of the job */
	bool one_relay;                  /* of those that its group has */
	bool normal;                     /* synchronous=NORMAL in a group with FULL */
	bool no_backlog, no_message;     /* its group has */
	int on;                          /* databases; 0: those of its group */
} side_row;

typedef struct figure_row {
	const char *label;
	int ours,
		theirs; /* sides; both the same: the number of the other side is derived */
	const char *unit;
	int digits, value;
	double at_least, at_most, derived;
	const char *against; /* NULL: the name of the other side */
	int minor; /* databases on which it does not stand in docs/benchmarks.md */
} figure_row;

typedef struct group_row {
	int on;          /* databases */
	bool both;       /* once with synchronous=FULL and once with NORMAL */
	int runs;        /* at most, without a warm-up; 0: as many as --runs, after one */
	int times, part; /* messages: --messages times this, or divided by it; 0: 1 */
	int backlog;     /* ALL, or a number */
	bool at_once, logical;
	bench_job job;
	side_row sides[SIDES];
	figure_row figures[FIGURES];
} group_row;

#define RATE "messages/s", 0
#define LOOKS "looking every second, derived"

/* Rows leave out what is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* clang-format off */
static const group_row groups[] = {
	/* Three kinds of keys. */
#define DRAIN(size, text, small) \
	{SQLITE, .both = true, .backlog = ALL, .job = {.body = size}, \
	 .sides = {{"raw", bench_raw_drain}, \
		   {"Wherry", bench_wherry_drain}, \
		   {"Wherry, one hot key", bench_wherry_drain, 1}, \
		   {"Wherry, no key", bench_wherry_drain, NO_KEY}}, \
	 .figures = {{"drain, 1000 keys, " text, 1, 0, RATE}, \
		     {"drain, one hot key, " text, 2, 0, RATE, .minor = small}, \
		     {"drain, no key, " text, 3, 0, RATE, .minor = small}, \
		     {"drain, hot against many, " text, 2, 1, RATE, .at_least = 0.9, \
		      .against = "1000 keys", .minor = SQLITE}}}
	DRAIN(SHORT, "200 B", 0),
	DRAIN(LONG, "600 B", SQLITE),
#define ENQUEUE(size, text, parts, at_once, label, least, small) \
	{SQLITE, .both = true, .part = parts, \
	 .job = {.body = size, .per_transaction = at_once}, \
	 .sides = {{"raw", bench_raw_enqueue}, {"Wherry", bench_wherry_enqueue}}, \
	 .figures = {{"enqueue, " label " per commit, " text, 1, 0, RATE, \
		      .at_least = least, .minor = small}}}
	ENQUEUE(SHORT, "200 B", 1, 100, "100", 0.8, 0),
	ENQUEUE(SHORT, "200 B", 20, 1, "one", 0.9, 0),
	ENQUEUE(LONG, "600 B", 1, 100, "100", 0.8, SQLITE),
	ENQUEUE(LONG, "600 B", 20, 1, "one", 0.9, SQLITE),
	/* A program's own pool handles a batch, then marks it; Wherry's handles on meanwhile. */
#define HANDLE(parts, us, label, least) \
	{SQLITE, .both = true, .part = parts, .backlog = ALL, \
	 .job = {.handle = true, .work_us = us}, \
	 .sides = {{"raw, a pool of threads", bench_raw_drain}, \
		   {"Wherry", bench_wherry_handle}}, \
	 .figures = {{"handlers, 8 threads, " label, 1, 0, RATE, .at_least = least}}}
	HANDLE(1, 0, "doing nothing", 0.5),
	HANDLE(10, 1000, "1 ms each", 0.8),
	/* SQLite has one writer at a time: threads cannot make this faster. */
	{SQLITE, .both = true, .part = 10, .backlog = ALL, .job = {.step = true},
	 .sides = {{"raw, one thread", bench_raw_step}, {"Wherry", bench_wherry_handle}},
	 .figures = {{"handlers, a row with each acknowledgement", 1, 0, RATE,
		      .at_least = 0.3}}},
#define LATENCY(database, twice, a_second, text, floor, run) \
	{database, .both = twice, .runs = 3, .part = 100, .job = {.rate = a_second}, \
	 .sides = {{floor ", never resting", run}, {"Wherry", bench_wherry_latency}}, \
	 .figures = {{"latency at " text "/s, half of the time", 1, 0, "ms", 3, 0, \
		      .at_most = 2}, \
		     {"latency at " text "/s, 99 of 100", 1, 0, "ms", 3, 1, .at_most = 10}}}
	LATENCY(SQLITE, true, WH_BENCH_RATE, "200", "raw", bench_raw_latency),
	{SQLITE, .both = true, .runs = 1, .times = 10, .backlog = ALL,
	 .sides = {{"raw", bench_raw_drain}, {"Wherry", bench_wherry_drain}},
	 .figures = {{"memory, draining ten backlogs", 1, 0, "MB", 1, 1, .at_most = 16}}},

	/* Two kinds of keys; what it costs the server. */
	{POSTGRES, .backlog = ALL, .job = {.batch = BENCH_BATCH},
	 .sides = {{"libpq", bench_watch_drain, .bare = true},
		   {"Wherry", bench_watch_drain},
		   {"Wherry, one hot key", bench_watch_drain, 1},
		   {"Wherry, others open", bench_watch_drain, .crowded = true}},
	 .figures = {{"drain, 1000 keys, 200 B", 1, 0, RATE},
		     {"drain, one hot key, 200 B", 2, 0, RATE},
		     {"drain, while transactions stay open", 3, 1, RATE, .at_least = 0.8,
		      .against = "none open"},
		     {"drain, WAL", 1, 0, "bytes/message", 0, 2}}},
	/* What the trigger costs a producer, while a relay reads. */
#define TRIGGER(parts, at_once, label) \
	{POSTGRES, .part = parts, .job = {.relays = 1, .per_transaction = at_once}, \
	 .sides = {{"Wherry", bench_libpq_enqueue}, \
		   {"without the trigger", bench_libpq_enqueue, .asleep = true}}, \
	 .figures = {{"insert beside a relay, " label, 0, 1, RATE, .at_least = 0.95}}}
	TRIGGER(10, 1, "one per commit"),
	TRIGGER(1, 100, "100 per commit"),
	/* What more subscriptions cost a producer, each with a relay that is awake. */
	{POSTGRES, .part = 10, .job = {.relays = 10, .per_transaction = 1},
	 .sides = {{"Wherry", bench_libpq_enqueue},
		   {"one", bench_libpq_enqueue, .one_relay = true}},
	 .figures = {{"insert beside ten subscriptions", 0, 1, RATE, .at_least = 0.97}}},
	{POSTGRES,
	 .sides = {{"Wherry", bench_libpq_fill},
		   {"a primary key alone", bench_libpq_fill, .bare = true}},
	 .figures = {{"insert, 1000 a statement", 0, 1, RATE, .at_least = 0.667}}},
	LATENCY(POSTGRES, false, 500, "500", "libpq", bench_libpq_latency),
	{POSTGRES, .runs = 1, .times = 10, .backlog = ALL,
	 .sides = {{"libpq", bench_libpq_drain}, {"Wherry", bench_wherry_drain}},
	 .figures = {{"memory, draining ten backlogs", 1, 0, "MB", 1, 1, .at_most = 20}}},

#ifdef WHERRY_HTTP
	/* A relay is as fast as the slower of its two halves: posting, and draining to null:. */
	{OWN_FILES, .backlog = ALL,
	 .sides = {{"libcurl alone", bench_curl_post},
		   {"to null:", bench_wherry_drain},
		   {"Wherry", bench_wherry_post},
		   {"Wherry, one hot key", bench_wherry_post, 1},
		   {"libpq and libcurl", bench_libpq_post, .on = POSTGRES}},
	 .figures = {{"to http:, 1000 keys, 200 B", 2, 0, RATE, .at_least = 0.9},
		     {"to http:, against null:, 200 B", 2, 1, RATE, .minor = SQLITE},
		     {"to http:, one hot key, 200 B", 3, 0, RATE, .minor = SQLITE},
		     {"to http:, against libpq and libcurl", 2, 4, RATE}}},
#endif
#ifdef WHERRY_KAFKA
	/* What is to be met is 0.9 of the slower: librdkafka alone, or a drain to nowhere. */
	{POSTGRES, .backlog = ALL, .job = {.batch = BENCH_BATCH},
	 .sides = {{"librdkafka alone", bench_kafka_alone, .no_backlog = true},
		   {"null:", bench_wherry_drain},
		   {"Wherry", bench_kafka_wherry},
		   {"Wherry, one hot key", bench_kafka_wherry, 1}},
	 .figures = {{"to Kafka, 1000 keys, 200 B", 2, 0, RATE},
		     {"to Kafka, against null:, 200 B", 2, 1, RATE, .at_least = 0.9},
		     {"to Kafka, one hot key, 200 B", 3, 0, RATE},
		     {"to Kafka, memory", 2, 0, "MB", 1, 1, .at_most = 32}}},
	/* One message, from nothing. */
	{POSTGRES, .runs = BENCH_RUNS_MOST, .backlog = ALL, .job = {.messages = 1},
	 .sides = {{"librdkafka alone", bench_kafka_alone, 1, .no_backlog = true},
		   {"Wherry", bench_kafka_wherry, 1}},
	 .figures = {{"to Kafka, the first message", 1, 0, "ms", 1, 2, .at_most = 200}}},
#endif
#ifdef WHERRY_AMQP
	{OWN_FILES, .runs = 3, .backlog = ALL,
	 .sides = {{"librabbitmq alone", bench_amqp_alone, .no_backlog = true},
		   {"Wherry", bench_amqp_wherry}},
	 .figures = {{"to RabbitMQ, 1000 keys, 200 B", 1, 0, RATE, .at_least = 0.85,
		      .minor = OWN_FILES}}},
#endif
#ifdef WHERRY_NATS
	{OWN_FILES, .runs = 3, .backlog = ALL,
	 .sides = {{"libnats alone", bench_nats_alone, .no_backlog = true},
		   {"Wherry", bench_nats_wherry}},
	 .figures = {{"to NATS, 1000 keys, 200 B", 1, 0, RATE, .at_least = 0.85,
		      .minor = OWN_FILES}}},
#endif
#ifdef WHERRY_REDIS
	{OWN_FILES, .runs = 3, .backlog = ALL,
	 .sides = {{"hiredis alone", bench_redis_alone, .no_backlog = true},
		   {"null:", bench_wherry_drain},
		   {"Wherry", bench_redis_wherry},
		   {"Wherry, one hot key", bench_redis_wherry, 1}},
	 .figures = {{"to Redis, 1000 keys, 200 B", 2, 0, RATE, .minor = OWN_FILES},
		     {"to Redis, against null:, 200 B", 2, 1, RATE, .at_least = 0.85,
		      .minor = OWN_FILES},
		     {"to Redis, one hot key, 200 B", 3, 0, RATE, .minor = OWN_FILES}}},
#endif
	/* All at once: they take their time and no processor. */
	{SQLITE, .runs = 1, .backlog = 1000, .at_once = true,
	 .sides = {{"raw, looks every second", bench_raw_idle},
		   {"Wherry", bench_wherry_idle},
		   {"raw, looks every second", bench_raw_idle, .normal = true},
		   {"Wherry", bench_wherry_idle, .normal = true}},
	 .figures = {{"idle, SQL statements", 1, 0, "statements/10 s", 1, .at_most = 1},
		     {"idle, processor", 1, 0, "% of a core", 3, 1, .at_most = 0.2},
		     {"idle, SQL statements", 3, 2, "statements/10 s", 1, .at_most = 1},
		     {"idle, processor", 3, 2, "% of a core", 3, 1, .at_most = 0.2}}},
	{POSTGRES, .runs = 1, .sides = {{"Wherry", bench_watch_idle}},
	 .figures = {{"idle, queries", 0, 0, "queries/minute", 1, .derived = 60,
		      .against = LOOKS, .at_most = 6}}},
	/* A relay that reads the WAL writes nothing to the rows: the same work as reading the
	 * slot's output away. */
#define WAL(many, share, most, at_once, text, ...) \
	{POSTGRES, .runs = most, .times = many, .part = share, .logical = true, \
	 .job = {.per_transaction = at_once, .stream = true}, \
	 .sides = {{"pg_recvlogical", bench_receive}, {"Wherry", bench_stream_drain}}, \
	 .figures = {{"WAL, " text, 1, 0, __VA_ARGS__}}}
	WAL(1, 1, 0, 1000, "1000 per commit", RATE, .at_least = 0.8),
	WAL(1, 10, 0, 1, "one per commit", RATE, .at_least = 0.8),
	WAL(10, 1, 1, ALL, "memory, ten backlogs in one commit", "MB", 1, 1, .at_most = 20),
	WAL(10, 1, 1, 1000, "memory, ten backlogs", "MB", 1, 1, .at_most = 20),
	/* How soon a message is handed over, read from the WAL and by looks at the table. */
	{POSTGRES, .runs = BENCH_RUNS_MOST, .part = 100, .logical = true, .job = {.rate = 500},
	 .sides = {{"by looks", bench_wherry_latency},
		   {"Wherry", bench_wherry_latency, .wal = true}},
	 .figures = {{"WAL, latency at 500/s, half of the time", 1, 0, "ms", 3, 0},
		     {"WAL, latency at 500/s, 99 of 100", 1, 0, "ms", 3, 1}}},

#ifdef WHERRY_ODBC
	{MSSQL, .backlog = ALL, .job = {.batch = BENCH_BATCH},
	 .sides = {{"ODBC, a batch at once", bench_odbc_drain},
		   {"Wherry", bench_wherry_drain},
		   {"Wherry, one hot key", bench_wherry_drain, 1}},
	 .figures = {{"drain, 1000 keys, 200 B", 1, 0, RATE, .at_least = 0.8},
		     {"drain, one hot key, 200 B", 2, 0, RATE, .at_least = 0.8}}},
#endif
};

/* Delayed queues; on SQL Server consumers look four times a second. */
static const group_row delayed_groups[] = {
	/* Times of messages, beside a consumer that looks every second. */
	{OWN_FILES, .runs = 3, .part = 100, .sides = {{"Wherry", bench_delayed_lateness}},
	 .figures = {{"delayed queue, lateness, half of the time", 0, 0, "ms", 1, 0,
		      .derived = 500, .against = LOOKS, .at_most = 5, .minor = OWN_FILES},
		     {"delayed queue, lateness, 99 of 100", 0, 0, "ms", 1, 1, .derived = 990,
		      .against = LOOKS, .at_most = 20, .minor = OWN_FILES}}},
	{OWN_FILES, .runs = 1, .sides = {{"Wherry", bench_delayed_idle}},
	 .figures = {{"delayed queue, idle", 0, 0, "statements/minute", 1, .derived = 60,
		      .against = LOOKS, .at_most = 6, .minor = OWN_FILES}}},
	/* Polls beside ten times as many messages that wait, and beside none. */
	{OWN_FILES, .runs = 3, .times = 10,
	 .sides = {{"none waits", bench_delayed_polls, .no_message = true},
		   {"Wherry", bench_delayed_polls}},
	 .figures = {{"delayed queue, poll beside many that wait", 1, 0, "polls/s", 0,
		      .at_least = 0.9, .minor = OWN_FILES}}},
};
/* clang-format on */

/* ---- groups of the table ---- */

static int64_t at_least_one(int64_t n)
{
	return n > 0 ? n : 1;
}

static int database(const bench *b)
{
	return b->options.mssql ? MSSQL : b->options.postgres ? POSTGRES : SQLITE;
}

static bench_group *add_group(bench *b, int most_runs)
{
	bench_group *g = &b->groups[b->n_groups++];
	int runs = (int)b->options.runs;

	g->runs = most_runs && most_runs < runs ? most_runs : runs;
	g->warm_up = !most_runs;
	return g;
}

static bench_side *add_side(bench_group *g, const char *name, bench_work *run,
			    const bench_job *job)
{
	bench_side *side = &g->sides[g->n++];

	side->name = name;
	side->run = run;
	side->job = *job;
	return side;
}

static bench_figure *add_figure(bench *b, const char *label, bench_side *ours,
				bench_side *theirs, const char *unit, double at_least)
{
	bench_figure *f = &b->figures[b->n_figures++];

	*f = (bench_figure){.ours = ours,
			    .theirs = theirs,
			    .against = theirs ? theirs->name : NULL,
			    .unit = unit,
			    .at_least = at_least,
			    .full = ours->job.full};
	(void)snprintf(f->label, sizeof(f->label), "%s", label);
	(void)snprintf(f->name, sizeof(f->name), "%s %s", label,
		       f->full ? "full" : "normal");
	return f;
}

static bench_job job_of(const bench *b, const group_row *row, bool full)
{
	bench_job job = row->job;

	if (!job.messages)
		job.messages =
			at_least_one(b->options.messages * (row->times ? row->times : 1) /
				     (row->part ? row->part : 1));
	if (job.per_transaction == ALL)
		job.per_transaction = job.messages;
	job.body = job.body ? job.body : SHORT;
	job.seconds = b->options.seconds;
	job.full = full;
	return job;
}

static void add_row_side(bench_group *g, const group_row *row, const side_row *s,
			 bench_job job)
{
	bench_side *side;

	job.keys = s->keys == NO_KEY ? 0 : s->keys ? s->keys : KEYS;
	job.messages = s->no_message ? 0 : job.messages;
	job.full = job.full && !s->normal;
	job.bare = s->bare;
	job.asleep = s->asleep;
	job.crowded = s->crowded;
	job.wal = s->wal;
	job.relays = s->one_relay ? 1 : job.relays;
	side = add_side(g, s->name, s->run, &job);
	if (!s->no_backlog)
		side->backlog = row->backlog == ALL ? job.messages : row->backlog;
}

static void add_row(bench *b, const group_row *row, bool full)
{
	bench_group *g = add_group(b, row->runs);
	const bench_job job = job_of(b, row, full);

	g->at_once = row->at_once;
	g->logical = row->logical;
	for (int i = 0; i < SIDES && row->sides[i].name; i++)
		if (!row->sides[i].on || row->sides[i].on & database(b))
			add_row_side(g, row, &row->sides[i], job);
	for (int i = 0; i < FIGURES && row->figures[i].label; i++) {
		const figure_row *from = &row->figures[i];
		bench_side *theirs = &g->sides[from->theirs];
		bench_figure *f;

		if (from->theirs >= g->n)
			continue;
		f = add_figure(b, from->label, &g->sides[from->ours],
			       from->theirs == from->ours ? NULL : theirs, from->unit,
			       from->at_least);
		f->digits = from->digits;
		f->value = from->value;
		f->at_most = from->at_most;
		f->derived = from->derived;
		f->against = from->against ? from->against : f->against;
		f->headline = !(from->minor & database(b));
	}
}

static void add_rows(bench *b, const group_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!(rows[i].on & database(b)))
			continue;
		add_row(b, &rows[i], true);
		if (rows[i].both)
			add_row(b, &rows[i], false);
	}
}

/* ---- groups that are alike ---- */

/* outbox-event-bus on SQLite reads batchSize (50) events, then always sleeps for
 * pollIntervalMs (1000): its defaults allow 50 events a second and no more. */
static void plan_peer(bench *b)
{
	bench_figure *f = add_figure(b, "drain, beside a peer's defaults",
				     b->figures[0].ours, NULL, "messages/s", 0);

	f->derived = 50.0 / (1000 / 1000.0);
	f->against = "outbox-event-bus, derived";
	f->headline = true;
}

static void plan_functions(bench *b)
{
	char label[64];

	for (int i = 0; bench_function(i); i++) {
		bench_job job = {.messages = at_least_one(b->options.messages / 50),
				 .function = i};
		bench_group *g = add_group(b, 0);
		bench_side *hand = add_side(g, "by hand", bench_function_by_hand, &job);
		bench_side *ours = add_side(g, "Wherry", bench_function_call, &job);

		(void)snprintf(label, sizeof(label), "function %s", bench_function(i));
		add_figure(b, label, ours, hand, "calls/s", 0.5);
	}
}

static bench_work *queue_by_hand(const bench *b)
{
#ifdef WHERRY_ODBC
	if (b->options.mssql)
		return bench_odbc_queue;
#else
#endif
	return bench_hand_queue;
}

static void plan_queue(bench *b, const char *what, bool delayed, bench_queue queue,
		       int64_t at_once)
{
	const char *model = delayed ? "delayed queue" : "queue",
		   *how_many = at_once > 1 ? "100 at once" : "single";
	bench_job job = {
		.messages = at_least_one(b->options.messages / (at_once > 1 ? 1 : 20)),
		.per_transaction = at_once,
		.queue = queue,
		.delayed = delayed,
		.full = true};
	bench_group *g = add_group(b, 0);
	bench_side *hand = add_side(g, "by hand", queue_by_hand(b), &job);
	bench_side *ours = add_side(g, "Wherry", bench_wherry_queue, &job), *crowded;
	char label[64];

	(void)snprintf(label, sizeof(label), "%s, %s, %s", model, what, how_many);
	add_figure(b, label, ours, hand, "messages/s", b->options.mssql ? 0.8 : 0.9);
	if (!b->options.postgres || queue != BENCH_LEASE)
		return;
	job.crowded = true;
	crowded = add_side(g, "Wherry, one open", bench_wherry_queue, &job);
	(void)snprintf(label, sizeof(label), "%s, %s, while a transaction is open", model,
		       how_many);
	add_figure(b, label, crowded, ours, "messages/s", 0.8)->against = "none open";
}

static bool asked_for(const bench *b, const bench_figure *f)
{
	char pattern[256];

	if (!b->options.only)
		return true;
	(void)snprintf(pattern, sizeof(pattern), "*%.250s*", b->options.only);
	return fnmatch(pattern, f->name, 0) == 0;
}

void bench_plan(bench *b)
{
	add_rows(b, groups, sizeof(groups) / sizeof(*groups));
	if (b->options.postgres)
		plan_functions(b);
	else if (!b->options.mssql)
		plan_peer(b);
	add_rows(b, delayed_groups, sizeof(delayed_groups) / sizeof(*delayed_groups));
	for (int64_t at_once = 1; at_once <= 100; at_once *= 100) {
		plan_queue(b, "send", false, BENCH_SEND, at_once);
		plan_queue(b, "receive by deleting", false, BENCH_TAKE, at_once);
		plan_queue(b, "lease and acknowledge", false, BENCH_LEASE, at_once);
		plan_queue(b, "offer", true, BENCH_SEND, at_once);
		plan_queue(b, "poll and acknowledge", true, BENCH_LEASE, at_once);
	}
	for (int i = 0; i < b->n_figures; i++) {
		bench_figure *f = &b->figures[i];

		f->wanted = asked_for(b, f);
		f->ours->wanted |= f->wanted;
		if (f->theirs)
			f->theirs->wanted |= f->wanted;
	}
	for (int i = 0; i < b->n_groups; i++)
		for (int j = 0; j < b->groups[i].n; j++)
			b->groups[i].sides[j].job.data = b->options.data;
}

/* ---- what comes of the runs ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the numbers. */
static double median(double *numbers, int n)
{
	qsort(numbers, (size_t)n, sizeof(*numbers), compare);
	return n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2;
}

static void evaluate(bench_figure *f)
{
	double ours[BENCH_RUNS_MOST] = {0}, theirs[BENCH_RUNS_MOST] = {0};
	double ratio[BENCH_RUNS_MOST] = {0};
	int n = f->ours->n_runs;

	for (int i = 0; i < n; i++) {
		ours[i] = f->ours->runs[f->value][i];
		theirs[i] = f->theirs ? f->theirs->runs[f->value][i] : f->derived;
		ratio[i] = theirs[i] > 0 ? ours[i] / theirs[i] : 0;
	}
	f->our_number = median(ours, n);
	f->their_number = median(theirs, n);
	f->ratio = median(ratio, n);
	f->least = ratio[0];
	f->most = ratio[n - 1];
	f->measured = true;
}

void bench_evaluate(bench *b, const bench_group *group)
{
	for (int i = 0; i < b->n_figures; i++) {
		bench_figure *f = &b->figures[i];

		if (f->wanted && f->ours->n_runs && f->ours >= group->sides &&
		    f->ours < group->sides + group->n)
			evaluate(f);
	}
}

bool bench_met(const bench_figure *f)
{
	return f->at_most > 0 ? f->our_number <= f->at_most : f->ratio >= f->at_least;
}
