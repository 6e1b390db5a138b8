/*
 * The outbox inside: what its files share, and what the relay reads.
 */
#ifndef WH_OUTBOX_OUTBOX_H
#define WH_OUTBOX_OUTBOX_H

#include <wherry/outbox.h>

#include "base/buf.h"
#include "db/driver.h"
#include "outbox/groups.h"
#include "outbox/held.h"
#include "outbox/meet.h"
#include "outbox/name.h"
#include "outbox/slots.h"

/* What a layout can do, as the head line of its .sql file says, and meet.c. */
typedef struct wh_layout {
	char name[24];
	wh_home home;
	bool ordered;      /* there are keys, and order by them */
	bool exclusive;    /* a lease can be kept: one relay may work alone */
	bool streams;      /* it can only be streamed: there is nothing to mark */
	bool by_claim;     /* no token, no lease: a claim is known by its own mark */
	bool archives;     /* what is delivered moves to the archive at once */
	bool json;         /* bodies are JSON, kept as any text */
	bool jsonb;        /* bodies are JSON, as the database sees to */
	bool uuid;         /* so are message ids UUIDs */
	bool by_aggregate; /* order is that of the aggregate id, whatever the key */
	bool unheard;      /* nothing wakes relays */
	char columns[200],
		archive[200]; /* it is known by: "id,topic"; !x: must not be there;
				 an archive "": there is none */
} wh_layout;

struct wherry_outbox {
	wherry_db *db; /* borrowed */
	wh_sql sql;
	wh_name names;
	wh_view name; /* the table's, in names: what the shared tables call it */
	char *title;  /* as it was opened, maybe with its schema; owned */
	wh_layout layout;
	wh_held_set held;      /* where claims have marks of their own */
	int version;           /* of its schema */
	bool making;           /* to be made or changed: a table of ours is meant */
	const char *payload;   /* to be made with this type of bodies; NULL: bytea */
	char payload_type[16]; /* what it has; "": there is no choice */
	int64_t body_max;      /* bytes */
	wh_buf ids;            /* the list of ids being bound, */
	wh_buf holes;          /* and that of ranges; */
	wh_buf message_ids;    /* and the message ids of those rows */
	wh_store_stmts stmt;   /* what every model has, and */
	wh_outbox_stmts own;   /* what outboxes alone have; NULL: not in this layout */
	bool careful; /* claims are made without texts, which are read behind them */
	int slotted;  /* it was made for slots; -1: nobody has looked */
};

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

enum { WH_BODY_MAX = 16 * 1024 * 1024 };

/* A wh_row_fn: the first column into the int64_t that ctx is. */
wherry_code wh_take_int(void *ctx, const wh_row *row, wherry_error *err);

/* Milliseconds, as tables keep time, from microseconds: never shorter than asked. */
int64_t wh_ms(int64_t us);

/* Does each id follow the one before it? */
bool wh_ids_in_a_row(const int64_t *ids, size_t n);

/* The list of ids as one parameter named "ids"; borrowed until the next call. */
wherry_code wh_outbox_ids(wherry_outbox *box, const int64_t *ids, size_t n, wh_param *out,
			  wherry_error *err);

/* Message ids as the parameters "names" and "width"; borrowed until the next call.  Where the
 * database can tell whether others committed, a list of them in hexadecimal; else one after the
 * other, each with zeros behind it up to the width. */
enum { WH_NAME_PARAMS = 2 };
wherry_code wh_outbox_names(wherry_outbox *box, const wh_view *names, size_t n,
			    wh_param out[WH_NAME_PARAMS], wherry_error *err);

/* The same, in this buffer, which is borrowed. */
wherry_code wh_outbox_list(wh_buf *buf, const int64_t *ids, size_t n, wh_param *out,
			   wherry_error *err);

/* The database's "no such table" with the way out. */
wherry_code wh_outbox_missing(const char *table, wherry_code code, wherry_error *err);

/* Read a layout's file of SQL for this table, and find every statement in it.  layout:
 * NULL or "native" is the database's own. */
wherry_code wh_outbox_load(wherry_outbox *box, const char *scheme, const char *layout,
			   const char *table, wherry_error *err);
void wh_outbox_unload(wherry_outbox *box);

typedef struct wh_version {
	bool found;
	int64_t version;     /* 0: a table beside it is missing */
	int64_t min_program; /* the oldest program that may still run */
} wh_version;

