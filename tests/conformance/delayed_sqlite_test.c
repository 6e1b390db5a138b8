/*
 * Delayed queues on SQLite, in each of its three ways.
 */
#include "delayed_suite.h"
#include "outbox_sqlite.h"

int main(void)
{
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};
	static const char *const lacks[] = {DELAYED_SQLITE_LACKS, NULL};

	return delayed_suite_run(NULL, lacks, backends,
				 sizeof(backends) / sizeof(*backends), NULL, 0);
}
