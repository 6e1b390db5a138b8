/*
 * A relay's life, with faults, on SQLite.
 */
#include "life.h"

#include "wherry_test.h"

static wherry_temp temp;

static void make(char *url, size_t cap)
{
	static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
	char path[192];

	if (!*temp.dir)
		(void)wherry_temp_make(&temp, "shop.db");
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", temp.path, ends[i]);
		(void)unlink(path);
	}
	(void)snprintf(url, cap, "sqlite:%s", temp.path);
}

static void drop(void)
{
	wherry_temp_clear(&temp);
	*temp.dir = 0;
}

int main(void)
{
	static const life_target target = {
		.make = make, .drop = drop, .lease = "30s", .stride = 1};

	return life_tests(&target);
}
