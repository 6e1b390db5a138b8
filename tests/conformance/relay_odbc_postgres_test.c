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
	/* Nothing wakes a relay behind ODBC: it looks four times a second. */
	"a_lease_whose_process_may_live_is_waited_for",
	"a_plain_insert_wakes_a_sleeping_relay",
	"a_second_relay_takes_over_at_once_after_a_release",
	"a_standby_that_is_woken_too_early_looks_again",
	"an_idle_relay_runs_one_statement_in_ten_seconds",
	"an_idle_relay_sleeps",
	"what_another_relay_frees_is_taken_at_once",
	/* psqlODBC reads the time infinity as one in the year 9999. */
	"a_row_with_a_number_out_of_range_dies_alone",
	NULL,
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "odbc",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = enter,
			.drop = postgres_leave,
			.schedules = 20,
			.except = except,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
