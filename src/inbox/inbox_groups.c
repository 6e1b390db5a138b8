#include "inbox/groups.h"

#define WH_STMTS wh_inbox_stmts

WH_INBOX_GROUPS(WH_GROUP_SPECS)

const wh_group wh_inbox_groups[] = {WH_INBOX_GROUPS(WH_GROUP_ROW){NULL, NULL, 0}};
