/*
 * Plays schedules.
 *
 *     schedules_test                 the first thousand
 *     schedules_test 500000..500019  these twenty
 *     schedules_test 500017          this one, telling all that happens
 *     schedules_test 1..5000 NAME    those of these whose relays have this engine
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { A_TEST = 100 };

static sim_world the_world;

/* What happened in all, so that nobody believes in a simulator in which nothing does. */
static struct {
	long crashes, expires, orphans, losses, duplicates, messages, picky;
	int64_t kept_us, ended_us; /* at most */
} sum;

static const char *only; /* the name of an engine; NULL: any */

static bool play(uint64_t seed)
{
	const sim_world *w = &the_world;
	bool ok;

	if (only && strcmp(only, sim_engine_names[sim_engine_of(seed)]) != 0)
		return true;
	ok = sim_play(&the_world, seed, false);
	if (!ok)
		printf("# seed %llu (%s): %s\n", (unsigned long long)seed,
		       sim_engine_names[w->plan.engine], w->wrong);
	sum.crashes += w->crashes;
	sum.expires += w->expires;
	sum.orphans += w->orphans;
	sum.losses += w->losses;
	sum.duplicates += w->duplicates;
	sum.messages += w->n_messages;
	sum.picky += w->plan.picky;
	if (w->kept_us > sum.kept_us)
		sum.kept_us = w->kept_us;
	if (w->ended_us > sum.ended_us)
		sum.ended_us = w->ended_us;
	return ok;
}

static bool tell(int number, bool ok, const char *what)
{
	printf("%s %d - %s\n", ok ? "ok" : "not ok", number, what);
	(void)fflush(stdout);
	return ok;
}

static int play_all(uint64_t first, uint64_t last)
{
	int n = (int)((last - first) / A_TEST) + 1, failed = 0;
	bool enough = last - first + 1 >= A_TEST;

	printf("1..%d\n", n + enough);
	for (int i = 1; i <= n; i++) {
		uint64_t from = first + (uint64_t)(i - 1) * A_TEST;
		uint64_t to = i < n ? from + A_TEST - 1 : last;
		char what[80];
		bool ok = true;

		for (uint64_t seed = from; seed <= to; seed++)
			ok &= play(seed);
		(void)snprintf(what, sizeof(what),
			       "schedules %llu to %llu keep every promise",
			       (unsigned long long)from, (unsigned long long)to);
		failed += !tell(i, ok, what);
	}
	printf("# %ld messages, %ld crashes, %ld leases expired, "
	       "%ld whose process was seen to have ended, %ld connections lost, "
	       "%ld duplicates; %ld schedules refuse some bodies: those ended within "
	       "%lld ms, others waited %lld ms at most\n",
	       sum.messages, sum.crashes, sum.expires, sum.orphans, sum.losses,
	       sum.duplicates, sum.picky, (long long)(sum.ended_us / 1000),
	       (long long)(sum.kept_us / 1000));
	if (enough)
		failed += !tell(n + 1,
				sum.crashes && sum.expires && sum.orphans && sum.losses &&
					sum.duplicates,
				"every kind of mishap is met");
	return failed > 0;
}

int main(int argc, char **argv)
{
	char *end = argc > 1 ? argv[1] : NULL;
	uint64_t first = argc > 1 ? strtoull(argv[1], &end, 10) : 1;

	only = argc > 2 ? argv[2] : NULL;
	if (argc > 1 && end[0] == '.' && end[1] == '.')
		return play_all(first, strtoull(end + 2, NULL, 10));
	if (argc > 1) {
		printf("1..1\n");
		return !tell(1, sim_play(&the_world, first, true), "keeps every promise");
	}
	return play_all(first, 1000);
}
