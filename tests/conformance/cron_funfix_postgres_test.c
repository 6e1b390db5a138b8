/*
 * Crons whose ticks are in the table of the JVM library DelayedQueue, on PostgreSQL.
 */
#include "cron_suite.h"

#include "postgres/backends.h"
#include "postgres/server.h"

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};

	if (!postgres_start())
		return 0;
	return cron_suite_run("funfix", backends, sizeof(backends) / sizeof(*backends));
}
