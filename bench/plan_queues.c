/*
 * What is measured of queues and delayed queues, on any database.
 */
#include "bench.h"

enum { SINGLE_PART = 20 /* one message per call: so few of --messages */ };

/* The other side. */
static bench_fn by_hand(const bench *b)
{
#ifdef WHERRY_ODBC
	if (b->options.mssql)
		return bench_odbc_queue;
#else
	(void)b;
#endif
	return bench_hand_queue;
}

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
	bench_side *hand = bench_add_side(g, "by hand", by_hand(b), &job);
	bench_side *ours = bench_add_side(g, "Wherry", bench_wherry_queue, &job);
	bench_figure *f = bench_add_figure(b, ours, hand, "messages/s", 0);
	const char *model = delayed ? "delayed queue" : "queue",
		   *how_many = at_once > 1 ? "100 at once" : "single";

	f->at_least = b->options.mssql ? 0.8 : 0.9;
	bench_name_figure(f, "%s, %s, %s", model, (delayed ? delayed_words : words)[what],
			  how_many);
	if (!b->options.postgres || what != BENCH_LEASE)
		return;
	job.crowded = true;
	f = bench_add_figure(
		b, bench_add_side(g, "Wherry, one open", bench_wherry_queue, &job), ours,
		"messages/s", 0);
	f->at_least = 0.8;
	f->against = "none open";
	bench_name_figure(f, "%s, %s, while a transaction is open", model, how_many);
}

/* Times of messages, beside a consumer that looks every second. */
static void plan_lateness(bench *b)
{
	const bench_job job = {.messages = bench_at_least_one(b->options.messages / 100),
			       .full = true};
	int runs = b->options.runs < 3 ? (int)b->options.runs : 3;
	bench_group *g = bench_add_group(b, runs, false);
	bench_side *ours = bench_add_side(g, "Wherry", bench_delayed_lateness, &job);

	for (int value = 0; value < 2; value++) {
		bench_figure *f = bench_add_figure(b, ours, NULL, "ms", 1);

		f->value = value;
		f->derived = value ? 990 : 500;
		f->against = "looking every second, derived";
		f->at_most = value ? 20 : 5;
		bench_name_figure(f, "delayed queue, lateness, %s",
				  value ? "99 of 100" : "half of the time");
	}
}

static void plan_delayed_idle(bench *b)
{
	const bench_job job = {.seconds = b->options.seconds, .full = true};
	bench_group *g = bench_add_group(b, 1, false);
	bench_side *ours = bench_add_side(g, "Wherry", bench_delayed_idle, &job);
	bench_figure *f = bench_add_figure(b, ours, NULL, "statements/minute", 1);

	f->derived = 60;
	f->against = "looking every second, derived";
	f->at_most = 6;
	bench_name_figure(f, "delayed queue, idle");
}

/* Polls beside ten times as many messages that wait, and beside none. */
static void plan_waiting(bench *b)
{
	enum { TIMES = 10 };
	bench_job job = {.full = true};
	int runs = b->options.runs < 3 ? (int)b->options.runs : 3;
	bench_group *g = bench_add_group(b, runs, false);
	bench_side *none = bench_add_side(g, "none waits", bench_delayed_polls, &job);
	bench_side *many;
	bench_figure *f;

	job.messages = TIMES * b->options.messages;
	many = bench_add_side(g, "Wherry", bench_delayed_polls, &job);
	f = bench_add_figure(b, many, none, "polls/s", 0);
	f->at_least = 0.9;
	bench_name_figure(f, "delayed queue, poll beside many that wait");
}

void bench_plan_queues(bench *b)
{
	if (!b->options.mssql) { /* where consumers look four times a second */
		plan_lateness(b);
		plan_delayed_idle(b);
		plan_waiting(b);
	}
	for (int64_t at_once = 1; at_once <= 100; at_once *= 100) {
		plan_one(b, false, BENCH_SEND, at_once);
		plan_one(b, false, BENCH_TAKE, at_once);
		plan_one(b, false, BENCH_LEASE, at_once);
		plan_one(b, true, BENCH_SEND, at_once);
		plan_one(b, true, BENCH_LEASE, at_once);
	}
}
