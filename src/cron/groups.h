/*
 * Statements that only a cron has.  The rules in store/groups.h apply to them as well.
 */
#ifndef WH_CRON_GROUPS_H
#define WH_CRON_GROUPS_H

#include "store/groups.h"

/* clang-format off */

#define WH_CRON_GIVEN "target name hash"

#define WH_CRON_TICKS(X) \
	X(remember, "remember", WH_CRON_GIVEN) \
	X(look, "look", WH_CRON_GIVEN " now") \
	X(active, "active", WH_CRON_GIVEN) \
	X(advance, "advance", WH_CRON_GIVEN " until schedule zone sends_to") \
	X(retire, "retire", WH_CRON_GIVEN " until") \
	X(retire_others, "retire-others", WH_CRON_GIVEN)

#define WH_CRON_ADMIN(X) \
	X(forget, "forget", "name") \
	X(list, "list", "")

#define WH_CRON_GROUPS(G) \
	G(ticks, WH_CRON_TICKS) G(admin, WH_CRON_ADMIN)

/* clang-format on */

typedef struct wh_cron_stmts {
	WH_CRON_GROUPS(WH_GROUP_FIELDS)
} wh_cron_stmts;

extern const wh_group wh_cron_groups[];

#endif
