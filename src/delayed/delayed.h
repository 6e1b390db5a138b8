/*
 * A delayed queue inside: what its files share.
 */
#ifndef WH_DELAYED_DELAYED_H
#define WH_DELAYED_DELAYED_H

#include <wherry/delayed.h>

#include "base/arena.h"
#include "base/md5.h"
#include "base/uuid.h"
#include "delayed/groups.h"
#include "store/anchor.h"
#include "store/fields.h"
#include "store/store.h"

enum {
	WH_DELAYED_KEY_MOST = 200,  /* Characters of a key. */
	WH_DELAYED_ERROR_MOST = 500 /* Bytes of last_error. */
};

#define WH_DELAYED_TIME_MOST_US (253402300800000LL * 1000) /* Begin of the year 10000. */

struct wherry_delayed {
	wh_store store; /* What every model has. */
	wh_delayed_stmts
		own; /* Statements of delayed queues; NULL: not in this layout. */
	char *queue; /* Its name; the store borrows it, and the kind. */
	char kind[WH_MD5_LEN + 1];    /* Of its rows. */
	int64_t (*now_us)(void *ctx); /* The caller's clock; NULL: the database's. */
	void *clock_ctx;
	int bell;                         /* Eventfd that ends a wait. */
	char next_token[WH_UUID_LEN + 1]; /* Of the next lease; "": none is made yet. */
	wh_anchor anchor;                 /* When to look at all messages again. */
	int64_t n_acked; /* Acknowledgements since rows without a message were looked for. */
	int64_t after_ms, after_id; /* Time and id behind which a poll may begin. */
};

/* The layouts, the native one first, and the statements. */
extern const wh_model wh_delayed_model;

/* Count the messages of all queues of the table, dead ones too. */
wherry_code wh_delayed_count_table(wherry_delayed *delayed, int64_t *out_n,
				   wherry_error *err);

/* The parameters "kind" and "now", which is NULL where the database's clock counts. */
wh_param wh_delayed_kind_param(const wherry_delayed *delayed);
wh_param wh_delayed_now_param(const wherry_delayed *delayed);

/* The parameter "error", cut to what is kept; NULL: absent. */
wh_param wh_delayed_error_param(const char *error);

/* Messages may be due at this time, milliseconds: the next poll looks at all if it begins later. */
void wh_delayed_came_back(wherry_delayed *delayed, int64_t at_ms);

/* Is it a key? */
wherry_code wh_delayed_check_key(const char *key, wherry_error *err);

/* As wherry_delayed_drop_many(); visit, unless NULL, sees the key of each message that was there. */
wherry_code wh_delayed_drop_many(wherry_delayed *delayed,
				 const wherry_delayed_filter *filter, wh_row_fn visit,
				 void *ctx, int64_t *out_n, wherry_error *err);

/* "There is no delayed queue …" for WHERRY_NOTFOUND. */
wherry_code wh_delayed_failed(const wherry_delayed *delayed, wherry_code code,
			      wherry_error *err);

/* Columns of "poll", "read", "list" and "list-dead". */
enum {
	WH_DELAYED_ID,
	WH_DELAYED_KEY,
	WH_DELAYED_OFFERED_AT,
	WH_DELAYED_SCHEDULED_AT,
	WH_DELAYED_CREATED_AT,
	WH_DELAYED_DUE_AT,
	WH_DELAYED_ATTEMPTS,
	WH_DELAYED_STATE,
	WH_DELAYED_TOKEN,
	WH_DELAYED_LAST_ERROR,
	WH_DELAYED_BODY
};

/* How the rows came. */
typedef enum wh_delayed_from {
	WH_DELAYED_POLLED, /* Their tokens are those of leases. */
	WH_DELAYED_READ,   /* Their tokens are their versions. */
	WH_DELAYED_BURIED  /* They have no tokens. */
} wh_delayed_from;

/* A message that was read, and when it was due before it was polled, milliseconds. */
typedef struct wh_delayed_item {
	wherry_delayed_message message;
	int64_t due_ms;
} wh_delayed_item;

/* Messages that were read, copied so that they outlive the statement. */
typedef struct wh_delayed_batch {
	wh_delayed_from from;
	wh_arena arena;
	wh_delayed_item *items;
	size_t n, cap;
} wh_delayed_batch;

/* A wh_row_fn: add a copy of the message in a row to the wh_delayed_batch that ctx is. */
wherry_code wh_delayed_take(void *ctx, const wh_row *row, wherry_error *err);

/* Visit them all; ends with the first code that is not WHERRY_OK. */
wherry_code wh_delayed_visit(const wh_delayed_batch *batch, wherry_delayed_fn visit,
			     void *ctx, wherry_error *err);
void wh_delayed_batch_clear(wh_delayed_batch *batch);

/* A list of ids that grows; a wh_row_fn adds the first column of a row. */
typedef struct wh_delayed_ids {
	int64_t *ids;
	size_t n, cap;
} wh_delayed_ids;

wherry_code wh_delayed_take_id(void *ctx, const wh_row *row, wherry_error *err);

/* Move messages that are leased under a lock's token to the dead, in the transaction that is open.
 * back: attempts that were not made.  error NULL: their last error is the reason.  done receives
 * the ids of those that moved. */
wherry_code wh_delayed_bury(wherry_delayed *delayed, const char *lock, const int64_t *ids,
			    size_t n, int64_t back, const char *error,
			    wh_delayed_ids *done, wherry_error *err);

#endif
