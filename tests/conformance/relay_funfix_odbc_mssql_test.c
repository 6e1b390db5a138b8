/*
 * Relays on the table of the JVM library DelayedQueue, on SQL Server, where they always compete.
 */
#include "relay_funfix.h"

#include "tsql.h"

int main(void)
{
	static const relay_target target = {
		.name = "funfix",
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.delayed = true,
		.layout = "funfix",
		.also = relay_claiming_also,
		.except = relay_funfix_except,
		.own = relay_delayed_tests,
		.keeps_ids = true,
		TSQL_RELAYS,
		.tables = relay_funfix_mssql_tables,
		.views = relay_funfix_mssql_views,
		.translate = tsql_translate_native,
	};

	return tsql_relays(&target);
}
