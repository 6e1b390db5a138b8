/*
 * Relays of a log on PostgreSQL behind ODBC, through psqlODBC.
 */
#include "relay_log.h"

#include "postgres/odbc.h"
#include "postgres/server.h"

static void enter(char *url, size_t cap)
{
	postgres_enter(url, cap);
	postgres_odbc_url(&postgres_here, url, cap);
}

/* The first: psqlODBC reads the time infinity as one in the year 9999. */
static const char *except[64] = {"a_row_with_a_number_out_of_range_dies_alone"};

int main(void)
{
	static const relay_target target = {
		.name = "odbc",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		.make = enter,
		.drop = postgres_leave,
		.layout = "log",
		.leads = true,
		.views = relay_log_postgres_views,
		.translate = relay_log_translate,
		.own = relay_log_tests,
		.schedules = 20,
		.polls = true,
		.except = except,
	};

	if (!postgres_start())
		return 0;
	for (size_t i = 0; relay_log_except[i]; i++)
		except[i + 1] = relay_log_except[i];
	return relay_suite(&target, 1);
}
