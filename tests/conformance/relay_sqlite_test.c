/*
 * The relay on SQLite.
 */
#include "relay_log.h"

#define ON_SQLITE(more)                                                                  \
	.is = RELAY_NUL | RELAY_KEYS | RELAY_LEASE | RELAY_IN_ORDER | (more),            \
	.layout = "log", .leads = true, .views = relay_log_sqlite_views,                 \
	.translate = relay_log_translate, .own = relay_log_tests,                        \
	.except = relay_log_except, .a_nul = "'a' || char(0) || 'b'"

int main(void)
{
	static const relay_target targets[] = {
		{.name = "file",
		 .url = "sqlite:",
		 .in_file = true,
		 ON_SQLITE(RELAY_OTHERS)},
		{.name = "memory", .url = "sqlite::memory:", ON_SQLITE(RELAY_ALONE)},
	};

	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
