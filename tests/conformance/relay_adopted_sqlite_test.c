/*
 * The relay on a table of another program on SQLite.
 */
#include "relay_adopted.h"
#include "relay_log.h"

#include <stdio.h>
#include <string.h>

static void translate(const char *sql, char *out, size_t cap)
{
	if (strcmp(sql, "DROP TABLE outbox") == 0)
		(void)snprintf(out, cap, "DROP VIEW outbox");
	else
		relay_adopted_translate(sql, out, cap);
}

/* A time that is none is one of 1970. */
static const char *const more[] = {"a_row_with_a_number_out_of_range_dies_alone", NULL};

#define ON_EVENTS                                                                        \
	.url = "sqlite:", .in_file = true,                                               \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .leads = true,                    \
	.views = relay_adopted_sqlite_views, .translate = translate,                     \
	.put = relay_adopted_put

int main(void)
{
	const relay_target targets[] = {
		{
			.name = "adopted",
			ON_EVENTS,
			.adopt = relay_adopt_deleted,
			.except = relay_adopted_except(false, more),
			.own = relay_log_tests,
		},
		{
			.name = "marked",
			ON_EVENTS,
			.adopt = relay_adopt_marked,
			.own = relay_adopted_tests,
			.own_only = true, /* The others run on PostgreSQL. */
			.check = relay_adopted_check,
		},
		{
			.name = "adopting",
			ON_EVENTS,
			.adopt = relay_adopt_marked,
			.own = relay_adopting_tests,
			.own_only = true,
		},
	};

	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
