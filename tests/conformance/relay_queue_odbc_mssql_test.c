/*
 * Relays on a queue of SQL Server, where they always compete.
 */
#include "relay_queue.h"

#include "tsql.h"

int main(void)
{
	static const relay_target target = {
		.name = "queue",
		RELAY_QUEUE,
		TSQL_RELAYS,
		.tables = relay_queue_mssql_tables,
		.views = relay_queue_mssql_views,
		.translate = tsql_translate_native,
	};

	return tsql_relays(&target);
}
