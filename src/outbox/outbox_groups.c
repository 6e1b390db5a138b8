#include "outbox/groups.h"

#define WH_STMTS wh_outbox_stmts

WH_OUTBOX_GROUPS(WH_GROUP_SPECS)

const wh_group wh_outbox_groups[] = {WH_OUTBOX_GROUPS(WH_GROUP_ROW){NULL, NULL, 0}};
