/*
 * Writes the messages of one entry of cron over one connection, to an outbox, a queue or
 * a delayed queue.
 */
#ifndef WH_DAEMON_TICK_WRITER_H
#define WH_DAEMON_TICK_WRITER_H

#include "cron/cron.h"
#include "daemon/plan.h"
#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"

/* The target under which a cron remembers the ticks of all entries of wherry.yaml.  The
 * names of entries differ, so an entry whose target is changed continues where it was. */
#define WH_TICK_TARGET "wherry run"

/* After this time without a call for an entry, no daemon makes its ticks any more. */
#define WH_TICKS_GONE_US (90 * WH_SECOND)

typedef struct wh_tick_writer {
	const wh_plan_cron *plan;
	wherry_db *db;
	wherry_cron *cron;
	/* plan->to says which of these is open; the others are NULL. */
	wherry_outbox *outbox;
	wherry_queue *queue;
	wherry_delayed *delayed;
	char hash[WHERRY_HASH_LEN + 1]; /* Of the schedule. */
	int64_t last_us;                /* Unix time of the last tick written. */
} wh_tick_writer;

/*
 * Open the tables, and test the message: write it, and roll back.  So a message that the
 * table refuses is an error now, not at its time.
 *
 * @param db  Borrowed until wh_tick_writer_close().
 */
wherry_code wh_tick_writer_open(wh_tick_writer *w, const wh_plan_cron *plan,
				wherry_db *db, wherry_error *err);
void wh_tick_writer_close(wh_tick_writer *w);

/*
 * Write the messages of due ticks, and remember the ticks, in one transaction.  Call it
 * at least every 30 s.
 *
 * @param takes  True: make this schedule the active one of its name.  False: yield to
 *               another active schedule whose ticks a daemon makes; see wh_cron_turn.
 */
wherry_code wh_tick_writer_fire(wh_tick_writer *w, bool takes, wh_cron_turn *out,
				wherry_error *err);

#endif
