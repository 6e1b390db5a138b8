#include "queue/groups.h"

#define WH_STMTS wh_queue_stmts

WH_QUEUE_GROUPS(WH_GROUP_SPECS)

const wh_group wh_queue_groups[] = {WH_QUEUE_GROUPS(WH_GROUP_ROW){NULL, NULL, 0}};
