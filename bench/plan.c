/*
 * What is measured.
 */
#include "bench.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

enum {
	SHORT = 200, /* bytes of a body */
	LONG = 600,
	KEYS = 1000,
	MEMORY_TIMES = 10, /* the backlog of the memory figure, in --messages */
	WORK_PART = 10,    /* a millisecond each: so few of --messages */
	SINGLE_PART = 20,  /* one message per commit: so few of --messages */
	IDLE_BACKLOG = 1000
};

/* ---- helpers ---- */

bench_group *bench_add_group(bench *b, int runs, bool warm_up)
{
	bench_group *g = &b->groups[b->n_groups++];

	g->runs = runs;
	g->warm_up = warm_up;
	return g;
}

bench_side *bench_add_side(bench_group *g, const char *name, bench_fn run,
			   const bench_job *job)
{
	bench_side *side = &g->sides[g->n++];

	side->name = name;
	side->run = run;
	side->job = *job;
	return side;
}

bench_figure *bench_add_figure(bench *b, bench_side *ours, bench_side *theirs,
			       const char *unit, int digits)
{
	bench_figure *f = &b->figures[b->n_figures++];

	f->ours = ours;
	f->theirs = theirs;
	f->against = theirs ? theirs->name : NULL;
	f->unit = unit;
	f->digits = digits;
	f->full = ours->job.full;
	return f;
}

void bench_name_figure(bench_figure *f, const char *fmt, ...)
{
	size_t len;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(f->label, sizeof(f->label), fmt, args);
	va_end(args);
	len = strlen(f->label);
	(void)snprintf(f->name, sizeof(f->name), "%.*s %s", (int)len, f->label,
		       f->full ? "full" : "normal");
}

int64_t bench_at_least_one(int64_t n)
{
	return n > 0 ? n : 1;
}

/* ---- the groups ---- */

/* Three kinds of keys. */
static void plan_drain(bench *b, int body, bool full)
{
	static const struct {
		int keys;
		const char *name, *text;
	} kinds[] = {{KEYS, "Wherry", "1000 keys"},
		     {1, "Wherry, one hot key", "one hot key"},
		     {0, "Wherry, no key", "no key"}};
	bench_job job = {.messages = b->options.messages,
			 .keys = KEYS,
			 .body = body,
			 .full = full};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *raw = bench_add_side(g, "raw", bench_raw_drain, &job), *ours[3];
	bench_figure *f;

	for (int i = 0; i < 3; i++) {
		job.keys = kinds[i].keys;
		ours[i] = bench_add_side(g, kinds[i].name, bench_wherry_drain, &job);
		f = bench_add_figure(b, ours[i], raw, "messages/s", 0);
		f->headline = body == SHORT || i == 0;
		bench_name_figure(f, "drain, %s, %d B", kinds[i].text, body);
	}
	for (int i = 0; i < g->n; i++)
		g->sides[i].backlog = job.messages;
	f = bench_add_figure(b, ours[1], ours[0], "messages/s", 0);
	f->at_least = 0.9;
	f->against = "1000 keys";
	bench_name_figure(f, "drain, hot against many, %d B", body);
}

/* A program's own pool handles a batch, then marks it; Wherry's handles on meanwhile. */
static void plan_handle(bench *b, int64_t work_us, bool full)
{
	bench_job job = {
		.messages = work_us ? bench_at_least_one(b->options.messages / WORK_PART)
				    : b->options.messages,
		.keys = KEYS,
		.body = SHORT,
		.full = full,
		.handle = true,
		.work_us = work_us};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *theirs =
		bench_add_side(g, "raw, a pool of threads", bench_raw_drain, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_handle, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "messages/s", 0);

	ours->backlog = theirs->backlog = job.messages;
	f->at_least = work_us ? 0.8 : 0.5;
	f->headline = true;
	bench_name_figure(f, "handlers, 8 threads, %s",
			  work_us ? "1 ms each" : "doing nothing");
}

