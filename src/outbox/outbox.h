/*
 * The outbox inside: what its files share, and what the relay reads.
 */
#ifndef WH_OUTBOX_OUTBOX_H
#define WH_OUTBOX_OUTBOX_H

#include <wherry/outbox.h>

#include "outbox/groups.h"
#include "outbox/meet.h"
#include "store/claims.h"
#include "store/fields.h"
#include "store/leases.h"
#include "store/making.h"
#include "store/partitions.h"
#include "store/settlement.h"

/* What the tables of an outbox can do, as the head line of their .sql file says, and meet.c. */
typedef struct wh_layout {
	wh_home home;
	bool ordered;      /* There are keys, and order by them. */
	bool streams;      /* It can only be streamed: rows are not settled. */
	bool json;         /* Bodies are JSON, kept as any text. */
	bool jsonb;        /* Bodies are JSON, which the database checks. */
	bool uuid;         /* Message ids are UUIDs. */
	bool by_aggregate; /* Order is that of the aggregate id, whatever the key. */
} wh_layout;

struct wherry_outbox {
	wh_store store;      /* What every model has. */
	wh_outbox_stmts own; /* Statements of outboxes alone; NULL: not in this layout. */
	wh_layout layout;
	char *title;      /* Name as it was opened, maybe with its schema; owned. */
	int64_t body_max; /* Bytes that an enqueued body may have. */
	bool careful;     /* Claim without texts, and read those behind the claim. */
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

/* Limits of a row that a relay handles; src/relay/flaw.c has the texts.  The schema's
 * constraint, "sane", says the same. */
enum { WH_TEXT_MOST = 1024 * 1024, WH_COUNT_MOST = 1000000000 };
#define WH_TIME_MOST_US 253402300800000000LL /* the year 10000 */

/* wh_store_load() of an outbox. */
wherry_code wh_outbox_load(wherry_outbox *box, const char *scheme, const char *layout,
			   const char *table, wherry_error *err);

/* Set box->layout from what is loaded. */
void wh_outbox_read_layout(wherry_outbox *box, const char *scheme);

/* What users should know of a layout that is not native: "no order, …"; "" otherwise. */
const char *wh_outbox_limits(const wherry_outbox *box);

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

/* Bytes an enqueued body may have. */
void wh_outbox_set_body_max(wherry_outbox *box, int64_t bytes);

/* ---- for the relay ---- */

/* An open row while it is visited; strings are borrowed for the visit. */
typedef struct wh_open_row {
	int64_t id;
	wherry_state state;
	int32_t attempts;
	int32_t generation;
	int64_t created_at_us;
	int64_t due_in_us; /* until it may be tried again, 0: now */
	wh_view message_id, topic, aggregate_type, aggregate_id, key, headers, trace_id;
	const char *odd; /* a column that should be an integer and is not; or NULL */
	const char *
		unreadable; /* the database's message; then there are no texts; or NULL */
	bool no_body;       /* the body is left out */
	const wh_row *row;  /* for wh_outbox_body */
} wh_open_row;

typedef wherry_code (*wh_open_fn)(void *ctx, const wh_open_row *row, wherry_error *err);

/* The body of the row being visited: read only when asked for. */
wh_view wh_outbox_body(const wh_open_row *row);

/* Pending rows after an id, or with all_open every open one, in id order. */
wherry_code wh_outbox_read(wherry_outbox *box, bool all_open, int64_t after,
			   int64_t limit, wh_open_fn visit, void *ctx, wherry_error *err);

/* Every open row after an id, and pending ones in these ranges up to it, in id order. */
wherry_code wh_outbox_read_late(wherry_outbox *box, int64_t after, const wh_range *holes,
				size_t n_holes, int64_t limit, wh_open_fn visit,
				void *ctx, wherry_error *err);

/* As wherry_outbox_claim(); place: NULL looks from the beginning each time.  *out_more:
 * there may be more to claim at once. */
wherry_code wh_outbox_claim(wherry_outbox *box, const wherry_lease *lease,
			    const wherry_claim_options *options, wh_claim_place *place,
			    wh_open_fn visit, void *ctx, bool *out_more,
			    wherry_error *err);

/* Claims that expired: with a limit above 1 an eighth of those that expired with the first of
 * them, and so in the end one alone, which is a row in the state processing: as of
 * wherry_outbox_claim_expired(). */
wherry_code wh_outbox_claim_expired(wherry_outbox *box, const wherry_lease *lease,
				    const wherry_claim_options *options, wh_open_fn visit,
				    void *ctx, wherry_error *err);

/* A wh_row_fn for statements that return the columns of "read": visit is in the reader that ctx is. */
typedef struct wh_open_reader {
	wh_open_fn visit;
	void *ctx;
	int64_t n;    /* rows */
	int64_t last; /* id visited */
} wh_open_reader;

/* ---- rows that the database cannot send: careful.c ---- */

/* The parameters "long" and "body" of statements that return texts: bytes of a text, and of a
 * payload, that are sent. */
void wh_outbox_limits_of(const wherry_outbox *box, wh_param out[2]);

/* Rows without their texts. */
typedef struct wh_bare_rows {
	wh_open_row *rows;
	size_t n, cap;
} wh_bare_rows;

wh_open_reader wh_bare_reader(wh_bare_rows *bare);
void wh_bare_clear(wh_bare_rows *bare);

/* Visit these rows from one on, with their texts; by_ids reads rows by :ids.  Rows that are
 * not open any more are passed over. */
wherry_code wh_bare_visit(wherry_outbox *box, const wh_stmt *by_ids,
			  const wh_bare_rows *bare, size_t from, wh_open_reader *to,
			  wherry_error *err);

/* Run a statement that reads rows; if one of them cannot be sent, as wh_read_carefully(). */
wherry_code wh_read_rows(wherry_outbox *box, const wh_stmt *stmt, const wh_stmt *by_ids,
			 wh_param *params, size_t n, wh_open_reader *to,
			 wherry_error *err);

/* Run it so that no row can fail it: rows that cannot be sent are visited without texts.
 * What `to` says it has visited is left out. */
wherry_code wh_read_carefully(wherry_outbox *box, const wh_stmt *stmt,
			      const wh_stmt *by_ids, wh_param *params, size_t n,
			      wh_open_reader *to, wherry_error *err);

/* Rows that are read page by page. */
typedef struct wh_pages {
	/* Read at most limit rows behind those that were read; bare: without their texts. */
	wherry_code (*read)(void *ctx, int64_t limit, bool bare, wherry_error *err);
	void *ctx;
	const int64_t *n; /* Rows read, which read() counts. */
} wh_pages;

/* Read at most so many rows.  A row whose texts the database cannot send is read alone, and
 * without them. */
wherry_code wh_read_pages(wherry_outbox *box, const wh_pages *pages, int64_t most,
			  wherry_error *err);

wherry_code wh_take_open(void *ctx, const wh_row *row, wherry_error *err);

/* The same for a row that is known by this id. */
wherry_code wh_take_open_as(wh_open_reader *v, int64_t id, const wh_row *row,
			    wherry_error *err);

/* The open ones among these ids, in id order. */
wherry_code wh_outbox_read_ids(wherry_outbox *box, const int64_t *ids, size_t n,
			       wh_open_fn visit, void *ctx, wherry_error *err);

/* The same, in the order of the list. */
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

wherry_code wh_outbox_open_upto(wherry_outbox *box, int64_t upto, bool *out_any,
				wherry_error *err);
wherry_code wh_outbox_last_open(wherry_outbox *box, int64_t *out_id, wherry_error *err);
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
	wh_partitions_read *partitions; /* these alone, and not the holes; NULL: all */
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
