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
		RELAY_DELAYED,
		.make = postgres_enter,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.lower = postgres_lower_here,
		.drop = postgres_leave,
		.tables = relay_delayed_postgres_tables,
		.views = relay_delayed_postgres_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
