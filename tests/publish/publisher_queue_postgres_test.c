/*
 * The suite on a queue of PostgreSQL.
 */
#include "queue_places.h"

#include "postgres/server.h"

static void *start(char *url, size_t cap)
{
	queue_place *place = calloc(1, sizeof(*place));
	char database[160];

	assert_non_null(place);
	postgres_enter(database, sizeof(database));
	queue_place_make(place, database);
	(void)snprintf(url, cap, "%s", place->to);
	return place;
}

static void stop(void *place)
{
	queue_place_stop(place);
	postgres_leave();
}

static const publisher_backend in_queue = {
	.name = "queue",
	.alone = 1 << FATE_REJECTED,
	.mixed = 1 << FATE_REJECTED,
	.start = start,
	.stop = stop,
	.doom = queue_place_doom,
	.arrived = queue_place_arrived,
};

int main(void)
{
	static const publisher_backend *const all[] = {&in_queue};

	if (!postgres_start())
		return 0;
	return publisher_suite_run(all, 1);
}
