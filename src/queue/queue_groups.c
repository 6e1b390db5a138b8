#include "queue/groups.h"

/* clang-format off */
#define SPEC(field, name, given) {name, given, offsetof(wh_queue_stmts, field)},
#define SPECS(group, list) static const wh_stmt_spec group##_specs[] = {list(SPEC)};
#define ROW(group, list) {#group, group##_specs, sizeof(group##_specs) / sizeof(*group##_specs)},
/* clang-format on */

WH_QUEUE_GROUPS(SPECS)

const wh_group wh_queue_groups[] = {WH_QUEUE_GROUPS(ROW){NULL, NULL, 0}};