/*
 * Load the layout that the tables have: native outboxes are listed in wherry_schema, others
 * are known by their columns.  Where nothing is found some layout is loaded.
 */
wherry_code wh_outbox_recognize(wherry_outbox *box, const char *table, wh_version *out,
				wherry_error *err);

/* The version that the tables of the loaded layout have. */
wherry_code wh_outbox_version(wherry_outbox *box, wh_version *out, wherry_error *err);

/* The layouts there are besides the native one; NULL at the end. */
extern const char *const wh_outbox_layouts[];

/* What users should know of a layout that is not native: "no order, …"; "" otherwise. */
const char *wh_outbox_limits(const wherry_outbox *box);

/* Refuse what the layout of this outbox cannot do. */
wherry_code wh_outbox_cannot(const wherry_outbox *box, const char *what,
			     wherry_error *err);

/* What an outbox may have as well.  Where a database needs nothing for it, nothing is made;
 * what a layout cannot have is refused. */
enum {
	WH_STRICT = 1,  /* what relay.ordering=key-strict needs */
	WH_SHARED = 2,  /* and what several exclusive relays do */
	WH_STREAMED = 4 /* the caller will make what relays stream from */
};

/* What making an outbox changed. */
typedef struct wh_made {
	int from, to;  /* versions of the schema; from 0: there was none */
	bool repaired; /* something of this version was missing */
} wh_made;

/* How an outbox is to be made. */
typedef struct wh_make {
	const char *layout; /* NULL: that of the table that is there, or native */
	const char
		*payload; /* the type of bodies where there is a choice; NULL: that of the
				table that is there, or bytea */
	unsigned extras;  /* WH_STRICT, WH_SHARED, WH_STREAMED */
	const char *const *grants; /* "ROLE=KIND"; only of wh_outbox_make_sql() */
	size_t n_grants;
	wh_made *made; /* receives what was changed; NULL: nobody asks */
} wh_make;

/*
 * Give roles of the database the rights that they need on an outbox, and no others on its
 * tables; or append the SQL that does.  Each grant is "ROLE=KIND": producer, enqueuer, relay
 * or operator.  INVALID: there is no such kind, or the database or layout has no roles.
 */
wherry_code wh_outbox_grant_check(const char *scheme, const char *const *grants, size_t n,
				  wherry_error *err);
wherry_code wh_outbox_grant(wherry_outbox *box, const char *const *grants, size_t n,
			    wherry_error *err);
wherry_code wh_outbox_grant_sql(const wherry_outbox *box, const char *scheme,
				const char *const *grants, size_t n, wh_buf *to,
				wherry_error *err);

/* As wherry_outbox_init() and wherry_outbox_init_sql(), but so. */
wherry_code wh_outbox_make(wherry_db *db, const wh_make *how, const char *table,
			   wherry_error *err);
wherry_code wh_outbox_make_sql(const char *scheme, const wh_make *how, const char *table,
			       char **out, wherry_error *err);

/*
 * Remove an outbox with all its messages, and what outboxes share if it was the last one.
 * UNSUPPORTED: its layout is another program's.
 *
 * Transaction: its own.
 */
wherry_code wh_outbox_drop(wherry_outbox *box, wherry_error *err);

/* Sets box->payload_type. */
wherry_code wh_outbox_payload(wherry_outbox *box, wherry_error *err);

/* Is the schema there, and whole?  Sets box->version. */
wherry_code wh_outbox_check(wherry_outbox *box, const wh_version *v, wherry_error *err);

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

typedef struct wh_range {
	int64_t first, last;
} wh_range;

/* The list of ranges as one parameter named "holes"; borrowed until the next call. */
wherry_code wh_outbox_ranges(wherry_outbox *box, const wh_range *ranges, size_t n,
			     wh_param *out, wherry_error *err);

/* Every open row after an id, and pending ones in these ranges up to it, in id order. */
wherry_code wh_outbox_read_late(wherry_outbox *box, int64_t after, const wh_range *holes,
				size_t n_holes, int64_t limit, wh_open_fn visit,
				void *ctx, wherry_error *err);

typedef struct wh_settlement wh_settlement;

