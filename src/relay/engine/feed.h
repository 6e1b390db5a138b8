/*
 * Brings new rows of a log from PostgreSQL's WAL, before a look finds them in the table.
 *
 *            caught up             the slot is made          older transactions have ended
 *     OFF ─────────────► MAKING ────────────────────► READY ───────────────────────────► ON
 *      ▲                   │                            │                                │
 *      └───────────────────┴────────────────────────────┴────────────────────────────────┘
 *                       the connection is lost, the relay is paused or far behind
 *
 * The table stays the truth: only looks move the position, and they bring every row that did not come by the
 * WAL.  wh_log.taken has the messages that did; looks pass over them.  So nothing depends on the slot, which
 * is temporary: without it the relay reads the table and makes another one.
 *
 * All functions do nothing if relay.source is not wal.
 */
#ifndef WH_RELAY_ENGINE_FEED_H
#define WH_RELAY_ENGINE_FEED_H

#include "relay/engine/positions.h"

wherry_code wh_feed_make(wherry_relay *r, wherry_error *err);
void wh_feed_free(wherry_relay *r);
/* The database was opened; it is about to be closed. */
wherry_code wh_feed_attach(wherry_relay *r, wherry_error *err);
void wh_feed_detach(wherry_relay *r);
/* The position is read: so are the topics of the subscription. */
wherry_code wh_feed_load(wherry_relay *r, wherry_error *err);
/* Forget what came: the lease is lost. */
void wh_feed_forget(wherry_relay *r);

/* Connect if it is time, and take in what has come.  Returns errors of the table's connection alone. */
wherry_code wh_feed_step(wherry_relay *r, int64_t now, wherry_error *err);
bool wh_feed_is_on(const wherry_relay *r);

/* Is a look due, so that the position covers what has come? */
bool wh_feed_is_due(const wherry_relay *r, int64_t now);
/* A look ended.  found: NULL if it failed. */
void wh_feed_looked(wherry_relay *r, int64_t now, const wh_log_found *found);
/* Is the row of a look one that has come?  The look passes over it. */
bool wh_feed_met(wherry_relay *r, int64_t id, wh_view message_id);

/* A message waits behind another one of its key. */
void wh_feed_noted(wherry_relay *r, int64_t id);

/* A message was taken in that came by the WAL: must the lease be verified before it is submitted? */
bool wh_feed_verifies(wherry_relay *r);
/* The lease was verified. */
void wh_feed_verified(wherry_relay *r, int64_t now);

/* Leave in the list the ids of rows that came and that no statement sees yet: a commit is in the WAL before it is
 * visible. */
wherry_code wh_feed_unseen(wherry_relay *r, int64_t *ids, size_t *inout_n,
			   wherry_error *err);
/* A sweep begins.  It does not see all messages that wait: another one follows when they are visible. */
wherry_code wh_feed_swept(wherry_relay *r, wherry_error *err);

/* The relay ends: write which messages are delivered that the position does not cover. */
wherry_code wh_feed_finish(wherry_relay *r, wherry_error *err);

int64_t wh_feed_deadline(const wherry_relay *r, int64_t now);
int wh_feed_fd(const wherry_relay *r, short *out_events);

#endif
