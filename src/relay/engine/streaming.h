/*
 * Inside the stream engine: what its files share.
 */
#ifndef WH_RELAY_ENGINE_STREAMING_H
#define WH_RELAY_ENGINE_STREAMING_H

#include "outbox/stream.h"
#include "relay/engine/reader.h"
#include "relay/places.h"

/* A transaction of the stream, in the order of commits. */
typedef struct wh_tx {
	int64_t at;  /* position of its commit */
	int64_t end; /* position behind it; 0: more of it is to come */
	int64_t committed_us;
	int64_t rows; /* that came */
	int64_t open; /* messages that are not delivered yet, nor safe in the table */
	uint32_t xid;
} wh_tx;

/*
 *            connected           the slot is made         all of the table is taken in
 *     OFF ─────────────► MAKING ──────────────────► TABLE ──────────────────► ON
 *      ▲                   │ │                        │                       ▲ │
 *      │                   │ └── nothing of the table is wanted ──────────────┘ │
 *      └───── the connection or the lease is lost ────┴─────────────────────────┘
 *
 *     OFF     no connection.  Where rows are marked, the table is read meanwhile as the
 *             engine exclusive does it; so it is in MAKING.
 *     MAKING  the server makes the replication slot, if there is none.
 *     TABLE   nothing is marked: what was in the table when the slot was made is read.
 *     ON      rows come by the log.
 */
enum { WH_STREAMING_OFF, WH_STREAMING_MAKING, WH_STREAMING_TABLE, WH_STREAMING_ON };

typedef struct wh_streaming {
	wh_reader reader; /* First: see wh_reader_of(). */
	bool unmarked;    /* Nothing is written to rows. */

	wh_wal *wal;
	wh_stream *stream; /* NULL: OFF */
	wh_fsm fsm;
	int64_t begin_by_us; /* when to connect though there is a backlog; 0: not begun */
	int64_t retry_us;    /* when to connect again */
	int failures;
	int64_t look_us; /* when to see how much the server keeps, and what it sends */
	bool lag_logged;
	bool given_up; /* the slot, for what the server kept: not again in this lease */
	bool dropping; /* it, once nobody reads it any more */

	/* Transactions of which something is open, oldest first; number n is the one at
	 * first + n - base. */
	wh_tx *txs;
	size_t first, n, cap;
	uint64_t base;
	bool inside;  /* the last one is still coming, */
	bool cut;     /* but the connection was lost: it comes again, or never; */
	bool look;    /* and its rows are to be looked up */
	int64_t skip; /* rows of it that had come before the connection was lost */

	/* Reading may begin here, once all transactions below this number are over. */
	int64_t ahead;
	int64_t ahead_next; /* 0: not asked */
	int64_t ahead_by_us, ahead_look_us;

	int64_t received;   /* position: all before it is in memory, or settled */
	int64_t delivered;  /* all before it is settled */
	int64_t known;      /* what was committed before it a sweep may have met */
	int64_t unseen_us;  /* so long it was waited for what nobody can see yet */
	int64_t look_up_us; /* and when it is looked up again */
	bool placed;        /* known is; else it is asked for */

	/* A pending row that did not come by the log; 0: none.  Once the log was read up to
	 * this position, it will not come. */
	int64_t missing_id, missing_at;

	/* Rows that a sweep may have met: looked up before they are taken in. */
	int64_t *ids;
	uint64_t *id_txs;
	size_t n_ids;

	/* Where nothing is marked. */
	int64_t last_id;  /* given to a row that has none */
	int64_t written;  /* the position in the database, */
	int64_t write_us; /* and when it may be written again */
	bool fresh;       /* nothing is in the database yet */
	bool streamed; /* In this lease; what the table held before is in memory or settled. */
	bool moved;           /* something was settled since */
	char suspect[64];     /* the message that a relay before this one tried alone, */
	int32_t tries;        /* and how often */
	wh_dead *dead;        /* scratch */
	wh_buf routed;        /* scratch: a topic and headers */
	int64_t committed_us; /* of the transaction that is coming */
	int64_t target_at;    /* Until empty: the end of the WAL at the start. */

	/* Where rows are marked: the order of messages that wait, which is not that of ids. */
	wh_places places;
	int64_t order; /* Place of the last message that was taken in. */
} wh_streaming;

