/*
 * The relay on a log that is divided into segments of ten ids.  Some messages find none, and go to the default partition.
 */
#include "relay_log.h"

#include <string.h>

#include "outbox/outbox.h"
#include "postgres/server.h"

/* The last segment stays until all of its ids were given out. */
static const char *const of_single_rows[] = {
	"delivered_messages_are_purged_after_their_retention",
	"messages_after_an_idle_time_are_purged_as_soon",
};

enum {
	OF_SINGLE_ROWS = sizeof(of_single_rows) / sizeof(*of_single_rows),
	EXCEPT_MAX = 50
};

static int64_t rows(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM outbox");
}

/* Under a role that does not own them. */
WHERRY_CASE(a_relay_makes_segments_and_drops_them, relay_fixture *f)
{
	relay_set(f, "outbox.retention", "1ms");
	relay_set(f, "relay.purge_every", "100ms");
	relay_start(f, &f->a);
	for (int i = 1; i <= 6; i++) {
		relay_put(f, "aaaaabbbbb");
		RELAY_UNTIL(f, &f->a, rows(f) == 0);
	}
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox_rest"), 0);
	relay_check_once(f, 60);
	relay_check_order(f);
}

WHERRY_CASE(a_relay_delivers_although_nothing_can_be_purged, relay_fixture *f)
{
	relay_sql(f, "DROP FUNCTION outbox_segments");
	relay_put(f, "aaaaabbbbbaaaaabbbbbaaaaabbbbbaaaaabbbbb");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 40);
	assert_true(relay_logged(f, "event=not-purged"));
	relay_check_once(f, 40);
}

static const relay_test own[] = {
	RELAY_TEST(a_relay_makes_segments_and_drops_them, 0),
	RELAY_TEST(a_relay_delivers_although_nothing_can_be_purged, 0),
	RELAY_TESTS_END,
};

#define ON_SEGMENTS                                                                      \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .make = postgres_enter,           \
	.drop = postgres_leave, .lower = postgres_lower_here, .layout = "log",           \
	.leads = true, .extras = WH_SEGMENTS, .views = relay_log_postgres_views,         \
	.translate = relay_log_translate

int main(void)
{
	static const char *except[EXCEPT_MAX];
	static const relay_target targets[] = {
		{
			.name = "segments",
			ON_SEGMENTS,
			.own = relay_log_tests,
			.except = except,
			.schedules = 20,
		},
		{
			.name = "dropping segments",
			ON_SEGMENTS,
			.own = own,
			.own_only = true,
		},
	};

	size_t n = 0;

	for (; relay_log_except[n]; n++) {
		assert_true(n < EXCEPT_MAX - OF_SINGLE_ROWS - 1);
		except[n] = relay_log_except[n];
	}
	memcpy(&except[n], of_single_rows, sizeof(of_single_rows));
	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
