/*
 * Relays on a delayed queue of an SQLite file, where they always compete.
 */
#include "relay_delayed.h"

#include "event_bus.h"

int main(void)
{
	const relay_target target = {
		.name = "delayed",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.delayed = true,
		.also = relay_claiming_also,
		.except = relay_delayed_except,
		.own = relay_delayed_tests,
		.keeps_ids = true,
		.tables = relay_delayed_sqlite_tables,
		.views = relay_delayed_sqlite_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
