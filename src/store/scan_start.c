#include "store/scan_start.h"

enum {
	/* A receiver that found too little looks at all rows if that took less than
	 * this. */
	FULL_COST_MOST_US = 50000
};

bool wh_scan_start_is_due(const wh_scan_start *scan_start, const wherry_db *db)
{
	return !db->driver->late_commits ||
	       wh_monotonic(db->env) >= scan_start->next_full_us;
}

void wh_scan_start_looked(wh_scan_start *scan_start, const wherry_db *db,
			  int64_t began_us)
{
	scan_start->full_cost_us = 0;
	wh_scan_start_looked_too(scan_start, db, began_us);
}

void wh_scan_start_looked_too(wh_scan_start *scan_start, const wherry_db *db,
			      int64_t began_us)
{
	int64_t now_us = wh_monotonic(db->env);

	scan_start->full_cost_us += now_us - began_us;
	scan_start->next_full_us =
		wh_later(now_us, WH_FULL_SHARE * scan_start->full_cost_us);
}

bool wh_scan_start_is_cheap(const wh_scan_start *scan_start)
{
	return scan_start->full_cost_us < FULL_COST_MOST_US;
}
