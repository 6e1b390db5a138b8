/*
 * The struct of a delayed queue, and what the files of src/delayed share.
 */
#ifndef WH_DELAYED_DELAYED_H
#define WH_DELAYED_DELAYED_H

#include <wherry/delayed.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/uuid.h"
#include "delayed/groups.h"
#include "store/scan_start.h"
#include "store/fields.h"
#include "store/store.h"

enum {
	WH_DELAYED_KEY_MOST = 200,  /* Characters of a key. */
	WH_DELAYED_ERROR_MOST = 500 /* Bytes of last_error. */
};

/* The times of messages are before this one, the beginning of the year 10000. */
#define WH_DELAYED_TIME_MOST_US (253402300800000LL * 1000)

struct wherry_delayed {
	wh_store store; /* The part that every model has. */
	/* Statements that only delayed queues have; NULL: the layout lacks it. */
	wh_delayed_stmts own;
	char *queue; /* Its name; borrowed by `store`. */
	/* MD5 of name and type, which each row of the queue contains; borrowed by
	 * `store`. */
	char kind[WH_MD5_LEN + 1];
	/* The caller's clock, Unix time in microseconds; NULL: use the database's
	 * clock. */
	int64_t (*now_us)(void *ctx);
	void *clock_ctx;
	/* Eventfd that wherry_delayed_wake() writes to end a wait. */
	int bell;
	char next_token[WH_UUID_LEN + 1]; /* Token of the next lease; "": not made yet. */
	wh_scan_start scan_start;         /* When to look at all messages again. */
	/* Acknowledgements since forget_strays() last ran its statement. */
	int64_t n_acked;
	/* A poll that does not look at all messages begins behind this due time and
	 * id. */
	int64_t after_ms, after_id;
};

/* The model of delayed queues: its layouts, the native one first, and its statements. */
extern const wh_model wh_delayed_model;

/* Messages of all queues of a table. */
typedef struct wh_delayed_counts {
	int64_t messages; /* Messages that are not dead. */
	int64_t ready;    /* Messages that could be polled now. */
	int64_t dead;
} wh_delayed_counts;

wherry_code wh_delayed_count_table(wherry_delayed *delayed, wh_delayed_counts *out,
				   wherry_error *err);

/* The parameters "kind" and "now".  "now" is NULL if the database's clock is used. */
wh_param wh_delayed_kind_param(const wherry_delayed *delayed);
wh_param wh_delayed_now_param(const wherry_delayed *delayed);

/* A delay in milliseconds.  The clock of the database is rounded down to them, so it is one
 * longer: no message is due before its delay is over. */
int64_t wh_delayed_delay_ms(const wherry_delayed *delayed, int64_t delay_us);

/* Give back messages that were polled and that nobody has seen: the attempt is not counted.
 * The rest as wherry_delayed_nack(). */
wherry_code wh_delayed_unpoll(wherry_delayed *delayed, const char *const *tokens,
			      size_t n, wherry_ack_outcome *out, wherry_error *err);

/* The parameter "error", cut to WH_DELAYED_ERROR_MOST; error NULL: NULL. */
wh_param wh_delayed_error_param(const char *error);

/* Call it when messages may have become due at this time, Unix milliseconds.  The next
 * poll looks at all messages if it would begin behind this time. */
void wh_delayed_came_back(wherry_delayed *delayed, int64_t at_ms);

/* Refuse a key that is missing, too long or not UTF-8. */
wherry_code wh_delayed_check_key(const char *key, wherry_error *err);

/* Like wherry_delayed_drop_many().  visit, unless NULL, gets a row with the key of each
 * message that was dropped. */
wherry_code wh_delayed_drop_many(wherry_delayed *delayed,
				 const wherry_delayed_filter *filter, wh_row_fn visit,
				 void *ctx, int64_t *out_n, wherry_error *err);

/* If code is NOTFOUND, set a message that says what is missing and how to create it.
 * Returns code. */
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

/* How the messages of a batch were read. */
typedef enum wh_delayed_from {
	WH_DELAYED_POLLED, /* By a poll: their tokens contain the lease. */
	/* Without a lease: their tokens contain id and version only. */
	WH_DELAYED_READ,
	WH_DELAYED_DEAD /* From the dead messages: they have no tokens. */
} wh_delayed_from;

/* A message that was read.  due_ms: when it was due before it was polled, Unix
 * milliseconds. */
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

/* A wh_row_fn that adds a copy of the row's message to the wh_delayed_batch at ctx. */
wherry_code wh_delayed_take(void *ctx, const wh_row *row, wherry_error *err);

/* Call visit for each message until it returns another code than WHERRY_OK.  Returns that
 * code. */
wherry_code wh_delayed_visit(const wh_delayed_batch *batch, wherry_delayed_fn visit,
			     void *ctx, wherry_error *err);
void wh_delayed_batch_clear(wh_delayed_batch *batch);

/* A list of ids that grows.  wh_delayed_take_id() is a wh_row_fn that adds a row's first
 * column. */
typedef struct wh_delayed_ids {
	int64_t *ids;
	size_t n, cap;
} wh_delayed_ids;

wherry_code wh_delayed_take_id(void *ctx, const wh_row *row, wherry_error *err);

/*
 * Move messages to the dead messages, in a transaction or savepoint.
 *
 * @param lock   Token of the lease.  Messages that are not leased under it stay.
 * @param back   Number to subtract from the attempts of each message.
 * @param error  Why they are dead; NULL: each message keeps its last error.
 * @param done   Receives the ids of the messages that were moved.
 */
wherry_code wh_delayed_make_dead(wherry_delayed *delayed, const char *lock,
				 const int64_t *ids, size_t n, int64_t back,
				 const char *error, wh_delayed_ids *done,
				 wherry_error *err);

#endif
