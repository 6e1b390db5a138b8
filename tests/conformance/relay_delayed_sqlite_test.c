/*
 * Relays on a delayed queue of an SQLite file, where they always compete.
 */
#include "relay_delayed.h"

#include "event_bus.h"

int main(void)
{
	const relay_target target = {
		.name = "delayed",
		RELAY_DELAYED,
		.url = "sqlite:",
		.in_file = true,
		.tables = relay_delayed_sqlite_tables,
		.views = relay_delayed_sqlite_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
