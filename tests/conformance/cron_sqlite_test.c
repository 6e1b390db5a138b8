/*
 * Crons on SQLite, in each of its three ways.
 */
#include "cron_suite.h"
#include "outbox_sqlite.h"

int main(void)
{
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};

	return cron_suite_run(NULL, backends, sizeof(backends) / sizeof(*backends));
}