/* Where claims go on that passed over rows they could not have; begun by wh_claim_rewind(). */
typedef struct wh_claim_place {
	int64_t after; /* rows up to here were looked at */
	wh_buf passed; /* keys of those left there, in hexadecimal: JSON strings, comma
			  between them */
	size_t n_passed;
	int64_t n_rows;    /* passed over */
	int64_t n_claimed; /* on the way */
	bool deep;         /* the last way was in vain: go on behind many keys */
	bool many;         /* too many keys for that list: the database finds them */
} wh_claim_place;

enum { WH_PASSED_MOST = 1000 };

void wh_claim_rewind(wh_claim_place *place);

/* As wherry_outbox_claim(); place: NULL looks from the beginning each time.  *out_more:
 * there may be more to claim at once. */
wherry_code wh_outbox_claim(wherry_outbox *box, const wherry_lease *lease,
			    const wherry_claim_options *options, wh_claim_place *place,
			    wh_open_fn visit, void *ctx, bool *out_more,
			    wherry_error *err);

/* Claims that lapsed: with a limit above 1 an eighth of those that lapsed with the first of
 * them, and so in the end one alone, which is a row in the state processing: as of
 * wherry_outbox_claim_lapsed(). */
wherry_code wh_outbox_claim_lapsed(wherry_outbox *box, const wherry_lease *lease,
				   const wherry_claim_options *options, wh_open_fn visit,
				   void *ctx, wherry_error *err);

/*
 * The list of ids as the parameter "ids" for what their claimer writes.  Where a claim has a
 * mark of its own the list is [[message id, mark, id], …], without ids that are not held.
 */
wherry_code wh_claim_ids(wherry_outbox *box, const wherry_lease *lease,
			 const int64_t *ids, size_t n, wh_param *out, wherry_error *err);

/* The parameters "message_id" and "started" of one claimed row; NULL where not needed. */
void wh_claim_params(const wherry_outbox *box, const wherry_lease *lease, int64_t id,
		     wh_param out[2]);

/* These are settled: not held any more. */
void wh_claim_forget(wherry_outbox *box, const wherry_lease *lease,
		     const wh_settlement *s);

/* How long until a claim lapses, and until a failed row is due; WH_NEVER: there is none,
 * with park: but behind dead ones.  lasts_us: of a claim, where rows do not say. */
wherry_code wh_outbox_claim_next(wherry_outbox *box, bool park, int64_t lasts_us,
				 int64_t *out_lapse_us, int64_t *out_due_us,
				 wherry_error *err);

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

wherry_code wh_take_open(void *ctx, const wh_row *row, wherry_error *err);

/* A wh_row_fn: the wherry_lease that ctx is, out of a row of "lease", "renew" or "join". */
wherry_code wh_take_lease(void *ctx, const wh_row *row, wherry_error *err);

/* The open ones among these ids, in id order. */
wherry_code wh_outbox_read_ids(wherry_outbox *box, const int64_t *ids, size_t n,
			       wh_open_fn visit, void *ctx, wherry_error *err);

/* The same, in the order of the list. */
wherry_code wh_outbox_read_in_turn(wherry_outbox *box, const int64_t *ids, size_t n,
				   wh_open_fn visit, void *ctx, wherry_error *err);

/* The keys of dead rows of these slots, ~0: of all: only id, key and aggregate are set in
 * the row. */
wherry_code wh_outbox_dead_keys(wherry_outbox *box, uint64_t slots, int64_t after,
				int64_t limit, wh_open_fn visit, void *ctx,
				wherry_error *err);

wherry_code wh_outbox_open_upto(wherry_outbox *box, int64_t upto, bool *out_any,
				wherry_error *err);
wherry_code wh_outbox_last_open(wherry_outbox *box, int64_t *out_id, wherry_error *err);
/* Who has the lease; all zero if nobody ever had. */
typedef struct wh_holder {
	char owner[96];
	char engine[16];
	int64_t epoch;
	int64_t left_us; /* 0: it has lapsed, or was given back */
} wh_holder;

/* Of the whole outbox, or one that has a share of it; or of that slot alone, if it is not 0. */
wherry_code wh_outbox_holder(wherry_outbox *box, wh_holder *out, wherry_error *err);
wherry_code wh_outbox_holder_of(wherry_outbox *box, int32_t slot, wh_holder *out,
				wherry_error *err);

/* Always fails: WHERRY_STALE. */
wherry_code wh_outbox_stale(const wherry_outbox *box, wherry_error *err);

