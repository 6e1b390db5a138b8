/*
 * Relays on a queue of PostgreSQL, where they always compete.
 */
#include "relay_queue.h"

#include "event_bus.h"
#include "postgres/server.h"

int main(void)
{
	const relay_target target = {
		.name = "queue",
		RELAY_QUEUE,
		.make = postgres_enter,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.lower = postgres_lower_here,
		.drop = postgres_leave,
		.tables = relay_queue_postgres_tables,
		.views = relay_queue_postgres_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