/* SQLite has one writer at a time: threads cannot make this faster. */
static void plan_step(bench *b, bool full)
{
	bench_job job = {.messages = bench_at_least_one(b->options.messages / WORK_PART),
			 .keys = KEYS,
			 .body = SHORT,
			 .full = full,
			 .step = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *theirs = bench_add_side(g, "raw, one thread", bench_raw_step, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_handle, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "messages/s", 0);

	ours->backlog = theirs->backlog = job.messages;
	f->at_least = 0.3;
	f->headline = true;
	bench_name_figure(f, "handlers, a row with each acknowledgement");
}

static void plan_enqueue(bench *b, int body, int64_t per_transaction, bool full)
{
	bench_job job = {.messages = per_transaction > 1
					     ? b->options.messages
					     : bench_at_least_one(b->options.messages /
								  SINGLE_PART),
			 .keys = KEYS,
			 .body = body,
			 .full = full,
			 .per_transaction = per_transaction};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *theirs = bench_add_side(g, "raw", bench_raw_enqueue, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_enqueue, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "messages/s", 0);

	f->at_least = per_transaction > 1 ? 0.8 : 0.9;
	f->headline = body == SHORT;
	bench_name_figure(f, "enqueue, %s per commit, %d B",
			  per_transaction > 1 ? "100" : "one", body);
}

static void plan_latency(bench *b, bool full)
{
	bench_job job = {.messages = bench_at_least_one(b->options.messages / 100),
			 .body = SHORT,
			 .rate = WH_BENCH_RATE,
			 .full = full};
	int runs = b->options.runs < 3 ? (int)b->options.runs : 3;
	bench_group *g = bench_add_group(b, runs, false);
	bench_side *theirs =
		bench_add_side(g, "raw, never resting", bench_raw_latency, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_latency, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "ms", 3);

	f->at_most = 2;
	f->headline = true;
	bench_name_figure(f, "latency at 200/s, half of the time");
	f = bench_add_figure(b, ours, theirs, "ms", 3);
	f->value = 1;
	f->at_most = 10;
	f->headline = true;
	bench_name_figure(f, "latency at 200/s, 99 of 100");
}

static void plan_memory(bench *b, bool full)
{
	bench_job job = {.messages = b->options.messages * MEMORY_TIMES,
			 .keys = KEYS,
			 .body = SHORT,
			 .full = full};
	bench_group *g = bench_add_group(b, 1, false);
	bench_side *theirs = bench_add_side(g, "raw", bench_raw_drain, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_drain, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "MB", 1);

	ours->backlog = theirs->backlog = job.messages;
	f->value = 1;
	f->at_most = 16;
	f->headline = true;
	bench_name_figure(f, "memory, draining ten backlogs");
}

/* A relay is as fast as the slower of its two halves: posting, and draining to null:. */
void bench_plan_http(bench *b, bool full)
{
#ifdef WHERRY_HTTP
	bench_job job = {.messages = b->options.messages,
			 .keys = KEYS,
			 .body = SHORT,
			 .full = full};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *alone = bench_add_side(g, "libcurl alone", bench_curl_post, &job);
	bench_side *null = bench_add_side(g, "to null:", bench_wherry_drain, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_post, &job);
	bench_figure *f = bench_add_figure(b, ours, alone, "messages/s", 0);
	bench_side *hot, *least;

	f->at_least = 0.9;
	f->headline = true;
	bench_name_figure(f, "to http:, 1000 keys, %d B", SHORT);
	bench_name_figure(bench_add_figure(b, ours, null, "messages/s", 0),
			  "to http:, against null:, %d B", SHORT);
	if (b->options.postgres) {
		least = bench_add_side(g, "libpq and libcurl", bench_libpq_post, &job);
		f = bench_add_figure(b, ours, least, "messages/s", 0);
		bench_name_figure(f, "to http:, against libpq and libcurl");
	}
	job.keys = 1;
	hot = bench_add_side(g, "Wherry, one hot key", bench_wherry_post, &job);
	bench_name_figure(bench_add_figure(b, hot, alone, "messages/s", 0),
			  "to http:, one hot key, %d B", SHORT);
	for (int i = 0; i < g->n; i++)
		g->sides[i].backlog = job.messages;
#else
	(void)b;
	(void)full;
#endif
}

/* All at once: they take their time and no processor. */
static void plan_idle(bench *b)
{
	bench_group *g = bench_add_group(b, 1, false);

	g->at_once = true;
	for (int full = 1; full >= 0; full--) {
		bench_job job = {.seconds = b->options.seconds,
				 .keys = KEYS,
				 .body = SHORT,
				 .full = full};
		bench_side *theirs = bench_add_side(g, "raw, looks every second",
						    bench_raw_idle, &job);
		bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_idle, &job);
		bench_figure *f = bench_add_figure(b, ours, theirs, "statements/10 s", 1);

		ours->backlog = theirs->backlog = IDLE_BACKLOG;
		f->at_most = 1;
		f->headline = true;
		bench_name_figure(f, "idle, SQL statements");
		f = bench_add_figure(b, ours, theirs, "% of a core", 3);
		f->value = 1;
		f->at_most = 0.2;
		f->headline = true;
		bench_name_figure(f, "idle, processor");
	}
}

/* outbox-event-bus on SQLite reads batchSize (50) events, then always sleeps for
 * pollIntervalMs (1000): its defaults allow 50 events a second and no more. */
static void plan_peer(bench *b)
{
	bench_figure *f = bench_add_figure(b, b->figures[0].ours, NULL, "messages/s", 0);

	f->derived = 50.0 / (1000 / 1000.0);
	f->against = "outbox-event-bus, derived";
	f->headline = true;
	bench_name_figure(f, "drain, beside a peer's defaults");
}

static bool asked_for(const bench *b, const bench_figure *f)
{
	char pattern[256];

	if (!b->options.only)
		return true;
	(void)snprintf(pattern, sizeof(pattern), "*%.250s*", b->options.only);
	return fnmatch(pattern, f->name, 0) == 0;
}

static void plan_sqlite(bench *b)
{
	for (int i = 0; i < 4; i++)
		plan_drain(b, i & 2 ? LONG : SHORT, !(i & 1));
	for (int i = 0; i < 8; i++)
		plan_enqueue(b, i & 4 ? LONG : SHORT, i & 2 ? 1 : 100, !(i & 1));
	for (int i = 0; i < 4; i++)
		plan_handle(b, i & 2 ? 1000 : 0, !(i & 1));
	for (int i = 0; i < 2; i++)
		plan_step(b, !i);
	for (int i = 0; i < 2; i++)
		plan_latency(b, !i);
	for (int i = 0; i < 2; i++)
		plan_memory(b, !i);
	bench_plan_http(b, true);
	plan_idle(b);
	plan_peer(b);
}

static void plan_mssql(bench *b)
{
#ifdef WHERRY_ODBC
	bench_plan_mssql(b);
#else
	(void)b;
#endif
}

void bench_plan(bench *b)
{
	if (b->options.mssql)
		plan_mssql(b);
	else if (b->options.postgres)
		bench_plan_postgres(b);
	else
		plan_sqlite(b);
	bench_plan_queues(b);
	for (int i = 0; i < b->n_figures; i++) {
		bench_figure *f = &b->figures[i];

		f->wanted = asked_for(b, f);
		if (!f->wanted)
			continue;
		f->ours->wanted = true;
		if (f->theirs)
			f->theirs->wanted = true;
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
