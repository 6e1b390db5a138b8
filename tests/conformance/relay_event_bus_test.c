/*
 * Relays on the tables of outbox-event-bus, where they always compete.
 */
#include "event_bus.h"
#include "relay_suite.h"

int main(void)
{
	const relay_target target = {
		.name = "event-bus",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.also = relay_claiming_also,
		.tables = event_bus_tables,
		.views = event_bus_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
