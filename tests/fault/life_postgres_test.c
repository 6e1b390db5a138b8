/*
 * A relay's life, with faults, on PostgreSQL, whose clock nobody stands still: so a sample of
 * them, and short leases.  The library's calls fail, and its allocations; not libpq's.
 */
#include "life.h"

#include "postgres/server.h"
#include "wherry_test.h"

static postgres_place place;

static void drop(void)
{
	if (*place.name)
		postgres_drop(&place);
	*place.name = 0;
}

static void make(char *url, size_t cap)
{
	drop();
	postgres_make(&place);
	(void)snprintf(url, cap, "%s", place.url);
}

int main(void)
{
	static const life_target target = {
		.make = make, .drop = drop, .lease = "1s", .stride = 41};

	if (!postgres_start())
		return 0;
	return life_tests(&target);
}
