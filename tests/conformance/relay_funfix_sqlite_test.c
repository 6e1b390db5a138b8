/*
 * Relays on the table of the JVM library DelayedQueue, in an SQLite file, where they always compete.
 */
#include "relay_funfix.h"

#include "event_bus.h"

int main(void)
{
	const relay_target target = {
		.name = "funfix",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.delayed = true,
		.layout = "funfix",
		.also = relay_claiming_also,
		.except = relay_funfix_except,
		.own = relay_delayed_tests,
		.keeps_ids = true,
		.tables = relay_funfix_sqlite_tables,
		.views = relay_funfix_sqlite_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