wh_streaming *wh_streaming_of(const wherry_relay *r);

/* streaming_connection.c */
wherry_code wh_streaming_make(wherry_relay *r, bool unmarked, wherry_error *err);
void wh_streaming_free(wherry_relay *r);
wherry_code wh_streaming_attach(wherry_relay *r, wherry_error *err);
void wh_streaming_detach(wherry_relay *r, int64_t now);
void wh_streaming_end(wherry_relay *r); /* the connection, and what came by it */
wherry_code wh_streaming_connect(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_begin(wherry_relay *r, int64_t now, wherry_error *err);
/* The stream broke: it is opened again in a while. */
wherry_code wh_streaming_trouble(wherry_relay *r, int64_t now, wherry_code code,
				 wherry_error *err);
/* Look how far the relay lags behind. */
wherry_code wh_streaming_watch(wherry_relay *r, int64_t now, wherry_error *err);
/* All of the table is taken in: on with the log. */
wherry_code wh_streaming_table_done(wherry_relay *r, int64_t now, wherry_error *err);

/* streaming_missing.c: after a renewal: does the first pending row come by the log? */
wherry_code wh_streaming_missing(wherry_relay *r, int64_t now, wherry_error *err);

/* streaming_intake.c */
wherry_code wh_streaming_pull(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_table(wherry_relay *r, int64_t now, wherry_error *err);
bool wh_streaming_has_room(const wherry_relay *r);
bool wh_streaming_meanwhile(wherry_relay *r, int64_t now, struct pollfd *out);

/* unmarked.c: a row came by the log at this position. */
wherry_code wh_unmarked_meet(wherry_relay *r, const wh_open_row *row, int64_t at,
			     wherry_error *err);

/* streaming.c */
wh_tx *wh_tx_begin(wh_streaming *f, uint32_t xid);   /* NULL: out of memory */
wh_tx *wh_tx_find(wh_streaming *f, uint64_t number); /* NULL: it is settled */
uint64_t wh_tx_last(const wh_streaming *f);          /* its number; 0: there is none */
void wh_tx_advance(wh_streaming *f);         /* forget those of which nothing is open */
bool wh_streaming_on(const wherry_relay *r); /* new rows come by it */
/* A message of the transaction is open; is not any more. */
void wh_streaming_taken(wh_streaming *f, uint64_t number);
void wh_streaming_landed(wh_streaming *f, uint64_t number);
void wh_streaming_admitted(wherry_relay *r, wh_entry *e);
void wh_streaming_left(wherry_relay *r, const wh_entry *e);
int64_t wh_streaming_place(wherry_relay *r, int64_t id);
int64_t wh_streaming_unseen(wherry_relay *r);
wherry_code wh_streaming_swept(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_step(wherry_relay *r, int64_t now, wherry_error *err);
/* Confirm to the server the position up to which everything is delivered. */
wherry_code wh_streaming_confirm(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_finish(wherry_relay *r, int64_t now, wherry_error *err);
int64_t wh_streaming_arrival(const wherry_relay *r, int64_t now);
int wh_streaming_fd(const wherry_relay *r, short *out_events);

/* Functions that all engines that stream share. */
#define WH_STREAMING_FUNCTIONS                                                           \
	.free = wh_streaming_free, .attach = wh_streaming_attach,                        \
	.detach = wh_streaming_detach, .end = wh_streaming_end,                          \
	.admitted = wh_streaming_admitted, .left = wh_streaming_left,                    \
	.place = wh_streaming_place, .is_fed = wh_streaming_on,                          \
	.meanwhile = wh_streaming_meanwhile, .keep_alive = wh_streaming_confirm,         \
	.fd = wh_streaming_fd

#endif
