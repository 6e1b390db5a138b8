#include "cron/groups.h"

#define WH_STMTS wh_cron_stmts

WH_CRON_GROUPS(WH_GROUP_SPECS)

const wh_group wh_cron_groups[] = {WH_CRON_GROUPS(WH_GROUP_ROW){NULL, NULL, 0}};
