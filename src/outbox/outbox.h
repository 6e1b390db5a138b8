/*
 * The outbox inside: what its files share, and what the relay reads.
 */
#ifndef WH_OUTBOX_OUTBOX_H
#define WH_OUTBOX_OUTBOX_H

#include <wherry/outbox.h>

#include "outbox/groups.h"
#include "outbox/meet.h"
#include "store/careful.h"
#include "store/claims.h"
#include "store/fields.h"
#include "store/leases.h"
#include "store/making.h"
#include "store/partitions.h"
#include "store/settlement.h"

/* What the tables of an outbox can do, as the head line of their .sql file says, and meet.c. */
typedef struct wh_layout {
	wh_home home;
	bool streams; /* It can only be streamed: rows are not settled. */
	bool jsonb;   /* Bodies are JSON, which the database checks. */
	bool uuid;    /* Message ids are UUIDs. */
} wh_layout;

struct wherry_outbox {
	wh_store store;      /* The part that every model has. */
	wh_outbox_stmts own; /* Statements of outboxes alone; NULL: not in this layout. */
	wh_layout layout;
};

/* The layouts, the native one first, and the statements. */
extern const wh_model wh_outbox_model;

/* Open and dead rows, each counted up to WH_BACKLOG_MOST where the layout can stop there. */
typedef struct wh_backlog {
	int64_t pending, processing, failed, dead;
	int64_t oldest_ready_us; /* age of the oldest that may leave now, 0 if none */
} wh_backlog;

enum { WH_BACKLOG_MOST = 1000000 };

wherry_code wh_outbox_backlog(wherry_outbox *box, wh_backlog *out, wherry_error *err);

/* wh_store_load() of an outbox. */
wherry_code wh_outbox_load(wherry_outbox *box, const char *scheme, const char *layout,
			   const char *table, wherry_error *err);

/* Set box->layout from what is loaded. */
void wh_outbox_read_layout(wherry_outbox *box, const char *scheme);

/* What an outbox may have as well.  Where a database needs nothing for it, nothing is made;
 * what a layout cannot have is refused. */
enum {
	WH_STRICT = 1,  /* what relay.ordering=key-strict needs */
	WH_SHARED = 2,  /* and what several exclusive relays do */
	WH_STREAMED = 4 /* the caller will make what relays stream from */
};

/* How an outbox is to be made. */
typedef struct wh_make {
	const char *layout; /* NULL: that of the table that is there, or native */
	const char
		*payload; /* the type of bodies where there is a choice; NULL: that of the
				table that is there, or json */
	unsigned extras;  /* WH_STRICT, WH_SHARED, WH_STREAMED */
	const wh_model *model; /* NULL: wh_outbox_model; tests have their own layouts */
	const char *const *grants; /* "ROLE=KIND"; only of wh_outbox_make_sql() */
	size_t n_grants;
	wherry_db *
		lacking; /* wh_outbox_make_sql(): only what this database lacks; NULL: all */
	wh_made *made; /* receives what was changed; NULL: nobody asks */
} wh_make;

/*
 * Use the statements by which one relay works alone on the table, under a lease, where its layout
 * has such ones; else nothing is done.  The tables that the lease needs are made if they are
 * missing.
 *
 * @return WHERRY_OK; WHERRY_DENIED: the tables are missing, and the role may not make them.
 *         Transaction: its own.
 */
wherry_code wh_outbox_sole(wherry_outbox *box, wherry_error *err);

/* As wherry_outbox_open(), with layouts of another model. */
wherry_code wh_outbox_open_model(wherry_db *db, const wh_model *model, const char *table,
				 wherry_outbox **out, wherry_error *err);

/* As wherry_outbox_init() and wherry_outbox_init_sql(), but so. */
wherry_code wh_outbox_make(wherry_db *db, const wh_make *how, const char *table,
			   wherry_error *err);
wherry_code wh_outbox_make_sql(const char *scheme, const wh_make *how, const char *table,
			       char **out, wherry_error *err);

/* ---- for the relay ---- */

