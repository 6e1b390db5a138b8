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
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.make = postgres_enter,
		.drop = postgres_leave,
		.queue = true,
		.also = relay_claiming_also,
		.except = relay_queue_except,
		.own = relay_queue_tests,
		.keeps_ids = true,
		.tables = relay_queue_postgres_tables,
		.views = relay_queue_postgres_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
