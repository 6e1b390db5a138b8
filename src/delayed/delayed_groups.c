#include "delayed/groups.h"

#define WH_STMTS wh_delayed_stmts

WH_DELAYED_GROUPS(WH_GROUP_SPECS)

const wh_group wh_delayed_groups[] = {WH_DELAYED_GROUPS(WH_GROUP_ROW){NULL, NULL, 0}};
