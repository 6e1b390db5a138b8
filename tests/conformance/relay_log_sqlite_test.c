/*
 * The relay on a log on SQLite.
 */
#include "relay_log.h"

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "log",
			.url = "sqlite:",
			.in_file = true,
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.layout = "log",
			.leads = true,
			.views = relay_log_sqlite_views,
			.translate = relay_log_translate,
			.own = relay_log_tests,
			.except = relay_log_except,
		},
	};

	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
