/*
 * An engine: how rows come in, and how their results are written.
 *
 *     competing    claims rows, beside other relays          competing.c
 *     stream       reads the WAL alone, writes to no row     unmarked.c, streaming*.c
 *     log          reads behind a position, writes to no row positions*.c, reader.c, shares.c
 *
 * The rest of the relay does not know which engine it runs: it calls these functions and
 * reads these properties.  Each engine keeps its state in its own structure, r->state.
 */
#ifndef WH_RELAY_ENGINE_ENGINE_H
#define WH_RELAY_ENGINE_ENGINE_H

#include "outbox/outbox.h"
#include "relay/hold/hold.h"

struct wherry_relay;

/* A function marked "optional" may be NULL: nothing is done then, or the answer is false,
 * unless its comment names another default. */
typedef struct wh_engine_driver {
	wh_engine id;
	const wh_hold *hold;

	/* The result of a message is written to its row. */
	bool writes_rows;
	/* Each row is claimed with the relay's token, which fences it; other
	 * relays claim other rows. */
	bool claims_rows;
	/* The attempt of a suspect is recorded in its row before the suspect is
	 * submitted, and removed if it was not made. */
	bool records_attempts;
	/* Suspects are tried in groups, which become smaller with each unclean end; see
	 * docs/internals/suspects.md. */
	bool groups_suspects;
	/* A position says which messages are delivered, so that the relay marks none.  A handler
	 * marks its message. */
	bool covers;
	/* A relay tries to take a lease although another relay has one: the attempt shows
	 * whether both can work. */
	bool joins_leader;

	/* ---- the state ---- */

	/* Make the state. */
	wherry_code (*make)(struct wherry_relay *r, wherry_error *err);
	void (*free)(struct wherry_relay *r);
	/* The table was opened, for the first time or again.  Optional. */
	wherry_code (*attach)(struct wherry_relay *r, wherry_error *err);
	/* The table is about to be closed and reopened.  Optional. */
	void (*detach)(struct wherry_relay *r, int64_t now);
	/* The database was reopened: go on with the messages in memory.  Optional. */
	void (*resume)(struct wherry_relay *r, int64_t now);
	/* The database file was replaced: forget what came from the old one.  Optional. */
	void (*replaced)(struct wherry_relay *r);

	/* ---- the lease ---- */

	/* Take the lease.  Optional; default: wh_store_lease_as(). */
	wherry_code (*take)(struct wherry_relay *r, wherry_error *err);
	/* The lease was taken: begin to read or claim.  Optional. */
	void (*begin)(struct wherry_relay *r, int64_t now);
	/* The id, or WAL position, up to which messages may have been in flight when the
	 * last relay crashed.  Optional; default: all may be suspects. */
	wherry_code (*suspects)(struct wherry_relay *r, int64_t *out_upto,
				wherry_error *err);
	/* Are all suspects delivered or dead?  Optional; default: unknown, so false. */
	bool (*no_suspects_left)(const struct wherry_relay *r);
	/* Was this ready message read after all suspects?  Optional. */
	bool (*is_unsuspected)(const struct wherry_relay *r, const struct wh_entry *e);
	/* Renew the lease.  Optional; default: wh_store_renew(). */
	wherry_code (*renew)(struct wherry_relay *r, wherry_lease *inout,
			     wherry_error *err);
	/* r->lease was renewed; its control version was `version` before. */
	wherry_code (*renewed)(struct wherry_relay *r, int64_t now, int64_t version,
			       wherry_error *err);
	/* The lease was lost.  Optional. */
	void (*lost)(struct wherry_relay *r);
	/* Forget what was read; called when nothing is in memory any more. */
	void (*forget)(struct wherry_relay *r);
	/* The lease was lost and nothing is in flight any more: end reading.
	 * Optional. */
	void (*end)(struct wherry_relay *r);

	/* ---- taking rows in ---- */

	/* Read or claim as many rows as there is room for. */
	wherry_code (*fetch)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* Is the engine giving up a part of the outbox, so that nothing new may be
	 * submitted?  Optional. */
	bool (*yields)(const struct wherry_relay *r);
	/* May other relays work on the outbox at the same time?  Optional. */
	bool (*is_partial)(const struct wherry_relay *r);
	/* Do new rows arrive by themselves, so that no commit need wake the relay?  Optional. */
	bool (*is_fed)(const struct wherry_relay *r);
	/* The place of a row in the order of delivery.  Optional; default: its id. */
	int64_t (*place)(struct wherry_relay *r, int64_t id);
	/* A message was taken into memory, or has left it.  Optional. */
	void (*admitted)(struct wherry_relay *r, struct wh_entry *e);
	void (*left)(struct wherry_relay *r, const struct wh_entry *e);
	/* A row waits behind its key, and is not in memory (any more).  tx: as wh_entry.tx.  Optional. */
	void (*noted)(struct wherry_relay *r, int64_t id, uint64_t tx);
	/* Leave in the list the ids of rows that no statement sees yet, although they have come.  Optional; default:
	 * none. */
	wherry_code (*unseen)(struct wherry_relay *r, int64_t *ids, size_t *inout_n,
			      wherry_error *err);
	/* Ask whether the outbox is paused, and for its control version.  Optional;
	 * default: wh_store_control(). */
	wherry_code (*control)(struct wherry_relay *r, bool *out_paused,
			       int64_t *out_version, wherry_error *err);
	/* The control version has changed.  Optional. */
	void (*changed)(struct wherry_relay *r, int64_t now);

	/* ---- results ---- */

	/*
	 * Write the results of settled messages, and the attempt of try_next (or NULL),
	 * which is submitted next.  Optional; default: wh_settle_write().
	 */
	wherry_code (*acknowledge)(struct wherry_relay *r,
				   const struct wh_entry *try_next, wh_settlement *s,
				   wh_settled *out, wherry_error *err);
	/* The row of a failed message was not found when its failure was
	 * written.  Optional. */
	void (*row_lost)(struct wherry_relay *r);
	/* Results were written.  Optional. */
	void (*written)(struct wherry_relay *r);
	/* Called at the end of a step that wrote the results that were due.  Optional. */
	wherry_code (*progress)(struct wherry_relay *r, int64_t now, wherry_error *err);

	/* ---- ending ---- */

	/* Called at each step of DRAINING: give back messages that were not
	 * submitted.  Optional. */
	void (*release_unsubmitted)(struct wherry_relay *r);
	/* Called while DRAINING waits for receipts and reads nothing.  Optional. */
	wherry_code (*keep_alive)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* All results are written, and the lease will be given back.  Optional. */
	wherry_code (*finish)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* The stop time-out is over, and messages are in flight.  Optional. */
	wherry_code (*give_up)(struct wherry_relay *r, int64_t now, wherry_error *err);
	/* Until empty: set what must be delivered (optional; default: all up to the
	 * highest open id), and end the run if it is delivered. */
	wherry_code (*aim)(struct wherry_relay *r, wherry_error *err);
	wherry_code (*until_empty)(struct wherry_relay *r, int64_t now,
				   wherry_error *err);

	/* ---- when to step, and for what to wait ---- */

	int64_t (*deadline)(const struct wherry_relay *r,
			    int64_t now); /* Used in the state LEADING. */
	int (*fd)(const struct wherry_relay *r, short *out_events); /* Optional. */
} wh_engine_driver;

extern const wh_engine_driver wh_engine_competing, wh_engine_stream, wh_engine_positions,
	wh_engine_positions_shared;

/* The engine of the table's layout.  The partitions of a table are not looked at. */
wh_engine wh_engine_for(const wh_store *store);

/* Choose the engine for the outbox as it is now.  It does not change while a
 * lease is held. */
wherry_code wh_engine_choose(struct wherry_relay *r, wherry_error *err);

#endif
