/*
 * Statements that only an inbox has.  The rules in store/groups.h apply to them as well.
 */
#ifndef WH_INBOX_GROUPS_H
#define WH_INBOX_GROUPS_H

#include <wherry/inbox.h>

#include "store/groups.h"
#include "store/store.h"

/* clang-format off */

/* "ids": a JSON array of message ids. */
#define WH_INBOX_ACCEPT(X) \
	X(accept, "accept", "consumer message_id") \
	X(accept_many, "accept-many", "consumer ids")

#define WH_INBOX_ADMIN(X) \
	X(forget, "forget", "consumer message_id") \
	X(purge_accepted, "purge-accepted", "age limit") \
	X(count, "count", "") \
	X(count_old, "count-old", "age")

#define WH_INBOX_GROUPS(G) \
	G(accept, WH_INBOX_ACCEPT) G(admin, WH_INBOX_ADMIN)

/* clang-format on */

typedef struct wh_inbox_stmts {
	WH_INBOX_GROUPS(WH_GROUP_FIELDS)
} wh_inbox_stmts;

extern const wh_group wh_inbox_groups[];

/* The model of inboxes: its only layout, and its statements. */
extern const wh_model wh_inbox_model;

/* Count the ids that a purge of this age would delete. */
wherry_code wh_inbox_count_old(wherry_inbox *inbox, int64_t older_than_us, int64_t *out_n,
			       wherry_error *err);

/* The version of its tables. */
int wh_inbox_version(const wherry_inbox *inbox);

#endif
