/*
 * What is measured on SQL Server.
 */
#include "bench.h"

enum { BODY = 200, KEYS = 1000, BATCH = 1000 };

static void plan_drain(bench *b, bool remove)
{
	const char *done = remove ? "delete" : "mark";
	bench_job job = {.messages = b->options.messages,
			 .keys = KEYS,
			 .body = BODY,
			 .batch = BATCH,
			 .full = true,
			 .remove = remove};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *raw =
		bench_add_side(g, "ODBC, a batch at once", bench_odbc_drain, &job);
	bench_side *many = bench_add_side(g, "Wherry", bench_wherry_drain, &job), *hot;
	bench_figure *f = bench_add_figure(b, many, raw, "messages/s", 0);

	f->at_least = 0.8;
	bench_name_figure(f, "drain, %s, 1000 keys, %d B", done, BODY);
	job.keys = 1;
	hot = bench_add_side(g, "Wherry, one hot key", bench_wherry_drain, &job);
	f = bench_add_figure(b, hot, raw, "messages/s", 0);
	f->at_least = 0.8;
	bench_name_figure(f, "drain, %s, one hot key, %d B", done, BODY);
	for (int i = 0; i < g->n; i++)
		g->sides[i].backlog = job.messages;
}

void bench_plan_mssql(bench *b)
{
	plan_drain(b, false);
	plan_drain(b, true);
	bench_plan_compete(b, 2, true);
	for (int i = 0; i < b->n_figures; i++)
		b->figures[i].headline = true;
}
