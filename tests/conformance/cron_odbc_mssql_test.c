/*
 * Crons on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "cron_suite.h"

#include "mssql/backend.h"

int main(void)
{
	static const outbox_backend backend = {MSSQL_BACKEND};
	static const outbox_backend *const backends[] = {&backend};

	if (!mssql_start(NULL))
		return 0;
	return cron_suite_run(NULL, backends, 1);
}
