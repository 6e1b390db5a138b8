#include "inbox/groups.h"

/* clang-format off */
#define SPEC(field, name, given) {name, given, offsetof(wh_inbox_stmts, field)},
#define SPECS(group, list) static const wh_stmt_spec group##_specs[] = {list(SPEC)};
#define ROW(group, list) {#group, group##_specs, sizeof(group##_specs) / sizeof(*group##_specs)},
/* clang-format on */

WH_INBOX_GROUPS(SPECS)

const wh_group wh_inbox_groups[] = {WH_INBOX_GROUPS(ROW){NULL, NULL, 0}};
