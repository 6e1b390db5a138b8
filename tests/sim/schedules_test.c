/*
 * Plays schedules.
 *
 *     schedules_test                 the first thousand
 *     schedules_test 500000..500019  these twenty
 *     schedules_test 500017          this one, telling all that happens
 *     schedules_test 1..5000 NAME    those of these whose relays have this engine
 *
 * From 0 on it also breaks the statements of a log, one after the other, and must notice each.
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

/* clang-format off */
static const sim_break breaks[] = {
	{"a position is written without the lease",
	 "AND EXISTS (SELECT 1 FROM wherry_lease WHERE {holds});",
	 "AND (true OR EXISTS (SELECT 1 FROM wherry_lease WHERE {holds}));", 3250},
	{"a position is written before the answers come",
	 "SET high = :high, moved_at = (SELECT ms FROM wherry_clock)\nWHERE subscription = {subscription} AND",
	 "SET high = max(:high, (SELECT max(id) FROM {table})), moved_at = 0\nWHERE subscription = {subscription} AND", 1},
	{"a position passes messages that wait",
	 "FROM json_each(:ids) WHERE true\n",
	 "FROM json_each(:ids) WHERE false\n", 1},
	{"a relay that begins knows no exceptions",
	 "WHERE x.subscription = {subscription} AND x.id > {high};",
	 "WHERE false;", 1},
	{"a failure is not recorded",
	 "AND {settleable}\nON CONFLICT (subscription, id) DO UPDATE SET state = excluded.state,",
	 "AND false\nON CONFLICT (subscription, id) DO UPDATE SET state = excluded.state,", 1},
	{"an exception stays when it is delivered",
	 "AND (:names IS NULL OR NOT EXISTS",
	 "AND false AND (:names IS NULL OR NOT EXISTS", 1},
	{"messages are purged before they are delivered",
	 "WHERE t.id > :after AND t.id <= {passed_by_all}",
	 "WHERE t.id > :after", 1},
	{"a look begins one message too late",
	 "FROM {table} WHERE id > :high ORDER BY id LIMIT :limit);",
	 "FROM {table} WHERE id > :high + 1 ORDER BY id LIMIT :limit);", 1},
	{"a look begins one message too early",
	 "FROM {table} WHERE id > :high ORDER BY id LIMIT :limit);",
	 "FROM {table} WHERE id >= :high ORDER BY id LIMIT :limit);", 1},
};
/* clang-format on */

/* The first schedule that a break spoils; 0: none. */
static uint64_t notice(const sim_break *b)
{
	enum { MOST = 4000 };
	uint64_t noticed = 0;

	sim_server_break = b;
	for (uint64_t seed = b->from; !noticed && seed < b->from + MOST; seed++)
		if (sim_engine_of(seed) == SIM_LOG && !sim_play(&the_world, seed, false))
			noticed = seed;
	sim_server_break = NULL;
	if (strstr(the_world.wrong, "the outbox is not made"))
		noticed = 0; /* The break is none. */
	if (noticed)
		printf("# %s: seed %llu: %s\n", b->name, (unsigned long long)noticed,
		       the_world.wrong);
	else
		printf("# %s: nothing\n", b->name);
	return noticed;
}

/* The same of a rule of the WAL. */
static bool notice_wal(sim_wal_break b)
{
	enum { MOST = 4000 };
	uint64_t noticed = 0;

	sim_wal_broken = b;
	for (uint64_t seed = 0; !noticed && seed < MOST; seed++)
		if (sim_engine_of(seed) == SIM_WAL && !sim_play(&the_world, seed, false))
			noticed = seed;
	sim_wal_broken = SIM_WHOLE;
	if (noticed)
		printf("# %s: seed %llu: %s\n", sim_wal_break_names[b],
		       (unsigned long long)noticed, the_world.wrong);
	else
		printf("# %s: nothing\n", sim_wal_break_names[b]);
	return noticed > 0;
}

static bool notice_all(void)
{
	bool ok = true;

	for (int b = SIM_WHOLE + 1; b < SIM_WAL_BREAKS; b++)
		ok &= notice_wal((sim_wal_break)b);

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++)
		ok &= notice(&breaks[i]) > 0;
	return ok;
}

static int play_all(uint64_t first, uint64_t last)
{
	int n = (int)((last - first) / A_TEST) + 1, failed = 0;
	bool enough = last - first + 1 >= A_TEST, breaks_too = !first && enough;

	printf("1..%d\n", n + enough + breaks_too);
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
	if (breaks_too)
		failed += !tell(n + 2, notice_all(), "every break of a log is noticed");
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