/* Pending rows after an id, or with all_open every open one, in id order. */
wherry_code wh_outbox_read(wherry_outbox *box, bool all_open, int64_t after,
			   int64_t limit, wh_open_fn visit, void *ctx, wherry_error *err);

/* Every open row after an id, and pending ones in these ranges up to it, in id order. */
wherry_code wh_outbox_read_late(wherry_outbox *box, int64_t after, const wh_range *holes,
				size_t n_holes, int64_t limit, wh_open_fn visit,
				void *ctx, wherry_error *err);

/* The open ones among these ids, in the order of the list. */
wherry_code wh_outbox_read_in_turn(wherry_outbox *box, const int64_t *ids, size_t n,
				   wh_open_fn visit, void *ctx, wherry_error *err);

/* The parameters of "partitions-read"; they borrow box->store.ranges. */
struct wh_read_from;
wherry_code wh_partitions_read_params(wherry_outbox *box, const struct wh_read_from *from,
				      wh_param out[WH_PARTITION_READ_PARAMS],
				      wherry_error *err);

/* The keys of dead rows of these partitions, ~0: of all: only id, key and aggregate are set in
 * the row. */
wherry_code wh_outbox_dead_keys(wherry_outbox *box, uint64_t partitions, int64_t after,
				int64_t limit, wh_open_fn visit, void *ctx,
				wherry_error *err);

/* Which transactions run: see "horizon" in the .sql files. */
typedef struct wh_horizon {
	int64_t oldest;  /* transaction that runs */
	int64_t next;    /* to begin */
	int64_t running; /* no statement runs that began when the next one was below this;
			    0: not asked */
	bool held;       /* the lease still is; false: not known */
} wh_horizon;

/* The parameters of "horizon", and a wh_row_fn: the wh_horizon that ctx is. */
enum { WH_HORIZON_PARAMS = 4 };
void wh_horizon_params(const wherry_outbox *box, const wherry_lease *lease,
		       bool statements, wh_param out[WH_HORIZON_PARAMS]);
wherry_code wh_take_horizon(void *ctx, const wh_row *row, wherry_error *err);
wherry_code wh_outbox_horizon(wherry_outbox *box, const wherry_lease *lease,
			      bool statements, wh_horizon *out, wherry_error *err);

/* For key-strict: which lower ids may yet be committed. */
typedef struct wh_frontier {
	int64_t oldest; /* transaction that runs */
	int64_t next;   /* to begin */
	int64_t last;   /* pending id, 0 if none */
	bool filled;    /* there are pending ids after `after` and below `before` */
} wh_frontier;

wherry_code wh_outbox_frontier(wherry_outbox *box, int64_t after, int64_t before,
			       wh_frontier *out, wherry_error *err);

/* How producers take ids. */
typedef struct wh_id_taking {
	bool numbered; /* each has a transaction number before */
	int64_t cache; /* so many at once */
} wh_id_taking;

wherry_code wh_outbox_id_taking(wherry_outbox *box, wh_id_taking *out, wherry_error *err);

/* Where to read on, and how much. */
typedef struct wh_read_from {
	int64_t after, limit;
	const wh_range *holes; /* also these; see wh_outbox_read_late() */
	size_t n_holes;
	bool all_open;
	wh_partitions_read *partitions; /* these alone, and not the gaps; NULL: all */
	bool touched; /* of those only what was tried, or is wanted again */
} wh_read_from;

/* Read as wh_outbox_read() or wh_outbox_read_late() do, in one round trip with an
 * acknowledgement before it (NULL: none) and wh_outbox_horizon() after it.  Where visit ends
 * it early the horizon is left alone. */
wherry_code wh_outbox_turn(wherry_outbox *box, const wherry_lease *lease, wh_ack *ack,
			   const wh_read_from *from, wh_open_fn visit, void *ctx,
			   bool statements, wh_horizon *horizon, wherry_error *err);

/* Fill in what a status says of relays. */
void wh_outbox_relay_status(const wh_holder *holder, wherry_status *out);

#endif
