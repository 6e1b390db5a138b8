/*
 * What is measured on SQL Server.
 */
#include "bench.h"

enum { BODY = 200, KEYS = 1000, BATCH = 1000 };

void bench_plan_mssql(bench *b)
{
	bench_job job = {.messages = b->options.messages,
			 .keys = KEYS,
			 .body = BODY,
			 .batch = BATCH,
			 .full = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *raw =
		bench_add_side(g, "ODBC, a batch at once", bench_odbc_drain, &job);
	bench_side *many = bench_add_side(g, "Wherry", bench_wherry_drain, &job), *hot;
	bench_figure *f = bench_add_figure(b, many, raw, "messages/s", 0);

	f->at_least = 0.8;
	bench_name_figure(f, "drain, 1000 keys, %d B", BODY);
	job.keys = 1;
	hot = bench_add_side(g, "Wherry, one hot key", bench_wherry_drain, &job);
	f = bench_add_figure(b, hot, raw, "messages/s", 0);
	f->at_least = 0.8;
	bench_name_figure(f, "drain, one hot key, %d B", BODY);
	for (int i = 0; i < g->n; i++)
		g->sides[i].backlog = job.messages;
	for (int i = 0; i < b->n_figures; i++)
		b->figures[i].headline = true;
}
