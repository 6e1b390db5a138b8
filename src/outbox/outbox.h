/*
 * Types and functions that the files of src/outbox/ share, and that the relay uses.
 */
#ifndef WH_OUTBOX_OUTBOX_H
#define WH_OUTBOX_OUTBOX_H

#include <wherry/outbox.h>

#include "outbox/groups.h"
#include "outbox/meet.h"
#include "store/unreadable.h"
#include "store/claims.h"
#include "store/fields.h"
#include "store/leases.h"
#include "store/making.h"
#include "store/partitions.h"
#include "store/settlement.h"

/* Features of the tables of an outbox, read from the layout's .sql file and meet.c. */
typedef struct wh_layout {
	wh_home home;
	/* Rows are never updated, so relays can only stream from the WAL. */
	bool streams;
	bool jsonb; /* Bodies are JSON, and the database checks them. */
	bool uuid;  /* Message ids are UUIDs. */
} wh_layout;

/* The subscription of relays that name none. */
#define WH_SUBSCRIPTION_OF_RELAYS "relay"

enum { WH_SUBSCRIPTION_MOST = 48 }; /* Bytes of a name. */

struct wherry_outbox {
	wh_store store; /* The part that the tables of every model have. */
	/* Statements that only outboxes have; NULL if the layout lacks the statement. */
	wh_outbox_stmts own;
	wh_layout layout;
	bool asks_once; /* Message ids are unique because that was asked for. */
	/* Subscription of a log through which the outbox is read. */
	char subscription[WH_SUBSCRIPTION_MOST + 1];
};

/* The layouts of outboxes, and the statements of each layout. */
extern const wh_model wh_outbox_model;

/* Refuse a log on a server without the snapshots by which its relays find rows that are committed late. */
wherry_code wh_outbox_check_server(const wherry_outbox *outbox, wherry_error *err);

/* Does somebody wait for messages of an outbox on which no relay works?  See watched.c. */
bool wh_outbox_is_watched(wherry_outbox *outbox);

/* Numbers of rows by state. */
typedef struct wh_counts {
	int64_t n[WHERRY_STATE_COUNT];
	unsigned
		at_least; /* Bits of the states that may have more rows, 1u << WHERRY_DONE. */
} wh_counts;

enum {
	WH_STATUS_MOST =
		5000000, /* Rows that `wherry status` counts behind a position. */
	WH_STATUS_DONE = 1000000, /* Rows that it counts before one. */
};

/* Count the rows of a log, up to `most` behind the position of its subscription and up to `done` before it.  Other
 * layouts count all rows. */
wherry_code wh_outbox_count_some(wherry_outbox *outbox, int64_t most, int64_t done,
				 wh_counts *out, wherry_error *err);

/* Read the status of an outbox without its counts and ages. */
wherry_code wh_outbox_look(wherry_outbox *outbox, wherry_outbox_status *out,
			   wherry_error *err);

/* Numbers of rows that wait, by state.  Rows of a log are counted up to about WH_BACKLOG_MOST. */
typedef struct wh_backlog {
	int64_t pending, processing, failed, dead;
	/* Age of the oldest message that could be delivered now; 0: none. */
	int64_t oldest_ready_us;
} wh_backlog;

enum { WH_BACKLOG_MOST = 1000000 };

wherry_code wh_outbox_backlog(wherry_outbox *outbox, wh_backlog *out, wherry_error *err);

/* Refuse a table of another program that was made again since it was adopted, if its ids may have begun again and nothing
 * would tell.  Other layouts: nothing. */
wherry_code wh_adopted_check(wherry_outbox *outbox, wherry_error *err);

/* Refuse a table of the layout that earlier versions made. */
wherry_code wh_outbox_check_old(const wherry_outbox *outbox, wherry_error *err);

/* Call wh_store_load() for an outbox, then set outbox->layout.  layout: NULL: that of a new
 * outbox. */
wherry_code wh_outbox_load(wherry_outbox *outbox, const char *scheme, const char *layout,
			   const char *table, wherry_error *err);

/* Patterns of the topics that the outbox's subscription has, with commas in between; "": all.  Owned by the caller. */
wherry_code wh_subscription_topics(wherry_outbox *outbox, char **out, wherry_error *err);

/* Is the topic one of these? */
bool wh_subscription_has(const char *topics, wh_view topic);

/* INVALID: not the name of a subscription. */
wherry_code wh_subscription_check(const char *name, wherry_error *err);

/* Like wherry_subscription_open(), of a subscription that need not exist. */
wherry_code wh_subscription_open_new(wherry_db *db, const char *table, const char *name,
				     wherry_outbox **out, wherry_error *err);

/* A store for an outbox, read through the subscription of relays that name none. */
wh_store wh_outbox_store(wherry_db *db, const wh_model *model);

/* Optional parts of an outbox, as a bit mask.  A part that this database does not need
 * creates nothing; a part that the layout does not support is an error. */
