/*
 * Relays on a delayed queue of PostgreSQL, where they always compete.
 */
#include "relay_delayed.h"

#include "event_bus.h"
#include "postgres/server.h"

int main(void)
{
	const relay_target target = {
		.name = "delayed",
		.make = postgres_enter,
		.drop = postgres_leave,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.delayed = true,
		.also = relay_claiming_also,
		.except = relay_delayed_except,
		.own = relay_delayed_tests,
		.keeps_ids = true,
		.tables = relay_delayed_postgres_tables,
		.views = relay_delayed_postgres_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
