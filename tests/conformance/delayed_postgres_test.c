/*
 * Delayed queues on PostgreSQL, on connections of its own and on the application's.
 */
#include "delayed_suite.h"

#include "postgres/backends.h"
#include "postgres/server.h"

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};

	if (!postgres_start())
		return 0;
	return delayed_suite_run(backends, sizeof(backends) / sizeof(*backends), NULL, 0);
}
