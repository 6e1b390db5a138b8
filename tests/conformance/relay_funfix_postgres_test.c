/*
 * Relays on the table of the JVM library DelayedQueue, in PostgreSQL, where they always compete.
 */
#include "relay_funfix.h"

#include "event_bus.h"
#include "postgres/server.h"

int main(void)
{
	const relay_target target = {
		.name = "funfix",
		.make = postgres_enter,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.drop = postgres_leave,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.delayed = true,
		.layout = "funfix",
		.polls = true,
		.also = relay_claiming_also,
		.except = relay_funfix_except,
		.own = relay_delayed_tests,
		.keeps_ids = true,
		.tables = relay_funfix_postgres_tables,
		.views = relay_funfix_postgres_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
