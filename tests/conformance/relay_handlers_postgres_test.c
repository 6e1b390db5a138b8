/*
 * Handlers on PostgreSQL.
 */
#include "relay_handlers.h"

#include <wherry/postgres.h>

#include "postgres/server.h"
#include "relay_log.h"

static bool sql(wherry_db *db, const char *text, char *out, size_t cap)
{
	*out = 0;
	return postgres_exec(wherry_postgres_handle(db), text, out, cap);
}

int main(void)
{
	static const handlers_base base = {
		"postgres", postgres_enter,           postgres_leave,
		sql,        relay_log_postgres_views, NULL};

	return postgres_start() ? handlers_suite(&base, NULL) : 0;
}