enum {
	/* For several relays that share the partitions. */
	WH_PARTITIONS_SHARED = 2,
	/* For relays that stream.  Only checked: the caller creates publication and
	 * slot. */
	WH_STREAMED = 4,
	/* Message ids of a log are unique; those of other layouts always are. */
	WH_UNIQUE_IDS = 8,
	/* The table is divided into segments of wh_make.segments ids. */
	WH_SEGMENTS = 16
};

enum { WH_SEGMENT_LEAST = 10 };
#define WH_SEGMENT_MOST INT64_C(1000000000000)

/* Options of wh_outbox_make() and wh_outbox_make_sql(). */
typedef struct wh_make {
	const char *layout; /* NULL: the layout of the existing table, or of a new one. */
	/* Type of bodies, in layouts that have a choice; NULL: the type of the existing
	 * table, or json. */
	const char *payload;
	unsigned extras;  /* Of the mask above. */
	int64_t segments; /* Ids of a segment. */
	/* NULL: wh_outbox_model.  Tests pass others, to wh_outbox_make() only. */
	const wh_model *model;
	/* Each is "ROLE=KIND".  Only wh_outbox_make_sql() uses them. */
	const char *const *grants;
	size_t n_grants;
	/* Write only the SQL that this database lacks; NULL: all of it.  Only
	 * wh_outbox_make_sql() uses it. */
	wherry_db *lacking;
	wh_made *made; /* Receives what wh_outbox_make() changed; may be NULL. */
	/* Done in the transaction of wh_outbox_make(), behind all else; NULL: nothing. */
	wherry_code (*also)(void *ctx, wherry_outbox *outbox, bool is_new,
			    wherry_error *err);
	void *ctx; /* Of also(). */
} wh_make;

/* Open what is left of an outbox whose table was dropped by hand, to drop it: nothing else works.  NOTFOUND: nothing is
 * left, or the table is there.  *out_adopted: it was one of another program. */
wherry_code wh_outbox_open_left(wherry_db *db, const char *table, wherry_outbox **out,
				bool *out_adopted, wherry_error *err);

/* Like wherry_outbox_open(), of the table that wh_outbox_make() made: a table of that name that comes earlier in the
 * search path and belongs to somebody else is passed over. */
wherry_code wh_outbox_open_made(wherry_db *db, const char *table, wherry_outbox **out,
				wherry_error *err);

/* Knowledge of an outbox of the layout log. */
typedef struct wh_outbox_known {
	bool found; /* It is one. */
	bool segmented, partitioned;
	int version;
} wh_outbox_known;

wh_outbox_known wh_outbox_know(const wherry_outbox *outbox);

/* Open what another connection has opened before, and ask the database nothing.  pattern is that of the
 * layout log, or empty; it must live as long as the outbox. */
wherry_code wh_outbox_open_known(wherry_db *db, const char *table,
				 const wh_outbox_known *known, wh_sql *pattern,
				 wherry_outbox **out, wherry_error *err);

/* Like wherry_outbox_open(), but recognise the layouts of `model` instead of
 * wh_outbox_model. */
wherry_code wh_outbox_open_model(wherry_db *db, const wh_model *model, const char *table,
				 wherry_outbox **out, wherry_error *err);

/* Like wherry_outbox_create() and wherry_outbox_create_sql(), with the options that only the
 * program and tests use. */
wherry_code wh_outbox_make(wherry_db *db, const wh_make *how, const char *table,
			   wherry_error *err);
wherry_code wh_outbox_make_sql(const char *scheme, const wh_make *how, const char *table,
			       char **out, wherry_error *err);

/* ---- for the relay ---- */

/* Visit messages of a log that wait, failed or were tried, of these partitions (a bit each; UINT64_MAX:
 * all), with ids above `after` in id order. */
wherry_code wh_outbox_read(wherry_outbox *outbox, uint64_t partitions, int64_t after,
			   int64_t limit, wh_open_fn visit, void *ctx, wherry_error *err);

/* Visit dead rows of these partitions (UINT64_MAX: all) with ids above `after`.  A
 * visited row has only its id, state, key and aggregate set. */
wherry_code wh_outbox_dead_keys(wherry_outbox *outbox, uint64_t partitions, int64_t after,
				int64_t limit, wh_open_fn visit, void *ctx,
				wherry_error *err);

/* Read one row, and fail if a column is missing: the error names it. */
wherry_code wh_outbox_probe(wherry_outbox *outbox, wherry_error *err);

/* Discard the messages with these numbers (wherry_message.id) that are in one of these states, in one transaction: like
 * wherry_outbox_discard(), but no table is searched for a message id.
 *
 * @param out_gone  Of each message: it was discarded. */
wherry_code wh_outbox_discard_numbers(wherry_outbox *outbox, const int64_t *numbers,
				      size_t n, unsigned states, bool *out_gone,
				      wherry_error *err);

/* Count the delivered rows that a purge of this age would delete. */
wherry_code wh_outbox_count_old(wherry_outbox *outbox, int64_t older_than_us,
				int64_t *out_n, wherry_error *err);

/* Copy the fields about the relay from its lease into a status. */
void wh_outbox_relay_status(const wh_store *store, wh_holder *holder,
			    wherry_outbox_status *out);

#endif
