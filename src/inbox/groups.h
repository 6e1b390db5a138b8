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

/* The ids that were accepted, oldest first; consumer NULL: of all. */
#define WH_INBOX_ACCEPTED(X) \
	X(accepted, "accepted", "consumer since") \
	X(oldest_accepted, "oldest-accepted", "consumer")

#define WH_INBOX_GROUPS(G) \
	G(accept, WH_INBOX_ACCEPT) G(admin, WH_INBOX_ADMIN) G(accepted, WH_INBOX_ACCEPTED)

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

typedef wherry_code (*wh_accepted_fn)(void *ctx, wh_view message_id, int64_t accepted_us,
				      wherry_error *err);

/* Visit the ids that a consumer has accepted since then (Unix time), oldest first; consumer NULL: all of them. */
wherry_code wh_inbox_visit_accepted(wherry_inbox *inbox, const char *consumer,
				    int64_t since_us, wh_accepted_fn visit, void *ctx,
				    wherry_error *err);

/* Visit the oldest id only. */
wherry_code wh_inbox_visit_oldest(wherry_inbox *inbox, const char *consumer,
				  wh_accepted_fn visit, void *ctx, wherry_error *err);

/* The version of its tables. */
int wh_inbox_version(const wherry_inbox *inbox);

#endif
