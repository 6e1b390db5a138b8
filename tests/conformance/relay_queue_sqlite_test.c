/*
 * Relays on a queue of an SQLite file, where they always compete.
 */
#include "relay_queue.h"

#include "event_bus.h"

int main(void)
{
	const relay_target target = {
		.name = "queue",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.queue = true,
		.also = relay_claiming_also,
		.except = relay_queue_except,
		.own = relay_queue_tests,
		.keeps_ids = true,
		.tables = relay_queue_sqlite_tables,
		.views = relay_queue_sqlite_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
