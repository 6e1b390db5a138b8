#include "outbox/groups.h"

/* clang-format off */
#define SPEC(field, name, given) {name, given, offsetof(wh_outbox_stmts, field)},
#define SPECS(group, list) static const wh_stmt_spec group##_specs[] = {list(SPEC)};
#define ROW(group, list) {#group, group##_specs, sizeof(group##_specs) / sizeof(*group##_specs)},
/* clang-format on */

WH_OUTBOX_GROUPS(SPECS)

const wh_group wh_outbox_groups[] = {WH_OUTBOX_GROUPS(ROW){NULL, NULL, 0}};
