/*
 * The relay on a table of another program on PostgreSQL.
 */
#include "relay_adopted.h"
#include "relay_log.h"

#include <stdio.h>
#include <string.h>

#include "postgres/server.h"

static void translate(const char *sql, char *out, size_t cap)
{
	if (strcmp(sql, "DROP TABLE outbox") == 0)
		(void)snprintf(out, cap, "DROP TABLE events CASCADE");
	else
		relay_adopted_translate(sql, out, cap);
}

static const char *const more[] = {NULL};

#define ON_EVENTS                                                                        \
	.make = postgres_enter, .again = postgres_enter_again,                           \
	.note = postgres_note_here, .drop = postgres_leave,                              \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .leads = true,                    \
	.views = relay_adopted_postgres_views, .translate = translate,                   \
	.put = relay_adopted_put, .schedules = 20

int main(void)
{
	const relay_target targets[] = {
		{
			.name = "adopted",
			ON_EVENTS,
			.adopt = relay_adopt_deleted,
			.own = relay_log_tests,
			.own_only = true, /* The others run on SQLite. */
		},
		{
			/* Relays have no right on the table. */
			.name = "marked",
			ON_EVENTS,
			.lower = postgres_lower_here,
			.adopt = relay_adopt_marked,
			.except = relay_adopted_except(true, more),
			.own = relay_adopted_tests,
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

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
