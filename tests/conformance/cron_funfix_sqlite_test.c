/*
 * Crons whose ticks are in the table of the JVM library DelayedQueue, on SQLite.
 */
#include "cron_suite.h"
#include "outbox_sqlite.h"

int main(void)
{
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};

	return cron_suite_run("funfix", backends, sizeof(backends) / sizeof(*backends));
}
