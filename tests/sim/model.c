#include "model.h"

#include <stdio.h>

enum { BREAK_SEEDS = 3000 };

void model_seed(uint64_t *random, uint64_t seed)
{
	*random = seed * 2654435761u + 12345;
}

unsigned model_chance(uint64_t *random, unsigned n)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*random >> 33) % n;
}

static int said(int number, bool ok, const char *what)
{
	printf("%s %d - %s\n", ok ? "ok" : "not ok", number, what);
	return !ok;
}

int model_main(const model *m, int argc, char **argv)
{
	unsigned long first = 0, last = 249;
	int failed = 0, n = 0;
	bool ok = true;

	if (argc > 1 && sscanf(argv[1], "%lu..%lu", &first, &last) != 2)
		return 2;
	for (unsigned long seed = first; seed <= last; seed++) {
		if (!m->play(seed, 0)) {
			printf("# seed %lu: %s\n", seed, m->wrong);
			ok = false;
		}
		m->count();
	}
	failed += said(++n, ok, m->promise);
	failed += said(++n, m->was_much(), "much happened in the model");
	for (int b = 1; b < m->breaks; b++) {
		unsigned long seed = first;

		while (seed < first + BREAK_SEEDS && m->play(seed, b))
			seed++;
		if (*m->wrong)
			printf("# seed %lu: %s\n", seed, m->wrong);
		failed += said(++n, *m->wrong, m->broken_names[b]);
	}
	printf("1..%d\n", n);
	return failed != 0;
}
