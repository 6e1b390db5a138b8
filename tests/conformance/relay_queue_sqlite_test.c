/*
 * Relays on a queue of an SQLite file, where they always compete.
 */
#include "relay_queue.h"

#include "event_bus.h"

int main(void)
{
	const relay_target target = {
		.name = "queue",
		RELAY_QUEUE,
		.url = "sqlite:",
		.in_file = true,
		.tables = relay_queue_sqlite_tables,
		.views = relay_queue_sqlite_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
