/*
 * An engine: how rows come in, and how their results are written.
 *
 *     exclusive    reads the table                          reader.c
 *     partitioned  the same, of a share of the keys         partitioned.c
 *     competing    claims rows, beside other relays         competing.c
 *     stream       reads the WAL beside the table           streaming*.c, reader.c
 *     unmarked     reads the WAL alone, writes to no row    unmarked.c, streaming*.c
 *
 * The rest of the relay does not know which engine it runs: it calls these functions and reads
 * these properties.  Each engine keeps its state in its own structure, r->state.
 */
#ifndef WH_RELAY_ENGINE_ENGINE_H
#define WH_RELAY_ENGINE_ENGINE_H

#include "outbox/outbox.h"
#include "relay/hold/hold.h"

struct pollfd;
struct wherry_relay;

/* Functions marked "optional" may be NULL: then nothing is done, or the answer is false. */
typedef struct wh_engine_driver {
	wh_engine id;
	const wh_hold *hold;

	/* The result of a message is written to its row. */
	bool writes_rows;
	/* Each row is claimed by a token: it fences the row, other relays have others. */
	bool claims_rows;
	/* The attempt of a suspect is written to its row before it is submitted, and taken back
	 * if it was not made. */
	bool records_attempts;
	/* Taking the lease says whether there is a place beside the relay that has one. */
	bool joins_leader;
	/* The read of the next step leaves time to submit what is ready. */
	bool submits_while_reading;

	/* ---- the state ---- */

	/* Make the state. */
	wherry_code (*make)(struct wherry_relay *r, wherry_error *err);
	void (*free)(struct wherry_relay *r);
	/* The outbox was opened, for the first time or again.  Optional. */
	wherry_code (*attach)(struct wherry_relay *r, wherry_error *err);
	/* The outbox is about to be closed, to be opened again.  Optional. */
	void (*detach)(struct wherry_relay *r, int64_t now);
	/* After attach, if messages are in memory from before: go on.  Optional. */
	void (*resume)(struct wherry_relay *r, int64_t now);
	/* The database file was replaced: forget what came from the old one.  Optional. */
	void (*replaced)(struct wherry_relay *r);

	/* ---- the lease ---- */

	/* Take the lease.  Optional: by wh_store_lease_as(). */
	wherry_code (*take)(struct wherry_relay *r, wherry_error *err);
	/* The lease was taken: begin to read.  Optional. */
	void (*begin)(struct wherry_relay *r, int64_t now);
	/* Messages up to which id (or position of the log) the last relay may have had in flight
	 * when it crashed.  Optional: all may be suspects. */
	wherry_code (*suspects)(struct wherry_relay *r, int64_t *out_upto,
				wherry_error *err);
	/* Are all suspects delivered or dead?  Optional: that is never known. */
	bool (*proven)(const struct wherry_relay *r);
	/* Was this ready message read after all suspects?  Optional. */
	bool (*is_unsuspected)(const struct wherry_relay *r, const struct wh_entry *e);
	/* Optional: by wherry_outbox_renew(). */
	wherry_code (*renew)(struct wherry_relay *r, wherry_lease *inout,
			     wherry_error *err);
	/* r->lease was renewed; its control version was `version` before. */
	wherry_code (*renewed)(struct wherry_relay *r, int64_t now, int64_t version,
			       wherry_error *err);
	void (*lost)(struct wherry_relay *r);   /* the lease; optional */
	void (*forget)(struct wherry_relay *r); /* all that was read */
	void (*end)(struct wherry_relay *r);    /* after a lost lease; optional */

	/* ---- rows come in ---- */

	/* Read or claim what there is room for. */
	wherry_code (*fetch)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* Will the next fetch read from the table, so that an acknowledgement can travel with
	 * it?  Optional. */
	bool (*reads_next)(const struct wherry_relay *r, int64_t now);
	/* Rows that arrive without asking the database; it is at work meanwhile.  True: there
	 * may be more; *out: what to wait for.  Optional. */
	bool (*meanwhile)(struct wherry_relay *r, int64_t now, struct pollfd *out);
	/* Gives up a part of the outbox: nothing new is submitted until it has.  Optional. */
	bool (*yields)(const struct wherry_relay *r);
	/* May other relays work on the outbox at the same time?  Optional. */
	bool (*is_partial)(const struct wherry_relay *r);
	/* Do new rows arrive by themselves, so that no commit need wake the relay?  Optional. */
	bool (*is_fed)(const struct wherry_relay *r);
	/* Where a row is in the order of delivery.  Optional: by its id. */
	int64_t (*place)(struct wherry_relay *r, int64_t id);
	/* A message was taken into memory, has left it.  Optional. */
	void (*admitted)(struct wherry_relay *r, struct wh_entry *e);
	void (*left)(struct wherry_relay *r, const struct wh_entry *e);
	/* Ask whether the outbox is paused, and for its control version.  Optional: by
	 * wh_store_control(). */
	wherry_code (*control)(struct wherry_relay *r, bool *out_paused,
			       int64_t *out_version, wherry_error *err);
	/* The control version is another.  Optional. */
	void (*changed)(struct wherry_relay *r, int64_t now);

	/* ---- what became of them ---- */

	/*
	 * Write what is settled, and that try_next (or NULL) is submitted next.  Optional: by
	 * wh_settle_write().
	 *
	 * @param out_later_us  Receives, if > 0, how long to wait: nothing was written yet.
	 */
	wherry_code (*acknowledge)(struct wherry_relay *r,
				   const struct wh_entry *try_next, wh_settlement *s,
				   wh_settled *out, int64_t *out_later_us,
				   wherry_error *err);
	/* The row of a message that failed was not there to be written.  Optional. */
	void (*row_lost)(struct wherry_relay *r);
	/* Rows of delivered messages were not there to be acknowledged.  Optional. */
	void (*missed)(struct wherry_relay *r, int64_t n, int64_t now);
	/* Something was written.  Optional. */
	void (*written)(struct wherry_relay *r);
	/* At the end of a step that acknowledged what was due.  Optional. */
	wherry_code (*progress)(struct wherry_relay *r, int64_t now, wherry_error *err);

	/* ---- ending ---- */

	/* Give back what is in memory and was not submitted.  Optional. */
	void (*let_go)(struct wherry_relay *r);
	/* While messages are in flight and nothing is read.  Optional. */
	wherry_code (*keep_alive)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* All is written, the lease will be given back.  Optional. */
	wherry_code (*finish)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* Until empty: what is to be delivered (optional: up to the last open id), and whether
	 * it is. */
	wherry_code (*aim)(struct wherry_relay *r, wherry_error *err);
	wherry_code (*until_empty)(struct wherry_relay *r, int64_t now,
				   wherry_error *err);

	/* ---- when to step, and for what to wait ---- */

	int64_t (*deadline)(const struct wherry_relay *r,
			    int64_t now);                           /* while leading */
	int (*fd)(const struct wherry_relay *r, short *out_events); /* optional */
} wh_engine_driver;

extern const wh_engine_driver wh_engine_exclusive, wh_engine_partitioned,
	wh_engine_competing, wh_engine_stream, wh_engine_unmarked;

/* Choose the engine for the outbox as it is; it stays the same while a lease is held. */
wherry_code wh_engine_choose(struct wherry_relay *r, wherry_error *err);

#endif
