#include "store/anchor.h"

enum {
	/* A receiver that found too little looks at all rows if that took less than
	 * this. */
	FULL_COST_MOST_US = 50000
};

bool wh_anchor_is_due(const wh_anchor *anchor, const wherry_db *db)
{
	return !db->driver->late_commits || wh_monotonic(db->env) >= anchor->next_full_us;
}

void wh_anchor_looked(wh_anchor *anchor, const wherry_db *db, int64_t began_us)
{
	anchor->full_cost_us = 0;
	wh_anchor_looked_too(anchor, db, began_us);
}

void wh_anchor_looked_too(wh_anchor *anchor, const wherry_db *db, int64_t began_us)
{
	int64_t now_us = wh_monotonic(db->env);

	anchor->full_cost_us += now_us - began_us;
	anchor->next_full_us = wh_later(now_us, WH_FULL_SHARE * anchor->full_cost_us);
}

bool wh_anchor_is_cheap(const wh_anchor *anchor)
{
	return anchor->full_cost_us < FULL_COST_MOST_US;
}
