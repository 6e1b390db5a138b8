/*
 * The queue on SQLite, in each of its three ways.
 */
#include "outbox_sqlite.h"
#include "queue_suite.h"

int main(void)
{
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};

	return queue_suite_run(backends, sizeof(backends) / sizeof(*backends), NULL, 0);
}
