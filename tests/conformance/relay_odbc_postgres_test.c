/*
 * Relays on PostgreSQL behind ODBC, through psqlODBC.
 */
#include "relay_suite.h"

#include "postgres/odbc.h"
#include "postgres/server.h"

static void enter(char *url, size_t cap)
{
	postgres_enter(url, cap);
	postgres_odbc_url(&postgres_here, url, cap);
}

static const char *const except[] = {
	/* psqlODBC reads the time infinity as one in the year 9999. */
	"a_row_with_a_number_out_of_range_dies_alone",
	NULL,
};

int main(void)
{
	static const relay_target target = {
		.name = "odbc",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		.make = enter,
		.drop = postgres_leave,
		.schedules = 20,
		.polls = true,
		.except = except,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
