/*
 * What the models of SQL Server's locks have in common: chance, and the program that plays seeds and
 * then breaks what it plays on purpose, until a seed notices it.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct model {
	/* Play a game; 0: as it is, else with that break. False: *wrong says what was broken. */
	bool (*play)(uint64_t seed, int what);
	const char *wrong;
	void (*count)(void);    /* After a game that was played as it is. */
	bool (*was_much)(void); /* Print the counts; did enough happen? */
	const char *promise;
	const char *const *broken_names; /* From 1 on. */
	int breaks;
} model;

void model_seed(uint64_t *random, uint64_t seed);
/* Below n. */
unsigned model_chance(uint64_t *random, unsigned n);

/* Writes TAP; FIRST..LAST in argv are the seeds. Returns the exit status. */
int model_main(const model *m, int argc, char **argv);

#endif