/*
 * As wherry_outbox_lease(), for a relay of this engine.
 *
 * @param again  Go on where a relay ended that wrote nothing to rows, though all in the table
 *               is delivered again.
 */
wherry_code wh_outbox_lease_as(wherry_outbox *box, wh_engine engine, bool again,
			       const char *owner, int64_t lasts_us, int64_t window,
			       wherry_lease *out, wherry_error *err);

/* As wherry_outbox_join(). */
wherry_code wh_outbox_join_as(wherry_outbox *box, bool again, const char *owner,
			      int64_t lasts_us, wherry_lease *inout, wherry_error *err);

/* Always fails: WHERRY_BUSY, naming the holder. */
wherry_code wh_outbox_held(wherry_outbox *box, const char *advice, wherry_error *err);

/* Notice commits, and be woken by those who write to this outbox.  sole: the caller's own
 * updates make no work for another relay. */
wherry_code wh_outbox_watch(wherry_outbox *box, bool sole, wherry_error *err);

wherry_code wh_outbox_control(wherry_outbox *box, bool *out_paused, int64_t *out_nudge,
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

/* Does the lease still hold?  WHERRY_STALE: no. */
wherry_code wh_outbox_fence(wherry_outbox *box, const wherry_lease *lease,
			    wherry_error *err);

/* What a step of a relay wants written; all or nothing, under one fence. */
struct wh_settlement {
	const int64_t *done;  /* in ascending order, if there are names */
	const wh_view *names; /* their message ids; NULL: whatever rows have these ids */
	int64_t version; /* wh_db_version() before all of them were read; 0: unknown */
	size_t n_done;
	wherry_on_done on_done;
	const wherry_failure *failed;
	size_t n_failed;
	bool *lost;          /* receives which of those are others' by now; or NULL */
	const int64_t *back; /* claimed, and not tried after all: pending again */
	size_t n_back;
	bool back_failed; /* or failed and due, for relays that take nothing pending */
	int64_t try_id;   /* a suspect to be tried next, 0: none */
	const char *try_name; /* its message id; NULL: not known */
	int32_t try_nth;      /* for which time; 0: not known */
};

/* A settlement that is one statement. */
typedef struct wh_ack {
	size_t n; /* rows it is to change */
	wh_param params[7];
	wh_call call;
} wh_ack;

/* Can what is delivered be acknowledged so, by a relay that leads, in this layout? */
bool wh_outbox_acks(const wherry_outbox *box, const wherry_lease *lease,
		    wherry_on_done on_done);

/* Make it one, if it acknowledges and does nothing else, for a relay that leads, in a layout
 * that has such statements.  It borrows box->ids. */
bool wh_outbox_ack(wherry_outbox *box, const wherry_lease *lease, const wh_settlement *s,
		   wh_ack *out);

/* Did it change every row?  If not, the lease may be gone: ask with wh_outbox_settle(). */
bool wh_outbox_acked(const wh_ack *ack);

/* Where to read on, and how much. */
typedef struct wh_read_from {
	int64_t after, limit;
	const wh_range *holes; /* also these; see wh_outbox_read_late() */
	size_t n_holes;
	bool all_open;
	wh_slots_read *slots; /* these alone, and not the holes; NULL: all */
	bool touched;         /* of those only what was tried, or is wanted again */
} wh_read_from;

/* Read as wh_outbox_read() or wh_outbox_read_late() do, in one round trip with an
 * acknowledgement before it (NULL: none) and wh_outbox_horizon() after it.  Where visit ends
 * it early the horizon is left alone. */
wherry_code wh_outbox_turn(wherry_outbox *box, const wherry_lease *lease, wh_ack *ack,
			   const wh_read_from *from, wh_open_fn visit, void *ctx,
			   bool statements, wh_horizon *horizon, wherry_error *err);

/* Take back what was put on record as the nth attempt of a suspect, by this leader, unless it
 * was changed since. */
wherry_code wh_outbox_untry(wherry_outbox *box, const wherry_lease *lease, int64_t id,
			    const char *name, int32_t nth, wherry_error *err);

/* Rows that changed; under claims, others had been lost. */
typedef struct wh_settled {
	int64_t n;
	int64_t n_done; /* of them */
} wh_settled;

/* out: may be NULL. */
wherry_code wh_outbox_settle(wherry_outbox *box, const wherry_lease *lease,
			     const wh_settlement *s, wh_settled *out, wherry_error *err);

#endif
