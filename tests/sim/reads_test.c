/*
 * What an exclusive relay reads on SQL Server, over a model of its locks and row versions, for TDS
 * servers at hand ignore hints.
 *
 * Producers, a relay, and a transaction that a crashed relay left open are processes of small steps,
 * and one that is chosen by chance makes the next step.  A read is not a snapshot: others commit and
 * roll back between two rows that it looks at.  Gaps are kept by the relay's own code, gaps.c.
 *
 *     reads_test FIRST..LAST   these seeds; then each deliberate break, until a seed notices it
 *
 * docs/internals/sqlserver.md says what the statements do; this does the same in the same order.
 */
#include "model.h"
#include "reads.h"

#include <stdio.h>
#include <string.h>

enum { TURNS = 1800, LAST_READS = 90 };

static const char *const broken_names[BREAKS] = {
	"nothing",
	"a read does not look for rows that it has passed over",
	"a read looks for them ahead only, and not in gaps",
	"a read does not look whether the rows of free entries are free",
	"a read does not choose again without the keys that wait",
	"a read chooses again only once",
	"gaps expire after a read that was full",
	"gaps expire by the oldest transaction after the read",
	"a gap is dated when it is seen",
	"somebody changes pending rows by hand",
};

static void step(int who)
{
	reads.now++;
	if (who == RELAY)
		reads_relay_step();
	else
		reads_step(who);
}

/* Some get far before others go on. */
static void turn(int who)
{
	process *p = &reads.all[who];

	if (p->patience) {
		p->patience--;
		return;
	}
	for (unsigned n = reads_chance(4) ? 1 : 1 + reads_chance(60); n && !p->patience;
	     n--)
		step(who);
}

static void set_up(uint64_t seed, broken what)
{
	memset(&reads, 0, sizeof(reads));
	model_seed(&reads.random, seed);
	reads.broken = what;
	reads.hot_key = (int)reads_chance(KEYS);
	reads.crashes = reads_chance(2);
	reads.sweeps = !reads_chance(4);
	reads.long_open = reads_chance(2);
	for (int id = 0; id <= IDS; id++)
		reads_lock(NOBODY, id);
	reads_relay_begin();
}

/* From now on no transaction begins, and those that are open end. */
static void close_all(void)
{
	reads.closing = true;
	for (int who = 0; who < PROCESSES; who++)
		reads.all[who].patience = 0;
}

/* Is a transaction of anybody but the relay open? */
static bool is_open(void)
{
	for (int who = 0; who < PROCESSES; who++)
		if (reads.all[who].version && who != RELAY)
			return true;
	for (int who = 0; who < PRODUCERS; who++)
		if (reads.all[who].at)
			return true;
	return false;
}

/* At the end all transactions have ended, and the relay has had time for 90 reads. */
static bool play(uint64_t seed, int what)
{
	long until;

	set_up(seed, (broken)what);
	for (int i = 0; (i < TURNS || is_open()) && !*reads.wrong; i++) {
		unsigned who = reads_chance(PROCESSES + 2);

		if (i == TURNS)
			close_all();
		turn(who < PROCESSES ? (int)who : RELAY);
	}
	until = reads.n_reads + LAST_READS;
	while (reads.n_reads < until && !*reads.wrong)
		step(RELAY);
	reads_judge_end();
	return !*reads.wrong;
}

static long n_reads, delivered, passed, again, expired, crashes;

static void count(void)
{
	n_reads += reads.n_reads;
	delivered += reads.n_delivered;
	passed += reads.n_passed;
	again += reads.n_again;
	expired += reads.n_expired;
	crashes += reads.n_crashes;
}

static bool was_much(void)
{
	printf("# %ld reads, %ld deliveries, %ld rows passed over, %ld chosen again, %ld gaps "
	       "expired, %ld crashes\n",
	       n_reads, delivered, passed, again, expired, crashes);
	return delivered > 1000 && passed > 1000 && again > 100 && expired > 100;
}

int main(int argc, char **argv)
{
	static const model read = {
		.play = play,
		.wrong = reads.wrong,
		.count = count,
		.was_much = was_much,
		.promise =
			"no message overtakes its key, none is lost, and no transaction stops "
			"other keys",
		.broken_names = broken_names,
		.breaks = BREAKS,
	};

	return model_main(&read, argc, argv);
}
