/*
 * What is measured of queues and delayed queues, on either database.
 */
#include "bench.h"

enum { SINGLE_PART = 20 /* one message per call: so few of --messages */ };

static void plan_one(bench *b, bool delayed, bench_queue what, int64_t at_once)
{
	static const char *const words[] = {"send", "receive by deleting",
					    "lease and acknowledge"};
	static const char *const delayed_words[] = {"offer", "", "poll and acknowledge"};
	bench_job job = {.messages = at_once > 1
					     ? b->options.messages
					     : bench_at_least_one(b->options.messages /
								  SINGLE_PART),
			 .per_transaction = at_once,
			 .queue = what,
			 .delayed = delayed,
			 .full = true};
	bench_group *g = bench_add_group(b, (int)b->options.runs, true);
	bench_side *hand = bench_add_side(g, "by hand", bench_hand_queue, &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_queue, &job);
	bench_figure *f = bench_add_figure(b, ours, hand, "messages/s", 0);

	f->at_least = 0.9;
	bench_name_figure(f, "%s, %s, %s", delayed ? "delayed queue" : "queue",
			  (delayed ? delayed_words : words)[what],
			  at_once > 1 ? "100 at once" : "single");
}

void bench_plan_queues(bench *b)
{
	for (int64_t at_once = 1; at_once <= 100; at_once *= 100) {
		plan_one(b, false, BENCH_SEND, at_once);
		plan_one(b, false, BENCH_TAKE, at_once);
		plan_one(b, false, BENCH_LEASE, at_once);
		plan_one(b, true, BENCH_SEND, at_once);
		plan_one(b, true, BENCH_LEASE, at_once);
	}
}
