/*
 * The relay on a log on PostgreSQL.
 */
#include "relay_log.h"

#include "postgres/server.h"

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "log",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = postgres_enter,
			.drop = postgres_leave,
			.layout = "log",
			.leads = true,
			.own = relay_log_tests,
			.except = relay_log_except,
			.schedules = 20,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
