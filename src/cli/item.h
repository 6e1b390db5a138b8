/*
 * A message of an outbox, a queue or a delayed queue, as list, show and the commands of
 * workers print it: one table of fields for text, columns and JSON.
 */
#ifndef WH_CLI_ITEM_H
#define WH_CLI_ITEM_H

#include "cli/cli.h"

/* The texts are borrowed; NULL: none.  Times are Unix time in microseconds; 0: none. */
typedef struct wh_item {
	wh_kind kind; /* Outbox, queue or delayed queue. */
	int64_t id;
	const char *message_id, *topic, *key;
	const char *aggregate_type, *aggregate_id, *trace_id; /* Outbox. */
	const char *correlation_id, *reply_to;                /* Queue. */
	const char *headers;
	const void *body;
	size_t body_len;
	const char *state, *why;
	int64_t attempts;
	bool redelivery; /* Delayed queue. */
	int64_t created_at, at, available_at, expires_at;
	int64_t claimed_at, processed_at; /* Outbox. */
	const char *last_error, *token;
	int64_t held_by, parked_by; /* Outbox; see wherry_row. */
} wh_item;

wh_item wh_item_of_row(const wherry_row *row);

/* queue: the name of the queue, which is the topic of a message that was not published. */
wh_item wh_item_of_queue(const wherry_queue_message *msg, const char *queue);
wh_item wh_item_of_delayed(const wherry_delayed_message *msg, int64_t now_us);

/* The name of a state in a queue and in a delayed queue, such as "leased". */
const char *wh_queue_state_name(wherry_state state);
const char *wh_delayed_state_name(const wherry_delayed_message *msg, int64_t now_us);

/* Append a message as a JSON object.  whole: with its headers and its body. */
void wh_put_item(wh_buf *buf, const wh_item *item, bool whole);

/* Print the fields, each on a line, and the body. */
void wh_print_item(const wh_item *item, int64_t now_us);

/* Print a whole message for `show`: as wh_print_item() does, or as JSON on a line. */
void wh_show_item(const wh_item *item, bool json, int64_t now_us);

/* ---- a list of messages ---- */

/* Which messages; NULL, 0: all. */
typedef struct wh_item_filter {
	unsigned states;            /* Bits 1 << wherry_state, of a queue. */
	const char *topic;          /* With a * at its end: all topics that begin so. */
	const char *key;            /* The same. */
	const char *text;           /* In topic, key, message id, last error or body. */
	int64_t since_us, older_us; /* The age of messages. */
} wh_item_filter;

/* Read the options of list.  False: it printed what is wrong. */
bool wh_item_filter_read(wh_item_filter *out, const wh_args *args);
bool wh_item_is_wanted(const wh_item *item, const wh_item_filter *filter, int64_t now_us);

typedef struct wh_listing {
	bool json, bodies;
	int64_t n, limit, now_us;
	bool more; /* There are more than the limit. */
	wh_table table;
	wh_table_column columns[WH_TABLE_COLUMNS];
} wh_listing;

/* Append the command line again, with its options but without --after, --before and --limit, and
 * with this option: "wherry list sqlite:shop.db --state dead --after 7". */
void wh_put_page(wh_buf *text, const wh_args *args, const char *option,
		 const char *value);

/* Print which command lists the next page, or 10 times as many messages. */
void wh_say_more(const wh_args *args, const char *option, int64_t id);

/* Begin with the options --json, --bodies and --limit.  False: it printed what is wrong. */
bool wh_listing_begin(wh_listing *l, wh_kind kind, const wh_args *args);

/* Print a message.  One more than the limit is not printed and sets l->more.  Returns
 * WHERRY_INTERRUPTED if nobody reads the output. */
wherry_code wh_listing_add(wh_listing *l, const wh_item *item);
void wh_listing_end(wh_listing *l);

#endif
