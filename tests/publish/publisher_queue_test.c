/*
 * The suite on a queue of an SQLite file.
 */
#include "queue_places.h"

static const publisher_backend in_queue = {
	.name = "queue",
	.alone = 1 << FATE_REJECTED,
	.mixed = 1 << FATE_REJECTED,
	.start = queue_place_sqlite,
	.stop = queue_place_stop,
	.doom = queue_place_doom,
	.arrived = queue_place_arrived,
};

int main(void)
{
	static const publisher_backend *const all[] = {&in_queue};

	return publisher_suite_run(all, 1);
}
