/*
 * What is measured of a relay that reads the WAL.
 */
#include "bench.h"

enum {
	MEMORY_TIMES = 10, /* the backlog of the memory figures, in --messages */
	SINGLE_PART = 10,  /* one message per commit: so few of --messages */
	RATE = 500         /* a second, for the latency */
};

static bench_group *add_group(bench *b, int runs, bool warm_up)
{
	bench_group *g = bench_add_group(b, runs, warm_up);

	g->logical = true;
	return g;
}

/* Nothing is written to the rows: the same work as reading the slot's output away. */
static void plan_unmarked(bench *b, int64_t per_transaction)
{
	bench_job job = {.messages = per_transaction > 1
					     ? b->options.messages
					     : bench_at_least_one(b->options.messages /
								  SINGLE_PART),
			 .per_transaction = per_transaction,
			 .full = true,
			 .stream = true};
	bench_group *g = add_group(b, (int)b->options.runs, true);
	bench_side *theirs = bench_add_side(g, "pg_recvlogical", bench_receive, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_stream_drain, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "messages/s", 0);

	f->at_least = 0.8;
	bench_name_figure(f, "WAL, %s",
			  per_transaction > 1 ? "1000 per commit" : "one per commit");
}

static void plan_memory(bench *b, bool at_once)
{
	bench_job job = {.messages = b->options.messages * MEMORY_TIMES,
			 .per_transaction =
				 at_once ? b->options.messages * MEMORY_TIMES : 1000,
			 .full = true,
			 .stream = true};
	bench_group *g = add_group(b, 1, false);
	bench_side *theirs = bench_add_side(g, "pg_recvlogical", bench_receive, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_stream_drain, &job);
	bench_figure *f = bench_add_figure(b, ours, theirs, "MB", 1);

	f->value = 1;
	f->at_most = 20;
	bench_name_figure(f, "WAL, memory, ten backlogs%s",
			  at_once ? " in one commit" : "");
}

/* How soon a message is handed over, read from the WAL and by looks at the table. */
static void plan_latency(bench *b)
{
	bench_job job = {.messages = bench_at_least_one(b->options.messages / 100),
			 .rate = RATE,
			 .full = true};
	bench_group *g = add_group(b, (int)b->options.runs, false);
	bench_side *looks = bench_add_side(g, "by looks", bench_wherry_latency, &job),
		   *ours;
	bench_figure *f;

	job.wal = true;
	ours = bench_add_side(g, "Wherry", bench_wherry_latency, &job);
	for (int i = 0; i < 2; i++) {
		f = bench_add_figure(b, ours, looks, "ms", 3);
		f->value = i;
		bench_name_figure(f, "WAL, latency at %d/s, %s", RATE,
				  i ? "99 of 100" : "half of the time");
	}
}

void bench_plan_stream(bench *b)
{
	plan_unmarked(b, 1000);
	plan_unmarked(b, 1);
	plan_memory(b, true);
	plan_memory(b, false);
	plan_latency(b);
}
