/*
 * Inside the engine stream: declarations that its files share.
 */
#ifndef WH_RELAY_ENGINE_STREAMING_H
#define WH_RELAY_ENGINE_STREAMING_H

#include "outbox/stream.h"
#include "relay/engine/engine.h"
#include "relay/relay.h"

/* A committed transaction of the stream. */
typedef struct wh_tx {
	int64_t at; /* WAL position of its commit record. */
	/* WAL position after the transaction; 0: some of its rows are still to come. */
	int64_t end;
	int64_t committed_us;
	int64_t rows; /* Rows that have come. */
	int64_t open; /* Messages in memory. */
	uint32_t xid;
} wh_tx;

/*
 *            connected           the slot is made         the table is taken in
 *     OFF ─────────────► MAKING ──────────────────► TABLE ──────────────────► ON
 *      ▲                   │ │                        │                       ▲ │
 *      │                   │ └── the table need not be read ──────────────────┘ │
 *      └───── the connection or the lease is lost ────┴─────────────────────────┘
 *
 *     OFF     there is no connection.
 *     MAKING  the server makes the replication slot, if there is none.
 *     TABLE   reads the rows that were visible when the slot was made.
 *     ON      rows come by the stream.
 */
enum { WH_STREAMING_OFF, WH_STREAMING_MAKING, WH_STREAMING_TABLE, WH_STREAMING_ON };

typedef struct wh_streaming {
	wh_wal *wal;
	wh_stream *stream; /* NULL: the state is OFF. */
	wh_fsm fsm;
	int64_t retry_us; /* When to connect again. */
	int failures;
	/* When to ask how much WAL the server keeps, and whether it sends all columns. */
	int64_t look_us;
	bool lag_logged;
	int64_t standbys_us; /* When to ask whether commits wait for a standby. */

	/* Transactions that are not settled, oldest first.  Number n is
	 * txs[first + n - base]. */
	wh_tx *txs;
	size_t first, n, cap;
	uint64_t base;
	bool inside; /* The last transaction is still coming. */
	/* The connection was lost inside the last transaction: it comes again,
	 * or never. */
	bool cut;
	/* Rows of that transaction to skip, because they came before the
	 * connection was lost. */
	int64_t skip;

	uint64_t taking; /* Number of the transaction whose rows come; 0: none. */

	/* WAL position: everything before it is in memory, or settled. */
	int64_t received;
	int64_t delivered; /* WAL position: everything before it is settled. */
	int64_t last_id;   /* Last id that was given to a row, in a table without ids. */
	int64_t written;   /* The WAL position that is written in the database. */
	int64_t write_us;  /* When the position may be written again. */
	bool fresh;        /* No position is in the database yet. */
	/* Streaming has begun under this lease: all older rows are in memory or
	 * settled. */
	bool streamed;
	/* This relay has streamed: it goes on from there, whatever stream.from asked for at its start. */
	bool began;
	bool moved; /* Something was settled since the position was written. */
	/* Message id of the message that an earlier relay tried alone; "": none. */
	char suspect[64];
	int32_t tries; /* How often it was tried alone. */
	wh_dead *dead; /* Scratch: dead messages. */
	wh_buf routed; /* Scratch: a topic and headers. */
	/* Unix time of the commit of the transaction that is coming. */
	int64_t committed_us;
	int64_t target_at; /* Until empty: the end of the WAL at the start. */

	int64_t order; /* Place of the last message that was taken in. */
} wh_streaming;

wh_streaming *wh_streaming_of(const wherry_relay *r);

/* streaming_connection.c */
wherry_code wh_streaming_make(wherry_relay *r, wherry_error *err);
void wh_streaming_free(wherry_relay *r);
wherry_code wh_streaming_attach(wherry_relay *r, wherry_error *err);
void wh_streaming_detach(wherry_relay *r, int64_t now);
/* Close the connection, and forget the transactions that came by it. */
void wh_streaming_end(wherry_relay *r);
wherry_code wh_streaming_connect(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_begin(wherry_relay *r, int64_t now, wherry_error *err);
/* The stream failed: close it, and connect again after a delay.  Returns an error only if
 * the relay cannot go on. */
wherry_code wh_streaming_trouble(wherry_relay *r, int64_t now, wherry_code code,
				 wherry_error *err);
/* When it is time, ask how much WAL the server keeps, and whether it sends all rows.  The relay
 * asks while it is idle, too, because no pending row shows that rows do not come. */
wherry_code wh_streaming_watch(wherry_relay *r, int64_t now, wherry_error *err);
/* All rows of the table are taken in: start the stream. */
wherry_code wh_streaming_table_done(wherry_relay *r, int64_t now, wherry_error *err);

/* streaming_intake.c */
wherry_code wh_streaming_pull(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_table(wherry_relay *r, int64_t now, wherry_error *err);
bool wh_streaming_has_room(const wherry_relay *r);

/* unmarked.c: the stream brought a row at this WAL position. */
wherry_code wh_unmarked_meet(wherry_relay *r, const wh_open_row *row, int64_t at,
			     wherry_error *err);

/* streaming.c */
wh_tx *wh_tx_begin(wh_streaming *f, uint32_t xid);   /* NULL: out of memory */
wh_tx *wh_tx_find(wh_streaming *f, uint64_t number); /* NULL: it is settled. */
uint64_t wh_tx_last(const wh_streaming *f); /* Number of the last transaction; 0: none. */
/* Forget settled transactions at the front, and advance `delivered`. */
void wh_tx_advance(wh_streaming *f);
int64_t wh_streaming_safe(const wh_streaming *f);
bool wh_streaming_on(const wherry_relay *r); /* The state is ON. */
/* A message of the transaction was taken in; is settled, or safe in the table. */
void wh_streaming_taken(wh_streaming *f, uint64_t number);
void wh_streaming_landed(wh_streaming *f, uint64_t number);
void wh_streaming_admitted(wherry_relay *r, wh_entry *e);
void wh_streaming_left(wherry_relay *r, const wh_entry *e);
int64_t wh_streaming_place(wherry_relay *r, int64_t id);
wherry_code wh_streaming_step(wherry_relay *r, int64_t now, wherry_error *err);
/* Confirm to the server the position up to which everything is delivered. */
wherry_code wh_streaming_confirm(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_finish(wherry_relay *r, int64_t now, wherry_error *err);
int64_t wh_streaming_arrival(const wherry_relay *r, int64_t now);
int wh_streaming_fd(const wherry_relay *r, short *out_events);

#endif
