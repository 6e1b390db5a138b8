/*
 * Relays on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_suite.h"

#include "tsql.h"

static void enter(char *url, size_t cap)
{
	tsql_clear();
	(void)snprintf(url, cap, "%s", tsql_url());
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
	NULL,
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "mssql",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = enter,
			.drop = tsql_clear,
			.schedules = 2,
			.except = except,
			.translate = tsql_translate,
		},
	};

	int failed;

	if (!tsql_start("relays on SQL Server"))
		return 0;
	failed = relay_suite(targets, sizeof(targets) / sizeof(*targets));
	tsql_end();
	return failed;
}
