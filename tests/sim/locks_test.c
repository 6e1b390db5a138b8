/*
 * The claim on SQL Server over a model of its locks, for TDS servers at hand ignore hints.
 *
 * Rows have entries in indexes, each with a lock of its own.  Producers, claimers, relays that settle,
 * and an operator are processes of small steps, and one that is chosen by chance makes the next step.
 * A lock that cannot be had is passed over (READPAST), waited for, or not asked for (NOLOCK: what is
 * there is read, committed or not).  If processes wait for each other in a circle, one is the
 * victim: its transaction is rolled back.
 *
 *     locks_test FIRST..LAST   these seeds; then each deliberate break, until a seed notices it
 *
 * docs/internals/sqlserver.md says what the statements do; this does the same in the same order.
 */
#include "locks.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

static const char *const broken_names[BREAKS] = {
	"nothing",
	"NOLOCK is left out where a claim looks for earlier rows",
	"READPAST is left out where a claim reads",
	"UPDLOCK is left out where a claim locks its rows",
	"a claim does not look again after it has locked its rows",
	"a message dies while a claim is made",
	"a claim looks in indexes whose entries move",
};

/* Could a claim take anything, whose key nobody holds? */
static bool has_work(void)
{
	for (int id = 0; id < locks.n_ids; id++) {
		const row *r = &locks.rows[id];
		bool free = r->there[ROW] && r->status == WAITS && !r->open_tx;

		for (int b = 0; free && b < locks.n_ids; b++) {
			const row *o = &locks.rows[b];

			if (o->key == r->key && o->there[ROW] &&
			    (b <= id || o->status == CLAIMED) && locks_is_open(o))
				free = b == id ? locks_in_the_way(o->held[ROW], -1, X) < 0
					       : false;
		}
		if (free)
			return true;
	}
	return false;
}

/* Some get far before others go on. */
static void step(process *p)
{
	for (unsigned n = locks_chance(4) ? 1 : 1 + locks_chance(60); n && !p->patience;
	     n--) {
		locks_step(p);
		if (p->waits_for >= 0)
			break;
	}
}

static bool play(uint64_t seed, int what)
{
	memset(&locks, 0, sizeof(locks));
	model_seed(&locks.random, seed);
	locks.broken = (broken)what;
	for (int i = 0; i < PROCESSES; i++)
		locks.all[i] = (process){.role = i < 4   ? PRODUCER
						 : i < 8 ? CLAIMER
							 : OPERATOR,
					 .waits_for = -1};
	for (locks.turn = 0; locks.turn < TURNS && !*locks.wrong; locks.turn++) {
		process *p = &locks.all[locks_chance(PROCESSES)];

		if (p->patience)
			p->patience--;
		else
			step(p);
		locks.stalled = has_work() ? locks.stalled + 1 : 0;
		if (locks.stalled > 1500)
			locks_fail("for 1,500 turns no claim took what is free", 0, 0);
	}
	return !*locks.wrong;
}

static long claims, deliveries, deadlocks, held, passed;

static void count(void)
{
	claims += locks.claims;
	deliveries += locks.deliveries;
	deadlocks += locks.deadlocks;
	held += locks.held_back;
	passed += locks.passed;
}

static bool was_much(void)
{
	printf("# %ld claims, %ld deliveries, %ld deadlocks with a victim, %ld rows held back, "
	       "%ld passed over\n",
	       claims, deliveries, deadlocks, held, passed);
	return deliveries > 1000 && held > 100 && passed > 100;
}

int main(int argc, char **argv)
{
	static const model claim = {
		.play = play,
		.wrong = locks.wrong,
		.count = count,
		.was_much = was_much,
		.promise =
			"no row is claimed twice, none overtakes its key, and no lock stops all",
		.broken_names = broken_names,
		.breaks = BREAKS,
	};

	return model_main(&claim, argc, argv);
}
