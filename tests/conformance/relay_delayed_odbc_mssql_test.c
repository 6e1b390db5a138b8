/*
 * Relays on a delayed queue of SQL Server, where they always compete.
 */
#include "relay_delayed.h"

#include "tsql.h"

int main(void)
{
	static const relay_target target = {
		.name = "delayed",
		RELAY_DELAYED,
		TSQL_RELAYS,
		.tables = relay_delayed_mssql_tables,
		.views = relay_delayed_mssql_views,
		.translate = tsql_translate_native,
	};

	return tsql_relays(&target);
}
