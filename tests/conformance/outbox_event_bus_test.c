/*
 * The outbox in the tables of outbox-event-bus: what every outbox promises of claims, as far
 * as it needs no key, lease or token.
 */
#include "event_bus.h"

int main(void)
{
	static const outbox_backend *const backends[] = {&event_bus_file};

	return outbox_suite_run(backends, 1, NULL, 0);
}
